/*
 * buddy.h - the contract of the buddy allocator: blocks of 2^k frames, aligned to their size; a
 * block and its buddy (frame number xor 2^k) become one as soon as both are free.
 *
 * The algorithm (buddy_one.h, buddy.c) is one; how it knows that the buddy is free is the strategy
 * BUDDY, an inline contract in its folder's buddy_mark.h:
 *
 *   vli_mark_enter(zone, pfn, k)   the block came into list k by a split
 *   vli_mark_leave(zone, pfn, k)   the block left list k to be handed out or split
 *   vli_mark_try_join(zone, pfn, k)  the block is free now: is its buddy in list k? Asked once
 *                                  for each block and order; followed by exactly one of
 *   vli_mark_settle(zone, pfn, k)    no: the block came into list k
 *   vli_mark_joined(zone, pfn, k)    yes: its buddy, @pfn, left list k to be joined
 *   vli_mark_may_join(zone, pfn, k)  a guess at the answer that changes nothing, to prefetch by
 *   vli_mark_is_head, _is_free_pair  of a block in list k, for validation
 *   VLI_MARK_BITMAP                does the strategy keep the zone's bits?
 *   VLI_MARK_LOCKED                locked instructions that a change of a mark costs
 *
 * k is below the highest order throughout. A block of that has no buddy, so nobody ever asks: it
 * has no mark and stands in no list, but in an array (zone->top). Its descriptors are idle ones,
 * and taking or giving one touches none of them. That matters more than it seems: heads of such
 * blocks lie 32 KiB apart, so that all of them compete for a few sets of the CPU's caches.
 *
 *   flags         the head's flags word says {FREE, BUDDY, order, zone}, by relaxed stores
 *   flags_atomic  the same, changed by locked instructions
 *   bitmap        a bit a pair and order, set while exactly one of the two is free at that order
 */
#ifndef VLI_FRAME_BUDDY_H
#define VLI_FRAME_BUDDY_H

#include "core/frame/zone.h"

/* Most blocks that vli_buddy_give() is given at once. */
#define VLI_GIVE_MAX 256u

/** vli_buddy_bytes() - memory that is kept for a zone, beside the descriptors. */
size_t vli_buddy_bytes(const struct vli_zone *zone);
/** vli_buddy_init() - empty lists; @memory of vli_buddy_bytes(), aligned to 8. @is_zero: it reads
 * as zero and shall not be touched before it is needed. */
void vli_buddy_init(struct vli_zone *zone, void *memory, bool is_zero);

/**
 * vli_buddy_take_many() - @count blocks of @order, out of whole larger ones as far as they fit:
 * small ones first, so that large ones last. Numbers ascend within one. Flags are idle.
 * Returns: how many there were.
 */
size_t vli_buddy_take_many(struct vli_zone *zone, unsigned order, size_t count, uint32_t *out)
    VL_REQUIRES(&zone->lock);

/**
 * vli_buddy_give() - @count blocks of @order, VLI_GIVE_MAX at most, become free, merged as far as
 * they go. Their heads' flags are idle. @pfns is used up as scratch.
 */
void vli_buddy_give(struct vli_zone *zone, uint32_t *pfns, size_t count, unsigned order)
    VL_REQUIRES(&zone->lock);

/** vli_buddy_take_run() - @frames in a row, 1 << VL_ORDER_MAX at most, out of the smallest block
 * that holds them, whose start they are; or LINK_NONE. */
uint32_t vli_buddy_take_run(struct vli_zone *zone, uint32_t frames) VL_REQUIRES(&zone->lock);

/** vli_buddy_give_reported() - a block that was told to be free becomes free. What it joins makes
 * the whole one that was told only if that was told, too. */
void vli_buddy_give_reported(struct vli_zone *zone, uint32_t pfn, unsigned order)
    VL_REQUIRES(&zone->lock);

/** vli_buddy_remove_top() - takes the blocks of the highest order in [start, end) if all of it is
 * such free ones; or returns false. */
bool vli_buddy_remove_top(struct vli_zone *zone, uint32_t start, uint32_t end)
    VL_REQUIRES(&zone->lock);

/** vli_buddy_validate() - lists, links, marks and counts of a zone; panics. Quiescent. */
void vli_buddy_validate(struct vli_zone *zone) VL_REQUIRES(&zone->lock);

#endif
