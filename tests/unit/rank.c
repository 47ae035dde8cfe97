/*
 * Goal: debug builds panic when a lock is taken against the order, released without being held, or
 * held where none may be; other builds check nothing and cost nothing.
 * Method: each right and each wrong order by hand, the wrong ones in a child process; a lock that
 * leaves interrupts on is taken one instruction at a time, with an interrupt that takes another
 * after each.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "core/base/rwlock.h"
#include "core/base/spinlock.h"
#include "machine/sim/sim.h"

static struct vli_rwlock space, object;
static struct vli_spinlock table, zone;

static void start(void)
{
    struct sim_config config = {.ram_bytes = 16u << 20, .cpus = 2, .seed = 1, .quiet = true};

    sim_start(&config);
    vli_rw_init(&space, VLI_RANK_SPACE);
    vli_rw_init(&object, VLI_RANK_OBJECT);
    vli_spin_init(&table);
    vli_spin_init(&zone);
}

static void right_orders(void **state) VL_NO_LOCK_CHECK
{
    unsigned long flags;

    (void)state;
    start();
    vli_rank_assert_none();
    vli_rw_read_lock(&space);
    vli_rw_write_lock(&object);
    vli_rank_assert_no_spin();
    vli_spin_lock(&table, VLI_RANK_TABLE);
    flags = vli_spin_lock_irq(&zone, VLI_RANK_ZONE);
    vli_spin_unlock_irq(&zone, VLI_RANK_ZONE, flags);
    vli_spin_unlock(&table, VLI_RANK_TABLE);
    vli_rw_read_unlock(&space); /* in any order */
    vli_rw_write_unlock(&object);
    vli_rank_assert_none();
    vli_rw_read_lock(&object); /* an attempt may go against the order */
    assert_true(vli_rw_try_read_lock(&space));
    vli_rw_read_unlock(&object);
    vli_rw_read_unlock(&space);
    vli_rank_assert_none();
    sim_stop();
}

static void interrupt(unsigned cpu) VL_NO_LOCK_CHECK
{
    unsigned long flags = vli_spin_lock_irq(&zone, VLI_RANK_ZONE);

    (void)cpu;
    vli_spin_unlock_irq(&zone, VLI_RANK_ZONE, flags);
}

static void take_and_leave(void *arg) VL_NO_LOCK_CHECK
{
    (void)arg;
    vli_rw_read_lock(&space);
    vli_spin_lock(&table, VLI_RANK_TABLE);
    vli_spin_unlock(&table, VLI_RANK_TABLE);
    vli_rw_read_unlock(&space);
    vli_rank_assert_none();
}

static void interrupts_change_nothing(void **state)
{
    uint64_t length;

    (void)state;
    start();
    sim_irq_set(interrupt);
    length = sim_step(take_and_leave, NULL, SIM_STEP_ALL);
    for (uint64_t at = 1; at <= length; at++) {
        (void)sim_step(take_and_leave, NULL, at);
    }
    sim_irq_set(NULL);
    sim_stop();
}

static void sleeping_wrong(void *arg) VL_NO_LOCK_CHECK
{
    (void)arg;
    vli_rw_read_lock(&object);
    vli_rw_read_lock(&space);
}

static void same_twice(void *arg) VL_NO_LOCK_CHECK
{
    (void)arg;
    vli_rw_read_lock(&space);
    vli_rw_read_lock(&space);
}

static void spin_wrong(void *arg) VL_NO_LOCK_CHECK
{
    (void)arg;
    vli_spin_lock(&zone, VLI_RANK_ZONE);
    vli_spin_lock(&table, VLI_RANK_TABLE);
}

static void sleeping_under_spin(void *arg) VL_NO_LOCK_CHECK
{
    (void)arg;
    vli_spin_lock(&table, VLI_RANK_TABLE);
    vli_rw_read_lock(&space);
}

static void after_try(void *arg) VL_NO_LOCK_CHECK
{
    (void)arg;
    vli_rw_read_lock(&object);
    if (vli_rw_try_read_lock(&space)) {
        vli_rw_read_lock(&object); /* below the highest held, above the last taken */
    }
}

static void not_held(void *arg) VL_NO_LOCK_CHECK
{
    (void)arg;
    vli_spin_lock(&table, VLI_RANK_TABLE);
    vli_spin_unlock(&table, VLI_RANK_ZONE);
}

static void spin_where_none(void *arg) VL_NO_LOCK_CHECK
{
    (void)arg;
    vli_spin_lock(&table, VLI_RANK_TABLE);
    vli_rank_assert_no_spin();
}

static void sleeping_where_none(void *arg) VL_NO_LOCK_CHECK
{
    (void)arg;
    vli_rw_read_lock(&space);
    vli_rank_assert_none();
}

/* A request that may wait, under a lock: the way by which most would break the order. */
static void wait_under_lock(void *arg) VL_NO_LOCK_CHECK
{
    (void)arg;
    vli_rw_read_lock(&space);
    vl_kfree(vl_kmalloc(100, VL_WAIT));
}

static bool panics(void (*fn)(void *arg), const char *text)
{
    return sim_dies(fn, NULL, text);
}

#ifdef VL_DEBUG
#define CHECKED true
#else
#define CHECKED false /* the wrong order goes through; the child ends well or waits for itself */
#endif

static void wrong_orders_panic(void **state)
{
    (void)state;
    start();
    assert_int_equal(panics(sleeping_wrong, "lock order: rank 1"), CHECKED);
    assert_int_equal(panics(same_twice, "lock order: rank 1"), CHECKED);
    assert_int_equal(panics(spin_wrong, "lock order"), CHECKED);
    assert_int_equal(panics(sleeping_under_spin, "sleeping lock"), CHECKED);
    assert_int_equal(panics(after_try, "lock order"), CHECKED);
    assert_int_equal(panics(not_held, "not held"), CHECKED);
    assert_int_equal(panics(spin_where_none, "where none may be"), CHECKED);
    assert_int_equal(panics(sleeping_where_none, "where none may be"), CHECKED);
    assert_int_equal(panics(wait_under_lock, "where none may be"), CHECKED);
    sim_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_orders),
        cmocka_unit_test(interrupts_change_nothing),
        cmocka_unit_test(wrong_orders_panic),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
