/*
 * touch.c - experiment 1 in the sim: the core alone, natively, without traps.
 *
 * usage: touch ROUNDS REPEATS STOCK
 *
 * Maps 16 MiB, faults every page in for writing, unmaps; a warm-up round, then REPEATS measurements
 * of ROUNDS rounds. A line each: time a page in hundredths of a nanosecond, what the buddy
 * allocator did meanwhile, and zeroing of as many pages alone (the limit).
 */
#include "bench/sim/measure.h"
#include "core/frame/frame.h"

#define BYTES ((size_t)16 << 20)

static void round_of_touch(struct vl_space *space)
{
    struct vl_map_request request = {.len = BYTES, .prot = VL_READ | VL_WRITE};
    vl_va at;

    must(vl_space_map(space, &request, &at), "map");
    for (size_t i = 0; i < BYTES; i += VL_PAGE_SIZE) {
        must(vl_space_fault(space, at + i, VL_WRITE), "fault");
    }
    must(vl_space_unmap(space, at, BYTES), "unmap");
}

/* The work of all zones. */
static struct vli_frame_work work_now(void)
{
    struct vli_frame_work sum = {0};
    struct vli_zone_info zone;

    for (unsigned i = 0; vli_zone_info(i, &zone); i++) {
        sum.splits += zone.work.splits;
        sum.merges += zone.work.merges;
        sum.lookups += zone.work.lookups;
        sum.inserts += zone.work.inserts;
        sum.removes += zone.work.removes;
        sum.locks += zone.work.locks;
        sum.locked += zone.work.locked;
    }
    return sum;
}

/* Zeroes the same number of pages, all over the memory, as the faults do. */
static uint64_t zero_ns(void)
{
    static struct vl_pfn frames[BYTES / VL_PAGE_SIZE];
    size_t count = vl_frame_alloc_bulk(BYTES / VL_PAGE_SIZE, VL_WAIT, frames);
    uint64_t start = now_ns();

    for (size_t i = 0; i < count; i++) {
        void *to = vl_frame_to_virt(frames[i]);
        unsigned long words = VL_PAGE_SIZE / 8;

        __asm__ volatile("rep stosq" : "+D"(to), "+c"(words) : "a"(0) : "memory");
    }
    uint64_t total = now_ns() - start;

    vl_frame_free_bulk(frames, count);
    return total * 100 / count;
}

int main(int count, char **words)
{
    uint64_t rounds = argument(count, words, 1, 10);
    uint64_t repeats = argument(count, words, 2, 1);
    uint64_t pages = rounds * (BYTES / VL_PAGE_SIZE);
    struct sim_config config = {.ram_bytes = (uint64_t)256 << 20, .cpus = 1, .quiet = true};
    struct vl_space *space;

    sim_start(&config);
    vl_frame_set_stock(argument(count, words, 3, 1) != 0);
    must(vl_space_create(&space), "space");
    sim_space_switch(space);
    round_of_touch(space);
    zero_ns();
    for (uint64_t i = 0; i < repeats; i++) {
        uint64_t zero = zero_ns();
        struct vli_frame_work before = work_now();
        uint64_t start = now_ns();

        for (uint64_t j = 0; j < rounds; j++) {
            round_of_touch(space);
        }
        uint64_t total = now_ns() - start;
        struct vli_frame_work after = work_now();

        printf("@sim rounds=%lu pages=%lu total=%lu splits=%lu merges=%lu lookups=%lu inserts=%lu "
               "removes=%lu locks=%lu locked=%lu zero=%lu\n",
               rounds, pages, total * 100 / pages, after.splits - before.splits,
               after.merges - before.merges, after.lookups - before.lookups,
               after.inserts - before.inserts, after.removes - before.removes,
               after.locks - before.locks, after.locked - before.locked, zero);
    }
    sim_space_switch(NULL);
    vl_space_put(space);
    sim_stop();
    return 0;
}
