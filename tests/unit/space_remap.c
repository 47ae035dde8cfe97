/*
 * Goal: moving and resizing, advice, residency, keys and held frames of a space do what Linux's
 * calls of that kind do, errors included, and lose no page.
 * Method: as tests/unit/space.c: a program on the simulated MMU, the space validated after each
 * case.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "machine/sim/mmu.h"
#include "machine/sim/sim.h"
#include "tests/lib/space_util.h"

#define PAGE      VL_PAGE_SIZE
#define MAY_MOVE  1u
#define FIXED     2u
#define DONTUNMAP 4u
#define RW        (VL_READ | VL_WRITE)

static void fill(vl_va va, unsigned pages, uint64_t base)
{
    for (unsigned i = 0; i < pages; i++) {
        assert_int_equal(sim_store(va + i * PAGE, base + i), VL_OK);
    }
}

static void holds(vl_va va, unsigned pages, uint64_t base)
{
    uint64_t value;

    for (unsigned i = 0; i < pages; i++) {
        assert_int_equal(sim_load(va + i * PAGE, &value), VL_OK);
        assert_int_equal(value, base + i);
    }
}

static void resizing_in_place(void **state)
{
    struct vl_space *space = space_on();
    vl_va a = map_anon(space, 0x10000000, 8 * PAGE, RW);
    vl_va va = 0;

    (void)state;
    fill(a, 8, 50);
    assert_int_equal(vl_space_remap(space, a, 8 * PAGE, 5 * PAGE, 0, 0, &va), VL_OK);
    assert_int_equal(va, a);
    area_is(space, a, a, a + 5 * PAGE, RW);
    assert_int_equal(vl_space_remap(space, a, 5 * PAGE, 5 * PAGE, 0, 0, &va), VL_OK);
    assert_int_equal(vl_space_remap(space, a, 5 * PAGE, 10 * PAGE, 0, 0, &va), VL_OK);
    area_is(space, a, a, a + 10 * PAGE, RW);
    holds(a, 5, 50);
    map_anon(space, a + 12 * PAGE, PAGE, VL_READ);
    assert_int_equal(vl_space_remap(space, a, 10 * PAGE, 13 * PAGE, 0, 0, &va), VL_ENOMEM);
    assert_int_equal(vl_space_remap(space, a, 10 * PAGE, 12 * PAGE - 1, 0, 0, &va), VL_OK);
    area_is(space, a, a, a + 12 * PAGE, RW);
    space_off(space);
}

static void moving_takes_the_pages_along(void **state)
{
    struct vl_space *space = space_on();
    vl_va a = map_anon(space, 0x101fc000, 8 * PAGE, RW); /* across two leaf table pages */
    struct vl_space *child;
    vl_va va = 0;
    uint64_t value;

    (void)state;
    fill(a, 8, 70);
    map_anon(space, a + 8 * PAGE, PAGE, VL_READ);
    assert_int_equal(vl_space_remap(space, a, 8 * PAGE, 20 * PAGE, MAY_MOVE, 0, &va), VL_OK);
    assert_true(va != a);
    holds(va, 8, 70);
    assert_int_equal(sim_load(a, &value), VL_EFAULT);
    assert_int_equal(usage(space).anonymous, 8);
    vl_space_validate(space);
    /* The middle of it to a fixed place, over something else. */
    map_anon(space, 0x30000000, 16 * PAGE, RW);
    fill(0x30000000, 16, 900);
    assert_int_equal(vl_space_fork(space, &child), VL_OK); /* its pages are shared meanwhile */
    a = va;
    assert_int_equal(
        vl_space_remap(space, a + 2 * PAGE, 4 * PAGE, 4 * PAGE, MAY_MOVE | FIXED, 0x30004000, &va),
        VL_OK);
    assert_int_equal(va, 0x30004000);
    holds(0x30000000, 4, 900);
    holds(0x30004000, 4, 72);
    holds(0x30008000, 8, 908);
    holds(a, 2, 70);
    holds(a + 6 * PAGE, 2, 76);
    assert_int_equal(sim_load(a + 2 * PAGE, &value), VL_EFAULT);
    vl_space_validate(space);
    vl_space_validate(child);
    fill(0x30004000, 4, 1000);
    sim_space_switch(child);
    holds(a, 8, 70);
    fill(a, 8, 80);
    vl_space_validate(child);
    sim_space_switch(space);
    holds(0x30004000, 4, 1000);
    vl_space_put(child);
    vl_space_validate(space);
    /* Moved pages are found, forked, written and unmapped as any. */
    assert_int_equal(vl_space_protect(space, 0x30005000, PAGE, 0), VL_OK);
    assert_int_equal(
        vl_space_remap(space, 0x30005000, PAGE, PAGE, MAY_MOVE | FIXED, 0x40000000, &va), VL_OK);
    assert_int_equal(sim_load(0x40000000, &value), VL_EACCES);
    assert_int_equal(vl_space_protect(space, 0x40000000, PAGE, RW), VL_OK);
    holds(0x40000000, 1, 1001);
    space_off(space);
}

static void moving_what_belongs_to_an_object(void **state)
{
    struct vl_space *space = space_on();
    struct vl_object *object = object_new(8);
    vl_va a = map_object(space, object, 0, 8 * PAGE, RW, VL_MAP_SHARED);
    vl_va p = map_object(space, object, 0, 8 * PAGE, RW, VL_MAP_PRIVATE);
    vl_va va;
    uint64_t value;

    (void)state;
    holds(a, 8, 1);
    fill(p, 2, 30);
    assert_int_equal(
        vl_space_remap(space, a + 4 * PAGE, 4 * PAGE, 4 * PAGE, MAY_MOVE | FIXED, 0x50000000, &va),
        VL_OK);
    holds(0x50000000, 4, 5);
    assert_int_equal(
        vl_space_remap(space, p, 8 * PAGE, 8 * PAGE, MAY_MOVE | FIXED, 0x60000000, &va), VL_OK);
    holds(0x60000000, 2, 30);
    holds(0x60002000, 6, 3);
    vl_space_validate(space);
    /* A length of 0 maps shared memory a second time. */
    assert_int_equal(vl_space_remap(space, a, 0, 2 * PAGE, MAY_MOVE, 0, &va), VL_OK);
    holds(va, 2, 1);
    assert_int_equal(sim_store(va, 500), VL_OK);
    assert_int_equal(sim_load(a, &value), VL_OK);
    assert_int_equal(value, 500);
    assert_int_equal(vl_space_remap(space, 0x60000000, 0, PAGE, MAY_MOVE, 0, &va), VL_EINVAL);
    assert_int_equal(vl_object_truncate(object, 6 * PAGE), VL_OK);
    assert_int_equal(sim_load(0x50002000, &value), VL_EBUSERROR);
    vl_space_validate(space);
    vl_object_put(object);
    space_off(space);
}

static void the_old_range_may_stay(void **state)
{
    struct vl_space *space = space_on();
    vl_va a = map_anon(space, 0x10000000, 4 * PAGE, RW);
    vl_va va;

    (void)state;
    fill(a, 4, 5);
    assert_int_equal(vl_space_remap(space, a, 4 * PAGE, 4 * PAGE, MAY_MOVE | DONTUNMAP, 0, &va),
                     VL_OK);
    holds(va, 4, 5);
    assert_int_equal(usage(space).anonymous, 4);
    assert_int_equal(usage(space).mapped, 8);
    vl_space_validate(space);
    fill(a, 4, 100);
    holds(va, 4, 5);
    space_off(space);
}

static void remap_names_its_errors(void **state)
{
    struct vl_space *space = space_on();
    vl_va a = map_anon(space, 0x10000000, 4 * PAGE, RW);
    vl_va va = 7;

    (void)state;
    map_anon(space, a + 4 * PAGE, PAGE, VL_READ);
    assert_int_equal(vl_space_remap(space, a + 1, PAGE, PAGE, 0, 0, &va), VL_EINVAL);
    assert_int_equal(vl_space_remap(space, a, PAGE, 0, 0, 0, &va), VL_EINVAL);
    assert_int_equal(vl_space_remap(space, a, PAGE, SIZE_MAX, MAY_MOVE, 0, &va), VL_EINVAL);
    assert_int_equal(vl_space_remap(space, a, SIZE_MAX, PAGE, MAY_MOVE, 0, &va), VL_EINVAL);
    assert_int_equal(vl_space_remap(space, a, PAGE, PAGE, 8, 0, &va), VL_EINVAL);
    assert_int_equal(vl_space_remap(space, a, PAGE, PAGE, FIXED, 0x20000000, &va), VL_EINVAL);
    assert_int_equal(vl_space_remap(space, a, PAGE, 2 * PAGE, MAY_MOVE | DONTUNMAP, 0, &va),
                     VL_EINVAL);
    assert_int_equal(vl_space_remap(space, a, 2 * PAGE, 2 * PAGE, MAY_MOVE | FIXED, a + PAGE, &va),
                     VL_EINVAL);
    assert_int_equal(vl_space_remap(space, a, PAGE, PAGE, MAY_MOVE | FIXED, 0x20000001, &va),
                     VL_EINVAL);
    assert_int_equal(vl_space_remap(space, a, PAGE, PAGE, MAY_MOVE | FIXED, VL_USER_END, &va),
                     VL_EINVAL);
    assert_int_equal(vl_space_remap(space, a, PAGE, PAGE, MAY_MOVE | FIXED, PAGE, &va), VL_EPERM);
    assert_int_equal(vl_space_remap(space, a - PAGE, PAGE, 2 * PAGE, MAY_MOVE, 0, &va), VL_EFAULT);
    assert_int_equal(vl_space_remap(space, a, 5 * PAGE, 6 * PAGE, MAY_MOVE, 0, &va), VL_EFAULT);
    assert_int_equal(va, 7);
    assert_int_equal(usage(space).areas, 2);
    space_off(space);
}

static void advice_drops_pages(void **state)
{
    struct vl_space *space = space_on();
    struct vl_object *object = object_new(4);
    vl_va a = map_anon(space, 0x10000000, 8 * PAGE, RW);
    vl_va p = map_object(space, object, 0, 4 * PAGE, RW, VL_MAP_PRIVATE);
    vl_va s = map_object(space, object, 0, 4 * PAGE, RW, VL_MAP_SHARED);
    uint64_t value;

    (void)state;
    fill(a, 8, 5);
    fill(p, 4, 60);
    assert_int_equal(vl_space_advise(space, a + PAGE, 2 * PAGE, VL_ADVISE_DONTNEED), VL_OK);
    assert_int_equal(usage(space).anonymous, 10);
    assert_int_equal(usage(space).resident_peak, 12);
    assert_int_equal(sim_load(a + PAGE, &value), VL_OK);
    assert_int_equal(value, 0);
    assert_int_equal(vl_space_advise(space, p, 4 * PAGE, VL_ADVISE_DONTNEED), VL_OK);
    holds(p, 4, 1);
    fill(s, 1, 40);
    assert_int_equal(vl_space_advise(space, s, 4 * PAGE, VL_ADVISE_DONTNEED), VL_OK);
    holds(s, 1, 40); /* the object's, not ours to drop */
    assert_int_equal(vl_space_advise(space, a + 6 * PAGE, 4 * PAGE, VL_ADVISE_DONTNEED), VL_ENOMEM);
    assert_int_equal(sim_load(a + 7 * PAGE, &value), VL_OK);
    assert_int_equal(value, 0); /* done all the same */
    assert_int_equal(vl_space_advise(space, a, PAGE, VL_ADVISE_FREE), VL_OK);
    assert_int_equal(vl_space_advise(space, p, PAGE, VL_ADVISE_FREE), VL_EINVAL);
    assert_int_equal(vl_space_advise(space, p, PAGE, VL_ADVISE_WILLNEED), VL_OK);
    assert_int_equal(vl_space_advise(space, a, 9 * PAGE, VL_ADVISE_WILLNEED), VL_ENOMEM);
    vl_space_validate(space);
    /* Patterns are a property: they split and join areas. */
    assert_int_equal(vl_space_advise(space, a + 2 * PAGE, 2 * PAGE, VL_ADVISE_SEQUENTIAL), VL_OK);
    assert_int_equal(usage(space).areas, 5);
    assert_int_equal(vl_space_advise(space, a + 4 * PAGE, 9 * PAGE, VL_ADVISE_SEQUENTIAL),
                     VL_ENOMEM);
    assert_int_equal(usage(space).areas, 4);
    vl_space_validate(space);
    assert_int_equal(vl_space_advise(space, a, 8 * PAGE, VL_ADVISE_NORMAL), VL_OK);
    assert_int_equal(usage(space).areas, 3);
    vl_object_put(object);
    space_off(space);
}

static void residency_is_told_page_by_page(void **state)
{
    struct vl_space *space = space_on();
    struct vl_object *object = object_new(4);
    vl_va a = map_anon(space, 0x10000000, 4 * PAGE, RW);
    uint8_t map[8];
    vl_va o;

    (void)state;
    fill(a + PAGE, 2, 5);
    assert_int_equal(vl_space_resident(space, a, 4 * PAGE, map), VL_OK);
    assert_true(map[0] == 0 && map[1] == 1 && map[2] == 1 && map[3] == 0);
    assert_int_equal(vl_space_resident(space, a, 5 * PAGE, map), VL_ENOMEM);
    assert_int_equal(vl_space_resident(space, a + 1, PAGE, map), VL_EINVAL);
    assert_int_equal(vl_object_punch(object, PAGE, 2 * PAGE), VL_OK);
    o = map_object(space, object, 0, 4 * PAGE, VL_READ, VL_MAP_SHARED);
    assert_int_equal(vl_space_resident(space, o, 4 * PAGE, map), VL_OK);
    assert_true(map[0] == 1 && map[1] == 0 && map[2] == 1 && map[3] == 1); /* in memory, unmapped */
    vl_object_put(object);
    space_off(space);
}

static void keys_and_areas_are_found(void **state)
{
    struct vl_space *space = space_on();
    struct vl_object *object = object_new(4);
    vl_va o = map_object(space, object, PAGE, 2 * PAGE, VL_READ, VL_MAP_SHARED);
    vl_va a = map_anon(space, 0x10000000, PAGE, RW);
    struct vl_area_info info;
    struct vl_memory_key key;

    (void)state;
    assert_int_equal(vl_space_key(space, o + PAGE + 4, &key), VL_OK);
    assert_int_equal(key.offset, 2 * PAGE + 4);
    assert_int_equal(key.id, (uintptr_t)object);
    assert_int_equal(vl_space_key(space, a + 4, &key), VL_OK);
    assert_int_equal(key.offset, a + 4);
    assert_int_equal(vl_space_key(space, a - 4, &key), VL_EFAULT);
    assert_int_equal(vl_space_find(space, 0, &info), VL_OK);
    assert_true(info.start == a && info.object == NULL && info.kind == VL_MAP_PRIVATE);
    assert_int_equal(vl_space_find(space, a + PAGE, &info), VL_OK);
    assert_true(info.start == o && info.object == object && info.offset == PAGE);
    assert_int_equal(vl_space_find(space, o + 2 * PAGE, &info), VL_ENOENT);
    vl_object_put(object);
    space_off(space);
}

static void frames_can_be_held(void **state)
{
    struct vl_space *space = space_on();
    vl_va a = map_anon(space, 0x10000000, 2 * PAGE, RW);
    struct vl_space *child;
    struct vl_pfn zero;
    struct vl_pfn pfn;

    (void)state;
    assert_int_equal(vl_space_frame_get(space, a + 8, VL_READ, &zero), VL_OK);
    vl_frame_ref_put(zero);
    assert_int_equal(vl_space_frame_get(space, a + 8, VL_WRITE, &pfn), VL_OK);
    assert_true(pfn.n != zero.n);
    ((uint64_t *)vl_frame_to_virt(pfn))[1] = 321;
    holds(a + 8, 1, 321);
    assert_int_equal(vl_space_unmap(space, a, PAGE), VL_OK);
    assert_int_equal(((uint64_t *)vl_frame_to_virt(pfn))[1], 321); /* still ours */
    vl_frame_ref_put(pfn);
    assert_int_equal(vl_space_frame_get(space, a, VL_READ, &pfn), VL_EFAULT);
    assert_int_equal(vl_space_frame_get(space, VL_USER_END, VL_READ, &pfn), VL_EFAULT);
    assert_int_equal(vl_space_frame_get(space, a + PAGE, VL_EXEC, &pfn), VL_EACCES);
    /* A space that does not run: exec writes its arguments so. */
    assert_int_equal(vl_space_create(&child), VL_OK);
    map_anon(child, a, PAGE, RW);
    assert_int_equal(vl_space_frame_get(child, a, VL_WRITE, &pfn), VL_OK);
    vl_frame_ref_put(pfn);
    assert_int_equal(usage(child).anonymous, 1);
    vl_space_put(child);
    space_off(space);
}

static void populate_makes_it_resident(void **state)
{
    struct vl_space *space = space_on();
    struct vl_map_request r = {.len = 40 * PAGE, .prot = RW, .populate = true};
    vl_va va;

    (void)state;
    assert_int_equal(vl_space_map(space, &r, &va), VL_OK);
    assert_int_equal(usage(space).anonymous, 40);
    r.prot = VL_READ;
    assert_int_equal(vl_space_map(space, &r, &va), VL_OK);
    assert_int_equal(usage(space).anonymous, 40);
    /* A thread that is being killed stops. */
    atomic_fetch_or(&vl_host_thread()->flags, VL_THREAD_KILLED);
    r.prot = RW;
    assert_int_equal(vl_space_map(space, &r, &va), VL_OK);
    assert_in_range(usage(space).anonymous, 40, 42);
    atomic_fetch_and(&vl_host_thread()->flags, ~VL_THREAD_KILLED);
    r.len = 1ull << 40; /* far more than there is */
    r.prot = RW;
    assert_int_equal(vl_space_map(space, &r, &va), VL_OK);
    assert_in_range(usage(space).anonymous, 10000, 16384);
    assert_int_equal(vl_space_unmap(space, va, r.len), VL_OK);
    space_off(space);
}

static void the_number_of_areas_is_bounded(void **state)
{
    struct vl_space *space = space_on();
    vl_va a = 0x100000000;
    struct vl_map_request r = {.len = PAGE, .prot = VL_READ, .place = VL_MAP_FIXED};
    enum vl_status status = VL_OK;
    uint64_t count;
    vl_va va;

    (void)state;
    map_anon(space, 0x10000000, 3 * PAGE, RW);
    for (count = 1; status == VL_OK; count++) {
        r.hint = a + count * 2 * PAGE;
        status = vl_space_map(space, &r, &va);
    }
    assert_int_equal(status, VL_ENOMEM);
    assert_int_equal(usage(space).areas, 65530);
    assert_int_equal(vl_space_unmap(space, 0x10001000, PAGE), VL_ENOMEM);
    assert_int_equal(vl_space_protect(space, 0x10001000, PAGE, VL_READ), VL_ENOMEM);
    assert_int_equal(vl_space_advise(space, 0x10001000, PAGE, VL_ADVISE_RANDOM), VL_ENOMEM);
    assert_int_equal(
        vl_space_remap(space, 0x10001000, PAGE, PAGE, MAY_MOVE | FIXED, 0x20000000, &va),
        VL_ENOMEM);
    area_is(space, 0x10000000, 0x10000000, 0x10003000, RW);
    assert_int_equal(vl_space_unmap(space, 0x10000000, PAGE), VL_OK);
    assert_int_equal(vl_space_unmap(space, a, 70000 * 2 * PAGE), VL_OK);
    assert_int_equal(usage(space).areas, 1);
    space_off(space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resizing_in_place),
        cmocka_unit_test(moving_takes_the_pages_along),
        cmocka_unit_test(moving_what_belongs_to_an_object),
        cmocka_unit_test(the_old_range_may_stay),
        cmocka_unit_test(remap_names_its_errors),
        cmocka_unit_test(advice_drops_pages),
        cmocka_unit_test(residency_is_told_page_by_page),
        cmocka_unit_test(keys_and_areas_are_found),
        cmocka_unit_test(frames_can_be_held),
        cmocka_unit_test(populate_makes_it_resident),
        cmocka_unit_test(the_number_of_areas_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
