/*
 * check.c - the core's page tables and flushes held against what the MMU knows; what does not fit
 * is reported at once as a fault of the core.
 *
 * For each frame: how many TLB entries of all CPUs name it, how many page-table entries do, and
 * whether it is free. For each page-table entry (a shadow word beside each word of RAM, in memory
 * that is only reserved until it is used): when it was last emptied or changed, and by which CPU.
 *
 *   frame freed:        no TLB entry and no page-table entry names it;
 *   table page freed:   the same, no CPU has it as its root, and every byte of it is zero;
 *   entry set:          the frame is not free; no other frame stood there;
 *   entry cleared:      it stood there; noted with the time;
 *   flush done:         no TLB of any CPU holds a translation of that table that is older than the
 *                       time at which this CPU last emptied or changed its entry.
 *
 * The last one sees every missed shootdown, also one that frees nothing (a page that became
 * read-only), and it is exact while other CPUs go on: what they removed and did not flush yet bears
 * their number.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "machine/sim/mmu_state.h"

#define P_BIT     0x001ull
#define RIGHTS    0x006ull /* write, user */
#define NX_BIT    (1ull << 63)
#define ADDRESS   0x000ffffffffff000ull
#define PAGE      4096ull
#define CPU_SHIFT 6u

static struct sim_frame *frames;
static _Atomic uint64_t *cleared; /* time << CPU_SHIFT | CPU, for each 8 bytes of RAM */
static size_t frame_count;
static _Atomic uint64_t clock_ticks;

void sim_broken(const char *format, ...)
{
    char text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    vl_host_panic(text);
}

uint64_t sim_time(void)
{
    return atomic_fetch_add_explicit(&clock_ticks, 1, memory_order_seq_cst) + 1;
}

struct sim_frame *sim_frame_of(uint64_t pfn)
{
    if (pfn >= frame_count) {
        sim_broken("mmu: frame %llx is no RAM", (unsigned long long)pfn);
    }
    return &frames[pfn];
}

static void *reserve(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (at == MAP_FAILED) {
        perror("sim: memory of the checks");
        abort();
    }
    return at;
}

void sim_check_start(void)
{
    frame_count = sim_machine.ram_end / PAGE;
    frames = reserve(frame_count * sizeof(*frames));
    cleared = reserve(sim_machine.ram_end);
    atomic_store(&clock_ticks, 0);
}

void sim_check_stop(void)
{
    munmap(frames, frame_count * sizeof(*frames));
    munmap((void *)cleared, sim_machine.ram_end);
    frames = NULL;
    cleared = NULL;
    frame_count = 0;
}

/* -------------------------------------------------------------------------------- the events */

static void check_unused(uint64_t pfn, const char *what)
{
    struct sim_frame *frame = sim_frame_of(pfn);
    uint32_t cached = atomic_load_explicit(&frame->cached, memory_order_relaxed);
    uint32_t mapped = atomic_load_explicit(&frame->mapped, memory_order_relaxed);

    if (mapped != 0) {
        sim_broken("mmu: %s %llx freed while %u page-table entries name it", what,
                   (unsigned long long)pfn, mapped);
    }
    if (cached != 0) {
        sim_broken("mmu: %u TLB entries outlive %s %llx", cached, what, (unsigned long long)pfn);
    }
}

static void on_free(uint64_t pfn, uint64_t order)
{
    for (uint64_t i = 0; i < 1ull << order; i++) {
        check_unused(pfn + i, "frame");
        atomic_store_explicit(&sim_frame_of(pfn + i)->is_free, 1, memory_order_relaxed);
    }
}

static void on_alloc(uint64_t pfn, uint64_t order)
{
    for (uint64_t i = 0; i < 1ull << order; i++) {
        atomic_store_explicit(&sim_frame_of(pfn + i)->is_free, 0, memory_order_relaxed);
    }
}

static void on_table_free(uint64_t pfn)
{
    const uint64_t *words = (const uint64_t *)(void *)(sim_ram_base + pfn * PAGE);

    check_unused(pfn, "table page");
    for (unsigned i = 0; i < PAGE / sizeof(*words); i++) {
        if (words[i] != 0) {
            sim_broken("mmu: table page %llx freed with entry %u: %llx", (unsigned long long)pfn, i,
                       (unsigned long long)words[i]);
        }
    }
}

static void on_set(_Atomic uint64_t *entry, uint64_t value)
{
    uint64_t there = atomic_load_explicit(entry, memory_order_relaxed);
    struct sim_frame *frame = sim_frame_of((value & ADDRESS) / PAGE);

    if ((value & P_BIT) == 0) {
        return;
    }
    if ((there & P_BIT) != 0 && ((there ^ value) & ADDRESS) != 0) {
        sim_broken("mmu: entry %llx set over %llx", (unsigned long long)value,
                   (unsigned long long)there);
    }
    if (atomic_load_explicit(&frame->is_free, memory_order_relaxed) != 0) {
        sim_broken("mmu: entry %llx names a free frame", (unsigned long long)value);
    }
    atomic_fetch_add_explicit(&frame->mapped, 1, memory_order_relaxed);
}

static void on_clear(_Atomic uint64_t *entry, uint64_t old)
{
    struct sim_frame *frame = sim_frame_of((old & ADDRESS) / PAGE);
    size_t at = (size_t)((unsigned char *)(void *)entry - sim_ram_base) / sizeof(*entry);

    if ((old & P_BIT) == 0) {
        return;
    }
    if (atomic_fetch_sub_explicit(&frame->mapped, 1, memory_order_relaxed) == 0) {
        sim_broken("mmu: entry %llx cleared that was never set", (unsigned long long)old);
    }
    atomic_store_explicit(&cleared[at], sim_time() << CPU_SHIFT | sim_self.cpu,
                          memory_order_seq_cst);
}

/* Is this translation, of a table whose flush this CPU just ended, older than the removal? */
static void check_flushed(const struct sim_tlb_entry *entry, unsigned cpu)
{
    /* Acquire: pairs with the release when it was filled. */
    uint64_t key = atomic_load_explicit(&entry->key, memory_order_acquire);
    uint64_t from = atomic_load_explicit(&entry->from, memory_order_relaxed);
    uint64_t time = atomic_load_explicit(&entry->time, memory_order_relaxed);
    uint64_t when;

    if (key == 0 || from == 0) {
        return;
    }
    when =
        atomic_load_explicit(&cleared[(from - (uintptr_t)sim_ram_base) / 8], memory_order_relaxed);
    if ((when & ((1u << CPU_SHIFT) - 1)) != sim_self.cpu || when >> CPU_SHIFT < time) {
        return;
    }
    if (atomic_load_explicit(&entry->key, memory_order_acquire) == key) {
        sim_broken("mmu: missed shootdown: CPU %u still translates %llx", cpu,
                   (unsigned long long)(key & ~1ull));
    }
}

static void on_flush(uint64_t root)
{
    for (unsigned cpu = 0; cpu < sim_machine.config.cpus; cpu++) {
        struct sim_mmu *mmu = &sim_mmu[cpu];

        if (atomic_load_explicit(&mmu->root, memory_order_relaxed) != root) {
            continue;
        }
        for (unsigned set = 0; set < SIM_TLB_SETS; set++) {
            for (unsigned way = 0; way < SIM_TLB_WAYS; way++) {
                check_flushed(&mmu->tlb[set][way], cpu);
            }
        }
    }
}

void sim_check_event(enum vl_event event, uint64_t a, uint64_t b)
{
    switch (event) {
    case VL_EVENT_FRAME_ALLOC:
        on_alloc(a, b);
        break;
    case VL_EVENT_FRAME_FREE:
        on_free(a, b);
        break;
    case VL_EVENT_TABLE_FREE:
        on_table_free(a);
        break;
    case VL_EVENT_PTE_SET:
        on_set((_Atomic uint64_t *)(uintptr_t)a, b);
        break;
    case VL_EVENT_PTE_CLEAR:
        on_clear((_Atomic uint64_t *)(uintptr_t)a, b);
        break;
    case VL_EVENT_FLUSH:
        on_flush(a);
        break;
    }
}

/* ----------------------------------------------------------------------------- at rest */

static void validate_entry(const struct sim_tlb_entry *entry, unsigned cpu)
{
    uint64_t key = atomic_load_explicit(&entry->key, memory_order_relaxed);
    uint64_t cached = atomic_load_explicit(&entry->pte, memory_order_relaxed);
    uint64_t from = atomic_load_explicit(&entry->from, memory_order_relaxed);
    uint64_t now;

    if (key == 0) {
        return;
    }
    now = atomic_load_explicit((_Atomic uint64_t *)(uintptr_t)from, memory_order_relaxed);
    if ((now & P_BIT) == 0 || ((now ^ cached) & ADDRESS) != 0 || (cached & ~now & RIGHTS) != 0 ||
        (now & ~cached & NX_BIT) != 0) {
        sim_broken("mmu: CPU %u translates %llx by %llx, the table says %llx", cpu,
                   (unsigned long long)(key & ~1ull), (unsigned long long)cached,
                   (unsigned long long)now);
    }
}

void sim_mmu_validate(void)
{
    for (unsigned cpu = 0; cpu < sim_machine.config.cpus; cpu++) {
        for (unsigned set = 0; set < SIM_TLB_SETS; set++) {
            for (unsigned way = 0; way < SIM_TLB_WAYS; way++) {
                validate_entry(&sim_mmu[cpu].tlb[set][way], cpu);
            }
        }
    }
}
