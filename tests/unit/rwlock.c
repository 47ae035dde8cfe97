/*
 * Goal: sleeping locks exclude writers from everybody, let readers in together, lose no wake-up,
 * starve nobody, and hand over in the order of arrival.
 * Method: CPU threads with seeded mixes of readers and writers over plain data (ThreadSanitizer
 * looks on); queues built up by hand, one sleeper after the other, to see the order.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <time.h>
#include "core/base/rwlock.h"
#include "machine/sim/sim.h"

#if VL_SMP
#define CPUS 6u
#else
#define CPUS 1u
#endif

static struct vli_rwlock lock;
static uint64_t left, right; /* (lock) equal but for a writer's moment */
static _Atomic uint64_t writes;
static _Atomic uint32_t readers_in;
static _Atomic uint32_t readers_max;
static uint32_t rounds;
static uint64_t seed;

static void start(void)
{
    struct sim_config config = {.ram_bytes = 16u << 20, .cpus = CPUS, .seed = 1, .quiet = true};

    sim_start(&config);
    vli_rw_init(&lock, VLI_RANK_SPACE);
    left = 0;
    right = 0;
    atomic_store(&writes, 0);
    atomic_store(&readers_in, 0);
    atomic_store(&readers_max, 0);
}

static VLI_UNUSED void nap(void)
{
    struct timespec time = {.tv_nsec = 100000};

    nanosleep(&time, NULL);
}

static void read_once(void)
{
    uint32_t in = atomic_fetch_add(&readers_in, 1) + 1;
    uint32_t max = atomic_load(&readers_max);

    while (max < in && !atomic_compare_exchange_weak(&readers_max, &max, in)) {
    }
    assert_true(left == right);
    atomic_fetch_sub(&readers_in, 1);
}

static void write_once(void)
{
    assert_int_equal(atomic_load(&readers_in), 0);
    left++;
    assert_true(left == right + 1);
    right++;
    atomic_fetch_add(&writes, 1);
}

/* One round of a random kind. */
static void any_round(uint64_t r)
{
    switch (r % 8) {
    case 0:
        vli_rw_write_lock(&lock);
        write_once();
        vli_rw_write_unlock(&lock);
        break;
    case 1:
        vli_rw_write_lock(&lock);
        write_once();
        vli_rw_downgrade(&lock);
        read_once();
        vli_rw_read_unlock(&lock);
        break;
    case 2:
        if (vli_rw_try_write_lock(&lock)) {
            write_once();
            vli_rw_write_unlock(&lock);
        }
        break;
    case 3:
        if (vli_rw_try_read_lock(&lock)) {
            read_once();
            vli_rw_read_unlock(&lock);
        }
        break;
    default:
        vli_rw_read_lock(&lock);
        read_once();
        vli_rw_read_unlock(&lock);
        break;
    }
}

static void mix(void *arg, unsigned cpu)
{
    uint64_t random = seed + cpu;

    (void)arg;
    for (uint32_t i = 0; i < rounds; i++) {
        any_round(sim_random(&random) >> 16);
    }
}

static void excludes_and_wakes(void **state)
{
    (void)state;
    seed = sim_seed(20030321);
    rounds = (uint32_t)(sim_ops(200000) / CPUS);
    rounds = rounds < 100000 ? rounds : 100000;
    start();
    sim_run_on_cpus(CPUS, mix, NULL);
    assert_true(left == right);
    assert_int_equal(left, atomic_load(&writes));
    assert_false(vli_rw_is_locked(&lock));
    assert_int_equal(atomic_load(&lock.state), 0);
    sim_stop();
}

static void together(void *arg, unsigned cpu)
{
    _Atomic uint32_t *in = arg;

    (void)cpu;
    vli_rw_read_lock(&lock);
    atomic_fetch_add(in, 1);
    while (atomic_load(in) < CPUS) { /* only if all are in at once does it end */
        vl_host_cpu_relax();
    }
    vli_rw_read_unlock(&lock);
}

static void readers_share(void **state)
{
    _Atomic uint32_t in = 0;

    (void)state;
    start();
    sim_run_on_cpus(CPUS, together, &in);
    assert_false(vli_rw_is_locked(&lock));
    sim_stop();
}

#if VL_SMP
/* ---- order: CPU 0 holds the lock while the others queue up one by one ---- */

struct order {
    _Atomic uint32_t turn;   /* next to queue */
    _Atomic uint32_t served; /* how many got it */
    _Atomic uint32_t place[CPUS];
};

static bool is_writer(unsigned cpu)
{
    return cpu == 2 || cpu == 5; /* queue: R W R R W */
}

/* Waits until @count sleepers stand in the queue. */
static void wait_queue(uint32_t count)
{
    while (vli_rw_waiting(&lock) < count) {
        nap();
    }
}

static void queue_up(void *arg, unsigned cpu)
{
    struct order *order = arg;

    if (cpu == 0) {
        vli_rw_write_lock(&lock);
        for (unsigned next = 1; next < CPUS; next++) {
            atomic_store(&order->turn, next);
            wait_queue(next);
        }
        assert_false(vli_rw_try_read_lock(&lock));
        vli_rw_write_unlock(&lock);
        return;
    }
    while (atomic_load(&order->turn) != cpu) {
        vl_host_cpu_relax();
    }
    if (is_writer(cpu)) {
        vli_rw_write_lock(&lock);
        atomic_store(&order->place[cpu], atomic_fetch_add(&order->served, 1));
        vli_rw_write_unlock(&lock);
    } else {
        vli_rw_read_lock(&lock);
        atomic_store(&order->place[cpu], atomic_fetch_add(&order->served, 1));
        vli_rw_read_unlock(&lock);
    }
}

static void first_come_first_served(void **state)
{
    struct order order = {0};

    (void)state;
    start();
    sim_run_on_cpus(CPUS, queue_up, &order);
    assert_int_equal(atomic_load(&order.place[1]), 0);
    assert_int_equal(atomic_load(&order.place[2]), 1);
    assert_int_equal(atomic_load(&order.place[3]) + atomic_load(&order.place[4]), 2 + 3);
    assert_int_equal(atomic_load(&order.place[5]), 4);
    assert_int_equal(atomic_load(&lock.state), 0);
    sim_stop();
}

#endif

static void states_are_told(void **state) VL_NO_LOCK_CHECK
{
    (void)state;
    start();
    assert_false(vli_rw_is_locked(&lock));
    vli_rw_read_lock(&lock);
    assert_true(vli_rw_is_locked(&lock));
    assert_false(vli_rw_is_write_locked(&lock));
    assert_false(vli_rw_try_write_lock(&lock));
    assert_true(vli_rw_try_read_lock(&lock));
    vli_rw_read_unlock(&lock);
    vli_rw_read_unlock(&lock);
    assert_true(vli_rw_try_write_lock(&lock));
    assert_true(vli_rw_is_write_locked(&lock));
    assert_false(vli_rw_try_read_lock(&lock));
    vli_rw_downgrade(&lock);
    assert_false(vli_rw_is_write_locked(&lock));
    assert_true(vli_rw_is_locked(&lock));
    vli_rw_read_unlock(&lock);
    assert_false(vli_rw_is_locked(&lock));
    sim_stop();
}

/* One CPU has no queue of threads that run. */
#if VL_SMP
#define TEST_ORDER cmocka_unit_test(first_come_first_served),
#else
#define TEST_ORDER
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_are_told),
        cmocka_unit_test(readers_share),
        TEST_ORDER cmocka_unit_test(excludes_and_wakes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
