/*
 * slab_state.h (linked) - the lists of slabs of a node, and the word of a slab.
 *
 * A free unit's first word is the address of the next free one. A slab is in one of these states (W
 * is the word in its head frame's descriptor):
 *
 *      current  W.frozen: it is some CPU's slot's. Free units are in two lists: the slot's, which
 *               that CPU alone uses, and W's, where all others put what they free.
 *      partial  not frozen, W.free > 0: in its node's list of partial slabs.
 *      full     not frozen, W.free == 0: in no list; the first unit freed makes it partial.
 *
 *      new ─────> current ─────────> full ──────> partial ──────> current
 *                    └─────────────────────────────┘  └─────────> given back, when all is free
 *
 *      spare    frozen, in its CPU's own list: it was full, and that CPU freed the first unit. Free
 *               units are in W's list only, where all put what they free.
 *
 * (Spare: current <── spare <── full; those that are too many become partial, all by one lock.)
 *
 * W changes by compare-and-exchange from anywhere; the changes that move a slab into or out of the
 * partial list are made under the node's lock, together with the list. So freeing a unit of another
 * CPU's slab takes no lock but at these transitions.
 *
 * This is the structure of SLUB (Lameter, linux-kernel 2007) with these departures: the list head
 * in W is an offset, so that list, counts and state fit one word of 8 bytes and need no 16-byte
 * locked operation; a slot names its slab by address and length, so that the freeing fast path
 * compares the address and reads nothing of the cache; the index of the cache stands in the
 * descriptor's flags, so that vl_kfree() reads one word of one descriptor.
 *
 * Of the head frame: owner: the cache; next and prev: links of the partial list; mappings and
 * index_low: W.
 */
#ifndef VLI_SLAB_STATE_H
#define VLI_SLAB_STATE_H

#include <stdatomic.h>
#include "core/base/spinlock.h"

/* The host contract names no memory nodes; the lists are per node for the day when it does. */
#define VLI_SLAB_NODES 1u

/* Empty slabs that a node's partial list keeps while nobody asks for memory back. */
#if defined(VL_HOST_SLABS_KEPT)
#define VLI_SLAB_KEPT VL_HOST_SLABS_KEPT
#else
#define VLI_SLAB_KEPT 4u
#endif

/* A CPU keeps partial slabs of its own with so many of the cache's units in them at most, in use or
 * not: what it keeps from others stays in proportion. */
#define VLI_SLAB_SPARE_SHARE 32u
/* So many slabs at most. In a process none: there is nobody who could put two words right at once.
 */
#if defined(VL_HOST_RSEQ)
#define VLI_SLAB_SPARE_MAX 0u
#else
#define VLI_SLAB_SPARE_MAX 8u
#endif

/* (L): lock. */
struct vli_slab_node {
    struct vli_spinlock lock;
    uint32_t partial;       /* (L) head frame of the first partial slab, or LINK_NONE */
    uint32_t partial_last;  /* (L) */
    uint32_t partial_count; /* (L) */
    uint32_t empty_count;   /* (L) of these, those with no unit in use: the last ones */
    _Atomic uint64_t slabs; /* of this node, in any state; relaxed */
    _Atomic uint64_t units; /* in them */
    _Atomic uint64_t frames;
    _Atomic uint32_t spare_max; /* slabs that a CPU keeps; changes with the slabs; relaxed */
};

/* A free unit's link stands in its first word, and must not spoil what a constructor made. */
#define VLI_SLAB_LINK_BYTES ((uint32_t)sizeof(uintptr_t))

#endif
