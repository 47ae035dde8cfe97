/*
 * cache.c - Vellum's inlined caches of exact sizes (<vellum/malloc.h>), which the others have not.
 *
 * usage: inlined pair [SECONDS] | overhead SIZE
 *
 * pair: an object of 64 bytes is taken and given back 10,000 times; cycles a pair, no call in it.
 * overhead: 64 MiB of objects of SIZE bytes from a cache of that size, each written whole; resident
 * memory beyond what was before, over the objects' bytes, less one.
 */
#include <string.h>
#include <vellum/malloc.h>
#include "bench/malloc/bench.h"

#define TURNS 10000u

static struct vl_malloc_cache make(size_t size)
{
    struct vl_malloc_cache cache;

    if (vl_malloc_cache_create("bench", size, 0, &cache) != 0) {
        fputs("bench: no cache\n", stderr);
        exit(1);
    }
    return cache;
}

static void pair(double budget)
{
    struct vl_malloc_cache cache = make(64);
    double best = 1e18, end = seconds() + budget;

    for (unsigned round = 0; round < 6 || seconds() < end; round++) {
        uint64_t t0 = cycles_start();

        for (unsigned i = 0; i < TURNS; i++) {
            vl_malloc_cache_free(&cache, vl_malloc_cache_alloc(&cache));
        }
        uint64_t t1 = cycles_end();

        if (round > 0) {
            best = smaller(best, (double)(t1 - t0) / TURNS);
        }
    }
    printf("@malloc test=cache size=64 pair=%.2f\n", best);
}

static void overhead(size_t size)
{
    struct vl_malloc_cache cache = make(size);
    size_t count = ((size_t)64 << 20) / size;
    void **objects = zeroed(count * sizeof(void *));
    size_t before = resident_bytes();

    for (size_t i = 0; i < count; i++) {
        objects[i] = memset(need(vl_malloc_cache_alloc(&cache)), 1, size);
    }
    double held = (double)(resident_bytes() - before);

    printf("@malloc test=cache_overhead size=%zu percent=%.2f\n", size,
           (held / (double)(count * size) - 1) * 100);
    for (size_t i = 0; i < count; i++) {
        vl_malloc_cache_free(&cache, objects[i]);
    }
}

int main(int count, char **words)
{
    pin(0);
    if (count > 1 && strcmp(words[1], "pair") == 0) {
        pair(count > 2 ? atof(words[2]) : 0.1);
        return 0;
    }
    if (count > 2 && strcmp(words[1], "overhead") == 0) {
        overhead((size_t)atol(words[2]));
        return 0;
    }
    fputs("usage: inlined pair [SECONDS] | overhead SIZE\n", stderr);
    return 2;
}
