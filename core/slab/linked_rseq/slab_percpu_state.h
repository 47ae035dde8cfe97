/*
 * slab_percpu_state.h (linked_rseq) - what a CPU, or a thread, of a process keeps of each object
 * cache: the free list of one slab, in one word (arch/rseq_list.h).
 */
#ifndef VLI_SLAB_PERCPU_STATE_H
#define VLI_SLAB_PERCPU_STATE_H

#include <stdatomic.h>
#include <vellum/types.h>

/* Caches that can exist at once, kmalloc's among them. */
#define VLI_CACHES_MAX 128u

struct vli_slab_percpu {
    _Atomic uintptr_t list[VLI_CACHES_MAX];
};

#endif
