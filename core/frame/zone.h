/*
 * zone.h - zones, as the files of frame/ see them.
 *
 * A zone is a set of frames that some requests must not go beyond; its ranges need not touch each
 * other. Free blocks stand in one list an order, linked by frame numbers through the descriptors of
 * their heads; those of the highest order in an array of their numbers. Everything marked (Z) is
 * changed under the zone's lock, with interrupts off; counts that are atomic may be read without
 * it.
 */
#ifndef VLI_FRAME_ZONE_H
#define VLI_FRAME_ZONE_H

#include "core/base/bits.h"
#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/base/percpu.h"
#include "core/base/spinlock.h"
#include "core/frame/frame.h"
#include "core/frame/history.h"

struct vli_zone {
    VLI_ALIGNED(VLI_CACHELINE) struct vli_spinlock lock;
    uint32_t flags_idle;             /* of a frame that nobody uses and that heads no free block */
    uint32_t flags_free;             /* of a free block's head of order 0 */
    uint32_t nonempty;               /* (Z) bit k: there are free blocks of order k */
    uint32_t list[VL_ORDER_MAX];     /* (Z) first block, or LINK_NONE */
    uint32_t tail[VL_ORDER_MAX];     /* (Z) last block of a list that has one */
    uint32_t blocks[VL_ORDER_COUNT]; /* (Z) */
    uint32_t top_reported;           /* (Z) so many of the array's first are reported */
    uint32_t *top;                   /* (Z) free blocks of the highest order, last in first out */
    _Atomic uint64_t free;           /* (Z) frames in all lists */
    uint64_t *bits[VL_ORDER_MAX];    /* (Z) BUDDY=bitmap: a bit a pair of buddies */
    uint32_t start, end;             /* hull of its ranges */
    _Atomic uint64_t managed;        /* (Z) frames that were ever handed out or could be */
    _Atomic uint64_t reserved;       /* (Z) frames of reserved ranges, not released yet */
    _Atomic uint64_t absent;         /* (Z) frames of absent ranges that are not online */
    _Atomic uint64_t watermark_min;  /* (Z) of what is managed */
    _Atomic uint64_t watermark_low;  /* (Z) */
    _Atomic uint64_t watermark_high; /* (Z) */
    struct vli_frame_work work;      /* (Z) */
    uint32_t index;
    uint32_t node;
    uint32_t above; /* the next higher zone of the node, or VL_ZONES_MAX */
    bool is_alone;  /* no other zone has frames inside the hull */
};

extern struct vli_zone vli_zones[VL_ZONES_MAX];
extern unsigned vli_zone_count; /* the highest zone with memory, plus one */

/** vli_zone_lock() - with interrupts off already. */
static inline void vli_zone_lock(struct vli_zone *zone) VL_ACQUIRE(&zone->lock) VL_NO_LOCK_CHECK
{
    vli_rank_push(VLI_RANK_ZONE);
    vli_spin_raw_lock(&zone->lock);
    zone->work.locks++;
}

/** vli_zone_try_lock() - vli_zone_lock() without waiting. */
static inline bool vli_zone_try_lock(struct vli_zone *zone)
    VL_TRY_ACQUIRE(true, &zone->lock) VL_NO_LOCK_CHECK
{
    if (VLI_UNLIKELY(!vli_spin_raw_try_lock(&zone->lock))) {
        return false;
    }
    vli_rank_push(VLI_RANK_ZONE);
    zone->work.locks++;
    return true;
}

/** vli_zone_unlock() - ends vli_zone_lock(); interrupts stay off. */
static inline void vli_zone_unlock(struct vli_zone *zone) VL_RELEASE(&zone->lock) VL_NO_LOCK_CHECK
{
    vli_spin_raw_unlock(&zone->lock);
    vli_rank_pop(VLI_RANK_ZONE);
}

/** vli_watermark() - one of a zone's watermarks; it changes when memory comes or goes. */
static inline uint64_t vli_watermark(const _Atomic uint64_t *watermark)
{
    return atomic_load_explicit(watermark, memory_order_relaxed);
}

/* What zone->flags_idle is. */
static inline uint32_t vli_flags_idle(unsigned zone)
{
    return (uint32_t)VLI_FRAME_STOCK | (uint32_t)zone << VLI_FRAME_ZONE_SHIFT;
}

/** vli_frame_zone() - the zone of a frame that belongs to one. */
static inline struct vli_zone *vli_frame_zone(const struct vl_frame *frame)
{
    uint32_t flags = atomic_load_explicit(&frame->flags, memory_order_relaxed);

    return &vli_zones[(flags & VLI_FRAME_ZONE_MASK) >> VLI_FRAME_ZONE_SHIFT];
}

/* How far down a request may take a zone. */
enum vli_depth {
    VLI_DEPTH_LOW,    /* to the low watermark: nobody need be asked for memory */
    VLI_DEPTH_MIN,    /* to min */
    VLI_DEPTH_ATOMIC, /* to half of min */
    VLI_DEPTH_ALL     /* to the last frame: reclaim itself, and who is being killed */
};

/* A request as it goes from zone to zone. */
struct vli_request {
    unsigned order;
    unsigned zone; /* highest that will do */
    enum vli_depth depth;
    unsigned node; /* where it starts */
    bool stays;    /* no other node will do */
};

/** vli_zone_highest() - the highest zone that will do for a request. */
static inline unsigned vli_zone_highest(vl_how_t how)
{
    unsigned named = how >> VL_ZONE_SHIFT & 0xffu;

    return named == 0 || named > vli_zone_count ? vli_zone_count - 1 : named - 1;
}

/**
 * vli_zones_take() - up to @count blocks from the first allowed zone that has any to spare.
 * @out: their frame numbers; their descriptors are those of idle frames.
 * Returns: how many; 0 when no zone has one.
 */
size_t vli_zones_take(const struct vli_request *request, size_t count, uint32_t *out);

/** vli_zone_take_quick() - one block from the stock's zone, the highest of this CPU's node, down to
 * its low watermark, or NONE. Interrupts are off. */
uint32_t vli_zone_take_quick(unsigned order);

/** vli_zone_give_quick() - one block back to its zone. Interrupts are off. */
void vli_zone_give_quick(uint32_t pfn, unsigned order);

/** vli_zones_give() - @count blocks of @order, of any zones, back to their lists. */
void vli_zones_give(const uint32_t *pfns, size_t count, unsigned order);

/** vli_zone_take_run() - @frames in a row from the same zone as far down, aligned as the next order
 * is, or NONE. Interrupts are off. */
uint32_t vli_zone_take_run(uint32_t frames);

/** vli_zones_give_run() - idle frames of one zone, in a row, back to its lists. Context: any. */
void vli_zones_give_run(uint32_t start, uint32_t end);

/** vli_zones_deficit() - frames that the allowed zones lack to their high watermarks. */
size_t vli_zones_deficit(unsigned highest);

/* ---- nodes (node.c) ---- */

/* A node's zones in the order in which its CPUs' requests go through them: its own from the highest
 * down, then those of the nearest other node, and so on. */
struct vli_node {
    uint8_t zones[VL_ZONES_MAX];
};
extern struct vli_node vli_nodes[VL_NODES_MAX] VLI_HIDDEN;

/** vli_nodes_init() - ask the host, once the zones are known. vli_frame_init() only. */
VL_MUST_CHECK enum vl_status vli_nodes_init(void);

/** vli_node_here() - the node of this CPU; a hint where the thread may move. */
static inline unsigned vli_node_here(void)
{
    return vli_this_cpu()->frame.node;
}

/** vli_node_home() - the node of the first memory that a node's requests come to. */
unsigned vli_node_home(unsigned node);

/** vli_node_top() - the highest zone of a node that has one. */
struct vli_zone *vli_node_top(unsigned node);

/** vli_node_window() - the numbers from @first on among which only frames of @node are; where other
 * nodes' lie between, the stretch that has the most of its own. To UINT32_MAX if none follow. */
void vli_node_window(unsigned node, uint32_t first, uint32_t *out_start, uint32_t *out_end);

/** vli_stock_keeps() - may this CPU's stock keep the frame? */
static inline bool vli_stock_keeps(const struct vli_frame_percpu *stock, uint32_t pfn)
{
    return pfn - stock->kept_start < stock->kept_count;
}

/** vli_stock_init() - limits of all CPUs' stocks, from the sizes of the zones. */
void vli_stock_init(void);

/** vli_stock_resize() - the zones have other sizes now. Context: thread, no core lock held. */
void vli_stock_resize(void);

/** vli_report_seen() - counts the batches of blocks that were reported and came back. */
uint32_t vli_report_seen(void);

/** vli_report_wait() - a request found nothing: are blocks being reported, which may come back? If
 * so, waits until some did. @seen: what vli_report_seen() was before the request
 * was tried. Context: thread, may sleep. */
bool vli_report_wait(uint32_t seen);

/** vli_zone_set_watermarks() - from what is managed. The lock is held, or nobody else runs. */
void vli_zone_set_watermarks(struct vli_zone *zone);

/** vli_frames_set() - descriptors of frames that nobody else looks at. */
void vli_frames_set(uint32_t start, uint32_t end, uint32_t flags, uint32_t refs);

/** vli_range_at() - the host's ranges, in their order; NULL after the last. */
const struct vl_range *vli_range_at(size_t index);

/** vli_range_of() - the range of @kind that holds all of [start, end), or NULL. */
const struct vl_range *vli_range_of(uint32_t start, uint32_t end, enum vl_range_kind kind);

/** vli_stock_refill() - fill this CPU's empty stock of order 0 or 9 from the zones, down to their
 * low watermarks, and take one from it, or NONE. Interrupts are off. */
uint32_t vli_stock_refill(struct vli_frame_percpu *stock, unsigned order);

/** vli_stock_put_full() - make room in a full stock of order 0 or 9 and put @pfn on top. Interrupts
 * are off. */
void vli_stock_put_full(struct vli_frame_percpu *stock, uint32_t pfn, unsigned order);

/** vli_stock_drain_local() - empty this CPU's stocks. Context: any. */
void vli_stock_drain_local(void);

/** vli_frame_get_slow() - the stock had none: zones, reclaim, reserves. NONE when there is none.
 * Interrupts are as the caller of the API had them. */
uint32_t vli_frame_get_slow(unsigned order, vl_how_t how);

/* ---- shrinkers (shrink.c) ---- */

/* Guards their list. Named here for who must hold every lock there is, around fork(). */
extern struct vli_spinlock vli_shrinkers_lock VLI_HIDDEN;

/** vli_shrink_init() - there are none. vli_frame_init() only. */
void vli_shrink_init(void);

/** vli_shrink() - have shrinkers give back about @wanted frames; those that found nothing of late
 * only if @asks_all. Context: thread; may sleep; no core lock held. Returns: frames. */
size_t vli_shrink(size_t wanted, bool asks_all);

#endif
