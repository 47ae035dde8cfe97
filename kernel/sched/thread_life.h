/*
 * thread_life.h - making and unmaking threads, for the scheduler.
 */
#ifndef KERNEL_SCHED_THREAD_LIFE_H
#define KERNEL_SCHED_THREAD_LIFE_H

#include "kernel/sched/thread.h"

/** threads_boot() - the running code becomes the idle thread of @cpu, the first. Context: once,
 * first thing. */
void threads_boot(struct cpu *cpu);

/** thread_fpu_area() - the room for FPU state behind the struct. */
void *thread_fpu_area(struct thread *thread);

/** threads_init() - the cache of threads.
 * Context: once, after vl_init(). */
void threads_init(void);

/** thread_alloc() - a thread with a stack, state NEW, two references. Context: may sleep.
 * Returns: NULL without memory. */
VL_MUST_CHECK struct thread *thread_alloc(const char *name);

/** thread_bury() - the CPU has left @thread's stack for the last time. Context: interrupts off. */
void thread_bury(struct thread *thread);

#endif
