/*
 * timer.h - the clock and timers with callbacks.
 */
#ifndef KERNEL_SCHED_TIMER_H
#define KERNEL_SCHED_TIMER_H

#include "core/base/list.h"
#include <vellum/host.h>

/** clock_ns() - monotonic nanoseconds since boot. Context: any. */
uint64_t clock_ns(void);

/** clock_realtime_ns() - nanoseconds since 1970 (from the CMOS clock at boot, or as set). */
uint64_t clock_realtime_ns(void);

/** clock_set_realtime_ns() - settimeofday. */
void clock_set_realtime_ns(uint64_t ns);

struct timer;
/* Runs in interrupt context with interrupts off and no lock held; may re-arm the timer. */
typedef void timer_fn(struct timer *timer);

struct timer {
    struct vli_list link;
    timer_fn *run;
    uint64_t expires_ns; /* on clock_ns() */
    uint32_t cpu;        /* whose queue holds it */
    _Atomic uint32_t state;
};

/** timer_init() - before first use. */
void timer_init(struct timer *timer, timer_fn *run);

/** timer_arm() - run it once at @expires_ns or soon after; moves one that is armed. Context: any,
 * under locks of ranks below KRANK_TIMER. */
void timer_arm(struct timer *timer, uint64_t expires_ns);

/**
 * timer_cancel() - it will not start to run from now on. Context: any, but not under a lock that
 * its callback takes, and not from its callback: waits for a callback that runs on another CPU.
 * Returns: true when it was armed and did not run.
 */
bool timer_cancel(struct timer *timer);

/** timer_try_cancel() - as timer_cancel() without the waiting: false may also mean "running". */
bool timer_try_cancel(struct timer *timer);

#endif
