/*
 * Goal: memory nodes, whatever the strategy BUDDY: a CPU's requests are served by its own node's
 * memory as long as that has any to spare, then by the others' in the order of their distances; a
 * CPU keeps frames of its own node only, so that what it gives back of others' is free there at
 * once; nothing is lost; and the host's mistakes are refused.
 * Method: machines of several nodes, set up by hand, this thread playing one CPU after the other;
 * each frame's zone tells the node. After each, all is given back, counted and validated.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "core/frame/zone.h"
#include "machine/sim/machine.h"

#define MIB    (1ull << 20)
#define FRAMES (MIB >> VL_PAGE_SHIFT) /* of a MiB */
#define MANY   32768u

static struct vl_pfn held[MANY];

static uint64_t free_frames(void)
{
    struct vl_frame_counts counts;

    vl_frame_counts(&counts);
    return counts.free_zones + counts.free_stock;
}

/* Free frames in the zones of a node. */
static uint64_t free_of(unsigned node)
{
    struct vli_zone_info info;
    uint64_t frames = 0;

    for (unsigned zone = 0; vli_zone_info(zone, &info); zone++) {
        frames += info.node == node ? info.free : 0;
    }
    return frames;
}

static uint64_t abroad_of(unsigned zone)
{
    struct vli_zone_info info;

    assert_true(vli_zone_info(zone, &info));
    return info.work.abroad;
}

static unsigned node_of(struct vl_pfn pfn)
{
    return vli_frame_zone(vli_frame_of(pfn))->node;
}

static struct vl_range range(uint64_t start, uint64_t bytes, uint32_t zone, uint32_t kind)
{
    return (struct vl_range){{start * MIB}, {(start + bytes) * MIB}, zone, kind};
}

/* As many nodes as CPUs, 32 MiB and one zone each, one after the other. */
static struct sim_config config_of(unsigned nodes)
{
    struct sim_config config = {.cpus = nodes, .seed = 1, .quiet = true, .range_count = nodes};

    for (unsigned i = 0; i < nodes; i++) {
        config.ranges[i] = range(4 + 32ull * i, 32, i, VL_RANGE_FREE);
        config.zone_node[i] = (uint8_t)i;
        config.cpu_node[i] = (uint8_t)i;
    }
    return config;
}

/* This thread is that CPU from now on. */
static void be_cpu(unsigned cpu)
{
    sim_irq_cpu_off(sim_self.cpu);
    sim_self.cpu = cpu;
    sim_irq_cpu_on(cpu);
}

static void machine_off(uint64_t free_at_start)
{
    vli_frame_validate();
    for (unsigned cpu = vl_host_cpu_count(); cpu-- > 0;) {
        be_cpu(cpu);
        vli_stock_drain_local();
    }
    vl_drain_all();
    vli_frame_validate();
    assert_int_equal(free_frames(), free_at_start);
    sim_stop();
}

/* Frames that can be had while others need not be asked for. */
static size_t take_all_to_spare(void)
{
    size_t had = 0;

    while (had < MANY && vl_frame_alloc(0, VL_ATOMIC | VL_MAY_FAIL, &held[had]) == VL_OK) {
        had++;
    }
    assert_true(had < MANY);
    return had;
}

static void give_all(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        vl_frame_free(held[i], 0);
    }
}

/* ------------------------------------------------------------------------------- near before far
 */

static void own_node_first(void **state)
{
    static const unsigned orders[] = {0, 1, 5, VLI_STOCK_ORDER_LARGE, VL_ORDER_MAX};
    struct sim_config config = config_of(VL_SMP ? 3 : 1);
    uint64_t before;
    struct vl_pfn pfn;

    (void)state;
    sim_start(&config);
    before = free_frames();
    for (unsigned cpu = 0; cpu < config.cpus; cpu++) {
        be_cpu(cpu);
        for (unsigned on = 0; on < 2; on++) {
            vl_frame_set_stock(on != 0);
            for (size_t i = 0; i < VLI_COUNT_OF(orders); i++) {
                assert_int_equal(vl_frame_alloc(orders[i], VL_ATOMIC, &pfn), VL_OK);
                assert_int_equal(node_of(pfn), cpu);
                vl_frame_free(pfn, orders[i]);
                assert_int_equal(vl_frame_alloc(orders[i], VL_WAIT | VL_ZEROED, &pfn), VL_OK);
                assert_int_equal(node_of(pfn), cpu);
                vl_frame_free(pfn, orders[i]);
            }
            assert_int_equal(vl_frame_alloc_run(37, VL_ATOMIC, &pfn), VL_OK);
            assert_int_equal(node_of(pfn), cpu);
            vl_frame_free_run(pfn, 37);
            assert_int_equal(vl_frame_alloc_bulk(2000, VL_WAIT, held), 2000);
            for (unsigned i = 0; i < 2000; i++) {
                assert_int_equal(node_of(held[i]), cpu);
            }
            vl_frame_free_bulk(held, 2000);
        }
        assert_int_equal(abroad_of(cpu), 0);
    }
    machine_off(before);
}

/* All that can be had, by CPU @cpu: each frame is of the node that @order names next, until that
 * has no more to spare. */
static void expect_order(unsigned cpu, const unsigned *order, unsigned nodes)
{
    uint64_t before = free_frames();
    unsigned at = 0;
    size_t had;

    be_cpu(cpu);
    had = take_all_to_spare();
    for (size_t i = 0; i < had; i++) {
        while (node_of(held[i]) != order[at]) {
            at++;
            assert_true(at < nodes);
        }
    }
    assert_int_equal(at, nodes - 1);
    for (unsigned node = 0; node < nodes; node++) {
        assert_true(free_of(node) < FRAMES);
    }
    give_all(had);
    assert_int_equal(free_frames(), before);
    vl_drain_all();
}

static void others_by_distance(void **state)
{
    static const unsigned plain[3][3] = {{0, 1, 2}, {1, 2, 0}, {2, 0, 1}};
    static const unsigned chosen[3][3] = {{0, 2, 1}, {1, 2, 0}, {2, 1, 0}};
    struct sim_config config = config_of(3);

    (void)state;
    if (!VL_SMP) {
        config.cpus = 1;
    }
    for (unsigned given = 0; given < 2; given++) {
        uint64_t before;

        if (given != 0) {
            config.distance[0][1] = 30;
            config.distance[0][2] = 20;
            config.distance[1][0] = 31;
            config.distance[1][2] = 30;
            config.distance[2][0] = 200;
            config.distance[2][1] = 100;
        }
        sim_start(&config);
        before = free_frames();
        for (unsigned cpu = 0; cpu < config.cpus; cpu++) {
            expect_order(cpu, given != 0 ? chosen[cpu] : plain[cpu], 3);
        }
        assert_true(abroad_of(1) > 30 * FRAMES);
        machine_off(before);
    }
}

/* A request that may take no more than what is restricted finds that of its own node, then of
 * others; and a node's highest zone is no reserve for those of another. */
static void zones_of_nodes(void **state)
{
    struct sim_config config = {.cpus = VL_SMP ? 2 : 1, .seed = 1, .quiet = true, .range_count = 4};
    vl_how_t low = VL_ATOMIC | 2u << VL_ZONE_SHIFT;
    struct vl_pfn pfn;
    struct vli_zone_info info;
    uint64_t before;

    (void)state;
    /* Zones 0 and 1 are the restricted ones, of node 0 and 1; 2 and 3 the others. */
    for (unsigned i = 0; i < 4; i++) {
        config.ranges[i] = range(4 + 32 * i, 32, i % 2 * 2 + i / 2, VL_RANGE_FREE);
        config.zone_node[i] = (uint8_t)(i % 2);
    }
    config.cpu_node[1] = 1;
    sim_start(&config);
    before = free_frames();
    assert_true(vli_zone_info(1, &info));
    assert_string_equal(info.name, "DMA32");
    assert_true(vli_zone_info(3, &info));
    assert_string_equal(info.name, "Normal");
    assert_int_equal(info.node, 1);
    for (unsigned cpu = 0; cpu < config.cpus; cpu++) {
        size_t had;

        be_cpu(cpu);
        assert_int_equal(vl_frame_alloc(0, low, &pfn), VL_OK);
        assert_int_equal(vli_frame_zone(vli_frame_of(pfn))->index, cpu);
        vl_frame_free(pfn, 0);
        had = take_all_to_spare();
        /* The other node's highest zone gave all but its low watermark, the restricted ones keep
         * as much as they keep for those who can use nothing else. */
        for (unsigned zone = 0; zone < 4; zone++) {
            assert_true(vli_zone_info(zone, &info));
            assert_in_range(info.free, zone < 2 ? info.watermark_high : info.watermark_low,
                            (zone < 2 ? info.watermark_high : info.watermark_low) + 1);
        }
        give_all(had);
        vl_drain_all();
    }
    machine_off(before);
}

/* ------------------------------------------------------------------------------- what comes back
 */

/* One CPU takes, one of another node gives back, one by one or many: all of it lies in its node's
 * zones at once, but for what the first CPU still has in its stock. */
static void what_is_far_goes_home(void **state)
{
    struct sim_config config = config_of(2);
    struct vl_frame_counts counts;
    uint64_t before;

    (void)state;
    if (!VL_SMP) {
        return; /* who would give it back? See the next one. */
    }
    sim_start(&config);
    before = free_frames();
    for (unsigned how = 0; how < 3; how++) {
        for (unsigned cpu = 0; cpu < 2; cpu++) {
            uint64_t free;
            unsigned order = how == 2 ? VLI_STOCK_ORDER_LARGE : 0;
            unsigned count = how == 2 ? 8 : 2000;

            be_cpu(cpu);
            vl_drain_all();
            free = free_of(cpu);
            for (unsigned i = 0; i < count; i++) {
                assert_int_equal(vl_frame_alloc(order, VL_WAIT, &held[i]), VL_OK);
                assert_int_equal(node_of(held[i]), cpu);
            }
            vli_stock_drain_local();
            assert_int_equal(free_of(cpu), free - ((uint64_t)count << order));
            be_cpu(1 - cpu);
            if (how == 1) {
                vl_frame_free_bulk(held, count);
            }
            for (unsigned i = 0; how != 1 && i < count; i++) {
                vl_frame_free(held[i], order);
            }
            assert_int_equal(free_of(cpu), free);
            vl_frame_counts(&counts);
            assert_int_equal(counts.free_stock, 0);
        }
    }
    machine_off(before);
}

/* What a CPU had of another node, since its own was full, it does not keep either. */
static void what_is_far_is_not_kept(void **state)
{
    struct sim_config config = config_of(2);
    struct vl_frame_counts counts;
    uint64_t before;
    uint64_t there;
    size_t had;
    size_t from = 0;

    (void)state;
    config.cpus = 1;
    sim_start(&config);
    before = free_frames();
    vl_drain_all();
    there = free_of(1);
    /* The first far one comes alone, with nothing left in the stock. */
    do {
        assert_int_equal(vl_frame_alloc(0, VL_ATOMIC, &held[from]), VL_OK);
    } while (node_of(held[from++]) == 0);
    vl_frame_counts(&counts);
    assert_int_equal(counts.free_stock, 0);
    assert_int_equal(free_of(1), there - 1);
    give_all(from);
    vl_drain_all();
    from = 0;
    had = take_all_to_spare();
    while (node_of(held[from]) == 0) {
        from++;
    }
    assert_int_equal(abroad_of(1), had - from + 1);
    assert_int_equal(abroad_of(0), 0);
    for (size_t i = from; i < had; i++) {
        vl_frame_free(held[i], 0);
    }
    assert_int_equal(free_of(1), there);
    give_all(from);
    machine_off(before);
}

/* What is near is kept, and handed out again, as ever; also where another node's memory lies above
 * it, so that one comparison does not tell which is which. */
static void what_is_near_is_kept(void **state)
{
    struct sim_config config = config_of(2);
    struct vl_frame_counts counts;
    struct vli_zone_info info;
    uint64_t before;

    (void)state;
    if (!VL_SMP) {
        config.cpus = 1;
    }
    sim_start(&config);
    before = free_frames();
    for (unsigned cpu = 0; cpu < config.cpus; cpu++) {
        uint64_t locks;

        be_cpu(cpu);
        assert_int_equal(vl_frame_alloc_bulk(8, VL_WAIT, held), 8);
        vl_frame_free_bulk(held, 8);
        assert_true(vli_zone_info(cpu, &info));
        locks = info.work.locks;
        for (unsigned i = 0; i < 1000; i++) {
            assert_int_equal(vl_frame_alloc(0, VL_ATOMIC, &held[0]), VL_OK);
            assert_int_equal(vl_frame_alloc(0, VL_ATOMIC, &held[1]), VL_OK);
            vl_frame_free(held[0], 0);
            vl_frame_free(held[1], 0);
        }
        assert_true(vli_zone_info(cpu, &info));
        assert_true(info.work.locks <= locks + 4);
        vl_frame_counts(&counts);
        assert_true(counts.free_stock > 0);
    }
    machine_off(before);
}

/* A node's memory in two parts with another's between, and a node that has none. */
static void odd_shapes(void **state)
{
    struct sim_config config = {.cpus = VL_SMP ? 3 : 1, .seed = 1, .quiet = true, .range_count = 3};
    uint64_t before;
    size_t had;

    (void)state;
    config.ranges[0] = range(4, 16, 0, VL_RANGE_FREE);
    config.ranges[1] = range(20, 16, 1, VL_RANGE_FREE);
    config.ranges[2] = range(36, 32, 0, VL_RANGE_FREE);
    config.zone_node[1] = 7;
    config.cpu_node[1] = 7;
    config.cpu_node[2] = 15; /* from there the next is 0 */
    sim_start(&config);
    before = free_frames();
    for (unsigned cpu = 0; cpu < config.cpus; cpu++) {
        unsigned near = cpu == 1 ? 7 : 0;

        be_cpu(cpu);
        had = take_all_to_spare();
        for (size_t i = 0; i < had; i++) {
            assert_true(i > 12 * FRAMES || node_of(held[i]) == near);
        }
        assert_int_not_equal(node_of(held[had - 1]), near);
        give_all(had);
        vli_frame_validate();
        vl_drain_all();
    }
    machine_off(before);
}

/* ---------------------------------------------------------------------- memory that comes and goes
 */

static void node_comes_later(void **state)
{
    struct sim_config config = config_of(2);
    struct vl_pfn start = vl_pa_to_pfn((struct vl_pa){36 * MIB});
    struct vl_pfn end = vl_pa_to_pfn((struct vl_pa){68 * MIB});
    unsigned last = VL_SMP ? 1 : 0;
    uint64_t before;
    size_t had;

    (void)state;
    config.cpus = last + 1;
    config.cpu_node[0] = VL_SMP ? 0 : 1;
    config.ranges[1].kind = VL_RANGE_ABSENT;
    sim_start(&config);
    before = free_frames();
    be_cpu(last);
    had = take_all_to_spare(); /* what there is; it leaves some in the stock when given back */
    assert_int_equal(node_of(held[0]), 0);
    give_all(had);
    assert_int_equal(vl_frame_online(start, end), VL_OK);
    vli_frame_validate(); /* no stock has another node's frames */
    assert_int_equal(vl_frame_alloc(0, VL_ATOMIC, &held[0]), VL_OK);
    assert_int_equal(node_of(held[0]), 1);
    vl_frame_free(held[0], 0);
    vl_frame_set_stock(false);
    assert_int_equal(vl_frame_alloc(3, VL_ATOMIC, &held[0]), VL_OK);
    assert_int_equal(node_of(held[0]), 1);
    vl_frame_free(held[0], 3);
    vl_frame_set_stock(true);
    be_cpu(last);
    vli_stock_drain_local();
    assert_int_equal(vl_frame_offline(start, end), VL_OK);
    assert_int_equal(vl_frame_alloc(0, VL_ATOMIC, &held[0]), VL_OK);
    assert_int_equal(node_of(held[0]), 0);
    vl_frame_free(held[0], 0);
    /* Also where stocks are off meanwhile. */
    vl_frame_set_stock(false);
    assert_int_equal(vl_frame_online(start, end), VL_OK);
    assert_int_equal(vl_frame_alloc(3, VL_ATOMIC, &held[0]), VL_OK);
    assert_int_equal(node_of(held[0]), 1);
    vl_frame_free(held[0], 3);
    assert_int_equal(vl_frame_offline(start, end), VL_OK);
    machine_off(before);
}

static void bad_nodes_are_refused(void **state)
{
    struct sim_config config = config_of(2);

    (void)state;
    config.cpus = 1;
    config.cpu_node[0] = VL_NODES_MAX;
    assert_int_equal(sim_try_start(&config), VL_EINVAL);
    config.cpu_node[0] = 0;
    config.zone_node[1] = VL_NODES_MAX;
    assert_int_equal(sim_try_start(&config), VL_EINVAL);
    config.zone_node[1] = VL_NODES_MAX - 1;
    config.distance[0][0] = 255; /* its own is the nearest all the same */
    assert_int_equal(sim_try_start(&config), VL_OK);
    assert_int_equal(vl_frame_alloc(0, VL_ATOMIC, &held[0]), VL_OK);
    assert_int_equal(node_of(held[0]), 0);
    vl_frame_free(held[0], 0);
    sim_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_node_first),
        cmocka_unit_test(others_by_distance),
        cmocka_unit_test(zones_of_nodes),
        cmocka_unit_test(what_is_far_goes_home),
        cmocka_unit_test(what_is_far_is_not_kept),
        cmocka_unit_test(what_is_near_is_kept),
        cmocka_unit_test(odd_shapes),
        cmocka_unit_test(node_comes_later),
        cmocka_unit_test(bad_nodes_are_refused),
    };

    return cmocka_run_group_tests_name("frame: nodes", tests, NULL, NULL);
}
