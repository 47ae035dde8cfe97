/*
 * slab_state.h (sheaf) - what a cache keeps of its slabs and sheaves.
 *
 *      CPU: sheaf in use <──> spare <──> barn: full and empty sheaves <──> slabs: bits of free
 * units
 *
 * A fast path moves one unit; a slow path exchanges whole sheaves, and fills or empties one from or
 * into slabs only when the barn, too, has none to exchange. All of the barn and of the slabs is
 * under one lock, taken once for a batch.
 *
 * A slab's free units are bits in its frames' descriptors, or, where there are more units than
 * those have room for, at its own end; never links in the units, which stay untouched while they
 * are free. A unit whose bit is set already when it comes back was freed twice.
 *
 * Slabs with a free unit are in the list, those of which every unit is free at its end.
 */
#ifndef VLI_SLAB_STATE_H
#define VLI_SLAB_STATE_H

#include <stdatomic.h>
#include "core/base/spinlock.h"

/* The host contract names no memory nodes; the lists are per node for the day when it does. */
#define VLI_SLAB_NODES 1u

/* Nothing stands in a free unit. */
#define VLI_SLAB_LINK_BYTES 0u

/* How a slab of one order is divided. */
struct vli_slab_shape {
    uint32_t units;
    uint32_t bits_at; /* offset of the bits from the slab's start; 0: in the descriptors */
};

/* (L): lock; the rest is fixed at creation. What an exchange of sheaves changes is one cache line,
 * which CPUs throw to each other, and has nothing else in it. */
struct vli_slab_node {
    VLI_ALIGNED(64) struct vli_spinlock lock;
    uint32_t partial;       /* (L) head frame of the first slab with a free unit, or LINK_NONE */
    uint32_t partial_last;  /* (L) */
    uint32_t partial_count; /* (L) */
    uint32_t empty_count;   /* (L) of these, those with no unit in use: the last ones */
    uint32_t full_count;    /* (L) sheaves in the barn */
    uint32_t vacant_count;  /* (L) */
    uint32_t capacity_min;  /* least units that a sheaf has room for */
    uint64_t units_free;    /* (L) bits set, in all slabs */
    uintptr_t full;         /* (L) block of the first full sheaf, 0 for none; links: word 0 */
    uintptr_t vacant;       /* (L) the same of empty ones */
    uint32_t capacity_max;  /* most; 0: no CPU keeps any */
    VLI_ALIGNED(64) uint64_t reciprocal; /* 2^32 / unit_bytes, rounded up */
    uint32_t unit_bytes;
    uint32_t full_max;              /* (L) most sheaves in the barn; changes with the slabs */
    _Atomic uint32_t capacity;      /* units that a new sheaf has room for; as full_max */
    struct vli_slab_shape shape[2]; /* of the cache's order, and of its order_min */
    _Atomic uint64_t slabs;         /* of this node, in any state; relaxed */
    _Atomic uint64_t units;         /* in them */
    _Atomic uint64_t frames;
};

#endif
