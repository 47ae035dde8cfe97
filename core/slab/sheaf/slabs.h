/*
 * slabs.h (sheaf) - what slabs.c gives to sheaf.c: units in batches, under the lock of their node.
 */
#ifndef VLI_SLABS_H
#define VLI_SLABS_H

#include "core/slab/slab.h"

/* What a host may set otherwise, in the header that VL_HOST_INLINE names: bytes of units that a
 * sheaf holds at most; full and empty sheaves in a barn, the share of a cache's units that the full
 * ones may hold (1: all), and how many bytes of units; slabs without a unit in use that a node
 * keeps while nobody asks for memory back. */
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
#if !defined(VL_HOST_SLABS_KEPT)
#define VL_HOST_SLABS_KEPT 4u
#endif

/* Slabs that left the list because all their units are free: to be given back once the lock is
 * left. Linked by `next`. */
struct vli_slabs_out {
    uint32_t first; /* VLI_FRAME_LINK_NONE: none */
};

/** vli_slabs_take() - up to @count free units go to @end[-1], @end[-2] …, in ascending order as far
 * as they are of one slab. Returns: how many. */
uint32_t vli_slabs_take(struct vli_slab_node *node, uint32_t count, uintptr_t *end)
    VL_REQUIRES(&node->lock);

/** vli_slabs_give() - @count units go back. Panics when one is not of the cache, not a unit's start
 * or free already. */
void vli_slabs_give(struct vl_cache *cache, const uintptr_t *units, uint32_t count,
                    struct vli_slabs_out *out) VL_REQUIRES(&cache->node[0].lock);

/** vli_slabs_new() - one more slab, all free. False: no memory. Context: as @how says; no lock. */
VL_MUST_CHECK bool vli_slabs_new(struct vl_cache *cache, vl_how_t how);

/** vli_slabs_release() - back to frame. Returns: frames. Context: any, no node's lock held. */
size_t vli_slabs_release(struct vl_cache *cache, struct vli_slabs_out *out);

/**
 * vli_slabs_purge() - the pages that lie wholly in free units of slabs in use are nobody's:
 * @give_back is told each stretch of them that it was not told since a unit there was last taken.
 * Their contents may be lost. So are, where VL_HOST_SLAB_MAP says which cache a frame is of, pages
 * of the slab's descriptors beyond the first one. Units of a page and more only. Context: thread;
 * no lock is held while
 * @give_back runs, which must not use the cache. Returns: bytes told.
 */
size_t vli_slabs_purge(struct vl_cache *cache, void (*give_back)(uintptr_t start, size_t bytes));

/** vli_sheaf_resize() - the cache has another number of units: sheaf.c adapts what is kept of it.
 */
void vli_sheaf_resize(struct vli_slab_node *node) VL_REQUIRES(&node->lock);

/** vli_slabs_layout() - the slabs' part of vli_slab_layout(). */
void vli_slabs_layout(struct vl_cache *cache) VL_REQUIRES(&cache->node[0].lock);

/** vli_slabs_validate() - the slabs' part of vli_slab_validate(). */
void vli_slabs_validate(struct vl_cache *cache);

/** vli_slabs_is_free() - is this unit marked as free in its slab? For validation; quiescent. */
bool vli_slabs_is_free(struct vl_cache *cache, uintptr_t unit);

#endif
