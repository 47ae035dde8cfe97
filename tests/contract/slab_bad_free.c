/*
 * Goal: what is freed twice, or was never an object, ends in a panic that says so, at the latest
 * when its cache gives back what CPUs keep; in every build, not only in debug ones.
 * Method: each kind of bad free in a child process, alone and among good ones, with the drain after
 * it. Strategies that link free units see only a part of these without DEBUG=1: they are asked for
 * the ones that they promise.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "core/slab/slab.h"
#include "machine/sim/sim.h"

#define COUNT 40u

static struct vl_cache *odd;   /* a slab of it has a tail that is no unit */
static struct vl_cache *other; /* of the same size, and yet another */
static unsigned char *objects[COUNT];

static void fill(struct vl_cache *cache)
{
    for (unsigned i = 0; i < COUNT; i++) {
        objects[i] = vl_cache_alloc(cache, VL_ATOMIC);
        assert_non_null(objects[i]);
    }
}

/* All of them go, and @bad in their middle. */
static void free_among(struct vl_cache *cache, void *bad)
{
    for (unsigned i = 0; i < COUNT; i++) {
        vl_cache_free(cache, objects[i]);
        if (i == COUNT / 2) {
            vl_cache_free(cache, bad);
        }
    }
    vl_drain_all();
}

static void twice(void *arg)
{
    fill(odd);
    free_among(odd, objects[(uintptr_t)arg]);
}

static void inside(void *arg)
{
    fill(odd);
    free_among(odd, objects[3] + (uintptr_t)arg);
}

/* Beyond the last unit of a slab, where a further one would begin. */
static void behind(void *arg)
{
    struct vl_frame *head;
    uintptr_t base;

    (void)arg;
    fill(odd);
    head = vli_slab_head(vli_virt_frame((uintptr_t)objects[0]));
    base = (uintptr_t)vli_frame_virt(vli_frame_pfn(head));
    free_among(odd, (void *)(base + odd->shift + vli_slab_units(head) * odd->unit_bytes));
}

static void foreign(void *arg)
{
    void *object = vl_cache_alloc(other, VL_ATOMIC);

    (void)arg;
    fill(odd);
    free_among(odd, object);
}

static void kfree_twice(void *arg)
{
    void *first = vl_kmalloc_any((size_t)(uintptr_t)arg, VL_ATOMIC);
    void *second = vl_kmalloc_any((size_t)(uintptr_t)arg, VL_ATOMIC);

    vl_kfree(first);
    vl_kfree(second);
    vl_kfree(first);
    vl_drain_all();
}

static void kfree_of_a_frame(void *arg)
{
    struct vl_pfn pfn;

    (void)arg;
    assert_int_equal(vl_frame_alloc(0, VL_ATOMIC, &pfn), VL_OK);
    vl_kfree(vl_frame_to_virt(pfn));
}

static void kfree_of_free_memory(void *arg)
{
    struct vl_pfn pfn;

    (void)arg;
    assert_int_equal(vl_frame_alloc(3, VL_ATOMIC, &pfn), VL_OK);
    vl_frame_free(pfn, 3);
    vl_kfree(vl_frame_to_virt(pfn));
}

static void kfree_inside_of_frames(void *arg)
{
    unsigned char *large = vl_kmalloc_any(5u * VL_PAGE_SIZE, VL_ATOMIC);

    vl_kfree(large + (uintptr_t)arg);
}

static void nothing_bad(void *arg)
{
    (void)arg;
    fill(odd);
    free_among(odd, vl_cache_alloc(odd, VL_ATOMIC));
    fill(other);
    free_among(other, vl_cache_alloc(other, VL_ATOMIC));
}

static void start(void)
{
    struct sim_config config = {.ram_bytes = 64u << 20, .cpus = 1, .seed = 1, .quiet = true};
    /* Seven to a page, which leaves 64 bytes; with a constructor it shares with no other. */
    struct vl_cache_spec spec = {.name = "odd", .size = 576};

    sim_start(&config);
    assert_int_equal(vl_cache_create(&spec, &odd), VL_OK);
    spec.name = "other";
    spec.size = 584;
    assert_int_equal(vl_cache_create(&spec, &other), VL_OK);
}

static void bad_units(void **state)
{
    const char *no_object = VLI_MARK_HEAD == 0 ? "which is inside an object" : "";

    (void)state;
    start();
    assert_false(sim_dies(nothing_bad, NULL, ""));
    for (uintptr_t i = 0; i <= COUNT / 2; i++) {
        assert_true(sim_dies(twice, (void *)i, "freed twice"));
    }
    assert_true(sim_dies(inside, (void *)8, no_object));
    assert_true(sim_dies(inside, (void *)400, no_object));
    assert_true(sim_dies(behind, NULL, no_object));
    assert_true(sim_dies(foreign, NULL, ""));
    for (uintptr_t size = 8; size <= VL_KMALLOC_CACHED_MAX; size *= 2) {
        assert_true(sim_dies(kfree_twice, (void *)size, "freed twice"));
    }
    sim_stop();
}

static void bad_frames(void **state)
{
    (void)state;
    start();
    assert_true(sim_dies(kfree_of_a_frame, NULL, ""));
    assert_true(sim_dies(kfree_of_free_memory, NULL, ""));
    for (uintptr_t offset = 8; offset < 8u * VL_PAGE_SIZE; offset = offset * 3 / 8 * 8) {
        assert_true(sim_dies(kfree_inside_of_frames, (void *)offset, ""));
    }
    sim_stop();
}

int main(void)
{
    const struct CMUnitTest all[] = {cmocka_unit_test(bad_frames), cmocka_unit_test(bad_units)};

    /* Without links in the units, or with marks, all is seen. */
    if (VLI_SLAB_LINK_BYTES == 0 || VLI_MARK_HEAD != 0) {
        return cmocka_run_group_tests(all, NULL, NULL);
    }
    return _cmocka_run_group_tests("frames", all, 1, NULL, NULL);
}
