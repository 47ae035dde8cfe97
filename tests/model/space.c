/*
 * Goal: spaces behave as the plainest model of them does, whatever is asked in whatever order, and
 * also when allocations fail in the middle: contents, errors, counts, and not a frame lost.
 * Method: random operations from a fixed list of seeds on up to four spaces (forks of each other)
 * and four files, on a simulated machine whose MMU checks every entry, flush and free; the model
 * (tests/lib/model.h) does the same beside it. Everything is compared and validated every 1,000
 * operations. VL_TEST_OPS sets their number, VL_TEST_SEED one seed; with VL_TEST_PEEK what is
 * resident is compared after each, which finds the one that went wrong and changes nothing.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include "machine/sim/mmu.h"
#include "machine/sim/sim.h"
#include "tests/lib/drive.h"

#define OPS_DEFAULT 1000000u
#define CHECK_EVERY 1000u
#define RAM         (64ull << 20)

static const uint64_t seeds[] = {1, 2, 3, 4};
static struct drive drive;

static uint64_t free_frames(void)
{
    struct vl_frame_counts counts;

    vl_drain_all();
    vl_frame_counts(&counts);
    return counts.free_zones + counts.free_stock;
}

static bool peeks_always(void)
{
    return getenv("VL_TEST_PEEK") != NULL;
}

static void run(uint64_t seed, uint64_t ops, bool is_failing, uint64_t ram_bytes)
{
    struct sim_config config = {.ram_bytes = ram_bytes, .seed = sim_seed(seed), .quiet = true};
    bool peeks = peeks_always();
    uint64_t before;

    sim_start(&config);
    before = free_frames();
    drive.choose = drive_seeded;
    drive.random = config.seed;
    drive.is_failing = is_failing;
    drive.is_short = ram_bytes < RAM;
    drive_start(&drive);
    for (uint64_t i = 0; i < ops; i++) {
        drive_step(&drive);
        if (peeks) {
            drive_peek(&drive);
        }
        if (i % CHECK_EVERY == 0) {
            drive_check(&drive);
        }
    }
    drive_check(&drive);
    assert_true((drive.lacked != 0) == (is_failing || drive.is_short));
    drive_end(&drive);
    assert_int_equal(free_frames(), before);
    sim_stop();
}

/* Every kind of operation was done; a test that never reaches one says nothing about it. */
static void check_reached(void)
{
    for (unsigned kind = 0; drive_name(kind) != NULL; kind++) {
        fprintf(stderr, "# %s: %llu of %llu\n", drive_name(kind),
                (unsigned long long)drive.done[kind], (unsigned long long)drive.tries[kind]);
        assert_true(drive.done[kind] != 0);
    }
}

static void spaces_match_the_model(void **state)
{
    uint64_t ops = sim_ops(OPS_DEFAULT) / (2 * (sizeof(seeds) / sizeof(seeds[0])));

    (void)state;
    for (unsigned i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
        run(seeds[i], ops, false, RAM);
    }
    check_reached();
}

static void spaces_match_while_memory_fails(void **state)
{
    uint64_t ops = sim_ops(OPS_DEFAULT) / (2 * (sizeof(seeds) / sizeof(seeds[0])));

    (void)state;
    for (unsigned i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
        run(seeds[i] + 100, ops, true, RAM);
    }
}

static void spaces_match_while_memory_is_short(void **state)
{
    uint64_t ops = sim_ops(OPS_DEFAULT) / (4 * (sizeof(seeds) / sizeof(seeds[0])));

    (void)state;
    for (unsigned i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
        run(seeds[i] + 200, ops, false, 3u << 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spaces_match_the_model),
        cmocka_unit_test(spaces_match_while_memory_fails),
        cmocka_unit_test(spaces_match_while_memory_is_short),
    };

    return cmocka_run_group_tests_name("space", tests, NULL, NULL);
}
