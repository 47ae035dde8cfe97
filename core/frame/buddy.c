/*
 * buddy.c - the buddy algorithm on many blocks at once, for all BUDDY strategies; one block at a
 * time is buddy_one.h.
 *
 * Giving back works order by order: all blocks of one order are looked at, those that can be joined
 * become the input of the next order, the others go into their list. This is what makes freeing in
 * random order bearable: the descriptors that a step will touch are known a few steps ahead and are
 * prefetched, where block by block each would be waited for.
 */
#include "core/frame/buddy_one.h"

/* How many blocks ahead list neighbours are fetched. */
#define AHEAD 8u

/* The upper parts of a block of order @have go to the lists until @order is left. */
static inline void split(struct vli_zone *zone, uint32_t pfn, unsigned have, unsigned order)
{
    zone->work.splits += have - order;
    while (have > order) {
        have--;
        vli_list_insert(zone, pfn + (1u << have), have);
        vli_mark_enter(zone, pfn + (1u << have), have);
    }
}

uint32_t vli_buddy_take_split(struct vli_zone *zone, unsigned order)
{
    uint32_t candidates = zone->nonempty >> order;
    uint32_t pfn;
    unsigned have;

    if (candidates == 0) {
        return VLI_FRAME_LINK_NONE;
    }
    have = order + vli_bit_lowest(candidates);
    zone->work.takes++;
    vli_zone_add_free(zone, 0 - (1ull << order));
    pfn = vli_list_pop(zone, have);
    split(zone, pfn, have, order);
    return pfn;
}

void vli_buddy_join(struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    unsigned first = order;

    do {
        uint32_t buddy = pfn ^ 1u << order;

        vli_list_remove(zone, buddy, order);
        vli_mark_joined(zone, buddy, order);
        pfn &= buddy;
        order++;
    } while (order < VL_ORDER_MAX && vli_mark_try_join(zone, pfn, order));
    zone->work.merges += order - first;
    zone->work.lookups += order - first - (order == VL_ORDER_MAX ? 1u : 0u);
    vli_list_insert(zone, pfn, order);
    if (order < VL_ORDER_MAX) {
        vli_mark_settle(zone, pfn, order);
    } else {
        vli_mark_enter(zone, pfn, order);
    }
}

size_t vli_buddy_take_many(struct vli_zone *zone, unsigned order, size_t count, uint32_t *out)
{
    size_t had = 0;

    while (had < count && zone->nonempty >> order != 0) {
        unsigned have = order + vli_bit_lowest(zone->nonempty >> order);
        unsigned most = order + vli_bit_highest(count - had);
        uint32_t pfn = vli_list_pop(zone, have);
        size_t parts;

        if (have > most) {
            split(zone, pfn, have, most);
            have = most;
        }
        parts = (size_t)1 << (have - order);
        for (size_t i = 0; i < parts; i++) {
            out[had + i] = pfn + (uint32_t)(i << order);
        }
        zone->work.takes++;
        had += parts;
    }
    vli_zone_add_free(zone, 0 - ((uint64_t)had << order));
    return had;
}

/* Fetches what a join of @pfn would write: the neighbours of its buddy in the list. */
static inline void prefetch_neighbours(const struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    const struct vl_frame *buddy = vli_frame_at(pfn ^ 1u << order);

    if (vli_mark_may_join(zone, pfn, order)) {
        if (buddy->next != VLI_FRAME_LINK_NONE) {
            VLI_PREFETCHW(vli_frame_at(buddy->next));
        }
        if (buddy->prev != VLI_FRAME_LINK_NONE) {
            VLI_PREFETCHW(vli_frame_at(buddy->prev));
        }
    }
}

/* Joins or lists @count blocks of @order; returns how many of the next order stand in @pfns. */
static size_t give_order(struct vli_zone *zone, uint32_t *pfns, size_t count, unsigned order)
    VL_REQUIRES(&zone->lock)
{
    uint32_t bit = 1u << order;
    size_t out = 0;

    for (size_t i = 0; i < count && i < AHEAD && count > 1; i++) {
        prefetch_neighbours(zone, pfns[i], order);
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t pfn = pfns[i];

        if (i + AHEAD < count) {
            prefetch_neighbours(zone, pfns[i + AHEAD], order);
        }
        if (!vli_mark_try_join(zone, pfn, order)) {
            vli_buddy_list_one(zone, pfn, order);
            continue;
        }
        vli_list_remove(zone, pfn ^ bit, order);
        vli_mark_joined(zone, pfn ^ bit, order);
        pfn &= ~bit;
        pfns[out++] = pfn;
        VLI_PREFETCHW(vli_frame_at(pfn ^ bit << 1));
    }
    zone->work.lookups += count;
    zone->work.merges += out;
    return out;
}

void vli_buddy_give(struct vli_zone *zone, uint32_t *pfns, size_t count, unsigned order)
{
    vli_zone_add_free(zone, (uint64_t)count << order);
    zone->work.gives += count;
    for (; order < VL_ORDER_MAX && count > 0; order++) {
        count = give_order(zone, pfns, count, order);
    }
    for (size_t i = 0; i < count; i++) {
        vli_list_insert(zone, pfns[i], VL_ORDER_MAX);
        vli_mark_enter(zone, pfns[i], VL_ORDER_MAX);
    }
}

/* ------------------------------------------------------------------------------ begin and check */

/* Words of the bitmap of an order: a bit for each pair that has a frame in the zone. */
static size_t words_of(const struct vli_zone *zone, unsigned order)
{
    uint64_t first = zone->start >> (order + 1);
    uint64_t end = ((uint64_t)zone->end + (1ull << (order + 1)) - 1) >> (order + 1);

    return (size_t)((end - first + 63) / 64);
}

size_t vli_buddy_bytes(const struct vli_zone *zone)
{
    size_t words = 0;

    for (unsigned order = 0; VLI_MARK_BITMAP && order < VL_ORDER_MAX; order++) {
        words += words_of(zone, order);
    }
    return words * sizeof(uint64_t);
}

void vli_buddy_init(struct vli_zone *zone, void *memory)
{
    uint64_t *bits = memory;

    zone->nonempty = 0;
    for (unsigned order = 0; order < VL_ORDER_COUNT; order++) {
        zone->list[order] = VLI_FRAME_LINK_NONE;
        zone->blocks[order] = 0;
        if (VLI_MARK_BITMAP && order < VL_ORDER_MAX) {
            zone->bits[order] = bits;
            for (size_t i = 0; i < words_of(zone, order); i++) {
                *bits++ = 0;
            }
        }
    }
}

static void validate_block(struct vli_zone *zone, uint32_t pfn, uint32_t prev, unsigned order)
{
    const struct vl_frame *head = vli_frame_at(pfn);
    uint32_t frames = 1u << order;

    VL_ASSERT(pfn % frames == 0);
    VL_ASSERT(pfn >= zone->start && zone->end - pfn >= frames);
    VL_ASSERT(head->prev == prev);
    VL_ASSERT(vli_mark_is_head(zone, pfn, order));
    VL_ASSERT(order == VL_ORDER_MAX || !vli_mark_is_free_pair(zone, pfn, order));
    for (uint32_t i = 0; i < frames; i++) {
        const struct vl_frame *frame = vli_frame_at(pfn + i);

        VL_ASSERT(atomic_load_explicit(&frame->refs, memory_order_relaxed) == 1);
        VL_ASSERT(atomic_load_explicit(&frame->mappings, memory_order_relaxed) == 0);
        VL_ASSERT(i == 0 || atomic_load_explicit(&frame->flags, memory_order_relaxed) ==
                                vli_flags_idle(zone->index));
        vli_history_check_free((struct vl_pfn){pfn + i});
    }
}

void vli_buddy_validate(struct vli_zone *zone)
{
    uint64_t free = 0;

    for (unsigned order = 0; order < VL_ORDER_COUNT; order++) {
        uint32_t blocks = 0;
        uint32_t prev = VLI_FRAME_LINK_NONE;

        for (uint32_t pfn = zone->list[order]; pfn != VLI_FRAME_LINK_NONE;
             pfn = vli_frame_at(pfn)->next) {
            validate_block(zone, pfn, prev, order);
            prev = pfn;
            blocks++;
            VL_ASSERT((uint64_t)blocks << order <= zone->managed);
        }
        VL_ASSERT((blocks != 0) == ((zone->nonempty >> order & 1u) != 0));
        VL_ASSERT(blocks == zone->blocks[order]);
        free += (uint64_t)blocks << order;
    }
    VL_ASSERT(free == atomic_load_explicit(&zone->free, memory_order_relaxed));
}
