/*
 * churn.c - objects that come and go at random.
 *
 * larson: after Larson and Krishnan, "Memory allocation for long-running server applications"
 * (1998): two threads, each with 5,000 slots of random sizes 8-1,000; a thread frees what a random
 * slot holds and puts a new object there, writing its first and last byte. After 500,000 of these
 * it starts a thread, which goes on with the same slots, and ends: objects outlive who made them.
 *
 * churn: 10,000 slots a thread (82 MB live), sizes 8 B - 16 KiB, each as likely; the same step.
 *
 * An operation is a step: one free and one malloc. Mops: the operations of all threads by elapsed
 * time, in slices of half a millisecond each of which counts alone; the best slice is the figure,
 * since what else the machine does only slows it. The first fifth of the time warms up.
 *
 * resident: the churn of one thread, 40 steps a slot. "live" is the sum of the bytes asked for of
 * all objects that are live; "resident" is the anonymous memory of the process that is in RAM
 * (/proc/self/smaps_rollup) less what it was before the first malloc, the tables of the test
 * being there already. Taken ten times in the second half, while it churns; the mean of the ratios.
 * "whole" is the same churn with every byte of each object written: in the other, pages in the
 * middle of an object are nobody's, and a ratio below 1 means that they never were in RAM.
 */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>
#include "bench/malloc/bench.h"

#define SLICE_US 500u
#define STEPS    64u /* between two counts */

/* ---- two threads, each with slots; slices of time ---- */

struct worker {
    void **slots;
    uint64_t random;
    _Atomic uint64_t steps; /* so far */
    _Atomic bool done;
    unsigned cpu;
    char apart[128];
};

static struct worker workers[2] __attribute__((aligned(128)));
static _Atomic bool stop;

#define LARSON_SLOTS 5000u
#define LARSON_TURN  500000u
#define LARSON_MIN   8u
#define LARSON_MAX   1000u
#define CHURN_SLOTS  10000u
#define CHURN_MIN    8u
#define CHURN_MAX    16384u

static inline void count_steps(struct worker *me)
{
    uint64_t steps = atomic_load_explicit(&me->steps, memory_order_relaxed);

    atomic_store_explicit(&me->steps, steps + STEPS, memory_order_relaxed);
}

/* Frees what a random one of @count slots holds, and puts an object of @min to @max bytes there. */
static inline void step(struct worker *me, uint32_t count, uint32_t min, uint32_t max)
{
    uint32_t slot = random_below(&me->random, count);
    uint32_t size = min + random_below(&me->random, max - min + 1);
    char *object;

    free(me->slots[slot]);
    object = need(malloc(size));
    object[0] = 1;
    object[size - 1] = 2;
    me->slots[slot] = object;
}

static void start(void *(*thread)(void *argument), struct worker *me)
{
    pthread_t made;

    if (pthread_create(&made, NULL, thread, me) != 0) {
        fputs("bench: no thread\n", stderr);
        exit(1);
    }
    pthread_detach(made);
}

static void *larson_thread(void *argument)
{
    struct worker *me = argument;

    pin(me->cpu);
    for (unsigned i = 0; i < LARSON_TURN / STEPS; i++) {
        for (unsigned k = 0; k < STEPS; k++) {
            step(me, LARSON_SLOTS, LARSON_MIN, LARSON_MAX);
        }
        count_steps(me);
    }
    if (atomic_load_explicit(&stop, memory_order_relaxed)) {
        atomic_store_explicit(&me->done, true, memory_order_release);
    } else {
        start(larson_thread, me);
    }
    return NULL;
}

static void *churn_thread(void *argument)
{
    struct worker *me = argument;

    pin(me->cpu);
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        for (unsigned k = 0; k < STEPS; k++) {
            step(me, CHURN_SLOTS, CHURN_MIN, CHURN_MAX);
        }
        count_steps(me);
    }
    atomic_store_explicit(&me->done, true, memory_order_release);
    return NULL;
}

static uint64_t steps_of_all(unsigned count)
{
    uint64_t all = 0;

    for (unsigned i = 0; i < count; i++) {
        all += atomic_load_explicit(&workers[i].steps, memory_order_relaxed);
    }
    return all;
}

/* Runs @count workers for @budget seconds; returns the Mops of the best slice, the first fifth of
 * the time apart, which warms up. */
static double run_workers(void *(*thread)(void *argument), unsigned count, double budget)
{
    double begin = seconds(), before = begin, best = 0;
    uint64_t steps = 0;

    for (unsigned i = 0; i < count; i++) {
        workers[i].slots = zeroed(CHURN_SLOTS * sizeof(void *));
        workers[i].random = 12345 + i;
        workers[i].cpu = i;
        start(thread, &workers[i]);
    }
    while (before < begin + budget) {
        usleep(SLICE_US);
        double now = seconds();
        uint64_t all = steps_of_all(count);
        double mops = (double)(all - steps) * 1e-6 / (now - before);

        if (now > begin + budget / 5 && mops > best) {
            best = mops;
        }
        before = now;
        steps = all;
    }
    atomic_store_explicit(&stop, true, memory_order_relaxed);
    for (unsigned i = 0; i < count; i++) {
        while (!atomic_load_explicit(&workers[i].done, memory_order_acquire)) {
            usleep(1000);
        }
    }
    return best;
}

void test_larson(double budget)
{
    printf("@malloc test=larson mops=%.2f\n", run_workers(larson_thread, 2, budget));
}

void test_churn1(double budget)
{
    printf("@malloc test=churn1 mops=%.2f\n", run_workers(churn_thread, 1, budget));
}

void test_churn2(double budget)
{
    printf("@malloc test=churn2 mops=%.2f\n", run_workers(churn_thread, 2, budget));
}

/* ---- resident over live ---- */

#define RESIDENT_STEPS (40u * CHURN_SLOTS)

/* One churn; @whole: every object is written in full. Returns the mean ratio. */
static double resident_churn(bool whole)
{
    char **slots = zeroed(CHURN_SLOTS * sizeof(void *));
    uint32_t *lengths = zeroed(CHURN_SLOTS * sizeof(uint32_t));
    uint64_t random = 99;
    size_t live = 0, before = resident_bytes();
    double sum = 0;

    for (unsigned i = 1; i <= RESIDENT_STEPS; i++) {
        uint32_t slot = random_below(&random, CHURN_SLOTS);
        uint32_t size = CHURN_MIN + random_below(&random, CHURN_MAX - CHURN_MIN + 1);

        free(slots[slot]);
        live -= lengths[slot];
        slots[slot] = need(malloc(size));
        memset(slots[slot], 1, whole ? size : 1);
        slots[slot][size - 1] = 2;
        live += lengths[slot] = size;
        if (i > RESIDENT_STEPS / 2 && i % (RESIDENT_STEPS / 20) == 0) {
            sum += (double)(resident_bytes() - before) / (double)live;
        }
    }
    print_kept("churn", 0);
    for (unsigned i = 0; i < CHURN_SLOTS; i++) {
        free(slots[i]);
    }
    return sum / 10;
}

void test_resident(double budget)
{
    (void)budget;
    printf("@malloc test=resident ratio=%.4f\n", resident_churn(false));
}

void test_whole(double budget)
{
    (void)budget;
    printf("@malloc test=whole ratio=%.4f\n", resident_churn(true));
}
