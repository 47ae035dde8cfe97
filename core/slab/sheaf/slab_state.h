/*
 * slab_state.h (sheaf) - what a cache keeps of its slabs and sheaves.
 *
 *      CPU: sheaf in use <──> spare <──> home: barn of full and empty sheaves <──> slabs: bits of
 *                                                                                  free units
 *
 * A fast path moves one unit; a slow path exchanges whole sheaves, and fills or empties one from or
 * into slabs only when the barn, too, has none to exchange.
 *
 * A cache has several homes, each with a barn, slabs and one lock over them, taken once for a
 * batch. A CPU works with the home of its number, so that CPUs do not meet at a lock while each
 * frees what it allocated; homes.c has what they do for each other.
 *
 * A slab's free units are bits in its frames' descriptors, or, where there are more units than
 * those have room for, at its own end; never links in the units, which stay untouched while they
 * are free. A unit whose bit is set already when it comes back was freed twice.
 *
 * Slabs with a free unit are in their home's list, those of which every unit is free at its end.
 */
#ifndef VLI_SLAB_STATE_H
#define VLI_SLAB_STATE_H

#include <stdatomic.h>
#include "core/base/spinlock.h"

/* The host contract names no memory nodes; a cache has one of these for the day when it does, each
 * with homes of its own. */
#define VLI_SLAB_NODES 1u

/* Most homes of a cache, a power of 2. Only those that the CPUs need are ever touched. */
#if VL_SMP
#define VLI_SLAB_HOMES 8u
#else
#define VLI_SLAB_HOMES 1u
#endif

/* Whose list of slabs partial.h keeps. */
#define VLI_PARTIAL_OWNER vli_slab_home

/* Nothing stands in a free unit. */
#define VLI_SLAB_LINK_BYTES 0u

/* How a slab of one order is divided. */
struct vli_slab_shape {
    uint32_t units;
    uint32_t bits_at; /* offset of the bits from the slab's start; 0: in the descriptors */
};

/* (L): lock. What an exchange of sheaves changes is one cache line, and has nothing else in it. All
 * zeros: a home with nothing. */
struct vli_slab_home {
    VLI_ALIGNED(64) struct vli_spinlock lock;
    uint32_t partial;       /* (L) head frame of the first slab with a free unit */
    uint32_t partial_last;  /* (L) both: of meaning when there is one */
    uint32_t partial_count; /* (L) */
    uint32_t empty_count;   /* (L) of these, those with no unit in use: the last ones */
    uint32_t full_count;    /* (L) sheaves in the barn */
    uint32_t full_units;    /* (L) in the full sheaves */
    uint16_t vacant_count;  /* (L) */
    uint16_t borrowed;      /* (L) sheaves of others' units that its barn may keep (barn.c) */
    uint64_t units;         /* (L) of all its slabs, in any state */
    uint64_t units_free;    /* (L) bits set, in the slabs of the list */
    uintptr_t full;         /* (L) block of the first full sheaf, 0 for none; links: word 0 */
    uintptr_t vacant;       /* (L) the same of empty ones */
};
_Static_assert(sizeof(struct vli_slab_home) == 64, "one cache line");

/* What is one for all homes; fixed at creation but for the atomic ones, which are relaxed. */
struct vli_slab_node {
    VLI_ALIGNED(64) uint64_t reciprocal;    /* 2^32 / unit_bytes, rounded up */
    struct vli_slab_home *home;             /* number 0; the others: vli_home_at() */
    struct vli_slab_shape shape[2];         /* of the cache's order, and of its order_min */
    uint32_t empty_max;                     /* slabs with no unit in use that a home keeps */
    uint32_t full_max;                      /* units in full sheaves that a barn keeps */
    uint32_t capacity_min;                  /* least units that a sheaf has room for */
    uint32_t capacity_max;                  /* most; 0: no CPU keeps any */
    _Atomic uint32_t homes;                 /* a bit for each that ever had a slab */
    _Atomic uint32_t capacity;              /* of a new sheaf; changes with the slabs */
    _Atomic uint32_t vacant_max;            /* empty sheaves that a barn keeps; the same */
    VLI_ALIGNED(64) _Atomic uint64_t slabs; /* of all homes, in any state */
    _Atomic uint64_t units;                 /* in them */
    _Atomic uint64_t frames;
    _Atomic uint64_t units_in_hand; /* of full sheaves on the way from a barn to the slabs */
};

#endif
