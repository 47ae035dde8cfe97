/*
 * sched.h - the scheduler's inner face, for kernel/cpu and kernel/sched; others use thread.h.
 */
#ifndef KERNEL_SCHED_SCHED_H
#define KERNEL_SCHED_SCHED_H

#include "kernel/sched/thread.h"

/** sched_init() - the first CPU's queue and its idle thread, which is the running code.
 * Context: once, after vl_init(). */
void sched_init(void);

/** sched_prepare_cpu() - queue, timers and idle thread of a CPU to be started. Context: thread.
 * Returns: false without memory. */
VL_MUST_CHECK bool sched_prepare_cpu(struct cpu *cpu);

/** sched_cpu_online() - this CPU takes part from now on; its idle thread runs. */
void sched_cpu_online(struct cpu *cpu);

/** sched_idle_loop() - what an idle thread does. */
_Noreturn void sched_idle_loop(void);

/** schedule_preempt() - give up the CPU without sleeping, whatever state was set.
 * Context: thread, interrupts on, preemption on. */
void schedule_preempt(void);

/** sched_end() - leave the CPU for the last time; state is DEAD. Context: interrupts off. */
_Noreturn void sched_end(void);

/** preempt_from_irq() - at the end of an interrupt that found the kernel with preemption on.
 * Context: interrupts off, and off again at the end. */
void preempt_from_irq(void);

/** thread_first_run() - what a new thread does before anything else: end the switch to it. */
void thread_first_run(void);

/** sched_set_resched() - the running thread of this CPU is to give way soon. Interrupts off. */
void sched_set_resched(void);

/** sched_wake() - make @thread run when it sleeps in one of @states (1 << enum thread_state).
 * Context: any; locks of ranks below KRANK_RUN may be held. Returns: did it sleep so? */
bool sched_wake(struct thread *thread, unsigned states);

#ifdef VL_DEBUG
/* Debug builds: turns of a loop in the middle of each wake-up. The selftest widens races by it. */
extern volatile unsigned sched_wake_window;
static inline void sched_wake_linger(void)
{
    for (unsigned i = sched_wake_window; i > 0; i--) {
        vl_host_cpu_relax();
    }
}
#else
static inline void sched_wake_linger(void)
{
}
#endif

/** sched_tick() - time has passed on this CPU. Context: timer interrupt. */
void sched_tick(void);

/** sched_move_if_needed() - the running thread may no longer be allowed on this CPU: move it. */
void sched_move_if_needed(void);

/** sched_is_idle() - does this CPU run its idle thread? */
bool sched_is_idle(void);

#endif
