/*
 * threads.c - two threads on two CPUs.
 *
 * order2: test 1 in both at the same time, each on its own objects; every repetition begins at a
 * barrier, and counts as long as the slower of the two took. The loops' places take turns. The
 * least is kept.
 *
 * stream: one thread allocates and sends, the other receives and frees, through a ring of 2,048
 * pointers whose ends are published 256 at a time, so that the ring itself costs little. Nobody
 * writes to the objects: the cache line that a written object takes along costs the same under
 * every allocator, and far more than malloc and free. Cycles of elapsed time an object, in windows
 * of 8,192 objects: the time that the slower side took for it. The least of the windows but the
 * first four. "floor" is the same with objects that are there already: what the ring costs.
 */
#include <stdatomic.h>
#include "bench/malloc/bench.h"

static _Atomic uint32_t meeting[2][16] __attribute__((aligned(128)));

/* ---- order2 ---- */

static const size_t sizes[] = {8, 16, 32, 64};
#define SIZES  (sizeof(sizes) / sizeof(sizes[0]))
#define ROUNDS (30u * PLACES) /* as many of each place as test 1 has */

static struct order2_turn {
    double alloc, free;
} (*turns)[2]; /* of each repetition and thread */

static void *order2_thread(void *argument)
{
    unsigned me = argument != NULL;
    void **objects = zeroed(ORDER_COUNT * sizeof(void *));

    pin(me);
    for (unsigned round = 0; round < SIZES * ROUNDS; round++) {
        const struct bench_place *place = &bench_places[round % PLACES];
        size_t size = sizes[round / ROUNDS];

        meet(meeting, me);
        uint64_t t0 = cycles_start();

        must(place->fill(objects, size, ORDER_COUNT));
        uint64_t t1 = cycles_end();

        meet(meeting, me);
        uint64_t t2 = cycles_start();

        place->empty(objects, ORDER_COUNT);
        turns[round][me].free = (double)(cycles_end() - t2) / ORDER_COUNT;
        turns[round][me].alloc = (double)(t1 - t0) / ORDER_COUNT;
    }
    return NULL;
}

static double slower(double a, double b)
{
    return a > b ? a : b;
}

/* Runs @thread twice, as 0 in this thread and as 1 in another. */
static void run_two(void *(*thread)(void *argument))
{
    pthread_t other;

    if (pthread_create(&other, NULL, thread, (void *)1) != 0) {
        fputs("bench: no thread\n", stderr);
        exit(1);
    }
    thread(NULL);
    pthread_join(other, NULL);
}

void test_order2(double budget)
{
    (void)budget;
    turns = zeroed(SIZES * ROUNDS * sizeof(*turns));
    run_two(order2_thread);
    for (unsigned i = 0; i < SIZES; i++) {
        double best[2] = {1e18, 1e18};

        for (unsigned round = i * ROUNDS + 1; round < (i + 1) * ROUNDS; round++) {
            best[0] = smaller(best[0], slower(turns[round][0].alloc, turns[round][1].alloc));
            best[1] = smaller(best[1], slower(turns[round][0].free, turns[round][1].free));
        }
        printf("@malloc test=order2 size=%zu alloc=%.2f free=%.2f\n", sizes[i], best[0], best[1]);
    }
}

/* ---- stream ---- */

#define RING    2048u
#define BATCH   256u
#define WINDOW  8192u
#define WINDOWS 4096u /* at most */

#define NOT_MEASURED 1e9

static struct {
    _Atomic uint64_t sent __attribute__((aligned(128)));
    _Atomic uint64_t taken __attribute__((aligned(128)));
    void *slot[RING] __attribute__((aligned(128)));
} ring;

static char fixed[RING]; /* the objects of the floor */

static size_t stream_size;
static double stream_end;
static uint64_t *stamps[2]; /* when a side was through with each window */

static inline void stream_send(uint64_t first, bool floor)
{
    uint64_t taken = first > RING ? first - RING : 0;

    for (uint64_t i = first; i < first + WINDOW; i++) {
        unsigned spins = 0;

        while (i - taken >= RING) {
            taken = atomic_load_explicit(&ring.taken, memory_order_acquire);
            if (i - taken >= RING) {
                relax(&spins);
            }
        }
        ring.slot[i % RING] = floor ? &fixed[i % RING] : need(malloc(stream_size));
        if ((i + 1) % BATCH == 0) {
            atomic_store_explicit(&ring.sent, i + 1, memory_order_release);
        }
    }
}

/* Returns false when the stream is at its end. */
static inline bool stream_take(uint64_t first, bool floor)
{
    uint64_t sent = first;

    for (uint64_t i = first; i < first + WINDOW; i++) {
        unsigned spins = 0;

        while (i >= sent) {
            sent = atomic_load_explicit(&ring.sent, memory_order_acquire);
            if (i >= sent) {
                relax(&spins);
            }
        }
        void *object = ring.slot[i % RING];

        if (object == NULL) {
            return false;
        }
        if (!floor) {
            free(object);
        }
        if ((i + 1) % BATCH == 0) {
            atomic_store_explicit(&ring.taken, i + 1, memory_order_release);
        }
    }
    return true;
}

/* A NULL ends the stream. */
static void stream_finish(uint64_t at)
{
    unsigned spins = 0;

    while (atomic_load_explicit(&ring.taken, memory_order_acquire) != at) {
        relax(&spins);
    }
    ring.slot[at % RING] = NULL;
    atomic_store_explicit(&ring.sent, at + 1, memory_order_release);
}

static inline void *stream_side(unsigned me, bool floor)
{
    uint64_t window = 0;

    _Static_assert(WINDOW % BATCH == 0, "the last batch is published");
    pin(me);
    meet(meeting, me);
    while (me == 1 || (window < WINDOWS && seconds() < stream_end)) {
        if (me == 0) {
            stream_send(window * WINDOW, floor);
        } else if (!stream_take(window * WINDOW, floor)) {
            break;
        }
        stamps[me][window++] = __rdtsc();
    }
    if (me == 0) {
        stream_finish(window * WINDOW);
    }
    return NULL;
}

static void *stream_thread(void *argument)
{
    return stream_side(argument != NULL, false);
}

static void *stream_floor_thread(void *argument)
{
    return stream_side(argument != NULL, true);
}

/* The best window; both sides were through with it, so that neither lived on what was waiting. */
static double stream_best(void)
{
    double best = 1e18;

    for (unsigned i = 4; i < WINDOWS && stamps[0][i] != 0; i++) {
        best = smaller(best, slower((double)(stamps[0][i] - stamps[0][i - 1]),
                                    (double)(stamps[1][i] - stamps[1][i - 1])));
    }
    return best / WINDOW;
}

static double stream(void *(*thread)(void *argument), double budget)
{
    stamps[0] = zeroed(WINDOWS * sizeof(uint64_t));
    stamps[1] = zeroed(WINDOWS * sizeof(uint64_t));
    ring.sent = ring.taken = 0;
    stream_end = seconds() + budget;
    run_two(thread);
    return stream_best();
}

void test_stream(double budget)
{
    static const size_t stream_sizes[] = {64, 1024, 8192};

    for (unsigned i = 0; i < 3; i++) {
        stream_size = stream_sizes[i];
        double best = stream(stream_thread, budget / 3);

        if (best < NOT_MEASURED) { /* else the machine had no time for both at once */
            printf("@malloc test=stream size=%zu object=%.2f\n", stream_size, best);
        }
    }
}

void test_floor(double budget)
{
    double best = stream(stream_floor_thread, budget);

    if (best < NOT_MEASURED) {
        printf("@malloc test=floor what=stream cycles=%.2f\n", best);
    }
}
