/*
 * table_percpu_state.h - the zeroed table pages that one CPU keeps at hand, and the active table.
 */
#ifndef VLI_TABLE_PERCPU_STATE_H
#define VLI_TABLE_PERCPU_STATE_H

#include <stdatomic.h>
#include <vellum/types.h>

#define VLI_TABLE_STOCK 32u

struct vli_table;

struct vli_table_percpu {
    struct vli_table *active; /* the table whose root this CPU runs on, or NULL */
    _Atomic uint32_t count;
    uint32_t stock[VLI_TABLE_STOCK]; /* frame numbers; every byte of each is zero */
};

#endif
