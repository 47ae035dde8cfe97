/*
 * Goal: physical memory stands everything at once: CPUs that allocate blocks, runs, single frames
 * and objects, and give runs back in parts; that tell somebody beneath what is free, from several
 * CPUs, some of them losing interest or allocating in the midst of it; that bring memory online and
 * take it offline again; that have all caches shrunk; and interrupts that allocate meanwhile.
 * Method: what is allocated is written with its owner and checked when it goes back. Who is told
 * of a block writes all over it, and nobody else may until the call returns; a block that went
 * offline is written over as well. Some storms hold CPUs up in the midst of what they do. In the
 * end everything is valid, and as many frames are free as in the beginning.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <string.h>
#include <vellum/shrink.h>
#include "core/frame/frame.h"
#include "core/slab/slab.h"
#include "machine/sim/sim.h"

#define MIB     (1ull << 20)
#define RESERVE 0x10000000ull
#define HELD    48u

enum kind { KIND_NONE, KIND_BLOCK, KIND_RUN, KIND_OBJECT, KINDS };

struct held {
    enum kind kind;
    struct vl_pfn pfn;
    size_t count; /* order, frames, or bytes */
    unsigned char *at;
};

static uint64_t operations;
static _Atomic uint32_t blocks_online;
static _Atomic uint64_t told;

static void check(bool good, const char *what)
{
    if (!good) {
        vl_host_panic(what);
    }
}

static size_t bytes_of(const struct held *held)
{
    switch (held->kind) {
    case KIND_BLOCK:
        return VL_PAGE_SIZE << held->count;
    case KIND_RUN:
        return held->count << VL_PAGE_SHIFT;
    default:
        return held->count;
    }
}

/* First and last byte of each page say whose it is. */
static void mark(const struct held *held, unsigned char owner)
{
    for (size_t i = 0; i < bytes_of(held); i += VL_PAGE_SIZE) {
        held->at[i] = owner;
    }
    held->at[bytes_of(held) - 1] = owner;
}

static void check_mark(const struct held *held, unsigned char owner)
{
    for (size_t i = 0; i < bytes_of(held); i += VL_PAGE_SIZE) {
        check(held->at[i] == owner, "a page was written by somebody else");
    }
    check(held->at[bytes_of(held) - 1] == owner, "the end was written by somebody else");
}

static void take(struct held *held, uint64_t *random, vl_how_t how)
{
    enum vl_status status = VL_OK;

    held->kind = (enum kind)(1 + sim_random(random) % (KINDS - 1));
    switch (held->kind) {
    case KIND_BLOCK:
        held->count = sim_random(random) % 8;
        status = vl_frame_alloc((unsigned)held->count, how, &held->pfn);
        break;
    case KIND_RUN:
        held->count = 1 + sim_random(random) % (sim_random(random) % 8 == 0 ? VL_RUN_MAX : 40);
        status = vl_frame_alloc_run(held->count, how, &held->pfn);
        break;
    default:
        held->count = 1 + sim_random(random) % 20000;
        held->at = vl_kmalloc(held->count, how);
        status = held->at == NULL ? VL_ENOMEM : VL_OK;
        break;
    }
    if (status != VL_OK) {
        held->kind = KIND_NONE;
    } else if (held->kind != KIND_OBJECT) {
        held->at = vl_frame_to_virt(held->pfn);
    }
}

static void give(struct held *held, uint64_t *random)
{
    size_t first;

    switch (held->kind) {
    case KIND_BLOCK:
        vl_frame_free(held->pfn, (unsigned)held->count);
        break;
    case KIND_RUN: /* in two parts, in either order */
        first = sim_random(random) % held->count;
        vl_frame_free_run((struct vl_pfn){held->pfn.n + (uint32_t)first}, held->count - first);
        if (first > 0) {
            vl_frame_free_run(held->pfn, first);
        }
        break;
    default:
        vl_kfree(held->at);
        break;
    }
    held->kind = KIND_NONE;
}

static void on_interrupt(unsigned cpu)
{
    static uint64_t randoms[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct held held = {KIND_NONE, {0}, 0, NULL};

    take(&held, &randoms[cpu % 8], VL_ATOMIC | VL_MAY_FAIL);
    if (held.kind != KIND_NONE) {
        mark(&held, 0xee);
        check_mark(&held, 0xee);
        give(&held, &randoms[cpu % 8]);
    }
}

/* Whose a block is while it is told: nobody's but this call's. */
static bool on_report(void *arg, struct vl_pfn pfn, unsigned order)
{
    uint64_t *random = arg;
    struct held held = {KIND_BLOCK, pfn, order, vl_frame_to_virt(pfn)};
    unsigned char owner = (unsigned char)(0x80 + sim_random(random) % 64);
    struct held other = {KIND_NONE, {0}, 0, NULL};

    mark(&held, owner);
    if (sim_random(random) % 16 == 0) {
        take(&other, random, VL_WAIT);
        if (other.kind != KIND_NONE) {
            give(&other, random);
        }
    }
    check_mark(&held, owner);
    told += (uint64_t)1 << order;
    return sim_random(random) % 32 != 0;
}

static struct vl_pfn pfn_at(uint64_t address)
{
    return vl_pa_to_pfn((struct vl_pa){address});
}

static void come_or_go(uint64_t *random)
{
    uint64_t block = sim_random(random) % 8;
    struct vl_pfn start = pfn_at(RESERVE + block * 4 * MIB);
    struct vl_pfn end = pfn_at(RESERVE + (block + 1) * 4 * MIB);

    if (sim_random(random) % 3 != 0) {
        blocks_online += vl_frame_online(start, end) == VL_OK ? 1 : 0;
    } else if (vl_frame_offline(start, end) == VL_OK) {
        blocks_online--;
    }
}

/* What is seldom. */
static void upheaval(uint64_t *random)
{
    switch (sim_random(random) % 6) {
    case 0:
    case 1:
        (void)vl_frame_report_free((unsigned)(sim_random(random) % (VL_ORDER_MAX + 1)), on_report,
                                   random);
        break;
    case 2:
    case 3:
        come_or_go(random);
        break;
    case 4:
        (void)vl_shrink(sim_random(random) % 2 == 0 ? 20 : SIZE_MAX);
        break;
    default:
        vl_drain_all();
        break;
    }
}

static void storm(void *arg, unsigned cpu)
{
    uint64_t random = *(uint64_t *)arg + cpu;
    struct held held[HELD];

    memset(held, 0, sizeof(held));
    for (uint64_t i = 0; i < operations; i++) {
        struct held *one = &held[sim_random(&random) % HELD];

        if (one->kind != KIND_NONE) {
            check_mark(one, (unsigned char)(cpu + 1));
            give(one, &random);
        } else {
            take(one, &random, sim_random(&random) % 2 == 0 ? VL_WAIT : VL_ATOMIC);
            if (one->kind != KIND_NONE) {
                mark(one, (unsigned char)(cpu + 1));
            }
        }
        if (sim_random(&random) % 64 == 0) {
            upheaval(&random);
        }
    }
    for (size_t i = 0; i < HELD; i++) {
        if (held[i].kind != KIND_NONE) {
            check_mark(&held[i], (unsigned char)(cpu + 1));
            give(&held[i], &random);
        }
    }
}

static uint64_t free_frames(void)
{
    struct vl_frame_counts counts;

    (void)vl_shrink(SIZE_MAX);
    vl_drain_all();
    vl_frame_counts(&counts);
    return counts.free_zones + counts.free_stock;
}

/* The machine's memory and CPUs by halves in two nodes; what comes later is of the second. */
static void make_nodes(struct sim_config *config, uint64_t present)
{
    uint64_t middle = RESERVE - present / 2;

    memmove(&config->ranges[1], &config->ranges[0], 3 * sizeof(config->ranges[0]));
    config->range_count = 4;
    config->ranges[0].end.a = middle;
    config->ranges[1].start.a = middle;
    config->ranges[1].zone = 1;
    config->ranges[2].zone = 1;
    config->zone_node[1] = 1;
    for (unsigned cpu = 0; cpu < config->cpus; cpu++) {
        config->cpu_node[cpu] = cpu % 2;
    }
}

static void storm_on(unsigned cpus, uint64_t present, unsigned nodes, unsigned hold_up)
{
    struct sim_config config = {.cpus = cpus, .seed = 3, .quiet = true, .range_count = 3};
    uint64_t side = vl_frame_side_bytes((present + 32 * MIB) >> VL_PAGE_SHIFT);
    uint64_t seed = sim_seed(91 + cpus + hold_up);
    uint64_t before;

    config.ranges[0] = (struct vl_range){{RESERVE - present}, {RESERVE}, 0, VL_RANGE_FREE};
    config.ranges[1] = (struct vl_range){{RESERVE}, {RESERVE + 32 * MIB}, 0, VL_RANGE_ABSENT};
    config.ranges[2] =
        (struct vl_range){{RESERVE + 32 * MIB}, {RESERVE + 32 * MIB + side}, 0, VL_RANGE_SIDE};
    if (nodes > 1) {
        make_nodes(&config, present);
    }
    sim_start(&config);
    blocks_online = 0;
    told = 0;
    operations = sim_ops(20000);
    before = free_frames();
    sim_irq_set(on_interrupt);
    sim_irq_storm(200);
    sim_hold_up(hold_up);
    sim_run_on_cpus(cpus, storm, &seed);
    sim_hold_up(0);
    sim_irq_storm_end();
    sim_irq_set(NULL);
    vli_frame_validate();
    vli_slab_validate();
    assert_true(told > 0);
    assert_int_equal(free_frames(), before + blocks_online * (4 * MIB >> VL_PAGE_SHIFT));
    sim_stop();
}

static void two_cpus(void **state)
{
    (void)state;
    storm_on(VL_SMP ? 2 : 1, 16 * MIB, 1, 0);
}

/* What one CPU does meets another half way, as where there are fewer real ones. */
static void two_cpus_held_up(void **state)
{
    (void)state;
    storm_on(VL_SMP ? 2 : 1, 16 * MIB, 1, 128);
}

static void eight_cpus_held_up(void **state)
{
    (void)state;
    storm_on(VL_SMP ? 8 : 1, 16 * MIB, 1, 512);
}

static void eight_cpus(void **state)
{
    (void)state;
    storm_on(VL_SMP ? 8 : 1, 16 * MIB, 1, 0);
}

static void much_memory(void **state)
{
    (void)state;
    storm_on(VL_SMP ? 4 : 1, 64 * MIB, 1, 0);
}

static void two_nodes(void **state)
{
    (void)state;
    storm_on(VL_SMP ? 4 : 1, 32 * MIB, 2, 0);
}

static void two_nodes_held_up(void **state)
{
    (void)state;
    storm_on(VL_SMP ? 4 : 1, 32 * MIB, 2, 256);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_cpus),           cmocka_unit_test(eight_cpus),
        cmocka_unit_test(much_memory),        cmocka_unit_test(two_cpus_held_up),
        cmocka_unit_test(eight_cpus_held_up), cmocka_unit_test(two_nodes),
        cmocka_unit_test(two_nodes_held_up),
    };

    return cmocka_run_group_tests_name("sim: a storm on physical memory", tests, NULL, NULL);
}
