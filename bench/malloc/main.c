/*
 * main.c - the malloc benchmark: one test a process.
 *
 * usage: malloc TEST [SECONDS]
 */
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "bench/malloc/bench.h"

static const struct {
    const char *name;
    void (*run)(double budget);
} tests[] = {
    {"order", test_order},
    {"pair", test_pair},
    {"order2", test_order2},
    {"stream", test_stream},
    {"larson", test_larson},
    {"churn1", test_churn1},
    {"churn2", test_churn2},
    {"resident", test_resident},
    {"whole", test_whole},
    {"overhead24", test_overhead24},
    {"overhead520", test_overhead520},
    {"overhead1040", test_overhead1040},
    {"free90", test_free90},
    {"trim90", test_trim90},
    {"raw", test_raw},
    {"floor", test_floor},
};

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

double tsc_hz(void)
{
    static double hz;

    if (hz == 0) {
        double t0 = seconds();
        uint64_t c0 = __rdtsc();

        while (seconds() - t0 < 0.01) {
        }
        hz = (double)(__rdtsc() - c0) / (seconds() - t0);
    }
    return hz;
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

int main(int count, char **words)
{
    static char buffer[1 << 16]; /* stdio's own would come from malloc */

    setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
    pin(0);
    for (size_t i = 0; count > 1 && i < sizeof(tests) / sizeof(tests[0]); i++) {
        if (strcmp(words[1], tests[i].name) == 0) {
            tests[i].run(count > 2 ? atof(words[2]) : 0.2);
            fflush(stdout);
            return 0;
        }
    }
    fputs("usage: malloc TEST [SECONDS]\n", stderr);
    return 2;
}
