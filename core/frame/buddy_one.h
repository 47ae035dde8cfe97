/*
 * buddy_one.h - the buddy algorithm on one block, for all BUDDY strategies (Knowlton 1965; Knuth,
 * TAOCP vol. 1, 2.5). Inline: a request with stocks off is little more than this.
 *
 * Lists are doubly linked by frame numbers through the heads' descriptors, last in first out. A
 * taker splits the smallest block that is large enough, found by one bit scan over the orders that
 * have any.
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

static inline void vli_list_insert(struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    struct vl_frame *frame = vli_frame_at(pfn);
    uint32_t first = zone->list[order];

    frame->next = first;
    frame->prev = VLI_FRAME_LINK_NONE;
    if (first != VLI_FRAME_LINK_NONE) {
        vli_frame_at(first)->prev = pfn;
    }
    zone->list[order] = pfn;
    zone->nonempty |= 1u << order;
    zone->blocks[order]++;
}

static inline void vli_list_remove(struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    const struct vl_frame *frame = vli_frame_at(pfn);
    uint32_t next = frame->next;
    uint32_t prev = frame->prev;

    if (next != VLI_FRAME_LINK_NONE) {
        vli_frame_at(next)->prev = prev;
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

/** vli_block_split() - the upper parts of a block of order @have go to the lists until @order is
 * left. */
static inline void vli_block_split(struct vli_zone *zone, uint32_t pfn, unsigned have,
                                   unsigned order)
{
    zone->work.splits += have - order;
    while (have > order) {
        have--;
        vli_list_insert(zone, pfn + (1u << have), have);
        vli_mark_enter(zone, pfn + (1u << have), have);
    }
}

/** vli_buddy_take_one() - a block of @order, its flags idle, or LINK_NONE. */
static inline uint32_t vli_buddy_take_one(struct vli_zone *zone, unsigned order)
    VL_REQUIRES(&zone->lock)
{
    uint32_t candidates = zone->nonempty >> order;
    uint32_t pfn;
    unsigned have;

    if (VLI_UNLIKELY(candidates == 0)) {
        return VLI_FRAME_LINK_NONE;
    }
    have = order + vli_bit_lowest(candidates);
    pfn = vli_list_pop(zone, have);
    if (have != order) {
        vli_block_split(zone, pfn, have, order);
    }
    zone->work.takes++;
    vli_zone_add_free(zone, 0 - (1ull << order));
    return pfn;
}

/** vli_buddy_give_one() - a block whose head is idle becomes free, merged as far as it goes. */
static inline void vli_buddy_give_one(struct vli_zone *zone, uint32_t pfn, unsigned order)
    VL_REQUIRES(&zone->lock)
{
    zone->work.gives++;
    vli_zone_add_free(zone, 1ull << order);
    for (; order < VL_ORDER_MAX; order++) {
        uint32_t buddy = pfn ^ 1u << order;

        zone->work.lookups++;
        if (!vli_mark_try_join(zone, pfn, order)) {
            vli_list_insert(zone, pfn, order);
            vli_mark_settle(zone, pfn, order);
            return;
        }
        vli_list_remove(zone, buddy, order);
        vli_mark_joined(zone, buddy, order);
        zone->work.merges++;
        pfn &= buddy;
    }
    vli_list_insert(zone, pfn, VL_ORDER_MAX);
    vli_mark_enter(zone, pfn, VL_ORDER_MAX);
}

#endif
