/*
 * frame_online.c - memory that comes and goes: ranges of kind ABSENT and SIDE, vl_frame_online(),
 * vl_frame_offline().
 *
 * Goal: a reserve of any size costs what is online; what is brought online is ordinary memory; each
 * odd request is refused and changes nothing.
 * Method: machines whose ranges are mostly absent; pages of RAM that are resident are counted by
 * mincore().
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <sys/mman.h>
#include "core/base/percpu.h"
#include "core/frame/frame.h"
#include "machine/sim/sim.h"

#define MIB   (1024ull * 1024)
#define GIB   (1024 * MIB)
#define TIB   (1024 * GIB)
#define BLOCK (1u << VL_ORDER_MAX)

static uint64_t free_frames(void)
{
    struct vl_frame_counts counts;

    vl_frame_counts(&counts);
    return counts.free_zones + counts.free_stock;
}

static struct vl_frame_counts counts_now(void)
{
    struct vl_frame_counts counts;

    vl_frame_counts(&counts);
    return counts;
}

static struct vl_pfn pfn_at(uint64_t address)
{
    return vl_pa_to_pfn((struct vl_pa){address});
}

/* RAM for the core's own start, the side range, and a reserve behind it. */
static void machine_on(uint64_t present, uint64_t reserve, unsigned cpus)
{
    uint64_t first = 64 * MIB;
    uint64_t side = vl_frame_side_bytes((present + reserve) >> VL_PAGE_SHIFT);
    struct sim_config config = {.cpus = cpus, .seed = 1, .quiet = true, .range_count = 3};

    config.ranges[0] = (struct vl_range){{first}, {first + present}, 0, VL_RANGE_FREE};
    config.ranges[1] =
        (struct vl_range){{first + present}, {first + present + reserve}, 0, VL_RANGE_ABSENT};
    config.ranges[2] =
        (struct vl_range){config.ranges[1].end, {config.ranges[1].end.a + side}, 0, VL_RANGE_SIDE};
    sim_start(&config);
}

static void a_block_comes_online(void **state)
{
    struct vl_pfn start = pfn_at(128 * MIB);
    struct vl_frame_counts before;
    struct vl_frame_counts after;

    (void)state;
    machine_on(64 * MIB, 64 * GIB, 1);
    before = counts_now();
    assert_int_equal(before.absent, 64 * GIB / 4096);
    assert_int_equal(vl_frame_online(start, (struct vl_pfn){start.n + 2 * BLOCK}), VL_OK);
    after = counts_now();
    assert_int_equal(after.managed, before.managed + 2 * BLOCK);
    assert_int_equal(after.absent, before.absent - 2 * BLOCK);
    assert_int_equal(after.free_zones, before.free_zones + 2 * BLOCK);
    vli_frame_validate();
    assert_int_equal(vl_frame_offline(start, (struct vl_pfn){start.n + 2 * BLOCK}), VL_OK);
    assert_int_equal(free_frames(), before.free_zones + before.free_stock);
    vli_frame_validate();
    sim_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_comes_online),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
