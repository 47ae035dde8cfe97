/*
 * Goal: each promise of frame.h, one at a time: what a request gets, when it fails, what is
 * counted, what is refused. Method: small machines, every case set up by hand; vli_frame_validate()
 * after each.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "core/frame/frame.h"
#include "machine/sim/sim.h"

#define MIB (1ull << 20)

static void machine_on(uint64_t bytes, unsigned cpus)
{
    struct sim_config config = {.ram_bytes = bytes, .cpus = cpus, .seed = 1, .quiet = true};

    sim_start(&config);
}

static uint64_t free_frames(void)
{
    struct vl_frame_counts counts;

    vl_frame_counts(&counts);
    return counts.free_zones + counts.free_stock;
}

static void machine_off(uint64_t free_at_start)
{
    assert_int_equal(free_frames(), free_at_start);
    vl_drain_all();
    vli_frame_validate();
    assert_int_equal(free_frames(), free_at_start);
    sim_stop();
}

static void every_order_is_aligned(void **state)
{
    uint64_t before;

    (void)state;
    machine_on(64 * MIB, 1);
    before = free_frames();
    for (unsigned order = 0; order <= VL_ORDER_MAX; order++) {
        struct vl_pfn pfn;

        assert_int_equal(vl_frame_alloc(order, VL_WAIT, &pfn), VL_OK);
        assert_int_equal(pfn.n % (1u << order), 0);
        assert_int_equal(free_frames(), before - (1u << order));
        memset(vl_frame_to_virt(pfn), 0xa5, VL_PAGE_SIZE << order);
        vl_frame_free(pfn, order);
        vli_frame_validate();
    }
    machine_off(before);
}

static void bad_order_is_refused(void **state)
{
    struct vl_pfn pfn = {77};

    (void)state;
    machine_on(64 * MIB, 1);
    assert_int_equal(vl_frame_alloc(VL_ORDER_MAX + 1, VL_WAIT, &pfn), VL_EINVAL);
    assert_int_equal(vl_frame_alloc(UINT32_MAX, VL_WAIT, &pfn), VL_EINVAL);
    assert_int_equal(pfn.n, 77);
    machine_off(free_frames());
}

static void a_fresh_frame_is_as_promised(void **state)
{
    struct vl_frame *frame;

    (void)state;
    machine_on(64 * MIB, 1);
    frame = vli_frame_get(0, VL_WAIT | VL_ZEROED);
    assert_non_null(frame);
    assert_int_equal(vli_frame_type(frame), VLI_FRAME_STOCK);
    assert_int_equal(frame->refs, 1);
    assert_int_equal(frame->mappings, 0);
    assert_int_equal(frame->owner, 0);
    vli_frame_set_type(frame, VLI_FRAME_ANON);
    vli_frame_set_index(frame, 0xab12345678ull);
    vli_frame_mark(frame, VLI_FRAME_DIRTY | VLI_FRAME_LRU);
    atomic_store(&frame->owner, 4096);
    vli_frame_ref_get(frame);
    assert_false(vli_frame_ref_drop(frame));
    assert_true(vli_frame_ref_drop(frame));
    memset(vli_frame_virt(vli_frame_pfn(frame)), 1, VL_PAGE_SIZE);
    vli_frame_put(frame, 0);
    assert_ptr_equal(vli_frame_get(0, VL_ATOMIC | VL_ZEROED), frame);
    assert_int_equal(vli_frame_type(frame), VLI_FRAME_STOCK);
    assert_int_equal(frame->refs, 1);
    assert_int_equal(frame->owner, 0);
    assert_false(vli_frame_is_marked(frame, VLI_FRAME_DIRTY | VLI_FRAME_LRU));
    for (size_t i = 0; i < VL_PAGE_SIZE; i++) {
        assert_int_equal(((unsigned char *)vli_frame_virt(vli_frame_pfn(frame)))[i], 0);
    }
    vli_frame_put(frame, 0);
    vli_frame_validate();
    sim_stop();
}

static void all_memory_in_bulk_and_back(void **state)
{
    static struct vl_pfn pfns[65536];
    uint64_t before;
    size_t had;

    (void)state;
    machine_on(64 * MIB, 1);
    before = free_frames();
    had = vl_frame_alloc_bulk(65536, VL_WAIT, pfns);
    assert_true(had < before);
    assert_true(had > before - before / 64);
    assert_int_equal(free_frames(), before - had);
    assert_int_equal(vl_frame_alloc_bulk(10, VL_WAIT, pfns + had), 0);
    /* Who may not wait may go below min. */
    assert_int_equal(vl_frame_alloc_bulk(10, VL_ATOMIC, pfns + had), 10);
    vl_frame_free_bulk(pfns, had + 10);
    machine_off(before);
}

static void frames_merge_back(void **state)
{
    static struct vl_pfn pfns[65536];
    struct vli_zone_info before;
    struct vli_zone_info after;
    size_t had = 0;

    (void)state;
    machine_on(64 * MIB, 1);
    vl_drain_all();
    assert_true(vli_zone_info(0, &before));
    assert_false(vli_zone_info(1, &after));
    while (vl_frame_alloc(0, VL_WAIT, &pfns[had]) == VL_OK) {
        had++;
    }
    for (size_t i = 0; i < had; i += 2) {
        vl_frame_free(pfns[i], 0);
    }
    for (size_t i = 1; i < had; i += 2) {
        vl_frame_free(pfns[i], 0);
    }
    vl_drain_all();
    vli_frame_validate();
    assert_true(vli_zone_info(0, &after));
    assert_memory_equal(before.blocks, after.blocks, sizeof(before.blocks));
    assert_true(after.work.merges > before.work.merges);
    sim_stop();
}

static void stock_can_be_off(void **state)
{
    struct vl_frame_counts counts;
    struct vl_pfn pfn;
    uint64_t before;

    (void)state;
    machine_on(256 * MIB, 2);
    before = free_frames();
    assert_int_equal(vl_frame_alloc(0, VL_WAIT, &pfn), VL_OK);
    vl_frame_counts(&counts);
    assert_true(counts.free_stock > 0);
    vl_frame_free(pfn, 0);
    vl_frame_set_stock(false);
    for (unsigned order = 0; order <= 9; order += 9) {
        assert_int_equal(vl_frame_alloc(order, VL_WAIT, &pfn), VL_OK);
        vl_frame_counts(&counts);
        assert_int_equal(counts.free_stock, 0);
        vl_frame_free(pfn, order);
        vl_frame_counts(&counts);
        assert_int_equal(counts.free_stock, 0);
    }
    vl_frame_set_stock(true);
    assert_int_equal(vl_frame_alloc(0, VL_WAIT, &pfn), VL_OK);
    vl_frame_free(pfn, 0);
    vl_frame_counts(&counts);
    assert_true(counts.free_stock > 0);
    machine_off(before);
}

/* ------------------------------------------------------------------------------------- zones */

/* Two zones that meet in the middle of a block of order 10, a hole, and reserved memory. */
static void zones_on(void)
{
    struct sim_config config = {
        .ranges =
            {
                {.start = {1 * MIB}, .end = {9 * MIB + 4096}, .zone = 0},
                {.start = {9 * MIB + 4096}, .end = {70 * MIB}, .zone = 1},
                {.start = {71 * MIB}, .end = {72 * MIB}, .zone = 1, .kind = VL_RANGE_RESERVED},
                {.start = {80 * MIB}, .end = {100 * MIB - 4096}, .zone = 1},
            },
        .range_count = 4,
        .seed = 1,
        .quiet = true};

    sim_start(&config);
}

static void a_zone_is_a_limit(void **state)
{
    static struct vl_pfn pfns[32768];
    vl_how_t low = VL_ATOMIC | 1u << VL_ZONE_SHIFT;
    uint64_t before;
    size_t had = 0;

    (void)state;
    zones_on();
    before = free_frames();
    while (vl_frame_alloc(had % 4, low, &pfns[had]) == VL_OK) {
        assert_true(vl_pfn_to_pa(pfns[had]).a < 9 * MIB + 4096);
        had++;
    }
    assert_true(had > 400);
    while (had-- > 0) {
        vl_frame_free(pfns[had], had % 4);
    }
    machine_off(before);
}

static void a_request_falls_back(void **state)
{
    static struct vl_pfn pfns[32768];
    uint64_t before;
    size_t low = 0;
    size_t had;

    (void)state;
    zones_on();
    before = free_frames();
    had = vl_frame_alloc_bulk(32768, VL_WAIT, pfns);
    for (size_t i = 0; i < had; i++) {
        bool is_low = vl_pfn_to_pa(pfns[i]).a < 9 * MIB + 4096;

        /* High memory first, until it is at its low watermark. */
        assert_true(!is_low || i > 19000);
        low += is_low ? 1u : 0u;
    }
    assert_true(low > 1000);
    vl_frame_free_bulk(pfns, had);
    machine_off(before);
}

static void reserved_memory_can_be_released(void **state)
{
    struct vl_pfn start = vl_pa_to_pfn((struct vl_pa){71 * MIB});
    struct vl_pfn end = vl_pa_to_pfn((struct vl_pa){72 * MIB});
    struct vl_frame_counts counts;
    uint64_t before;

    (void)state;
    zones_on();
    before = free_frames();
    vl_frame_counts(&counts);
    assert_int_equal(counts.reserved, 256);
    assert_int_equal(vl_frame_release_reserved(end, start), VL_EINVAL);
    assert_int_equal(vl_frame_release_reserved(start, start), VL_EINVAL);
    assert_int_equal(vl_frame_release_reserved((struct vl_pfn){start.n - 1}, end), VL_EINVAL);
    assert_int_equal(vl_frame_release_reserved(start, (struct vl_pfn){end.n + 1}), VL_EINVAL);
    assert_int_equal(vl_frame_release_reserved(start, (struct vl_pfn){UINT32_MAX}), VL_EINVAL);
    assert_int_equal(vl_frame_release_reserved((struct vl_pfn){0}, end), VL_EINVAL);
    assert_int_equal(free_frames(), before);
    /* One of them is put to use where it stands, and comes back by itself. */
    assert_true(vli_frame_adopt(vli_frame_of(start)));
    assert_false(vli_frame_adopt(vli_frame_of(start)));
    assert_false(vli_frame_adopt(vli_frame_of((struct vl_pfn){start.n - 1})));
    assert_int_equal(vl_frame_release_reserved(start, end), VL_EINVAL);
    vli_frame_put(vli_frame_of(start), 0);
    start.n++;
    assert_int_equal(vl_frame_release_reserved(start, end), VL_OK);
    assert_int_equal(vl_frame_release_reserved(start, end), VL_EINVAL);
    vl_frame_counts(&counts);
    assert_int_equal(counts.reserved, 0);
    machine_off(before + 256);
}

static void bad_ranges_are_refused(void **state)
{
    static const struct vl_range bad[][2] = {
        {{.start = {0}, .end = {64 * MIB + 1}}, {{0}, {0}, 0, 0}},
        {{.start = {64 * MIB}, .end = {64 * MIB}}, {{0}, {0}, 0, 0}},
        {{.start = {64 * MIB}, .end = {32 * MIB}}, {{0}, {0}, 0, 0}},
        {{.start = {0}, .end = {64 * MIB}, .zone = VL_ZONES_MAX}, {{0}, {0}, 0, 0}},
        {{.start = {32 * MIB}, .end = {64 * MIB}}, {.start = {0}, .end = {32 * MIB}}},
        {{.start = {0}, .end = {64 * MIB}}, {.start = {63 * MIB}, .end = {128 * MIB}}},
        {{.start = {0}, .end = {4096}}, {{0}, {0}, 0, 0}},
        {{.start = {0}, .end = {MIB}, .kind = VL_RANGE_RESERVED}, {{0}, {0}, 0, 0}},
        {{.start = {0}, .end = {64 * MIB}}, {.start = {1ull << 38}, .end = {(1ull << 38) + MIB}}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sim_config config = {.seed = 1, .quiet = true};

        config.ranges[0] = bad[i][0];
        config.ranges[1] = bad[i][1];
        config.range_count = bad[i][1].end.a == 0 ? 1 : 2;
        assert_int_not_equal(sim_try_start(&config), VL_OK);
    }
}

/* ------------------------------------------------------------------------- watermarks, reclaim */

static struct vl_pfn hoard[65536];
static size_t hoard_count;
static size_t reclaim_calls;
static size_t reclaim_limit;
static bool reclaim_recurses;

static size_t reclaim_from_hoard(size_t wanted)
{
    size_t made = 0;

    reclaim_calls++;
    assert_true(wanted > 0);
    assert_true((vl_host_thread()->flags & VL_THREAD_RECLAIM) != 0);
    if (reclaim_recurses) {
        /* Its own requests do not come back here, and may use the reserve. */
        struct vl_pfn pfn;
        size_t calls = reclaim_calls;

        assert_int_equal(vl_frame_alloc(0, VL_WAIT, &pfn), VL_OK);
        assert_int_equal(reclaim_calls, calls);
        vl_frame_free(pfn, 0);
    }
    while (made < wanted && made < reclaim_limit && hoard_count > 0) {
        vl_frame_free(hoard[--hoard_count], 0);
        made++;
    }
    return made;
}

static void fill_hoard(void)
{
    hoard_count = vl_frame_alloc_bulk(65536, VL_ATOMIC, hoard);
    reclaim_calls = 0;
    reclaim_limit = SIZE_MAX;
    reclaim_recurses = false;
}

static void reclaim_makes_room(void **state)
{
    struct vl_pfn pfn;
    unsigned long irq;
    uint64_t before;

    (void)state;
    machine_on(64 * MIB, 1);
    before = free_frames();
    fill_hoard();
    vl_frame_set_reclaim(reclaim_from_hoard);
    /* Not for who may not wait, and not where sleeping is not allowed. */
    assert_int_equal(vl_frame_alloc(0, VL_ATOMIC, &pfn), VL_ENOMEM);
    irq = vl_host_irq_save();
    assert_int_equal(vl_frame_alloc(0, VL_WAIT, &pfn), VL_ENOMEM);
    vl_host_irq_restore(irq);
    vl_host_thread()->flags |= VL_THREAD_RECLAIM;
    assert_int_equal(vl_frame_alloc(VL_ORDER_MAX, VL_WAIT, &pfn), VL_ENOMEM);
    vl_host_thread()->flags &= ~VL_THREAD_RECLAIM;
    assert_int_equal(reclaim_calls, 0);
    reclaim_recurses = true;
    assert_int_equal(vl_frame_alloc(0, VL_WAIT, &pfn), VL_OK);
    assert_int_equal(reclaim_calls, 1);
    assert_int_equal(vl_host_thread()->flags, 0);
    vl_frame_free(pfn, 0);
    /* To the high watermark at once: the next ones need no reclaim. */
    assert_int_equal(vl_frame_alloc(0, VL_WAIT, &pfn), VL_OK);
    assert_int_equal(reclaim_calls, 1);
    vl_frame_free(pfn, 0);
    vl_frame_free_bulk(hoard, hoard_count);
    machine_off(before);
}

static void an_attempt_leaves_the_reserve_alone(void **state)
{
    struct vli_zone_info info;
    struct vl_pfn pfn;
    uint64_t before;

    (void)state;
    machine_on(64 * MIB, 1);
    before = free_frames();
    hoard_count = 0;
    while (vl_frame_alloc(0, VL_ATOMIC | VL_MAY_FAIL, &hoard[hoard_count]) == VL_OK) {
        hoard_count++;
    }
    assert_true(vli_zone_info(0, &info));
    assert_int_equal(info.free, info.watermark_low);
    vl_frame_set_reclaim(reclaim_from_hoard);
    reclaim_calls = 0;
    reclaim_limit = SIZE_MAX;
    reclaim_recurses = false;
    assert_int_equal(vl_frame_alloc(0, VL_WAIT, &pfn), VL_OK);
    assert_int_equal(reclaim_calls, 1);
    vl_frame_free(pfn, 0);
    vl_frame_free_bulk(hoard, hoard_count);
    machine_off(before);
}

static void reclaim_that_fails(void **state)
{
    struct vl_pfn pfn;
    uint64_t before;

    (void)state;
    machine_on(64 * MIB, 1);
    before = free_frames();
    fill_hoard();
    vl_frame_set_reclaim(reclaim_from_hoard);
    reclaim_limit = 0;
    assert_int_equal(vl_frame_alloc(0, VL_WAIT, &pfn), VL_ENOMEM);
    assert_int_equal(reclaim_calls, 1);
    /* One frame at a time never makes a large block: tried for a while, then given up. */
    reclaim_limit = 1;
    reclaim_calls = 0;
    assert_int_equal(vl_frame_alloc(9, VL_WAIT | VL_MAY_FAIL, &pfn), VL_ENOMEM);
    assert_int_equal(reclaim_calls, 1);
    assert_int_equal(vl_frame_alloc(9, VL_WAIT, &pfn), VL_ENOMEM);
    assert_in_range(reclaim_calls, 2, 100);
    vl_frame_free_bulk(hoard, hoard_count);
    machine_off(before);
}

static void who_is_killed_may_use_the_reserve(void **state)
{
    struct vl_pfn pfn;
    uint64_t before;

    (void)state;
    machine_on(64 * MIB, 1);
    before = free_frames();
    fill_hoard();
    assert_int_equal(vl_frame_alloc(0, VL_WAIT, &pfn), VL_ENOMEM);
    vl_host_thread()->flags |= VL_THREAD_KILLED;
    while (vl_frame_alloc(0, VL_WAIT, &hoard[hoard_count]) == VL_OK) {
        hoard_count++;
    }
    vl_host_thread()->flags &= ~VL_THREAD_KILLED;
    assert_int_equal(free_frames(), 0);
    assert_int_equal(hoard_count, before);
    vl_frame_free_bulk(hoard, hoard_count);
    machine_off(before);
}

static void other_cpus_stocks_are_not_lost(void **state)
{
    static struct vl_pfn half[65536];
    struct vl_frame_counts counts;
    uint64_t before;
    size_t had;

    (void)state;
    machine_on(64 * MIB, 4);
    before = free_frames();
    had = vl_frame_alloc_bulk(65536, VL_WAIT, half);
    /* All that is free above the reserve now lies in the stock of CPU 2. */
    sim_self.cpu = 2;
    vl_frame_free_bulk(half, 32);
    sim_self.cpu = 0;
    vl_frame_counts(&counts);
    assert_in_range(counts.free_stock, 32, 64);
    for (size_t i = 0; i < 32; i++) {
        assert_int_equal(vl_frame_alloc(0, VL_WAIT, &half[i]), VL_OK);
    }
    vl_frame_free_bulk(half, had);
    machine_off(before);
}

/* ---------------------------------------------------------------------------- caught mistakes */

static void free_twice(void *arg)
{
    struct vl_pfn pfn;

    if (vl_frame_alloc(*(unsigned *)arg, VL_WAIT, &pfn) == VL_OK) {
        vl_frame_free(pfn, *(unsigned *)arg);
        vl_frame_free(pfn, *(unsigned *)arg);
    }
}

static void free_other_order(void *arg)
{
    struct vl_pfn pfn;

    if (vl_frame_alloc(*(unsigned *)arg, VL_WAIT, &pfn) == VL_OK) {
        vl_frame_free(pfn, 2);
    }
}

static void free_while_shared(void *arg)
{
    struct vl_pfn pfn;

    (void)arg;
    if (vl_frame_alloc(0, VL_WAIT, &pfn) == VL_OK) {
        vl_frame_ref_get(pfn);
        vl_frame_free(pfn, 0);
    }
}

static void free_while_mapped(void *arg)
{
    struct vl_frame *frame = vli_frame_get(0, VL_WAIT);

    (void)arg;
    if (frame != NULL) {
        atomic_store(&frame->mappings, 1);
        vli_frame_put(frame, 0);
    }
}

static void free_number(void *arg)
{
    vl_frame_free(*(struct vl_pfn *)arg, 0);
}

static void free_inside(void *arg)
{
    struct vl_pfn pfn;

    (void)arg;
    if (vl_frame_alloc(3, VL_WAIT, &pfn) == VL_OK) {
        vl_frame_free((struct vl_pfn){pfn.n + 1}, 3);
    }
}

static void mistakes_are_caught(void **state)
{
    struct vl_pfn nowhere = {0x12345678};
    unsigned orders[] = {0, 1, 9, 10};

    (void)state;
    machine_on(64 * MIB, 1);
    for (unsigned i = 0; i < 4; i++) {
        assert_true(sim_dies(free_twice, &orders[i], "double free"));
        assert_true(sim_dies(free_twice, &orders[i], ": allocated, order"));
        assert_true(sim_dies(free_twice, &orders[i], ": freed, order"));
        assert_true(sim_dies(free_other_order, &orders[i], "bad order"));
    }
    assert_true(sim_dies(free_while_shared, NULL, "in use"));
    assert_true(sim_dies(free_while_mapped, NULL, "in use"));
    assert_true(sim_dies(free_number, &nowhere, "no such frame"));
    assert_true(sim_dies(free_number, &vli_frames_first, "double free"));
    assert_true(sim_dies(free_inside, NULL, "bad order"));
    machine_off(free_frames());
}

static void each_reference_counts(void **state)
{
    struct vl_pfn pfn;
    uint64_t before;

    (void)state;
    machine_on(64 * MIB, 1);
    before = free_frames();
    assert_int_equal(vl_frame_alloc(0, VL_WAIT, &pfn), VL_OK);
    vl_frame_ref_get(pfn);
    vl_frame_ref_put(pfn);
    assert_int_equal(free_frames(), before - 1);
    vl_frame_ref_put(pfn);
    machine_off(before);
}

static void a_slab_leaves_no_trace(void **state)
{
    struct vl_frame *frame;
    uint64_t before;

    (void)state;
    machine_on(64 * MIB, 1);
    before = free_frames();
    frame = vli_frame_get(3, VL_WAIT);
    assert_non_null(frame);
    assert_int_equal(frame->flags, VLI_FRAME_STOCK);
    for (unsigned i = 0; i < 8; i++) {
        vli_frame_set_type(&frame[i], VLI_FRAME_SLAB);
        atomic_store(&frame[i].owner, (uintptr_t)frame);
    }
    vli_frame_put(frame, 3);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(frame[i].owner, 0);
    }
    machine_off(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_is_aligned),
        cmocka_unit_test(bad_order_is_refused),
        cmocka_unit_test(a_fresh_frame_is_as_promised),
        cmocka_unit_test(all_memory_in_bulk_and_back),
        cmocka_unit_test(frames_merge_back),
        cmocka_unit_test(stock_can_be_off),
        cmocka_unit_test(a_zone_is_a_limit),
        cmocka_unit_test(a_request_falls_back),
        cmocka_unit_test(reserved_memory_can_be_released),
        cmocka_unit_test(bad_ranges_are_refused),
        cmocka_unit_test(reclaim_makes_room),
        cmocka_unit_test(an_attempt_leaves_the_reserve_alone),
        cmocka_unit_test(reclaim_that_fails),
        cmocka_unit_test(who_is_killed_may_use_the_reserve),
        cmocka_unit_test(other_cpus_stocks_are_not_lost),
        cmocka_unit_test(mistakes_are_caught),
        cmocka_unit_test(each_reference_counts),
        cmocka_unit_test(a_slab_leaves_no_trace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
