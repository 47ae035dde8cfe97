/*
 * count.h - counting what happens, at the cost of one instruction.
 *
 * Each CPU has its own counters, so nothing is shared and nothing is locked; the sum over the CPUs
 * is the count. A page that comes on one CPU and goes on another leaves differences that wrap
 * around, and a right sum. Read while others count, a sum is as of no one moment.
 */
#ifndef VLI_COUNT_H
#define VLI_COUNT_H

#include "core/base/percpu.h"

/** vli_count_add() - any context. */
static VLI_ALWAYS_INLINE void vli_count_add(enum vli_count which, uint64_t n)
{
    vli_percpu_add(offsetof(struct vli_percpu, count.value) + which * sizeof(uint64_t), n);
}

/** vli_count_sub() - any context. */
static VLI_ALWAYS_INLINE void vli_count_sub(enum vli_count which, uint64_t n)
{
    vli_count_add(which, 0 - n);
}

/** vli_count_add_here() - the same for a caller that has this CPU's data at hand, preemption or
 * interrupts being off. */
static VLI_ALWAYS_INLINE void vli_count_add_here(struct vli_percpu *cpu, enum vli_count which,
                                                 uint64_t n)
{
    vli_percpu_add_here(cpu, offsetof(struct vli_percpu, count.value) + which * sizeof(uint64_t),
                        n);
}

/** vli_count_sum() - over all CPUs; never below 0. */
uint64_t vli_count_sum(enum vli_count which);

#endif
