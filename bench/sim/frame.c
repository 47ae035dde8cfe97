/*
 * frame.c - what frames cost on the simulated machine, in nanoseconds at native speed, and what the
 * buddy allocator does for them.
 *
 * usage: frame [MIB [ROUNDS]]     default 1024 MiB, 5 rounds; the best round is printed
 *
 * Rows:
 *   get / put, order 0   all memory one by one, then back in the same order
 *   bulk get / put       the same by vl_frame_alloc_bulk(), vl_frame_free_bulk(), 128 at a time
 *   pair                 one get and put, repeated
 *   random put           CPU 1 puts back in random order what CPU 0 took; until all is merged to
 *                        blocks of order 10 again, which is checked
 *   get / put / pair, order 9
 * Each with stocks on and off. Then, for 1 GiB taken and put back in random order with stocks off:
 * splits, merges, buddies looked up, list changes, locked instructions, each per frame. Then, for
 * memory that comes and goes:
 *   run of 10 pair       vl_frame_alloc_run(), vl_frame_free_run(): a block of 16 is cut and joined
 *   report               vl_frame_report_free() while every other frame of all memory is free, a
 *                        block of what is told; and once more, nothing being new, a call
 *   online and offline   a block of 4 MiB each
 */
#include <stdio.h>
#include <stdlib.h>
#include "core/base/percpu.h"
#include "core/frame/frame.h"
#include "machine/sim/sim.h"

#define PAIRS 2000000u
#define BULK  128u
#define START (4ull << 20) /* physical address of the memory */

static struct vl_pfn *taken;
static size_t taken_count;
static uint64_t rounds = 5;

static uint64_t now(void)
{
    return vl_host_clock_ns();
}

static void die(const char *what)
{
    fprintf(stderr, "frame: %s\n", what);
    exit(1);
}

/* Nanoseconds of the best round, by row. */
enum row { GET0, PUT0, BULK_GET, BULK_PUT, PAIR0, RANDOM_PUT, GET9, PUT9, PAIR9, ROWS };
static const char *const row_names[ROWS] = {"order 0 get, all memory",
                                            "order 0 put, same order",
                                            "order 0 get, bulk of 128",
                                            "order 0 put, bulk of 128",
                                            "order 0 pair",
                                            "order 0 put, other CPU, random, merged",
                                            "order 9 get, all memory",
                                            "order 9 put, same order",
                                            "order 9 pair"};
static double best[ROWS];

static void note(enum row row, uint64_t start, size_t count)
{
    double ns = (double)(now() - start) / (double)count;

    if (best[row] == 0 || ns < best[row]) {
        best[row] = ns;
    }
}

static void take_all(unsigned order)
{
    taken_count = 0;
    while (vl_frame_alloc(order, VL_ATOMIC, &taken[taken_count]) == VL_OK) {
        taken_count++;
    }
}

static void one_by_one(unsigned order, enum row get, enum row put)
{
    uint64_t start = now();

    take_all(order);
    note(get, start, taken_count);
    start = now();
    for (size_t i = 0; i < taken_count; i++) {
        vl_frame_free(taken[i], order);
    }
    note(put, start, taken_count);
}

/* All memory once, untimed: what CPU 1 had last comes over to this one. How long that takes is the
 * machine's (two CPUs may or may not share a core), and no row's. */
static void settle(unsigned order)
{
    take_all(order);
    for (size_t i = 0; i < taken_count; i++) {
        vl_frame_free(taken[i], order);
    }
}

static void in_bulk(void)
{
    uint64_t start = now();
    size_t had;

    taken_count = 0;
    while ((had = vl_frame_alloc_bulk(BULK, VL_ATOMIC, taken + taken_count)) > 0) {
        taken_count += had;
    }
    note(BULK_GET, start, taken_count);
    start = now();
    for (size_t i = 0; i < taken_count; i += BULK) {
        vl_frame_free_bulk(taken + i, taken_count - i < BULK ? taken_count - i : BULK);
    }
    note(BULK_PUT, start, taken_count);
}

static void pairs(unsigned order, enum row row)
{
    struct vl_pfn pfn;
    uint64_t start;

    for (unsigned i = 0; i < 1000; i++) {
        if (vl_frame_alloc(order, VL_ATOMIC, &pfn) == VL_OK) {
            vl_frame_free(pfn, order);
        }
    }
    start = now();
    for (unsigned i = 0; i < PAIRS; i++) {
        if (vl_frame_alloc(order, VL_ATOMIC, &pfn) != VL_OK) {
            die("a pair got nothing");
        }
        vl_frame_free(pfn, order);
    }
    note(row, start, PAIRS);
}

static void shuffle(void)
{
    uint64_t random = 1;

    for (size_t i = taken_count; i > 1; i--) {
        size_t j = (size_t)(sim_random(&random) % i);
        struct vl_pfn swap = taken[i - 1];

        taken[i - 1] = taken[j];
        taken[j] = swap;
    }
}

static void put_taken(void *arg, unsigned cpu)
{
    uint64_t start = now();

    (void)arg;
    if (cpu == 0) {
        return;
    }
    for (size_t i = 0; i < taken_count; i++) {
        vl_frame_free(taken[i], 0);
    }
    vli_frame_drain();
    note(RANDOM_PUT, start, taken_count);
}

static void random_put(void)
{
    struct vli_zone_info before;
    struct vli_zone_info after;

    vli_frame_drain();
    if (!vli_zone_info(0, &before)) {
        die("no zone");
    }
    take_all(0);
    shuffle();
    sim_run_on_cpus(2, put_taken, NULL);
    if (!vli_zone_info(0, &after) || after.blocks[VL_ORDER_MAX] != before.blocks[VL_ORDER_MAX] ||
        after.free != before.free) {
        die("not all memory was merged again");
    }
}

static void measure(bool stock)
{
    vl_frame_set_stock(stock);
    for (unsigned row = 0; row < ROWS; row++) {
        best[row] = 0;
    }
    for (uint64_t round = 0; round < rounds; round++) {
        one_by_one(0, GET0, PUT0);
        in_bulk();
        pairs(0, PAIR0);
        random_put();
        settle(VLI_STOCK_ORDER_LARGE);
        one_by_one(VLI_STOCK_ORDER_LARGE, GET9, PUT9);
        pairs(VLI_STOCK_ORDER_LARGE, PAIR9);
    }
}

static void print_work(void)
{
    struct vli_zone_info before;
    struct vli_zone_info after;
    double frames;

    vl_frame_set_stock(false);
    if (!vli_zone_info(0, &before)) {
        die("no zone");
    }
    random_put();
    if (!vli_zone_info(0, &after)) {
        die("no zone");
    }
    frames = (double)taken_count;
    printf("\nwork per frame, stocks off: all taken one by one, put back in random order\n");
#define PER_FRAME(what)                                                                            \
    printf("%-44s %8.3f\n", #what, (double)(after.work.what - before.work.what) / frames)
    PER_FRAME(splits);
    PER_FRAME(merges);
    PER_FRAME(lookups);
    PER_FRAME(inserts);
    PER_FRAME(removes);
    PER_FRAME(locks);
    PER_FRAME(locked);
}

/* ----------------------------------------------------------------------- what comes and goes */

#define RESERVE_BYTES (64ull << 20)

static struct vl_pfn reserve; /* first frame of the absent range */
static double least;

static void note_least(uint64_t start, uint64_t count)
{
    double ns = (double)(now() - start) / (double)count;

    if (least == 0 || ns < least) {
        least = ns;
    }
}

static void print_least(const char *what)
{
    printf("%-44s %8.1f\n", what, least);
    least = 0;
}

static void runs(void)
{
    struct vl_pfn pfn;
    uint64_t start = now();

    for (unsigned i = 0; i < PAIRS; i++) {
        if (vl_frame_alloc_run(10, VL_ATOMIC, &pfn) != VL_OK) {
            die("a run got nothing");
        }
        vl_frame_free_run(pfn, 10);
    }
    note_least(start, PAIRS);
}

static bool count_told(void *arg, struct vl_pfn pfn, unsigned order)
{
    (void)pfn;
    (void)order;
    *(uint64_t *)arg += 1;
    return true;
}

/* Every other frame is free, so that each is a block. */
static void scatter(void)
{
    vl_frame_set_stock(false);
    take_all(0);
    for (size_t i = 0; i < taken_count; i += 2) {
        vl_frame_free(taken[i], 0);
    }
}

static void gather(void)
{
    for (size_t i = 1; i < taken_count; i += 2) {
        vl_frame_free(taken[i], 0);
    }
}

static void reports(bool is_new)
{
    uint64_t blocks = 0;
    uint64_t start;

    scatter();
    start = now();
    (void)vl_frame_report_free(0, count_told, &blocks);
    if (is_new) {
        note_least(start, blocks);
    } else {
        start = now();
        for (unsigned i = 0; i < 1000; i++) {
            if (vl_frame_report_free(0, count_told, &blocks) != 0) {
                die("something was told twice");
            }
        }
        note_least(start, 1000);
    }
    gather();
}

static void online_offline(void)
{
    struct vl_pfn end = {reserve.n + (RESERVE_BYTES >> VL_PAGE_SHIFT)};
    uint64_t start = now();

    if (vl_frame_online(reserve, end) != VL_OK || vl_frame_offline(reserve, end) != VL_OK) {
        die("memory does not come and go");
    }
    note_least(start, (end.n - reserve.n) >> VL_ORDER_MAX);
}

static void print_coming_and_going(void)
{
    printf("\nmemory that comes and goes, ns\n");
    for (uint64_t round = 0; round < rounds; round++) {
        runs();
    }
    print_least("run of 10 pair");
    for (uint64_t round = 0; round < rounds; round++) {
        reports(true);
    }
    print_least("report, a block of 4 KiB");
    for (uint64_t round = 0; round < rounds; round++) {
        reports(false);
    }
    print_least("report, nothing new, a call");
    for (uint64_t round = 0; round < rounds; round++) {
        online_offline();
    }
    print_least("online and offline, a block of 4 MiB");
}

int main(int argc, char **argv)
{
    struct sim_config config = {.cpus = 2, .seed = 1, .quiet = true};
    uint64_t mib = argc > 1 ? strtoull(argv[1], NULL, 0) : 1024;
    double on[ROWS];

    rounds = argc > 2 ? strtoull(argv[2], NULL, 0) : rounds;
    if (mib < 64 || mib > 1u << 20 || mib % 4 != 0 || rounds == 0) {
        die("usage: frame [MIB [ROUNDS]], MIB at least 64, a multiple of 4");
    }
    config.ranges[0] = (struct vl_range){{START}, {START + (mib << 20)}, 0, VL_RANGE_FREE};
    config.ranges[1] = (struct vl_range){
        config.ranges[0].end, {config.ranges[0].end.a + RESERVE_BYTES}, 0, VL_RANGE_ABSENT};
    config.range_count = 2;
    reserve = vl_pa_to_pfn(config.ranges[1].start);
    taken = calloc(mib << 8, sizeof(taken[0]));
    if (taken == NULL) {
        die("no memory for the list of frames");
    }
    sim_start(&config);
    measure(true);
    for (unsigned row = 0; row < ROWS; row++) {
        on[row] = best[row];
    }
    measure(false);
    printf("BUDDY=%s, %llu MiB, best of %llu rounds, ns            stock    no stock\n", VL_BUDDY,
           (unsigned long long)mib, (unsigned long long)rounds);
    for (unsigned row = 0; row < ROWS; row++) {
        printf("%-44s %8.1f  %8.1f\n", row_names[row], on[row], best[row]);
    }
    print_work();
    print_coming_and_going();
    sim_stop();
    return 0;
}
