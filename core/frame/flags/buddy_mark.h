/*
 * buddy_mark.h (BUDDY=flags) - the head of a free block says so in its own flags word.
 *
 * Written by relaxed stores of the whole word under the zone's lock: the frame is free, so nobody
 * else writes it. A buddy's word is read by a relaxed load; a buddy that is in use may change its
 * word meanwhile, but never to one that carries the BUDDY flag, and one of another zone differs in
 * the zone's bits. So one comparison says: of this zone, not reserved, free, of the same order.
 */
#ifndef VLI_BUDDY_MARK_H
#define VLI_BUDDY_MARK_H

#include "core/frame/zone.h"

#define VLI_MARK_BITMAP 0
#define VLI_MARK_LOCKED 0u

/* Flags of a free block's head. */
static inline uint32_t vli_mark_head(const struct vli_zone *zone, unsigned order)
{
    return zone->flags_free | order << VLI_FRAME_ORDER_SHIFT;
}

static inline void vli_mark_enter(struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    atomic_store_explicit(&vli_frames[pfn].flags, vli_mark_head(zone, order), memory_order_relaxed);
}

static inline void vli_mark_leave(struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    (void)order;
    atomic_store_explicit(&vli_frames[pfn].flags, zone->flags_idle, memory_order_relaxed);
}

static inline bool vli_mark_may_join(const struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    return atomic_load_explicit(&vli_frames[pfn ^ 1u << order].flags, memory_order_relaxed) ==
           vli_mark_head(zone, order);
}

static inline bool vli_mark_try_join(struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    return vli_mark_may_join(zone, pfn, order);
}

static inline void vli_mark_settle(struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    vli_mark_enter(zone, pfn, order);
}

static inline void vli_mark_joined(struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    vli_mark_leave(zone, pfn, order);
}

static inline bool vli_mark_is_head(const struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    return atomic_load_explicit(&vli_frames[pfn].flags, memory_order_relaxed) ==
           vli_mark_head(zone, order);
}

static inline bool vli_mark_is_free_pair(const struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    return vli_mark_may_join(zone, pfn, order);
}

#endif
