/*
 * buddy.c - the buddy algorithm on many blocks at once, for all BUDDY strategies; one block at a
 * time is buddy_one.h.
 *
 * Giving back works order by order: all blocks of one order are looked at, those that can be joined
 * become the input of the next order, the others go into their list. This is what makes freeing in
 * random order bearable: the descriptors that a step will touch are known a few steps ahead and are
 * prefetched, where block by block each would be waited for; and which blocks join is found out by
 * a loop that takes no branch on it.
 */
#include "core/frame/buddy_one.h"

/* How many blocks ahead list neighbours are fetched. */
#define AHEAD 8u

/* The upper parts of a block of order @have go to the lists until @order is left; they were
 * reported if the whole was. The block was of the lowest order that had any, @order or above: so
 * the lists are empty, and no branch need ask. */
static inline void split(struct vli_zone *zone, uint32_t pfn, unsigned have, unsigned order,
                         bool reported)
{
    zone->work.splits += have - order;
    zone->nonempty |= (1u << have) - (1u << order);
    while (have > order) {
        have--;
        vli_list_start(zone, pfn + (1u << have), have, reported);
        vli_mark_enter(zone, pfn + (1u << have), have);
    }
}

/* What is behind a run of @frames in its block of @order goes to the lists: its buddies are in the
 * run or behind it, so none of it can join. */
static void cut(struct vli_zone *zone, uint32_t pfn, uint32_t frames, unsigned order, bool reported)
{
    for (uint32_t at = frames; at < 1u << order; at += 1u << vli_bit_lowest(at)) {
        zone->work.splits++;
        if (VLI_UNLIKELY(reported)) {
            vli_list_append(zone, pfn + at, vli_bit_lowest(at));
        } else {
            vli_list_insert(zone, pfn + at, vli_bit_lowest(at));
        }
        vli_mark_enter(zone, pfn + at, vli_bit_lowest(at));
    }
}

uint32_t vli_buddy_take_split(struct vli_zone *zone, unsigned order)
{
    uint32_t candidates = zone->nonempty >> order;
    bool reported;
    uint32_t pfn;
    unsigned have;

    if (candidates == 0) {
        return VLI_FRAME_LINK_NONE;
    }
    have = order + vli_bit_lowest(candidates);
    zone->work.takes++;
    vli_zone_add_free(zone, 0 - (1ull << order));
    reported = vli_block_is_reported(zone, have);
    pfn = vli_block_pop(zone, have);
    split(zone, pfn, have, order, reported);
    return pfn;
}

uint32_t vli_buddy_take_run(struct vli_zone *zone, uint32_t frames)
{
    unsigned order = vli_log2_ceil(frames);
    uint32_t candidates = zone->nonempty >> order;
    bool reported;
    uint32_t pfn;
    unsigned have;

    if (candidates == 0) {
        return VLI_FRAME_LINK_NONE;
    }
    have = order + vli_bit_lowest(candidates);
    zone->work.takes++;
    vli_zone_add_free(zone, 0 - (uint64_t)frames);
    reported = vli_block_is_reported(zone, have);
    pfn = vli_block_pop(zone, have);
    split(zone, pfn, have, order, reported);
    cut(zone, pfn, frames, order, reported);
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
    if (order < VL_ORDER_MAX) {
        vli_buddy_list_one(zone, pfn, order);
    } else {
        vli_top_push(zone, pfn);
    }
}

size_t vli_buddy_take_many(struct vli_zone *zone, unsigned order, size_t count, uint32_t *out)
{
    size_t had = 0;

    while (had < count && zone->nonempty >> order != 0) {
        unsigned have = order + vli_bit_lowest(zone->nonempty >> order);
        unsigned most = order + vli_bit_highest(count - had);
        bool reported = vli_block_is_reported(zone, have);
        uint32_t pfn = vli_block_pop(zone, have);
        size_t parts;

        if (have > most) {
            split(zone, pfn, have, most, reported);
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

/* Parts @count blocks into those that seem to have a free buddy, which stay in @pfns, and the
 * others, in @alone; returns how many stay. No branch depends on what it finds: in memory freed in
 * any order half of them would be guessed wrong, and that costs more than all the rest. */
static size_t part(const struct vli_zone *zone, uint32_t *pfns, size_t count, unsigned order,
                   uint32_t *alone)
{
    size_t joins = 0;

    for (size_t i = 0; i < count; i++) {
        uint32_t pfn = pfns[i];
        size_t join = vli_mark_may_join(zone, pfn, order) ? 1 : 0;

        pfns[joins] = pfn;
        alone[i - joins] = pfn;
        joins += join;
    }
    return joins;
}

/* Fetches what a join of @pfn will write: the neighbours of its buddy in the list. */
static inline void prefetch_neighbours(uint32_t pfn, unsigned order)
{
    const struct vl_frame *buddy = vli_frame_at(pfn ^ 1u << order);

    if (buddy->next != VLI_FRAME_LINK_NONE) {
        VLI_PREFETCHW(vli_frame_at(buddy->next));
    }
    if (buddy->prev != VLI_FRAME_LINK_NONE) {
        VLI_PREFETCHW(vli_frame_at(buddy->prev));
    }
}

/* Takes the buddy of @pfn out of its list; returns what the two make, whose buddy is fetched. */
static inline uint32_t join_pair(struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    uint32_t bit = 1u << order;

    vli_list_remove(zone, pfn ^ bit, order);
    vli_mark_joined(zone, pfn ^ bit, order);
    pfn &= ~bit;
    VLI_PREFETCHW(vli_frame_at(pfn ^ bit << 1));
    return pfn;
}

/* Joins or lists @count blocks of @order; returns how many of the next order stand in @pfns. */
static size_t give_order(struct vli_zone *zone, uint32_t *pfns, size_t count, unsigned order)
    VL_REQUIRES(&zone->lock)
{
    uint32_t alone[VLI_GIVE_MAX];
    size_t joins = part(zone, pfns, count, order, alone);
    size_t out = joins;

    for (size_t i = 0; i < joins && i < AHEAD; i++) {
        prefetch_neighbours(pfns[i], order);
    }
    for (size_t i = 0; i < joins; i++) {
        bool joined = vli_mark_try_join(zone, pfns[i], order);

        if (i + AHEAD < joins) {
            prefetch_neighbours(pfns[i + AHEAD], order);
        }
        VL_ASSERT_SLOW(joined);
        (void)joined;
        pfns[i] = join_pair(zone, pfns[i], order);
    }
    /* Two of these may be buddies of each other: the second finds the first in the list. */
    for (size_t i = 0; i < count - joins; i++) {
        if (VLI_UNLIKELY(vli_mark_try_join(zone, alone[i], order))) {
            pfns[out++] = join_pair(zone, alone[i], order);
        } else {
            vli_buddy_list_one(zone, alone[i], order);
        }
    }
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
        vli_top_push(zone, pfns[i]);
    }
}

void vli_buddy_give_reported(struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    bool reported = true;

    vli_zone_add_free(zone, 1ull << order);
    zone->work.gives++;
    for (; order < VL_ORDER_MAX; order++) {
        uint32_t buddy = pfn ^ 1u << order;

        if (!vli_mark_try_join(zone, pfn, order)) {
            if (reported) {
                vli_list_append(zone, pfn, order);
            } else {
                vli_list_insert(zone, pfn, order);
            }
            vli_mark_settle(zone, pfn, order);
            return;
        }
        reported = reported && vli_frame_at(buddy)->index_low == VLI_BLOCK_REPORTED;
        vli_list_remove(zone, buddy, order);
        vli_mark_joined(zone, buddy, order);
        zone->work.merges++;
        pfn &= buddy;
    }
    vli_top_push(zone, pfn);
    if (reported) {
        uint32_t last = zone->blocks[VL_ORDER_MAX] - 1;

        zone->top[last] = zone->top[zone->top_reported];
        zone->top[zone->top_reported++] = pfn;
    }
}

bool vli_buddy_remove_top(struct vli_zone *zone, uint32_t start, uint32_t end)
{
    uint32_t blocks = zone->blocks[VL_ORDER_MAX];
    uint32_t reported = zone->top_reported;
    uint32_t found = 0;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < blocks; i++) {
        found += zone->top[i] >= start && zone->top[i] < end ? 1u : 0u;
    }
    if (found != (end - start) >> VL_ORDER_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < blocks; i++) {
        uint32_t pfn = zone->top[i];
        bool stays = pfn < start || pfn >= end;

        zone->top[kept] = pfn;
        kept += stays ? 1u : 0u;
        zone->top_reported -= !stays && i < reported ? 1u : 0u;
    }
    zone->blocks[VL_ORDER_MAX] = kept;
    if (kept == 0) {
        zone->nonempty &= ~(1u << VL_ORDER_MAX);
    }
    zone->work.takes += found;
    vli_zone_add_free(zone, 0 - (uint64_t)(end - start));
    return true;
}

/* ------------------------------------------------------------------------------ begin and check */

/* Words of the bitmap of an order: a bit for each pair that has a frame in the zone. */
static size_t words_of(const struct vli_zone *zone, unsigned order)
{
    uint64_t first = zone->start >> (order + 1);
    uint64_t end = ((uint64_t)zone->end + (1ull << (order + 1)) - 1) >> (order + 1);

    return (size_t)((end - first + 63) / 64);
}

/* Words of the array of blocks of the highest order: two numbers a word. */
static size_t words_of_top(const struct vli_zone *zone)
{
    return ((zone->end >> VL_ORDER_MAX) - (zone->start >> VL_ORDER_MAX)) / 2 + 1;
}

size_t vli_buddy_bytes(const struct vli_zone *zone)
{
    size_t words = words_of_top(zone);

    for (unsigned order = 0; VLI_MARK_BITMAP && order < VL_ORDER_MAX; order++) {
        words += words_of(zone, order);
    }
    return words * sizeof(uint64_t);
}

void vli_buddy_init(struct vli_zone *zone, void *memory, bool is_zero)
{
    uint64_t *word = memory;

    zone->nonempty = 0;
    zone->blocks[VL_ORDER_MAX] = 0;
    zone->top_reported = 0;
    zone->top = memory;
    word += words_of_top(zone);
    for (unsigned order = 0; order < VL_ORDER_MAX; order++) {
        zone->list[order] = VLI_FRAME_LINK_NONE;
        zone->blocks[order] = 0;
        if (VLI_MARK_BITMAP) {
            zone->bits[order] = word;
            if (!is_zero) {
                memset(word, 0, words_of(zone, order) * sizeof(*word));
            }
            word += words_of(zone, order);
        }
    }
}

/* The frames of a free block, but for what its head tells beside. */
static void validate_frames(const struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    uint32_t frames = 1u << order;

    VL_ASSERT(pfn % frames == 0);
    VL_ASSERT(pfn >= zone->start && zone->end - pfn >= frames);
    for (uint32_t i = 0; i < frames; i++) {
        const struct vl_frame *frame = vli_frame_at(pfn + i);

        VL_ASSERT(atomic_load_explicit(&frame->refs, memory_order_relaxed) == 1);
        VL_ASSERT(atomic_load_explicit(&frame->mappings, memory_order_relaxed) == 0);
        VL_ASSERT(i == 0 || atomic_load_explicit(&frame->flags, memory_order_relaxed) ==
                                vli_flags_idle(zone->index));
        vli_history_check_free((struct vl_pfn){pfn + i});
    }
}

/* The list of an order; returns how many blocks it has. */
static uint32_t validate_list(const struct vli_zone *zone, unsigned order)
{
    uint32_t blocks = 0;
    uint32_t prev = VLI_FRAME_LINK_NONE;
    uint32_t mark = VLI_BLOCK_FRESH;

    for (uint32_t pfn = zone->list[order]; pfn != VLI_FRAME_LINK_NONE;
         pfn = vli_frame_at(pfn)->next) {
        VL_ASSERT(vli_frame_at(pfn)->prev == prev);
        VL_ASSERT(vli_frame_at(pfn)->index_low >= mark);
        VL_ASSERT(vli_frame_at(pfn)->index_low <= VLI_BLOCK_REPORTED);
        mark = vli_frame_at(pfn)->index_low;
        VL_ASSERT(vli_mark_is_head(zone, pfn, order));
        VL_ASSERT(!vli_mark_is_free_pair(zone, pfn, order));
        validate_frames(zone, pfn, order);
        prev = pfn;
        blocks++;
        VL_ASSERT((uint64_t)blocks << order <= zone->managed);
    }
    VL_ASSERT(blocks == 0 || zone->tail[order] == prev);
    return blocks;
}

/* The blocks of the highest order: each stands there once. That is seen by the link, which means
 * nothing in their descriptors: each notes its place, and finds it. */
static void validate_top(const struct vli_zone *zone)
{
    uint32_t blocks = zone->blocks[VL_ORDER_MAX];

    VL_ASSERT((uint64_t)blocks << VL_ORDER_MAX <= zone->managed);
    VL_ASSERT(zone->top_reported <= blocks);
    for (uint32_t i = 0; i < blocks; i++) {
        validate_frames(zone, zone->top[i], VL_ORDER_MAX);
        VL_ASSERT(atomic_load_explicit(&vli_frame_at(zone->top[i])->flags, memory_order_relaxed) ==
                  zone->flags_idle);
        vli_frame_at(zone->top[i])->next = i;
    }
    for (uint32_t i = 0; i < blocks; i++) {
        VL_ASSERT(vli_frame_at(zone->top[i])->next == i);
    }
}

void vli_buddy_validate(struct vli_zone *zone)
{
    uint64_t free = 0;

    validate_top(zone);
    for (unsigned order = 0; order < VL_ORDER_COUNT; order++) {
        uint32_t blocks = zone->blocks[order];

        VL_ASSERT((blocks != 0) == ((zone->nonempty >> order & 1u) != 0));
        VL_ASSERT(order == VL_ORDER_MAX || blocks == validate_list(zone, order));
        free += (uint64_t)blocks << order;
    }
    VL_ASSERT(free == atomic_load_explicit(&zone->free, memory_order_relaxed));
}
