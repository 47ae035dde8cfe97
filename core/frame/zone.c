/*
 * zone.c - which zone serves a request, how far down, and where freed blocks go.
 *
 * A request starts at the highest zone that will do of its CPU's node, and falls back to lower ones
 * of the node, then to those of other nodes (node.c). Those that have a higher one of their node
 * above them, which would do as well, keep more for those who can use nothing else. A zone may be
 * taken down to a floor that depends on who asks (enum vli_depth); the watermarks follow from how
 * much memory the zone has.
 *
 * Blocks that are freed may be of any zone. They go back many under one taking of a zone's lock.
 * Frames that were freed in sequence, upward or downward, go back as the large blocks that they
 * are, without a look at their descriptors.
 */
#include "core/frame/buddy_one.h"

/* Single frames that follow each other are given as larger blocks from this number on. Of larger
 * blocks two are enough: each one's descriptor is far from the others'. */
#define RUN 4u

struct vli_zone vli_zones[VL_ZONES_MAX];
unsigned vli_zone_count;

/* Free frames that a request must leave in a zone. */
static uint64_t floor_of(const struct vli_zone *zone, const struct vli_request *request)
{
    /* Of another node, too, the highest zone is no less there for this request than for others. */
    bool is_fallback = zone->above <= request->zone;

    switch (request->depth) {
    case VLI_DEPTH_LOW:
        return vli_watermark(is_fallback ? &zone->watermark_high : &zone->watermark_low);
    case VLI_DEPTH_MIN:
        return vli_watermark(is_fallback ? &zone->watermark_low : &zone->watermark_min);
    case VLI_DEPTH_ATOMIC:
        return vli_watermark(&zone->watermark_min) / (is_fallback ? 1 : 2);
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

static size_t take_from(struct vli_zone *zone, const struct vli_request *request, size_t count,
                        uint32_t *out)
{
    unsigned long irq = vl_host_irq_save();
    size_t most;
    size_t had = 0;

    vli_zone_lock(zone);
    most = spare(zone, request);
    count = count < most ? count : most;
    if (count == 1) {
        out[0] = vli_buddy_take_one(zone, request->order);
        had = out[0] != VLI_FRAME_LINK_NONE ? 1 : 0;
    } else if (count > 1) {
        had = vli_buddy_take_many(zone, request->order, count, out);
    }
    if (zone->node != request->node) {
        zone->work.abroad += (uint64_t)had << request->order;
    }
    vli_zone_unlock(zone);
    vl_host_irq_restore(irq);
    return had;
}

uint32_t vli_zone_take_quick(unsigned order)
{
    struct vli_zone *zone = vli_this_cpu()->frame.zone;
    uint32_t pfn = VLI_FRAME_LINK_NONE;

    vli_zone_lock(zone);
    if (VLI_LIKELY(atomic_load_explicit(&zone->free, memory_order_relaxed) >=
                   vli_watermark(&zone->watermark_low) + (1u << order))) {
        pfn = vli_buddy_take_one(zone, order);
    }
    vli_zone_unlock(zone);
    return pfn;
}

uint32_t vli_zone_take_run(uint32_t frames)
{
    struct vli_zone *zone = vli_this_cpu()->frame.zone;
    uint32_t pfn = VLI_FRAME_LINK_NONE;

    vli_zone_lock(zone);
    if (VLI_LIKELY(atomic_load_explicit(&zone->free, memory_order_relaxed) >=
                   vli_watermark(&zone->watermark_low) + frames)) {
        pfn = vli_buddy_take_run(zone, frames);
    }
    vli_zone_unlock(zone);
    return pfn;
}

size_t vli_zones_take(const struct vli_request *request, size_t count, uint32_t *out)
{
    const uint8_t *order = vli_nodes[request->node].zones;

    for (unsigned i = 0; i < vli_zone_count; i++) {
        struct vli_zone *zone = &vli_zones[order[i]];

        if (zone->index <= request->zone && (!request->stays || zone->node == request->node) &&
            spare(zone, request) > 0) {
            size_t had = take_from(zone, request, count, out);

            if (had > 0) {
                return had;
            }
        }
    }
    return 0;
}

void vli_zone_give_quick(uint32_t pfn, unsigned order)
{
    struct vli_zone *zone = vli_frame_zone(&vli_frames[pfn]);

    vli_zone_lock(zone);
    vli_buddy_give_one(zone, pfn, order);
    vli_zone_unlock(zone);
}

/* Is the frame of this zone? Most zones' hulls hold no others' frames, and then no descriptor need
 * be read. */
static inline bool is_of(const struct vli_zone *zone, uint32_t pfn)
{
    if (VLI_LIKELY(zone->is_alone)) {
        return pfn - zone->start < zone->end - zone->start;
    }
    return vli_frame_zone(&vli_frames[pfn]) == zone;
}

/* Do two blocks follow each other, upward or downward? */
static inline bool is_next(uint32_t pfn, uint32_t other, uint32_t step)
{
    return ((other - pfn + step) & ~(2 * step)) == 0;
}

/* How many blocks from @pfns on follow each other in the direction of the first two, which do; all
 * of them of @zone. */
static size_t run_length(const struct vli_zone *zone, const uint32_t *pfns, size_t count)
{
    uint32_t step = pfns[1] - pfns[0];
    size_t length = 1;

    while (length < count && pfns[length] - pfns[length - 1] == step && is_of(zone, pfns[length])) {
        length++;
    }
    return length;
}

/* Gives the frames [start, end) by the largest blocks that fit. */
static void give_run(struct vli_zone *zone, uint32_t start, uint32_t end) VL_REQUIRES(&zone->lock)
{
    while (start < end) {
        unsigned order = vli_bit_highest(end - start);
        unsigned aligned = start == 0 ? VL_ORDER_MAX : vli_bit_lowest(start);
        uint32_t pfn = start;

        order = order < aligned ? order : aligned;
        order = order < VL_ORDER_MAX ? order : VL_ORDER_MAX;
        start += 1u << order;
        vli_buddy_give_one(zone, pfn, order);
    }
}

/* Gives a run of blocks that starts or ends at each of these two. */
static void give_blocks(struct vli_zone *zone, uint32_t first, uint32_t last, unsigned order)
    VL_REQUIRES(&zone->lock)
{
    give_run(zone, first < last ? first : last, (first < last ? last : first) + (1u << order));
}

/* Gives blocks of @zone from @pfns on, at most VLI_GIVE_MAX single ones; returns how many. */
static size_t give_some(struct vli_zone *zone, const uint32_t *pfns, size_t count, unsigned order)
    VL_REQUIRES(&zone->lock)
{
    uint32_t chunk[VLI_GIVE_MAX];
    uint32_t step = 1u << order;
    size_t worth = order != 0 ? 2 : RUN;
    size_t single = 0;
    size_t at = 0;

    while (at < count && single < VLI_GIVE_MAX && is_of(zone, pfns[at])) {
        if (at + 1 < count && is_next(pfns[at], pfns[at + 1], step)) {
            size_t length = run_length(zone, pfns + at, count - at);

            if (length >= worth) {
                give_blocks(zone, pfns[at], pfns[at + length - 1], order);
                at += length;
                continue;
            }
        }
        VLI_PREFETCHW(&vli_frames[pfns[at]]);
        chunk[single++] = pfns[at++];
    }
    vli_buddy_give(zone, chunk, single, order);
    return at;
}

void vli_zones_give(const uint32_t *pfns, size_t count, unsigned order)
{
    while (count > 0) {
        struct vli_zone *zone = vli_frame_zone(&vli_frames[pfns[0]]);
        size_t most = count < VLI_GIVE_MAX ? count : VLI_GIVE_MAX;
        unsigned long irq = vl_host_irq_save();
        size_t given = 1;

        vli_zone_lock(zone);
        if (most == 1) {
            vli_buddy_give_one(zone, pfns[0], order);
        } else {
            given = give_some(zone, pfns, most, order);
        }
        vli_zone_unlock(zone);
        vl_host_irq_restore(irq);
        pfns += given;
        count -= given;
    }
}

void vli_zones_give_run(uint32_t start, uint32_t end)
{
    struct vli_zone *zone = vli_frame_zone(&vli_frames[start]);
    unsigned long irq = vl_host_irq_save();

    vli_zone_lock(zone);
    give_run(zone, start, end);
    vli_zone_unlock(zone);
    vl_host_irq_restore(irq);
}

size_t vli_zones_deficit(unsigned highest)
{
    size_t deficit = 0;

    for (unsigned i = 0; i <= highest; i++) {
        uint64_t free = atomic_load_explicit(&vli_zones[i].free, memory_order_relaxed);

        uint64_t high = vli_watermark(&vli_zones[i].watermark_high);

        deficit += free < high ? (size_t)(high - free) : 0;
    }
    return deficit;
}

/* ------------------------------------------------------------------------------- for the outside
 */

/* A zone's name as Linux has it: the highest of each node is Normal. */
static const char *name_of(unsigned zone)
{
    static const char *const names[] = {"Normal", "DMA32", "DMA"};
    unsigned below = 0;

    while (vli_zones[zone].above < VL_ZONES_MAX) {
        zone = vli_zones[zone].above;
        below++;
    }
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
        .node = from->node,
        .managed = from->managed,
        .free = from->free,
        .watermark_min = vli_watermark(&from->watermark_min),
        .watermark_low = vli_watermark(&from->watermark_low),
        .watermark_high = vli_watermark(&from->watermark_high),
        .work = from->work,
    };
    out->work.lookups = from->work.gives + from->work.merges - from->work.tops;
    out->work.inserts = from->work.gives + from->work.splits;
    out->work.removes = from->work.takes + from->work.merges;
    out->work.locked = (out->work.inserts + out->work.removes) * VLI_MARK_LOCKED;
    for (unsigned order = 0; order < VL_ORDER_COUNT; order++) {
        out->blocks[order] = from->blocks[order];
    }
    vli_spin_unlock_irq(&from->lock, VLI_RANK_ZONE, irq);
    return true;
}
