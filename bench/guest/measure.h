/*
 * measure.h - clocks for the guest's measuring programs. Under QEMU's -icount shift=0 the guest's
 * clock advances by one nanosecond an instruction, so "ns" is then a count of instructions.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Processor time of this process, as the kernel accounts it. */
static inline void cpu_ns(uint64_t *user, uint64_t *system)
{
    struct rusage usage;
    memset(&usage, 0, sizeof(usage));
    getrusage(RUSAGE_SELF, &usage);
    *user =
        (uint64_t)usage.ru_utime.tv_sec * 1000000000u + (uint64_t)usage.ru_utime.tv_usec * 1000u;
    *system =
        (uint64_t)usage.ru_stime.tv_sec * 1000000000u + (uint64_t)usage.ru_stime.tv_usec * 1000u;
}

/* What zeroing one resident page takes, in hundredths of a nanosecond: the limit of any fault. */
static inline uint64_t zero_page_limit(void)
{
    static uint64_t page[512] __attribute__((aligned(4096)));
    enum { rounds = 200 };
    uint64_t start = 0;
    for (int i = -rounds; i < rounds; i++) {
        if (i == 0) {
            start = now_ns();
        }
        void *to = page;
        unsigned long count = 512;
        __asm__ volatile("rep stosq" : "+D"(to), "+c"(count) : "a"(0) : "memory");
    }
    return (now_ns() - start) * 100 / rounds;
}

#endif
