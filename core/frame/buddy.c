/*
 * buddy.c - the buddy algorithm (Knowlton 1965; Knuth, TAOCP vol. 1, 2.5), for all BUDDY
 * strategies.
 *
 * Lists are doubly linked by frame numbers through the heads' descriptors, last in first out. A
 * taker splits the smallest block that is large enough, found by one bit scan over the orders that
 * have any.
 *
 * Giving back works on many blocks at once, order by order: all of one order are looked at, those
 * that can be joined become the input of the next order, the others go into their list. This is
 * what makes freeing in random order bearable: the descriptors that a step will touch are known a
 * few steps ahead and are prefetched, where block by block each would be waited for. Two that stand
 * side by side in the input and are buddies are joined without a look at any descriptor: frames
 * freed in sequence cost little more than the writes of their numbers.
 */
#include "core/frame/buddy.h"
#include "buddy_mark.h"

/* How many blocks ahead list neighbours are fetched. */
#define AHEAD 6u

static inline struct vl_frame *frame_at(uint32_t pfn)
{
    return &vli_frames[pfn];
}

static inline void add_blocks(struct vli_zone *zone, unsigned order, uint32_t change)
{
    uint32_t blocks = atomic_load_explicit(&zone->blocks[order], memory_order_relaxed);

    atomic_store_explicit(&zone->blocks[order], blocks + change, memory_order_relaxed);
}

static inline void add_free(struct vli_zone *zone, uint64_t change)
{
    uint64_t free = atomic_load_explicit(&zone->free, memory_order_relaxed);

    atomic_store_explicit(&zone->free, free + change, memory_order_relaxed);
}

static inline void list_insert(struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    struct vl_frame *frame = frame_at(pfn);
    uint32_t first = zone->list[order];

    frame->next = first;
    frame->prev = VLI_FRAME_LINK_NONE;
    if (first != VLI_FRAME_LINK_NONE) {
        frame_at(first)->prev = pfn;
    }
    zone->list[order] = pfn;
    zone->nonempty |= 1u << order;
    zone->work.inserts++;
    add_blocks(zone, order, 1);
}

static inline void list_remove(struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    const struct vl_frame *frame = frame_at(pfn);
    uint32_t next = frame->next;
    uint32_t prev = frame->prev;

    if (next != VLI_FRAME_LINK_NONE) {
        frame_at(next)->prev = prev;
    }
    if (prev != VLI_FRAME_LINK_NONE) {
        frame_at(prev)->next = next;
    } else {
        zone->list[order] = next;
        if (next == VLI_FRAME_LINK_NONE) {
            zone->nonempty &= ~(1u << order);
        }
    }
    zone->work.removes++;
    add_blocks(zone, order, UINT32_MAX);
}

/* Takes the first block of a list that has one. */
static inline uint32_t pop(struct vli_zone *zone, unsigned order)
{
    uint32_t pfn = zone->list[order];

    list_remove(zone, pfn, order);
    vli_mark_leave(zone, pfn, order);
    return pfn;
}

/* Gives the upper parts of a block of order @have back to the lists until @order is left. */
static inline void split(struct vli_zone *zone, uint32_t pfn, unsigned have, unsigned order)
{
    zone->work.splits += have - order;
    while (have > order) {
        have--;
        list_insert(zone, pfn + (1u << have), have);
        vli_mark_enter(zone, pfn + (1u << have), have);
    }
}

uint32_t vli_buddy_take(struct vli_zone *zone, unsigned order)
{
    uint32_t candidates = zone->nonempty >> order;
    uint32_t pfn;
    unsigned have;

    if (candidates == 0) {
        return VLI_FRAME_LINK_NONE;
    }
    have = order + vli_bit_lowest(candidates);
    pfn = pop(zone, have);
    split(zone, pfn, have, order);
    add_free(zone, 0 - (1ull << order));
    return pfn;
}

size_t vli_buddy_take_singles(struct vli_zone *zone, size_t count, uint32_t *out)
{
    size_t had = 0;

    while (had < count && zone->nonempty != 0) {
        unsigned order = vli_bit_lowest(zone->nonempty);
        unsigned most = vli_bit_highest(count - had);
        uint32_t pfn = pop(zone, order);
        size_t frames;

        if (order > most) {
            split(zone, pfn, order, most);
            order = most;
        }
        frames = (size_t)1 << order;
        for (size_t i = 0; i < frames; i++) {
            out[had + i] = pfn + (uint32_t)i;
        }
        had += frames;
    }
    add_free(zone, 0 - (uint64_t)had);
    return had;
}

/* Fetches what a join of @pfn would write: the neighbours of its buddy in the list. */
static inline void prefetch_neighbours(const struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    const struct vl_frame *buddy = frame_at(pfn ^ 1u << order);

    if (vli_mark_may_join(zone, pfn, order)) {
        if (buddy->next != VLI_FRAME_LINK_NONE) {
            VLI_PREFETCHW(frame_at(buddy->next));
        }
        if (buddy->prev != VLI_FRAME_LINK_NONE) {
            VLI_PREFETCHW(frame_at(buddy->prev));
        }
    }
}

/* Joins or lists @count blocks of @order; returns how many of the next order stand in @pfns. */
static size_t give_order(struct vli_zone *zone, uint32_t *pfns, size_t count, unsigned order)
{
    uint32_t bit = 1u << order;
    size_t out = 0;
    size_t i = 0;

    while (i < count) {
        uint32_t pfn = pfns[i];

        if (i + 1 < count && pfns[i + 1] == (pfn ^ bit)) {
            i += 2;
        } else {
            if (i + AHEAD < count) {
                prefetch_neighbours(zone, pfns[i + AHEAD], order);
            }
            i++;
            zone->work.lookups++;
            if (!vli_mark_try_join(zone, pfn, order)) {
                list_insert(zone, pfn, order);
                vli_mark_settle(zone, pfn, order);
                continue;
            }
            list_remove(zone, pfn ^ bit, order);
            vli_mark_joined(zone, pfn ^ bit, order);
        }
        pfn &= ~bit;
        pfns[out++] = pfn;
        VLI_PREFETCHW(frame_at(pfn ^ bit << 1));
    }
    zone->work.merges += out;
    return out;
}

void vli_buddy_give(struct vli_zone *zone, uint32_t *pfns, size_t count, unsigned order)
{
    add_free(zone, (uint64_t)count << order);
    for (; order < VL_ORDER_MAX && count > 0; order++) {
        count = give_order(zone, pfns, count, order);
    }
    for (size_t i = 0; i < count; i++) {
        list_insert(zone, pfns[i], VL_ORDER_MAX);
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
        atomic_store_explicit(&zone->blocks[order], 0, memory_order_relaxed);
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
    const struct vl_frame *head = frame_at(pfn);
    uint32_t frames = 1u << order;

    VL_ASSERT(pfn % frames == 0);
    VL_ASSERT(pfn >= zone->start && zone->end - pfn >= frames);
    VL_ASSERT(head->prev == prev);
    VL_ASSERT(vli_mark_is_head(zone, pfn, order));
    VL_ASSERT(order == VL_ORDER_MAX || !vli_mark_is_free_pair(zone, pfn, order));
    for (uint32_t i = 0; i < frames; i++) {
        const struct vl_frame *frame = frame_at(pfn + i);

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
             pfn = frame_at(pfn)->next) {
            validate_block(zone, pfn, prev, order);
            prev = pfn;
            blocks++;
            VL_ASSERT((uint64_t)blocks << order <= zone->managed);
        }
        VL_ASSERT((blocks != 0) == ((zone->nonempty >> order & 1u) != 0));
        VL_ASSERT(blocks == atomic_load_explicit(&zone->blocks[order], memory_order_relaxed));
        free += (uint64_t)blocks << order;
    }
    VL_ASSERT(free == atomic_load_explicit(&zone->free, memory_order_relaxed));
}
