/*
 * Goal: the parts of table/ do what table.h says, one by one: walks that make what is missing and
 * survive a failure at each level, entries, the gather's batches, iteration, the kernel's half,
 * stocks that stay zero, activation and the end of a table that a CPU still has active.
 * Method: a table on the simulated machine, whose MMU checks each event on its own; figures are
 * compared with what the format demands. Both strategies of TABLES pass it.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "core/base/percpu.h"
#include "core/table/table.h"
#include "machine/sim/mmu.h"
#include "machine/sim/sim.h"

#define GIB (1ull << 30)

static struct vli_table table;
static uint64_t free_before;

static uint64_t free_frames(void)
{
    struct vl_frame_counts counts;

    vl_drain_all();
    vl_frame_counts(&counts);
    return counts.free_zones + counts.free_stock;
}

static void machine_on(unsigned cpus)
{
    struct sim_config config = {.ram_bytes = 32u << 20, .cpus = cpus, .seed = 1, .quiet = true};

    sim_start(&config);
    free_before = free_frames();
    assert_int_equal(vli_table_init(&table, VL_WAIT), VL_OK);
}

static bool no_span(void *ctx, struct vli_table_span *out)
{
    bool *done = ctx;

    *out = (struct vli_table_span){0, VL_USER_END, 0, VL_USER_END};
    return !*done && (*done = true);
}

/* Everything out and back; nothing may be missing. */
static void machine_off(void)
{
    struct vli_gather gather;
    struct vli_table_slot slot;
    bool done = false;

    vli_gather_begin(&gather, &table, true);
    for (vl_va va = 0; vli_table_next(&table, &va, VL_USER_END, &slot);) {
        vl_va stop = vli_table_leaf_end(va, VL_USER_END);
        bool full = false;

        for (; va < stop && !full; va += VL_PAGE_SIZE, slot.entry++) {
            uint64_t old = vli_entry_clear(&gather, &slot, va);

            full = old != 0 && vli_gather_frame(&gather, vli_frame_of(vli_pte_pfn(old)));
        }
        vli_table_unlock(&slot);
        if (full) {
            vli_gather_flush(&gather);
        }
    }
    vli_table_free_spans(&gather, no_span, &done);
    vli_gather_end(&gather);
    vli_table_destroy(&table);
    assert_int_equal(free_frames(), free_before);
    sim_stop();
}

static struct vl_frame *map(vl_va va, bool write)
{
    struct vl_frame *frame = vli_frame_get(0, VL_WAIT | VL_ZEROED);
    struct vli_table_slot slot;

    assert_non_null(frame);
    vli_frame_set_type(frame, VLI_FRAME_ANON);
    assert_int_equal(vli_table_lock_alloc(&table, va, VL_WAIT, &slot), VL_OK);
    vli_entry_set(&slot, va, vli_pte_make(vli_frame_pfn(frame), write, false));
    vli_table_unlock(&slot);
    return frame;
}

static void unmap(vl_va va)
{
    struct vli_gather gather;
    struct vli_table_slot slot;
    uint64_t old;

    vli_gather_begin(&gather, &table, false);
    assert_true(vli_table_lock(&table, va, &slot));
    old = vli_entry_clear(&gather, &slot, va);
    assert_true(vli_pte_is_present(old));
    assert_false(vli_gather_frame(&gather, vli_frame_of(vli_pte_pfn(old))));
    vli_table_unlock(&slot);
    vli_gather_end(&gather);
}

static uint64_t pages(void)
{
    vli_table_validate(&table);
    return atomic_load(&table.table_pages);
}

static void walks_make_what_is_missing(void **state)
{
    struct vli_table_slot slot;

    (void)state;
    machine_on(1);
    assert_int_equal(pages(), 1);
    assert_false(vli_table_lock(&table, 0x10000, &slot));
    assert_int_equal(vli_table_peek(&table, 0x10000), 0);
    map(0x10000, true);
    assert_int_equal(pages(), 4);
    map(0x11000, true);
    assert_int_equal(pages(), 4);
    map(0x10000 + (2u << 20), true);
    assert_int_equal(pages(), 5);
    map(0x10000 + GIB, true);
    assert_int_equal(pages(), 7);
    map(0x10000 + 512 * GIB, true);
    assert_int_equal(pages(), 10);
    map(VL_USER_END - VL_PAGE_SIZE, true);
    assert_int_equal(pages(), 13);
    unmap(0x11000);
    assert_int_equal(vli_table_peek(&table, 0x11000), 0);
    assert_true(vli_pte_is_present(vli_table_peek(&table, 0x10000)));
    machine_off();
}

static void failure_at_each_level(void **state)
{
    struct vli_table_slot slot;

    (void)state;
    machine_on(1);
    for (unsigned fail = 0; fail < 3; fail++) {
        vl_va va = 0x10000 + 512 * GIB * fail;
        uint64_t before = pages();

        vli_table_drain();
        sim_fail_after(fail);
        assert_int_equal(vli_table_lock_alloc(&table, va, VL_ATOMIC, &slot), VL_ENOMEM);
        assert_int_equal(pages(), before + fail);
        assert_false(vli_table_lock(&table, va, &slot));
        assert_int_equal(vli_table_lock_alloc(&table, va, VL_ATOMIC, &slot), VL_OK);
        vli_table_unlock(&slot);
        assert_int_equal(pages(), before + 3);
    }
    vli_table_drain();
    sim_fail_after(0);
    assert_int_equal(vli_table_reserve(VL_WAIT), VL_ENOMEM);
    assert_int_equal(vli_table_reserve(VL_WAIT), VL_OK);
    sim_fail_after(0);
    assert_int_equal(vli_table_lock_alloc(&table, 3000 * GIB, VL_ATOMIC, &slot), VL_OK);
    vli_table_unlock(&slot);
    sim_fail_after(UINT64_MAX);
    machine_off();
}

static void root_without_memory(void **state)
{
    struct vli_table other;

    (void)state;
    machine_on(1);
    vli_table_drain();
    sim_fail_after(0);
    assert_int_equal(vli_table_init(&other, VL_ATOMIC), VL_ENOMEM);
    machine_off();
}

static void entries_keep_the_mmus_bits(void **state)
{
    vl_va va = 0x7000000;
    struct vli_table_slot slot;
    struct vli_gather gather;
    uint64_t old;

    (void)state;
    machine_on(1);
    vli_table_activate(&table);
    map(va, false);
    assert_true(sim_probe(va, VL_READ, true));
    assert_false(sim_probe(va, VL_WRITE, true));
    assert_false(sim_probe(va, VL_EXEC, true));
    assert_false(sim_probe(va, VL_READ, false));
    assert_true(vli_table_lock(&table, va, &slot));
    old = vli_entry_load(&slot);
    assert_true(vli_pte_is_accessed(old));
    assert_false(vli_pte_is_dirty(old));
    vli_entry_set(&slot, va, vli_pte_make(vli_pte_pfn(old), true, true));
    assert_true(vli_pte_is_accessed(vli_entry_load(&slot)));
    vli_table_unlock(&slot);
    assert_true(sim_probe(va, VL_WRITE, true));
    assert_true(sim_probe(va, VL_EXEC, true));

    vli_gather_begin(&gather, &table, false);
    assert_true(vli_table_lock(&table, va, &slot));
    old = vli_entry_narrow(&gather, &slot, va, VLI_PTE_WRITE, VLI_PTE_NX);
    assert_true(vli_pte_is_dirty(old) && vli_pte_can_write(old) && vli_pte_can_exec(old));
    old = vli_entry_load(&slot);
    assert_true(vli_pte_is_dirty(old) && !vli_pte_can_write(old) && !vli_pte_can_exec(old));
    vli_table_unlock(&slot);
    vli_gather_end(&gather);
    assert_false(sim_tlb_holds(0, va));
    assert_false(sim_probe(va, VL_WRITE, true));
    assert_true(sim_probe(va, VL_READ, true));
    sim_mmu_validate();
    vli_table_activate(NULL);
    machine_off();
}

static void change_replaces_the_frame(void **state)
{
    vl_va va = 0x7000000;
    struct vl_frame *fresh = NULL;
    struct vli_table_slot slot;
    struct vli_gather gather;
    uint64_t old;

    (void)state;
    machine_on(1);
    vli_table_activate(&table);
    map(va, true);
    assert_true(sim_probe(va, VL_WRITE, true));
    fresh = vli_frame_get(0, VL_WAIT);
    vli_gather_begin(&gather, &table, false);
    assert_true(vli_table_lock(&table, va, &slot));
    old = vli_entry_change(&gather, &slot, va, vli_pte_make(vli_frame_pfn(fresh), true, false));
    assert_true(vli_pte_is_dirty(old));
    assert_false(vli_gather_frame(&gather, vli_frame_of(vli_pte_pfn(old))));
    vli_table_unlock(&slot);
    assert_true(sim_tlb_holds(0, va));
    vli_gather_end(&gather);
    assert_false(sim_tlb_holds(0, va));
    assert_true(sim_probe(va, VL_WRITE, true));
    vli_table_activate(NULL);
    machine_off();
}

static unsigned released;

static void on_release(struct vl_frame *frame)
{
    released++;
    vli_frame_put(frame, 0);
}

static void gather_drops_references_after_the_flush(void **state)
{
    struct vli_gather gather;
    struct vl_frame *shared;

    (void)state;
    machine_on(1);
    released = 0;
    shared = vli_frame_get(0, VL_WAIT);
    vli_frame_ref_get(shared);
    vli_gather_begin(&gather, &table, false);
    gather.release = on_release;
    for (unsigned i = 0; i < VLI_GATHER_FRAMES - 1; i++) {
        assert_false(vli_gather_frame(&gather, vli_frame_get(0, VL_WAIT)));
    }
    assert_true(vli_gather_frame(&gather, shared));
    assert_int_equal(released, 0);
    vli_gather_flush(&gather);
    assert_int_equal(released, VLI_GATHER_FRAMES - 1);
    assert_int_equal(atomic_load(&shared->refs), 1);
    assert_false(vli_gather_frame(&gather, shared));
    vli_gather_end(&gather);
    assert_int_equal(released, VLI_GATHER_FRAMES);
    machine_off();
}

static void one_flush_a_batch(void **state)
{
    struct sim_mmu_counts before, after;
    struct vli_table_slot slot;
    struct vli_gather gather;

    (void)state;
    machine_on(1);
    vli_table_activate(&table);
    for (unsigned i = 0; i < 100; i++) {
        map(0x200000 + i * VL_PAGE_SIZE, true);
    }
    sim_mmu_counts(&before);
    vli_gather_begin(&gather, &table, false);
    assert_true(vli_table_lock(&table, 0x200000, &slot));
    for (unsigned i = 0; i < 100; i++, slot.entry++) {
        uint64_t old = vli_entry_clear(&gather, &slot, 0x200000 + i * VL_PAGE_SIZE);

        assert_false(vli_gather_frame(&gather, vli_frame_of(vli_pte_pfn(old))));
    }
    vli_table_unlock(&slot);
    vli_gather_end(&gather);
    sim_mmu_counts(&after);
    assert_int_equal(after.flushes_all - before.flushes_all, 1);
    assert_int_equal(after.flushes_page - before.flushes_page, 0);
    map(0x200000, true);
    unmap(0x200000);
    sim_mmu_counts(&after);
    assert_int_equal(after.flushes_page - before.flushes_page, 1);
    vli_table_activate(NULL);
    map(0x200000, true);
    unmap(0x200000);
    sim_mmu_counts(&after);
    assert_int_equal(after.flushes_page - before.flushes_page, 1);
    machine_off();
}

static void next_finds_leaves_in_order(void **state)
{
    static const vl_va at[] = {0x10000, 0x3ff000, 5 * GIB + 0x1000, 700 * GIB,
                               VL_USER_END - VL_PAGE_SIZE};
    struct vli_table_slot slot;
    unsigned found = 0;

    (void)state;
    machine_on(1);
    for (unsigned i = 0; i < VLI_COUNT_OF(at); i++) {
        map(at[i], true);
    }
    for (vl_va va = 0x10000; vli_table_next(&table, &va, VL_USER_END, &slot);) {
        assert_int_equal(va >> 21, at[found] >> 21);
        vli_table_unlock(&slot);
        va = vli_table_leaf_end(va, VL_USER_END);
        found++;
    }
    assert_int_equal(found, VLI_COUNT_OF(at));
    for (vl_va va = 0x400000; vli_table_next(&table, &va, 5 * GIB, &slot);) {
        fail();
    }
    machine_off();
}

static void next_pair_walks_two_tables(void **state)
{
    static const vl_va at[] = {0x11000, 0x13000, 0x3ff000, 5 * GIB + 0x1000};
    struct vli_table_slot src, dst;
    struct vli_table child;
    struct vli_gather gather;
    bool done = false;
    vl_va va = 0x10000;
    unsigned seen = 0;

    (void)state;
    machine_on(1);
    for (unsigned i = 0; i < VLI_COUNT_OF(at); i++) {
        map(at[i], true);
    }
    map(900 * GIB, true);
    assert_int_equal(vli_table_init(&child, VL_WAIT), VL_OK);
    vli_table_drain();
    sim_fail_after(2);
    assert_int_equal(vli_table_next_pair(&table, &child, &va, 800 * GIB, &src, &dst), VL_ENOMEM);
    assert_int_equal(va, at[0]);
    sim_fail_after(UINT64_MAX);
    while (vli_table_next_pair(&table, &child, &va, 800 * GIB, &src, &dst) == VL_OK) {
        vl_va stop = vli_table_leaf_end(va, 800 * GIB);

        for (; va < stop; va += VL_PAGE_SIZE, src.entry++, dst.entry++) {
            if (vli_entry_load(&src) != 0) {
                assert_int_equal(va, at[seen++]);
                vli_frame_ref_get(vli_frame_of(vli_pte_pfn(vli_entry_load(&src))));
                vli_entry_set(&dst, va, vli_entry_load(&src) & ~VLI_PTE_WRITE);
            }
        }
        vli_table_unlock_pair(&src, &dst);
    }
    assert_int_equal(seen, VLI_COUNT_OF(at));
    assert_int_equal(atomic_load(&child.table_pages), 7);
    vli_table_validate(&child);
    vli_gather_begin(&gather, &child, true);
    for (unsigned i = 0; i < seen; i++) {
        assert_true(vli_table_lock(&child, at[i], &dst));
        assert_false(vli_gather_frame(
            &gather, vli_frame_of(vli_pte_pfn(vli_entry_clear(&gather, &dst, at[i])))));
        vli_table_unlock(&dst);
    }
    vli_table_free_spans(&gather, no_span, &done);
    vli_gather_end(&gather);
    vli_table_destroy(&child);
    machine_off();
}

static void kernel_half_is_shared_and_taken_back(void **state)
{
    struct vl_frame *root, *below;
    uint64_t *words;
    struct vli_table other;

    (void)state;
    machine_on(1);
    root = vli_frame_get(0, VL_WAIT | VL_ZEROED);
    below = vli_frame_get(0, VL_WAIT | VL_ZEROED);
    words = vli_frame_virt(vli_frame_pfn(root));
    words[3] = 0x123;
    words[256] = vli_pte_table(vli_frame_pfn(below));
    words[511] = vli_pte_table(vli_frame_pfn(below));
    vli_table_set_kernel(vl_pfn_to_pa(vli_frame_pfn(root)));
    assert_int_equal(vli_table_init(&other, VL_WAIT), VL_OK);
    words = vl_host_phys_to_virt(other.root);
    for (unsigned i = 0; i < 512; i++) {
        uint64_t want = i == 256 || i == 511 ? vli_pte_table(vli_frame_pfn(below)) : 0;

        assert_int_equal(words[i], want);
    }
    vli_table_validate(&other);
    vli_table_destroy(&other);
    for (unsigned i = 0; i < 512; i++) {
        assert_int_equal(words[i], 0);
    }
    /* The kernel's own root is what a CPU without a table runs on. */
    vli_table_activate(&table);
    vli_table_activate(NULL);
    assert_false(sim_probe(0x1000, VL_READ, true));
    vl_host_table_switch((struct vl_pa){0});
    vli_table_set_kernel((struct vl_pa){0});
    vli_frame_put(root, 0);
    vli_frame_put(below, 0);
    machine_off();
}

static void stocks_are_zero_and_bounded(void **state)
{
    struct vli_table many[2 * VLI_TABLE_STOCK];
    uint64_t asked;

    (void)state;
    machine_on(1);
    for (unsigned i = 0; i < VLI_COUNT_OF(many); i++) {
        assert_int_equal(vli_table_init(&many[i], VL_WAIT), VL_OK);
    }
    for (unsigned i = 0; i < VLI_COUNT_OF(many); i++) {
        vli_table_destroy(&many[i]);
    }
    asked = sim_alloc_count();
    for (unsigned i = 0; i < VLI_TABLE_STOCK; i++) {
        assert_int_equal(vli_table_init(&many[i], VL_WAIT), VL_OK);
    }
    assert_int_equal(sim_alloc_count(), asked);
    for (unsigned i = 0; i < VLI_TABLE_STOCK; i++) {
        vli_table_destroy(&many[i]);
    }
    assert_int_equal(vli_table_drain(), VLI_TABLE_STOCK);
    assert_int_equal(vli_table_drain(), 0);
    /* A reserve is what one walk can need, not more, however often it is asked for. */
    assert_int_equal(vli_table_reserve(VL_WAIT), VL_OK);
    assert_int_equal(vli_table_reserve(VL_WAIT), VL_OK);
    assert_int_equal(vli_table_drain(), VLI_TABLE_LEVELS);
    machine_off();
}

static void activation_marks_the_cpu(void **state)
{
    struct vli_table other;

    (void)state;
    machine_on(1);
    assert_int_equal(vli_table_init(&other, VL_WAIT), VL_OK);
    vli_table_activate(&table);
    assert_int_equal(atomic_load(&table.cpus.word[0]), 1);
    map(0x10000, true);
    assert_true(sim_probe(0x10000, VL_WRITE, true));
    vli_table_activate(&other);
    assert_int_equal(atomic_load(&table.cpus.word[0]), 0);
    assert_int_equal(atomic_load(&other.cpus.word[0]), 1);
    assert_false(sim_tlb_holds(0, 0x10000));
    assert_false(sim_probe(0x10000, VL_READ, true));
    vli_table_activate(NULL);
    assert_int_equal(atomic_load(&other.cpus.word[0]), 0);
    vli_table_destroy(&other);
    machine_off();
}

static _Atomic uint32_t step;

/* CPU 1 stays on the table and does nothing with it; CPU 0 ends the table. */
static void end_while_lazy(void *arg, unsigned cpu)
{
    (void)arg;
    if (cpu == 1) {
        vli_table_activate(&table);
        assert_true(sim_probe(0x10000, VL_WRITE, true));
        atomic_store(&step, 1);
        while (atomic_load(&step) == 1) {
            vl_host_irq_restore(vl_host_irq_save());
            vl_host_cpu_relax();
        }
        assert_null(vli_this_cpu()->table.active);
        return;
    }
    while (atomic_load(&step) == 0) {
        vl_host_cpu_relax();
    }
    assert_int_equal(atomic_load(&table.cpus.word[0]), 2);
    machine_off();
    atomic_store(&step, 2);
}

static void a_lazy_cpu_is_sent_away_at_the_end(void **state)
{
    (void)state;
    machine_on(2);
    map(0x10000, true);
    atomic_store(&step, 0);
    sim_run_on_cpus(2, end_while_lazy, NULL);
}

static void broken_use_panics(void *arg)
{
    struct vli_table_slot slot;

    (void)arg;
    if (vli_table_lock_alloc(&table, VLI_TABLE_USER_END, VL_WAIT, &slot) == VL_OK) {
        vli_table_unlock(&slot);
    }
}

static void destroy_used(void *arg)
{
    (void)arg;
    vli_table_destroy(&table);
}

static void double_link(void *arg)
{
    (void)arg;
    atomic_fetch_add(&table.table_pages, 1);
    vli_table_validate(&table);
}

static void broken_invariants_panic(void **state)
{
    (void)state;
    machine_on(1);
    map(0x10000, true);
    assert_true(sim_dies(broken_use_panics, NULL, "VLI_TABLE_USER_END"));
    assert_true(sim_dies(destroy_used, NULL, "table_pages"));
    assert_true(sim_dies(double_link, NULL, "4 table pages found, 5 counted"));
    machine_off();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks_make_what_is_missing),
        cmocka_unit_test(failure_at_each_level),
        cmocka_unit_test(root_without_memory),
        cmocka_unit_test(entries_keep_the_mmus_bits),
        cmocka_unit_test(change_replaces_the_frame),
        cmocka_unit_test(gather_drops_references_after_the_flush),
        cmocka_unit_test(one_flush_a_batch),
        cmocka_unit_test(next_finds_leaves_in_order),
        cmocka_unit_test(next_pair_walks_two_tables),
        cmocka_unit_test(kernel_half_is_shared_and_taken_back),
        cmocka_unit_test(stocks_are_zero_and_bounded),
        cmocka_unit_test(activation_marks_the_cpu),
        cmocka_unit_test(a_lazy_cpu_is_sent_away_at_the_end),
        cmocka_unit_test(broken_invariants_panic),
    };

    return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
