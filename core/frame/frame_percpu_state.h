/*
 * frame_percpu_state.h - the frames that one CPU keeps at hand.
 *
 * A stock is a stack of frame numbers, not a list through descriptors: taking one touches no
 * descriptor. Its owner CPU alone uses it, with interrupts off; others read the counts, for
 * statistics, and ask the owner to empty it by vl_host_cpu_call().
 *
 * It keeps frames of one node. Which these are, is exactly said by a window of numbers; where all
 * frames above its start are in it, as on each machine of one node, one comparison tells.
 */
#ifndef VLI_FRAME_PERCPU_STATE_H
#define VLI_FRAME_PERCPU_STATE_H

#include <stdatomic.h>
#include <vellum/types.h>

#define VLI_STOCK_ORDER0 512u
#define VLI_STOCK_ORDER9 16u
/* The one order above 0 that has a stock: 2 MiB, a large page of x86-64. */
#define VLI_STOCK_ORDER_LARGE 9u

struct vli_zone;

struct vli_frame_percpu {
    _Atomic uint32_t count0;
    _Atomic uint32_t count9;
    uint32_t limit0; /* most that the stock keeps; 0 while stocks are off */
    uint32_t limit9;
    uint32_t first; /* from here on up all frames may be kept; UINT32_MAX: that cannot be said so */
    uint32_t kept_start;   /* those from here on may be kept: */
    uint32_t kept_count;   /* so many numbers, all others are of other nodes or too scarce */
    uint32_t node;         /* the CPU's; set once */
    uint32_t home;         /* the nearest node that has memory: only its frames are kept */
    struct vli_zone *zone; /* its highest zone */
    uint32_t order9[VLI_STOCK_ORDER9];
    uint32_t order0[VLI_STOCK_ORDER0];
};

#endif
