/*
 * slabs.h (linked) - what slabs.c gives to the slow paths of slots. Lists are of units of one slab,
 * through their links; how they end is the slots' affair (vli_list_end()).
 */
#ifndef VLI_SLABS_H
#define VLI_SLABS_H

#include "core/slab/slab.h"

/* Units that go back together: a list of @count through the links, and what else changes. */
struct vli_slabs_give {
    uintptr_t first;
    uintptr_t last;
    uint32_t count;
    bool unfreezes; /* the giver's CPU leaves the slab */
    bool keeps;     /* the giver's CPU wants the slab if it was full */
};

/** vli_slabs_bytes() - length of the slab. */
uintptr_t vli_slabs_bytes(const struct vl_frame *head);

/** vli_slabs_new() - a new slab, frozen, all free, in no list; NULL when there is no memory.
 * Context: as @how says. */
struct vl_frame *vli_slabs_new(struct vl_cache *cache, vl_how_t how);

/** vli_slabs_give() - units go back to their slab. Context: any, the node's lock not held. Returns:
 * the slab was full, and now is frozen and the caller's, who asked for it. */
bool vli_slabs_give(struct vl_cache *cache, struct vl_frame *head,
                    const struct vli_slabs_give *give);

/** vli_slabs_keep() - the slots': a slab that is the caller's becomes this CPU's own; if it has
 * @most of them, those become their node's, by one lock for all. Only where VLI_SLAB_SPARE_MAX is
 * not 0. Context: any. */
void vli_slabs_keep(struct vl_cache *cache, struct vl_frame *head, uint32_t most);

/** vli_slabs_unfreeze() - slabs that are frozen and the caller's, with free units in W's list only,
 * become partial. @first: number of a head frame, linked by next, @count of them. Context: any. */
void vli_slabs_unfreeze(struct vl_cache *cache, uint32_t first, uint32_t count);

/** vli_slabs_take() - all of W's list, which becomes empty. The slab is frozen, or stands under the
 * node's lock and is frozen by this. */
uintptr_t vli_slabs_take(struct vl_frame *head);

/** vli_slabs_take_partial() - the first partial slab is frozen and left to the caller with all of
 * W's list; NULL: there is none. Context: any. */
struct vl_frame *vli_slabs_take_partial(struct vl_cache *cache, uintptr_t *out_list);

/** vli_slabs_freeze_partial() - the slabs of the node's list that are in use are frozen and left to
 * the caller. Returns: the number of the first one's head frame, linked by `next`. Context: any. */
uint32_t vli_slabs_freeze_partial(struct vl_cache *cache);

/** vli_slabs_take_one() - one unit of a slab that stays in the node's list as long as it has one;
 * 0: there is none. Context: any. */
uintptr_t vli_slabs_take_one(struct vl_cache *cache);

/** vli_slabs_has() - is a unit in W's list? Nobody takes from it meanwhile but under the node's
 * lock, which the caller holds. */
bool vli_slabs_has(struct vl_frame *head, uintptr_t unit);

/** vli_slabs_list() - its free units, linked; vli_list_end() when there are none. */
uintptr_t vli_slabs_list(struct vl_frame *head);
/** vli_slabs_give_checked() - as vli_slabs_give() for one unit, where no CPU has slabs: panics
 * when it is not a unit's start or is free already. */
void vli_slabs_give_checked(struct vl_cache *cache, struct vl_frame *head, uintptr_t unit);

/** vli_slabs_free_of() - units in W's list of a slab, as of now. */
uint32_t vli_slabs_free_of(struct vl_frame *head);

/** vli_slabs_units_free() - the same of all slabs in the node's list. Context: any. */
uint64_t vli_slabs_units_free(struct vl_cache *cache);

/** vli_slabs_layout() - the slabs' part of vli_slab_layout(). */
void vli_slabs_layout(struct vl_cache *cache);

/** vli_list_validate() - a list of free units inside [base, base + bytes), @max at most. Returns:
 * how many. */
uint32_t vli_list_validate(const struct vl_cache *cache, uintptr_t list, uintptr_t base,
                           uintptr_t bytes, uint32_t max);

/** vli_slab_validate_one() - panics when something is wrong with a slab. */
void vli_slab_validate_one(const struct vl_cache *cache, struct vl_frame *head, bool frozen);

/** vli_slabs_validate() - the slabs' part of vli_slab_validate(). */
void vli_slabs_validate(struct vl_cache *cache);

#endif
