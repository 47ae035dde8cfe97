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

/* Frames in use by pages, whatever else is cached. */
static uint64_t anonymous_of(struct vl_space *a, struct vl_space *b, struct vl_space *c)
{
    return usage(a).anonymous + usage(b).anonymous + usage(c).anonymous;
}

static void write_all(struct vl_space *space, vl_va va, unsigned pages, uint64_t base)
{
    sim_space_switch(space);
    for (unsigned i = 0; i < pages; i++) {
        assert_int_equal(sim_store(va + i * PAGE, base + i), VL_OK);
    }
}

static void read_all(struct vl_space *space, vl_va va, unsigned pages, uint64_t base)
{
    uint64_t value;

    sim_space_switch(space);
    for (unsigned i = 0; i < pages; i++) {
        assert_int_equal(sim_load(va + i * PAGE, &value), VL_OK);
        assert_int_equal(value, base + i);
    }
}

static void a_fork_of_a_fork_of_much_memory(void **state)
{
    enum { PAGES = (64 << 20) / 4096 };
    struct vl_space *first;
    struct vl_space *second;
    struct vl_space *third;
    uint64_t free_one;
    uint64_t free_all;
    vl_va va;

    (void)state;
    machine_on(320, 1);
    assert_int_equal(vl_space_create(&first), VL_OK);
    va = map_anon(first, 0, PAGES * PAGE, VL_READ | VL_WRITE);
    write_all(first, va, PAGES, 1);
    free_one = free_frames();
    assert_int_equal(vl_space_fork(first, &second), VL_OK);
    assert_int_equal(vl_space_fork(second, &third), VL_OK);
    assert_in_range(free_one - free_frames(), 2 * PAGES / 512, 2 * PAGES / 512 + 40);
    free_all = free_frames();
    write_all(second, va, PAGES, 100000);
    write_all(third, va, PAGES, 200000);
    assert_in_range(free_all - free_frames(), 2 * PAGES, 2 * PAGES + 8);
    write_all(first, va, PAGES, 300000); /* by now alone: in place */
    assert_in_range(free_all - free_frames(), 2 * PAGES, 2 * PAGES + 8);
    assert_int_equal(anonymous_of(first, second, third), 3 * PAGES);
    read_all(first, va, PAGES, 300000);
    read_all(second, va, PAGES, 100000);
    read_all(third, va, PAGES, 200000);
    sim_space_switch(NULL);
    vl_space_put(second);
    vl_space_validate(third);
    vl_space_put(third);
    assert_in_range(free_one, free_frames() - 8, free_frames() + 8);
    vl_space_put(first);
    machine_off();
}

/* -------------------------------------------------------------------------------- places */

static enum vl_status try_map(struct vl_space *space, struct vl_map_request request, vl_va *out)
{
    return vl_space_map(space, &request, out);
}

static void areas_come_to_lie_where_asked(void **state)
{
    struct vl_space *space = space_on();
    vl_va a = map_anon(space, 0, 4 * PAGE, VL_READ);
    vl_va b = map_anon(space, 0, 2 * PAGE, VL_READ | VL_WRITE);
    vl_va va = 7;

    (void)state;
    assert_int_equal(b + 2 * PAGE, a); /* top-down, side by side */
    /* A hint that is free is taken, one that is not is passed over. */
    assert_int_equal(
        try_map(space, (struct vl_map_request){.len = PAGE, .hint = 0x70000001, .prot = VL_READ},
                &va),
        VL_OK);
    assert_int_equal(va, 0x70001000);
    assert_int_equal(
        try_map(space, (struct vl_map_request){.len = PAGE, .hint = 0x70001000, .prot = VL_WRITE},
                &va),
        VL_OK);
    assert_int_equal(va, b - PAGE);
    assert_int_equal(
        try_map(space, (struct vl_map_request){.len = PAGE, .hint = 0x1000, .prot = VL_READ}, &va),
        VL_OK);
    assert_int_equal(va, VL_USER_MIN);
    va = 7;
    assert_int_equal(
        try_map(space,
                (struct vl_map_request){.len = PAGE, .hint = a, .place = VL_MAP_FIXED_NOREPLACE},
                &va),
        VL_EEXIST);
    assert_int_equal(va, 7);
    assert_int_equal(try_map(space,
                             (struct vl_map_request){
                                 .len = PAGE, .hint = 0x80000000, .place = VL_MAP_FIXED_NOREPLACE},
                             &va),
                     VL_OK);
    assert_int_equal(va, 0x80000000);
    /* The hole that is large enough and highest is found. */
    assert_int_equal(vl_space_unmap(space, a + PAGE, PAGE), VL_OK);
    assert_int_equal(map_anon(space, 0, PAGE, VL_EXEC), a + PAGE);
    assert_int_equal(vl_space_unmap(space, a, 2 * PAGE), VL_OK);
    assert_int_equal(map_anon(space, 0, 2 * PAGE, VL_EXEC), a);
    space_off(space);
}

/* Places near the top: room for the stack is kept free as long as there is other room. */
static void the_top_is_kept_for_the_stack(void **state)
{
    struct vl_space *space = space_on();
    vl_va ceiling = map_anon(space, 0, PAGE, VL_READ) + PAGE;
    struct vl_map_request r = {.len = 4 * PAGE,
                               .hint = VL_USER_END - 4 * PAGE,
                               .place = VL_MAP_FIXED,
                               .prot = VL_READ | VL_WRITE,
                               .grows_down = true};
    vl_va va;
    vl_va low;

    (void)state;
    assert_int_equal(VL_USER_END - ceiling, (128u << 20) + (1u << 20));
    assert_int_equal(vl_space_map(space, &r, &va), VL_OK);
    assert_int_equal(map_anon(space, 0, PAGE, VL_WRITE), ceiling - 2 * PAGE);
    map_anon(space, ceiling - PAGE, 3 * PAGE, VL_EXEC); /* across the ceiling */
    assert_int_equal(map_anon(space, 0, 2 * PAGE, VL_READ), ceiling - 4 * PAGE);
    assert_int_equal(vl_space_unmap(space, ceiling - 2 * PAGE, PAGE), VL_OK);
    assert_int_equal(map_anon(space, 0, PAGE, VL_WRITE), ceiling - 2 * PAGE);
    /* A hole that only the ones above the ceiling have in front of them. */
    map_anon(space, ceiling - (1ull << 30), PAGE, VL_EXEC);
    low = map_anon(space, 0, 2ull << 30, 0);
    assert_int_equal(low, ceiling - (3ull << 30));
    /* Everything else taken: then the room at the top is used after all. */
    map_anon(space, VL_USER_MIN, ceiling - VL_USER_MIN, 0);
    va = map_anon(space, 0, PAGE, VL_READ);
    assert_int_equal(va, VL_USER_END - 4 * PAGE - (1u << 20) - PAGE);
    r = (struct vl_map_request){.len = 256u << 20, .prot = VL_READ};
    assert_int_equal(vl_space_map(space, &r, &va), VL_ENOMEM);
    vl_space_get(space);
    vl_space_put(space);
    space_off(space);
}

/* Halves of a child's area that had their first pages at different times join again. */
static void a_childs_areas_merge(void **state)
{
    struct vl_space *space = space_on();
    vl_va a = 0x10000000;
    struct vl_space *child;

    (void)state;
    for (unsigned parent_ends = 0; parent_ends < 2; parent_ends++) {
        map_anon(space, a, 8 * PAGE, VL_READ | VL_WRITE);
        for (unsigned i = 0; i < 8; i++) {
            assert_int_equal(sim_store(a + i * PAGE, i), VL_OK);
        }
        assert_int_equal(vl_space_fork(space, &child), VL_OK);
        sim_space_switch(child);
        if (parent_ends != 0) {
            vl_space_put(space);
        }
        assert_int_equal(vl_space_protect(child, a + 4 * PAGE, 4 * PAGE, 7), VL_OK);
        assert_int_equal(sim_store(a + 5 * PAGE, 50), VL_OK); /* the upper half only */
        assert_int_equal(vl_space_protect(child, a + 4 * PAGE, 4 * PAGE, VL_READ | VL_WRITE),
                         VL_OK);
        assert_int_equal(usage(child).areas, 1);
        vl_space_validate(child);
        assert_int_equal(sim_store(a + PAGE, 10), VL_OK);
        vl_space_validate(child);
        if (parent_ends == 0) {
            vl_space_validate(space);
            sim_space_switch(space);
            vl_space_put(child);
        } else {
            space = child;
        }
    }
    space_off(space);
}

static void gaps_are_found_like_by_a_scan(void **state)
{
    struct vl_space *space = space_on();
    uint64_t random = sim_seed(11);
    uint64_t ops = sim_ops(3000);
    static vl_va starts[512];
    unsigned count = 0;

    (void)state;
    for (uint64_t op = 0; op < ops; op++) {
        size_t len = (1 + sim_random(&random) % 9) * PAGE;

        if (count < 512 && sim_random(&random) % 3 != 0) {
            /* Single pages with differing rights, so that nothing merges. */
            struct vl_area_info info;
            vl_va va = map_anon(space, 0, len, 1 + (uint32_t)(sim_random(&random) % 7));
            vl_va at = va + len;

            /* No higher hole that would have held it: walk upwards from it. */
            while (vl_space_find(space, at, &info) == VL_OK) {
                assert_true(info.start <= at || info.start - at < len);
                at = info.end;
            }
            starts[count++] = va;
        } else if (count != 0) {
            unsigned i = (unsigned)(sim_random(&random) % count);

            assert_int_equal(vl_space_unmap(space, starts[i], len), VL_OK);
            starts[i] = starts[--count];
        }
        if (op % 256 == 0) {
            vl_space_validate(space);
        }
    }
    space_off(space);
}

static void impossible_requests_name_their_reason(void **state)
{
    struct vl_space *space = space_on();
    struct vl_object *object = object_new(1);
    struct vl_map_request r = {.len = PAGE, .prot = VL_READ};
    vl_va va = 7;

    (void)state;
#define FAILS(status, ...)                                                                         \
    do {                                                                                           \
        struct vl_map_request bad = {__VA_ARGS__};                                                 \
        assert_int_equal(vl_space_map(space, &bad, &va), status);                                  \
        assert_int_equal(va, 7);                                                                   \
    } while (0)
    FAILS(VL_EINVAL, .len = 0, .prot = VL_READ);
    FAILS(VL_EINVAL, .len = PAGE, .prot = 8);
    FAILS(VL_EINVAL, .len = PAGE, .hint = 0x100001, .place = VL_MAP_FIXED);
    FAILS(VL_EINVAL, .len = PAGE, .object = object, .offset = 1);
    FAILS(VL_EINVAL, .len = PAGE, .object = object, .grows_down = true);
    FAILS(VL_EACCES, .len = PAGE, .prot = VL_WRITE, .prot_max = VL_READ);
    FAILS(VL_EPERM, .len = PAGE, .hint = 0x1000, .place = VL_MAP_FIXED);
    FAILS(VL_EPERM, .len = PAGE, .hint = 0, .place = VL_MAP_FIXED);
    FAILS(VL_ENOMEM, .len = SIZE_MAX, .prot = VL_READ);
    FAILS(VL_ENOMEM, .len = SIZE_MAX - PAGE, .prot = VL_READ);
    FAILS(VL_ENOMEM, .len = VL_USER_END, .prot = VL_READ);
    FAILS(VL_ENOMEM, .len = VL_USER_END - VL_USER_MIN + 1, .prot = VL_READ);
    FAILS(VL_ENOMEM, .len = 2 * PAGE, .hint = VL_USER_END - PAGE, .place = VL_MAP_FIXED);
    FAILS(VL_ENOMEM, .len = PAGE, .hint = VL_USER_END, .place = VL_MAP_FIXED);
    FAILS(VL_ENOMEM, .len = PAGE, .hint = UINT64_MAX - PAGE + 1, .place = VL_MAP_FIXED);
    FAILS(VL_EOVERFLOW, .len = PAGE, .object = object, .offset = UINT64_MAX - PAGE + 1);
    FAILS(VL_EOVERFLOW, .len = 2 * PAGE, .object = object, .offset = (1ull << 52) - PAGE);
#undef FAILS
    r.object = object;
    r.offset = (1ull << 52) - PAGE;
    assert_int_equal(vl_space_map(space, &r, &va), VL_OK);
    assert_int_equal(vl_space_unmap(space, 1, PAGE), VL_EINVAL);
    assert_int_equal(vl_space_unmap(space, 0, 0), VL_EINVAL);
    assert_int_equal(vl_space_unmap(space, VL_USER_END, PAGE), VL_EINVAL);
    assert_int_equal(vl_space_unmap(space, PAGE, SIZE_MAX), VL_EINVAL);
    assert_int_equal(vl_space_unmap(space, UINT64_MAX - PAGE + 1, 2 * PAGE), VL_EINVAL);
    assert_int_equal(vl_space_unmap(space, 0, VL_USER_END), VL_OK);
    assert_int_equal(vl_space_protect(space, 1, PAGE, VL_READ), VL_EINVAL);
    assert_int_equal(vl_space_protect(space, PAGE, PAGE, 8), VL_EINVAL);
    assert_int_equal(vl_space_protect(space, PAGE, 0, VL_READ), VL_OK);
    assert_int_equal(vl_space_protect(space, PAGE, SIZE_MAX, VL_READ), VL_ENOMEM);
    assert_int_equal(vl_space_advise(space, 1, PAGE, VL_ADVISE_DONTNEED), VL_EINVAL);
    assert_int_equal(vl_space_advise(space, PAGE, 0, VL_ADVISE_DONTNEED), VL_OK);
    assert_int_equal(vl_space_advise(space, PAGE, PAGE, (enum vl_advice)99), VL_EINVAL);
    assert_int_equal(vl_space_fault(space, VL_USER_END, VL_READ), VL_EFAULT);
    assert_int_equal(vl_space_fault(space, UINT64_MAX, VL_WRITE), VL_EFAULT);
    assert_int_equal(usage(space).areas, 0);
    vl_object_put(object);
    space_off(space);
}

static void unmapping_cuts_and_splits(void **state)
{
    struct vl_space *space = space_on();
    vl_va a = 0x10000000;

    (void)state;
    map_anon(space, a, 10 * PAGE, VL_READ | VL_WRITE);
    map_anon(space, a + 12 * PAGE, 4 * PAGE, VL_READ | VL_WRITE);
    map_anon(space, a + 0x400000, 4 * PAGE, VL_READ | VL_WRITE);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(sim_store(a + i * PAGE, i), VL_OK);
    }
    assert_int_equal(sim_store(a + 0x400000, 1), VL_OK);
    assert_int_equal(vl_space_unmap(space, a + 4 * PAGE, 2 * PAGE), VL_OK); /* the middle */
    area_is(space, a, a, a + 4 * PAGE, VL_READ | VL_WRITE);
    area_is(space, a + 6 * PAGE, a + 6 * PAGE, a + 10 * PAGE, VL_READ | VL_WRITE);
    vl_space_validate(space);
    assert_int_equal(vl_space_unmap(space, a, PAGE), VL_OK);                /* the head */
    assert_int_equal(vl_space_unmap(space, a + 9 * PAGE, 3 * PAGE), VL_OK); /* a tail and a hole */
    area_is(space, a, a + PAGE, a + 4 * PAGE, VL_READ | VL_WRITE);
    area_is(space, a + 6 * PAGE, a + 6 * PAGE, a + 9 * PAGE, VL_READ | VL_WRITE);
    vl_space_validate(space);
    assert_int_equal(usage(space).anonymous, 7);
    /* Across areas: the end of one, whole ones, holes, the start of one. */
    assert_int_equal(vl_space_unmap(space, a + 2 * PAGE, 0x400000 - PAGE), VL_OK);
    area_is(space, a, a + PAGE, a + 2 * PAGE, VL_READ | VL_WRITE);
    area_is(space, a + 2 * PAGE, a + 0x401000, a + 0x404000, VL_READ | VL_WRITE);
    assert_int_equal(usage(space).anonymous, 1);
    assert_int_equal(usage(space).mapped, 4);
    vl_space_validate(space);
    /* Fixed over part of one replaces just that part. */
    map_anon(space, a + 0x402000, PAGE, VL_READ);
    assert_int_equal(usage(space).areas, 4);
    space_off(space);
}

/* A fault may not go by a table page that was given back since. */
static void table_pages_come_and_go_under_faults(void **state)
{
    struct vl_space *space = space_on();
    vl_va a = 0x40000000;
    struct vl_pfn held[8];
    uint64_t value;

    (void)state;
    for (unsigned round = 0; round < 8; round++) {
        map_anon(space, a, PAGE, VL_READ | VL_WRITE);
        assert_int_equal(sim_store(a, 5), VL_OK);
        assert_int_equal(usage(space).tables, 4);
        assert_int_equal(vl_space_unmap(space, a, PAGE), VL_OK);
        assert_int_equal(usage(space).tables, 1);
        vl_drain_all();
        assert_int_equal(vl_frame_alloc(0, VL_WAIT, &held[round]), VL_OK);
        map_anon(space, a, PAGE, VL_READ | VL_WRITE);
        assert_int_equal(sim_load(a, &value), VL_OK);
        assert_int_equal(value, 0);
        vl_space_validate(space);
        assert_int_equal(vl_space_unmap(space, a, PAGE), VL_OK);
    }
    for (unsigned round = 0; round < 8; round++) {
        vl_frame_free(held[round], 0);
    }
    space_off(space);
}

static void equal_neighbours_become_one(void **state)
{
    struct vl_space *space = space_on();
    struct vl_object *object = object_new(16);
    vl_va a = 0x10000000;
    vl_va b;

    (void)state;
    map_anon(space, a, 2 * PAGE, VL_READ | VL_WRITE);
    map_anon(space, a + 4 * PAGE, 2 * PAGE, VL_READ | VL_WRITE);
    assert_int_equal(sim_store(a, 1), VL_OK);
    map_anon(space, a + 2 * PAGE, 2 * PAGE, VL_READ | VL_WRITE); /* fills the hole */
    area_is(space, a, a, a + 6 * PAGE, VL_READ | VL_WRITE);
    map_anon(space, a - PAGE, PAGE, VL_READ | VL_WRITE); /* from below */
    area_is(space, a, a - PAGE, a + 6 * PAGE, VL_READ | VL_WRITE);
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(sim_store(a + i * PAGE, i), VL_OK);
    }
    assert_int_equal(vl_space_protect(space, a + PAGE, 2 * PAGE, VL_READ), VL_OK);
    assert_int_equal(usage(space).areas, 3);
    vl_space_validate(space);
    assert_int_equal(sim_store(a + PAGE, 1), VL_EACCES);
    assert_int_equal(vl_space_protect(space, a + PAGE, 2 * PAGE, VL_READ | VL_WRITE), VL_OK);
    assert_int_equal(usage(space).areas, 1);
    assert_int_equal(sim_store(a + PAGE, 1), VL_OK);
    vl_space_validate(space);
    /* Also when both sides had their first pages while they were apart. */
    map_anon(space, a + 0x100000, 4 * PAGE, VL_READ | VL_WRITE);
    assert_int_equal(vl_space_protect(space, a + 0x102000, 2 * PAGE, VL_READ | VL_WRITE | VL_EXEC),
                     VL_OK);
    assert_int_equal(sim_store(a + 0x100000, 1), VL_OK);
    assert_int_equal(sim_store(a + 0x102000, 2), VL_OK);
    assert_int_equal(usage(space).areas, 3);
    assert_int_equal(vl_space_protect(space, a + 0x102000, 2 * PAGE, VL_READ | VL_WRITE), VL_OK);
    assert_int_equal(usage(space).areas, 2);
    vl_space_validate(space);
    assert_int_equal(vl_space_unmap(space, a + 0x100000, 4 * PAGE), VL_OK);
    map_anon(space, a + 6 * PAGE, PAGE, VL_READ);
    b = map_object(space, object, 0, 4 * PAGE, VL_READ, VL_MAP_SHARED);
    assert_int_equal(map_object(space, object, 0, PAGE, VL_READ, VL_MAP_SHARED), b - PAGE);
    assert_int_equal(usage(space).areas, 4); /* the same object, other pages */
    assert_int_equal(vl_space_unmap(space, b + PAGE, PAGE), VL_OK);
    assert_int_equal(usage(space).areas, 5);
    {
        struct vl_map_request r = {.object = object,
                                   .offset = PAGE,
                                   .len = PAGE,
                                   .prot = VL_READ,
                                   .kind = VL_MAP_SHARED,
                                   .hint = b + PAGE,
                                   .place = VL_MAP_FIXED};
        vl_va va;

        assert_int_equal(vl_space_map(space, &r, &va), VL_OK);
    }
    assert_int_equal(usage(space).areas, 4); /* joined on both sides */
    vl_space_validate(space);
    vl_object_put(object);
    space_off(space);
}

/* ----------------------------------------------------------------------------- protection */

static void protection_changes_what_can_be_done(void **state)
{
    struct vl_space *space = space_on();
    vl_va a = 0x10000000;
    uint64_t value;
    struct vl_map_request r = {.len = PAGE,
                               .hint = a + 12 * PAGE,
                               .place = VL_MAP_FIXED,
                               .prot = VL_READ,
                               .prot_max = VL_READ};
    uint64_t faults;
    vl_va va;

    (void)state;
    map_anon(space, a, 8 * PAGE, VL_READ | VL_WRITE);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(sim_store(a + i * PAGE, 10 + i), VL_OK);
    }
    assert_int_equal(vl_space_protect(space, a, 8 * PAGE, 0), VL_OK);
    assert_int_equal(sim_load(a, &value), VL_EACCES);
    assert_int_equal(usage(space).anonymous, 8); /* kept */
    vl_space_validate(space);
    assert_int_equal(vl_space_protect(space, a + PAGE, PAGE, VL_READ), VL_OK);
    assert_int_equal(sim_load(a + PAGE, &value), VL_OK);
    assert_int_equal(value, 11);
    assert_int_equal(sim_store(a + PAGE, 1), VL_EACCES);
    assert_int_equal(vl_space_protect(space, a, 8 * PAGE, VL_READ | VL_WRITE | VL_EXEC), VL_OK);
    assert_int_equal(usage(space).areas, 1);
    assert_int_equal(sim_fetch(a + 2 * PAGE), VL_OK);
    assert_int_equal(sim_store(a + 2 * PAGE, 5), VL_OK);
    assert_int_equal(usage(space).anonymous, 8); /* written in place */
    faults = usage(space).faults;
    assert_int_equal(vl_space_protect(space, a, 8 * PAGE, VL_READ), VL_OK);
    assert_int_equal(vl_space_protect(space, a, 8 * PAGE, VL_READ | VL_WRITE), VL_OK);
    assert_int_equal(sim_store(a + 2 * PAGE, 5), VL_OK);
    assert_int_equal(usage(space).faults, faults); /* nobody shares it: writable at once */
    assert_int_equal(vl_space_protect(space, a, 8 * PAGE, VL_READ | VL_WRITE), VL_OK);
    assert_int_equal(sim_fetch(a + 2 * PAGE), VL_EACCES);
    vl_space_validate(space);
    /* A hole: what lies before it is changed. */
    assert_int_equal(vl_space_protect(space, a + 6 * PAGE, 4 * PAGE, VL_READ), VL_ENOMEM);
    area_is(space, a + 6 * PAGE, a + 6 * PAGE, a + 8 * PAGE, VL_READ);
    assert_int_equal(vl_space_protect(space, a + 9 * PAGE, PAGE, VL_READ), VL_ENOMEM);
    /* Beyond what was allowed at the mapping. */
    assert_int_equal(vl_space_map(space, &r, &va), VL_OK);
    assert_int_equal(vl_space_protect(space, va, PAGE, VL_READ | VL_WRITE), VL_EACCES);
    area_is(space, va, va, va + PAGE, VL_READ);
    /* Memory without rights can be populated by nobody. */
    map_anon(space, a + 0x100000, PAGE, 0);
    assert_int_equal(sim_load(a + 0x100000, &value), VL_EACCES);
    assert_int_equal(vl_space_fault(space, a + 0x100000, VL_WRITE), VL_EACCES);
    space_off(space);
}

static void the_zero_page_survives_protection_and_fork(void **state)
{
    struct vl_space *space = space_on();
    vl_va a = map_anon(space, 0, 4 * PAGE, VL_READ | VL_WRITE);
    struct vl_space *child;
    uint64_t value;

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(sim_load(a + i * PAGE, &value), VL_OK);
    }
    assert_int_equal(sim_store(a, 3), VL_OK); /* from the zero page to one's own */
    assert_int_equal(usage(space).anonymous, 1);
    assert_int_equal(vl_space_protect(space, a, 4 * PAGE, 0), VL_OK);
    vl_space_validate(space);
    assert_int_equal(vl_space_fork(space, &child), VL_OK);
    vl_space_validate(child);
    assert_int_equal(vl_space_protect(space, a, 4 * PAGE, VL_READ | VL_WRITE), VL_OK);
    assert_int_equal(sim_load(a, &value), VL_OK);
    assert_int_equal(value, 3);
    assert_int_equal(sim_store(a + PAGE, 4), VL_OK);
    assert_int_equal(vl_space_protect(child, a, 4 * PAGE, VL_READ), VL_OK);
    sim_space_switch(child);
    assert_int_equal(sim_load(a, &value), VL_OK);
    assert_int_equal(value, 3);
    assert_int_equal(sim_load(a + PAGE, &value), VL_OK);
    assert_int_equal(value, 0);
    vl_space_validate(child);
    sim_space_switch(space);
    vl_space_put(child);
    space_off(space);
}

/* ------------------------------------------------------------------- heap, stack, limits */

static void the_heap_ends_where_it_is_told(void **state)
{
    struct vl_space *space = space_on();
    vl_va start = 0x10000123;
    struct vl_space_limits limits = {UINT64_MAX, 8u << 20, 1u << 20};

    (void)state;
    assert_int_equal(vl_space_brk(space, 0), 0);
    assert_int_equal(vl_space_brk(space, 0x100000), 0); /* none was set */
    vl_space_set_brk(space, start);
    assert_int_equal(vl_space_brk(space, 0), start);
    assert_int_equal(vl_space_brk(space, start + 5 * PAGE), start + 5 * PAGE);
    area_is(space, start + PAGE, 0x10001000, 0x10006000, VL_READ | VL_WRITE);
    assert_int_equal(sim_store(0x10005ff8, 1), VL_OK);
    assert_int_equal(vl_space_brk(space, start + 9 * PAGE), start + 9 * PAGE);
    assert_int_equal(usage(space).areas, 1);
    assert_int_equal(vl_space_brk(space, start + PAGE + 1), start + PAGE + 1);
    area_is(space, start + PAGE, 0x10001000, 0x10002000, VL_READ | VL_WRITE);
    assert_int_equal(usage(space).anonymous, 0);
    assert_int_equal(vl_space_brk(space, start - 1), start + PAGE + 1);
    assert_int_equal(vl_space_brk(space, UINT64_MAX), start + PAGE + 1);
    map_anon(space, 0x10010000, PAGE, VL_READ);
    assert_int_equal(vl_space_brk(space, 0x10011000), start + PAGE + 1); /* in the way */
    assert_int_equal(vl_space_brk(space, 0x10010000), 0x10010000);
    assert_int_equal(vl_space_unmap(space, 0x10010000, PAGE), VL_OK);
    vl_space_set_limits(space, &limits);
    assert_int_equal(vl_space_brk(space, start + (2u << 20)), 0x10010000);
    assert_int_equal(vl_space_brk(space, start), start);
    assert_int_equal(usage(space).areas, 0);
    space_off(space);
}

static void stacks_grow_to_their_limit(void **state)
{
    struct vl_space *space = space_on();
    struct vl_space_limits limits = {UINT64_MAX, 4u << 20, UINT64_MAX};
    vl_va top = 0x20000000;
    struct vl_map_request r = {.len = 4 * PAGE,
                               .hint = top - 4 * PAGE,
                               .place = VL_MAP_FIXED,
                               .prot = VL_READ | VL_WRITE,
                               .grows_down = true};
    uint64_t value;
    vl_va va;

    (void)state;
    assert_int_equal(vl_space_map(space, &r, &va), VL_OK);
    vl_space_set_limits(space, &limits);
    assert_int_equal(sim_store(top - 8, 1), VL_OK);
    assert_int_equal(sim_store(top - 100 * PAGE, 2), VL_OK);
    area_is(space, top - 1, top - 100 * PAGE, top, VL_READ | VL_WRITE);
    vl_space_validate(space);
    assert_int_equal(sim_store(top - (4u << 20), 3), VL_OK);
    assert_int_equal(sim_store(top - (4u << 20) - 8, 3), VL_EFAULT);
    assert_int_equal(sim_load(top, &value), VL_EFAULT);
    /* A guard stays free: for a search, a hint, and before a neighbour. */
    limits.stack = UINT64_MAX;
    vl_space_set_limits(space, &limits);
    r = (struct vl_map_request){.len = PAGE, .hint = top - (4u << 20) - 4 * PAGE, .prot = VL_READ};
    assert_int_equal(vl_space_map(space, &r, &va), VL_OK);
    assert_true(va != r.hint);
    map_anon(space, top - (6u << 20), PAGE, VL_READ | VL_WRITE);
    assert_int_equal(sim_store(top - (5u << 20) + PAGE, 3), VL_OK);
    assert_int_equal(sim_store(top - (5u << 20), 3), VL_EFAULT);
    vl_space_validate(space);
    /* No guard towards what cannot be accessed anyway. */
    map_anon(space, top - (6u << 20), PAGE, 0);
    assert_int_equal(sim_store(top - (6u << 20) + PAGE, 3), VL_OK);
    assert_int_equal(sim_store(top - (6u << 20), 3), VL_EACCES);
    vl_space_validate(space);
    space_off(space);
}

static void limits_are_kept(void **state)
{
    struct vl_space *space = space_on();
    struct vl_space_limits limits = {16 * PAGE, 8u << 20, 4 * PAGE};
    struct vl_map_request r = {.len = 5 * PAGE, .prot = VL_READ | VL_WRITE};
    vl_va va;
    vl_va a;

    (void)state;
    vl_space_set_limits(space, &limits);
    assert_int_equal(vl_space_map(space, &r, &va), VL_ENOMEM);
    r.prot = VL_READ;
    assert_int_equal(vl_space_map(space, &r, &a), VL_OK);
    assert_int_equal(vl_space_protect(space, a, 5 * PAGE, VL_READ | VL_WRITE), VL_ENOMEM);
    area_is(space, a, a, a + 5 * PAGE, VL_READ);
    assert_int_equal(vl_space_protect(space, a, 4 * PAGE, VL_READ | VL_WRITE), VL_OK);
    r.len = 12 * PAGE;
    assert_int_equal(vl_space_map(space, &r, &va), VL_ENOMEM);
    r.len = 11 * PAGE;
    assert_int_equal(vl_space_map(space, &r, &va), VL_OK);
    assert_int_equal(usage(space).mapped, 16);
    /* What is replaced does not count twice. */
    r = (struct vl_map_request){.len = 5 * PAGE, .hint = a, .place = VL_MAP_FIXED, .prot = VL_READ};
    assert_int_equal(vl_space_map(space, &r, &va), VL_OK);
    assert_int_equal(vl_space_remap(space, a, 5 * PAGE, 6 * PAGE, 1, 0, &va), VL_ENOMEM);
    assert_int_equal(usage(space).mapped_peak, 16);
    space_off(space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(anonymous_memory_reads_zero_and_keeps_writes),
        cmocka_unit_test(fork_shares_until_a_write),
        cmocka_unit_test(a_fork_of_a_fork_of_much_memory),
        cmocka_unit_test(areas_come_to_lie_where_asked),
        cmocka_unit_test(the_top_is_kept_for_the_stack),
        cmocka_unit_test(a_childs_areas_merge),
        cmocka_unit_test(gaps_are_found_like_by_a_scan),
        cmocka_unit_test(impossible_requests_name_their_reason),
        cmocka_unit_test(unmapping_cuts_and_splits),
        cmocka_unit_test(table_pages_come_and_go_under_faults),
        cmocka_unit_test(equal_neighbours_become_one),
        cmocka_unit_test(protection_changes_what_can_be_done),
        cmocka_unit_test(the_zero_page_survives_protection_and_fork),
        cmocka_unit_test(the_heap_ends_where_it_is_told),
        cmocka_unit_test(stacks_grow_to_their_limit),
        cmocka_unit_test(limits_are_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
