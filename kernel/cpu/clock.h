/*
 * clock.h - starting the clock; its readers use sched/timer.h.
 */
#ifndef KERNEL_CPU_CLOCK_H
#define KERNEL_CPU_CLOCK_H

#include <vellum/types.h>

/** clock_init() - calibrate. Context: once, first CPU, after acpi_init(). clock_ns() is 0 before.
 */
void clock_init(void);

/** clock_tsc_hz() - speed of the time-stamp counter. */
uint64_t clock_tsc_hz(void);

#endif
