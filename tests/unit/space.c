/*
 * Goal: an address space does what its header says, one call after another: where areas come to
 * lie, how they split and merge, what faults give, what fork shares, what each error leaves.
 * Method: a program on the simulated MMU loads and stores; after each case the space is validated
 * against its page tables and the machine ends with as many free frames as it began with.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "machine/sim/mmu.h"
#include "machine/sim/sim.h"
#include "tests/lib/space_util.h"

#define PAGE VL_PAGE_SIZE

/* ------------------------------------------------------------------------ the first slice */

static void anonymous_memory_reads_zero_and_keeps_writes(void **state)
{
    struct vl_space *space = space_on();
    vl_va va = map_anon(space, 0, 4 * PAGE, VL_READ | VL_WRITE);
    uint64_t value = 1;

    (void)state;
    assert_int_equal(sim_load(va, &value), VL_OK);
    assert_int_equal(value, 0);
    assert_int_equal(usage(space).anonymous, 0); /* the zero page is nobody's */
    assert_int_equal(sim_store(va, 42), VL_OK);
    assert_int_equal(usage(space).anonymous, 1);
    assert_int_equal(sim_load(va, &value), VL_OK);
    assert_int_equal(value, 42);
    assert_int_equal(sim_store(va + PAGE, 7), VL_OK);
    assert_int_equal(usage(space).anonymous, 2);
    assert_int_equal(sim_load(va + 4 * PAGE, &value), VL_EFAULT);
    assert_int_equal(sim_fetch(va), VL_EACCES);
    vl_space_validate(space);
    assert_int_equal(vl_space_unmap(space, va + PAGE, PAGE), VL_OK);
    assert_int_equal(sim_load(va + PAGE, &value), VL_EFAULT);
    assert_int_equal(usage(space).areas, 2);
    assert_int_equal(usage(space).anonymous, 1);
    space_off(space);
}

static void fork_shares_until_a_write(void **state)
{
    struct vl_space *space = space_on();
    vl_va va = map_anon(space, 0, 16 * PAGE, VL_READ | VL_WRITE);
    struct vl_space *child;
    struct vl_space *grandchild;
    uint64_t value;

    (void)state;
    for (unsigned i = 0; i < 16; i++) {
        assert_int_equal(sim_store(va + i * PAGE, i), VL_OK);
    }
    assert_int_equal(vl_space_fork(space, &child), VL_OK);
    vl_space_validate(child);
    sim_space_switch(child);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(sim_store(va + i * PAGE, 100 + i), VL_OK);
    }
    assert_int_equal(vl_space_fork(child, &grandchild), VL_OK);
    sim_space_switch(grandchild);
    for (unsigned i = 4; i < 12; i++) {
        assert_int_equal(sim_store(va + i * PAGE, 200 + i), VL_OK);
    }
    vl_space_validate(space);
    vl_space_validate(child);
    vl_space_validate(grandchild);
    for (unsigned i = 0; i < 16; i++) {
        sim_space_switch(space);
        assert_int_equal(sim_load(va + i * PAGE, &value), VL_OK);
        assert_int_equal(value, i);
        sim_space_switch(child);
        assert_int_equal(sim_load(va + i * PAGE, &value), VL_OK);
        assert_int_equal(value, i < 8 ? 100 + i : i);
        sim_space_switch(grandchild);
        assert_int_equal(sim_load(va + i * PAGE, &value), VL_OK);
        assert_int_equal(value, i < 4 ? 100 + i : i < 12 ? 200 + i : i);
    }
    sim_space_switch(space);
    vl_space_put(child);
    vl_space_validate(grandchild);
    assert_int_equal(sim_store(va, 5), VL_OK);
    vl_space_put(grandchild);
    /* The last user writes in place: no further frame. */
    assert_int_equal(sim_store(va + 15 * PAGE, 5), VL_OK);
    vl_space_validate(space);
    space_off(space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(anonymous_memory_reads_zero_and_keeps_writes),
        cmocka_unit_test(fork_shares_until_a_write),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
