/*
 * kmalloc.c - experiment 4 in the sim: the per-CPU fast path of object allocation.
 *
 * usage: kmalloc [REPEATS]
 *
 * For each size from 8 to 16384: test 1, 10,000 kmallocs in a row and then 10,000 kfrees; test 2,
 * 10,000 pairs. Cycles of the time stamp counter each, pinned to one processor; a line for each
 * repetition, all sizes in turn, so that who reads can take medians. Then the instructions of one
 * pair, counted by stepping through it with the trap flag: exact, and the same on every machine;
 * with the size a constant at the call, and not.
 *
 * And in each repetition the floor, what raw instructions cost here, without which a difference
 * between strategies says little: a compare-and-exchange of 8 and of 16 bytes, without and with the
 * lock prefix, of which a pair needs two; a push and a pop on an array as a restartable range does
 * them; an empty function called; interrupts off and on, a flag in the sim. Cycles a turn, each
 * turn needing the one before.
 *
 * The simulated machine's own part is in all of it: turning preemption off and on, and looking up
 * the CPU's data, take about ten instructions that a kernel with %gs does not need.
 */
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <x86intrin.h>
#include <ucontext.h>
#include "bench/sim/measure.h"

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
        out->alloc = per_one(t1 - t0);                                                             \
        out->free = per_one(t2 - t1);                                                              \
        out->pair = per_one(t3 - t2);                                                              \
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

static _Alignas(64) uint64_t words[2];
static _Alignas(512) uint64_t array[64];
static uint64_t *volatile top = array + 32;

#define RAW_CAS8(name, prefix)                                                                     \
    static void name(void)                                                                         \
    {                                                                                              \
        for (unsigned i = 0; i < COUNT; i++) {                                                     \
            uint64_t old = *(volatile uint64_t *)words;                                            \
            uint64_t fresh = old + 64;                                                             \
                                                                                                   \
            __asm__ volatile(prefix "cmpxchgq %2, %0"                                              \
                             : "+m"(words[0]), "+a"(old)                                           \
                             : "r"(fresh)                                                          \
                             : "cc", "memory");                                                    \
        }                                                                                          \
    }
#define RAW_CAS16(name, prefix)                                                                    \
    static void name(void)                                                                         \
    {                                                                                              \
        for (unsigned i = 0; i < COUNT; i++) {                                                     \
            uint64_t lo = ((volatile uint64_t *)words)[0];                                         \
            uint64_t hi = ((volatile uint64_t *)words)[1];                                         \
            uint64_t fresh_lo = lo + 64;                                                           \
            uint64_t fresh_hi = hi + 1;                                                            \
                                                                                                   \
            __asm__ volatile(prefix "cmpxchg16b %0"                                                \
                             : "+m"(words), "+a"(lo), "+d"(hi)                                     \
                             : "b"(fresh_lo), "c"(fresh_hi)                                        \
                             : "cc", "memory");                                                    \
        }                                                                                          \
    }
RAW_CAS8(raw_cas8, "")
RAW_CAS8(raw_cas8_locked, "lock ")
RAW_CAS16(raw_cas16, "")
RAW_CAS16(raw_cas16_locked, "lock ")

/* A push and a pop of the same pointer: load, test, store, store; load, load, test, store. */
static void raw_restart(void)
{
    uint64_t unit = 64;

    for (unsigned i = 0; i < COUNT; i++) {
        uint64_t *at = top;

        if (((uintptr_t)at & 511u) == 0) {
            return;
        }
        *(volatile uint64_t *)at = unit;
        top = at + 1;
        at = top;
        unit = *(volatile uint64_t *)(at - 1);
        if (unit == 0) {
            return;
        }
        top = at - 1;
    }
}

__attribute__((noinline)) static void empty(void)
{
    __asm__ volatile("");
}

static void raw_call(void)
{
    for (unsigned i = 0; i < COUNT; i++) {
        empty();
    }
}

static void raw_irq(void)
{
    for (unsigned i = 0; i < COUNT; i++) {
        vl_host_irq_restore(vl_host_irq_save());
    }
}

static const struct {
    const char *name;
    void (*loop)(void);
} raws[] = {{"cas8", raw_cas8},       {"cas8_locked", raw_cas8_locked},
            {"cas16", raw_cas16},     {"cas16_locked", raw_cas16_locked},
            {"restart", raw_restart}, {"call", raw_call},
            {"irq", raw_irq}};

static void print_raws(void)
{
    printf("@raw");
    for (unsigned i = 0; i < sizeof(raws) / sizeof(raws[0]); i++) {
        uint64_t start = __rdtsc();

        raws[i].loop();
        printf(" %s=%lu", raws[i].name, per_one(__rdtsc() - start));
    }
    printf("\n");
}

/* Onto the processor where it is: a move would empty its caches. */
static void pin(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((unsigned)sched_getcpu(), &set);
    (void)sched_setaffinity(0, sizeof(set), &set);
}

int main(int count, char **words_given)
{
    uint64_t repeats = argument(count, words_given, 1, 7);
    struct sim_config config = {.ram_bytes = (uint64_t)512 << 20, .cpus = 1, .quiet = true};
    struct figures figures;

    pin();
    sim_start(&config);
    for (unsigned i = 0; i < SIZES; i++) {
        rows[i].row(&figures); /* memory is touched */
    }
    for (uint64_t r = 0; r < repeats; r++) {
        print_raws();
        for (unsigned i = 0; i < SIZES; i++) {
            rows[i].row(&figures);
            printf("@sim size=%zu alloc=%lu free=%lu pair=%lu\n", rows[i].size, figures.alloc,
                   figures.free, figures.pair);
        }
    }
    signal(SIGTRAP, on_step);
    for (unsigned i = 0; i < SIZES; i++) {
        printf("@count size=%zu constant=%lu variable=%lu\n", rows[i].size,
               instructions(rows[i].one, rows[i].size), instructions(one_any, rows[i].size));
    }
    sim_stop();
    return 0;
}
