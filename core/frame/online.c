/*
 * online.c - memory that comes and goes while the machine runs: blocks of the highest order inside
 * ranges of kind ABSENT.
 *
 *      absent ──claim──► claimed ──descriptors written──► free ──► (in use …)
 *        ▲                                                 │
 *        └────────── descriptors zeroed ◄── claimed ◄──────┘  offline, all of it free
 *
 * The descriptors of an absent frame are all zero, which no other frame's are. A block is claimed
 * under its zone's lock by its head's flags, {RESERVED}, with no references; whoever claimed it
 * writes the other descriptors without a lock. No frame of another block ever looks at them:
 * buddies lie inside one block of the highest order.
 *
 * An online block is an ordinary one. Watermarks and stocks' limits follow what is managed.
 */
#include "core/frame/zone.h"
#include "core/frame/buddy.h"

#define BLOCK (1u << VL_ORDER_MAX)
/* Blocks that come into a zone under one taking of its lock: it bounds the time with interrupts
 * off. */
#define CHUNK 256u

/* The zone of [start, end) when that is whole blocks of one absent range, or NULL. */
static struct vli_zone *zone_of(struct vl_pfn start, struct vl_pfn end)
{
    const struct vl_range *range;

    if (start.n >= end.n || start.n % BLOCK != 0 || end.n % BLOCK != 0) {
        return NULL;
    }
    range = vli_range_of(start.n, end.n, VL_RANGE_ABSENT);
    return range != NULL ? &vli_zones[range->zone] : NULL;
}

static void set_flags(uint32_t pfn, uint32_t flags)
{
    atomic_store_explicit(&vli_frames[pfn].flags, flags, memory_order_relaxed);
}

/* Makes an absent block the caller's; false when it is not absent. */
static bool claim(struct vli_zone *zone, uint32_t pfn)
{
    unsigned long irq = vli_spin_lock_irq(&zone->lock, VLI_RANK_ZONE);
    bool is_absent = vli_frame_is_absent(&vli_frames[pfn]);

    if (is_absent) {
        set_flags(pfn, VLI_FRAME_RESERVED);
    }
    vli_spin_unlock_irq(&zone->lock, VLI_RANK_ZONE, irq);
    return is_absent;
}

/* The caller's blocks are absent again; their descriptors but for the heads' flags are zero. */
static void unclaim(struct vli_zone *zone, uint32_t start, uint32_t end)
{
    for (uint32_t pfn = start; pfn < end; pfn += BLOCK) {
        unsigned long irq = vli_spin_lock_irq(&zone->lock, VLI_RANK_ZONE);

        set_flags(pfn, 0);
        vli_spin_unlock_irq(&zone->lock, VLI_RANK_ZONE, irq);
    }
}

/* Changes what the zone has by so many frames, of what was absent. The lock is held. */
static void add_managed(struct vli_zone *zone, uint64_t change) VL_REQUIRES(&zone->lock)
{
    uint64_t managed = atomic_load_explicit(&zone->managed, memory_order_relaxed);
    uint64_t absent = atomic_load_explicit(&zone->absent, memory_order_relaxed);

    atomic_store_explicit(&zone->managed, managed + change, memory_order_relaxed);
    atomic_store_explicit(&zone->absent, absent - change, memory_order_relaxed);
    vli_zone_set_watermarks(zone);
}

/* Blocks whose descriptors are written become free, the lowest on top. */
static void add_blocks(struct vli_zone *zone, uint32_t start, uint32_t end)
{
    while (end > start) {
        uint32_t from = end - start > CHUNK * BLOCK ? end - CHUNK * BLOCK : start;
        unsigned long irq = vli_spin_lock_irq(&zone->lock, VLI_RANK_ZONE);

        add_managed(zone, end - from);
        while (end > from) {
            uint32_t block[1] = {end -= BLOCK};

            vli_buddy_give(zone, block, 1, VL_ORDER_MAX);
        }
        vli_spin_unlock_irq(&zone->lock, VLI_RANK_ZONE, irq);
    }
}

enum vl_status vl_frame_online(struct vl_pfn start, struct vl_pfn end)
{
    struct vli_zone *zone = zone_of(start, end);

    if (zone == NULL) {
        return VL_EINVAL;
    }
    for (uint32_t pfn = start.n; pfn < end.n; pfn += BLOCK) {
        if (!claim(zone, pfn)) {
            unclaim(zone, start.n, pfn);
            return VL_EEXIST;
        }
    }
    vli_frames_set(start.n, end.n, vli_flags_idle(zone->index), 1);
    add_blocks(zone, start.n, end.n);
    vli_stock_resize();
    return VL_OK;
}

/* All zero, but for the flags of the blocks' heads, by which they are claimed. */
static void clear(uint32_t start, uint32_t end)
{
    for (uint32_t pfn = start; pfn < end; pfn += BLOCK) {
        struct vl_frame *frame = &vli_frames[pfn];

        atomic_store_explicit(&frame->refs, 0, memory_order_relaxed);
        frame->next = 0;
        frame->prev = 0;
        frame->index_low = 0;
        memset(frame + 1, 0, (BLOCK - 1) * sizeof(*frame));
    }
}

enum vl_status vl_frame_offline(struct vl_pfn start, struct vl_pfn end)
{
    struct vli_zone *zone = zone_of(start, end);
    unsigned long irq;
    bool removed;

    if (zone == NULL) {
        return VL_EINVAL;
    }
    irq = vli_spin_lock_irq(&zone->lock, VLI_RANK_ZONE);
    removed = vli_buddy_remove_top(zone, start.n, end.n);
    for (uint32_t pfn = start.n; removed && pfn < end.n; pfn += BLOCK) {
        set_flags(pfn, VLI_FRAME_RESERVED);
    }
    if (removed) {
        add_managed(zone, 0 - (uint64_t)(end.n - start.n));
    }
    vli_spin_unlock_irq(&zone->lock, VLI_RANK_ZONE, irq);
    if (!removed) {
        return VL_EBUSY;
    }
    clear(start.n, end.n);
    unclaim(zone, start.n, end.n);
    vli_stock_resize();
    return VL_OK;
}
