/*
 * Goal: creations of alike caches share one, with every strategy of SLAB, and what ends with
 * objects still out says so: how many, and in debug builds where they are and who has them. Method:
 * pairs of specs that are alike and pairs that are not; destruction in both orders; leaks made on
 * purpose, the log read in a child process.
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

#ifdef VL_DEBUG
#define SHARES false
#else
#define SHARES true
#endif

static uint64_t free_before;

static uint64_t free_frames(void)
{
    struct vl_frame_counts counts;

    vl_drain_all();
    vl_frame_counts(&counts);
    return counts.free_zones + counts.free_stock;
}

#if VL_SMP
#define CPUS 4u
#else
#define CPUS 1u
#endif

static void machine_on(void)
{
    struct sim_config config = {.ram_bytes = 64u << 20, .cpus = CPUS, .seed = 4, .quiet = true};

    sim_start(&config);
    free_before = free_frames();
}

static void machine_off(void)
{
    vli_slab_validate();
    assert_int_equal(free_frames(), free_before);
    sim_stop();
}

static void construct(void *object)
{
    *(uint64_t *)object = 7;
}

static struct vl_cache *create(struct vl_cache_spec spec)
{
    struct vl_cache *cache = NULL;

    assert_int_equal(vl_cache_create(&spec, &cache), VL_OK);
    assert_non_null(cache);
    return cache;
}

/* Creates both, uses both, destroys both. */
static void pair(struct vl_cache_spec one, struct vl_cache_spec other, bool is_shared)
{
    struct vl_cache *caches[2] = {create(one), create(other)};
    void *objects[2];

    assert_int_equal(caches[0] == caches[1], is_shared);
    for (unsigned i = 0; i < 2; i++) {
        size_t align = i == 0 ? one.align : other.align;
        size_t size = i == 0 ? one.size : other.size;

        objects[i] = vl_cache_alloc(caches[i], VL_ATOMIC | (one.constructor ? 0 : VL_ZEROED));
        assert_non_null(objects[i]);
        assert_int_equal((uintptr_t)objects[i] % (align == 0 ? 8 : align), 0);
        memset(objects[i], 0x5a, size);
    }
    vl_cache_free(caches[0], objects[0]);
    assert_int_equal(vl_cache_destroy(caches[0]), VL_OK);
    assert_int_equal(*(unsigned char *)objects[1], 0x5a); /* the other's object lives on */
    vl_cache_free(caches[1], objects[1]);
    objects[1] = vl_cache_alloc(caches[1], VL_ATOMIC);
    assert_non_null(objects[1]);
    vl_cache_free(caches[1], objects[1]);
    assert_int_equal(vl_cache_destroy(caches[1]), VL_OK);
}

static void alike_and_not(void **state)
{
    struct vl_cache_spec spec = {.name = "one", .size = 2000};
    struct vl_cache_spec other = {.name = "other", .size = 2000};

    (void)state;
    machine_on();
    pair(spec, other, SHARES);
    other.size = 1993; /* the same when rounded up */
    pair(spec, other, SHARES);
    pair(other, spec, SHARES);
    other.size = 1992;
    pair(spec, other, false);
    other = (struct vl_cache_spec){.name = "other", .size = 2000, .flags = VL_CACHE_NO_MERGE};
    pair(spec, other, false);
    pair(other, spec, false);
    other = (struct vl_cache_spec){.name = "other", .size = 2000, .constructor = construct};
    pair(spec, other, false);
    pair(other, spec, false);
    other = (struct vl_cache_spec){.name = "other", .size = 1980, .align = 64}; /* 1984 */
    pair(spec, other, false);
    spec.size = 4096;
    other.size = 4096;
    pair(spec, other, SHARES);
    pair(other, spec, SHARES);
    other.align = 4096;
    pair(spec, other, SHARES);
    machine_off();
}

/* kmalloc's caches are nobody else's. */
static void not_with_kmalloc(void **state)
{
    struct vl_cache *cache;

    (void)state;
    machine_on();
    for (size_t size = 8; size <= VL_KMALLOC_CACHED_MAX; size *= 2) {
        cache = create((struct vl_cache_spec){.name = "mine", .size = size, .align = 8});
        assert_true(cache->index >= VL_KMALLOC_CLASSES);
        assert_int_equal(vl_cache_destroy(cache), VL_OK);
    }
    machine_off();
}

/* What is zeroed is all that another creation's object may have used. */
static void zeroed_objects_are(void **state)
{
    struct vl_cache *large;
    struct vl_cache *small;

    (void)state;
    machine_on();
    large = create((struct vl_cache_spec){.name = "large", .size = 48});
    small = create((struct vl_cache_spec){.name = "small", .size = 41});
    for (unsigned i = 0; i < 200; i++) {
        unsigned char *object = vl_cache_alloc(small, VL_ATOMIC);

        memset(object, 0xff, 41);
        vl_cache_free(small, object);
        object = vl_cache_alloc(large, VL_ATOMIC | VL_ZEROED);
        for (unsigned at = 0; at < 48; at++) {
            assert_int_equal(object[at], 0);
        }
        memset(object, 0xff, 48);
        vl_cache_free(large, object);
    }
    assert_int_equal(vl_cache_destroy(large), VL_OK);
    assert_int_equal(vl_cache_destroy(small), VL_OK);
    machine_off();
}

/* The name is the cache's own: the caller's may be gone. */
static void names_are_copied(void **state)
{
    char name[] = "a name that is longer than what a cache has room for";
    struct vli_slab_info info;
    struct vl_cache *cache;

    (void)state;
    machine_on();
    cache = create((struct vl_cache_spec){.name = name, .size = 24});
    memset(name, 'x', sizeof(name));
    assert_true(vli_slab_info(cache->index, &info));
    assert_string_equal(info.name, "a name that is longer than what");
    assert_int_equal(vl_cache_destroy(cache), VL_OK);
    machine_off();
}

/* ---- several CPUs ---- */

/* Each creates, uses and ends caches that are alike, and some that are not. */
static void create_and_end(void *arg, unsigned cpu)
{
    uint64_t random = 40 + cpu;
    uint64_t rounds = sim_ops(20000) / 20;

    (void)arg;
    for (uint64_t i = 0; i < rounds; i++) {
        uint64_t r = sim_random(&random);
        struct vl_cache_spec spec = {.name = "many", .size = 3000 + 8 * (r % 3)};
        struct vl_cache *cache = create(spec);
        unsigned char *objects[20];
        unsigned count = (unsigned)(r / 4 % 20);

        assert_int_equal(vl_cache_alloc_bulk(cache, VL_ATOMIC, count, (void **)objects), VL_OK);
        for (unsigned n = 0; n < count; n++) {
            memset(objects[n], (int)(cpu * 16 + n), spec.size);
        }
        for (unsigned n = 0; n < count; n++) {
            assert_int_equal(objects[n][0], cpu * 16 + n);
            assert_int_equal(objects[n][spec.size - 1], cpu * 16 + n);
        }
        vl_cache_free_bulk(cache, count, (void *const *)objects);
        assert_int_equal(vl_cache_destroy(cache), VL_OK);
    }
}

static void come_and_go_on_all_cpus(void **state)
{
    (void)state;
    machine_on();
    sim_hold_up(64);
    sim_run_on_cpus(CPUS, create_and_end, NULL);
    machine_off();
}

/* ---- leaks ---- */

static const struct vl_cache_spec leaky = {.name = "leaky", .size = 72, .flags = VL_CACHE_NO_MERGE};

static void leak(void *arg)
{
    unsigned count = *(unsigned *)arg;
    struct vl_cache *cache = create(leaky);
    void *object = NULL;

    for (unsigned i = 0; i < count; i++) {
        object = vl_cache_alloc(cache, VL_ATOMIC);
        assert_non_null(object);
    }
    vli_log(VL_LOG_INFO, "the last is 0x%lx", (unsigned long)(uintptr_t)object);
    assert_int_equal(vl_cache_destroy(cache), VL_EBUSY);
    vli_panic("leaked 0x%lx", (unsigned long)(uintptr_t)object);
}

static void leaks_are_counted(void **state)
{
    unsigned counts[] = {1, 3, 1000};

    (void)state;
    machine_on();
    for (unsigned i = 0; i < VLI_COUNT_OF(counts); i++) {
        char line[100];

        snprintf(line, sizeof(line), "cache leaky is not destroyed: %u objects are out", counts[i]);
        assert_true(sim_dies(leak, &counts[i], line));
    }
    machine_off();
}

/* A size that no cache of the core's has, with which it would be shared. */
#define UNLIKE 5000

static void shared_leak(void *arg)
{
    struct vl_cache *one = create((struct vl_cache_spec){.name = "first", .size = UNLIKE});
    struct vl_cache *other = create((struct vl_cache_spec){.name = "second", .size = UNLIKE});

    (void)arg;
    assert_non_null(vl_cache_alloc(one, VL_ATOMIC));
    assert_int_equal(vl_cache_destroy(one), SHARES ? VL_OK : VL_EBUSY);
    assert_int_equal(vl_cache_destroy(other), SHARES ? VL_EBUSY : VL_OK);
    vli_panic("end");
}

/* The last of those that share finds it. */
static void shared_leaks_are_found(void **state)
{
    (void)state;
    machine_on();
    assert_true(sim_dies(shared_leak, NULL, "cache first is not destroyed: 1 objects are out"));
    assert_true(sim_dies(shared_leak, NULL, "end"));
    machine_off();
}

#ifdef VL_DEBUG
static char line_wanted[100];

static void leak_one(void *arg)
{
    struct vl_cache *cache = *(struct vl_cache **)arg;

    assert_int_equal(vl_cache_destroy(cache), VL_EBUSY);
    vli_panic("end");
}

static void leaks_are_named(void **state)
{
    struct vl_cache *cache;
    void *objects[300];

    (void)state;
    machine_on();
    cache = create(leaky);
    for (unsigned i = 0; i < 300; i++) {
        objects[i] = vl_cache_alloc(cache, VL_ATOMIC);
    }
    assert_true(sim_dies(leak_one, &cache, "cache leaky: and 236 more"));
    for (unsigned i = 0; i < 300; i++) {
        if (i != 17 && i != 250) {
            vl_cache_free(cache, objects[i]);
        }
    }
    for (unsigned i = 17; i < 300; i += 233) {
        snprintf(line_wanted, sizeof(line_wanted),
                 "cache leaky: object 0x%lx is out, allocated by 0x",
                 (unsigned long)(uintptr_t)objects[i]);
        assert_true(sim_dies(leak_one, &cache, line_wanted));
    }
    snprintf(line_wanted, sizeof(line_wanted), "cache leaky: object 0x%lx is out",
             (unsigned long)(uintptr_t)objects[18]);
    assert_false(sim_dies(leak_one, &cache, line_wanted));
    vl_cache_free(cache, objects[17]);
    vl_cache_free(cache, objects[250]);
    assert_int_equal(vl_cache_destroy(cache), VL_OK);
    machine_off();
}
#define TEST_NAMED cmocka_unit_test(leaks_are_named),
#else
#define TEST_NAMED
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alike_and_not),           cmocka_unit_test(not_with_kmalloc),
        cmocka_unit_test(zeroed_objects_are),      cmocka_unit_test(names_are_copied),
        cmocka_unit_test(come_and_go_on_all_cpus), cmocka_unit_test(leaks_are_counted),
        cmocka_unit_test(shared_leaks_are_found),  TEST_NAMED};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
