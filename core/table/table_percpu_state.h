/*
 * table_percpu_state.h - the zeroed table pages that one CPU keeps at hand, and the active table.
 */
#ifndef VLI_TABLE_PERCPU_STATE_H
#define VLI_TABLE_PERCPU_STATE_H

#include "core/base/spinlock.h"

#define VLI_TABLE_STOCK 32u

struct vli_table;

struct vli_table_percpu {
    struct vli_table *active; /* whose root this CPU runs on, or NULL; this CPU, interrupts off */
    struct vli_spinlock lock; /* so that vli_table_drain() may empty another CPU's stock */
    uint32_t count;           /* (lock) */
    uint32_t stock[VLI_TABLE_STOCK]; /* (lock) frame numbers; every byte of each is zero */
};

#endif
