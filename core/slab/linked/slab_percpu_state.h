/*
 * slab_percpu_state.h - the slot that one CPU keeps for each object cache: the slab that it
 * allocates from, and the free objects of that slab that are its own.
 *
 * Only its own CPU changes a slot: fast paths as their strategy does, slow paths with interrupts
 * off. `id` changes with each change of the slot and never repeats on another CPU (it counts up by
 * VL_CPUS_MAX from the CPU's number), so that a compare-and-exchange of {list, id} fails whenever
 * anything happened since they were read, be it an interrupt or a move to another CPU.
 */
#ifndef VLI_SLAB_PERCPU_STATE_H
#define VLI_SLAB_PERCPU_STATE_H

#include <stdatomic.h>
#include <vellum/types.h>

/* Caches that can exist at once, kmalloc's among them. */
#define VLI_CACHES_MAX 128u

struct vli_slab_slot {
    _Alignas(16) _Atomic uintptr_t list; /* first free unit, 0 for none (local1: see there) */
    _Atomic uint64_t id;
    _Atomic uintptr_t base;  /* first byte of the slab */
    _Atomic uintptr_t bytes; /* its length; 0 when there is no slab */
};

/* A CPU's own partial slabs, to use when its slot's is used up: head frames, linked by next.
 * Changed by its CPU alone, with interrupts off. */
struct vli_slab_spare {
    uint32_t first; /* of meaning where there is one */
    uint32_t count;
};

struct vli_slab_percpu {
    struct vli_slab_slot slot[VLI_CACHES_MAX];
    struct vli_slab_spare spare[VLI_CACHES_MAX];
};

#endif
