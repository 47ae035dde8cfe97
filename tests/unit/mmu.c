/*
 * Goal: the simulated MMU translates as x86 does, and each of its checks reports the fault of the
 * core that it is there for.
 * Method: translations are compared with what the manual says of each right; then a table is
 * misused in one way after the other, each in a child process that must end with the check's own
 * words.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "core/table/table.h"
#include "machine/sim/mmu.h"
#include "machine/sim/sim.h"

#define VA ((vl_va)0x40000000)

static struct vli_table table;
static struct vl_frame *frame;

static void set(vl_va va, uint64_t value)
{
    struct vli_table_slot slot;

    assert_int_equal(vli_table_lock_alloc(&table, va, VL_WAIT, &slot), VL_OK);
    vli_entry_set(&slot, va, value);
    vli_table_unlock(&slot);
}

/* A page of a program at VA, and nothing else. */
static void machine_on(void)
{
    struct sim_config config = {.ram_bytes = 16u << 20, .seed = 1, .quiet = true};

    sim_start(&config);
    assert_int_equal(vli_table_init(&table, VL_WAIT), VL_OK);
    frame = vli_frame_get(0, VL_WAIT | VL_ZEROED);
    assert_non_null(frame);
    set(VA, vli_pte_make(vli_frame_pfn(frame), true, true));
    vli_table_activate(&table);
}

static void rights_are_the_manuals(void **state)
{
    uint64_t kernel, read_only, no_exec, pte;

    (void)state;
    machine_on();
    pte = vli_table_peek(&table, VA);
    assert_true(sim_probe(VA, VL_READ, true) && sim_probe(VA, VL_WRITE, true) &&
                sim_probe(VA, VL_EXEC, true));
    assert_false(sim_probe(VA, VL_READ, false));
    assert_true(vli_pte_is_dirty(vli_table_peek(&table, VA)));
    kernel = pte & ~VLI_PTE_USER;
    read_only = pte & ~VLI_PTE_WRITE;
    no_exec = pte | VLI_PTE_NX;
    set(VA + VL_PAGE_SIZE, kernel);
    set(VA + 2 * VL_PAGE_SIZE, read_only);
    set(VA + 3 * VL_PAGE_SIZE, no_exec);
    assert_false(sim_probe(VA + VL_PAGE_SIZE, VL_READ, true));
    assert_true(sim_probe(VA + VL_PAGE_SIZE, VL_WRITE, false));
    assert_true(sim_probe(VA + 2 * VL_PAGE_SIZE, VL_EXEC, true));
    assert_false(sim_probe(VA + 2 * VL_PAGE_SIZE, VL_WRITE, true));
    assert_true(sim_probe(VA + 3 * VL_PAGE_SIZE, VL_WRITE, true));
    assert_false(sim_probe(VA + 3 * VL_PAGE_SIZE, VL_EXEC, true));
    assert_false(sim_probe(VA + 4 * VL_PAGE_SIZE, VL_READ, true));
    sim_mmu_validate();
    sim_stop();
}

static enum vl_status upper_half(vl_va va, uint32_t access)
{
    (void)va;
    return access == VL_WRITE ? VL_EACCES : VL_EFAULT;
}

static void faults_end_an_instruction(void **state)
{
    uint64_t value = 5;

    (void)state;
    machine_on();
    sim_fault_set(upper_half);
    assert_int_equal(sim_store(VA + 8, 77), VL_OK);
    assert_int_equal(sim_add(VA + 8, 3), VL_OK);
    assert_int_equal(sim_load(VA + 8, &value), VL_OK);
    assert_int_equal(value, 80);
    assert_int_equal(sim_load(VA - 8, &value), VL_EFAULT);
    assert_int_equal(sim_store(VA - 8, value), VL_EACCES);
    assert_int_equal(sim_load((vl_va)1 << 63, &value), VL_EFAULT);
    assert_int_equal(value, 80);
    sim_stop();
}

/* Hardware keeps translating by its TLB until it is told not to: so does the machine. */
static void a_stale_translation_is_used(void **state)
{
    struct vli_gather gather;
    struct vli_table_slot slot;
    uint64_t value = 1;

    (void)state;
    machine_on();
    sim_fault_set(upper_half);
    assert_int_equal(sim_store(VA, 9), VL_OK);
    vli_gather_begin(&gather, &table, false);
    assert_true(vli_table_lock(&table, VA, &slot));
    (void)vli_entry_clear(&gather, &slot, VA);
    vli_table_unlock(&slot);
    assert_int_equal(sim_load(VA, &value), VL_OK);
    assert_int_equal(value, 9);
    vli_gather_end(&gather);
    assert_int_equal(sim_load(VA, &value), VL_EFAULT);
    sim_stop();
}

static void free_mapped(void *arg)
{
    (void)arg;
    vli_frame_put(frame, 0);
}

static _Atomic uint64_t *raw_entry(void)
{
    struct vli_table_slot slot;

    assert_true(vli_table_lock(&table, VA, &slot));
    vli_table_unlock(&slot);
    return slot.entry;
}

/* The entry goes with its event, but nobody flushes. */
static void free_cached(void *arg)
{
    _Atomic uint64_t *entry = raw_entry();
    uint64_t old = atomic_load(entry);

    (void)arg;
    (void)sim_probe(VA, VL_READ, true);
    atomic_store(entry, 0);
    vl_host_event(VL_EVENT_PTE_CLEAR, (uintptr_t)entry, old);
    free_mapped(NULL);
}

static void set_over(void *arg)
{
    struct vl_frame *other = vli_frame_get(0, VL_WAIT);
    _Atomic uint64_t *entry = raw_entry();

    (void)arg;
    vl_host_event(VL_EVENT_PTE_SET, (uintptr_t)entry,
                  vli_pte_make(vli_frame_pfn(other), true, true));
}

static void set_free_frame(void *arg)
{
    struct vl_frame *other = vli_frame_get(0, VL_WAIT);

    (void)arg;
    vli_frame_put(other, 0);
    set(VA + VL_PAGE_SIZE, vli_pte_make(vli_frame_pfn(other), true, true));
}

static void clear_unset(void *arg)
{
    struct vl_frame *other = vli_frame_get(0, VL_WAIT);
    _Atomic uint64_t *entry = raw_entry();

    (void)arg;
    vl_host_event(VL_EVENT_PTE_CLEAR, (uintptr_t)entry,
                  vli_pte_make(vli_frame_pfn(other), true, true));
}

static void map_no_ram(void *arg)
{
    (void)arg;
    set(VA + VL_PAGE_SIZE, vli_pte_make((struct vl_pfn){0x7fffffff}, true, true));
}

static void free_table_linked(void *arg)
{
    struct vli_table_slot slot;

    (void)arg;
    assert_true(vli_table_lock(&table, VA, &slot));
    vli_table_unlock(&slot);
    vl_host_event(VL_EVENT_TABLE_FREE, vli_frame_pfn(slot.page).n, 0);
}

static void free_active_root(void *arg)
{
    (void)arg;
    vl_host_event(VL_EVENT_TABLE_FREE, vl_pa_to_pfn(table.root).n, 0);
}

static void free_table_not_empty(void *arg)
{
    (void)arg;
    vl_host_table_switch((struct vl_pa){0});
    vl_host_event(VL_EVENT_TABLE_FREE, vl_pa_to_pfn(table.root).n, 0);
}

/* Rights are taken away behind the gather's back. */
static void narrow_silently(void *arg)
{
    _Atomic uint64_t *entry = raw_entry();

    (void)arg;
    (void)sim_probe(VA, VL_WRITE, true);
    atomic_fetch_and(entry, ~VLI_PTE_WRITE);
    sim_mmu_validate();
}

static enum vl_status nothing_changes(vl_va va, uint32_t access)
{
    (void)va;
    (void)access;
    return VL_OK;
}

static void fault_for_ever(void *arg)
{
    (void)arg;
    sim_fault_set(nothing_changes);
    (void)!sim_load(VA + VL_PAGE_SIZE, &(uint64_t){0});
}

static void flush_with_interrupts_off(void *arg)
{
    const struct vl_cpumask mask = {{0}};
    unsigned long flags = vl_host_irq_save();

    (void)arg;
    vl_host_flush_remote(&mask, table.root, NULL, 0);
    vl_host_irq_restore(flags);
}

static void each_check_reports(void **state)
{
    (void)state;
    machine_on();
    assert_true(sim_dies(free_mapped, NULL, "freed while 1 page-table entries name it"));
    assert_true(sim_dies(free_cached, NULL, "1 TLB entries outlive frame"));
    assert_true(sim_dies(set_over, NULL, " set over "));
    assert_true(sim_dies(set_free_frame, NULL, "names a free frame"));
    assert_true(sim_dies(clear_unset, NULL, "cleared that was never set"));
    assert_true(sim_dies(map_no_ram, NULL, "is no RAM"));
    assert_true(sim_dies(free_table_linked, NULL, "table page"));
    assert_true(sim_dies(free_active_root, NULL, "outlive table page"));
    assert_true(sim_dies(free_table_not_empty, NULL, "freed with entry 0"));
    assert_true(sim_dies(narrow_silently, NULL, "the table says"));
    assert_true(sim_dies(fault_for_ever, NULL, "no progress"));
    assert_true(sim_dies(flush_with_interrupts_off, NULL, "interrupts off"));
    sim_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rights_are_the_manuals),
        cmocka_unit_test(faults_end_an_instruction),
        cmocka_unit_test(a_stale_translation_is_used),
        cmocka_unit_test(each_check_reports),
    };

    return cmocka_run_group_tests_name("mmu", tests, NULL, NULL);
}
