/*
 * slab_percpu_state.h - the slots that one CPU keeps for each object cache.
 */
#ifndef VLI_SLAB_PERCPU_STATE_H
#define VLI_SLAB_PERCPU_STATE_H

#include <stdatomic.h>
#include <vellum/types.h>

/* Caches that can exist at once, kmalloc's among them. */
#define VLI_CACHES_MAX 128u

/* Changed as one 16-byte unit by the `local` strategy. */
struct vli_slab_slot {
    _Alignas(16) void *freelist;
    uint64_t id;
};

struct vli_slab_percpu {
    struct vli_slab_slot slot[VLI_CACHES_MAX];
};

#endif
