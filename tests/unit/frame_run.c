/*
 * Goal: runs of any number of frames: what a run gets, what is left of the block it was cut from,
 * and that it comes back in any parts. Method: every length; all memory in runs of random length,
 * with contents that tell whose they are; mistakes in death tests.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "core/base/bits.h"
#include "core/frame/frame.h"
#include "machine/sim/sim.h"

#define MIB (1ull << 20)

static uint64_t free_frames(void)
{
    struct vl_frame_counts counts;

    vl_frame_counts(&counts);
    return counts.free_zones + counts.free_stock;
}

static void machine_on(uint64_t bytes, unsigned cpus)
{
    struct sim_config config = {.ram_bytes = bytes, .cpus = cpus, .seed = 1, .quiet = true};

    sim_start(&config);
    /* So that all that can be merged is. */
    vl_drain_all();
}

static void machine_off(uint64_t free_at_start)
{
    vl_drain_all();
    vli_frame_validate();
    assert_int_equal(free_frames(), free_at_start);
    sim_stop();
}

static void every_length(void **state)
{
    struct vli_zone_info first;
    struct vli_zone_info info;
    uint64_t before;

    (void)state;
    machine_on(32 * MIB, 1);
    before = free_frames();
    assert_true(vli_zone_info(0, &first));
    for (uint32_t frames = 1; frames <= VL_RUN_MAX; frames++) {
        struct vl_pfn pfn;

        assert_int_equal(vl_frame_alloc_run(frames, VL_WAIT, &pfn), VL_OK);
        assert_int_equal(pfn.n % (1u << vli_log2_ceil(frames)), 0);
        assert_int_equal(free_frames(), before - frames);
        for (uint32_t i = 0; i < frames; i++) {
            assert_int_equal(vli_frame_of((struct vl_pfn){pfn.n + i})->refs, 1);
        }
        if (frames % 7 == 0) {
            vli_frame_validate();
        }
        vl_frame_free_run(pfn, frames);
        assert_int_equal(free_frames(), before);
    }
    assert_true(vli_zone_info(0, &info));
    assert_memory_equal(info.blocks, first.blocks, sizeof(info.blocks));
    machine_off(before);
}

static void bad_lengths_are_refused(void **state)
{
    static const size_t bad[] = {0,          VL_RUN_MAX + 1,   UINT32_MAX,
                                 1ull << 32, (1ull << 32) + 1, SIZE_MAX};
    struct vl_pfn pfn = {77};

    (void)state;
    machine_on(32 * MIB, 1);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(vl_frame_alloc_run(bad[i], VL_WAIT, &pfn), VL_EINVAL);
    }
    assert_int_equal(pfn.n, 77);
    machine_off(free_frames());
}

static void zeroed_to_its_end(void **state)
{
    struct vl_pfn pfn;
    uint64_t before;

    (void)state;
    machine_on(32 * MIB, 1);
    before = free_frames();
    for (unsigned round = 0; round < 2; round++) {
        unsigned char *bytes;

        assert_int_equal(vl_frame_alloc_run(777, VL_WAIT | VL_ZEROED, &pfn), VL_OK);
        bytes = vl_frame_to_virt(pfn);
        for (size_t i = 0; i < 777 * VL_PAGE_SIZE; i += 64) {
            assert_int_equal(bytes[i], 0);
        }
        memset(bytes, 0xa5, 777 * VL_PAGE_SIZE);
        vl_frame_free_run(pfn, 777);
    }
    machine_off(before);
}

static void it_comes_back_in_parts(void **state)
{
    struct vli_zone_info first;
    struct vli_zone_info info;
    struct vl_pfn pfn;
    uint64_t before;

    (void)state;
    machine_on(32 * MIB, 1);
    before = free_frames();
    assert_true(vli_zone_info(0, &first));
    for (uint32_t frames = 5; frames <= VL_RUN_MAX; frames += 73) {
        assert_int_equal(vl_frame_alloc_run(frames, VL_WAIT, &pfn), VL_OK);
        /* As a reallocation shrinks it; a single frame, one by a reference; then the rest. */
        vl_frame_free_run((struct vl_pfn){pfn.n + frames - frames / 3}, frames / 3);
        vli_frame_validate();
        assert_int_equal(free_frames(), before - (frames - frames / 3));
        vl_frame_free((struct vl_pfn){pfn.n + 1}, 0);
        vl_frame_ref_get((struct vl_pfn){pfn.n + 2});
        vl_frame_ref_put((struct vl_pfn){pfn.n + 2});
        vl_frame_ref_put((struct vl_pfn){pfn.n + 2});
        vl_frame_free_run(pfn, 1);
        for (uint32_t i = 3; i < frames - frames / 3; i++) {
            vl_frame_free_run((struct vl_pfn){pfn.n + i}, 1);
        }
        vl_drain_all();
        vli_frame_validate();
    }
    assert_true(vli_zone_info(0, &info));
    assert_memory_equal(info.blocks, first.blocks, sizeof(info.blocks));
    machine_off(before);
}

/* A zone is named; and what is left of the request's block goes back to that zone. */
static void from_the_zone_that_is_named(void **state)
{
    struct sim_config config = {.cpus = 1, .seed = 1, .quiet = true, .range_count = 2};
    vl_how_t low = VL_ATOMIC | 1u << VL_ZONE_SHIFT;
    struct vl_pfn pfn;
    uint64_t before;

    (void)state;
    config.ranges[0] = (struct vl_range){{4 * MIB}, {16 * MIB + 4096}, 0, VL_RANGE_FREE};
    config.ranges[1] = (struct vl_range){{16 * MIB + 4096}, {64 * MIB}, 1, VL_RANGE_FREE};
    sim_start(&config);
    before = free_frames();
    for (uint32_t frames = 1; frames < 1000; frames += 37) {
        assert_int_equal(vl_frame_alloc_run(frames, low, &pfn), VL_OK);
        assert_true(vl_pfn_to_pa(pfn).a < 16 * MIB + 4096);
        assert_int_equal(free_frames(), before - frames);
        vli_frame_validate();
        vl_frame_free_run(pfn, frames);
        assert_int_equal(vl_frame_alloc_run(frames, VL_WAIT, &pfn), VL_OK);
        assert_true(vl_pfn_to_pa(pfn).a > 16 * MIB);
        vl_frame_free_run(pfn, frames);
    }
    machine_off(before);
}

/* ----------------------------------------------------------------------------- all of memory */

#define RUNS 16384u

static struct run {
    struct vl_pfn pfn;
    uint32_t frames;
} runs[4][RUNS];

static void write_run(const struct run *run, uint64_t value)
{
    for (uint32_t i = 0; i < run->frames; i++) {
        uint64_t *words = vl_frame_to_virt((struct vl_pfn){run->pfn.n + i});

        words[0] = value;
        words[511] = value + i;
    }
}

static void check_run(const struct run *run, uint64_t value)
{
    for (uint32_t i = 0; i < run->frames; i++) {
        const uint64_t *words = vl_frame_to_virt((struct vl_pfn){run->pfn.n + i});

        assert_int_equal(words[0], value);
        assert_int_equal(words[511], value + i);
    }
}

/* Takes and gives in random order, as long as there is memory; then gives all back. */
static void take_and_give(void *arg, unsigned cpu)
{
    struct run *own = runs[cpu];
    uint64_t random = *(uint64_t *)arg + cpu;
    size_t had = 0;

    for (unsigned i = 0; i < 5000; i++) {
        uint64_t draw = sim_random(&random);
        struct run run = {.frames = 1 + (uint32_t)(draw >> 8) % (1u << (draw >> 40) % 11)};

        if (draw % 5 < 3 && had < RUNS &&
            vl_frame_alloc_run(run.frames, VL_ATOMIC, &run.pfn) == VL_OK) {
            write_run(&run, cpu * 1000000u + run.pfn.n);
            own[had++] = run;
        } else if (had > 0) {
            size_t at = (size_t)(draw >> 20) % had;

            check_run(&own[at], cpu * 1000000u + own[at].pfn.n);
            vl_frame_free_run(own[at].pfn, own[at].frames);
            own[at] = own[--had];
        }
    }
    while (had-- > 0) {
        check_run(&own[had], cpu * 1000000u + own[had].pfn.n);
        vl_frame_free_run(own[had].pfn, own[had].frames);
    }
}

static void all_memory_in_runs(void **state)
{
    uint64_t seed = sim_seed(1);
    struct vli_zone_info first;
    struct vli_zone_info info;
    uint64_t before;

    (void)state;
    for (unsigned cpus = 1; cpus <= (VL_SMP ? 4 : 1); cpus += 3) {
        machine_on(64 * MIB, cpus);
        before = free_frames();
        assert_true(vli_zone_info(0, &first));
        sim_run_on_cpus(cpus, take_and_give, &seed);
        vli_frame_validate();
        assert_true(vli_zone_info(0, &info));
        assert_memory_equal(info.blocks, first.blocks, sizeof(info.blocks));
        machine_off(before);
    }
}

static size_t reclaimed;
static struct run hoard[256];
static size_t hoarded;

static size_t reclaim(size_t wanted)
{
    size_t made = 0;

    reclaimed++;
    while (made < wanted && hoarded > 0) {
        hoarded--;
        vl_frame_free_run(hoard[hoarded].pfn, hoard[hoarded].frames);
        made += hoard[hoarded].frames;
    }
    return made;
}

static void reclaim_makes_room(void **state)
{
    struct vl_pfn pfn;
    uint64_t before;

    (void)state;
    machine_on(64 * MIB, 1);
    before = free_frames();
    while (vl_frame_alloc_run(600, VL_ATOMIC, &hoard[hoarded].pfn) == VL_OK) {
        hoard[hoarded++].frames = 600;
    }
    vl_frame_set_reclaim(reclaim);
    assert_int_equal(vl_frame_alloc_run(601, VL_ATOMIC, &pfn), VL_ENOMEM);
    assert_int_equal(reclaimed, 0);
    assert_int_equal(vl_frame_alloc_run(601, VL_WAIT, &pfn), VL_OK);
    assert_true(reclaimed > 0);
    vl_frame_free_run(pfn, 601);
    (void)reclaim(SIZE_MAX);
    machine_off(before);
}

static void it_can_be_made_to_fail(void **state)
{
    struct vl_pfn pfn = {77};

    (void)state;
    machine_on(32 * MIB, 1);
    sim_fail_after(0);
    assert_int_equal(vl_frame_alloc_run(3, VL_WAIT, &pfn), VL_ENOMEM);
    assert_int_equal(pfn.n, 77);
    machine_off(free_frames());
}

/* ----------------------------------------------------------------------------------- mistakes */

struct mistake {
    uint32_t frames; /* allocated */
    int32_t start;   /* given back from here on */
    uint32_t count;
    uint32_t times;
};

static void make(void *arg)
{
    const struct mistake *mistake = arg;
    struct vl_pfn pfn;

    if (vl_frame_alloc_run(mistake->frames, VL_WAIT, &pfn) == VL_OK) {
        for (uint32_t i = 0; i < mistake->times; i++) {
            vl_frame_free_run((struct vl_pfn){pfn.n + (uint32_t)mistake->start}, mistake->count);
        }
    }
}

static void free_as_block(void *arg)
{
    struct vl_pfn pfn;

    (void)arg;
    if (vl_frame_alloc_run(8, VL_WAIT, &pfn) == VL_OK) {
        vl_frame_free(pfn, 3);
    }
}

static void free_block_as_run(void *arg)
{
    struct vl_pfn pfn;

    (void)arg;
    if (vl_frame_alloc(3, VL_WAIT, &pfn) == VL_OK) {
        vl_frame_free_run(pfn, 8);
    }
}

static void mistakes_are_caught(void **state)
{
    struct mistake twice = {10, 0, 10, 2};
    struct mistake too_long = {10, 0, 11, 1};
    struct mistake part_twice = {10, 4, 3, 2};
    struct mistake none = {10, 0, 0, 1};
    struct mistake huge = {10, 0, VL_RUN_MAX + 1, 1};
    struct mistake nowhere = {10, INT32_MAX, 1, 1};

    (void)state;
    machine_on(32 * MIB, 1);
    assert_true(sim_dies(make, &twice, "double free"));
    assert_true(sim_dies(make, &too_long, "double free"));
    assert_true(sim_dies(make, &part_twice, "double free"));
    assert_true(sim_dies(make, &none, "frames > 0"));
    assert_true(sim_dies(make, &huge, "VL_RUN_MAX"));
    assert_true(sim_dies(make, &nowhere, "no such frame"));
    assert_true(sim_dies(free_as_block, NULL, "bad order"));
    assert_true(sim_dies(free_block_as_run, NULL, "bad order"));
    machine_off(free_frames());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length),
        cmocka_unit_test(bad_lengths_are_refused),
        cmocka_unit_test(zeroed_to_its_end),
        cmocka_unit_test(it_comes_back_in_parts),
        cmocka_unit_test(from_the_zone_that_is_named),
        cmocka_unit_test(all_memory_in_runs),
        cmocka_unit_test(reclaim_makes_room),
        cmocka_unit_test(it_can_be_made_to_fail),
        cmocka_unit_test(mistakes_are_caught),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
