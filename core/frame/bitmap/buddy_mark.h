/*
 * buddy_mark.h (BUDDY=bitmap) - one bit a pair of buddies and order, set while exactly one of the
 * two is free at that order: the design of Linux up to 2.6.10.
 *
 * The bits are the zone's own and changed under its lock by plain instructions. Each coming and
 * going of a block turns its pair's bit over. A hole, a reserved frame or another zone's never
 * turns it, so nothing merges across. Blocks of the highest order have no pair.
 */
#ifndef VLI_BUDDY_MARK_H
#define VLI_BUDDY_MARK_H

#include "core/frame/zone.h"

#define VLI_MARK_BITMAP 1
#define VLI_MARK_LOCKED 0u

/* Number of a block's pair among those of its order in the zone. */
static inline uint32_t vli_mark_pair(const struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    return (pfn >> (order + 1)) - (zone->start >> (order + 1));
}

/* Turns the pair's bit over; returns what it was. */
static inline bool vli_mark_turn(struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    uint32_t pair = vli_mark_pair(zone, pfn, order);
    uint64_t *word = &zone->bits[order][pair / 64];
    uint64_t bit = 1ull << (pair % 64);

    *word ^= bit;
    return (*word & bit) == 0;
}

static inline void vli_mark_enter(struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    if (order < VL_ORDER_MAX) {
        (void)vli_mark_turn(zone, pfn, order);
    }
}

static inline void vli_mark_leave(struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    vli_mark_enter(zone, pfn, order);
}

static inline bool vli_mark_may_join(const struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    uint32_t pair = vli_mark_pair(zone, pfn, order);

    return (zone->bits[order][pair / 64] >> (pair % 64) & 1u) != 0;
}

static inline bool vli_mark_try_join(struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    return vli_mark_turn(zone, pfn, order);
}

static inline void vli_mark_settle(struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    (void)zone;
    (void)pfn;
    (void)order;
}

static inline void vli_mark_joined(struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    (void)zone;
    (void)pfn;
    (void)order;
}

static inline bool vli_mark_is_head(const struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    (void)order;
    return atomic_load_explicit(&vli_frames[pfn].flags, memory_order_relaxed) == zone->flags_idle;
}

/* Of a block in the list: when its buddy is free too, the bit is clear. */
static inline bool vli_mark_is_free_pair(const struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    return !vli_mark_may_join(zone, pfn, order);
}

#endif
