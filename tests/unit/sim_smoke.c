/*
 * Goal: the simulated machine itself works: CPUs run at once with their own ids, interrupts arrive
 * only where they are on, deferred work runs, a death test sees the panic, failures are injected
 * where they were asked for.
 * Method: each part used once, without memory management above.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "machine/sim/sim.h"

static void machine_on(unsigned cpus)
{
    struct sim_config config = {.ram_bytes = 64u << 20, .cpus = cpus, .seed = 1, .quiet = true};

    sim_start(&config);
}

static _Atomic uint64_t ids_seen;

static void note_id(void *arg, unsigned cpu)
{
    atomic_fetch_or((_Atomic uint64_t *)arg, cpu == vl_host_cpu_id() ? 1ull << cpu : 0);
}

static void cpus_have_ids(void **state)
{
    (void)state;
    machine_on(4);
    atomic_store(&ids_seen, 0);
    sim_run_on_cpus(4, note_id, &ids_seen);
    assert_int_equal(atomic_load(&ids_seen), 15);
    sim_stop();
}

static volatile unsigned irq_seen;

static void on_irq(unsigned cpu)
{
    if (cpu == 0 && !vl_host_may_sleep()) {
        irq_seen = irq_seen + 1;
    }
}

static void interrupts_wait_for_restore(void **state)
{
    unsigned long flags;

    (void)state;
    machine_on(1);
    irq_seen = 0;
    sim_irq_set(on_irq);
    flags = vl_host_irq_save();
    sim_irq_send(0);
    assert_int_equal(irq_seen, 0);
    assert_false(vl_host_may_sleep());
    vl_host_irq_restore(flags);
    assert_int_equal(irq_seen, 1);
    assert_int_equal(sim_irq_count(), 1);
    assert_true(vl_host_may_sleep());
    sim_stop();
}

static void run_work(struct vl_work *work)
{
    work->next = work;
}

static void deferred_work_runs(void **state)
{
    struct vl_work work[2] = {{NULL, run_work}, {NULL, run_work}};

    (void)state;
    machine_on(1);
    vl_host_defer(&work[0]);
    vl_host_defer(&work[1]);
    assert_int_equal(sim_defer_run(), 2);
    assert_ptr_equal(work[0].next, &work[0]);
    assert_ptr_equal(work[1].next, &work[1]);
    assert_int_equal(sim_defer_run(), 0);
    sim_stop();
}

static void die(void *arg)
{
    vl_host_panic(arg);
}

static void live(void *arg)
{
    (void)arg;
}

static void death_is_seen(void **state)
{
    (void)state;
    machine_on(1);
    assert_true(sim_dies(die, (void *)"of old age", "old age"));
    assert_false(sim_dies(die, (void *)"of old age", "young"));
    assert_false(sim_dies(live, NULL, ""));
    sim_stop();
}

static void failures_count_down(void **state)
{
    unsigned failed = 0;

    (void)state;
    machine_on(1);
    sim_fail_after(2);
    assert_false(vl_host_alloc_fails());
    assert_false(vl_host_alloc_fails());
    assert_true(vl_host_alloc_fails());
    assert_false(vl_host_alloc_fails());
    sim_fail_often(32768);
    for (unsigned i = 0; i < 1000; i++) {
        failed += vl_host_alloc_fails() ? 1u : 0u;
    }
    assert_in_range(failed, 400, 600);
    sim_stop();
}

static void ram_is_there(void **state)
{
    struct vl_range range[2];
    unsigned char *end;

    (void)state;
    machine_on(1);
    assert_int_equal(vl_host_memory_ranges(range, 2), 1);
    end = vl_host_phys_to_virt(range[0].end);
    end[-1] = 1;
    assert_int_equal(end[-1], 1);
    sim_stop();
}

static void wait_and_wake(void **state)
{
    static _Atomic uint32_t word;

    (void)state;
    machine_on(1);
    assert_int_equal(vl_host_wait(&word, 0, 1000000), VL_ETIMEDOUT);
    atomic_store(&word, 1);
    vl_host_wake(&word, 1);
    assert_int_equal(vl_host_wait(&word, 0, UINT64_MAX), VL_OK);
    sim_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpus_have_ids),       cmocka_unit_test(interrupts_wait_for_restore),
        cmocka_unit_test(deferred_work_runs),  cmocka_unit_test(death_is_seen),
        cmocka_unit_test(failures_count_down), cmocka_unit_test(ram_is_there),
        cmocka_unit_test(wait_and_wake),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
