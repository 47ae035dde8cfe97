/*
 * Goal: shrinkers are asked in turn, for what is still wanting, after the reclaim function and
 * before a request fails; never inside themselves; those that found nothing are passed over for a
 * while; and none is called after it was unregistered.
 * Method: shrinkers that count their calls and free frames of a hoard; memory used up; CPUs that
 * register, unregister and shrink at once.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include "core/frame/frame.h"
#include "machine/sim/sim.h"

#if VL_SMP
#define CPUS 4u
#else
#define CPUS 1u
#endif
#define HOARD_MAX 16384u

static struct vl_pfn hoard[HOARD_MAX];
static size_t hoard_count;

/* A shrinker that gives from the hoard. */
struct giver {
    struct vl_shrinker shrinker;
    size_t gives_max; /* frames a call */
    size_t says;      /* what count returns */
    size_t wanted;    /* of the last call */
    unsigned scans;
    unsigned counts;
};

static size_t give(size_t count)
{
    count = count < hoard_count ? count : hoard_count;
    hoard_count -= count;
    vl_frame_free_bulk(hoard + hoard_count, count);
    return count;
}

static size_t giver_count(struct vl_shrinker *shrinker)
{
    struct giver *giver = (struct giver *)shrinker;

    giver->counts++;
    return giver->says;
}

static size_t giver_scan(struct vl_shrinker *shrinker, size_t wanted)
{
    struct giver *giver = (struct giver *)shrinker;
    struct vl_pfn pfn;

    giver->scans++;
    giver->wanted = wanted;
    /* Inside, nothing is asked for, neither by name nor by need. */
    assert_int_equal(vl_shrink(1), 0);
    if (vl_frame_alloc(VL_ORDER_MAX, VL_WAIT, &pfn) == VL_OK) {
        vl_frame_free(pfn, VL_ORDER_MAX);
    }
    return give(wanted < giver->gives_max ? wanted : giver->gives_max);
}

static struct giver giver_of(const char *name, size_t gives_max)
{
    return (struct giver){.shrinker = {.name = name, .scan = giver_scan}, .gives_max = gives_max};
}

static void machine_on(unsigned cpus)
{
    struct sim_config config = {.ram_bytes = 32u << 20, .cpus = cpus, .seed = 5, .quiet = true};

    sim_start(&config);
    hoard_count = 0;
}

static void fill_hoard(void)
{
    hoard_count = vl_frame_alloc_bulk(HOARD_MAX, VL_ATOMIC, hoard);
    assert_in_range(hoard_count, 1000, HOARD_MAX - 1);
}

static void machine_off(void)
{
    (void)give(HOARD_MAX);
    sim_stop();
}

/* ---- asked by name ---- */

static void each_for_what_is_wanting(void **state)
{
    struct giver few = giver_of("few", 3);
    struct giver many = giver_of("many", 1000);

    (void)state;
    machine_on(1);
    vl_shrinker_register(&few.shrinker);
    vl_shrinker_register(&many.shrinker);
    hoard_count = vl_frame_alloc_bulk(100, VL_ATOMIC, hoard);
    assert_int_equal(vl_shrink(20), 20);
    assert_int_equal(few.wanted, 20);
    assert_int_equal(many.wanted, 17);
    assert_int_equal(vl_shrink(2), 2);
    assert_int_equal(few.wanted, 2);
    assert_int_equal(many.scans, 1); /* there was no need */
    assert_int_equal(vl_shrink(SIZE_MAX), 78);
    assert_int_equal(vl_shrink(SIZE_MAX), 0);
    assert_int_equal(few.scans, 4);
    vl_shrinker_unregister(&few.shrinker);
    assert_int_equal(vl_shrink(5), 0);
    assert_int_equal(few.scans, 4);
    vl_shrinker_register(&few.shrinker); /* and again */
    assert_int_equal(vl_shrink(5), 0);
    assert_int_equal(few.scans, 5);
    vl_shrinker_unregister(&many.shrinker);
    vl_shrinker_unregister(&few.shrinker);
    assert_int_equal(vl_host_thread()->flags, 0);
    machine_off();
}

static void a_count_of_0_saves_the_call(void **state)
{
    struct giver giver = giver_of("counted", 10);

    (void)state;
    machine_on(1);
    giver.shrinker.count = giver_count;
    vl_shrinker_register(&giver.shrinker);
    assert_int_equal(vl_shrink(5), 0);
    assert_int_equal(giver.counts, 1);
    assert_int_equal(giver.scans, 0);
    giver.says = 1;
    assert_int_equal(vl_shrink(5), 0);
    assert_int_equal(giver.scans, 1);
    vl_shrinker_unregister(&giver.shrinker);
    machine_off();
}

/* ---- asked by need ---- */

static void memory_that_is_short_asks(void **state)
{
    struct giver giver = giver_of("giver", SIZE_MAX);
    struct vl_pfn pfn;

    (void)state;
    machine_on(1);
    vl_shrinker_register(&giver.shrinker);
    fill_hoard();
    assert_int_equal(vl_frame_alloc(0, VL_ATOMIC, &pfn), VL_ENOMEM);
    assert_int_equal(giver.scans, 0); /* not for who may not wait */
    assert_int_equal(vl_frame_alloc(0, VL_WAIT, &pfn), VL_OK);
    assert_int_equal(giver.scans, 1);
    assert_int_equal(vl_host_thread()->flags, 0);
    vl_frame_free(pfn, 0);
    /* To the high watermark at once. */
    assert_int_equal(vl_frame_alloc(0, VL_WAIT, &pfn), VL_OK);
    assert_int_equal(giver.scans, 1);
    vl_frame_free(pfn, 0);
    vl_shrinker_unregister(&giver.shrinker);
    machine_off();
}

static unsigned reclaims;
static size_t reclaims_wanted;

static size_t reclaim(size_t wanted)
{
    reclaims++;
    reclaims_wanted = wanted;
    return give(2);
}

static size_t reclaim_by_shrinking(size_t wanted)
{
    reclaims++;
    return vl_shrink(wanted);
}

static void after_the_function(void **state)
{
    struct giver giver = giver_of("giver", SIZE_MAX);
    struct vl_pfn pfn;

    (void)state;
    machine_on(1);
    vl_shrinker_register(&giver.shrinker);
    fill_hoard();
    reclaims = 0;
    vl_frame_set_reclaim(reclaim);
    assert_int_equal(vl_frame_alloc(0, VL_WAIT, &pfn), VL_OK);
    assert_int_equal(reclaims, 1);
    assert_int_equal(giver.scans, 1);
    assert_int_equal(giver.wanted, reclaims_wanted - 2);
    vl_frame_free(pfn, 0);
    hoard_count += vl_frame_alloc_bulk(HOARD_MAX - hoard_count, VL_ATOMIC, hoard + hoard_count);
    /* A function that asks the shrinkers itself has nobody ask them again. */
    vl_frame_set_reclaim(reclaim_by_shrinking);
    assert_int_equal(vl_frame_alloc(0, VL_WAIT, &pfn), VL_OK);
    assert_int_equal(reclaims, 2);
    assert_int_equal(giver.scans, 2);
    assert_int_equal(vl_host_thread()->flags, 0);
    vl_frame_free(pfn, 0);
    vl_shrinker_unregister(&giver.shrinker);
    machine_off();
}

/* Between the low and the min watermark each request is served, and asks; the searches become rare
 * where they bring little. What would fail asks always. */
static void passed_over(size_t gives_max)
{
    struct giver giver = giver_of("little", gives_max);
    struct vli_zone_info info;
    struct vl_pfn pfns[200];
    unsigned before;
    unsigned count;

    machine_on(1);
    vl_shrinker_register(&giver.shrinker);
    hoard_count = 0;
    while (vl_frame_alloc(0, VL_ATOMIC | VL_MAY_FAIL, &hoard[hoard_count]) == VL_OK) {
        hoard_count++;
    }
    assert_true(vli_zone_info(0, &info));
    assert_true(info.watermark_low - info.watermark_min >= 20);
    count = (unsigned)(info.watermark_low - info.watermark_min - 4);
    count = count > 200 ? 200 : count;
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(vl_frame_alloc(0, VL_WAIT, &pfns[i]), VL_OK);
    }
    assert_in_range(giver.scans, 2, count / 3 + 1);
    before = giver.scans;
    giver.gives_max = 0;
    hoard_count += vl_frame_alloc_bulk(HOARD_MAX - hoard_count, VL_ATOMIC, hoard + hoard_count);
    for (unsigned i = 0; i < 5; i++) {
        struct vl_pfn pfn;

        assert_int_equal(vl_frame_alloc(0, VL_WAIT, &pfn), VL_ENOMEM);
    }
    assert_in_range(giver.scans - before, 5, 10);
    giver.gives_max = SIZE_MAX; /* it is found at once when there is something */
    assert_int_equal(vl_frame_alloc(0, VL_WAIT, &hoard[HOARD_MAX - 1]), VL_OK);
    vl_frame_free(hoard[HOARD_MAX - 1], 0);
    vl_frame_free_bulk(pfns, count);
    vl_shrinker_unregister(&giver.shrinker);
    machine_off();
}

static void who_has_little_is_passed_over(void **state)
{
    (void)state;
    passed_over(0);
    passed_over(1);
}

/* ---- several CPUs ---- */

struct guest {
    struct vl_shrinker shrinker;
    _Atomic uint32_t is_there;
    _Atomic uint32_t inside;
};

static _Atomic uint32_t stray; /* calls of what was not registered */
static _Atomic uint32_t scans;

static size_t guest_scan(struct vl_shrinker *shrinker, size_t wanted)
{
    struct guest *guest = (struct guest *)shrinker;

    (void)wanted;
    atomic_fetch_add(&guest->inside, 1);
    for (unsigned i = 0; i < 10; i++) {
        sched_yield(); /* long enough for another to leave */
        if (atomic_load(&guest->is_there) == 0) {
            atomic_fetch_add(&stray, 1);
        }
    }
    atomic_fetch_sub(&guest->inside, 1);
    atomic_fetch_add(&scans, 1);
    return 0;
}

static void come_and_go(void *arg, unsigned cpu)
{
    static struct guest guests[CPUS];
    struct guest *guest = &guests[cpu];
    uint64_t rounds = sim_ops(20000) / 20;

    (void)arg;
    for (uint64_t i = 0; i < rounds; i++) {
        if (cpu % 2 == 0 && CPUS > 1) {
            (void)vl_shrink(1);
            continue;
        }
        memset(guest, 0, sizeof(*guest));
        guest->shrinker = (struct vl_shrinker){.name = "guest", .scan = guest_scan};
        atomic_store(&guest->is_there, 1);
        vl_shrinker_register(&guest->shrinker);
        (void)vl_shrink(1);
        vl_shrinker_unregister(&guest->shrinker);
        atomic_store(&guest->is_there, 0);
        assert_int_equal(atomic_load(&guest->inside), 0);
    }
}

static void none_is_called_after_it_left(void **state)
{
    (void)state;
    machine_on(CPUS);
    sim_hold_up(64);
    sim_run_on_cpus(CPUS, come_and_go, NULL);
    assert_int_equal(atomic_load(&stray), 0);
    assert_true(atomic_load(&scans) > 0);
    machine_off();
}

static void register_twice(void *arg)
{
    vl_shrinker_register(arg);
    vl_shrinker_register(arg);
}

static void unregister_a_stranger(void *arg)
{
    vl_shrinker_unregister(arg);
}

static void mistakes_are_caught(void **state)
{
    struct giver giver = giver_of("giver", 1);

    (void)state;
    machine_on(1);
    assert_true(sim_dies(register_twice, &giver.shrinker, "*link != shrinker"));
    assert_true(sim_dies(unregister_a_stranger, &giver.shrinker, "*link != NULL"));
    machine_off();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_for_what_is_wanting),
        cmocka_unit_test(a_count_of_0_saves_the_call),
        cmocka_unit_test(memory_that_is_short_asks),
        cmocka_unit_test(after_the_function),
        cmocka_unit_test(who_has_little_is_passed_over),
        cmocka_unit_test(none_is_called_after_it_left),
        cmocka_unit_test(mistakes_are_caught),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
