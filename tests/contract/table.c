/*
 * Goal: every strategy of TABLES keeps the contract of page tables: entries are where they were
 * put, exactly the table pages exist that the areas need, nothing leaks, and nobody sees a frame or
 * a table page after it was given back, also while other CPUs use the table.
 * Method: a small space of our own (areas as ranges, no more) does random maps, unmaps of pages and
 * of ranges, and frees table pages, against a model: a list of pages with their frames and a list
 * of table pages. Then edges of floors and ceilings, failures at each step, and CPUs that touch
 * while one unmaps and protects: each page holds words that name its address, so that a wrong frame
 * is seen, and the simulated MMU checks every entry, flush and free.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/percpu.h"
#include "core/base/rwlock.h"
#include "core/table/mutant.h"
#include "core/table/table.h"
#include "machine/sim/mmu.h"
#include "machine/sim/sim.h"

#define PAGE      VL_PAGE_SIZE
#define MIB       (1ull << 20)
#define GIB       (1ull << 30)
#define AREAS_MAX 24u
#define PAGES_MAX 4096u
#define OPS       150000u

struct range {
    vl_va start, end;
};

static struct vli_table table;
static uint64_t random_state;
static uint64_t free_before;

/* The model: areas in ascending order, pages in no order, table pages by level and first address.
 */
static struct range areas[AREAS_MAX + 1];
static unsigned area_count;
static struct {
    vl_va va;
    struct vl_frame *frame;
} pages[PAGES_MAX];
static unsigned page_count;
static struct {
    unsigned level;
    vl_va base;
} tables[PAGES_MAX * 3];
static unsigned table_count;

static uint64_t free_frames(void)
{
    struct vl_frame_counts counts;

    vl_drain_all();
    vl_frame_counts(&counts);
    return counts.free_zones + counts.free_stock;
}

static uint64_t random_below(uint64_t n)
{
    return sim_random(&random_state) % n;
}

static void machine_on(uint64_t seed, unsigned cpus)
{
    struct sim_config config = {.ram_bytes = 64u << 20, .cpus = cpus, .seed = seed, .quiet = true};

    sim_start(&config);
    random_state = seed;
    area_count = page_count = table_count = 0;
    free_before = free_frames();
    assert_int_equal(vli_table_init(&table, VL_WAIT), VL_OK);
}

static void machine_off(void)
{
    vli_table_destroy(&table);
    assert_int_equal(free_frames(), free_before);
    sim_stop();
}

/* ------------------------------------------------------------------------------------ the model */

static unsigned find_page(vl_va va)
{
    unsigned at = 0;

    while (at < page_count && pages[at].va != va) {
        at++;
    }
    return at;
}

static void note_tables(vl_va va)
{
    for (unsigned level = 1; level < VLI_TABLE_LEVELS; level++) {
        vl_va base = va & ~(vl_va)(vli_table_reach(level) - 1);
        unsigned at = 0;

        while (at < table_count && (tables[at].level != level || tables[at].base != base)) {
            at++;
        }
        if (at == table_count) {
            tables[table_count].level = level;
            tables[table_count++].base = base;
        }
    }
}

/* Forgets the table pages that lie whole between @floor and @ceiling. */
static void forget_tables(vl_va floor, vl_va ceiling)
{
    for (unsigned at = 0; at < table_count;) {
        vl_va end = tables[at].base + (vl_va)vli_table_reach(tables[at].level);

        if (tables[at].base >= floor && end <= ceiling) {
            tables[at] = tables[--table_count];
        } else {
            at++;
        }
    }
}

static void check_model(void)
{
    vli_table_validate(&table);
    assert_int_equal(atomic_load(&table.table_pages), table_count + 1);
    for (unsigned i = 0; i < page_count; i++) {
        uint64_t pte = vli_table_peek(&table, pages[i].va);

        assert_true(vli_pte_is_present(pte));
        assert_ptr_equal(vli_frame_of(vli_pte_pfn(pte)), pages[i].frame);
    }
    sim_mmu_validate();
}

/* ---------------------------------------------------------------------------------- operations */

static bool map_page(vl_va va)
{
    struct vl_frame *frame;
    struct vli_table_slot slot;

    if (page_count == PAGES_MAX || find_page(va) < page_count) {
        return false;
    }
    frame = vli_frame_get(0, VL_WAIT);
    if (frame == NULL) {
        return false;
    }
    vli_frame_set_type(frame, VLI_FRAME_ANON);
    if (vli_table_lock_alloc(&table, va, VL_ATOMIC, &slot) != VL_OK) {
        vli_frame_put(frame, 0);
        return false;
    }
    assert_int_equal(vli_entry_load(&slot), 0);
    vli_entry_set(&slot, va, vli_pte_make(vli_frame_pfn(frame), true, false));
    vli_table_unlock(&slot);
    pages[page_count].va = va;
    pages[page_count++].frame = frame;
    note_tables(va);
    return true;
}

/* Empties the entries of [start, end). */
static void clear_range(struct vli_gather *gather, vl_va start, vl_va end)
{
    struct vli_table_slot slot;

    end = end > VL_USER_END ? VL_USER_END : end;
    for (vl_va va = start; vli_table_next(&table, &va, end, &slot);) {
        vl_va stop = vli_table_leaf_end(va, end);
        bool full = false;

        for (; va < stop && !full; va += PAGE, slot.entry++) {
            uint64_t old = vli_entry_clear(gather, &slot, va);
            unsigned at;

            if (old != 0) {
                at = find_page(va);
                assert_true(at < page_count);
                assert_ptr_equal(pages[at].frame, vli_frame_of(vli_pte_pfn(old)));
                full = vli_gather_frame(gather, pages[at].frame);
                pages[at] = pages[--page_count];
            }
        }
        vli_table_unlock(&slot);
        if (full) {
            vli_gather_flush(gather);
        }
    }
}

struct span_list {
    struct vli_table_span span[2 * AREAS_MAX];
    unsigned count, at;
};

static bool next_span(void *ctx, struct vli_table_span *out)
{
    struct span_list *list = ctx;

    if (list->at == list->count) {
        return false;
    }
    *out = list->span[list->at++];
    return true;
}

/* Takes [start, end) out of the areas; what is removed becomes the spans. */
static void cut_areas(vl_va start, vl_va end, struct span_list *out)
{
    struct range left[AREAS_MAX + 1];
    unsigned count = 0;
    vl_va floor = 0, ceiling = VL_USER_END;

    out->count = out->at = 0;
    for (unsigned i = 0; i < area_count; i++) {
        vl_va from = areas[i].start > start ? areas[i].start : start;
        vl_va to = areas[i].end < end ? areas[i].end : end;

        if (from >= to) {
            left[count++] = areas[i];
            continue;
        }
        if (areas[i].start < from) {
            left[count++] = (struct range){areas[i].start, from};
        }
        if (to < areas[i].end) {
            left[count++] = (struct range){to, areas[i].end};
        }
        out->span[out->count++] = (struct vli_table_span){.start = from, .end = to};
    }
    for (unsigned i = 0; i < count; i++) {
        floor = left[i].end <= start && left[i].end > floor ? left[i].end : floor;
        ceiling = left[i].start >= end && left[i].start < ceiling ? left[i].start : ceiling;
    }
    for (unsigned i = 0; i < out->count; i++) {
        bool is_last = i + 1 == out->count || random_below(2) == 0;

        out->span[i].floor = floor;
        out->span[i].ceiling = is_last ? ceiling : out->span[i + 1].start;
    }
    memcpy(areas, left, count * sizeof(left[0]));
    area_count = count;
    if (out->count != 0) {
        forget_tables(floor, ceiling == VL_USER_END ? VLI_TABLE_USER_END : ceiling);
    }
}

static void unmap_range(vl_va start, vl_va end, bool whole)
{
    struct vli_gather gather;
    struct span_list spans;

    vli_gather_begin(&gather, &table, whole);
    clear_range(&gather, start, end);
    cut_areas(start, end, &spans);
    vli_table_free_spans(&gather, next_span, &spans);
    vli_gather_end(&gather);
}

/* An address where table pages begin and end, or near one. */
static vl_va random_place(void)
{
    static const vl_va unit[] = {2 * MIB, GIB, 512 * GIB};
    vl_va base = unit[random_below(3)] * random_below(4);
    vl_va place;

    if (random_below(8) == 0) {
        base = VL_USER_END;
    }
    place = base + PAGE * random_below(1200) - PAGE * 600;
    return place < VL_USER_MIN || place >= VL_USER_END ? VL_USER_MIN : place;
}

static void add_area(void)
{
    vl_va start = random_place();
    vl_va end = start + PAGE * (1 + random_below(random_below(3) == 0 ? 1500 : 60));
    unsigned at = 0;

    end = end > VL_USER_END ? VL_USER_END : end;
    while (at < area_count && areas[at].start < end) {
        if (areas[at].end > start) {
            return;
        }
        at++;
    }
    if (area_count >= AREAS_MAX / 2) {
        return;
    }
    memmove(&areas[at + 1], &areas[at], (area_count - at) * sizeof(areas[0]));
    areas[at] = (struct range){start, end};
    area_count++;
}

static vl_va random_page(void)
{
    const struct range *area = &areas[random_below(area_count)];

    return area->start + PAGE * random_below((area->end - area->start) / PAGE);
}

/* Up to @count pages from @va on, as far as an area goes. */
static void map_run(vl_va va, unsigned count)
{
    for (unsigned i = 0; i < area_count; i++) {
        for (; areas[i].start <= va && va < areas[i].end && count > 0; va += PAGE, count--) {
            map_page(va);
        }
    }
}

static void touch(vl_va va)
{
    unsigned at = find_page(va);
    bool may = sim_probe(va, random_below(2) == 0 ? VL_READ : VL_WRITE, true);

    assert_int_equal(may, at < page_count);
}

static void one_operation(void)
{
    struct vli_gather gather;
    vl_va va;

    if (area_count == 0 || random_below(64) == 0) {
        add_area();
        return;
    }
    va = random_page();
    switch (random_below(512)) {
    case 0:
    case 1:
        unmap_range(areas[0].start, areas[random_below(area_count)].end, false);
        break;
    case 2:
    case 3:
    case 4:
        vli_gather_begin(&gather, &table, false);
        clear_range(&gather, va, va + PAGE * (1 + random_below(600)));
        vli_gather_end(&gather);
        break;
    case 5:
        vli_table_activate(NULL);
        vli_table_activate(&table);
        break;
    default:
        if (random_below(32) == 0 && area_count < AREAS_MAX - 1) {
            unmap_range(va, va + PAGE * (1 + random_below(20)), false);
        } else if (random_below(2) == 0) {
            touch(va);
        } else {
            map_run(va, random_below(64) == 0 ? 300 : 1);
        }
        break;
    }
}

static void random_operations_match_a_model(void **state)
{
    static const uint64_t seeds[] = {11, 12, 13};
    uint64_t ops = sim_ops(OPS) < 200000 ? sim_ops(OPS) : 200000;

    (void)state;
    for (unsigned s = 0; s < VLI_COUNT_OF(seeds); s++) {
        machine_on(sim_seed(seeds[s]), 1);
        vli_table_activate(&table);
        for (uint64_t i = 0; i < ops / VLI_COUNT_OF(seeds); i++) {
            one_operation();
            if (i % 256 == 0) {
                check_model();
            }
        }
        check_model();
        vli_table_activate(NULL);
        unmap_range(0, VL_USER_END, true);
        assert_int_equal(page_count, 0);
        assert_int_equal(table_count, 0);
        check_model();
        machine_off();
    }
}

static void a_shared_table_page_stays_until_the_last_area(void **state)
{
    (void)state;
    machine_on(1, 1);
    areas[0] = (struct range){2 * MIB, 2 * MIB + 4 * PAGE};
    areas[1] = (struct range){3 * MIB, 3 * MIB + 4 * PAGE};
    areas[2] = (struct range){4 * MIB - PAGE, 4 * MIB + PAGE};
    area_count = 3;
    map_page(2 * MIB);
    map_page(3 * MIB);
    map_page(4 * MIB - PAGE);
    map_page(4 * MIB);
    assert_int_equal(atomic_load(&table.table_pages), 5);
    unmap_range(3 * MIB, 3 * MIB + 4 * PAGE, false);
    assert_int_equal(atomic_load(&table.table_pages), 5);
    unmap_range(2 * MIB, 2 * MIB + 4 * PAGE, false);
    assert_int_equal(atomic_load(&table.table_pages), 5);
    /* Half of the last area: the page below is free of areas then, the one above is not. */
    unmap_range(4 * MIB - PAGE, 4 * MIB, false);
    assert_int_equal(atomic_load(&table.table_pages), 4);
    unmap_range(4 * MIB, 4 * MIB + PAGE, false);
    assert_int_equal(atomic_load(&table.table_pages), 1);
    machine_off();
}

static void neighbours_far_and_near_go_in_one_call(void **state)
{
    static const vl_va at[] = {VL_USER_MIN, 1 * MIB,    4 * MIB - PAGE,    4 * MIB,
                               GIB - PAGE,  GIB,        300 * GIB,         512 * GIB - PAGE,
                               512 * GIB,   1024 * GIB, VL_USER_END - PAGE};

    (void)state;
    machine_on(1, 1);
    for (unsigned i = 0; i < VLI_COUNT_OF(at); i++) {
        areas[area_count++] = (struct range){at[i], at[i] + PAGE};
        assert_true(map_page(at[i]));
    }
    check_model();
    unmap_range(VL_USER_MIN, VL_USER_END, false);
    assert_int_equal(atomic_load(&table.table_pages), 1);
    machine_off();
}

static void failures_leave_nothing_behind(void **state)
{
    (void)state;
    machine_on(1, 1);
    areas[0] = (struct range){GIB, 4000 * GIB};
    area_count = 1;
    for (unsigned fail = 0; fail < 6; fail++) {
        vl_va va = GIB + fail * 512 * GIB;

        vl_drain_all();
        sim_fail_after(fail);
        if (map_page(va)) {
            assert_true(fail >= 4);
        } else {
            assert_true(fail < 4);
            assert_int_equal(find_page(va), page_count);
        }
        sim_fail_after(UINT64_MAX);
        vli_table_validate(&table);
    }
    unmap_range(0, VL_USER_END, false);
    assert_int_equal(atomic_load(&table.table_pages), 1);
    machine_off();
}

/* ------------------------------------------------------------------------------- many CPUs */

#define SHARED_START (GIB - 64 * PAGE)
#define SHARED_PAGES 128u
#define ROUNDS       400u

static struct vli_rwlock space_lock;
static _Atomic uint32_t writers_left;
static _Atomic uint64_t wrong_words;

/* As a kernel would: a fresh zeroed page, or more rights for the one that is there. */
static enum vl_status shared_fault(vl_va va, uint32_t access)
{
    struct vl_frame *frame = vli_frame_get(0, VL_WAIT | VL_ZEROED);
    enum vl_status status = VL_ENOMEM;
    struct vli_table_slot slot;

    (void)access;
    va &= ~(vl_va)VL_PAGE_MASK;
    if (frame == NULL) {
        return VL_ENOMEM;
    }
    vli_frame_set_type(frame, VLI_FRAME_ANON);
    vli_rw_read_lock(&space_lock);
    status = vli_table_lock_alloc(&table, va, VL_ATOMIC, &slot);
    if (status == VL_OK) {
        uint64_t old = vli_entry_load(&slot);

        if (old == 0) {
            vli_entry_set(&slot, va, vli_pte_make(vli_frame_pfn(frame), true, true));
            frame = NULL;
        } else {
            vli_entry_set(&slot, va, vli_pte_make(vli_pte_pfn(old), true, true));
        }
        vli_table_unlock(&slot);
    }
    vli_rw_read_unlock(&space_lock);
    if (frame != NULL) {
        vli_frame_put(frame, 0);
    }
    return status;
}

static void use_pages(unsigned cpu)
{
    uint64_t random = 77 + cpu;

    while (atomic_load(&writers_left) != 0) {
        vl_va va = SHARED_START + PAGE * (sim_random(&random) % SHARED_PAGES) + 8 * cpu;
        uint64_t seen = 0;

        if (sim_random(&random) % 2 == 0) {
            assert_int_equal(sim_store(va, va), VL_OK);
        } else {
            assert_int_equal(sim_load(va, &seen), VL_OK);
            if (seen != 0 && seen != va) {
                atomic_fetch_add(&wrong_words, 1);
            }
        }
    }
}

static void clear_shared(struct vli_gather *gather, vl_va start, vl_va end, bool only_protect)
{
    struct vli_table_slot slot;

    for (vl_va va = start; vli_table_next(&table, &va, end, &slot);) {
        vl_va stop = vli_table_leaf_end(va, end);
        bool full = false;

        for (; va < stop && !full; va += PAGE, slot.entry++) {
            uint64_t old;

            if (only_protect && vli_entry_load(&slot) != 0) {
                (void)vli_entry_narrow(gather, &slot, va, VLI_PTE_WRITE, VLI_PTE_NX);
            } else if (!only_protect && (old = vli_entry_clear(gather, &slot, va)) != 0) {
                full = vli_gather_frame(gather, vli_frame_of(vli_pte_pfn(old)));
            }
        }
        vli_table_unlock(&slot);
        if (full) {
            vli_gather_flush(gather);
        }
    }
}

static void remove_pages(void)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        vl_va start = SHARED_START + PAGE * random_below(SHARED_PAGES);
        vl_va end = start + PAGE * (1 + random_below(24));
        struct span_list spans = {.count = 1};
        struct vli_gather gather;

        if (round % 8 == 0) {
            start = SHARED_START;
            end = SHARED_START + PAGE * SHARED_PAGES;
        }
        vli_rw_write_lock(&space_lock);
        vli_gather_begin(&gather, &table, false);
        clear_shared(&gather, start, end, round % 3 == 1);
        if (round % 8 == 0 && round % 3 != 1) {
            spans.span[0] = (struct vli_table_span){start, end, 0, VL_USER_END};
            vli_table_free_spans(&gather, next_span, &spans);
        }
        vli_gather_end(&gather);
        vli_rw_write_unlock(&space_lock);
        vl_host_cpu_relax();
    }
}

static void one_cpu(void *arg, unsigned cpu)
{
    unsigned cpus = *(unsigned *)arg;

    vl_host_preempt_off();
    vli_table_activate(&table);
    vl_host_preempt_on();
    if (cpu == 0) {
        remove_pages();
        atomic_store(&writers_left, 0);
    } else {
        use_pages(cpu);
    }
    vl_host_preempt_off();
    vli_table_activate(NULL);
    vl_host_preempt_on();
    (void)cpus;
}

static void run_shared(unsigned cpus, uint64_t seed)
{
    struct span_list spans = {.count = 1};
    struct vli_gather gather;

    machine_on(seed, cpus);
    sim_fault_set(shared_fault);
    vli_rw_init(&space_lock, VLI_RANK_SPACE);
    atomic_store(&writers_left, 1);
    atomic_store(&wrong_words, 0);
    sim_irq_storm(100);
    sim_run_on_cpus(cpus, one_cpu, &cpus);
    sim_irq_storm_end();
    assert_int_equal(atomic_load(&wrong_words), 0);
    sim_mmu_validate();
    vli_table_validate(&table);
    vli_gather_begin(&gather, &table, true);
    clear_shared(&gather, SHARED_START, SHARED_START + PAGE * (SHARED_PAGES + 24), false);
    spans.span[0] = (struct vli_table_span){0, VL_USER_END, 0, VL_USER_END};
    vli_table_free_spans(&gather, next_span, &spans);
    vli_gather_end(&gather);
    machine_off();
}

static void touching_while_unmapping(void **state)
{
    (void)state;
    /* Without locks in the build there is one CPU, which removes what nobody touches. */
    run_shared(VL_SMP ? 2 : 1, sim_seed(21));
    run_shared(VL_SMP ? 4 : 1, sim_seed(22));
}

#if defined(VLI_MUTANTS)
/* Which fault of core/table/mutant.h is on: VL_MUTANT of the environment. */
static void choose_mutant(void)
{
    const char *text = getenv("VL_MUTANT");

    vli_mutant = text == NULL ? 0 : (unsigned)strtoul(text, NULL, 10);
}
#else
static void choose_mutant(void)
{
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations_match_a_model),
        cmocka_unit_test(a_shared_table_page_stays_until_the_last_area),
        cmocka_unit_test(neighbours_far_and_near_go_in_one_call),
        cmocka_unit_test(failures_leave_nothing_behind),
        cmocka_unit_test(touching_while_unmapping),
    };

    choose_mutant();
    return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
