/*
 * Goal: what is built on single objects keeps its promises with every strategy of SLAB: several
 * objects at once come whole or not at all, sizes change with their contents, alignments hold,
 * products that overflow are refused, and slabs waste as little as any order allows.
 * Method: each call for all sizes that differ in kind, contents checked around it; every allocation
 * failed in turn; the number of free frames at the end is that of the start.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "core/frame/frame.h"
#include "core/slab/slab.h"
#include "machine/sim/sim.h"

#define MIB (1ull << 20)

static uint64_t free_before;

static uint64_t free_frames(void)
{
    struct vl_frame_counts counts;

    vl_drain_all();
    vl_frame_counts(&counts);
    return counts.free_zones + counts.free_stock;
}

static void machine_on(unsigned cpus, uint64_t bytes)
{
    struct sim_config config = {.ram_bytes = bytes, .cpus = cpus, .seed = 3, .quiet = true};

    sim_start(&config);
    free_before = free_frames();
}

static void machine_off(void)
{
    vli_slab_validate();
    assert_int_equal(free_frames(), free_before);
    vli_frame_validate();
    sim_stop();
}

static void fill(void *object, size_t from, size_t to, unsigned salt)
{
    for (size_t i = from; i < to; i++) {
        ((unsigned char *)object)[i] = (unsigned char)(i * 7 + salt);
    }
}

static bool holds(const void *object, size_t size, unsigned salt)
{
    for (size_t i = 0; i < size; i++) {
        if (((const unsigned char *)object)[i] != (unsigned char)(i * 7 + salt)) {
            return false;
        }
    }
    return true;
}

static bool is_zero(const void *object, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        if (((const unsigned char *)object)[i] != 0) {
            return false;
        }
    }
    return true;
}

/* ---- several at once ---- */

#define MANY 600u

static void construct(void *object)
{
    *(uint64_t *)object = 0x1234567890abcdef;
}

static void bulk_of(size_t size, size_t count, void (*constructor)(void *))
{
    struct vl_cache_spec spec = {.name = "bulk", .size = size, .constructor = constructor};
    struct vl_cache *cache;
    void *objects[MANY];

    assert_int_equal(vl_cache_create(&spec, &cache), VL_OK);
    for (unsigned round = 0; round < 3; round++) {
        vl_how_t how = round == 1 && constructor == NULL ? VL_WAIT | VL_ZEROED : VL_ATOMIC;

        assert_int_equal(vl_cache_alloc_bulk(cache, how, count, objects), VL_OK);
        for (unsigned i = 0; i < count; i++) {
            assert_true(constructor == NULL || *(uint64_t *)objects[i] == 0x1234567890abcdef);
            assert_true((how & VL_ZEROED) == 0 || is_zero(objects[i], 0, size));
            fill(objects[i], constructor == NULL ? 0 : 8, size, i);
        }
        for (unsigned i = 0; i < count && constructor == NULL; i++) {
            assert_true(holds(objects[i], size, i));
        }
        for (unsigned i = 0; i < count && round == 2; i += 2) { /* every other one by itself */
            vl_cache_free(cache, objects[i]);
            objects[i / 2] = i + 1 < count ? objects[i + 1] : NULL;
        }
        vl_cache_free_bulk(cache, round == 2 ? count / 2 : count, objects);
        vli_slab_validate();
    }
    assert_int_equal(vl_cache_destroy(cache), VL_OK);
}

static void bulk_of_all_kinds(void **state)
{
    (void)state;
    machine_on(1, 64 * MIB);
    for (size_t size = 8; size <= VL_KMALLOC_CACHED_MAX; size *= 2) {
        for (size_t count = 0; count <= MANY; count += count < 3 ? 1 : 199) {
            bulk_of(size, count, NULL);
        }
        bulk_of(size, 100, construct);
    }
    machine_off();
}

/* More than there is: nothing is had, and nothing is lost. */
static void bulk_is_all_or_nothing(void **state)
{
    struct vl_cache_spec spec = {.name = "bulk", .size = 4096};
    static void *objects[4096];
    struct vl_cache *cache;

    (void)state;
    machine_on(1, 8 * MIB);
    assert_int_equal(vl_cache_create(&spec, &cache), VL_OK);
    assert_int_equal(vl_cache_alloc_bulk(cache, VL_ATOMIC, 4096, objects), VL_ENOMEM);
    assert_int_equal(vl_cache_alloc_bulk(cache, VL_WAIT, 4096, objects), VL_ENOMEM);
    assert_int_equal(vl_cache_alloc_bulk(cache, VL_ATOMIC, 200, objects), VL_OK);
    vl_cache_free_bulk(cache, 200, objects);
    for (uint64_t step = 0, before = UINT64_MAX; before != sim_fail_count(); step++) {
        before = sim_fail_count();
        sim_fail_after(step);
        if (vl_cache_alloc_bulk(cache, VL_ATOMIC, 100, objects) == VL_OK) {
            vl_cache_free_bulk(cache, 100, objects);
        }
        sim_fail_after(UINT64_MAX);
        (void)vl_cache_shrink(cache);
        vli_slab_validate();
        assert_true(step > 0 || before != sim_fail_count());
    }
    assert_int_equal(vl_cache_destroy(cache), VL_OK);
    machine_off();
}

/* ---- sizes change ---- */

static const size_t sizes[] = {0,    1,    7,    8,     9,     24,    64,    65,    100,
                               1000, 2047, 4096, 10000, 16384, 16385, 70000, 300000};

static void resize(size_t from, size_t to, vl_how_t how)
{
    void *object = vl_kmalloc(from, how);
    void *fresh;
    size_t kept = from < to ? from : to;

    assert_non_null(object);
    assert_true(vl_ksize(object) >= from);
    fill(object, 0, from, 5);
    fresh = vl_krealloc(object, to, how);
    assert_non_null(fresh);
    assert_true(vl_ksize(fresh) >= to);
    assert_true(holds(fresh, kept, 5));
    assert_true((how & VL_ZEROED) == 0 || is_zero(fresh, from, to));
    fill(fresh, 0, vl_ksize(fresh), 9); /* all of it is ours */
    assert_true(holds(fresh, vl_ksize(fresh), 9));
    vl_kfree(fresh);
}

static void every_size_to_every_other(void **state)
{
    (void)state;
    machine_on(1, 64 * MIB);
    for (unsigned i = 0; i < VLI_COUNT_OF(sizes); i++) {
        for (unsigned j = 0; j < VLI_COUNT_OF(sizes); j++) {
            resize(sizes[i], sizes[j], VL_ATOMIC);
            resize(sizes[i], sizes[j], VL_WAIT | VL_ZEROED);
        }
    }
    assert_int_equal(vl_ksize(NULL), 0);
    vl_kfree(vl_krealloc(NULL, 100, VL_ATOMIC));
    machine_off();
}

/* Zeroed all along: what comes into view is zero, after a shrink too. */
static void zeroed_all_along(void **state)
{
    unsigned char *object;

    (void)state;
    machine_on(1, 64 * MIB);
    for (size_t room = 16; room <= 65536; room *= 4) {
        object = vl_krealloc(NULL, room, VL_ATOMIC | VL_ZEROED);
        for (size_t part = room; part > room / 8; part -= room / 16) {
            memset(object, 0xff, part);
            object = vl_krealloc(object, part - room / 16, VL_ATOMIC | VL_ZEROED);
            object = vl_krealloc(object, part, VL_ATOMIC | VL_ZEROED);
            assert_true(is_zero(object, part - room / 16, part));
        }
        vl_kfree(object);
    }
    machine_off();
}

static void growth_that_fails_changes_nothing(void **state)
{
    char *object;

    (void)state;
    machine_on(1, 16 * MIB);
    for (unsigned i = 0; i < VLI_COUNT_OF(sizes); i++) {
        object = vl_kmalloc(sizes[i], VL_ATOMIC);
        fill(object, 0, sizes[i], 1);
        sim_fail_from(0);
        assert_null(vl_krealloc(object, vl_ksize(object) * 2 + 4096, VL_WAIT));
        assert_null(vl_krealloc(object, VL_KMALLOC_MAX + 1, VL_WAIT));
        assert_null(vl_krealloc_array(object, SIZE_MAX / 2, 4, VL_WAIT));
        assert_true(holds(object, sizes[i], 1));
        for (size_t size = sizes[i]; size > 0; size /= 2) { /* less never fails */
            object = vl_krealloc(object, size, VL_ATOMIC);
            assert_non_null(object);
            assert_true(holds(object, size, 1));
        }
        sim_fail_from(UINT64_MAX);
        vl_kfree(object);
    }
    machine_off();
}

/* Whole frames that shrink give the rest back where they lie. */
static void large_ones_shrink_in_place(void **state)
{
    struct vl_frame_counts counts;
    uint64_t before;
    char *object;

    (void)state;
    machine_on(1, 64 * MIB);
    object = vl_kmalloc(MIB, VL_WAIT);
    fill(object, 0, 20000, 4);
    vl_frame_counts(&counts);
    before = counts.free_zones + counts.free_stock;
    assert_ptr_equal(vl_krealloc(object, 20000, VL_WAIT), object);
    vl_frame_counts(&counts);
    assert_int_equal(counts.free_zones + counts.free_stock - before, 256 - 5);
    assert_true(holds(object, 20000, 4));
    vl_kfree(object);
    machine_off();
}

/* ---- alignments, products ---- */

static void every_alignment(void **state)
{
    unsigned char *objects[3];

    (void)state;
    machine_on(1, 64 * MIB);
    for (size_t align = 1; align <= VL_KMALLOC_MAX; align *= 2) {
        for (unsigned i = 0; i < VLI_COUNT_OF(sizes); i++) {
            for (unsigned n = 0; n < 3; n++) {
                objects[n] =
                    vl_kmalloc_aligned(sizes[i], align, n == 1 ? VL_WAIT | VL_ZEROED : VL_WAIT);
                assert_non_null(objects[n]);
                assert_int_equal((uintptr_t)objects[n] % align, 0);
                assert_true(n != 1 || is_zero(objects[n], 0, sizes[i]));
                fill(objects[n], 0, sizes[i], n);
            }
            for (unsigned n = 0; n < 3; n++) {
                assert_true(holds(objects[n], sizes[i], n));
                vl_kfree(objects[n]);
            }
        }
        vl_drain_all(); /* slabs that are kept would split the largest blocks */
    }
    assert_null(vl_kmalloc_aligned(8, 0, VL_ATOMIC));
    assert_null(vl_kmalloc_aligned(8, 24, VL_ATOMIC));
    assert_null(vl_kmalloc_aligned(8, VL_KMALLOC_MAX * 2, VL_ATOMIC));
    assert_null(vl_kmalloc_aligned(SIZE_MAX, 64, VL_ATOMIC));
    assert_null(vl_kmalloc_aligned(VL_KMALLOC_MAX + 1, 64, VL_WAIT));
    machine_off();
}

/* An alignment takes a large block for a moment, and holds no more than its size. */
static void alignment_keeps_no_tail(void **state)
{
    struct vl_frame_counts counts;
    void *object;

    (void)state;
    machine_on(1, 64 * MIB);
    object = vl_kmalloc_aligned(5000, 2 * MIB, VL_WAIT);
    assert_non_null(object);
    vl_frame_counts(&counts);
    assert_int_equal(free_before - counts.free_zones - counts.free_stock, 2);
    vl_kfree(object);
    machine_off();
}

/* RAM that the host sees 32 KiB beside a multiple of more: no object lies at one. */
static void alignment_that_the_host_does_not_keep(void **state)
{
    struct sim_config config = {.ram_bytes = 64 * MIB, .ram_offset = 32768, .quiet = true};
    void *object;

    (void)state;
    sim_start(&config);
    free_before = free_frames();
    for (size_t align = 8; align <= VL_KMALLOC_MAX; align *= 2) {
        object = vl_kmalloc_aligned(100, align, VL_WAIT);
        assert_true((object != NULL) == (align <= 32768));
        assert_int_equal((uintptr_t)object % align, 0);
        vl_kfree(object);
    }
    machine_off();
}

static void products(void **state)
{
    unsigned char *object;

    (void)state;
    machine_on(1, 16 * MIB);
    object = vl_kcalloc(30, 11, VL_ATOMIC);
    assert_non_null(object);
    assert_true(vl_ksize(object) >= 330 && is_zero(object, 0, 330));
    object = vl_krealloc_array(object, 40, 11, VL_ATOMIC);
    assert_true(vl_ksize(object) >= 440 && is_zero(object, 0, 330));
    vl_kfree(object);
    assert_null(vl_kmalloc_array(SIZE_MAX / 8 + 2, 8, VL_ATOMIC));
    assert_null(vl_kmalloc_array(8, SIZE_MAX / 8 + 2, VL_ATOMIC));
    assert_null(vl_kcalloc((size_t)1 << 32, (size_t)1 << 32, VL_ATOMIC));
    assert_null(vl_kcalloc(VL_KMALLOC_MAX, 2, VL_ATOMIC));
    vl_kfree(vl_kcalloc(0, SIZE_MAX, VL_ATOMIC));
    vl_kfree(vl_kcalloc(SIZE_MAX, 0, VL_ATOMIC));
    machine_off();
}

/* ---- waste ---- */

#define ORDER_MAX 4u /* of a slab whose units are no larger */

/* Does any order reach 1/100? Else the least part that any wastes, in 1/65536. */
static uint64_t least_waste(uint32_t unit, uint32_t order_min)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t order = order_min; order <= ORDER_MAX; order++) {
        uint64_t bytes = (uint64_t)VL_PAGE_SIZE << order;
        uint64_t waste = (bytes - (uint64_t)vli_slab_units_in(unit, order) * unit) * 65536 / bytes;

        least = waste < least ? waste : least;
    }
    return least;
}

static void no_order_wastes_less(void **state)
{
    unsigned within = 0;

    (void)state;
    machine_on(1, 16 * MIB);
    for (size_t size = 8; size <= VL_KMALLOC_CACHED_MAX; size += 8) {
        struct vl_cache_spec spec = {.name = "waste", .size = size, .flags = VL_CACHE_NO_MERGE};
        struct vl_cache *cache;
        struct vli_slab_info info;
        uint64_t bytes;
        uint64_t waste;

        assert_int_equal(vl_cache_create(&spec, &cache), VL_OK);
        assert_true(vli_slab_info(cache->index, &info));
        bytes = (uint64_t)info.frames_per_slab << VL_PAGE_SHIFT;
        waste = (bytes - (uint64_t)info.units_per_slab * info.unit_bytes) * 65536 / bytes;
        assert_true(bytes <= (uint64_t)VL_PAGE_SIZE << ORDER_MAX);
        assert_true(waste <= 65536 / 100 ||
                    waste == least_waste(cache->unit_bytes, cache->order_min));
        within += waste <= 65536 / 100 ? 1 : 0;
        assert_int_equal(vl_cache_destroy(cache), VL_OK);
    }
    assert_true(within > 200);
    machine_off();
}

#ifndef VL_DEBUG
/* What many objects of an exact size take beyond their bytes: slabs' ends, and what CPUs keep. */
static void exact_sizes_cost_a_hundredth(void **state)
{
    static const size_t exact[] = {24, 64, 96, 192, 256, 520, 1040, 2048, 4096};
    static void *objects[40000];
    struct vli_slab_info info;
    struct vl_cache *cache;

    (void)state;
    machine_on(1, 256 * MIB);
    for (unsigned i = 0; i < VLI_COUNT_OF(exact); i++) {
        struct vl_cache_spec spec = {.name = "exact", .size = exact[i], .flags = VL_CACHE_NO_MERGE};
        uint64_t bytes = VLI_COUNT_OF(objects) * exact[i];

        assert_int_equal(vl_cache_create(&spec, &cache), VL_OK);
        assert_int_equal(vl_cache_alloc_bulk(cache, VL_WAIT, VLI_COUNT_OF(objects), objects),
                         VL_OK);
        assert_true(vli_slab_info(cache->index, &info));
        assert_true((info.frames << VL_PAGE_SHIFT) <= bytes + bytes / 100 + 3 * 65536);
        vl_cache_free_bulk(cache, VLI_COUNT_OF(objects), objects);
        assert_int_equal(vl_cache_destroy(cache), VL_OK);
    }
    machine_off();
}
#define TEST_EXACT cmocka_unit_test(exact_sizes_cost_a_hundredth),
#else
#define TEST_EXACT /* marks and red zones are more than that */
#endif

/* A cache that is to be dense wastes the least that any order does. */
static void dense_is_the_least(void **state)
{
    (void)state;
    machine_on(1, 16 * MIB);
    for (size_t size = 8; size <= VL_KMALLOC_CACHED_MAX; size += 8) {
        struct vl_cache_spec spec = {.name = "dense", .size = size, .flags = VL_CACHE_DENSE};
        struct vl_cache *cache;
        uint64_t bytes;
        uint64_t waste;

        assert_int_equal(vl_cache_create(&spec, &cache), VL_OK);
        bytes = (uint64_t)VL_PAGE_SIZE << cache->order;
        waste = bytes -
                (uint64_t)vli_slab_units_in(cache->unit_bytes, cache->order) * cache->unit_bytes;
        assert_int_equal(waste * 65536 / bytes, least_waste(cache->unit_bytes, cache->order_min));
        assert_int_equal(vl_cache_destroy(cache), VL_OK);
    }
    machine_off();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bulk_of_all_kinds),
        cmocka_unit_test(bulk_is_all_or_nothing),
        cmocka_unit_test(every_size_to_every_other),
        cmocka_unit_test(zeroed_all_along),
        cmocka_unit_test(growth_that_fails_changes_nothing),
        cmocka_unit_test(large_ones_shrink_in_place),
        cmocka_unit_test(every_alignment),
        cmocka_unit_test(alignment_keeps_no_tail),
        cmocka_unit_test(alignment_that_the_host_does_not_keep),
        cmocka_unit_test(products),
        cmocka_unit_test(no_order_wastes_less),
        TEST_EXACT cmocka_unit_test(dense_is_the_least),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
