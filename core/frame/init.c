/*
 * init.c - from the host's ranges to zones: descriptors are carved from the memory that they
 * describe, every frame gets its zone, and whole blocks go into the lists.
 *
 * The descriptors are one array from the first range's start to the last one's end, rounded outward
 * to blocks of the highest order, so that the buddy of a frame that has a descriptor has one, too.
 * Frames in holes, those that the descriptors themselves fill, and the rounding are RESERVED with 0
 * references; frames of reserved ranges are RESERVED with 1, and can be released.
 *
 * Descriptors of absent frames are zero, which no other frame's are. Where the host gives a range
 * for all side data, they are so from the start and not touched, nor are those of that range itself
 * if it lies among the others.
 */
#include "core/frame/buddy_one.h"

#define RANGES_MAX 64u
#define BLOCK      (1u << VL_ORDER_MAX)

static struct vl_range ranges[RANGES_MAX];
static size_t range_count;

/* The part of a range that descriptors, histories and bitmaps fill. */
static uint32_t carved_start;
static uint32_t carved_end;
static uint64_t carved_bytes;

static uint32_t first_of(const struct vl_range *range)
{
    return vl_pa_to_pfn(range->start).n;
}

static uint32_t end_of(const struct vl_range *range)
{
    return vl_pa_to_pfn(range->end).n;
}

/* The range for all side data, or NULL. */
static const struct vl_range *side;

static bool range_is_good(size_t i)
{
    const struct vl_range *range = &ranges[i];
    uint64_t limit = (uint64_t)(UINT32_MAX & ~(BLOCK - 1)) << VL_PAGE_SHIFT;
    uint64_t unit = range->kind == VL_RANGE_ABSENT ? BLOCK * VL_PAGE_SIZE : VL_PAGE_SIZE;

    if (range->kind > VL_RANGE_SIDE || range->zone >= VL_ZONES_MAX) {
        return false;
    }
    return range->start.a % unit == 0 && range->end.a % unit == 0 &&
           range->start.a < range->end.a && range->end.a <= limit &&
           (i == 0 || ranges[i - 1].end.a <= range->start.a);
}

/* Notes the range for all side data, if there is one. */
static enum vl_status find_side(void)
{
    side = NULL;
    for (size_t i = 0; i < range_count; i++) {
        if (ranges[i].kind != VL_RANGE_SIDE) {
            continue;
        }
        if (side != NULL) {
            vli_log(VL_LOG_ERROR, "frame: ranges of memory: two of kind SIDE");
            return VL_EINVAL;
        }
        side = &ranges[i];
    }
    if (side != NULL && range_count == 1) {
        vli_log(VL_LOG_ERROR, "frame: the host has no memory");
        return VL_EINVAL;
    }
    return VL_OK;
}

static enum vl_status read_ranges(void)
{
    range_count = vl_host_memory_ranges(ranges, RANGES_MAX);
    if (range_count > RANGES_MAX) {
        vli_log(VL_LOG_WARNING, "frame: %zu ranges of memory, %u are used", range_count,
                RANGES_MAX);
        range_count = RANGES_MAX;
    }
    if (range_count == 0) {
        vli_log(VL_LOG_ERROR, "frame: the host has no memory");
        return VL_EINVAL;
    }
    for (size_t i = 0; i < range_count; i++) {
        if (!range_is_good(i)) {
            vli_log(VL_LOG_ERROR,
                    "frame: range %zu of memory, %llx to %llx in zone %u, is misaligned, empty, "
                    "out of order or beyond what there can be",
                    i, (unsigned long long)ranges[i].start.a, (unsigned long long)ranges[i].end.a,
                    (unsigned)ranges[i].zone);
            return VL_EINVAL;
        }
    }
    return find_side();
}

/* Adds a range to its zone's hull and to the whole's. */
static void add_to_hulls(const struct vl_range *range)
{
    struct vli_zone *zone = &vli_zones[range->zone];

    if (zone->end == 0) {
        zone->start = first_of(range);
    }
    zone->end = end_of(range);
    if (vli_frames_end == 0) {
        vli_frames_first = first_of(range) & ~(BLOCK - 1);
    }
    vli_frames_end = (end_of(range) + BLOCK - 1) & ~(BLOCK - 1);
    if (range->zone + 1 > vli_zone_count) {
        vli_zone_count = range->zone + 1;
    }
}

/* Sets the hulls of the zones and of the whole; refuses holes that cost too much. */
static enum vl_status make_hulls(void)
{
    uint64_t frames = 0;
    uint64_t others = 0;
    uint64_t hole_bytes;

    memset(vli_zones, 0, sizeof(vli_zones));
    vli_zone_count = 0;
    vli_frames_end = 0;
    for (size_t i = 0; i < range_count; i++) {
        if (ranges[i].kind != VL_RANGE_SIDE) {
            add_to_hulls(&ranges[i]);
        }
    }
    for (size_t i = 0; i < range_count; i++) {
        uint64_t length = end_of(&ranges[i]) - first_of(&ranges[i]);

        if (ranges[i].kind == VL_RANGE_FREE || ranges[i].kind == VL_RANGE_RESERVED) {
            frames += length;
        } else if (first_of(&ranges[i]) >= vli_frames_first &&
                   end_of(&ranges[i]) <= vli_frames_end) {
            others += length;
        }
    }
    hole_bytes = (vli_frames_end - vli_frames_first - frames - others) * sizeof(struct vl_frame);
    if (hole_bytes > frames * VL_PAGE_SIZE / 16 + 2 * BLOCK * sizeof(struct vl_frame)) {
        vli_log(VL_LOG_ERROR, "frame: the ranges of memory are too far apart");
        return VL_EINVAL;
    }
    return VL_OK;
}

/* Takes the range of kind SIDE for all side data. */
static enum vl_status use_side(uint32_t pages)
{
    if (end_of(side) - first_of(side) < pages) {
        vli_log(VL_LOG_ERROR, "frame: the range for side data has %u KiB, and %u are needed",
                (end_of(side) - first_of(side)) * 4, pages * 4);
        return VL_ENOMEM;
    }
    carved_start = first_of(side);
    carved_end = end_of(side);
    return VL_OK;
}

/* Finds room for all side data: the range of that kind; or else the end of the highest range that
 * is twice as large, or else of the largest. */
static enum vl_status carve(void)
{
    size_t frames = vli_frames_end - vli_frames_first;
    const struct vl_range *best = NULL;
    uint32_t pages;

    carved_bytes = frames * sizeof(struct vl_frame) + vli_history_bytes(frames);
    for (unsigned i = 0; i < vli_zone_count; i++) {
        carved_bytes += vli_buddy_bytes(&vli_zones[i]);
    }
    pages = (uint32_t)((carved_bytes + VL_PAGE_SIZE - 1) >> VL_PAGE_SHIFT);
    if (side != NULL) {
        return use_side(pages);
    }
    for (size_t i = 0; i < range_count; i++) {
        uint64_t length = end_of(&ranges[i]) - first_of(&ranges[i]);

        if (ranges[i].kind == VL_RANGE_FREE &&
            (best == NULL || length >= 2ull * pages || length > end_of(best) - first_of(best))) {
            best = &ranges[i];
        }
    }
    if (best == NULL || end_of(best) - first_of(best) <= pages) {
        vli_log(VL_LOG_ERROR, "frame: no range of memory has room for %u KiB of descriptors",
                pages * 4);
        return VL_ENOMEM;
    }
    carved_end = end_of(best);
    carved_start = carved_end - pages;
    return VL_OK;
}

uint64_t vl_frame_side_bytes(uint64_t frames)
{
    uint64_t rounded = frames + 2 * BLOCK < UINT32_MAX ? frames + 2 * BLOCK : UINT32_MAX;
    struct vli_zone zone = {.end = (uint32_t)rounded};
    /* Each further zone rounds once more. */
    uint64_t each = (VL_ORDER_COUNT + 1) * 2 * sizeof(uint64_t);
    uint64_t bytes = rounded * sizeof(struct vl_frame) + vli_history_bytes((size_t)rounded) +
                     vli_buddy_bytes(&zone) + VL_ZONES_MAX * each;

    return vli_round_up(bytes, VL_PAGE_SIZE);
}

/* Looks whether other zones' ranges lie inside a zone's hull. */
static void set_alone(struct vli_zone *zone)
{
    zone->is_alone = true;
    for (size_t i = 0; i < range_count; i++) {
        if (ranges[i].kind != VL_RANGE_SIDE && &vli_zones[ranges[i].zone] != zone &&
            first_of(&ranges[i]) < zone->end && end_of(&ranges[i]) > zone->start) {
            zone->is_alone = false;
        }
    }
}

void vli_frames_set(uint32_t start, uint32_t end, uint32_t flags, uint32_t refs)
{
    for (uint32_t pfn = start; pfn < end; pfn++) {
        struct vl_frame *frame = &vli_frames[pfn];

        atomic_store_explicit(&frame->flags, flags, memory_order_relaxed);
        atomic_store_explicit(&frame->refs, refs, memory_order_relaxed);
        atomic_store_explicit(&frame->owner, 0, memory_order_relaxed);
        atomic_store_explicit(&frame->mappings, 0, memory_order_relaxed);
        frame->next = VLI_FRAME_LINK_NONE;
        frame->prev = VLI_FRAME_LINK_NONE;
        frame->index_low = 0;
    }
}

/* Frames that no range has, in the hull of all: no memory. */
static void set_holes(void)
{
    uint32_t at = vli_frames_first;

    for (size_t i = 0; i < range_count; i++) {
        uint32_t end =
            first_of(&ranges[i]) < vli_frames_end ? first_of(&ranges[i]) : vli_frames_end;

        if (at < end) {
            vli_frames_set(at, end, VLI_FRAME_RESERVED, 0);
        }
        at = end_of(&ranges[i]) > at ? end_of(&ranges[i]) : at;
        if (ranges[i].kind == VL_RANGE_ABSENT && side == NULL) {
            memset(&vli_frames[first_of(&ranges[i])], 0,
                   (end_of(&ranges[i]) - first_of(&ranges[i])) * sizeof(struct vl_frame));
        }
    }
    if (at < vli_frames_end) {
        vli_frames_set(at, vli_frames_end, VLI_FRAME_RESERVED, 0);
    }
}

static void place_side_data(void)
{
    unsigned char *at = vl_host_phys_to_virt(vl_pfn_to_pa((struct vl_pfn){carved_start}));
    size_t frames = vli_frames_end - vli_frames_first;

    vli_frames =
        (struct vl_frame *)(uintptr_t)((uintptr_t)at - vli_frames_first * sizeof(struct vl_frame));
    at += frames * sizeof(struct vl_frame);
    set_holes();
    vli_history_init(at, vli_frames_first, frames, side != NULL);
    at += vli_history_bytes(frames);
    for (unsigned i = 0; i < vli_zone_count; i++) {
        vli_zones[i].index = i;
        vli_zones[i].flags_idle = vli_flags_idle(i);
        vli_zones[i].flags_free =
            (uint32_t)VLI_FRAME_FREE | VLI_FRAME_BUDDY | i << VLI_FRAME_ZONE_SHIFT;
        set_alone(&vli_zones[i]);
        vli_spin_init(&vli_zones[i].lock);
        vli_buddy_init(&vli_zones[i], at, side != NULL);
        at += vli_buddy_bytes(&vli_zones[i]);
    }
}

/* Gives a range of idle frames to a zone's lists by the largest blocks, the lowest on top. */
static void give_range(struct vli_zone *zone, uint32_t start, uint32_t end)
{
    while (start < end) {
        unsigned order = VL_ORDER_MAX;
        unsigned long irq;

        while ((end & ((1u << order) - 1)) != 0 || end - start < 1u << order) {
            order--;
        }
        end -= 1u << order;
        irq = vli_spin_lock_irq(&zone->lock, VLI_RANK_ZONE);
        vli_buddy_give_one(zone, end, order);
        vli_spin_unlock_irq(&zone->lock, VLI_RANK_ZONE, irq);
    }
}

static void add_range(const struct vl_range *range)
{
    struct vli_zone *zone = &vli_zones[range->zone];
    uint32_t zone_bits = range->zone << VLI_FRAME_ZONE_SHIFT;
    uint32_t start = first_of(range);
    uint32_t end = end_of(range);

    if (range->kind == VL_RANGE_SIDE) {
        return;
    }
    if (range->kind == VL_RANGE_ABSENT) {
        zone->absent += end - start;
        return;
    }
    if (end == carved_end) {
        vli_frames_set(carved_start, carved_end, VLI_FRAME_RESERVED, 0);
        end = carved_start;
    }
    if (range->kind == VL_RANGE_RESERVED) {
        vli_frames_set(start, end, zone_bits | (uint32_t)VLI_FRAME_RESERVED, 1);
        zone->reserved += end - start;
        return;
    }
    vli_frames_set(start, end, vli_flags_idle(range->zone), 1);
    zone->managed += end - start;
    give_range(zone, start, end);
}

/* Min is 1/256 of the zone, but a zone of any size keeps a few frames. */
void vli_zone_set_watermarks(struct vli_zone *zone)
{
    uint64_t managed = atomic_load_explicit(&zone->managed, memory_order_relaxed);
    uint64_t min = managed / 256;

    if (min < 32) {
        min = managed / 64 < 32 ? managed / 64 : 32;
    }
    atomic_store_explicit(&zone->watermark_min, min, memory_order_relaxed);
    atomic_store_explicit(&zone->watermark_low, min * 2, memory_order_relaxed);
    atomic_store_explicit(&zone->watermark_high, min * 3, memory_order_relaxed);
}

const struct vl_range *vli_range_at(size_t index)
{
    return index < range_count ? &ranges[index] : NULL;
}

const struct vl_range *vli_range_of(uint32_t start, uint32_t end, enum vl_range_kind kind)
{
    for (size_t i = 0; i < range_count; i++) {
        if (ranges[i].kind == (uint32_t)kind && start >= first_of(&ranges[i]) &&
            end <= end_of(&ranges[i])) {
            return &ranges[i];
        }
    }
    return NULL;
}

enum vl_status vli_frame_init(void)
{
    struct vl_frame_counts counts;
    enum vl_status status = read_ranges();

    if (status == VL_OK) {
        status = make_hulls();
    }
    if (status == VL_OK) {
        status = vli_nodes_init();
    }
    if (status == VL_OK) {
        status = carve();
    }
    if (status != VL_OK) {
        return status;
    }
    place_side_data();
    for (size_t i = 0; i < range_count; i++) {
        add_range(&ranges[i]);
    }
    for (unsigned i = 0; i < vli_zone_count; i++) {
        vli_zone_set_watermarks(&vli_zones[i]);
    }
    vli_stock_init();
    vl_frame_set_reclaim(NULL);
    vli_shrink_init();
    vl_frame_counts(&counts);
    vli_log(VL_LOG_INFO,
            "memory: %llu KiB free, %llu KiB reserved, %llu KiB of descriptors; %u zones",
            (unsigned long long)(counts.managed * 4), (unsigned long long)(counts.reserved * 4),
            (unsigned long long)(counts.descriptors_bytes / 1024), vli_zone_count);
    return VL_OK;
}

/* --------------------------------------------------------------------------- reserved, and counts
 */

/* Takes a frame out of the reserve; false when it is not in it. */
static bool unreserve(struct vl_pfn pfn)
{
    struct vl_frame *frame = vli_frame_of(pfn);
    struct vli_zone *zone = vli_frame_zone(frame);
    unsigned long irq = vli_spin_lock_irq(&zone->lock, VLI_RANK_ZONE);
    bool is_reserved = vli_frame_type(frame) == VLI_FRAME_RESERVED &&
                       atomic_load_explicit(&frame->refs, memory_order_relaxed) == 1;

    if (is_reserved) {
        atomic_store_explicit(&frame->flags, vli_flags_idle(zone->index), memory_order_relaxed);
        zone->managed++;
        zone->reserved--;
    }
    vli_spin_unlock_irq(&zone->lock, VLI_RANK_ZONE, irq);
    return is_reserved;
}

bool vli_frame_adopt(struct vl_frame *frame)
{
    struct vl_pfn pfn = vli_frame_pfn(frame);

    if (!unreserve(pfn)) {
        return false;
    }
    vli_history_alloc(pfn, 0, VLI_RETURN_ADDRESS);
    VLI_EVENT(VL_EVENT_FRAME_ALLOC, pfn.n, 0);
    return true;
}

enum vl_status vl_frame_release_reserved(struct vl_pfn start, struct vl_pfn end)
{
    if (start.n >= end.n || !vli_frame_has(start) || end.n > vli_frames_end) {
        return VL_EINVAL;
    }
    for (struct vl_pfn pfn = start; pfn.n < end.n; pfn.n++) {
        const struct vl_frame *frame = vli_frame_of(pfn);

        if (vli_frame_type(frame) != VLI_FRAME_RESERVED ||
            atomic_load_explicit(&frame->refs, memory_order_relaxed) != 1) {
            return VL_EINVAL;
        }
    }
    for (struct vl_pfn pfn = start; pfn.n < end.n; pfn.n++) {
        if (unreserve(pfn)) {
            vli_zones_give(&pfn.n, 1, 0);
        }
    }
    return VL_OK;
}

void vl_frame_counts(struct vl_frame_counts *out)
{
    unsigned cpus = vl_host_cpu_count();

    *out = (struct vl_frame_counts){.descriptors_bytes = carved_bytes};
    for (unsigned i = 0; i < vli_zone_count; i++) {
        out->managed += atomic_load_explicit(&vli_zones[i].managed, memory_order_relaxed);
        out->reserved += atomic_load_explicit(&vli_zones[i].reserved, memory_order_relaxed);
        out->absent += atomic_load_explicit(&vli_zones[i].absent, memory_order_relaxed);
        out->free_zones += atomic_load_explicit(&vli_zones[i].free, memory_order_relaxed);
    }
    for (unsigned cpu = 0; cpu < cpus; cpu++) {
        const struct vli_frame_percpu *stock = &vli_percpu_of(cpu)->frame;

        out->free_stock += atomic_load_explicit(&stock->count0, memory_order_relaxed);
        out->free_stock += (uint64_t)atomic_load_explicit(&stock->count9, memory_order_relaxed)
                           << VLI_STOCK_ORDER_LARGE;
    }
}

static void validate_stock(const struct vli_frame_percpu *stock)
{
    uint32_t count0 = atomic_load_explicit(&stock->count0, memory_order_relaxed);
    uint32_t count9 = atomic_load_explicit(&stock->count9, memory_order_relaxed);

    VL_ASSERT(count0 <= VLI_STOCK_ORDER0);
    VL_ASSERT(count9 <= VLI_STOCK_ORDER9);
    for (uint32_t i = 0; i < count0 + count9; i++) {
        struct vl_pfn pfn = {i < count0 ? stock->order0[i] : stock->order9[i - count0]};
        unsigned order = i < count0 ? 0 : VLI_STOCK_ORDER_LARGE;
        const struct vl_frame *frame = vli_frame_of(pfn);

        VL_ASSERT(vli_frame_has(pfn));
        VL_ASSERT(pfn.n % (1u << order) == 0);
        VL_ASSERT(vli_frame_zone(frame)->node == stock->home);
        VL_ASSERT(atomic_load_explicit(&frame->flags, memory_order_relaxed) ==
                  vli_flags_idle(vli_frame_zone(frame)->index));
        VL_ASSERT(atomic_load_explicit(&frame->refs, memory_order_relaxed) == 1);
        vli_history_check_free(pfn);
    }
}

void vli_frame_validate(void)
{
    for (unsigned i = 0; i < vli_zone_count; i++) {
        unsigned long irq = vli_spin_lock_irq(&vli_zones[i].lock, VLI_RANK_ZONE);

        vli_buddy_validate(&vli_zones[i]);
        VL_ASSERT(vli_zones[i].free <= vli_zones[i].managed);
        vli_spin_unlock_irq(&vli_zones[i].lock, VLI_RANK_ZONE, irq);
    }
    for (unsigned cpu = 0; cpu < vl_host_cpu_count(); cpu++) {
        validate_stock(&vli_percpu_of(cpu)->frame);
    }
}
