/*
 * slabs.h (sheaf) - what slabs.c gives to sheaf.c: units in batches, under the lock of their node.
 */
#ifndef VLI_SLABS_H
#define VLI_SLABS_H

#include "core/slab/slab.h"

/* Slabs that left the list because all their units are free: to be given back once the lock is
 * left. Linked by `next`. */
struct vli_slabs_out {
    uint32_t first; /* VLI_FRAME_LINK_NONE: none */
};

/** vli_slabs_take() - up to @count free units go to @end[-1], @end[-2] …, in ascending order as far
 * as they are of one slab. Returns: how many. */
uint32_t vli_slabs_take(struct vli_slab_node *node, uint32_t count, _Atomic uintptr_t *end)
    VL_REQUIRES(&node->lock);

/** vli_slabs_give() - @count units go back. Panics when one is not of the cache, not a unit's start
 * or free already. */
void vli_slabs_give(struct vl_cache *cache, const _Atomic uintptr_t *units, uint32_t count,
                    struct vli_slabs_out *out) VL_REQUIRES(&cache->node[0].lock);

/** vli_slabs_new() - one more slab, all free. False: no memory. Context: as @how says; no lock. */
VL_MUST_CHECK bool vli_slabs_new(struct vl_cache *cache, vl_how_t how);

/** vli_slabs_release() - back to frame. Returns: frames. Context: any, no node's lock held. */
size_t vli_slabs_release(struct vl_cache *cache, struct vli_slabs_out *out);

/** vli_slabs_layout() - the slabs' part of vli_slab_layout(). */
void vli_slabs_layout(struct vl_cache *cache);

/** vli_slabs_validate() - the slabs' part of vli_slab_validate(). */
void vli_slabs_validate(struct vl_cache *cache);

/** vli_slabs_is_free() - is this unit marked as free in its slab? For validation; quiescent. */
bool vli_slabs_is_free(struct vl_cache *cache, uintptr_t unit);

#endif
