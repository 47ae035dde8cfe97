/*
 * single.c - one thread: experiment 4's tests 1 and 2 in the malloc face.
 *
 * order: for each size, 10,000 mallocs in a row, then 10,000 frees in the same order; cycles each.
 * pair: for each size, 10,000 times malloc and free; cycles a pair. Each is repeated for its part
 * of the time, five times at least at each place of the loop in its cache line (places.S), and the
 * least is kept of each place: the first repetition warms up and is never among them. Printed are
 * the best place and the median one.
 */
#include "bench/malloc/bench.h"

static const size_t sizes[] = {8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* The least that was seen at each place. */
struct least {
    double at[PLACES];
};

static struct least least_none(void)
{
    struct least none;

    for (unsigned i = 0; i < PLACES; i++) {
        none.at[i] = 1e18;
    }
    return none;
}

static int by_size(const void *a, const void *b)
{
    double first = *(const double *)a, second = *(const double *)b;

    return first < second ? -1 : first > second ? 1 : 0;
}

/* Sorts the places: the best is then the first, the median in the middle. */
static void sort(struct least *least)
{
    qsort(least->at, PLACES, sizeof(least->at[0]), by_size);
}

/* One repetition of test 1; @alloc and @free become less when it was faster. */
static void order_once(const struct bench_place *place, void **objects, size_t size, double *alloc,
                       double *freed)
{
    uint64_t t0 = cycles_start();

    must(place->fill(objects, size, ORDER_COUNT));
    uint64_t t1 = cycles_end();

    place->empty(objects, ORDER_COUNT);
    uint64_t t2 = cycles_end();

    *alloc = smaller(*alloc, (double)(t1 - t0) / ORDER_COUNT);
    *freed = smaller(*freed, (double)(t2 - t1) / ORDER_COUNT);
}

void test_order(double budget)
{
    void **objects = zeroed(ORDER_COUNT * sizeof(void *));

    for (size_t i = 0; i < SIZES; i++) {
        struct least alloc = least_none(), freed = least_none();
        double ignored = 0, end = seconds() + budget / SIZES;

        order_once(&bench_places[0], objects, sizes[i], &ignored, &ignored);
        for (unsigned round = 0; round < 5 * PLACES || seconds() < end; round++) {
            unsigned place = round % PLACES;

            order_once(&bench_places[place], objects, sizes[i], &alloc.at[place], &freed.at[place]);
        }
        sort(&alloc);
        sort(&freed);
        printf("@malloc test=order size=%zu alloc=%.2f free=%.2f\n", sizes[i], alloc.at[0],
               freed.at[0]);
        printf("@malloc test=order_median size=%zu alloc=%.2f free=%.2f\n", sizes[i],
               alloc.at[PLACES / 2], freed.at[PLACES / 2]);
        print_kept("order", sizes[i]);
    }
}

static void pair_once(const struct bench_place *place, size_t size, double *pair)
{
    uint64_t t0 = cycles_start();

    must(place->pairs(size, ORDER_COUNT));
    *pair = smaller(*pair, (double)(cycles_end() - t0) / ORDER_COUNT);
}

void test_pair(double budget)
{
    for (size_t i = 0; i < SIZES; i++) {
        struct least pair = least_none();
        double ignored = 0, end = seconds() + budget / SIZES;

        pair_once(&bench_places[0], sizes[i], &ignored);
        for (unsigned round = 0; round < 5 * PLACES || seconds() < end; round++) {
            unsigned place = round % PLACES;

            pair_once(&bench_places[place], sizes[i], &pair.at[place]);
        }
        sort(&pair);
        printf("@malloc test=pair size=%zu pair=%.2f\n", sizes[i], pair.at[0]);
        printf("@malloc test=pair_median size=%zu pair=%.2f\n", sizes[i], pair.at[PLACES / 2]);
    }
}
