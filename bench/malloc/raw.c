/*
 * raw.c - the floor: what the instructions under any allocator cost on this machine.
 *
 * Each is a loop of 10,000; the least of the repetitions, cycles a turn with the loop around it.
 * cas8, cas16: one or two words loaded and exchanged by compare-and-exchange, without and with the
 * lock prefix, of which a pair of malloc and free needs two; push and pop: an object put into a
 * per-CPU array and taken out again. "restart": as a kernel does it whose interrupts restart such
 * ranges: no more than its loads and stores. "rseq": as a program does it under Linux, which also
 * names each range in struct rseq and looks up its CPU; "local": on a list of this thread, links in
 * the objects. call: an empty function, direct and through the procedure linkage table, as malloc
 * is called in a program that is linked dynamically.
 */
#include <stdatomic.h>
#include <sys/rseq.h>
#include "bench/malloc/bench.h"

#define TURNS 10000u

struct pair16 {
    uint64_t lo, hi;
} __attribute__((aligned(16)));

static struct pair16 words __attribute__((aligned(64)));

#define RAW_CAS8(name, prefix)                                                                     \
    static void name(void)                                                                         \
    {                                                                                              \
        for (unsigned i = 0; i < TURNS; i++) {                                                     \
            uint64_t old = *(volatile uint64_t *)&words.lo, fresh = old + 64;                      \
                                                                                                   \
            __asm__ volatile(prefix "cmpxchgq %2, %0"                                              \
                             : "+m"(words.lo), "+a"(old)                                           \
                             : "r"(fresh)                                                          \
                             : "cc", "memory");                                                    \
        }                                                                                          \
    }
#define RAW_CAS16(name, prefix)                                                                    \
    static void name(void)                                                                         \
    {                                                                                              \
        for (unsigned i = 0; i < TURNS; i++) {                                                     \
            struct pair16 old = *(volatile struct pair16 *)&words;                                 \
            struct pair16 fresh = {old.lo + 64, old.hi + 1};                                       \
                                                                                                   \
            __asm__ volatile(prefix "cmpxchg16b %0"                                                \
                             : "+m"(words), "+a"(old.lo), "+d"(old.hi)                             \
                             : "b"(fresh.lo), "c"(fresh.hi)                                        \
                             : "cc", "memory");                                                    \
        }                                                                                          \
    }
RAW_CAS8(raw_cas8, "")
RAW_CAS8(raw_cas8_locked, "lock ")
RAW_CAS16(raw_cas16, "")
RAW_CAS16(raw_cas16_locked, "lock ")

/* ---- an array of objects: the top points one beyond the last pointer held ---- */

static uint64_t array[64] __attribute__((aligned(512)));
static uint64_t *tops[1024 * 8]; /* a line of tops for each CPU */

static void fill_array(void)
{
    for (unsigned i = 1; i < 32; i++) {
        array[i] = i * 64;
    }
    for (unsigned i = 0; i < 1024; i++) {
        tops[i * 8] = array + 32;
    }
}

static inline uint64_t *restart_pop(uint64_t **top)
{
    uint64_t *at = *(uint64_t *volatile *)top;
    uint64_t unit = at[-1];

    if (unit == 0) {
        return NULL;
    }
    *(uint64_t *volatile *)top = at - 1;
    return (uint64_t *)(uintptr_t)unit;
}

static inline bool restart_push(uint64_t **top, uint64_t *unit)
{
    uint64_t *at = *(uint64_t *volatile *)top;

    if (((uintptr_t)at & 511) == 0) {
        return false;
    }
    *at = (uint64_t)(uintptr_t)unit;
    *(uint64_t *volatile *)top = at + 1;
    return true;
}

static void raw_restart(void)
{
    for (unsigned i = 0; i < TURNS; i++) {
        uint64_t *unit = restart_pop(tops);

        if (unit == NULL || !restart_push(tops, unit)) {
            fputs("bench: the array lost an object\n", stderr);
            exit(1);
        }
    }
}

/* The critical sections are named in struct rseq by a store of the descriptor's address. */
#define RSEQ_RANGE(commit)                                                                         \
    ".pushsection __rseq_cs, \"aw\"\n\t"                                                           \
    ".balign 32\n\t"                                                                               \
    "3: .long 0, 0\n\t"                                                                            \
    ".quad 1f, 2f - 1f, 4f\n\t"                                                                    \
    ".popsection\n\t"                                                                              \
    ".pushsection .text.rseq_abort, \"ax\"\n\t"                                                    \
    ".byte 0x0f, 0xb9, 0x3d\n\t"                                                                   \
    ".long 0x53053053\n\t"                                                                         \
    "4: jmp 5f\n\t"                                                                                \
    ".popsection\n\t"                                                                              \
    "5: leaq 3b(%%rip), %%rax\n\t"                                                                 \
    "movq %%rax, %%fs:8(%[rseq])\n\t"                                                              \
    "1: movl %%fs:4(%[rseq]), %%eax\n\t"                                                           \
    "shlq $6, %%rax\n\t" commit "2:\n\t"

static inline uint64_t rseq_pop(ptrdiff_t rseq)
{
    uint64_t unit, at;

    __asm__ volatile(RSEQ_RANGE("movq (%[tops], %%rax), %[at]\n\t"
                                "movq -8(%[at]), %[unit]\n\t"
                                "testq %[unit], %[unit]\n\t"
                                "jz 2f\n\t"
                                "subq $8, %[at]\n\t"
                                "movq %[at], (%[tops], %%rax)\n\t")
                     : [unit] "=&r"(unit), [at] "=&r"(at)
                     : [rseq] "r"(rseq), [tops] "r"(tops)
                     : "rax", "cc", "memory");
    return unit;
}

static inline uint64_t rseq_push(ptrdiff_t rseq, uint64_t unit)
{
    uint64_t at;

    __asm__ volatile(RSEQ_RANGE("movq (%[tops], %%rax), %[at]\n\t"
                                "testq $511, %[at]\n\t"
                                "jz 2f\n\t"
                                "movq %[unit], (%[at])\n\t"
                                "addq $8, %[at]\n\t"
                                "movq %[at], (%[tops], %%rax)\n\t")
                     : [at] "=&r"(at)
                     : [rseq] "r"(rseq), [tops] "r"(tops), [unit] "r"(unit)
                     : "rax", "cc", "memory");
    return at;
}

static void raw_rseq(void)
{
    ptrdiff_t rseq = __rseq_offset;

    for (unsigned i = 0; i < TURNS; i++) {
        rseq_push(rseq, rseq_pop(rseq));
    }
}

/* ---- a list of this thread ---- */

static __thread uint64_t *list;

static void raw_local(void)
{
    for (unsigned i = 0; i < TURNS; i++) {
        uint64_t *unit = *(uint64_t *volatile *)&list;

        *(uint64_t *volatile *)&list = (uint64_t *)(uintptr_t)*unit;
        *(volatile uint64_t *)unit = (uint64_t)(uintptr_t) * (uint64_t *volatile *)&list;
        *(uint64_t *volatile *)&list = unit;
    }
}

/* ---- calls ---- */

static __attribute__((noinline)) void empty(void)
{
    __asm__ volatile("");
}

static void raw_call(void)
{
    for (unsigned i = 0; i < TURNS; i++) {
        empty();
    }
}

/* abs is the shortest call that libc has: three instructions. */
static void raw_plt(void)
{
    for (unsigned i = 0; i < TURNS; i++) {
        __asm__ volatile("" : : "r"(abs((int)i)));
    }
}

static double least_of(void (*loop)(void), double budget)
{
    double best = 1e18, end = seconds() + budget;

    loop();
    for (unsigned round = 0; round < 5 || seconds() < end; round++) {
        uint64_t t0 = cycles_start();

        loop();
        best = smaller(best, (double)(cycles_end() - t0) / TURNS);
    }
    return best;
}

void test_raw(double budget)
{
    static uint64_t units[2];
    static const struct {
        const char *name;
        void (*loop)(void);
    } loops[] = {{"cas8", raw_cas8},       {"cas8_locked", raw_cas8_locked},
                 {"cas16", raw_cas16},     {"cas16_locked", raw_cas16_locked},
                 {"restart", raw_restart}, {"rseq", raw_rseq},
                 {"local", raw_local},     {"call", raw_call},
                 {"plt", raw_plt}};
    size_t count = sizeof(loops) / sizeof(loops[0]);

    fill_array();
    units[0] = (uint64_t)(uintptr_t)&units[1];
    list = units;
    for (size_t i = 0; i < count; i++) {
        if (loops[i].loop == raw_rseq && __rseq_size == 0) {
            continue; /* nobody registered it */
        }
        printf("@malloc test=raw what=%s cycles=%.2f\n", loops[i].name,
               least_of(loops[i].loop, budget / (double)count));
    }
}
