/*
 * frame.h - physical memory by the frame, for the embedder.
 */
#ifndef VELLUM_FRAME_H
#define VELLUM_FRAME_H

#include <vellum/types.h>

/* How a request behaves; one of the first two, with any of the others. */
enum vl_how {
    VL_ATOMIC = 0,    /* never sleeps; may go below the min watermark by half; any context */
    VL_WAIT = 1,      /* may sleep and reclaim; thread context, no core lock held */
    VL_MAY_FAIL = 2,  /* give up early: no hard reclaim; with VL_ATOMIC at the low watermark */
    VL_ZEROED = 4,    /* every byte zero */
    VL_ZONE_SHIFT = 8 /* how | (zone + 1) << VL_ZONE_SHIFT: highest zone that will do */
};
typedef uint32_t vl_how_t; /* a set of enum vl_how bits */

/**
 * vl_frame_alloc() - 1 << @order contiguous frames, aligned to their size, with one reference.
 * @order: 0 … VL_ORDER_MAX.
 * @how:   enum vl_how bits.
 * @out:   set to the first frame's number on success only.
 * Context: any with VL_ATOMIC; thread with VL_WAIT.
 * Cost: order 0 and 9 from the CPU's stock: O(1), no lock, no shared cache line.
 * Returns: VL_OK, VL_ENOMEM, VL_EINVAL (order).
 */
VL_MUST_CHECK enum vl_status vl_frame_alloc(unsigned order, vl_how_t how, struct vl_pfn *out);

/** vl_frame_free() - give back what vl_frame_alloc() gave; same @order. Context: any. */
void vl_frame_free(struct vl_pfn pfn, unsigned order);

/**
 * vl_frame_alloc_bulk() - up to @count single frames.
 * @out: room for @count numbers; the first so many of them are set.
 * Returns: how many were had; fewer than @count only when memory ran out.
 * Context: as vl_frame_alloc().
 */
VL_MUST_CHECK size_t vl_frame_alloc_bulk(size_t count, vl_how_t how, struct vl_pfn *out);

/** vl_frame_free_bulk() - give back @count single frames. Context: any. */
void vl_frame_free_bulk(const struct vl_pfn *pfns, size_t count);

/* Most frames of a run. */
#define VL_RUN_MAX (1u << VL_ORDER_MAX)

/**
 * vl_frame_alloc_run() - @frames contiguous frames, any number of them.
 * @frames: 1 … VL_RUN_MAX.
 * @how:    enum vl_how bits.
 * @out:    set to the first frame's number on success only; it is aligned as a block of the next
 *          order would be.
 * What is left of a block that is cut is free at once. Each frame has one reference of its own, so
 * that a run may be given back in parts: by vl_frame_free_run(), or frame by frame.
 * Context: any with VL_ATOMIC; thread with VL_WAIT.
 * Cost: the zone's lock; stocks are not used.
 * Returns: VL_OK, VL_ENOMEM, VL_EINVAL (number of frames).
 */
VL_MUST_CHECK enum vl_status vl_frame_alloc_run(size_t frames, vl_how_t how, struct vl_pfn *out);

/** vl_frame_free_run() - give back a run or any part of one, 1 … VL_RUN_MAX frames. Context: any.
 */
void vl_frame_free_run(struct vl_pfn start, size_t frames);

/** vl_frame_ref_get() - one more reference on an allocated single frame. Context: any. */
void vl_frame_ref_get(struct vl_pfn pfn);

/** vl_frame_ref_put() - drop one; the last gives the frame back. Context: any. */
void vl_frame_ref_put(struct vl_pfn pfn);

/** vl_frame_to_virt() - where the kernel sees the frame. Context: any. */
void *vl_frame_to_virt(struct vl_pfn pfn);

/**
 * vl_frame_release_reserved() - hand frames of a reserved range to the allocator: boot code, an
 * initrd that was unpacked. @end is exclusive. Each frame once.
 * Returns: VL_OK; VL_EINVAL when one of them is not reserved (then nothing is changed).
 */
VL_MUST_CHECK enum vl_status vl_frame_release_reserved(struct vl_pfn start, struct vl_pfn end);

/**
 * vl_frame_side_bytes() - what a range of kind SIDE must have room for.
 * @frames: frames from the start of the first other range to the end of the last.
 * Context: any, also before vl_init().
 */
uint64_t vl_frame_side_bytes(uint64_t frames);

/**
 * vl_frame_online() - addresses of a range of kind ABSENT are memory from now on.
 * @start, @end: whole blocks of the highest order, inside one such range; @end is exclusive.
 * The frames are free, whatever they contain; watermarks follow.
 * Context: thread, no core lock held; may be the reclaim function.
 * Cost: 32 KiB of descriptors written a block.
 * Returns: VL_OK; VL_EINVAL (misaligned, empty, not all of one ABSENT range); VL_EEXIST (some of it
 * is online already, or being brought so). On an error nothing is changed.
 */
VL_MUST_CHECK enum vl_status vl_frame_online(struct vl_pfn start, struct vl_pfn end);

/**
 * vl_frame_offline() - the reverse, for blocks that are wholly free.
 * Frames in CPUs' stocks are not free in this sense: vl_drain_all() first.
 * Context: thread, no core lock held.
 * Cost: proportional to the free blocks of the highest order in its zone.
 * Returns: VL_OK; VL_EINVAL as above; VL_EBUSY when some of it is in use, is being reported, or is
 * not online. On an error nothing is changed.
 */
VL_MUST_CHECK enum vl_status vl_frame_offline(struct vl_pfn start, struct vl_pfn end);

/**
 * vl_frame_report_free() - tell somebody beneath (a hypervisor, the kernel that lent the memory)
 * which memory is free, so that he takes back what stands behind it. The contents are lost.
 * @order_min: smallest blocks worth telling, 0 … VL_ORDER_MAX.
 * @report:    is told each free block not told before, the largest first; no core lock is held.
 *             False: it was not taken back, and counts as not told; go on with the next lower
 *             order. So who wants only so much back gets it in smaller blocks, too.
 * @arg:       its first argument.
 *
 * A block told is marked. It stays so while it lies free, also in parts when a piece of it is
 * allocated, and when it joins another marked block; one that joins an unmarked block makes an
 * unmarked one, which is told as a whole. Allocation prefers unmarked blocks of the same order.
 *
 * While @report runs, up to 16 MiB, and no more than an eighth of what is free or else one block,
 * cannot be had: a request with VL_WAIT that finds nothing waits for them, others fail. The thread
 * counts as reclaiming meanwhile: requests that @report makes do not wait, and may use the reserve.
 *
 * Context: thread, no core lock held. Several may run.
 * Cost: proportional to what is told; nothing new costs a look at each order of each zone.
 * Returns: frames told.
 */
uint64_t vl_frame_report_free(unsigned order_min,
                              bool (*report)(void *arg, struct vl_pfn pfn, unsigned order),
                              void *arg);

/**
 * vl_frame_set_stock() - per-CPU stocks on (default) or off for all orders; for measurements.
 * @on: with false every request goes to the buddy allocator.
 */
void vl_frame_set_stock(bool on);

/**
 * vl_frame_set_reclaim() - the one function called, with no lock held, from contexts that may
 * sleep, never recursively, when a zone falls below its low watermark. What it does not free, the
 * shrinkers are asked for (shrink.h); it may call vl_shrink() itself.
 * @reclaim: is told how many frames are wanted, returns how many it freed; NULL for none.
 */
void vl_frame_set_reclaim(size_t (*reclaim)(size_t wanted));

/* Counts of frames; free = zones + stocks. */
struct vl_frame_counts {
    uint64_t managed;           /* all that could be handed out */
    uint64_t reserved;          /* have descriptors, never handed out yet */
    uint64_t free_zones;        /* in the zones' free lists */
    uint64_t free_stock;        /* in per-CPU stocks */
    uint64_t absent;            /* room for memory that is not online */
    uint64_t descriptors_bytes; /* and other side data, also that of absent frames */
};

/** vl_frame_counts() - a snapshot, not atomic over CPUs unless nothing runs. Context: any. */
void vl_frame_counts(struct vl_frame_counts *out);

#endif
