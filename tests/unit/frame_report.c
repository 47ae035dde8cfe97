/*
 * Goal: vl_frame_report_free() tells each free block once, tells again what was in use meanwhile,
 * and never one that somebody holds; what it takes away for the telling is missed by nobody who may
 * wait.
 * Method: small machines; who is told writes down what, and checks it against what a frame's own
 * state says. On several CPUs he who is told destroys the contents, as the real ones do.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <time.h>
#include "core/frame/frame.h"
#include "machine/sim/sim.h"

#define MIB    (1ull << 20)
#define BLOCK  (1u << VL_ORDER_MAX)
#define FRAMES 65536u

/* What was told: how often each frame, blocks in sequence. */
static struct told {
    uint8_t times[FRAMES];
    uint64_t frames;
    uint64_t blocks;
    uint64_t blocks_of[VL_ORDER_COUNT];
    struct vl_pfn last;
    uint64_t stop_at; /* blocks, then no more */
} told;

static void forget(void)
{
    memset(&told, 0, sizeof(told));
    told.stop_at = UINT64_MAX;
}

static bool note(void *arg, struct vl_pfn pfn, unsigned order)
{
    assert_ptr_equal(arg, &told);
    assert_int_equal(pfn.n % (1u << order), 0);
    if (told.blocks == told.stop_at) {
        return false;
    }
    for (uint32_t i = 0; i < 1u << order; i++) {
        told.times[pfn.n + i]++;
    }
    told.frames += 1u << order;
    told.blocks++;
    told.blocks_of[order]++;
    told.last = pfn;
    return true;
}

/* One report, remembered; returns the frames told. */
static uint64_t report(unsigned order_min)
{
    uint64_t frames;

    forget();
    frames = vl_frame_report_free(order_min, note, &told);
    assert_int_equal(frames, told.frames);
    vli_frame_validate();
    return frames;
}

static uint64_t free_frames(void)
{
    struct vl_frame_counts counts;

    vl_frame_counts(&counts);
    return counts.free_zones + counts.free_stock;
}

/* Stocks are off where a test says what lies where. */
static void machine_on(uint64_t bytes, unsigned cpus)
{
    struct sim_config config = {.ram_bytes = bytes, .cpus = cpus, .seed = 1, .quiet = true};

    sim_start(&config);
    vl_frame_set_stock(false);
}

static void machine_off(uint64_t free_at_start)
{
    vl_drain_all();
    vli_frame_validate();
    assert_int_equal(free_frames(), free_at_start);
    sim_stop();
}

static struct vl_pfn take(unsigned order)
{
    struct vl_pfn pfn;

    assert_int_equal(vl_frame_alloc(order, VL_WAIT, &pfn), VL_OK);
    return pfn;
}

/* ------------------------------------------------------------------------------- what is told */

static void all_that_is_free_is_told_once(void **state)
{
    static struct vl_pfn pfns[4096];
    uint64_t before;

    (void)state;
    machine_on(64 * MIB, 1);
    before = free_frames();
    assert_int_equal(vl_frame_alloc_bulk(4096, VL_WAIT, pfns), 4096);
    for (size_t i = 0; i < 4096; i += 3) {
        vl_frame_free(pfns[i], 0);
    }
    assert_int_equal(report(0), free_frames());
    for (size_t i = 0; i < 4096; i++) {
        assert_int_equal(told.times[pfns[i].n], i % 3 == 0);
    }
    for (uint32_t i = 0; i < FRAMES; i++) {
        assert_true(told.times[i] <= 1);
    }
    assert_int_equal(report(0), 0);
    assert_int_equal(free_frames(), before - 4096 + 1366);
    for (size_t i = 0; i < 4096; i++) {
        if (i % 3 != 0) {
            vl_frame_free(pfns[i], 0);
        }
    }
    machine_off(before);
}

static void orders_below_are_not_told(void **state)
{
    struct vli_zone_info info;
    uint64_t before;
    uint64_t sum;

    (void)state;
    machine_on(64 * MIB, 1);
    before = free_frames();
    for (unsigned order = 0; order < 5; order++) {
        vl_frame_free(take(order), order);
    }
    assert_true(vli_zone_info(0, &info));
    assert_int_equal(vl_frame_report_free(VL_ORDER_MAX + 1, note, &told), 0);
    assert_int_equal(vl_frame_report_free(UINT32_MAX, note, &told), 0);
    for (unsigned order = VL_ORDER_COUNT; order-- > 0;) {
        sum = info.blocks[order] << order;
        assert_int_equal(report(order), sum);
        assert_int_equal(told.blocks_of[order], info.blocks[order]);
        assert_int_equal(told.blocks, info.blocks[order]);
    }
    machine_off(before);
}

static void nothing_free_tells_nothing(void **state)
{
    static struct vl_pfn pfns[16384];
    uint64_t before;
    size_t had = 0;

    (void)state;
    machine_on(64 * MIB, 1);
    before = free_frames();
    vl_host_thread()->flags |= VL_THREAD_KILLED;
    while (vl_frame_alloc(0, VL_WAIT, &pfns[had]) == VL_OK) {
        had++;
    }
    assert_int_equal(free_frames(), 0);
    assert_int_equal(report(0), 0);
    /* The last frame of all. */
    vl_frame_free(pfns[7], 0);
    assert_int_equal(report(0), 1);
    assert_int_equal(told.last.n, pfns[7].n);
    vl_frame_free_bulk(pfns, 7);
    vl_frame_free_bulk(pfns + 8, had - 8);
    machine_off(before);
}

static void who_is_told_may_have_enough(void **state)
{
    uint64_t before;
    uint64_t had;

    (void)state;
    machine_on(128 * MIB, 1);
    before = free_frames();
    forget();
    told.stop_at = 3;
    had = vl_frame_report_free(VL_ORDER_MAX, note, &told);
    assert_int_equal(had, 3 * BLOCK);
    vli_frame_validate();
    assert_int_equal(free_frames(), before);
    told.stop_at = 4;
    assert_int_equal(vl_frame_report_free(0, note, &told), BLOCK);
    told.stop_at = 4;
    assert_int_equal(vl_frame_report_free(0, note, &told), 0);
    told.stop_at = UINT64_MAX;
    assert_int_equal(vl_frame_report_free(0, note, &told), before - 4 * BLOCK);
    for (uint32_t i = 0; i < FRAMES; i++) {
        assert_true(told.times[i] <= 1);
    }
    assert_int_equal(report(0), 0);
    machine_off(before);
}

/* So many frames, and no more. */
static bool note_budget(void *arg, struct vl_pfn pfn, unsigned order)
{
    uint64_t *left = arg;

    if (*left < 1u << order) {
        return false;
    }
    *left -= 1u << order;
    return note(&told, pfn, order);
}

static void who_wants_less_is_told_smaller_blocks(void **state)
{
    struct vl_pfn pfn;
    uint64_t before;
    uint64_t left = 700;

    (void)state;
    machine_on(64 * MIB, 1);
    before = free_frames();
    (void)report(0);
    /* Of fresh memory: a block of order 10, and one each of 0 … 8 that cannot join. */
    assert_int_equal(vl_frame_alloc_run(BLOCK, VL_WAIT, &pfn), VL_OK);
    vl_frame_free(take(VL_ORDER_MAX), VL_ORDER_MAX);
    vl_frame_free_run((struct vl_pfn){pfn.n + 513}, 511);
    forget();
    assert_int_equal(vl_frame_report_free(0, note_budget, &left), 511);
    assert_int_equal(left, 700 - 511);
    assert_int_equal(told.blocks, 9);
    vli_frame_validate();
    assert_int_equal(report(0), BLOCK);
    vl_frame_free_run(pfn, 513);
    machine_off(before);
}

/* -------------------------------------------------------------------------- how long it is told */

static void a_part_in_use_leaves_the_rest_told(void **state)
{
    struct vl_pfn pfn;
    uint64_t before;

    (void)state;
    machine_on(64 * MIB, 1);
    before = free_frames();
    (void)report(0);
    for (unsigned order = 0; order < VL_ORDER_MAX; order++) {
        pfn = take(order);
        assert_int_equal(report(0), 0);
        vl_frame_free(pfn, order);
        /* With what it was cut from it is whole again, and as a whole it was not told. */
        assert_true(report(0) >= 1u << order);
        assert_int_equal(told.blocks, 1);
        assert_int_equal(told.times[pfn.n], 1);
    }
    pfn = take(VL_ORDER_MAX);
    assert_int_equal(report(0), 0);
    vl_frame_free(pfn, VL_ORDER_MAX);
    assert_int_equal(report(0), BLOCK);
    assert_int_equal(told.last.n, pfn.n);
    /* A run leaves many small parts behind. */
    assert_int_equal(vl_frame_alloc_run(333, VL_WAIT, &pfn), VL_OK);
    assert_int_equal(report(0), 0);
    vl_frame_free_run(pfn, 333);
    assert_true(report(0) >= 512);
    assert_int_equal(told.blocks, 1);
    machine_off(before);
}

/* Whoever writes into a frame's index does not make it look as if it had been told. */
static void a_user_cannot_mark_it(void **state)
{
    struct vl_frame *frame;
    uint64_t before;

    (void)state;
    machine_on(64 * MIB, 1);
    before = free_frames();
    for (unsigned order = 0; order <= VL_ORDER_MAX; order++) {
        (void)report(0);
        frame = vli_frame_get(order, VL_WAIT);
        assert_non_null(frame);
        vli_frame_set_index(frame, 1);
        vli_frame_put(frame, order);
        assert_true(report(0) >= 1u << order);
    }
    machine_off(before);
}

static struct vl_pfn upper;
static uint64_t nested;

/* While the lower half of a block is told, the upper one comes back, and perhaps is told, too. */
static bool free_upper(void *arg, struct vl_pfn pfn, unsigned order)
{
    if (!note(&told, pfn, order)) {
        return false;
    }
    if (pfn.n + (1u << order) == upper.n) {
        vl_frame_free_run(upper, 1u << order);
        nested += *(bool *)arg ? vl_frame_report_free(order, note, &told) : 0;
    }
    return true;
}

static void two_told_halves_make_a_told_whole(void **state)
{
    uint64_t before;

    (void)state;
    machine_on(64 * MIB, 1);
    before = free_frames();
    for (unsigned order = 0; order < VL_ORDER_MAX; order++) {
        for (unsigned both = 0; both < 2; both++) {
            struct vl_pfn lower;
            bool is_both = both == 1;

            assert_int_equal(vl_frame_alloc_run(2u << order, VL_WAIT, &lower), VL_OK);
            upper.n = lower.n + (1u << order);
            (void)report(0);
            vl_frame_free_run(lower, 1u << order);
            forget();
            nested = 0;
            assert_int_equal(vl_frame_report_free(order, free_upper, &is_both), 1u << order);
            assert_int_equal(nested, is_both ? 1u << order : 0);
            vli_frame_validate();
            if (is_both) {
                assert_int_equal(report(0), 0);
            } else {
                assert_true(report(0) >= 2u << order);
                assert_int_equal(told.times[lower.n] + told.times[upper.n], 2);
            }
        }
    }
    machine_off(before);
}

/* Of two blocks of the same order the one with memory behind it is handed out. */
static void what_was_not_told_is_taken_first(void **state)
{
    uint64_t before;

    (void)state;
    machine_on(64 * MIB, 1);
    before = free_frames();
    for (unsigned order = 0; order < VL_ORDER_MAX; order++) {
        struct vl_pfn all[6];

        for (unsigned i = 0; i < 6; i++) {
            all[i] = take(order);
        }
        /* No two of these are buddies. */
        vl_frame_free(all[0], order);
        vl_frame_free(all[2], order);
        (void)report(order);
        vl_frame_free(all[4], order);
        assert_int_equal(take(order).n, all[4].n);
        for (unsigned i = 0; i < 6; i++) {
            if (i != 0 && i != 2) {
                vl_frame_free(all[i], order);
            }
        }
    }
    machine_off(before);
}

/* A block of the highest order that is told stands below those that are not, and may leave them. */
static void told_blocks_go_offline(void **state)
{
    uint64_t reserve = 64 * MIB;
    uint64_t side = vl_frame_side_bytes(2 * reserve >> VL_PAGE_SHIFT);
    struct sim_config config = {.cpus = 1, .seed = 1, .quiet = true, .range_count = 3};
    struct vl_pfn start = vl_pa_to_pfn((struct vl_pa){reserve});
    struct vl_pfn middle = {start.n + 8 * BLOCK};
    struct vl_pfn end = {start.n + 16 * BLOCK};
    uint64_t before;

    (void)state;
    config.ranges[0] = (struct vl_range){{4 * MIB}, {reserve}, 0, VL_RANGE_FREE};
    config.ranges[1] = (struct vl_range){{reserve}, {2 * reserve}, 0, VL_RANGE_ABSENT};
    config.ranges[2] = (struct vl_range){{2 * reserve}, {2 * reserve + side}, 0, VL_RANGE_SIDE};
    sim_start(&config);
    before = free_frames();
    assert_int_equal(vl_frame_online(start, middle), VL_OK);
    assert_int_equal(report(VL_ORDER_MAX), before / BLOCK * BLOCK + 8 * BLOCK);
    assert_int_equal(vl_frame_online(middle, end), VL_OK);
    assert_int_equal(vl_frame_offline((struct vl_pfn){middle.n - 2 * BLOCK},
                                      (struct vl_pfn){middle.n + 3 * BLOCK}),
                     VL_OK);
    vli_frame_validate();
    assert_int_equal(report(VL_ORDER_MAX), 5 * BLOCK);
    assert_int_equal(vl_frame_offline(start, (struct vl_pfn){middle.n - 2 * BLOCK}), VL_OK);
    assert_int_equal(vl_frame_offline((struct vl_pfn){middle.n + 3 * BLOCK}, end), VL_OK);
    assert_int_equal(report(VL_ORDER_MAX), 0);
    machine_off(before);
}

/* ---------------------------------------------------------------------------------- many at once
 */

/* Who tells may ask, too: he gets what there is, and does not wait for himself. */
static bool ask_meanwhile(void *arg, struct vl_pfn pfn, unsigned order)
{
    struct vl_pfn own;

    (void)arg;
    (void)pfn;
    assert_int_equal(vl_frame_alloc(VL_ORDER_MAX, VL_WAIT, &own), VL_ENOMEM);
    assert_int_equal(vl_frame_alloc(0, VL_WAIT, &own), VL_OK);
    vl_frame_free(own, 0);
    return order == VL_ORDER_MAX;
}

static void who_tells_does_not_wait(void **state)
{
    static struct vl_pfn pfns[64];
    uint64_t before;
    size_t had = 0;

    (void)state;
    machine_on(64 * MIB, 1);
    before = free_frames();
    while (vl_frame_alloc(VL_ORDER_MAX, VL_WAIT, &pfns[had]) == VL_OK) {
        had++;
    }
    vl_frame_free(pfns[--had], VL_ORDER_MAX);
    assert_int_equal(vl_frame_report_free(VL_ORDER_MAX, ask_meanwhile, NULL), BLOCK);
    assert_int_equal(vl_host_thread()->flags, 0);
    while (had-- > 0) {
        vl_frame_free(pfns[had], VL_ORDER_MAX);
    }
    machine_off(before);
}

#if VL_SMP
static void sleep_ms(long ms)
{
    struct timespec time = {.tv_nsec = ms * 1000000};

    nanosleep(&time, NULL);
}

static _Atomic uint32_t asking;
static enum vl_status answer;

/* Holds the only large block up until somebody wants it, and for a while more. */
static bool hold(void *arg, struct vl_pfn pfn, unsigned order)
{
    (void)arg;
    (void)pfn;
    (void)order;
    while (asking == 0) {
        sleep_ms(1);
    }
    sleep_ms(30);
    return true;
}

static void tell_or_ask(void *arg, unsigned cpu)
{
    struct vl_pfn *pfn = arg;

    if (cpu == 0) {
        while (vl_frame_report_free(VL_ORDER_MAX, hold, NULL) == 0) {
            vl_host_cpu_relax();
        }
        return;
    }
    while (vl_frame_alloc(VL_ORDER_MAX, VL_ATOMIC, pfn) == VL_OK) {
        vl_frame_free(*pfn, VL_ORDER_MAX);
        sleep_ms(1);
    }
    asking = 1;
    answer = vl_frame_alloc(VL_ORDER_MAX, VL_WAIT, pfn);
}

static void who_may_wait_waits(void **state)
{
    static struct vl_pfn pfns[64];
    uint64_t before;
    size_t had = 0;

    (void)state;
    machine_on(64 * MIB, 2);
    before = free_frames();
    while (vl_frame_alloc(VL_ORDER_MAX, VL_WAIT, &pfns[had]) == VL_OK) {
        had++;
    }
    vl_frame_free(pfns[--had], VL_ORDER_MAX);
    asking = 0;
    sim_run_on_cpus(2, tell_or_ask, &pfns[had]);
    assert_int_equal(answer, VL_OK);
    had++;
    /* With nothing away there is nothing to wait for. */
    assert_int_equal(vl_frame_alloc(VL_ORDER_MAX, VL_WAIT, &pfns[had]), VL_ENOMEM);
    while (had-- > 0) {
        vl_frame_free(pfns[had], VL_ORDER_MAX);
    }
    machine_off(before);
}

static bool destroy(void *arg, struct vl_pfn pfn, unsigned order)
{
    (void)arg;
    memset(vl_frame_to_virt(pfn), 0xee, VL_PAGE_SIZE << order);
    return true;
}

#define HELD 256u

static _Atomic uint32_t busy;

/* CPU 0 and 1 tell again and again; the others allocate, and look at what they have. */
static void tell_and_allocate(void *arg, unsigned cpu)
{
    struct vl_pfn pfns[HELD];
    uint64_t random = 99 + cpu;
    unsigned had = 0;

    (void)arg;
    if (cpu < 2) {
        while (busy > 0) {
            (void)vl_frame_report_free(cpu * 3, destroy, NULL);
            vl_host_cpu_relax();
        }
        return;
    }
    for (unsigned i = 0; i < 4000; i++) {
        unsigned slot = (unsigned)(sim_random(&random) % HELD);
        unsigned order = slot % 7;

        if (slot >= had) {
            if (vl_frame_alloc(had % 7, VL_WAIT, &pfns[had]) != VL_OK) {
                continue;
            }
            *(uint64_t *)vl_frame_to_virt(pfns[had]) = cpu * 1000u + had;
            had++;
            continue;
        }
        assert_int_equal(*(uint64_t *)vl_frame_to_virt(pfns[slot]), cpu * 1000u + slot);
        if (slot == had - 1) {
            vl_frame_free(pfns[slot], order);
            had--;
        }
    }
    while (had-- > 0) {
        assert_int_equal(*(uint64_t *)vl_frame_to_virt(pfns[had]), cpu * 1000u + had);
        vl_frame_free(pfns[had], had % 7);
    }
    busy--;
}

static void none_in_use_is_told(void **state)
{
    struct sim_config config = {.ram_bytes = 32 * MIB, .cpus = 4, .seed = 1, .quiet = true};
    uint64_t before;

    (void)state;
    for (unsigned stocks = 0; stocks < 2; stocks++) {
        sim_start(&config);
        vl_frame_set_stock(stocks == 1);
        before = free_frames();
        busy = 2;
        sim_run_on_cpus(4, tell_and_allocate, NULL);
        vl_drain_all();
        (void)vl_frame_report_free(0, destroy, NULL);
        assert_int_equal(report(0), 0);
        machine_off(before);
    }
}

#define TESTS_OF_MANY_CPUS                                                                         \
    cmocka_unit_test(who_may_wait_waits), cmocka_unit_test(none_in_use_is_told),
#else
#define TESTS_OF_MANY_CPUS
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_that_is_free_is_told_once),
                                       cmocka_unit_test(orders_below_are_not_told),
                                       cmocka_unit_test(nothing_free_tells_nothing),
                                       cmocka_unit_test(who_is_told_may_have_enough),
                                       cmocka_unit_test(who_wants_less_is_told_smaller_blocks),
                                       cmocka_unit_test(a_part_in_use_leaves_the_rest_told),
                                       cmocka_unit_test(a_user_cannot_mark_it),
                                       cmocka_unit_test(two_told_halves_make_a_told_whole),
                                       cmocka_unit_test(what_was_not_told_is_taken_first),
                                       cmocka_unit_test(told_blocks_go_offline),
                                       cmocka_unit_test(who_tells_does_not_wait),
                                       TESTS_OF_MANY_CPUS};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
