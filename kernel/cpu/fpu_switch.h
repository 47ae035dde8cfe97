/*
 * fpu_switch.h - the FPU's part of a thread switch, inline.
 */
#ifndef KERNEL_CPU_FPU_SWITCH_H
#define KERNEL_CPU_FPU_SWITCH_H

#include "kernel/sched/thread.h"

/* How the CPU saves and restores; chosen once (fpu.c). */
enum fpu_way { FPU_FXSAVE, FPU_XSAVE, FPU_XSAVEOPT };
extern enum fpu_way fpu_way;

static inline void fpu_save_area(void *area)
{
    if (VLI_LIKELY(fpu_way == FPU_XSAVEOPT)) {
        __asm__ volatile("xsaveopt64 (%0)" : : "r"(area), "a"(-1), "d"(-1) : "memory");
    } else if (fpu_way == FPU_XSAVE) {
        __asm__ volatile("xsave64 (%0)" : : "r"(area), "a"(-1), "d"(-1) : "memory");
    } else {
        __asm__ volatile("fxsave64 (%0)" : : "r"(area) : "memory");
    }
}

static inline void fpu_load_area(const void *area)
{
    if (VLI_LIKELY(fpu_way != FPU_FXSAVE)) {
        __asm__ volatile("xrstor64 (%0)" : : "r"(area), "a"(-1), "d"(-1) : "memory");
    } else {
        __asm__ volatile("fxrstor64 (%0)" : : "r"(area) : "memory");
    }
}

/** fpu_switch_out() - @prev, which has FPU state, leaves the CPU. The registers stay its own. */
static inline void fpu_switch_out(struct cpu *cpu, struct thread *prev)
{
    if (VLI_LIKELY(cpu->fpu_owner == prev)) {
        fpu_save_area(prev->fpu);
    }
}

/** fpu_switch_in() - @next comes: load its state unless the registers hold it still. */
static inline void fpu_switch_in(struct cpu *cpu, struct thread *next)
{
    if ((cpu->fpu_owner == next && next->fpu_cpu == cpu->id) || next->fpu == NULL) {
        return;
    }
    fpu_load_area(next->fpu);
    cpu->fpu_owner = next;
    next->fpu_cpu = cpu->id;
}

#endif
