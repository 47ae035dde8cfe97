/*
 * percpu.h - the core's data of one CPU, all of it in one struct at the start of the area that the
 * host gives (vl_host_percpu_area).
 *
 * Each floor states its part in a plain-data header (*_percpu_state.h). With VL_HOST_PERCPU_GS the
 * arch header addresses a member by one instruction relative to %gs, so that the access and the
 * choice of CPU cannot be torn apart; elsewhere the area's pointer is looked up, and the caller has
 * preemption or interrupts off.
 */
#ifndef VLI_PERCPU_H
#define VLI_PERCPU_H

#include <vellum/host.h>
#include "core/base/compiler.h"
#include "core/base/count_state.h"
#include "core/frame/frame_percpu_state.h"
#include "slab_percpu_state.h"
#include "core/table/table_percpu_state.h"

struct vli_percpu {
    struct vli_percpu *self; /* must be first: one load gives the pointer from %gs */
    uint32_t cpu;
    uint32_t rank_count; /* debug builds: ranks of spin locks held */
    uint8_t ranks[16];
    struct vli_frame_percpu frame;
    struct vli_slab_percpu slab;
    struct vli_table_percpu table;
    struct vli_count_percpu count;
};
_Static_assert(sizeof(struct vli_percpu) <= VL_PERCPU_BYTES, "the host's area must hold it");

/** vli_percpu_of() - a given CPU's data. Context: any. */
static inline struct vli_percpu *vli_percpu_of(unsigned cpu)
{
    return vl_host_percpu_area(cpu);
}

#include "arch/percpu.h"

#endif
