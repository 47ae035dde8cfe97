/*
 * Goal: object caches stand everything at once: CPUs that allocate, free what others allocated and
 * take the same caches down to nothing, interrupts at any instruction that do likewise, caches that
 * come and go, memory that is short or refused.
 * Method: parcels, objects of all kinds that say what they are in their first and last words, go
 * from CPU to CPU and from threads to interrupts by way of a table. CPUs interrupt each other, and
 * a storm does, too. Between the rounds all structures are valid; in the end each parcel was right,
 * and as many frames are free as in the beginning. With two CPUs, as many as the machine may have
 * in truth, and with eight, which are held up half way through what they do.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/frame/frame.h"
#include "core/slab/slab.h"
#include "machine/sim/sim.h"

#define MIB      (1ull << 20)
#define CPUS     8u
#define PLACES   512u
#define ROUNDS   6u
#define BULK_MAX 90u
/* ThreadSanitizer is slow where all CPUs meet. */
#if defined(VLI_TSAN)
#define IS_SLOW 1
#else
#define IS_SLOW 0
#endif
#define BUILT 0x6275696c74000000ull

enum kind { KIND_SIZE, KIND_PLAIN, KIND_BUILT, KIND_PAGE, KINDS };

struct parcel {
    uint64_t built; /* of KIND_BUILT: as its constructor left it */
    uint64_t number;
    uint32_t bytes;
    uint32_t kind; /* enum kind */
};

static struct vl_cache *caches[KINDS];
static _Atomic(struct parcel *) places[PLACES];
static uint64_t randoms[CPUS][2]; /* of the thread, of the interrupt */
static _Atomic uint64_t refused;
static unsigned cpus;
static unsigned ops;

static void check(bool good, const char *what)
{
    if (!good) {
        vl_host_panic(what);
    }
}

static uint64_t *last_word(struct parcel *parcel)
{
    return (uint64_t *)(void *)((char *)parcel + parcel->bytes / 8u * 8u - 8u);
}

static void construct(void *object)
{
    *(uint64_t *)object = BUILT;
}

static uint32_t random_size(uint64_t random)
{
    static const uint32_t most[] = {64, 64, 256, 256, 1024, 4096, 16384, 40000};
    uint32_t top = most[random % 8];

    return (uint32_t)sizeof(struct parcel) + 8u + (uint32_t)(random / 8 % (top - 32u));
}

static void seal(struct parcel *parcel, uint32_t kind, uint32_t bytes, uint64_t number)
{
    check(kind != KIND_BUILT || parcel->built == BUILT, "storm: the constructor's work is gone");
    parcel->number = number;
    parcel->bytes = bytes;
    parcel->kind = kind;
    *last_word(parcel) = number;
}

static const uint32_t cache_bytes[KINDS] = {0, 104, 72, VL_PAGE_SIZE};

static bool is_zero(const void *object, size_t bytes)
{
    const unsigned char *at = object;

    return at[0] == 0 && memcmp(at, at + 1, bytes - 1) == 0;
}

/* Of any kind; NULL when there is no memory. */
static struct parcel *make(uint64_t random)
{
    uint32_t kind = random % 16 < 8 ? KIND_SIZE : 1u + (uint32_t)(random % 16 - 8) / 3u;
    uint32_t bytes = cache_bytes[kind];
    struct parcel *parcel;

    if (kind == KIND_SIZE) {
        vl_how_t how = random / 32 % 8 == 0 ? VL_ATOMIC | VL_ZEROED : VL_ATOMIC;

        bytes = random_size(random / 256);
        parcel = vl_kmalloc(bytes, how);
        check(parcel == NULL || (how & VL_ZEROED) == 0 || is_zero(parcel, bytes),
              "storm: not cleared");
    } else {
        parcel = vl_cache_alloc(caches[kind], VL_ATOMIC);
    }
    if (parcel == NULL) {
        atomic_fetch_add_explicit(&refused, 1, memory_order_relaxed);
        return NULL;
    }
    seal(parcel, kind, bytes, random);
    return parcel;
}

static void open_it(struct parcel *parcel)
{
    check(parcel->kind < KINDS, "storm: a parcel was overwritten");
    check(*last_word(parcel) == parcel->number, "storm: a parcel's end was overwritten");
}

static void end(struct parcel *parcel)
{
    if (parcel == NULL) {
        return;
    }
    open_it(parcel);
    if (parcel->kind == KIND_SIZE) {
        vl_kfree(parcel);
    } else {
        vl_cache_free(caches[parcel->kind], parcel);
    }
}

static void exchange(uint64_t random)
{
    /* Both: what was written to a parcel comes before it is seen. */
    end(atomic_exchange_explicit(&places[random % PLACES], make(random / PLACES),
                                 memory_order_acq_rel));
}

/* Takes a whole lot and gives it back at once or one by one: all that a CPU keeps is exchanged. */
static void many(uint64_t random)
{
    void *objects[BULK_MAX];
    uint32_t kind = KIND_PLAIN + (uint32_t)(random % 2);
    size_t count = 1 + random / 2 % BULK_MAX;

    if (vl_cache_alloc_bulk(caches[kind], VL_ATOMIC, count, objects) != VL_OK) {
        atomic_fetch_add_explicit(&refused, 1, memory_order_relaxed);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        seal(objects[i], kind, cache_bytes[kind], random + i);
    }
    for (size_t i = 0; i < count; i++) {
        check(((struct parcel *)objects[i])->number == random + i, "storm: given out twice");
    }
    if (random / 256 % 2 == 0) {
        vl_cache_free_bulk(caches[kind], count, objects);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        end(objects[i]);
    }
}

static void on_interrupt(unsigned cpu)
{
    uint64_t random = sim_random(&randoms[cpu][1]);

    exchange(random);
    if (random >> 60 == 0) {
        many(sim_random(&randoms[cpu][1]));
    }
    exchange(sim_random(&randoms[cpu][1]));
}

/* ------------------------------------------------------------------- a cache that comes and goes
 */

struct short_lived {
    struct vl_cache *cache;
    _Atomic(void *) objects[CPUS];
};

/* Runs on each CPU: what another allocated is freed here, and kept here. */
static void free_here(void *arg, unsigned cpu)
{
    struct short_lived *lived = arg;
    void *object = atomic_exchange(&lived->objects[cpu], NULL);

    if (object != NULL) {
        vl_cache_free(lived->cache, object);
    }
}

static void come_and_go(uint64_t random)
{
    struct vl_cpumask all = {{UINT64_MAX}};
    struct vl_cache_spec spec = {.name = "short-lived", .size = 8u + random % 3000u};
    struct short_lived lived;

    spec.flags = random / 4096 % 2 == 0 ? VL_CACHE_NO_MERGE : 0;
    if (vl_cache_create(&spec, &lived.cache) != VL_OK) {
        return;
    }
    for (unsigned i = 0; i < CPUS; i++) {
        atomic_init(&lived.objects[i], vl_cache_alloc(lived.cache, VL_ATOMIC));
    }
    vl_host_cpu_call(&all, free_here, &lived);
    for (unsigned i = 0; i < CPUS; i++) {
        free_here(&lived, i);
    }
    check(vl_cache_destroy(lived.cache) == VL_OK, "storm: a cache does not end");
}

/* ------------------------------------------------------------------------------- the CPUs */

/* Figures read while they change may be a little off, not absurd. */
static void read_figures(void)
{
    struct vli_slab_info info;

    for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
        if (vli_slab_info(i, &info)) {
            check(info.units_active <= info.units && info.units < 1u << 24, "storm: figures");
        }
    }
}

static void rarely(unsigned cpu, uint64_t random)
{
    switch (random % 8) {
    case 0:
        (void)vl_cache_shrink(caches[1 + random / 8 % (KINDS - 1)]);
        break;
    case 1:
        vl_drain_all();
        break;
    case 2:
        come_and_go(random / 8);
        break;
    case 3:
        read_figures();
        break;
    default:
        sim_irq_send((unsigned)(random / 8 % cpus));
        many(sim_random(&randoms[cpu][0]));
        break;
    }
}

static void traffic(void *arg, unsigned cpu)
{
    (void)arg;
    for (unsigned i = 0; i < ops; i++) {
        uint64_t random = sim_random(&randoms[cpu][0]);

        exchange(random);
        if (random >> 58 == 0) {
            sim_irq_send((unsigned)(random / PLACES % cpus));
        }
        if (random >> 56 == 1) {
            rarely(cpu, random / PLACES);
        }
    }
}

static uint64_t free_frames(void)
{
    struct vl_frame_counts counts;

    vl_drain_all();
    vl_frame_counts(&counts);
    return counts.free_zones + counts.free_stock;
}

static void make_caches(void)
{
    struct vl_cache_spec plain = {
        .name = "plain", .size = cache_bytes[KIND_PLAIN], .flags = VL_CACHE_NO_MERGE};
    struct vl_cache_spec built = {
        .name = "built", .size = cache_bytes[KIND_BUILT], .constructor = construct};
    struct vl_cache_spec page = {
        .name = "page", .size = cache_bytes[KIND_PAGE], .align = VL_PAGE_SIZE};

    assert_int_equal(vl_cache_create(&plain, &caches[KIND_PLAIN]), VL_OK);
    assert_int_equal(vl_cache_create(&built, &caches[KIND_BUILT]), VL_OK);
    assert_int_equal(vl_cache_create(&page, &caches[KIND_PAGE]), VL_OK);
}

struct weather {
    unsigned cpus;
    uint64_t ram_bytes;
    uint32_t failures; /* of 65536 allocations */
    unsigned hold_up;
};

static void storm(const struct weather *weather)
{
    struct sim_config config = {
        .ram_bytes = weather->ram_bytes, .cpus = VL_SMP ? weather->cpus : 1, .quiet = true};
    uint64_t before;

    config.seed = sim_seed(11 + weather->cpus + weather->failures);
    cpus = config.cpus;
    ops = IS_SLOW ? 500 : getenv("VL_TEST_QUICK") != NULL ? 4000 : 20000;
    for (unsigned i = 0; i < CPUS * 2; i++) {
        randoms[i / 2][i % 2] = config.seed * 100 + i;
    }
    atomic_store(&refused, 0);
    sim_start(&config);
    before = free_frames();
    make_caches();
    sim_irq_set(on_interrupt);
    sim_hold_up(weather->hold_up);
    sim_fail_often(weather->failures);
    for (unsigned i = 0; i < ROUNDS; i++) {
        sim_irq_storm(30);
        sim_run_on_cpus(cpus, traffic, NULL);
        sim_irq_storm_end();
        vli_slab_validate();
        vli_frame_validate();
    }
    sim_fail_often(0);
    sim_hold_up(0);
    sim_irq_set(NULL);
    fprintf(stderr, "# %llu interrupts, %llu refused\n", (unsigned long long)sim_irq_count(),
            (unsigned long long)atomic_load(&refused));
    assert_true(sim_irq_count() > ROUNDS * 10);
    for (unsigned i = 0; i < PLACES; i++) {
        end(atomic_exchange(&places[i], NULL));
    }
    for (unsigned i = 1; i < KINDS; i++) {
        assert_int_equal(vl_cache_destroy(caches[i]), VL_OK);
    }
    assert_int_equal(free_frames(), before);
    sim_stop();
}

static void two_cpus(void **state)
{
    (void)state;
    storm(&(struct weather){.cpus = 2, .ram_bytes = 128 * MIB});
}

static void eight_cpus_held_up(void **state)
{
    (void)state;
    storm(&(struct weather){.cpus = 8, .ram_bytes = 128 * MIB, .hold_up = 300});
    assert_int_equal(atomic_load(&refused), 0);
}

static void allocations_fail(void **state)
{
    (void)state;
    storm(&(struct weather){.cpus = 2, .ram_bytes = 128 * MIB, .failures = 3000});
    assert_true(atomic_load(&refused) > 0);
}

static void memory_is_short(void **state)
{
    (void)state;
    storm(&(struct weather){.cpus = 8, .ram_bytes = 2 * MIB});
    assert_true(atomic_load(&refused) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_cpus),
        cmocka_unit_test(eight_cpus_held_up),
        cmocka_unit_test(allocations_fail),
        cmocka_unit_test(memory_is_short),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
