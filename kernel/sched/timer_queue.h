/*
 * timer_queue.h - timers of one CPU and its tick, for the scheduler.
 */
#ifndef KERNEL_SCHED_TIMER_QUEUE_H
#define KERNEL_SCHED_TIMER_QUEUE_H

#include "kernel/cpu/cpu.h"

/** timer_queue_init() - of one CPU. Context: start-up. */
void timer_queue_init(struct cpu *cpu);

/** timers_init() - the interrupt. Context: once. */
void timers_init(void);

/** timer_queue_arm_tick() - a tick within TICK_NS on this CPU. Interrupts off. */
void timer_queue_arm_tick(struct cpu *cpu);

/** timer_queue_want_tick() - this CPU has left idleness. Interrupts off. */
static inline void timer_queue_want_tick(struct cpu *cpu)
{
    if (VLI_UNLIKELY(cpu->tick_armed == 0)) {
        timer_queue_arm_tick(cpu);
    }
}

#endif
