/*
 * buddy_mark.h (BUDDY=flags_atomic) - as BUDDY=flags, with the marks changed by locked
 * instructions: what the kernel's bit operations on a page's flags were when bitmaps were first
 * done away with.
 *
 * An idle head and a marked one differ in known bits, so that one locked exclusive-or does it.
 */
#ifndef VLI_BUDDY_MARK_H
#define VLI_BUDDY_MARK_H

#include "core/frame/zone.h"

#define VLI_MARK_BITMAP 0
#define VLI_MARK_LOCKED 1u

/* Flags of a free block's head. */
static inline uint32_t vli_mark_head(const struct vli_zone *zone, unsigned order)
{
    return zone->flags_free | order << VLI_FRAME_ORDER_SHIFT;
}

static inline void vli_mark_enter(struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    atomic_fetch_xor_explicit(&vli_frames[pfn].flags, vli_mark_head(zone, order) ^ zone->flags_idle,
                              memory_order_relaxed);
}

static inline void vli_mark_leave(struct vli_zone *zone, uint32_t pfn, unsigned order)
{
    vli_mark_enter(zone, pfn, order);
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
