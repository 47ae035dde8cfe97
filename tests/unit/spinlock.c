/*
 * Goal: a ticket lock excludes, serves in order of arrival, keeps interrupts and preemption off as
 * it says, and survives the wrapping of its 16-bit tickets.
 * Method: CPU threads that change a plain counter under the lock (ThreadSanitizer looks on); words
 * set just before the wrap; an interrupt that takes the same lock by its _irq form.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdatomic.h>
#include "core/base/spinlock.h"
#include "machine/sim/sim.h"

#define ROUNDS 20000u

static struct vli_spinlock lock;
static uint64_t counter; /* (lock) */

static void start(unsigned cpus)
{
    struct sim_config config = {.ram_bytes = 16u << 20, .cpus = cpus, .seed = 1, .quiet = true};

    sim_start(&config);
    vli_spin_init(&lock);
    counter = 0;
}

static unsigned cpus_here(void)
{
    return VL_SMP ? 4 : 1;
}

static void count_up(void *arg, unsigned cpu)
{
    (void)arg;
    (void)cpu;
    for (unsigned i = 0; i < ROUNDS; i++) {
        vli_spin_lock(&lock, VLI_RANK_PAGES);
        counter++;
        vli_spin_unlock(&lock, VLI_RANK_PAGES);
    }
}

static void excludes(void **state)
{
    (void)state;
    start(cpus_here());
    sim_run_on_cpus(cpus_here(), count_up, NULL);
    assert_int_equal(counter, ROUNDS * cpus_here());
    assert_false(vli_spin_is_locked(&lock));
    sim_stop();
}

static void tickets_wrap(void **state)
{
    (void)state;
    start(cpus_here());
    atomic_store(&lock.word.both, 0xfff0fff0u);
    sim_run_on_cpus(cpus_here(), count_up, NULL);
    assert_int_equal(counter, ROUNDS * cpus_here());
    assert_false(vli_spin_is_locked(&lock));
    sim_stop();
}

static void irq_takes_it(unsigned cpu)
{
    unsigned long flags = vli_spin_lock_irq(&lock, VLI_RANK_PAGES);

    (void)cpu;
    counter++;
    vli_spin_unlock_irq(&lock, VLI_RANK_PAGES, flags);
}

static void count_up_irq(void *arg, unsigned cpu)
{
    (void)arg;
    (void)cpu;
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned long flags = vli_spin_lock_irq(&lock, VLI_RANK_PAGES);

        counter++;
        vli_spin_unlock_irq(&lock, VLI_RANK_PAGES, flags);
    }
}

static void holds_interrupts_off(void **state)
{
    (void)state;
    start(cpus_here());
    sim_irq_set(irq_takes_it);
    sim_irq_storm(20);
    sim_run_on_cpus(cpus_here(), count_up_irq, NULL);
    sim_irq_storm_end();
    assert_int_equal(counter, ROUNDS * cpus_here() + sim_irq_count());
    sim_stop();
}

static void preemption_is_off(void **state)
{
    unsigned long flags;

    (void)state;
    start(1);
    assert_true(vl_host_may_sleep());
    vli_spin_lock(&lock, VLI_RANK_PAGES);
    assert_int_equal(vli_spin_is_locked(&lock), VL_SMP);
    assert_false(vl_host_may_sleep());
    assert_int_equal(vli_spin_raw_try_lock(&lock), !VL_SMP);
    vli_spin_unlock(&lock, VLI_RANK_PAGES);
    assert_true(vl_host_may_sleep());
    flags = vli_spin_lock_irq(&lock, VLI_RANK_PAGES);
    assert_false(vl_host_may_sleep());
    vli_spin_unlock_irq(&lock, VLI_RANK_PAGES, flags);
    assert_true(vl_host_may_sleep());
    assert_true(vli_spin_raw_try_lock(&lock));
    assert_int_equal(vli_spin_raw_try_lock(&lock), !VL_SMP);
    vli_spin_raw_unlock(&lock);
    sim_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(excludes),
        cmocka_unit_test(tickets_wrap),
        cmocka_unit_test(holds_interrupts_off),
        cmocka_unit_test(preemption_is_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
