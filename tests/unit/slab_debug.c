/*
 * Goal: what a user of objects does wrong is caught: in debug builds double and wild frees, writes
 * beyond, before and after, with the one who did the last right thing; in every build a free of
 * what is no object.
 * Method: each fault by hand, in a child process. Without DEBUG the faults that only a debug build
 * sees are not tried: they break the heap.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "core/slab/slab.h"
#include "machine/sim/sim.h"

static void start(void)
{
    struct sim_config config = {.ram_bytes = 16u << 20, .cpus = 1, .seed = 1, .quiet = true};

    sim_start(&config);
}

static void *object_of(size_t size)
{
    void *object = vl_kmalloc_any(size, VL_ATOMIC);

    assert_non_null(object);
    return object;
}

/* ---- in every build ---- */

static void free_raw_frame(void *arg)
{
    struct vl_pfn pfn;

    (void)arg;
    assert_int_equal(vl_frame_alloc(0, VL_ATOMIC, &pfn), VL_OK);
    vl_kfree(vl_frame_to_virt(pfn));
}

static void free_large_twice(void *arg)
{
    void *object = object_of(40000);

    (void)arg;
    vl_kfree(object);
    vl_kfree(object);
}

static void free_inside_large(void *arg)
{
    (void)arg;
    vl_kfree((char *)object_of(40000) + 64);
}

static void no_object_at_all(void **state)
{
    (void)state;
    start();
    assert_true(sim_dies(free_raw_frame, NULL, "nobody was given"));
    assert_true(sim_dies(free_large_twice, NULL, "nobody was given"));
    assert_true(sim_dies(free_inside_large, NULL, "nobody was given"));
    sim_stop();
}

#ifdef VL_DEBUG
static void free_twice(void *arg)
{
    void *object = object_of(*(size_t *)arg);

    vl_kfree(object);
    vl_kfree(object);
}

static void free_twice_from_a_full_slab(void *arg)
{
    void *objects[400];

    for (unsigned i = 0; i < 400; i++) {
        objects[i] = object_of(*(size_t *)arg);
    }
    vl_kfree(objects[3]); /* not of the current slab by now */
    vl_kfree(objects[3]);
}

static void free_inside(void *arg)
{
    vl_kfree((char *)object_of(*(size_t *)arg) + 8);
}

/* Before the first object of a slab, where the arithmetic on units wraps. */
static void free_before_the_first(void *arg)
{
    uintptr_t object = (uintptr_t)object_of(*(size_t *)arg);

    vl_kfree((void *)(object & ~(uintptr_t)VL_PAGE_MASK));
}

static void free_wild(void *arg)
{
    (void)arg;
    vl_kfree((void *)(uintptr_t)0x123456780);
}

static void write_beyond(void *arg)
{
    size_t size = *(size_t *)arg;
    char *object = object_of(size);

    object[vli_caches[VL_KMALLOC_CLASS(size)].object_bytes] = 1;
    vl_kfree(object);
}

static void write_before(void *arg)
{
    char *object = object_of(*(size_t *)arg);

    object[-1] = 1;
    vl_kfree(object);
}

static void write_after_free(void *arg)
{
    char *object = object_of(*(size_t *)arg);

    vl_kfree(object);
    object[*(size_t *)arg / 2] = 1;
    for (unsigned i = 0; i < 1000; i++) {
        (void)object_of(*(size_t *)arg);
    }
}

static void free_to_another_cache(void *arg)
{
    struct vl_cache_spec spec = {.name = "one", .size = 64};
    struct vl_cache *one;
    struct vl_cache *other;

    (void)arg;
    assert_int_equal(vl_cache_create(&spec, &one), VL_OK);
    spec.name = "other";
    assert_int_equal(vl_cache_create(&spec, &other), VL_OK);
    vl_cache_free(other, vl_cache_alloc(one, VL_ATOMIC));
}

static void faults_of_objects(void **state)
{
    size_t sizes[] = {8, 40, 128, 1000, 4096, 16384};

    (void)state;
    start();
    for (unsigned i = 0; i < VLI_COUNT_OF(sizes); i++) {
        void *size = &sizes[i];

        assert_true(sim_dies(free_twice, size, "freed twice"));
        assert_true(sim_dies(free_twice, size, "last freed by 0x"));
        assert_true(sim_dies(free_inside, size, "inside an object"));
        if (sizes[i] < VL_PAGE_SIZE) {
            assert_true(sim_dies(free_before_the_first, size, "inside an object"));
        }
        assert_true(sim_dies(write_beyond, size, "written beyond its end"));
        assert_true(sim_dies(write_beyond, size, "last allocated by 0x"));
        assert_true(sim_dies(write_before, size, "written before its start"));
        assert_true(sim_dies(write_after_free, size, "written after it was freed"));
    }
    assert_true(sim_dies(free_twice_from_a_full_slab, &sizes[2], "freed twice"));
    assert_true(sim_dies(free_wild, NULL, "no memory of ours"));
    assert_true(sim_dies(free_to_another_cache, NULL, "not of cache other"));
    sim_stop();
}
#define TEST_OBJECTS cmocka_unit_test(faults_of_objects),
#else
#define TEST_OBJECTS
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_object_at_all), TEST_OBJECTS};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
