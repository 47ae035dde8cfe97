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
#include <stdio.h>
#include <string.h>
#include "core/base/log.h"
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

/* ---- by size: the bytes that were asked for, and not those of the class ---- */

static void write_beyond_size(void *arg)
{
    size_t size = *(size_t *)arg;
    char *object = object_of(size);

    object[size] = 1;
    vl_kfree(object);
}

static void write_beyond_constant(void *arg)
{
    char *object = vl_kmalloc(5, VL_ATOMIC);

    (void)arg;
    object[5] = 1;
    vl_kfree(object);
}

static void write_beyond_aligned(void *arg)
{
    size_t size = *(size_t *)arg;
    char *object = vl_kmalloc_aligned(size, 64, VL_ATOMIC);

    object[size] = 1;
    vl_kfree(object);
}

static void write_beyond_resized(void *arg)
{
    size_t size = *(size_t *)arg;
    char *object = object_of(size);

    object = vl_krealloc(object, size - 1, VL_ATOMIC);
    object[size - 1] = 1;
    assert_null(vl_krealloc(object, size, VL_ATOMIC));
}

/* All that was asked for may be written, whatever way the size came to be. */
static void write_all(void *arg)
{
    size_t size = *(size_t *)arg;
    char *object = object_of(size);

    memset(object, 1, size);
    assert_int_equal(vl_ksize(object), size);
    object = vl_krealloc(object, size - 3, VL_ATOMIC);
    memset(object, 1, size - 3);
    object = vl_krealloc(object, size + 1, VL_ATOMIC);
    memset(object, 1, size + 1);
    vl_kfree(object);
    object = vl_kmalloc_aligned(size, 256, VL_ATOMIC);
    memset(object, 1, size);
    vl_kfree(object);
    vl_drain_all();
    vli_panic("all is well");
}

static void resize_freed(void *arg)
{
    void *object = object_of(*(size_t *)arg);

    vl_kfree(object);
    assert_null(vl_krealloc(object, 8, VL_ATOMIC));
}

static void size_of_freed(void *arg)
{
    void *object = object_of(*(size_t *)arg);

    vl_kfree(object);
    assert_int_equal(vl_ksize(object), 0);
}

static void faults_of_sizes(void **state)
{
    size_t sizes[] = {5, 20, 97, 1000, 3073, 12287, 16385, 20000, 100001};

    (void)state;
    start();
    assert_true(sim_dies(write_beyond_constant, NULL, "written beyond its end"));
    for (unsigned i = 0; i < VLI_COUNT_OF(sizes); i++) {
        void *size = &sizes[i];

        assert_true(sim_dies(write_all, size, "all is well"));
        assert_true(sim_dies(write_beyond_size, size, "written beyond its end"));
        assert_true(sim_dies(write_beyond_size, size, "last allocated by 0x"));
        assert_true(sim_dies(write_beyond_aligned, size, "written beyond its end"));
        if (sizes[i] <= VL_KMALLOC_CACHED_MAX) {
            assert_true(sim_dies(write_beyond_resized, size, "written beyond its end"));
            assert_true(sim_dies(resize_freed, size, "used after it was freed"));
            assert_true(sim_dies(size_of_freed, size, "used after it was freed"));
        } else {
            assert_true(sim_dies(resize_freed, size, "nothing that vl_kmalloc() gave"));
        }
    }
    sim_stop();
}

/* ---- several at once ---- */

static struct vl_cache *many_cache(void)
{
    struct vl_cache_spec spec = {.name = "many", .size = 48};
    struct vl_cache *cache;

    assert_int_equal(vl_cache_create(&spec, &cache), VL_OK);
    return cache;
}

static void free_twice_at_once(void *arg)
{
    struct vl_cache *cache = many_cache();
    void *objects[30];

    (void)arg;
    assert_int_equal(vl_cache_alloc_bulk(cache, VL_ATOMIC, 30, objects), VL_OK);
    objects[17] = objects[4];
    vl_cache_free_bulk(cache, 30, objects);
}

static void write_beyond_one_of_many(void *arg)
{
    struct vl_cache *cache = many_cache();
    void *objects[30];

    (void)arg;
    assert_int_equal(vl_cache_alloc_bulk(cache, VL_ATOMIC, 30, objects), VL_OK);
    ((char *)objects[9])[48] = 1;
    vl_cache_free_bulk(cache, 30, objects);
}

static void faults_of_many(void **state)
{
    (void)state;
    start();
    assert_true(sim_dies(free_twice_at_once, NULL, "freed twice"));
    assert_true(sim_dies(write_beyond_one_of_many, NULL, "written beyond its end"));
    sim_stop();
}

/* ---- who it was ---- */

static uintptr_t place_of_alloc;
static uintptr_t place_of_free;

/* Out of line, so that the place is that of the one call in it. */
static VLI_NOINLINE void *alloc_here(void)
{
    void *object = vl_kmalloc_any(100, VL_ATOMIC);

    assert_non_null(object);
    return object;
}

static VLI_NOINLINE void free_here(void *object)
{
    vl_kfree(object);
    assert_non_null(object);
}

static const struct vli_slab_mark *mark_of(const void *object)
{
    return (const void *)((const char *)object - vli_caches[VL_KMALLOC_CLASS(100)].shift);
}

static void free_here_twice(void *arg)
{
    free_here(arg);
    free_here(arg);
}

/* Is @place in the function at @start, all of which is within so many bytes? */
static bool is_in(uintptr_t place, uintptr_t start)
{
    return place > start && place < start + 200;
}

static void owners_are_named(void **state)
{
    char line[100];
    void *object;

    (void)state;
    start();
    object = alloc_here();
    place_of_alloc = mark_of(object)->alloc_by;
    assert_true(is_in(place_of_alloc, (uintptr_t)alloc_here));
    free_here(object);
    place_of_free = mark_of(object)->free_by;
    assert_true(is_in(place_of_free, (uintptr_t)free_here));
    assert_true(mark_of(object)->alloc_by == place_of_alloc);
    object = alloc_here();
    snprintf(line, sizeof(line), "last freed by 0x%lx on CPU 0", (unsigned long)place_of_free);
    assert_true(sim_dies(free_here_twice, object, line));
    snprintf(line, sizeof(line), "before: allocated by 0x%lx on CPU 0",
             (unsigned long)place_of_alloc);
    assert_true(sim_dies(free_here_twice, object, line));
    sim_stop();
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
#define TEST_OBJECTS                                                                               \
    cmocka_unit_test(faults_of_objects), cmocka_unit_test(faults_of_sizes),                        \
        cmocka_unit_test(faults_of_many), cmocka_unit_test(owners_are_named),
#else
/* What the lists of a slab's units show without marks: more units than there are. */
static void kfree_twice_and_drain(void *arg)
{
    void *object = object_of(*(size_t *)arg);

    vl_kfree(object);
    vl_kfree(object);
    vl_drain_all();
}

static void twice_in_every_build(void **state)
{
    size_t sizes[] = {8, 40, 128, 1000, 4096, 16384};

    (void)state;
    start();
    for (unsigned i = 0; i < VLI_COUNT_OF(sizes); i++) {
        assert_true(sim_dies(kfree_twice_and_drain, &sizes[i], "freed twice"));
    }
    sim_stop();
}
#define TEST_OBJECTS cmocka_unit_test(twice_in_every_build),
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_object_at_all), TEST_OBJECTS};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
