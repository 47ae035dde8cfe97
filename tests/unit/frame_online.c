/*
 * Goal: memory that comes and goes (ranges of kind ABSENT and SIDE, vl_frame_online() and
 * _offline()): a reserve of any size costs what is online; what came online is memory like any
 * other; watermarks and stocks follow; each odd request is refused and changes nothing.
 * Method: machines most of whose ranges are absent, set up by hand; what of RAM is resident is
 * asked of Linux; vli_frame_validate() after each.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <string.h>
#include <sys/mman.h>
#include "core/base/percpu.h"
#include "core/frame/frame.h"
#include "machine/sim/sim.h"

#define MIB     (1ull << 20)
#define GIB     (1ull << 30)
#define BLOCK   (1u << VL_ORDER_MAX)
#define RESERVE (256 * MIB) /* physical address at which most machines' reserve starts */

static struct vl_frame_counts counts_now(void)
{
    struct vl_frame_counts counts;

    vl_frame_counts(&counts);
    return counts;
}

static uint64_t free_frames(void)
{
    struct vl_frame_counts counts = counts_now();

    return counts.free_zones + counts.free_stock;
}

static struct vl_pfn pfn_at(uint64_t address)
{
    return vl_pa_to_pfn((struct vl_pa){address});
}

static struct vl_range range(uint64_t start, uint64_t bytes, uint32_t kind)
{
    return (struct vl_range){{start}, {start + bytes}, 0, kind};
}

/* @present bytes of RAM that end where the reserve starts; side data behind the reserve. */
static struct sim_config config_of(uint64_t present, uint64_t reserve)
{
    struct sim_config config = {.cpus = 2, .seed = 1, .quiet = true, .range_count = 3};
    uint64_t side = vl_frame_side_bytes((present + reserve) >> VL_PAGE_SHIFT);

    config.ranges[0] = range(RESERVE - present, present, VL_RANGE_FREE);
    config.ranges[1] = range(RESERVE, reserve, VL_RANGE_ABSENT);
    config.ranges[2] = range(RESERVE + reserve, side, VL_RANGE_SIDE);
    return config;
}

static void machine_on(uint64_t present, uint64_t reserve)
{
    struct sim_config config = config_of(present, reserve);

    sim_start(&config);
}

static void machine_off(uint64_t free_at_start)
{
    vl_drain_all();
    vli_frame_validate();
    assert_int_equal(free_frames(), free_at_start);
    sim_stop();
}

/* Both by addresses in MiB from the reserve's start. */
static enum vl_status online(int64_t start, int64_t end)
{
    return vl_frame_online(pfn_at(RESERVE + (uint64_t)start * MIB),
                           pfn_at(RESERVE + (uint64_t)end * MIB));
}

static enum vl_status offline(int64_t start, int64_t end)
{
    return vl_frame_offline(pfn_at(RESERVE + (uint64_t)start * MIB),
                            pfn_at(RESERVE + (uint64_t)end * MIB));
}

/* Bytes of a part of RAM that Linux has put memory behind. */
static uint64_t resident(uint64_t start, uint64_t bytes)
{
    size_t pages = (size_t)(bytes >> VL_PAGE_SHIFT);
    unsigned char *map = malloc(pages);
    uint64_t count = 0;

    assert_non_null(map);
    assert_int_equal(mincore(vl_host_phys_to_virt((struct vl_pa){start}), (size_t)bytes, map), 0);
    for (size_t i = 0; i < pages; i++) {
        count += map[i] & 1u;
    }
    free(map);
    return count << VL_PAGE_SHIFT;
}

/* ---------------------------------------------------------------------------- what it is worth */

static void blocks_come_and_go(void **state)
{
    struct vl_frame_counts before;
    struct vl_frame_counts after;

    (void)state;
    machine_on(64 * MIB, 64 * MIB);
    before = counts_now();
    assert_int_equal(before.absent, 16 * BLOCK);
    assert_int_equal(online(8, 16), VL_OK);
    after = counts_now();
    assert_int_equal(after.managed, before.managed + 2 * BLOCK);
    assert_int_equal(after.absent, before.absent - 2 * BLOCK);
    assert_int_equal(after.free_zones, before.free_zones + 2 * BLOCK);
    assert_int_equal(after.reserved, before.reserved);
    vli_frame_validate();
    assert_int_equal(offline(8, 16), VL_OK);
    after = counts_now();
    assert_memory_equal(&before, &after, sizeof(before));
    /* And again, other parts of the same, in other pieces. */
    for (unsigned i = 0; i < 16; i++) {
        assert_int_equal(online(i * 4, i * 4 + 4), VL_OK);
    }
    assert_int_equal(counts_now().absent, 0);
    vli_frame_validate();
    assert_int_equal(offline(4, 60), VL_OK);
    assert_int_equal(offline(60, 64), VL_OK);
    assert_int_equal(offline(0, 4), VL_OK);
    machine_off(before.free_zones + before.free_stock);
}

/* The reserve is all that the machine has beside a little, and all of it is used. */
static void it_is_memory_like_any_other(void **state)
{
    static struct vl_pfn pfns[65536];
    uint64_t before;
    size_t outside = 0;
    size_t had = 0;

    (void)state;
    machine_on(16 * MIB, 64 * MIB);
    before = free_frames();
    memset(vl_host_phys_to_virt((struct vl_pa){RESERVE}), 0x5a, 32 * MIB);
    assert_int_equal(online(0, 32), VL_OK);
    while (vl_frame_alloc(had % 3 == 0 ? 0 : (unsigned)(had % 5), VL_WAIT | VL_ZEROED,
                          &pfns[had]) == VL_OK) {
        unsigned char *bytes = vl_frame_to_virt(pfns[had]);

        outside += vl_pfn_to_pa(pfns[had]).a < RESERVE ? 1u : 0u;
        assert_true(vl_pfn_to_pa(pfns[had]).a < RESERVE + 32 * MIB);
        assert_int_equal(bytes[0] | bytes[4095], 0);
        memset(bytes, 0xa5, VL_PAGE_SIZE);
        had++;
    }
    assert_true(had - outside > 1000);
    assert_int_equal(offline(0, 4), VL_EBUSY);
    while (had-- > 0) {
        vl_frame_free(pfns[had], had % 3 == 0 ? 0 : (unsigned)(had % 5));
    }
    vl_drain_all();
    assert_int_equal(offline(0, 32), VL_OK);
    machine_off(before);
}

static size_t reclaim_calls;

/* As a program's heap grows: a block at a time, when a request asks for it. */
static size_t reclaim_grows(size_t wanted)
{
    int64_t at = (int64_t)reclaim_calls++ * 4;

    assert_true(wanted > 0);
    return at < 32 && online(at, at + 4) == VL_OK ? BLOCK : 0;
}

static void reclaim_may_bring_it(void **state)
{
    static struct vl_pfn pfns[16384];
    uint64_t before;
    uint64_t managed;
    size_t had = 0;

    (void)state;
    machine_on(16 * MIB, 64 * MIB);
    before = free_frames();
    managed = counts_now().managed;
    vl_frame_set_reclaim(reclaim_grows);
    reclaim_calls = 0;
    while (vl_frame_alloc(0, VL_WAIT, &pfns[had]) == VL_OK) {
        had++;
    }
    assert_int_equal(counts_now().managed, managed + 8 * BLOCK);
    assert_true(had > managed + 7 * BLOCK);
    while (had-- > 0) {
        vl_frame_free(pfns[had], 0);
    }
    vl_drain_all();
    assert_int_equal(offline(0, 32), VL_OK);
    machine_off(before);
}

static void watermarks_and_stocks_follow(void **state)
{
    struct vli_zone_info before;
    struct vli_zone_info after;
    uint32_t limit;

    (void)state;
    machine_on(16 * MIB, 512 * MIB);
    limit = vli_percpu_of(1)->frame.limit0;
    assert_true(limit < VLI_STOCK_ORDER0);
    assert_int_equal(vli_percpu_of(1)->frame.limit9, 0);
    assert_true(vli_zone_info(0, &before));
    assert_int_equal(online(0, 512), VL_OK);
    assert_true(vli_zone_info(0, &after));
    assert_int_equal(after.managed, before.managed + 128 * BLOCK);
    assert_int_equal(after.watermark_min, after.managed / 256);
    assert_int_equal(after.watermark_low, 2 * after.watermark_min);
    assert_int_equal(after.watermark_high, 3 * after.watermark_min);
    for (unsigned cpu = 0; cpu < 2; cpu++) {
        assert_int_equal(vli_percpu_of(cpu)->frame.limit0, VLI_STOCK_ORDER0);
        assert_true(vli_percpu_of(cpu)->frame.limit9 > 0);
    }
    vl_drain_all();
    assert_int_equal(offline(0, 512), VL_OK);
    assert_true(vli_zone_info(0, &after));
    assert_int_equal(after.watermark_min, before.watermark_min);
    assert_int_equal(after.watermark_high, before.watermark_high);
    assert_int_equal(vli_percpu_of(1)->frame.limit0, limit);
    assert_int_equal(vli_percpu_of(0)->frame.limit9, 0);
    vli_frame_validate();
    sim_stop();
}

/* Stocks that are off stay off when memory comes. */
static void stocks_stay_off(void **state)
{
    (void)state;
    machine_on(16 * MIB, 512 * MIB);
    vl_frame_set_stock(false);
    assert_int_equal(online(0, 512), VL_OK);
    assert_int_equal(vli_percpu_of(0)->frame.limit0, 0);
    vl_frame_set_stock(true);
    assert_int_equal(vli_percpu_of(0)->frame.limit0, VLI_STOCK_ORDER0);
    vli_frame_validate();
    sim_stop();
}

/* ------------------------------------------------------------------------------ what it costs */

/* The sanitizers' own shadows, and Linux's huge pages, make the measure coarse: half a GiB of
 * reserve is what a MiB would have to stand for before this failed. */
static void costs_what_is_online(uint64_t reserve)
{
    uint64_t side = RESERVE + reserve;
    uint64_t bytes = vl_frame_side_bytes((64 * MIB + reserve) >> VL_PAGE_SHIFT);
    uint64_t at_first;

    machine_on(64 * MIB, reserve);
    at_first = resident(side, bytes);
    assert_true(at_first <= 16 * MIB);
    /* Blocks far apart. */
    for (unsigned i = 0; i < 4; i++) {
        uint64_t at = RESERVE + reserve / 4 * i;

        assert_int_equal(vl_frame_online(pfn_at(at), pfn_at(at + 4 * MIB)), VL_OK);
    }
    vli_frame_validate();
    assert_true(resident(side, bytes) <= at_first + 32 * MIB);
    assert_int_equal(resident(RESERVE, 512 * MIB), 0);
    sim_stop();
}

static void a_reserve_costs_what_is_online(void **state)
{
    (void)state;
    costs_what_is_online(64 * GIB);
}

/* ThreadSanitizer has no room for the largest. */
#if defined(VLI_TSAN)
#define LARGEST (128 * GIB)
#else
#define LARGEST (1024 * GIB)
#endif

static void the_largest_reserve(void **state)
{
    (void)state;
    costs_what_is_online(LARGEST);
}

/* -------------------------------------------------------------------------------- odd requests */

static void odd_requests_are_refused(void **state)
{
    static struct vl_pfn pfns[65536];
    struct vl_pfn start = pfn_at(RESERVE);
    struct vl_pfn pfn;
    uint64_t before;
    size_t had = 0;

    (void)state;
    machine_on(64 * MIB, 64 * MIB);
    before = free_frames();
    /* Empty, reversed, misaligned, beyond, beside. */
    assert_int_equal(online(0, 0), VL_EINVAL);
    assert_int_equal(online(8, 4), VL_EINVAL);
    assert_int_equal(online(0, 2), VL_EINVAL);
    assert_int_equal(online(2, 8), VL_EINVAL);
    assert_int_equal(
        vl_frame_online((struct vl_pfn){start.n + 1}, (struct vl_pfn){start.n + BLOCK}), VL_EINVAL);
    assert_int_equal(online(-4, 4), VL_EINVAL);
    assert_int_equal(online(-8, -4), VL_EINVAL);
    assert_int_equal(online(60, 68), VL_EINVAL);
    assert_int_equal(online(64, 68), VL_EINVAL);
    assert_int_equal(vl_frame_online(start, (struct vl_pfn){UINT32_MAX}), VL_EINVAL);
    assert_int_equal(vl_frame_online((struct vl_pfn){0}, (struct vl_pfn){0u - BLOCK}), VL_EINVAL);
    assert_int_equal(offline(0, 0), VL_EINVAL);
    assert_int_equal(offline(-8, -4), VL_EINVAL);
    assert_int_equal(offline(60, 68), VL_EINVAL);
    assert_int_equal(offline(1, 5), VL_EINVAL);
    /* Not there yet; there already; in part. */
    assert_int_equal(offline(0, 4), VL_EBUSY);
    assert_int_equal(online(8, 16), VL_OK);
    assert_int_equal(online(8, 16), VL_EEXIST);
    assert_int_equal(online(0, 12), VL_EEXIST);
    assert_int_equal(online(12, 20), VL_EEXIST);
    assert_int_equal(online(0, 64), VL_EEXIST);
    assert_int_equal(offline(8, 20), VL_EBUSY);
    assert_int_equal(offline(4, 12), VL_EBUSY);
    /* What was refused is as it was: the same blocks come when they are asked for by themselves. */
    assert_int_equal(free_frames(), before + 2 * BLOCK);
    assert_int_equal(online(0, 8), VL_OK);
    assert_int_equal(online(16, 20), VL_OK);
    assert_int_equal(free_frames(), before + 5 * BLOCK);
    /* In use. The last block that came is the first to be taken. */
    vl_frame_set_stock(false);
    assert_int_equal(vl_frame_alloc(VL_ORDER_MAX, VL_WAIT, &pfn), VL_OK);
    assert_int_equal(vl_pfn_to_pa(pfn).a, RESERVE + 16 * MIB);
    assert_int_equal(offline(16, 20), VL_EBUSY);
    assert_int_equal(offline(0, 20), VL_EBUSY);
    assert_int_equal(free_frames(), before + 4 * BLOCK);
    vl_frame_free(pfn, VL_ORDER_MAX);
    vl_frame_set_stock(true);
    /* In a stock. */
    while (vl_frame_alloc(0, VL_ATOMIC, &pfns[had]) == VL_OK) {
        had++;
    }
    assert_true(had > 3 * BLOCK);
    for (size_t i = 0; i < 2 * had; i++) {
        /* The reserve's come last. */
        if ((vl_pfn_to_pa(pfns[i % had]).a >= RESERVE) == (i >= had)) {
            vl_frame_free(pfns[i % had], 0);
        }
    }
    assert_true(counts_now().free_stock > 0);
    assert_int_equal(offline(0, 20), VL_EBUSY);
    vl_drain_all();
    assert_int_equal(offline(0, 20), VL_OK);
    machine_off(before);
}

static void absent_frames_are_nobodys(void **state)
{
    struct vl_pfn start = pfn_at(RESERVE);
    uint64_t before;

    (void)state;
    machine_on(64 * MIB, 64 * MIB);
    before = free_frames();
    assert_int_equal(vl_frame_release_reserved(start, (struct vl_pfn){start.n + BLOCK}), VL_EINVAL);
    assert_false(vli_frame_adopt(vli_frame_of(start)));
    assert_int_equal(online(0, 4), VL_OK);
    assert_int_equal(offline(0, 4), VL_OK);
    assert_int_equal(vl_frame_release_reserved(start, (struct vl_pfn){start.n + BLOCK}), VL_EINVAL);
    assert_false(vli_frame_adopt(vli_frame_of(start)));
    machine_off(before);
}

/* ------------------------------------------------------------------------------------- ranges */

static void odd_ranges_are_refused(void **state)
{
    struct sim_config config;

    (void)state;
    config = config_of(64 * MIB, 64 * MIB);
    config.ranges[1].end.a -= 4096;
    assert_int_equal(sim_try_start(&config), VL_EINVAL);
    config = config_of(64 * MIB, 64 * MIB);
    config.ranges[1].start.a += 2 * MIB;
    assert_int_equal(sim_try_start(&config), VL_EINVAL);
    config = config_of(64 * MIB, 64 * MIB);
    config.ranges[1].kind = VL_RANGE_SIDE;
    assert_int_equal(sim_try_start(&config), VL_EINVAL);
    config = config_of(64 * MIB, 64 * MIB);
    config.ranges[1].kind = VL_RANGE_SIDE + 1;
    assert_int_equal(sim_try_start(&config), VL_EINVAL);
    /* A range for side data that is too small, and one with nothing beside it. */
    config = config_of(64 * MIB, 64 * MIB);
    config.ranges[2].end.a = config.ranges[2].start.a + 64 * 4096;
    assert_int_equal(sim_try_start(&config), VL_ENOMEM);
    config.ranges[0] = config.ranges[2];
    config.range_count = 1;
    assert_int_equal(sim_try_start(&config), VL_EINVAL);
    /* Holes cost descriptors also beside a reserve. */
    config = config_of(64 * MIB, 64 * MIB);
    config.ranges[3] = range(64 * GIB, 4 * MIB, VL_RANGE_ABSENT);
    config.range_count = 4;
    assert_int_equal(sim_try_start(&config), VL_EINVAL);
}

/* Side data before, between or far behind the memory; two reserves that meet, of two zones. */
static void ranges_stand_anywhere(void **state)
{
    uint64_t side = vl_frame_side_bytes(512 * MIB >> VL_PAGE_SHIFT);

    (void)state;
    for (unsigned place = 0; place < 3; place++) {
        struct sim_config config = {.cpus = 2, .seed = 1, .quiet = true, .range_count = 4};
        uint64_t at = 4 * MIB;
        unsigned n = 0;
        struct vl_pfn hole;
        uint64_t before;

        if (place == 0) {
            config.ranges[n++] = range(at, side, VL_RANGE_SIDE);
            at += (side + 4 * MIB) & ~(4 * MIB - 1);
        }
        config.ranges[n++] = range(at, 17 * MIB, VL_RANGE_FREE);
        hole = pfn_at(at + 18 * MIB);
        at += 20 * MIB;
        if (place == 1) {
            config.ranges[n++] = range(at, side, VL_RANGE_SIDE);
            at += (side + 4 * MIB) & ~(4 * MIB - 1);
        }
        config.ranges[n++] = range(at, 32 * MIB, VL_RANGE_ABSENT);
        config.ranges[n] = range(at + 32 * MIB, 32 * MIB, VL_RANGE_ABSENT);
        config.ranges[n++].zone = 1;
        if (place == 2) {
            config.ranges[n++] = range(at + 8 * GIB, side, VL_RANGE_SIDE);
        }
        sim_start(&config);
        before = free_frames();
        /* What no range has, up to the next block of the highest order. */
        assert_int_equal(vli_frame_type(vli_frame_of(hole)), VLI_FRAME_RESERVED);
        assert_int_equal(vli_frame_of(hole)->refs, 0);
        assert_int_equal(vl_frame_online(pfn_at(at + 28 * MIB), pfn_at(at + 36 * MIB)), VL_EINVAL);
        assert_int_equal(vl_frame_online(pfn_at(at + 24 * MIB), pfn_at(at + 32 * MIB)), VL_OK);
        assert_int_equal(vl_frame_online(pfn_at(at + 32 * MIB), pfn_at(at + 40 * MIB)), VL_OK);
        assert_int_equal(free_frames(), before + 4 * BLOCK);
        vli_frame_validate();
        assert_int_equal(vl_frame_offline(pfn_at(at + 24 * MIB), pfn_at(at + 32 * MIB)), VL_OK);
        assert_int_equal(vl_frame_offline(pfn_at(at + 32 * MIB), pfn_at(at + 40 * MIB)), VL_OK);
        machine_off(before);
    }
}

/* Memory that may be plugged in: the descriptors of all of it lie in what is there. */
static void no_side_range_is_needed(void **state)
{
    struct sim_config config = config_of(64 * MIB, 128 * MIB);
    uint64_t before;

    (void)state;
    config.range_count = 2;
    sim_start(&config);
    before = free_frames();
    assert_int_equal(online(0, 128), VL_OK);
    assert_int_equal(free_frames(), before + 32 * BLOCK);
    vli_frame_validate();
    assert_int_equal(offline(0, 128), VL_OK);
    machine_off(before);
}

/* ---------------------------------------------------------------------------------- many at once
 */

#define ROUNDS 300u

static _Atomic uint32_t came;

/* CPUs bring the same blocks online and take them offline, while each allocates as it can. */
static void come_and_go(void *arg, unsigned cpu)
{
    uint64_t random = 17 + cpu;
    struct vl_pfn pfns[64];
    size_t had = 0;

    (void)arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        int64_t at = (int64_t)(sim_random(&random) % 8) * 4;
        int64_t end = at + 4 * (1 + (int64_t)(sim_random(&random) % 3));

        if (sim_random(&random) % 2 == 0) {
            came += online(at, end) == VL_OK ? (uint32_t)(end - at) / 4 : 0;
        } else {
            came -= offline(at, end) == VL_OK ? (uint32_t)(end - at) / 4 : 0;
        }
        while (had < 64 && sim_random(&random) % 8 != 0 &&
               vl_frame_alloc((unsigned)(had % 10), VL_ATOMIC, &pfns[had]) == VL_OK) {
            memset(vl_frame_to_virt(pfns[had]), (int)cpu, 64);
            had++;
        }
        while (had > 0 && sim_random(&random) % 8 != 0) {
            had--;
            assert_int_equal(*(unsigned char *)vl_frame_to_virt(pfns[had]), cpu);
            vl_frame_free(pfns[had], (unsigned)(had % 10));
        }
    }
    while (had > 0) {
        had--;
        vl_frame_free(pfns[had], (unsigned)(had % 10));
    }
}

static void cpus_bring_the_same(void **state)
{
    struct sim_config config = config_of(16 * MIB, 64 * MIB);
    uint64_t before;

    (void)state;
    config.cpus = VL_SMP ? 4 : 1;
    sim_start(&config);
    before = free_frames();
    came = 0;
    sim_run_on_cpus(config.cpus, come_and_go, NULL);
    vl_drain_all();
    vli_frame_validate();
    assert_int_equal(free_frames(), before + came * BLOCK);
    for (int64_t at = 0; at < 40; at += 4) {
        came -= offline(at, at + 4) == VL_OK ? 1 : 0;
    }
    assert_int_equal(came, 0);
    machine_off(before);
}

static unsigned succeeded;

static void bring(void *arg)
{
    (void)arg;
    succeeded += online(0, 8) == VL_OK ? 1 : 0;
}

static void bring_in_between(unsigned cpu)
{
    (void)cpu;
    bring(NULL);
}

/* Another request for the same comes after each instruction of one: only one of them is served.
 * It comes as an interrupt, and so at the very instruction; else interrupts have no business here.
 */
static void one_of_two_gets_it(void **state)
{
    uint64_t before;

    (void)state;
    machine_on(16 * MIB, 64 * MIB);
    vl_frame_set_stock(false);
    sim_irq_set(bring_in_between);
    before = free_frames();
    for (uint64_t at = 0; at < 160; at++) {
        succeeded = 0;
        (void)sim_step(bring, NULL, at);
        assert_int_equal(succeeded, 1);
        assert_int_equal(free_frames(), before + 2 * BLOCK);
        assert_int_equal(offline(0, 8), VL_OK);
    }
    sim_irq_set(NULL);
    machine_off(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_come_and_go),
        cmocka_unit_test(it_is_memory_like_any_other),
        cmocka_unit_test(reclaim_may_bring_it),
        cmocka_unit_test(watermarks_and_stocks_follow),
        cmocka_unit_test(stocks_stay_off),
        cmocka_unit_test(a_reserve_costs_what_is_online),
        cmocka_unit_test(the_largest_reserve),
        cmocka_unit_test(odd_requests_are_refused),
        cmocka_unit_test(absent_frames_are_nobodys),
        cmocka_unit_test(odd_ranges_are_refused),
        cmocka_unit_test(ranges_stand_anywhere),
        cmocka_unit_test(no_side_range_is_needed),
        cmocka_unit_test(cpus_bring_the_same),
        cmocka_unit_test(one_of_two_gets_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
