/*
 * lib.c - what bench.h declares: tables, pinning, clocks, a barrier.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <vellum/malloc.h>
#include "bench/malloc/bench.h"

void *zeroed(size_t bytes)
{
    void *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    return need(table == MAP_FAILED ? NULL : table);
}

void pin(unsigned n)
{
    static cpu_set_t allowed; /* as it was before the first thread was pinned */
    cpu_set_t one;

    if (CPU_COUNT(&allowed) == 0 && sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
        return;
    }
    n %= (unsigned)CPU_COUNT(&allowed);
    /* The last one first: the first CPU has the most interrupts. */
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--) {
        if (CPU_ISSET((size_t)cpu, &allowed) && n-- == 0) {
            CPU_ZERO(&one);
            CPU_SET((size_t)cpu, &one);
            sched_setaffinity(0, sizeof(one), &one);
            return;
        }
    }
}

double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

size_t resident_bytes(void)
{
    static char text[4096];
    int file = open("/proc/self/smaps_rollup", O_RDONLY);
    ssize_t len = read(file, text, sizeof(text) - 1);

    close(file);
    text[len > 0 ? len : 0] = '\0';
    const char *line = strstr(text, "Anonymous:");

    if (line == NULL) {
        fputs("bench: /proc/self/smaps_rollup has no line Anonymous\n", stderr);
        exit(1);
    }
    return (size_t)strtoul(line + 10, NULL, 10) * 1024;
}

void relax(unsigned *turns)
{
    _mm_pause();
    if (++*turns % 4096 == 0) {
        sched_yield();
    }
}

void meet(_Atomic uint32_t meeting[2][16], unsigned me)
{
    unsigned turns = 0;
    uint32_t mine = atomic_load_explicit(&meeting[me][0], memory_order_relaxed) + 1;

    atomic_store_explicit(&meeting[me][0], mine, memory_order_release);
    while ((int32_t)(atomic_load_explicit(&meeting[!me][0], memory_order_acquire) - mine) < 0) {
        relax(&turns);
    }
}

/* Vellum's own word on it, there when this process runs under it. */
#pragma weak vl_malloc_stats

void print_kept(const char *test, size_t size)
{
    struct vl_malloc_stats stats;

    if (vl_malloc_stats != NULL) {
        vl_malloc_stats(&stats);
        printf("@malloc test=%s size=%zu kept=%zu shared=%zu\n", test, size, stats.kept,
               stats.shared);
    }
}
