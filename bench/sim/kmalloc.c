/*
 * kmalloc.c - experiment 4 in the sim: the per-CPU fast path of object allocation.
 *
 * usage: kmalloc [REPEATS]
 *
 * For each size from 8 to 16384: test 1, 10,000 kmallocs in a row and then 10,000 kfrees; test 2,
 * 10,000 pairs. Cycles of the time stamp counter each, the least of REPEATS runs. Then the
 * instructions of one pair, counted by stepping through it with the trap flag: exact, and the same
 * on every machine; with the size a constant at the call, and not. At last what the raw
 * instructions cost here, without which a difference between strategies says little.
 *
 * The simulated machine's own part is in all of it: turning preemption off and on, and looking up
 * the CPU's data, take about ten instructions that a kernel with %gs does not need.
 */
#include <signal.h>
#include <string.h>
#include <x86intrin.h>
#include <ucontext.h>
#include "bench/sim/measure.h"
#include "core/base/percpu.h"

#define COUNT 10000u
#define SIZES 12u

static void *objects[COUNT];

struct figures {
    uint64_t alloc, free, pair; /* cycles, in hundredths */
};

static uint64_t per_one(uint64_t cycles)
{
    return cycles * 100 / COUNT;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- one function a size: the size is a constant inside ---- */

static void *need(void *object)
{
    if (object == NULL) {
        fprintf(stderr, "kmalloc: no memory\n");
        exit(1);
    }
    return object;
}

#define MEASURE(size)                                                                              \
    static void row_##size(struct figures *out)                                                    \
    {                                                                                              \
        uint64_t t0 = __rdtsc();                                                                   \
                                                                                                   \
        for (unsigned i = 0; i < COUNT; i++) {                                                     \
            objects[i] = need(vl_kmalloc(size, VL_ATOMIC));                                        \
        }                                                                                          \
        uint64_t t1 = __rdtsc();                                                                   \
                                                                                                   \
        for (unsigned i = 0; i < COUNT; i++) {                                                     \
            vl_kfree(objects[i]);                                                                  \
        }                                                                                          \
        uint64_t t2 = __rdtsc();                                                                   \
                                                                                                   \
        for (unsigned i = 0; i < COUNT; i++) {                                                     \
            vl_kfree(vl_kmalloc(size, VL_ATOMIC));                                                 \
        }                                                                                          \
        uint64_t t3 = __rdtsc();                                                                   \
                                                                                                   \
        out->alloc = least(out->alloc, per_one(t1 - t0));                                          \
        out->free = least(out->free, per_one(t2 - t1));                                            \
        out->pair = least(out->pair, per_one(t3 - t2));                                            \
    }                                                                                              \
    static void one_##size(size_t unused)                                                          \
    {                                                                                              \
        (void)unused;                                                                              \
        vl_kfree(vl_kmalloc(size, VL_ATOMIC));                                                     \
    }

MEASURE(8)
MEASURE(16)
MEASURE(32)
MEASURE(64)
MEASURE(128)
MEASURE(256)
MEASURE(512)
MEASURE(1024)
MEASURE(2048)
MEASURE(4096)
MEASURE(8192)
MEASURE(16384)

#define ROW(size)                                                                                  \
    {                                                                                              \
        size, row_##size, one_##size                                                               \
    }
static const struct {
    size_t size;
    void (*row)(struct figures *out);
    void (*one)(size_t unused);
} rows[SIZES] = {ROW(8),   ROW(16),   ROW(32),   ROW(64),   ROW(128),  ROW(256),
                 ROW(512), ROW(1024), ROW(2048), ROW(4096), ROW(8192), ROW(16384)};

static void one_any(size_t size)
{
    vl_kfree(vl_kmalloc_any(size, VL_ATOMIC));
}

static void one_nothing(size_t size)
{
    (void)size;
}

/* ---- counting by single steps ---- */

static volatile sig_atomic_t steps;

static void on_step(int number)
{
    (void)number;
    steps++;
}

/* Instructions of @fn(@size), with those of the stepping itself. */
static uint64_t count_steps(void (*fn)(size_t size), size_t size)
{
    steps = 0;
    __asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" : : : "cc", "memory");
    fn(size);
    __asm__ volatile("pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq" : : : "cc", "memory");
    return (uint64_t)steps;
}

static uint64_t instructions(void (*fn)(size_t size), size_t size)
{
    /* The empty function's own return is the one instruction that does not count. */
    uint64_t empty = count_steps(one_nothing, size);

    fn(size); /* the slab is there */
    return count_steps(fn, size) - empty;
}

/* ---- what the raw instructions cost ---- */

static uint64_t raw_cas(bool (*cas)(struct vli_percpu *cpu, size_t at, size_t offset,
                                    struct vli_pair *old, struct vli_pair fresh))
{
    static _Alignas(64) struct vli_percpu area;
    struct vli_pair old = {0, 0};
    uint64_t start = __rdtsc();

    for (unsigned i = 0; i < COUNT; i++) {
        struct vli_pair fresh = {old.lo, old.hi + 64};

        (void)cas(&area, 0, 64, &old, fresh);
        old = fresh;
    }
    return per_one(__rdtsc() - start);
}

static bool cas_local(struct vli_percpu *cpu, size_t at, size_t offset, struct vli_pair *old,
                      struct vli_pair fresh)
{
    (void)at;
    return vli_percpu_cas16_local(cpu, 0, offset, old, fresh);
}

static bool cas_locked(struct vli_percpu *cpu, size_t at, size_t offset, struct vli_pair *old,
                       struct vli_pair fresh)
{
    (void)at;
    return vli_percpu_cas16_locked(cpu, 0, offset, old, fresh);
}

static uint64_t raw_irq(void)
{
    uint64_t start = __rdtsc();

    for (unsigned i = 0; i < COUNT; i++) {
        vl_host_irq_restore(vl_host_irq_save());
    }
    return per_one(__rdtsc() - start);
}

int main(int count, char **words)
{
    uint64_t repeats = argument(count, words, 1, 7);
    struct sim_config config = {.ram_bytes = (uint64_t)512 << 20, .cpus = 1, .quiet = true};

    sim_start(&config);
    for (unsigned i = 0; i < SIZES; i++) {
        struct figures figures = {UINT64_MAX, UINT64_MAX, UINT64_MAX};

        for (uint64_t r = 0; r < repeats; r++) {
            rows[i].row(&figures);
        }
        printf("@sim size=%zu alloc=%lu free=%lu pair=%lu\n", rows[i].size, figures.alloc,
               figures.free, figures.pair);
    }
    signal(SIGTRAP, on_step);
    for (unsigned i = 0; i < SIZES; i++) {
        printf("@count size=%zu constant=%lu variable=%lu\n", rows[i].size,
               instructions(rows[i].one, rows[i].size), instructions(one_any, rows[i].size));
    }
    printf("@raw local=%lu locked=%lu irq=%lu\n", raw_cas(cas_local), raw_cas(cas_locked),
           raw_irq());
    sim_stop();
    return 0;
}
