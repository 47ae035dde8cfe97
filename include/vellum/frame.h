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
 * vl_frame_set_stock() - per-CPU stocks on (default) or off for all orders; for measurements.
 * @on: with false every request goes to the buddy allocator.
 */
void vl_frame_set_stock(bool on);

/**
 * vl_frame_set_reclaim() - the one function called, with no lock held, from contexts that may
 * sleep, never recursively, when a zone falls below its low watermark.
 * @reclaim: is told how many frames are wanted, returns how many it freed; NULL for none.
 */
void vl_frame_set_reclaim(size_t (*reclaim)(size_t wanted));

/* Counts of frames; free = zones + stocks. */
struct vl_frame_counts {
    uint64_t managed;    /* all that could be handed out */
    uint64_t reserved;   /* have descriptors, never handed out yet */
    uint64_t free_zones; /* in the zones' free lists */
    uint64_t free_stock; /* in per-CPU stocks */
    uint64_t descriptors_bytes;
};

/** vl_frame_counts() - a snapshot, not atomic over CPUs unless nothing runs. Context: any. */
void vl_frame_counts(struct vl_frame_counts *out);

#endif
