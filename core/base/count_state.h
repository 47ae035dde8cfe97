/*
 * count_state.h - what a CPU counts: events, and pages of a kind as differences.
 */
#ifndef VLI_COUNT_STATE_H
#define VLI_COUNT_STATE_H

#include <stdatomic.h>
#include <vellum/types.h>

enum vli_count {
    VLI_COUNT_ALLOC,   /* frames handed out */
    VLI_COUNT_FREE,    /* frames given back */
    VLI_COUNT_FAULT,   /* faults of all spaces */
    VLI_COUNT_FILE,    /* pages in objects, those of shared anonymous memory included */
    VLI_COUNT_SHARED,  /* pages of shared anonymous memory */
    VLI_COUNT_KMALLOC, /* frames that vl_kmalloc() handed out whole */
    VLI_COUNTS
};

struct vli_count_percpu {
    _Atomic uint64_t value[VLI_COUNTS];
};

#endif
