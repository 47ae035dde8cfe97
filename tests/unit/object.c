/*
 * Goal: objects keep their pages by index, share them with every mapping, and give them up by
 * truncation and holes everywhere at once; references end what they should, once.
 * Method: words in pages, written and read through the object, through shared and private mappings
 * of several spaces on the simulated MMU; frames counted at the end.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "core/object/object.h"
#include "machine/sim/mmu.h"
#include "machine/sim/sim.h"
#include "tests/lib/space_util.h"

#define PAGE VL_PAGE_SIZE

static unsigned released;

static void on_release(void *owner)
{
    released++;
    *(int *)owner = 1;
}

static void the_last_reference_ends_it_once(void **state)
{
    const struct vl_object_ops ops = {.release = on_release};
    struct vl_space *space = space_on();
    struct vl_object *object;
    int ended = 0;
    vl_va va;
    uint64_t value;

    (void)state;
    released = 0;
    assert_int_equal(vl_object_create(&ops, &ended, &object), VL_OK);
    assert_ptr_equal(vl_object_owner(object), &ended);
    object_write(object, 0, 5);
    assert_int_equal(vl_object_extend(object, 8), VL_OK);
    va = map_object(space, object, 0, PAGE, VL_READ, VL_MAP_PRIVATE);
    vl_object_get(object);
    vl_object_put(object);
    vl_object_put(object); /* the mapping's is left */
    assert_int_equal(released, 0);
    assert_int_equal(sim_load(va, &value), VL_OK);
    assert_int_equal(value, 5);
    assert_int_equal(vl_space_unmap(space, va, PAGE), VL_OK);
    assert_int_equal(released, 1);
    assert_int_equal(ended, 1);
    space_off(space);
}

static void pages_stand_at_any_index(void **state)
{
    static const uint64_t indices[] = {0,
                                       1,
                                       63,
                                       64,
                                       4095,
                                       4096,
                                       262143,
                                       262144,
                                       1ull << 24,
                                       (1ull << 30) + 7,
                                       1u << 31,
                                       1ull << 36,
                                       (1ull << 40) - 1};
    struct vl_object *object;
    struct vl_pfn pfn;

    (void)state;
    machine_on(64, 1);
    assert_int_equal(vl_object_create(NULL, NULL, &object), VL_OK);
    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < VLI_COUNT_OF(indices); i++) {
            size_t k = round == 0 ? i : VLI_COUNT_OF(indices) - 1 - i;

            assert_int_equal(vl_object_page_get(object, indices[k], VL_PAGE_FIND, &pfn), VL_ENOENT);
            object_write(object, indices[k] * PAGE, indices[k] + 1);
            vli_object_validate(object);
        }
        assert_int_equal(vl_object_pages(object), VLI_COUNT_OF(indices));
        for (size_t i = 0; i < VLI_COUNT_OF(indices); i++) {
            assert_int_equal(object_word(object, indices[i] * PAGE), indices[i] + 1);
            assert_int_equal(vl_object_page_get(object, indices[i] ^ 2, VL_PAGE_FIND, &pfn),
                             VL_ENOENT);
        }
        /* Holes punched one by one: the rest stays. */
        for (size_t i = 0; i < VLI_COUNT_OF(indices); i++) {
            uint64_t at = indices[(i * 5) % VLI_COUNT_OF(indices)] * PAGE;

            assert_int_equal(vl_object_punch(object, at, at + PAGE), VL_OK);
            assert_int_equal(vl_object_pages(object), VLI_COUNT_OF(indices) - 1 - i);
            vli_object_validate(object);
        }
    }
    assert_int_equal(vl_object_page_get(object, 1ull << 40, VL_PAGE_CREATE, &pfn), VL_EFBIG);
    assert_int_equal(vl_object_extend(object, UINT64_MAX), VL_EFBIG);
    assert_int_equal(vl_object_extend(object, (1ull << 52) - PAGE + 1), VL_EFBIG);
    assert_int_equal(vl_object_truncate(object, 1ull << 52), VL_EFBIG);
    assert_int_equal(vl_object_punch(object, 1, PAGE), VL_EINVAL);
    assert_int_equal(vl_object_punch(object, 2 * PAGE, PAGE), VL_EINVAL);
    assert_int_equal(vl_object_punch(object, 0, UINT64_MAX - PAGE + 1), VL_EINVAL);
    vl_object_put(object);
    machine_off();
}

static void random_pages_agree_with_a_map(void **state)
{
    enum { INDICES = 700 };
    static bool present[INDICES];
    uint64_t random = sim_seed(3);
    uint64_t ops = sim_ops(4000);
    struct vl_object *object;
    uint64_t count = 0;

    (void)state;
    machine_on(64, 1);
    assert_int_equal(vl_object_create(NULL, NULL, &object), VL_OK);
    for (uint64_t op = 0; op < ops; op++) {
        /* Sparse: steps of 37, so that nodes come and go. */
        uint64_t i = sim_random(&random) % INDICES;
        uint64_t n = 1 + sim_random(&random) % 20;

        if (sim_random(&random) % 8 != 0) {
            object_write(object, i * 37 * PAGE, i);
            count += !present[i];
            present[i] = true;
        } else {
            n = i + n < INDICES ? i + n : INDICES;
            assert_int_equal(vl_object_punch(object, i * 37 * PAGE, ((n - 1) * 37 + 1) * PAGE),
                             VL_OK);
            for (; i < n; i++) {
                count -= present[i];
                present[i] = false;
            }
        }
        assert_int_equal(vl_object_pages(object), count);
    }
    vli_object_validate(object);
    for (uint64_t i = 0; i < INDICES; i++) {
        assert_int_equal(object_word(object, i * 37 * PAGE), present[i] ? i : 0);
        present[i] = false;
    }
    vl_object_put(object);
    machine_off();
}

static void mappings_and_object_are_one_memory(void **state)
{
    struct vl_space *space = space_on();
    struct vl_object *object = object_new(40);
    vl_va shared = map_object(space, object, 0, 40 * PAGE, VL_READ | VL_WRITE, VL_MAP_SHARED);
    vl_va private =
        map_object(space, object, 4 * PAGE, 36 * PAGE, VL_READ | VL_WRITE, VL_MAP_PRIVATE);
    vl_va ro = map_object(space, object, 0, 40 * PAGE, VL_READ, VL_MAP_SHARED);
    struct vl_space *child;
    uint64_t value;

    (void)state;
    for (unsigned i = 0; i < 36; i++) {
        assert_int_equal(sim_load(private + i * PAGE, &value), VL_OK);
        assert_int_equal(value, i + 5);
    }
    assert_int_equal(usage(space).file, 36);
    assert_int_equal(sim_store(shared + 5 * PAGE, 77), VL_OK);
    assert_int_equal(object_word(object, 5 * PAGE), 77);
    assert_int_equal(sim_load(private + PAGE, &value), VL_OK);
    assert_int_equal(value, 77); /* not yet its own */
    assert_int_equal(sim_store(private + PAGE, 88), VL_OK);
    assert_int_equal(sim_store(private + 2 * PAGE + 8, 99), VL_OK);
    assert_int_equal(usage(space).anonymous, 2);
    assert_int_equal(sim_load(private + 2 * PAGE, &value), VL_OK);
    assert_int_equal(value, 7); /* copied from the file */
    object_write(object, 5 * PAGE, 100);
    assert_int_equal(sim_load(ro + 5 * PAGE, &value), VL_OK);
    assert_int_equal(value, 100);
    assert_int_equal(sim_load(private + PAGE, &value), VL_OK);
    assert_int_equal(value, 88);
    assert_int_equal(sim_store(ro, 1), VL_EACCES);
    vl_space_validate(space);
    assert_int_equal(vl_space_fork(space, &child), VL_OK);
    sim_space_switch(child);
    assert_int_equal(sim_load(private + PAGE, &value), VL_OK);
    assert_int_equal(value, 88);
    assert_int_equal(sim_store(private + PAGE, 89), VL_OK);
    assert_int_equal(sim_store(shared, 1000), VL_OK); /* shared with the parent, too */
    vl_space_validate(child);
    sim_space_switch(space);
    assert_int_equal(sim_load(shared, &value), VL_OK);
    assert_int_equal(value, 1000);
    assert_int_equal(sim_load(private + PAGE, &value), VL_OK);
    assert_int_equal(value, 88);
    vl_space_put(child);
    vl_object_put(object);
    space_off(space);
}

static void reads_map_what_lies_around(void **state)
{
    struct vl_space *space = space_on();
    struct vl_object *object = object_new(64);
    vl_va va = map_object(space, object, 0, 64 * PAGE, VL_READ, VL_MAP_PRIVATE);
    uint64_t value;
    uint64_t around;

    (void)state;
    assert_int_equal(vl_object_punch(object, 20 * PAGE, 21 * PAGE), VL_OK);
    assert_int_equal(sim_load(va + 18 * PAGE, &value), VL_OK);
    around = usage(space).file;
    assert_in_range(around, 8, 16);
    assert_int_equal(usage(space).faults, 1);
    vl_space_validate(space);
    assert_int_equal(sim_load(va + 20 * PAGE, &value), VL_OK); /* the hole */
    assert_int_equal(value, 0);
    assert_int_equal(vl_object_pages(object), 64); /* has become a page */
    for (unsigned i = 0; i < 64; i++) {
        assert_int_equal(sim_load(va + i * PAGE, &value), VL_OK);
        assert_int_equal(value, i == 20 ? 0 : i + 1);
    }
    assert_in_range(usage(space).faults, 2, 8);
    vl_space_validate(space);
    /* Not where reads are said to be random. */
    va = map_object(space, object, 0, 64 * PAGE, VL_READ | VL_EXEC, VL_MAP_PRIVATE);
    assert_int_equal(vl_space_advise(space, va, 64 * PAGE, VL_ADVISE_RANDOM), VL_OK);
    around = usage(space).file;
    assert_int_equal(sim_load(va + 9 * PAGE, &value), VL_OK);
    assert_int_equal(usage(space).file, around + 1);
    vl_object_put(object);
    space_off(space);
}

static void truncation_reaches_every_mapping(void **state)
{
    struct vl_space *space = space_on();
    struct vl_object *object = object_new(32);
    vl_va shared = map_object(space, object, 0, 32 * PAGE, VL_READ | VL_WRITE, VL_MAP_SHARED);
    vl_va private =
        map_object(space, object, 8 * PAGE, 24 * PAGE, VL_READ | VL_WRITE, VL_MAP_PRIVATE);
    struct vl_space *child;
    uint64_t value;

    (void)state;
    for (unsigned i = 0; i < 32; i++) {
        assert_int_equal(sim_load(shared + i * PAGE, &value), VL_OK);
    }
    for (unsigned i = 0; i < 24; i += 2) {
        assert_int_equal(sim_store(private + i * PAGE, 9), VL_OK);
        assert_int_equal(sim_load(private + (i + 1) * PAGE, &value), VL_OK);
    }
    assert_int_equal(vl_space_fork(space, &child), VL_OK);
    sim_space_switch(child);
    assert_int_equal(sim_store(private + 22 * PAGE, 10), VL_OK);
    assert_int_equal(sim_load(shared + 31 * PAGE, &value), VL_OK);
    sim_space_switch(space);
    assert_int_equal(sim_store(shared + 20 * PAGE + 8, 6), VL_OK);
    assert_int_equal(vl_object_truncate(object, 20 * PAGE + 8), VL_OK);
    assert_int_equal(vl_object_size(object), 20 * PAGE + 8);
    assert_int_equal(vl_object_pages(object), 21);
    vl_space_validate(space);
    vl_space_validate(child);
    for (unsigned i = 0; i < 32; i++) {
        assert_int_equal(sim_load(shared + i * PAGE, &value), i < 21 ? VL_OK : VL_EBUSERROR);
        assert_int_equal(sim_store(shared + i * PAGE, 3), i < 21 ? VL_OK : VL_EBUSERROR);
    }
    assert_int_equal(sim_load(shared + 20 * PAGE + 8, &value), VL_OK);
    assert_int_equal(value, 0); /* the tail of the last page */
    for (unsigned i = 0; i < 24; i++) {
        assert_int_equal(sim_load(private + i * PAGE, &value), i < 13 ? VL_OK : VL_EBUSERROR);
        assert_int_equal(sim_store(private + i * PAGE, 3), i < 13 ? VL_OK : VL_EBUSERROR);
    }
    sim_space_switch(child);
    assert_int_equal(sim_load(private + 22 * PAGE, &value), VL_EBUSERROR);
    assert_int_equal(sim_load(shared + 31 * PAGE, &value), VL_EBUSERROR);
    /* Grown again it reads as zeros, also where data had been. */
    assert_int_equal(vl_object_extend(object, 32 * PAGE), VL_OK);
    assert_int_equal(sim_load(shared + 31 * PAGE, &value), VL_OK);
    assert_int_equal(value, 0);
    assert_int_equal(sim_load(private + 22 * PAGE, &value), VL_OK);
    assert_int_equal(value, 0);
    vl_space_validate(child);
    assert_int_equal(vl_object_truncate(object, 0), VL_OK);
    assert_int_equal(vl_object_pages(object), 0);
    assert_int_equal(usage(child).file + usage(child).anonymous, 0);
    sim_space_switch(space);
    vl_space_put(child);
    vl_object_put(object);
    space_off(space);
}

static void holes_read_as_zeros_again(void **state)
{
    struct vl_space *space = space_on();
    struct vl_object *object = object_new(8);
    vl_va va = map_object(space, object, 0, 8 * PAGE, VL_READ | VL_WRITE, VL_MAP_SHARED);
    uint64_t value;

    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(sim_load(va + i * PAGE, &value), VL_OK);
    }
    assert_int_equal(vl_object_punch(object, 2 * PAGE, 5 * PAGE), VL_OK);
    assert_int_equal(usage(space).file, 5);
    assert_int_equal(vl_object_pages(object), 5);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(sim_load(va + i * PAGE, &value), VL_OK);
        assert_int_equal(value, i >= 2 && i < 5 ? 0 : i + 1);
    }
    vl_space_validate(space);
    vl_object_put(object);
    space_off(space);
}

static void shared_anonymous_memory_is_shared_by_fork(void **state)
{
    struct vl_space *space = space_on();
    struct vl_map_request r = {.len = 8 * PAGE, .prot = VL_READ | VL_WRITE, .kind = VL_MAP_SHARED};
    struct vl_space *child;
    struct vl_memory_key a;
    struct vl_memory_key b;
    uint64_t value;
    vl_va va;

    (void)state;
    assert_int_equal(vl_space_map(space, &r, &va), VL_OK);
    assert_int_equal(sim_store(va, 1), VL_OK);
    assert_int_equal(vl_space_fork(space, &child), VL_OK);
    sim_space_switch(child);
    assert_int_equal(sim_load(va, &value), VL_OK);
    assert_int_equal(value, 1);
    assert_int_equal(sim_store(va + 5 * PAGE, 2), VL_OK);
    sim_space_switch(space);
    assert_int_equal(sim_load(va + 5 * PAGE, &value), VL_OK);
    assert_int_equal(value, 2);
    assert_int_equal(vl_space_key(space, va + 8, &a), VL_OK);
    assert_int_equal(vl_space_key(child, va + 8, &b), VL_OK);
    assert_true(a.id == b.id && a.offset == b.offset);
    vl_space_validate(child);
    vl_space_put(child);
    space_off(space);
}

static void reserved_frames_are_used_where_they_lie(void **state)
{
    struct sim_config config = {.cpus = 1, .seed = 1, .quiet = true, .range_count = 2};
    struct vl_frame_counts before;
    struct vl_frame_counts after;
    struct vl_object *object;
    struct vl_pfn pfn = {0x900};
    struct vl_pfn got;

    (void)state;
    config.ranges[0] = (struct vl_range){{4u << 20}, {8u << 20}, 0, 0};
    config.ranges[1] = (struct vl_range){{8u << 20}, {16u << 20}, 0, 1};
    config.ranges[0].end.a = 8u << 20;
    sim_start(&config);
    vl_drain_all();
    vl_frame_counts(&before);
    ((uint64_t *)vl_frame_to_virt(pfn))[0] = 11;
    ((uint64_t *)vl_frame_to_virt(pfn))[2] = 13;
    assert_int_equal(vl_object_create(NULL, NULL, &object), VL_OK);
    assert_int_equal(vl_object_adopt(object, 3, pfn, 16), VL_OK);
    assert_int_equal(vl_object_adopt(object, 4, pfn, 16), VL_EINVAL); /* reserved no more */
    assert_int_equal(vl_object_adopt(object, 3, (struct vl_pfn){0x901}, 16), VL_EEXIST);
    assert_int_equal(vl_object_adopt(object, 4, (struct vl_pfn){5u << 8}, 16), VL_EINVAL);
    assert_int_equal(vl_object_adopt(object, 4, (struct vl_pfn){1u << 30}, 16), VL_EINVAL);
    assert_int_equal(vl_object_page_get(object, 3, VL_PAGE_FIND, &got), VL_OK);
    assert_int_equal(got.n, pfn.n);
    vl_object_page_put(got);
    assert_int_equal(object_word(object, 3 * PAGE), 11);
    assert_int_equal(object_word(object, 3 * PAGE + 16), 0); /* beyond what was valid */
    vl_object_put(object);
    vl_drain_all();
    vl_frame_counts(&after);
    assert_int_equal(after.free_zones + after.free_stock,
                     before.free_zones + before.free_stock + 1);
    assert_int_equal(after.reserved, before.reserved - 1);
    sim_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_reference_ends_it_once),
        cmocka_unit_test(pages_stand_at_any_index),
        cmocka_unit_test(random_pages_agree_with_a_map),
        cmocka_unit_test(mappings_and_object_are_one_memory),
        cmocka_unit_test(reads_map_what_lies_around),
        cmocka_unit_test(truncation_reaches_every_mapping),
        cmocka_unit_test(holes_read_as_zeros_again),
        cmocka_unit_test(shared_anonymous_memory_is_shared_by_fork),
        cmocka_unit_test(reserved_frames_are_used_where_they_lie),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
