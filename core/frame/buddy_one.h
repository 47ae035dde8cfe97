/*
 * buddy_one.h - the buddy algorithm on one block, for all BUDDY strategies (Knowlton 1965; Knuth,
 * TAOCP vol. 1, 2.5). Inline: a request with stocks off is little more than this.
 *
 * Lists are doubly linked by frame numbers through the heads' descriptors, last in first out;
 * blocks of the highest order stand in an array instead (buddy.h). A taker splits the smallest
 * block that is large enough, found by one bit scan over the orders that have any.
 *
 * A free block that was reported (report.c) says so in its head's index, which means nothing else
 * while it is free. All that were stand behind all that were not: at the list's end, or in the
 * first part of the array. So who takes prefers what is backed by memory still.
 */
#ifndef VLI_FRAME_BUDDY_ONE_H
#define VLI_FRAME_BUDDY_ONE_H

#include "core/frame/buddy.h"
#include "buddy_mark.h"

static inline struct vl_frame *vli_frame_at(uint32_t pfn)
{
    return &vli_frames[pfn];
}

static inline void vli_zone_add_free(struct vli_zone *zone, uint64_t change)
{
    uint64_t free = atomic_load_explicit(&zone->free, memory_order_relaxed);

    atomic_store_explicit(&zone->free, free + change, memory_order_relaxed);
}

/* index_low of a free block's head. */
#define VLI_BLOCK_FRESH    0u
#define VLI_BLOCK_REPORTED 1u

/** vli_list_insert() - a block that was not reported comes first in its list. */
static inline void vli_list_insert(struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    struct vl_frame *frame = vli_frame_at(pfn);
    uint32_t first = zone->list[order];

    frame->next = first;
    frame->prev = VLI_FRAME_LINK_NONE;
    frame->index_low = VLI_BLOCK_FRESH;
    if (first != VLI_FRAME_LINK_NONE) {
        vli_frame_at(first)->prev = pfn;
    } else {
        zone->tail[order] = pfn;
        zone->nonempty |= 1u << order;
    }
    zone->list[order] = pfn;
    zone->blocks[order]++;
}

/** vli_list_start() - a block, reported or not, comes into an empty list; the caller says in
 * zone->nonempty that it has one. */
static inline void vli_list_start(struct vli_zone *zone, uint32_t pfn, unsigned order,
                                  bool reported)
{
    struct vl_frame *frame = vli_frame_at(pfn);

    frame->next = VLI_FRAME_LINK_NONE;
    frame->prev = VLI_FRAME_LINK_NONE;
    frame->index_low = reported ? VLI_BLOCK_REPORTED : VLI_BLOCK_FRESH;
    zone->list[order] = pfn;
    zone->tail[order] = pfn;
    zone->blocks[order] = 1;
}

/** vli_list_append() - one that was reported comes last. */
static inline void vli_list_append(struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    uint32_t last = zone->tail[order];

    if (zone->list[order] == VLI_FRAME_LINK_NONE) {
        vli_list_insert(zone, pfn, order);
    } else {
        vli_frame_at(last)->next = pfn;
        vli_frame_at(pfn)->prev = last;
        vli_frame_at(pfn)->next = VLI_FRAME_LINK_NONE;
        zone->tail[order] = pfn;
        zone->blocks[order]++;
    }
    vli_frame_at(pfn)->index_low = VLI_BLOCK_REPORTED;
}

static inline void vli_list_remove(struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    const struct vl_frame *frame = vli_frame_at(pfn);
    uint32_t next = frame->next;
    uint32_t prev = frame->prev;

    if (next != VLI_FRAME_LINK_NONE) {
        vli_frame_at(next)->prev = prev;
    } else {
        zone->tail[order] = prev;
    }
    if (prev != VLI_FRAME_LINK_NONE) {
        vli_frame_at(prev)->next = next;
    } else {
        zone->list[order] = next;
        if (next == VLI_FRAME_LINK_NONE) {
            zone->nonempty &= ~(1u << order);
        }
    }
    zone->blocks[order]--;
}

/** vli_list_pop() - takes the first block of a list that has one; its flags are idle. */
static inline uint32_t vli_list_pop(struct vli_zone *zone, unsigned order)
{
    uint32_t pfn = zone->list[order];
    uint32_t next = vli_frame_at(pfn)->next;

    if (next != VLI_FRAME_LINK_NONE) {
        vli_frame_at(next)->prev = VLI_FRAME_LINK_NONE;
    } else {
        zone->nonempty &= ~(1u << order);
    }
    zone->list[order] = next;
    zone->blocks[order]--;
    vli_mark_leave(zone, pfn, order);
    return pfn;
}

/** vli_top_push() - a block of the highest order becomes free. */
static inline void vli_top_push(struct vli_zone *zone, uint32_t pfn)
{
    zone->work.tops++;
    zone->top[zone->blocks[VL_ORDER_MAX]++] = pfn;
    zone->nonempty |= 1u << VL_ORDER_MAX;
}

/** vli_top_pop() - takes a free block of the highest order; there is one. */
static inline uint32_t vli_top_pop(struct vli_zone *zone)
{
    uint32_t left = --zone->blocks[VL_ORDER_MAX];

    if (left == 0) {
        zone->nonempty &= ~(1u << VL_ORDER_MAX);
    }
    if (VLI_UNLIKELY(left < zone->top_reported)) {
        zone->top_reported = left;
    }
    return zone->top[left];
}

/** vli_block_is_reported() - is the one that vli_block_pop() would take? There is one. */
static inline bool vli_block_is_reported(const struct vli_zone *zone, unsigned order)
{
    if (order == VL_ORDER_MAX) {
        return zone->blocks[VL_ORDER_MAX] <= zone->top_reported;
    }
    return vli_frame_at(zone->list[order])->index_low == VLI_BLOCK_REPORTED;
}

/** vli_block_pop() - a free block of any order that has one. */
static inline uint32_t vli_block_pop(struct vli_zone *zone, unsigned order)
{
    return order < VL_ORDER_MAX ? vli_list_pop(zone, order) : vli_top_pop(zone);
}

/** vli_buddy_take_split() - a block of @order out of a larger one, or LINK_NONE. */
VLI_NOINLINE uint32_t vli_buddy_take_split(struct vli_zone *zone, unsigned order)
    VL_REQUIRES(&zone->lock);

/** vli_buddy_join() - a block and its buddy, which is in list @order, become one, which goes on in
 * the same way; vli_mark_try_join() said so. */
VLI_NOINLINE void vli_buddy_join(struct vli_zone *zone, uint32_t pfn, unsigned order)
    VL_REQUIRES(&zone->lock);

/** vli_buddy_take_one() - a block of @order, its flags idle, or LINK_NONE. */
static inline uint32_t vli_buddy_take_one(struct vli_zone *zone, unsigned order)
    VL_REQUIRES(&zone->lock)
{
    if ((zone->nonempty >> order & 1u) == 0) {
        return vli_buddy_take_split(zone, order);
    }
    zone->work.takes++;
    vli_zone_add_free(zone, 0 - (1ull << order));
    return vli_block_pop(zone, order);
}

/** vli_buddy_list_one() - a block whose buddy is not free goes into its list; vli_mark_try_join()
 * said so. */
static inline void vli_buddy_list_one(struct vli_zone *zone, uint32_t pfn, unsigned order)
    VL_REQUIRES(&zone->lock)
{
    vli_list_insert(zone, pfn, order);
    vli_mark_settle(zone, pfn, order);
}

/** vli_buddy_give_one() - a block whose head is idle becomes free, merged as far as it goes. */
static inline void vli_buddy_give_one(struct vli_zone *zone, uint32_t pfn, unsigned order)
    VL_REQUIRES(&zone->lock)
{
    zone->work.gives++;
    vli_zone_add_free(zone, 1ull << order);
    if (order < VL_ORDER_MAX) {
        if (vli_mark_try_join(zone, pfn, order)) {
            vli_buddy_join(zone, pfn, order);
        } else {
            vli_buddy_list_one(zone, pfn, order);
        }
    } else {
        vli_top_push(zone, pfn);
    }
}

#endif
