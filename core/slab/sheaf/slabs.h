/*
 * slabs.h (sheaf) - units in batches, from and to a cache's slabs, under the locks of their homes.
 *
 * slabs.c: units come out and go back. supply.c: slabs come and go. homes.c: what homes do for each
 * other. purge.c: pages of free units. barn.c and sheaf.c, above them, exchange sheaves.
 */
#ifndef VLI_SLABS_H
#define VLI_SLABS_H

#include "core/slab/slab.h"

/* What a host may set otherwise, in the header that VL_HOST_INLINE names: bytes of units that a
 * sheaf holds at most; full and empty sheaves in a barn, the share of a cache's units that the full
 * ones may hold (1: all), and how many bytes of units; slabs without a unit in use that a cache
 * keeps while nobody asks for memory back (each home one at least). */
#if !defined(VL_HOST_SHEAF_BYTES)
#define VL_HOST_SHEAF_BYTES     65536u
#define VL_HOST_SHEAF_BYTES_MIN 4096u
#endif
#if !defined(VL_HOST_BARN_FULL)
#define VL_HOST_BARN_FULL   16u
#define VL_HOST_BARN_SHARE  32u
#define VL_HOST_BARN_BYTES  (1u << 20)
#define VL_HOST_BARN_VACANT 4u
#endif
/* What the try for a slab of the best order does not do: it does not wait for memory to be
 * reclaimed, rather takes a smaller slab. Where memory grows on demand, it does. */
#if !defined(VL_HOST_SLAB_TRIES_WITHOUT)
#define VL_HOST_SLAB_TRIES_WITHOUT VL_WAIT
#endif
/* How a new sheaf is asked for. Where memory grows on demand and every context may ask for it: with
 * VL_WAIT, or a heap that is just full serves each unit by itself. */
#if !defined(VL_HOST_SHEAF_HOW)
#define VL_HOST_SHEAF_HOW (VL_ATOMIC | VL_MAY_FAIL)
#endif
#if !defined(VL_HOST_SLABS_KEPT)
#define VL_HOST_SLABS_KEPT 4u
#endif

/* -------------------------------------------------------------------------------------- homes */

/* Beside a home's number: the slab is on its way there. */
#define VLI_HOME_MOVES 0x8000u

/* Of all caches, one home's together: CPUs with different numbers share no line, nor one beside. */
extern struct vli_slab_home vli_slab_homes[VLI_SLAB_HOMES][VLI_CACHES_MAX] VLI_HIDDEN;

/* Homes that are in use, less 1: a power of 2, less 1. */
extern uint32_t vli_homes_mask VLI_HIDDEN;

/** vli_homes_init() - as many as CPUs need, all with nothing. Before any cache is laid out. */
void vli_homes_init(void);

static inline struct vli_slab_home *vli_home_at(const struct vl_cache *cache, uint32_t number)
{
    return cache->node[0].home + number * VLI_CACHES_MAX;
}

/** vli_home_here() - number of this CPU's home; the thread may be elsewhere at once. */
static inline uint32_t vli_home_here(void)
{
    return VLI_SLAB_HOMES == 1 ? 0 : vli_slot_number() & vli_homes_mask;
}

/** vli_home_is_only() - home number @here has all of the cache's slabs. */
static inline bool vli_home_is_only(const struct vl_cache *cache, uint32_t here)
{
    return atomic_load_explicit(&cache->node[0].homes, memory_order_relaxed) >> here == 1u;
}

/** vli_home_use() - home number @here gets slabs. */
static inline void vli_home_use(struct vl_cache *cache, uint32_t here)
{
    _Atomic uint32_t *homes = &cache->node[0].homes;

    if ((atomic_load_explicit(homes, memory_order_relaxed) >> here & 1u) == 0) {
        atomic_fetch_or_explicit(homes, 1u << here, memory_order_relaxed);
    }
}

/** vli_home_of() - number of the home of a unit's slab, as of now. The unit is not free, or its
 * home's lock held. Panics when it is not of the cache. */
uint32_t vli_home_of(const struct vl_cache *cache, uintptr_t unit);

/** vli_home_lock() - the lock of the home of the slab with this head, which cannot end meanwhile.
 * Returns: the home. */
struct vli_slab_home *vli_home_lock(struct vl_cache *cache, struct vl_frame *head,
                                    unsigned long *flags);

/* Whether to wait for others' locks when all that is wanted is a few units. */
enum vli_wait { VLI_WAIT_NOT, VLI_WAIT_LOCK };

/* Of each home: bit i is set if home i is of a CPU of the same memory node. */
extern uint32_t vli_homes_near[VLI_SLAB_HOMES] VLI_HIDDEN;

/** vli_home_may_ask() - may home number @here be served by @other? Those of another node are asked
 * when there is no memory: then locks are waited for. */
static inline bool vli_home_may_ask(uint32_t here, uint32_t other, enum vli_wait wait)
{
    return (vli_homes_near[here] >> other & 1u) != 0 || wait == VLI_WAIT_LOCK;
}

/**
 * vli_homes_take() - units of other homes than number @here, and slabs of theirs for it.
 * @lowest: where up to @count units go, in ascending places.
 *
 * Another home's slabs but its last one come over; of that, units are taken if its lock is free, or
 * may be waited for. Context: any, no home's lock held. Returns: how many units.
 */
uint32_t vli_homes_take(struct vl_cache *cache, uint32_t here, enum vli_wait wait, uint32_t count,
                        uintptr_t *lowest);

/* --------------------------------------------------------------------------------------- slabs */

/* Slabs that left the list because all their units are free: to be given back once the lock is
 * left. Linked by `next`. */
struct vli_slabs_out {
    uint32_t first; /* VLI_FRAME_LINK_NONE: none */
};

/** vli_slabs_take() - up to @count free units of the home go to @lowest[0] and on, so that
 * addresses of one slab come off the end in ascending order. Returns: how many, as there are. */
uint32_t vli_slabs_take(struct vl_cache *cache, struct vli_slab_home *home, uint32_t count,
                        uintptr_t *lowest) VL_REQUIRES(&home->lock);

/**
 * vli_slabs_give_home() - of @count units, those whose slabs are @home's go back.
 * Panics when one is not of the cache, not a unit's start or free already.
 * Returns: how many are left, the first ones of @units now.
 */
uint32_t vli_slabs_give_home(struct vl_cache *cache, struct vli_slab_home *home, uintptr_t *units,
                             uint32_t count, struct vli_slabs_out *out) VL_REQUIRES(&home->lock);

/** vli_slabs_give() - all go back, home by home; @units is spoilt. Context: any, no home's lock
 * held. */
void vli_slabs_give(struct vl_cache *cache, uintptr_t *units, uint32_t count,
                    struct vli_slabs_out *out);

/** vli_slabs_new() - one more slab, all free, for this CPU's home. False: no memory. Context: as
 * @how says; no lock. */
VL_MUST_CHECK bool vli_slabs_new(struct vl_cache *cache, vl_how_t how);

/** vli_slabs_release() - back to frame. Returns: frames. Context: any, no node's lock held. */
size_t vli_slabs_release(struct vl_cache *cache, struct vli_slabs_out *out);

/**
 * vli_slabs_purge() - the pages that lie wholly in free units of slabs in use are nobody's:
 * @give_back is told each stretch of them that it was not told since a unit there was last taken.
 * Their contents may be lost. So are, where VL_HOST_SLAB_MAP says which cache a frame is of, pages
 * of the slab's descriptors beyond the first one. Units of a page and more only. Context: thread;
 * no lock is held while @give_back runs, which must not use the cache. Returns: bytes told.
 */
size_t vli_slabs_purge(struct vl_cache *cache, void (*give_back)(uintptr_t start, size_t bytes));

/** vli_slabs_units_free() - units that are free in slabs. Context: any. */
uint64_t vli_slabs_units_free(struct vl_cache *cache);

/** vli_sheaf_resize() - the cache has another number of units: what is kept of it is adapted. */
void vli_sheaf_resize(struct vli_slab_node *node);

/** vli_slabs_layout() - the slabs' part of vli_slab_layout(). */
void vli_slabs_layout(struct vl_cache *cache);

/** vli_slabs_validate() - the slabs' part of vli_slab_validate(). */
void vli_slabs_validate(struct vl_cache *cache);

/** vli_slabs_is_free() - is this unit marked as free in its slab? For validation; quiescent. */
bool vli_slabs_is_free(struct vl_cache *cache, uintptr_t unit);

#endif
