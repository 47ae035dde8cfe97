/*
 * memory.c - what objects cost in memory, and what comes back after a peak.
 *
 * overhead: 64 MiB of objects of 24, 520 and 1,040 bytes, each written whole; resident memory
 * beyond what was before, over the bytes asked for, less one.
 *
 * free90: objects of 4-32 KiB (uniform), 200 MiB of them, each written whole; a random 90% are
 * freed. Resident over live bytes: at once; when one purge delay has passed without any call but a
 * malloc and free of 64 bytes each 10 ms (allocators without a timer act in their calls); and, in a
 * second process, after the allocator's own call that gives memory back: malloc_trim(0) of glibc
 * and Vellum, mi_collect, jemalloc's arena purge, MallocExtension_ReleaseFreeMemory. The delay
 * is 1.2 s: Vellum's default and a little more (mimalloc's is 10 ms; jemalloc's decay runs over 10
 * s).
 */
#include <malloc.h>
#include <string.h>
#include <unistd.h>
#include "bench/malloc/bench.h"

/* ---- overhead ---- */

static void overhead(size_t size)
{
    size_t count = ((size_t)64 << 20) / size;
    void **objects = zeroed(count * sizeof(void *));
    size_t before = resident_bytes();

    for (size_t i = 0; i < count; i++) {
        objects[i] = memset(need(malloc(size)), 1, size);
    }
    double held = (double)(resident_bytes() - before);

    printf("@malloc test=overhead size=%zu percent=%.2f\n", size,
           (held / (double)(count * size) - 1) * 100);
    for (size_t i = 0; i < count; i++) {
        free(objects[i]);
    }
}

void test_overhead24(double budget)
{
    (void)budget;
    overhead(24);
}

void test_overhead520(double budget)
{
    (void)budget;
    overhead(520);
}

void test_overhead1040(double budget)
{
    (void)budget;
    overhead(1040);
}

/* ---- free90 ---- */

#define PEAK_BYTES ((size_t)200 << 20)
#define PEAK_MAX   (PEAK_BYTES / 4096)
#define DELAY_S    1.2

static size_t peak_live;

/* Allocates, frees nine of ten; returns the resident bytes that were there before. */
static size_t peak(void)
{
    char **objects = zeroed(PEAK_MAX * sizeof(void *));
    uint64_t random = 4711;
    size_t before = resident_bytes(), made = 0;

    for (size_t bytes = 0; bytes < PEAK_BYTES; made++) {
        size_t size = 4096 + random_below(&random, 28 * 1024 + 1);

        objects[made] = memset(need(malloc(size)), 1, size);
        *(size_t *)(void *)objects[made] = size;
        bytes += size;
    }
    for (size_t i = 0; i < made; i++) {
        if (random_below(&random, 10) != 0) {
            free(objects[i]);
        } else {
            peak_live += *(size_t *)(void *)objects[i];
        }
    }
    return before;
}

static double over_live(size_t before)
{
    return (double)(resident_bytes() - before) / (double)peak_live;
}

void test_free90(double budget)
{
    (void)budget;
    size_t before = peak();
    double at_once = over_live(before);

    for (double end = seconds() + DELAY_S; seconds() < end; usleep(10000)) {
        free(need(malloc(64)));
    }
    printf("@malloc test=free90 at_once=%.3f delayed=%.3f\n", at_once, over_live(before));
}

/* Of the others, there when the process runs under them. */
extern void mi_collect(bool force) __attribute__((weak));
extern int mallctl(const char *name, void *old, size_t *old_size, void *fresh, size_t fresh_size)
    __attribute__((weak));
extern void MallocExtension_ReleaseFreeMemory(void) __attribute__((weak));

/* The allocator's own call that gives back what is free. */
static void give_back(void)
{
    if (mi_collect != NULL) {
        mi_collect(true);
    } else if (mallctl != NULL) {
        mallctl("arena.4096.purge", NULL, NULL, NULL, 0);
    } else if (MallocExtension_ReleaseFreeMemory != NULL) {
        MallocExtension_ReleaseFreeMemory();
    } else {
        malloc_trim(0);
    }
}

void test_trim90(double budget)
{
    (void)budget;
    size_t before = peak();

    give_back();
    printf("@malloc test=trim90 trimmed=%.3f\n", over_live(before));
}
