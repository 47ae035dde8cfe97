/*
 * measure.h - what the native measuring programs share: a clock, arguments, calls that must work.
 */
#ifndef BENCH_SIM_MEASURE_H
#define BENCH_SIM_MEASURE_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "machine/sim/mmu.h"
#include "machine/sim/sim.h"

/* This thread's time on a processor: what else the machine does meanwhile does not count. */
static inline uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The n-th word as a number, or what is usual. */
static inline uint64_t argument(int count, char **words, int n, uint64_t usual)
{
    return count > n ? strtoull(words[n], NULL, 10) : usual;
}

static inline void must(enum vl_status status, const char *what)
{
    if (status != VL_OK) {
        fprintf(stderr, "%s: status %d\n", what, (int)status);
        exit(1);
    }
}

#endif
