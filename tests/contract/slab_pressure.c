/*
 * Goal: what object caches keep for speed goes back to frame when memory is short, all of it, from
 * every CPU, with every strategy of SLAB; and what is in use stays.
 * Method: caches of several sizes filled and freed on all CPUs; then everything else of memory is
 * taken, and a request that may wait must get each frame that the caches held.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <vellum/shrink.h>
#include "core/base/log.h"
#include "core/slab/slab.h"
#include "machine/sim/sim.h"

#if VL_SMP
#define CPUS 4u
#else
#define CPUS 1u
#endif
#define MIB    (1ull << 20)
#define FRAMES 32768u
#define EACH   300u /* objects a cache and CPU */

static const size_t sizes[] = {24, 64, 200, 512, 1040, 4096, 9000};
#define SIZES VLI_COUNT_OF(sizes)

static struct vl_cache *caches[SIZES];
static void *objects[VL_CPUS_MAX][SIZES][EACH];
static struct vl_pfn hoard[FRAMES];

static void machine_on(void)
{
    struct sim_config config = {.ram_bytes = 96 * MIB, .cpus = CPUS, .seed = 6, .quiet = true};

    sim_start(&config);
    for (unsigned i = 0; i < SIZES; i++) {
        struct vl_cache_spec spec = {
            .name = "pressure", .size = sizes[i], .flags = VL_CACHE_NO_MERGE};

        assert_int_equal(vl_cache_create(&spec, &caches[i]), VL_OK);
    }
}

static void machine_off(void)
{
    vli_slab_validate();
    for (unsigned i = 0; i < SIZES; i++) {
        assert_int_equal(vl_cache_destroy(caches[i]), VL_OK);
    }
    vl_drain_all();
    vli_frame_validate();
    sim_stop();
}

static void fill(void *arg, unsigned cpu)
{
    (void)arg;
    for (unsigned i = 0; i < SIZES; i++) {
        for (unsigned n = 0; n < EACH; n++) {
            objects[cpu][i][n] = vl_cache_alloc(caches[i], VL_ATOMIC);
            assert_non_null(objects[cpu][i][n]);
            memset(objects[cpu][i][n], 0x11 + (int)cpu, sizes[i]);
        }
    }
}

/* All but every so many-th; 0: all. */
static void empty(void *arg, unsigned cpu)
{
    unsigned keeps = *(unsigned *)arg;

    for (unsigned i = 0; i < SIZES; i++) {
        for (unsigned n = 0; n < EACH; n++) {
            if (objects[cpu][i][n] != NULL && (keeps == 0 || n % keeps != 0)) {
                vl_cache_free(caches[i], objects[cpu][i][n]);
                objects[cpu][i][n] = NULL;
            }
        }
    }
}

static uint64_t frames_held(void)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < SIZES; i++) {
        struct vli_slab_info info;

        assert_true(vli_slab_info(caches[i]->index, &info));
        sum += info.frames;
    }
    return sum;
}

/* All memory but what is held, and what no request that waits may have. */
static size_t take_the_rest(void)
{
    size_t count = vl_frame_alloc_bulk(FRAMES, VL_ATOMIC, hoard);

    assert_in_range(count, 1000, FRAMES - 1);
    return count;
}

/* Frames that requests that may wait are given. */
static size_t take_waiting(size_t from)
{
    size_t count = from;

    while (count < FRAMES && vl_frame_alloc(0, VL_WAIT, &hoard[count]) == VL_OK) {
        count++;
    }
    return count - from;
}

static void all_goes_back(void **state)
{
    unsigned keeps = 0;
    struct vli_zone_info zone;
    uint64_t held;
    size_t count;
    size_t had;

    (void)state;
    machine_on();
    sim_run_on_cpus(CPUS, fill, NULL);
    sim_run_on_cpus(CPUS, empty, &keeps);
    held = frames_held();
    assert_true(held >= CPUS); /* there is something to give back */
    count = take_the_rest();
    assert_true(frames_held() == held); /* nobody asked */
    had = take_waiting(count);
    assert_int_equal(frames_held(), 0);
    assert_true(vli_zone_info(0, &zone));
    /* What an atomic request took of the reserve is made good first. */
    assert_true(had + zone.watermark_min >= held);
    vl_frame_free_bulk(hoard, count + had);
    machine_off();
}

static void what_is_in_use_stays(void **state)
{
    unsigned keeps = 50;
    uint64_t held;
    size_t count;

    (void)state;
    machine_on();
    sim_run_on_cpus(CPUS, fill, NULL);
    sim_run_on_cpus(CPUS, empty, &keeps);
    count = take_the_rest();
    held = frames_held();
    count += take_waiting(count);
    assert_true(frames_held() < held);
    for (unsigned cpu = 0; cpu < CPUS; cpu++) {
        for (unsigned i = 0; i < SIZES; i++) {
            for (unsigned n = 0; n < EACH; n += keeps) {
                const unsigned char *bytes = objects[cpu][i][n];

                for (size_t at = 0; at < sizes[i]; at++) {
                    assert_int_equal(bytes[at], 0x11 + cpu);
                }
            }
        }
    }
    vl_frame_free_bulk(hoard, count);
    keeps = 0;
    sim_run_on_cpus(CPUS, empty, &keeps);
    machine_off();
}

/* While others allocate and free, each of whose requests succeeds as long as there is memory. */
static void churn(void *arg, unsigned cpu)
{
    uint64_t random = cpu + 77;
    uint64_t ops = sim_ops(100000) / 10;

    (void)arg;
    for (uint64_t i = 0; i < ops; i++) {
        uint64_t r = sim_random(&random);
        unsigned kind = (unsigned)(r % SIZES);
        void **place = &objects[cpu][kind][r / SIZES % EACH];

        if (cpu == 0 && i % 512 == 0) {
            (void)vl_shrink(i % 1024 == 0 ? 1 : SIZE_MAX);
        }
        if (*place != NULL) {
            vl_cache_free(caches[kind], *place);
            *place = NULL;
        } else {
            *place = vl_cache_alloc(caches[kind], VL_ATOMIC);
            assert_non_null(*place);
        }
    }
}

static void while_others_go_on(void **state)
{
    unsigned keeps = 0;

    (void)state;
    machine_on();
    memset(objects, 0, sizeof(objects));
    sim_run_on_cpus(CPUS, churn, NULL);
    vli_slab_validate();
    sim_run_on_cpus(CPUS, empty, &keeps);
    assert_true(vl_shrink(SIZE_MAX) > 0);
    assert_int_equal(frames_held(), 0);
    machine_off();
}

/* The frames that are told are those that went. */
static void what_is_told_is_so(void **state)
{
    struct vl_frame_counts before;
    struct vl_frame_counts after;
    unsigned keeps = 0;
    size_t freed;

    (void)state;
    machine_on();
    sim_run_on_cpus(CPUS, fill, NULL);
    sim_run_on_cpus(CPUS, empty, &keeps);
    vl_frame_counts(&before);
    freed = vl_shrink(SIZE_MAX);
    vl_frame_counts(&after);
    assert_true(freed > 0);
    assert_int_equal(after.free_zones + after.free_stock - before.free_zones - before.free_stock,
                     freed);
    sim_run_on_cpus(CPUS, fill, NULL);
    sim_run_on_cpus(CPUS, empty, &keeps);
    for (unsigned i = 0; i < SIZES; i++) {
        struct vli_slab_info info;

        assert_true(vli_slab_info(caches[i]->index, &info));
        assert_int_equal(vl_cache_shrink(caches[i]), info.frames);
    }
    machine_off();
}

static unsigned reclaims;

static size_t reclaim_nothing(size_t wanted)
{
    (void)wanted;
    reclaims++;
    return 0;
}

/* A request that cannot be served has reclaim look for memory once, and once more when shrinkers
 * found something; but not once for each way that it tries. */
static void asked_once(void **state)
{
    unsigned count = 0;

    (void)state;
    machine_on();
    while (count < FRAMES && vl_frame_alloc(0, VL_ATOMIC | VL_MAY_FAIL, &hoard[count]) == VL_OK) {
        count++;
    }
    for (unsigned i = 0; i < SIZES; i++) {
        struct held {
            struct held *next;
        } *held = NULL;
        struct held *object;

        while ((object = vl_cache_alloc(caches[i], VL_ATOMIC)) != NULL) {
            object->next = held;
            held = object;
        }
        vl_frame_set_reclaim(reclaim_nothing);
        reclaims = 0;
        assert_null(vl_cache_alloc(caches[i], VL_WAIT));
        assert_in_range(reclaims, 1, 2);
        vl_frame_set_reclaim(NULL);
        while (held != NULL) {
            object = held;
            held = object->next;
            vl_cache_free(caches[i], object);
        }
    }
    while (count > 0) {
        vl_frame_free(hoard[--count], 0);
    }
    machine_off();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_goes_back),      cmocka_unit_test(what_is_in_use_stays),
        cmocka_unit_test(while_others_go_on), cmocka_unit_test(what_is_told_is_so),
        cmocka_unit_test(asked_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
