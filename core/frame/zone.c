/*
 * zone.c - which zone serves a request, how far down, and where freed blocks go.
 *
 * A request starts at the highest zone that will do and falls back to lower ones, which keep more
 * for those who can use nothing else. A zone may be taken down to a floor that depends on who asks
 * (enum vli_depth); the watermarks are fixed when the zone is made.
 *
 * Blocks that are freed may be of any zone: their descriptors tell. They go back in runs of one
 * zone, each under one taking of its lock; the descriptors are prefetched before that.
 */
#include "core/frame/buddy.h"
#include "buddy_mark.h"

/* Most blocks given under one taking of a lock: it bounds the time with interrupts off, and the
 * stack. */
#define CHUNK 256u

struct vli_zone vli_zones[VL_ZONES_MAX];
unsigned vli_zone_count;

/* Free frames that a request must leave in a zone. */
static uint64_t floor_of(const struct vli_zone *zone, const struct vli_request *request)
{
    bool is_fallback = zone->index != request->zone;

    switch (request->depth) {
    case VLI_DEPTH_LOW:
        return is_fallback ? zone->watermark_high : zone->watermark_low;
    case VLI_DEPTH_MIN:
        return is_fallback ? zone->watermark_low : zone->watermark_min;
    case VLI_DEPTH_ATOMIC:
        return is_fallback ? zone->watermark_min : zone->watermark_min / 2;
    case VLI_DEPTH_ALL:
        break;
    }
    return 0;
}

/* Blocks of the request's order that the zone can spare. */
static size_t spare(const struct vli_zone *zone, const struct vli_request *request)
{
    uint64_t free = atomic_load_explicit(&zone->free, memory_order_relaxed);
    uint64_t floor = floor_of(zone, request);

    return free > floor ? (size_t)((free - floor) >> request->order) : 0;
}

static size_t take_blocks(struct vli_zone *zone, unsigned order, size_t count, uint32_t *out)
    VL_REQUIRES(&zone->lock)
{
    uint32_t flags = vli_flags_idle(zone->index) | order << VLI_FRAME_ORDER_SHIFT;
    size_t had = 0;

    while (had < count) {
        uint32_t pfn = vli_buddy_take(zone, order);

        if (pfn == VLI_FRAME_LINK_NONE) {
            break;
        }
        if (order != 0) {
            atomic_store_explicit(&vli_frames[pfn].flags, flags, memory_order_relaxed);
        }
        out[had++] = pfn;
    }
    return had;
}

static size_t take_from(struct vli_zone *zone, const struct vli_request *request, size_t count,
                        uint32_t *out)
{
    unsigned long irq = vli_spin_lock_irq(&zone->lock, VLI_RANK_ZONE);
    size_t most = spare(zone, request);
    size_t had;

    count = count < most ? count : most;
    zone->work.locks++;
    if (request->order == 0 && count > 1) {
        had = vli_buddy_take_singles(zone, count, out);
    } else {
        had = take_blocks(zone, request->order, count, out);
    }
    vli_spin_unlock_irq(&zone->lock, VLI_RANK_ZONE, irq);
    return had;
}

size_t vli_zones_take(const struct vli_request *request, size_t count, uint32_t *out)
{
    for (unsigned i = request->zone + 1; i-- > 0;) {
        size_t had =
            spare(&vli_zones[i], request) > 0 ? take_from(&vli_zones[i], request, count, out) : 0;

        if (had > 0) {
            return had;
        }
    }
    return 0;
}

static void give_chunk(struct vli_zone *zone, uint32_t *pfns, size_t count, unsigned order)
{
    unsigned long irq = vli_spin_lock_irq(&zone->lock, VLI_RANK_ZONE);

    zone->work.locks++;
    vli_buddy_give(zone, pfns, count, order);
    vli_spin_unlock_irq(&zone->lock, VLI_RANK_ZONE, irq);
}

/* Marks a block's head idle again: the order of a block handed out stands in it. */
static inline void set_idle(uint32_t pfn, unsigned order)
{
    if (order != 0) {
        uint32_t flags = atomic_load_explicit(&vli_frames[pfn].flags, memory_order_relaxed);

        atomic_store_explicit(&vli_frames[pfn].flags, flags & ~VLI_FRAME_ORDER_MASK,
                              memory_order_relaxed);
    }
}

/* The general case: gathers runs of one zone. */
static void give_many(const uint32_t *pfns, size_t count, unsigned order)
{
    uint32_t chunk[CHUNK];
    size_t at = 0;

    for (size_t i = 0; i < count && i < CHUNK; i++) {
        VLI_PREFETCHW(&vli_frames[pfns[i]]);
    }
    while (at < count) {
        struct vli_zone *zone = vli_frame_zone(&vli_frames[pfns[at]]);
        size_t n = 0;

        do {
            if (at + CHUNK < count) {
                VLI_PREFETCHW(&vli_frames[pfns[at + CHUNK]]);
            }
            set_idle(pfns[at], order);
            chunk[n++] = pfns[at++];
        } while (at < count && n < CHUNK && vli_frame_zone(&vli_frames[pfns[at]]) == zone);
        give_chunk(zone, chunk, n, order);
    }
}

void vli_zones_give(const uint32_t *pfns, size_t count, unsigned order)
{
    if (count == 1) {
        uint32_t pfn = pfns[0];

        set_idle(pfn, order);
        give_chunk(vli_frame_zone(&vli_frames[pfn]), &pfn, 1, order);
    } else {
        give_many(pfns, count, order);
    }
}

size_t vli_zones_deficit(unsigned highest)
{
    size_t deficit = 0;

    for (unsigned i = 0; i <= highest; i++) {
        uint64_t free = atomic_load_explicit(&vli_zones[i].free, memory_order_relaxed);

        if (free < vli_zones[i].watermark_high) {
            deficit += (size_t)(vli_zones[i].watermark_high - free);
        }
    }
    return deficit;
}

/* ------------------------------------------------------------------------------- for the outside
 */

/* A zone's name as Linux has it: the highest is Normal. */
static const char *name_of(unsigned zone)
{
    static const char *const names[] = {"Normal", "DMA32", "DMA"};
    unsigned below = vli_zone_count - 1 - zone;

    return below < VLI_COUNT_OF(names) ? names[below] : "Low";
}

bool vli_zone_info(unsigned zone, struct vli_zone_info *out)
{
    struct vli_zone *from = &vli_zones[zone];
    unsigned long irq;

    if (zone >= vli_zone_count) {
        return false;
    }
    irq = vli_spin_lock_irq(&from->lock, VLI_RANK_ZONE);
    *out = (struct vli_zone_info){
        .name = name_of(zone),
        .managed = from->managed,
        .free = from->free,
        .watermark_min = from->watermark_min,
        .watermark_low = from->watermark_low,
        .watermark_high = from->watermark_high,
        .work = from->work,
    };
    out->work.locked = (from->work.inserts + from->work.removes) * VLI_MARK_LOCKED;
    for (unsigned order = 0; order < VL_ORDER_COUNT; order++) {
        out->blocks[order] = atomic_load_explicit(&from->blocks[order], memory_order_relaxed);
    }
    vli_spin_unlock_irq(&from->lock, VLI_RANK_ZONE, irq);
    return true;
}
