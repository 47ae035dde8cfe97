/*
 * Goal: threads of one space fault, unmap, protect, fork, move and truncate at once, and nothing is
 * lost, shown to the wrong one, or leaked.
 * Method: CPUs of the simulated machine, held up at random where they let go of a lock, run
 * programs of one space. Each word written names its address; whoever reads finds that, zero (it
 * was unmapped and mapped again) or a refusal. A table of counters in shared memory is added to by
 * all with locked instructions while pages of it are protected, and must come out exact. Afterwards
 * the space is validated and frames are counted.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "machine/sim/mmu.h"
#include "machine/sim/sim.h"
#include "tests/lib/space_util.h"

#define PAGE  VL_PAGE_SIZE
#define BASE  ((vl_va)0x101f0000) /* across leaf table pages */
#define PAGES 64u
/* Without locks there is one CPU, and the tests are those of one program. */
#if VL_SMP
#define CPUS 4u
#else
#define CPUS 1u
#endif
#define RW (VL_READ | VL_WRITE)
/* A CPU is held up once in so many times. */
#define HOLD_UP 12u

/* ThreadSanitizer makes a round some twenty times as long. */
#ifdef VLI_TSAN
#define ROUNDS(n) ((n) / 8)
#else
#define ROUNDS(n) (n)
#endif

static struct vl_space *space;
static struct vl_object *object;
static _Atomic bool is_over;
static _Atomic uint64_t wrong;
static uint64_t seed;

/* assert_* may not be used on other CPUs' threads: cmocka jumps. */
static void expect(bool holds)
{
    if (!holds) {
        atomic_fetch_add(&wrong, 1);
    }
}

static void reader_and_writer(uint64_t *random)
{
    vl_va va = BASE + sim_random(random) % PAGES * PAGE + sim_random(random) % 512 * 8;
    enum vl_status status;
    uint64_t value = 0;

    if (sim_random(random) % 2 == 0) {
        status = sim_store(va, va);
    } else {
        status = sim_load(va, &value);
        expect(status != VL_OK || value == 0 || value == va);
    }
    expect(status == VL_OK || status == VL_EFAULT || status == VL_EACCES);
}

/* What the child holds does not change any more, whatever the parent does. */
static void fork_and_look(uint64_t *random)
{
    vl_va va = BASE + sim_random(random) % PAGES * PAGE;
    struct vl_space *child;
    uint64_t first;
    uint64_t second;

    expect(vl_space_fork(space, &child) == VL_OK);
    sim_space_switch(child);
    if (sim_load(va, &first) == VL_OK) {
        expect(first == 0 || first == va);
        for (unsigned i = 0; i < 20; i++) {
            expect(sim_load(va, &second) == VL_OK && second == first);
        }
        if (sim_store(va, 1) == VL_OK) {
            expect(sim_load(va, &second) == VL_OK && second == 1);
        }
    }
    sim_space_switch(space);
    vl_space_put(child);
}

static void change(uint64_t *random)
{
    vl_va va = BASE + sim_random(random) % (PAGES - 8) * PAGE;
    size_t len = (1 + sim_random(random) % 8) * PAGE;
    struct vl_map_request r = {.len = len, .hint = va, .place = VL_MAP_FIXED, .prot = RW};
    vl_va got;

    switch (sim_random(random) % 6) {
    case 0:
        expect(vl_space_unmap(space, va, len) == VL_OK);
        expect(vl_space_map(space, &r, &got) == VL_OK);
        break;
    case 1:
        (void)!vl_space_protect(space, va, len, VL_READ);
        (void)!vl_space_protect(space, va, len, RW);
        break;
    case 2:
        (void)!vl_space_protect(space, va, len, 0);
        (void)!vl_space_protect(space, va, len, RW);
        break;
    case 3:
        (void)!vl_space_advise(space, va, len, VL_ADVISE_DONTNEED);
        break;
    case 4:
        expect(vl_space_map(space, &r, &got) == VL_OK);
        break;
    default:
        fork_and_look(random);
        break;
    }
}

static void faults_against_changes_cpu(void *arg, unsigned cpu)
{
    uint64_t rounds = *(uint64_t *)arg;
    uint64_t random = seed + cpu;

    sim_space_switch(space);
    if (cpu == 0) {
        for (uint64_t i = 0; i < rounds; i++) {
            change(&random);
        }
        atomic_store(&is_over, true);
    } else {
        while (!atomic_load(&is_over)) {
            reader_and_writer(&random);
        }
    }
    sim_space_switch(NULL);
}

static void begin(void)
{
    machine_on(64, CPUS);
    atomic_store(&is_over, false);
    atomic_store(&wrong, 0);
    assert_int_equal(vl_space_create(&space), VL_OK);
    sim_hold_up(HOLD_UP);
}

static void end(void)
{
    sim_hold_up(0);
    assert_int_equal(atomic_load(&wrong), 0);
    vl_space_validate(space);
    vl_space_put(space);
    machine_off();
}

static void faults_against_changes(void **state)
{
    uint64_t rounds = sim_ops(ROUNDS(400));

    (void)state;
    seed = sim_seed(5);
    begin();
    map_anon(space, BASE, PAGES * PAGE, RW);
    sim_run_on_cpus(CPUS, faults_against_changes_cpu, &rounds);
    end();
}

/* All change: no word can be checked but by its own address. */
static void changes_against_changes_cpu(void *arg, unsigned cpu)
{
    uint64_t rounds = *(uint64_t *)arg;
    uint64_t random = seed + cpu;

    sim_space_switch(space);
    for (uint64_t i = 0; i < rounds; i++) {
        change(&random);
        for (unsigned k = 0; k < 10; k++) {
            reader_and_writer(&random);
        }
    }
    sim_space_switch(NULL);
}

static void changes_against_changes(void **state)
{
    uint64_t rounds = sim_ops(ROUNDS(100));

    (void)state;
    seed = sim_seed(6);
    begin();
    map_anon(space, BASE, PAGES * PAGE, RW);
    sim_run_on_cpus(CPUS, changes_against_changes_cpu, &rounds);
    end();
}

/* ------------------------------------------------------------------- nothing may be lost */

static void counters_cpu(void *arg, unsigned cpu)
{
    uint64_t rounds = *(uint64_t *)arg;
    uint64_t random = seed + cpu;
    struct vl_space *child;

    sim_space_switch(space);
    for (uint64_t i = 0; i < rounds; i++) {
        vl_va page = BASE + sim_random(&random) % PAGES * PAGE;

        /* Forks and read-only moments make pages copy, reuse and fault under the additions. */
        if (cpu == 0 && i % 8 == 0) {
            expect(vl_space_fork(space, &child) == VL_OK);
            vl_space_put(child);
        } else if (cpu == 1 && i % 8 == 0) {
            (void)!vl_space_protect(space, page, 2 * PAGE, RW | VL_EXEC);
            (void)!vl_space_protect(space, page, 2 * PAGE, RW);
        }
        expect(sim_add(page + 8 * cpu, 1) == VL_OK);
        expect(sim_add(page + 64, 1) == VL_OK);
    }
    sim_space_switch(NULL);
}

static void additions_are_exact(void **state)
{
    uint64_t rounds = sim_ops(ROUNDS(1500));
    uint64_t sum = 0;
    uint64_t all = 0;
    uint64_t value;

    (void)state;
    seed = sim_seed(7);
    begin();
    map_anon(space, BASE, PAGES * PAGE, RW);
    sim_run_on_cpus(CPUS, counters_cpu, &rounds);
    sim_space_switch(space);
    for (unsigned i = 0; i < PAGES; i++) {
        for (unsigned cpu = 0; cpu < CPUS; cpu++) {
            assert_int_equal(sim_load(BASE + i * PAGE + 8 * cpu, &value), VL_OK);
            sum += value;
        }
        assert_int_equal(sim_load(BASE + i * PAGE + 64, &value), VL_OK);
        all += value;
    }
    sim_space_switch(NULL);
    assert_int_equal(sum, CPUS * rounds);
    assert_int_equal(all, CPUS * rounds);
    end();
}

/* Every page is touched first by all at once: one frame remains, and no addition is lost. */
static void first_touch_cpu(void *arg, unsigned cpu)
{
    uint64_t pages = *(uint64_t *)arg;

    (void)cpu;
    sim_space_switch(space);
    for (uint64_t i = 0; i < pages; i++) {
        expect(sim_add(BASE + i * PAGE, 1) == VL_OK);
    }
    sim_space_switch(NULL);
}

static void first_touches_meet(void **state)
{
    uint64_t pages = sim_ops(ROUNDS(3000));
    struct vl_space *child;
    uint64_t value;

    (void)state;
    begin();
    map_anon(space, BASE, pages * PAGE, RW);
    sim_run_on_cpus(CPUS, first_touch_cpu, &pages);
    assert_int_equal(usage(space).anonymous, pages);
    vl_space_validate(space);
    /* Once more: now each page is copied first. */
    assert_int_equal(vl_space_fork(space, &child), VL_OK);
    sim_run_on_cpus(CPUS, first_touch_cpu, &pages);
    assert_int_equal(usage(space).anonymous, pages);
    sim_space_switch(space);
    for (uint64_t i = 0; i < pages; i++) {
        assert_int_equal(sim_load(BASE + i * PAGE, &value), VL_OK);
        assert_int_equal(value, 2 * CPUS);
    }
    sim_space_switch(child);
    for (uint64_t i = 0; i < pages; i++) {
        assert_int_equal(sim_load(BASE + i * PAGE, &value), VL_OK);
        assert_int_equal(value, CPUS);
    }
    sim_space_switch(NULL);
    vl_space_put(child);
    end();
}

/* ----------------------------------------------------------------------- truncate and fault */

/* Nothing beyond page @pages of the object is there, shared or private; nor does one come who had
 * begun to fill a page before. */
static void expect_end(uint64_t pages)
{
    uint64_t value;

    for (unsigned round = 0; round < 4; round++) {
        for (uint64_t i = pages + 1; i < PAGES; i++) {
            expect(sim_load(BASE + i * PAGE, &value) == VL_EBUSERROR);
            expect(sim_load(BASE + (PAGES + i) * PAGE, &value) == VL_EBUSERROR);
        }
    }
}

/* What is mapped at page @index is the object's page, not one that a hole took out of it. */
static void expect_same_page(uint64_t index)
{
    struct vl_pfn mapped;
    struct vl_pfn kept;

    for (unsigned round = 0; round < 4; round++) {
        expect(vl_space_frame_get(space, BASE + index * PAGE, VL_READ, &mapped) == VL_OK);
        expect(vl_object_page_get(object, index, VL_PAGE_FIND, &kept) == VL_OK);
        expect(mapped.n == kept.n);
        vl_object_page_put(kept);
        vl_frame_ref_put(mapped);
    }
}

static void truncation_cpu(void *arg, unsigned cpu)
{
    uint64_t rounds = *(uint64_t *)arg;
    uint64_t random = seed + cpu;
    enum vl_status status;
    uint64_t value;
    vl_va va;

    sim_space_switch(space);
    for (uint64_t i = 0; i < rounds && cpu == 0; i++) {
        uint64_t pages = sim_random(&random) % PAGES;

        if (i % 3 == 0) {
            expect(vl_object_punch(object, pages * PAGE, (pages + 1) * PAGE) == VL_OK);
            expect_same_page(pages);
        } else {
            expect(vl_object_truncate(object, pages * PAGE + 16) == VL_OK);
            expect_end(pages);
            expect(vl_object_extend(object, PAGES * PAGE) == VL_OK);
        }
    }
    if (cpu == 0) {
        atomic_store(&is_over, true);
    }
    while (!atomic_load(&is_over)) {
        /* The first half maps it shared, the second privately. */
        va = BASE + sim_random(&random) % (2 * PAGES) * PAGE + 8 * cpu;
        status = sim_random(&random) % 2 == 0 ? sim_store(va, va) : sim_load(va, &value);
        expect(status == VL_OK || status == VL_EBUSERROR);
        if (sim_random(&random) % 16 == 0) {
            (void)!vl_space_advise(space, va & ~(vl_va)(PAGE - 1), PAGE, VL_ADVISE_DONTNEED);
        }
    }
    sim_space_switch(NULL);
}

static void truncation_against_faults(void **state)
{
    struct vl_map_request r = {
        .len = PAGES * PAGE, .hint = BASE, .place = VL_MAP_FIXED, .prot = RW};
    uint64_t rounds = sim_ops(ROUNDS(300));
    vl_va va;

    (void)state;
    seed = sim_seed(8);
    begin();
    object = object_new(PAGES);
    r.object = object;
    r.kind = VL_MAP_SHARED;
    assert_int_equal(vl_space_map(space, &r, &va), VL_OK);
    r.kind = VL_MAP_PRIVATE;
    r.hint += PAGES * PAGE;
    assert_int_equal(vl_space_map(space, &r, &va), VL_OK);
    sim_run_on_cpus(CPUS, truncation_cpu, &rounds);
    vl_space_validate(space);
    /* Nothing beyond the end is mapped any more. */
    assert_int_equal(vl_object_truncate(object, 0), VL_OK);
    assert_int_equal(usage(space).file + usage(space).anonymous, 0);
    vl_object_put(object);
    end();
}

/* -------------------------------------------------------------------- out of memory, at once */

static void shortage_cpu(void *arg, unsigned cpu)
{
    uint64_t random = seed + cpu;
    struct vl_space *child;
    enum vl_status status;

    sim_space_switch(space);
    for (uint64_t i = 0; i < *(uint64_t *)arg; i++) {
        vl_va va = BASE + sim_random(&random) % 4000 * PAGE;

        status = sim_store(va, va);
        expect(status == VL_OK || status == VL_ENOMEM);
        if (i % 64 == 0 && vl_space_fork(space, &child) == VL_OK) {
            vl_space_put(child);
        }
        if (i % 100 == 99) {
            (void)!vl_space_advise(space, BASE + cpu * 1000 * PAGE, 1000 * PAGE,
                                   VL_ADVISE_DONTNEED);
        }
    }
    sim_space_switch(NULL);
}

static void shortage_on_all_cpus(void **state)
{
    uint64_t rounds = sim_ops(ROUNDS(1500));

    (void)state;
    seed = sim_seed(9);
    machine_on(8, CPUS);
    atomic_store(&wrong, 0);
    assert_int_equal(vl_space_create(&space), VL_OK);
    map_anon(space, BASE, 4000 * PAGE, RW);
    sim_fail_often(2000);
    sim_run_on_cpus(CPUS, shortage_cpu, &rounds);
    sim_fail_often(0);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_against_changes),    cmocka_unit_test(changes_against_changes),
        cmocka_unit_test(additions_are_exact),       cmocka_unit_test(first_touches_meet),
        cmocka_unit_test(truncation_against_faults), cmocka_unit_test(shortage_on_all_cpus),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
