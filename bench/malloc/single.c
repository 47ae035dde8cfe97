/*
 * single.c - one thread: experiment 4's tests 1 and 2 in the malloc face.
 *
 * order: for each size, 10,000 mallocs in a row, then 10,000 frees in the same order; cycles each.
 * pair: for each size, 10,000 times malloc and free; cycles a pair. Each is repeated for its part
 * of the time, five times at least, and the least is kept: the first repetition warms up and is
 * never among them.
 */
#include "bench/malloc/bench.h"

static const size_t sizes[] = {8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* One repetition of test 1; returns by @out the cycles an object. */
static void order_once(void **objects, size_t size, double out[2])
{
    uint64_t t0 = cycles_start();

    for (unsigned i = 0; i < ORDER_COUNT; i++) {
        objects[i] = need(malloc(size));
    }
    uint64_t t1 = cycles_end();

    for (unsigned i = 0; i < ORDER_COUNT; i++) {
        free(objects[i]);
    }
    uint64_t t2 = cycles_end();

    out[0] = (double)(t1 - t0) / ORDER_COUNT;
    out[1] = (double)(t2 - t1) / ORDER_COUNT;
}

void test_order(double budget)
{
    void **objects = zeroed(ORDER_COUNT * sizeof(void *));

    for (size_t i = 0; i < SIZES; i++) {
        double best[2] = {1e18, 1e18}, now[2], end = seconds() + budget / SIZES;

        order_once(objects, sizes[i], now);
        for (unsigned round = 0; round < 5 || seconds() < end; round++) {
            order_once(objects, sizes[i], now);
            best[0] = smaller(best[0], now[0]);
            best[1] = smaller(best[1], now[1]);
        }
        printf("@malloc test=order size=%zu alloc=%.2f free=%.2f\n", sizes[i], best[0], best[1]);
        print_kept("order", sizes[i]);
    }
}

static double pair_once(size_t size)
{
    uint64_t t0 = cycles_start();

    for (unsigned i = 0; i < ORDER_COUNT; i++) {
        free(need(malloc(size)));
    }
    return (double)(cycles_end() - t0) / ORDER_COUNT;
}

void test_pair(double budget)
{
    for (size_t i = 0; i < SIZES; i++) {
        double best = 1e18, end = seconds() + budget / SIZES;

        (void)pair_once(sizes[i]);
        for (unsigned round = 0; round < 5 || seconds() < end; round++) {
            best = smaller(best, pair_once(sizes[i]));
        }
        printf("@malloc test=pair size=%zu pair=%.2f\n", sizes[i], best);
    }
}
