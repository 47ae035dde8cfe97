/*
 * frame_percpu_state.h - the frames that one CPU keeps at hand.
 *
 * A stock is a stack of frame numbers, not a list through descriptors: taking one touches no
 * descriptor. Its owner CPU alone uses it, with interrupts off.
 */
#ifndef VLI_FRAME_PERCPU_STATE_H
#define VLI_FRAME_PERCPU_STATE_H

#include <stdatomic.h>
#include <vellum/types.h>

#define VLI_STOCK_ORDER0 512u
#define VLI_STOCK_ORDER9 16u

struct vli_frame_percpu {
    _Atomic uint32_t count0; /* others read it for statistics */
    _Atomic uint32_t count9;
    uint32_t order0[VLI_STOCK_ORDER0];
    uint32_t order9[VLI_STOCK_ORDER9];
};

#endif
