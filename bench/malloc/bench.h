/*
 * bench.h - what the parts of the malloc benchmark share: a clock, pinning, tables, random numbers.
 *
 * The program knows nothing of the allocator under it: it calls malloc and free as any program
 * does, and the allocator comes by LD_PRELOAD or by static linking. So it takes its own tables from
 * mmap, never from malloc, and is compiled with -fno-builtin, lest the compiler remove what is
 * measured. Figures leave as lines "@malloc key=value ..."; cycles are those of the time stamp
 * counter. The driver, tools/bench, runs one process for each test, allocator and round.
 */
#ifndef BENCH_MALLOC_BENCH_H
#define BENCH_MALLOC_BENCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <x86intrin.h>

#define ORDER_COUNT 10000u

/* The loops of tests 1 and 2 at each place of a cache line (places.S). */
#define PLACES 16u
struct bench_place {
    bool (*fill)(void **objects, size_t size, size_t count); /* false: no memory */
    bool (*pairs)(size_t size, size_t count);                /* the same */
    void (*empty)(void **objects, size_t count);
};
extern const struct bench_place bench_places[PLACES];

/* The counter before: nothing later starts earlier. */
static inline uint64_t cycles_start(void)
{
    _mm_lfence();
    uint64_t now = __rdtsc();

    _mm_lfence();
    return now;
}

/* The counter after: all that came before is done. */
static inline uint64_t cycles_end(void)
{
    unsigned cpu;
    uint64_t now = __rdtscp(&cpu);

    _mm_lfence();
    return now;
}

/* A multiplicative congruential generator: three instructions, the high bits are good. */
static inline uint32_t random_next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* A number below @n, by the high bits. */
static inline uint32_t random_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)(((uint64_t)random_next(state) * n) >> 31);
}

static inline double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* Ends the program when memory ran out: no test survives that. */
static inline void must(bool good)
{
    if (!good) {
        fputs("bench: no memory\n", stderr);
        exit(1);
    }
}

static inline void *need(void *object)
{
    must(object != NULL);
    return object;
}

/**
 * zeroed() - a table by mmap, all of whose pages are there already.
 * @bytes:  its size.
 */
void *zeroed(size_t bytes);

/**
 * pin() - puts the calling thread on the @n-th CPU that this process may use, modulo their number.
 */
void pin(unsigned n);

/**
 * seconds() - monotonic time.
 */
double seconds(void);

/**
 * resident_bytes() - anonymous memory of this process that is in RAM, from smaps_rollup.
 *
 * Not the RSS: that counts pages of files too, and comes from per-thread counters that lag.
 */
size_t resident_bytes(void);

/**
 * meet() - a barrier of two threads that spins, and yields when the other one does not run.
 * @meeting:  how often each came; zeroed at first.
 * @me:       0 or 1.
 */
void meet(_Atomic uint32_t meeting[2][16], unsigned me);

/**
 * relax() - one turn of a waiting loop: pauses, and yields the CPU every 4,096th time.
 * @turns:  the loop's own count, 0 at first.
 */
void relax(unsigned *turns);

/**
 * print_kept() - the bytes in arrays of CPUs or threads, and in what waits between them; nothing
 * where the allocator does not say.
 */
void print_kept(const char *test, size_t size);

/* The tests, by the name that the command line gives; @budget is seconds. */
void test_order(double budget);
void test_pair(double budget);
void test_order2(double budget);
void test_stream(double budget);
void test_larson(double budget);
void test_churn1(double budget);
void test_churn2(double budget);
void test_resident(double budget);
void test_whole(double budget);
void test_overhead24(double budget);
void test_overhead520(double budget);
void test_overhead1040(double budget);
void test_free90(double budget);
void test_trim90(double budget);
void test_raw(double budget);
void test_floor(double budget);

#endif
