/*
 * Goal: with SLAB=sheaf a cache's homes work for each other. Units that one CPU took and another
 * frees come back to their slabs, in the slabs' home; a home that has none gets what others have
 * before a slab is made, so that what is held does not grow with the CPUs; when memory is gone, the
 * last unit of every home is had from every CPU; and whoever gives a unit back, or purges its slab,
 * while that slab moves to another home finds it.
 * Method: two CPUs, one after the other, and a look at the homes' own figures. What must come
 * between two locks comes by an interrupt, after each single instruction in turn: it frees units
 * of slabs that are about to move, or moves slabs whose units are about to be freed. Each such run
 * begins and ends with valid structures and with all units in their slabs. Where a slab that one
 * CPU purges is on its way, a second one moves it and is held up after each instruction in turn.
 * Then four CPUs do all of it at once, held up wherever they leave a lock.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sched.h>
#include <string.h>
#include "core/slab/slab.h"
#include "machine/sim/sim.h"

#if !defined(VLI_SLAB_HOMES)
#error                                                                                             \
    "only SLAB=sheaf has homes, and several with SMP=1 only: the Makefile leaves this out elsewhere"
#endif

#include "core/slab/sheaf/slab_bits.h"

/* ThreadSanitizer does not let instructions be counted. */
#if defined(VLI_TSAN)
#define CAN_STEP 0
#else
#define CAN_STEP 1
#endif

#define MIB     (1ull << 20)
#define OBJECTS 320u
#define SIZE    2048u /* sixteen to a slab */
#define FRAMES  16384u

static struct vl_cache *cache;
static void *objects[OBJECTS];
static struct vl_pfn hoard[FRAMES];

/* ------------------------------------------------------------------------------ one CPU at a time
 */

struct work {
    unsigned cpu;
    void (*fn)(size_t from, size_t to);
    size_t from, to;
};

static void if_it_is_me(void *arg, unsigned cpu)
{
    const struct work *work = arg;

    if (work->cpu == cpu) {
        work->fn(work->from, work->to);
    }
}

static void on_cpu(unsigned cpu, void (*fn)(size_t from, size_t to), size_t from, size_t to)
{
    struct work work = {cpu, fn, from, to};

    sim_run_on_cpus(2, if_it_is_me, &work);
}

static void take(size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        objects[i] = vl_cache_alloc(cache, VL_ATOMIC);
        if (objects[i] == NULL) {
            vl_host_panic("homes: no memory");
        }
    }
}

static void give(size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        vl_cache_free(cache, objects[i]);
        objects[i] = NULL;
    }
}

/* All but the first of so many, that is, about one in each slab. */
static size_t spared = 16;
static size_t few = 64;

static void give_most(size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        if (i % spared != 0) {
            give(i, i + 1);
        }
    }
}

static void give_rest(void)
{
    for (size_t i = 0; i < OBJECTS; i++) {
        if (objects[i] != NULL) {
            give(i, i + 1);
        }
    }
}

/* -------------------------------------------------------------------------------- what homes hold
 */

static uint64_t slabs(void)
{
    return atomic_load(&cache->node[0].slabs);
}

static struct vli_slab_home *home(unsigned number)
{
    return vli_home_at(cache, number);
}

static uint64_t units_idle(void)
{
    uint64_t units = 0;

    for (unsigned i = 0; i < VLI_SLAB_HOMES; i++) {
        units += home(i)->units_free + home(i)->full_units;
    }
    return units;
}

static void cache_on(size_t size)
{
    struct vl_cache_spec spec = {.name = "homes", .size = size, .flags = VL_CACHE_NO_MERGE};

    assert_int_equal(vl_cache_create(&spec, &cache), VL_OK);
}

static unsigned nodes = 1; /* with two, each CPU is of its own, with half of the memory */

static void machine_on(size_t size)
{
    struct sim_config config = {.ram_bytes = 32 * MIB, .cpus = 2, .seed = 5, .quiet = true};

    if (nodes == 2) {
        config.ranges[0] = (struct vl_range){.start = {4 * MIB}, .end = {20 * MIB}};
        config.ranges[1] = (struct vl_range){.start = {20 * MIB}, .end = {36 * MIB}, .zone = 1};
        config.range_count = 2;
        config.zone_node[1] = 1;
        config.cpu_node[1] = 1;
    }
    sim_start(&config);
    assert_int_equal(vli_homes_mask, 1); /* two */
    cache_on(size);
}

/* Nothing is lost: all units are in slabs, which all go back. */
static void cache_off(void)
{
    give_rest();
    vli_slab_validate();
    assert_int_equal(vl_cache_destroy(cache), VL_OK);
    for (unsigned i = 0; i < VLI_SLAB_HOMES; i++) {
        assert_int_equal(home(i)->units, 0);
        assert_int_equal(home(i)->partial_count, 0);
    }
}

static void machine_off(void)
{
    cache_off();
    sim_stop();
}

/* ---------------------------------------------------------------------------------------- tests */

static void units_come_home(void **state)
{
    (void)state;
    machine_on(SIZE);
    on_cpu(1, take, 0, OBJECTS);
    assert_true(home(1)->units >= OBJECTS);
    on_cpu(0, give_most, 0, OBJECTS);
    vli_slab_flush(cache);
    vli_slab_validate();
    assert_int_equal(home(0)->units, 0);
    assert_int_equal(home(0)->units_free, 0);
    assert_int_equal(home(1)->units_free, home(1)->units - OBJECTS / spared);
    machine_off();
}

/* A sheaf with units of both homes by turns. */
static void mixed_sheaves_are_sorted(void **state)
{
    (void)state;
    machine_on(SIZE);
    on_cpu(0, take, 0, OBJECTS / 2);
    on_cpu(1, take, OBJECTS / 2, OBJECTS);
    assert_true(home(0)->units > 0);
    assert_true(home(1)->units > 0);
    for (size_t i = 0; i < OBJECTS / 2; i++) {
        size_t other = OBJECTS / 2 + i;

        on_cpu(0, give, i, i + 1);
        on_cpu(0, give, other, other + 1);
    }
    vli_slab_flush(cache);
    vli_slab_validate();
    assert_int_equal(home(0)->units_free + home(1)->units_free, home(0)->units + home(1)->units);
    machine_off();
}

static void others_slabs_come_first(void **state)
{
    uint64_t before;

    (void)state;
    machine_on(SIZE);
    on_cpu(1, take, 0, OBJECTS);
    on_cpu(1, give_most, 0, OBJECTS);
    vli_slab_flush(cache);
    before = slabs();
    for (size_t i = 0; i < OBJECTS; i++) {
        if (objects[i] == NULL) {
            on_cpu(0, take, i, i + 1);
        }
    }
    vli_slab_validate();
    assert_int_equal(slabs(), before);
    assert_true(home(0)->units > home(1)->units);
    machine_off();
}

/* What moves from CPU to CPU holds no more than on one. */
static void wandering_holds_no_more(void **state)
{
    uint64_t one;

    (void)state;
    machine_on(SIZE);
    on_cpu(0, take, 0, OBJECTS);
    one = slabs();
    for (unsigned round = 1; round < 40; round++) {
        on_cpu(round % 2, give, 0, OBJECTS);
        on_cpu(round % 2, take, 0, OBJECTS);
        assert_true(slabs() <= one + 1);
    }
    machine_off();
}

/* A home keeps a sheaf of others' units for each that it got of them, time and again, and no more:
 * the others go where they are of. */
static void kept_once_for_each_borrowed(void **state)
{
    size_t at = OBJECTS / 2;

    (void)state;
    machine_on(SIZE);
    on_cpu(1, take, 0, OBJECTS);
    on_cpu(1, give, 0, OBJECTS / 2);
    assert_true(home(1)->full_count > 0);
    on_cpu(0, take, 0, 1);
    assert_int_equal(home(0)->borrowed, 1);
    for (unsigned round = 0; round < 3; round++) {
        on_cpu(0, give, at, OBJECTS);
        vli_slab_validate();
        assert_int_equal(home(0)->units, 0);
        assert_int_equal(home(0)->full_count, 1);
        assert_int_equal(home(0)->borrowed, 0);
        for (at = OBJECTS; home(0)->full_count > 0;) { /* the CPU's own two, then the barn's */
            at--;
            on_cpu(0, take, at, at + 1);
        }
        assert_int_equal(home(0)->borrowed, 1);
    }
    machine_off();
}

static void take_all(size_t from, size_t to)
{
    void *last = NULL;
    void *object;

    (void)from;
    (void)to;
    while ((object = vl_cache_alloc(cache, VL_ATOMIC)) != NULL) {
        *(void **)object = last;
        last = object;
    }
    objects[0] = last;
}

static void give_all(size_t from, size_t to)
{
    (void)from;
    (void)to;
    for (void *object = objects[0]; object != NULL;) {
        void *next = *(void **)object;

        vl_cache_free(cache, object);
        object = next;
    }
    objects[0] = NULL;
}

static void the_last_unit_of_all(void **state)
{
    size_t count;

    (void)state;
    machine_on(SIZE);
    on_cpu(0, take, 0, OBJECTS);
    on_cpu(1, give_most, 0, OBJECTS);
    count = vl_frame_alloc_bulk(FRAMES, VL_ATOMIC, hoard);
    assert_true(count > 0);
    while (vl_frame_alloc(0, VL_ATOMIC, &hoard[count]) == VL_OK) {
        count++;
    }
    memset(objects, 0, sizeof(objects)); /* those that are left end with the machine */
    assert_true(home(0)->units_free > 0);
    assert_true(home(0)->full_units > 0);
    on_cpu(1, take_all, 0, 0);
    assert_int_equal(units_idle(), 0);
    vli_slab_validate();
    on_cpu(0, give_all, 0, 0);
    vl_frame_free_bulk(hoard, count);
    sim_stop();
}

/* --------------------------------------------------------------------------- homes of two nodes */

static struct vl_frame *head_of(const void *object);

static void expect_node(size_t from, size_t to, unsigned node)
{
    for (size_t i = from; i < to; i++) {
        uint64_t start = vli_frame_pfn(head_of(objects[i])).n;

        assert_int_equal(start >= 20 * MIB >> VL_PAGE_SHIFT ? 1 : 0, node);
    }
}

/* Each CPU has objects in memory of its own node, though others are free elsewhere; what the other
 * CPU frees of them comes back to it; and the two share nothing of this for long. */
static void what_is_far_stays_there(void **state)
{
    uint64_t units;

    (void)state;
    nodes = 2;
    machine_on(SIZE);
    on_cpu(1, take, 0, OBJECTS / 2);
    expect_node(0, OBJECTS / 2, 1);
    on_cpu(1, give, 0, OBJECTS / 2);
    vli_slab_flush(cache);
    units = home(1)->units;
    assert_true(home(1)->units_free > 16);
    on_cpu(0, take, 0, OBJECTS / 2);
    expect_node(0, OBJECTS / 2, 0);
    assert_int_equal(home(1)->units, units);
    on_cpu(1, give, 0, OBJECTS / 2);
    vli_slab_flush(cache);
    vli_slab_validate();
    assert_int_equal(home(0)->units_free, home(0)->units);
    on_cpu(1, take, 0, OBJECTS / 2);
    expect_node(0, OBJECTS / 2, 1);
    machine_off();
    nodes = 1;
}

/* Full sheaves in a barn, too; and when memory is gone all is had from everywhere. */
static void the_last_unit_of_both_nodes(void **state)
{
    (void)state;
    nodes = 2;
    the_last_unit_of_all(state);
    nodes = 1;
}

/* ----------------------------------------------------------------- between two locks of a move */

static void *victim;    /* freed meanwhile */
static bool met_moving; /* its slab was on its way then */

static struct vl_frame *head_of(const void *object)
{
    return vli_slab_head(vli_virt_frame((uintptr_t)object - cache->shift));
}

static void give_victim(unsigned cpu)
{
    uintptr_t unit = (uintptr_t)victim - cache->shift;
    struct vli_slabs_out out = {VLI_FRAME_LINK_NONE};

    (void)cpu;
    if (victim == NULL) {
        return;
    }
    met_moving = met_moving || (vli_slab_place(head_of(victim)) & VLI_HOME_MOVES) != 0;
    victim = NULL;
    vli_slabs_give(cache, &unit, 1, &out);
    (void)vli_slabs_release(cache, &out);
}

static void take_of_others(void *arg)
{
    uintptr_t *units = arg;

    units[0] = vli_homes_take(cache, 0, VLI_WAIT_LOCK, 4, units + 1);
}

/* Home 1 has slabs with one object in each; that of this one is the victim. */
static void slabs_for_home_1(const uint32_t *slab)
{
    on_cpu(1, take, 0, few);
    on_cpu(1, give_most, 0, few);
    vli_slab_flush(cache);
    for (size_t i = 0; i < OBJECTS; i++) {
        if (objects[i] != NULL && vli_frame_pfn(head_of(objects[i])).n == *slab) {
            victim = objects[i];
            objects[i] = NULL;
            return;
        }
    }
    fail_msg("no object is in that slab");
}

static void return_units(uintptr_t *units)
{
    struct vli_slabs_out out = {VLI_FRAME_LINK_NONE};

    vli_slabs_give(cache, units + 1, (uint32_t)units[0], &out);
    (void)vli_slabs_release(cache, &out);
}

/* The interrupt that comes after the @at-th instruction of @fn. True: there are as many. */
static bool step(void (*fn)(void *arg), void *arg, void (*irq)(unsigned cpu), uint64_t at)
{
    bool came_so_far;

    sim_irq_set(irq);
    came_so_far = sim_step(fn, arg, at) == at;
    sim_irq_set(NULL);
    vli_slab_validate();
    return came_so_far;
}

static void give_victim_now(void)
{
    if (victim != NULL) {
        vl_cache_free(cache, victim);
        victim = NULL;
    }
}

static void freed_while_it_moves(void **state)
{
    uintptr_t units[5];
    bool goes_on = true;

    (void)state;
    met_moving = false;
    machine_on(SIZE);
    for (uint64_t at = 1; goes_on; at++) {
        slabs_for_home_1(&home(1)->partial_last);
        goes_on = step(take_of_others, units, give_victim, at);
        assert_true(units[0] > 0);
        give_victim_now();
        return_units(units);
        cache_off();
        cache_on(SIZE);
    }
    machine_off();
    assert_true(met_moving || !CAN_STEP);
}

/* ------------------------------------------------------ between the look and the lock of a giver
 */

static uintptr_t taken[5];

static void take_in_irq(unsigned cpu)
{
    (void)cpu;
    if (taken[0] == 0) {
        take_of_others(taken);
    }
}

static void give_unit(void *arg)
{
    uintptr_t unit = *(uintptr_t *)arg;
    struct vli_slabs_out out = {VLI_FRAME_LINK_NONE};

    vli_slabs_give(cache, &unit, 1, &out);
    (void)vli_slabs_release(cache, &out);
}

static void moved_while_it_is_given(void **state)
{
    bool goes_on = true;

    (void)state;
    machine_on(SIZE);
    for (uint64_t at = 1; goes_on; at++) {
        uintptr_t unit;

        slabs_for_home_1(&home(1)->partial_last);
        unit = (uintptr_t)victim - cache->shift;
        victim = NULL;
        taken[0] = 0;
        goes_on = step(give_unit, &unit, take_in_irq, at);
        return_units(taken);
        cache_off();
        cache_on(SIZE);
    }
    machine_off();
}

/* ------------------------------------------------------------------------- purged, and moved */

static void tell(uintptr_t start, size_t bytes)
{
    (void)start;
    (void)bytes;
}

static void purge(void *arg)
{
    (void)arg;
    (void)vli_slabs_purge(cache, tell);
}

static bool met_moved; /* a slab moved while its pages were told */

/* The slabs are in no list until units come back; then two are, and the last one of these moves. */
static void give_and_take(unsigned cpu)
{
    struct vl_frame *head = victim != NULL ? head_of(victim) : NULL;
    bool is_purged = head != NULL && vli_slab_free(head) == 0;

    give_victim(cpu);
    for (size_t i = 0; i < few; i++) {
        if (objects[i] != NULL && is_purged) {
            victim = objects[i];
            objects[i] = NULL;
            give_victim(cpu);
            break;
        }
    }
    take_in_irq(cpu);
    met_moved = met_moved || (is_purged && vli_slab_place(head) == 0);
}

static void moved_while_it_is_purged(void **state)
{
    bool goes_on = true;

    (void)state;
    spared = 4;
    few = 8;
    machine_on(2 * VL_PAGE_SIZE);
    for (uint64_t at = 1; goes_on; at++) {
        slabs_for_home_1(&home(1)->partial);
        taken[0] = 0;
        goes_on = step(purge, NULL, give_and_take, at);
        give_victim_now();
        return_units(taken);
        cache_off();
        cache_on(2 * VL_PAGE_SIZE);
    }
    machine_off();
    spared = 16;
    few = 64;
    assert_true(met_moved || !CAN_STEP);
}

/* --------------------------------------------------------- purged, while another CPU moves it */

/* One CPU tells a slab's pages; meanwhile its units come back, another CPU has it on the way to
 * another home, and is held up there until the first one is through. */
enum stage { STAGE_PURGES, STAGE_GIVEN, STAGE_MIDWAY, STAGE_PURGED };
static _Atomic unsigned stage;

static struct {
    struct vl_frame *heads[2]; /* of the slabs that are purged */
    uint64_t at;
    bool goes_on;
} meeting;

static void wait_for(enum stage which)
{
    while (atomic_load(&stage) < which) {
        sched_yield();
    }
}

static void give_while_told(uintptr_t start, size_t bytes)
{
    size_t heads = 0;

    (void)start;
    (void)bytes;
    if (atomic_load(&stage) != STAGE_PURGES) {
        return;
    }
    for (size_t i = 0; i < few; i++) {
        if (objects[i] != NULL) {
            meeting.heads[heads++ % 2] = head_of(objects[i]);
            victim = objects[i];
            objects[i] = NULL;
            give_victim(0);
        }
    }
    atomic_store(&stage, STAGE_GIVEN);
    wait_for(STAGE_MIDWAY);
}

static void hold_up(unsigned cpu)
{
    (void)cpu;
    if (atomic_load(&stage) == STAGE_GIVEN) {
        for (size_t i = 0; i < 2; i++) {
            met_moving = met_moving || (vli_slab_place(meeting.heads[i]) & VLI_HOME_MOVES) != 0;
        }
        atomic_store(&stage, STAGE_MIDWAY);
        wait_for(STAGE_PURGED);
    }
}

static void purge_and_move(void *arg, unsigned cpu)
{
    (void)arg;
    if (cpu == 0) {
        (void)vli_slabs_purge(cache, give_while_told);
        atomic_store(&stage, STAGE_PURGED);
        return;
    }
    wait_for(STAGE_GIVEN);
    meeting.goes_on = sim_step(take_of_others, taken, meeting.at) == meeting.at;
    hold_up(cpu);
}

static void purged_while_it_moves(void **state)
{
    (void)state;
    spared = 4;
    few = 8;
    met_moving = false;
    machine_on(2 * VL_PAGE_SIZE);
    meeting.goes_on = true;
    for (meeting.at = 1; meeting.goes_on; meeting.at++) {
        on_cpu(1, take, 0, few);
        on_cpu(1, give_most, 0, few);
        vli_slab_flush(cache);
        assert_int_equal(home(1)->partial_count, 2);
        taken[0] = 0;
        atomic_store(&stage, STAGE_PURGES);
        sim_irq_set(hold_up);
        sim_run_on_cpus(2, purge_and_move, NULL);
        sim_irq_set(NULL);
        vli_slab_validate();
        assert_true(taken[0] > 0);
        return_units(taken);
        cache_off();
        cache_on(2 * VL_PAGE_SIZE);
    }
    machine_off();
    spared = 16;
    few = 64;
    assert_true(met_moving || !CAN_STEP);
}

/* ---------------------------------------------------------------------------- all at once */

#define CPUS   4u
#define PLACES 48u
#define BYTES  (2 * VL_PAGE_SIZE)

static _Atomic(uint64_t *) places[PLACES];
static uint64_t randoms[CPUS];

static void check(uint64_t *object)
{
    if (object[0] != (uintptr_t)object || object[BYTES / 8 - 1] != (uintptr_t)object) {
        vl_host_panic("homes: given out twice");
    }
}

/* What one CPU took another frees; all take slabs from each other, and purge them. */
static void storm(void *arg, unsigned cpu)
{
    uint64_t rounds = *(uint64_t *)arg;

    for (uint64_t i = 0; i < rounds; i++) {
        uint64_t random = sim_random(&randoms[cpu]);
        uint64_t *object = random % 4 == 0 ? NULL : vl_cache_alloc(cache, VL_ATOMIC);

        if (object != NULL) {
            object[0] = (uintptr_t)object;
            object[BYTES / 8 - 1] = (uintptr_t)object;
        }
        /* Both: what was written to an object comes before it is seen. */
        object =
            atomic_exchange_explicit(&places[random / 4 % PLACES], object, memory_order_acq_rel);
        if (object != NULL) {
            check(object);
            object[0] = 0;
            vl_cache_free(cache, object);
        }
        if (random >> 60 == 0) {
            purge(NULL);
        }
        if (random >> 60 == 1) {
            vli_slab_flush(cache);
        }
    }
}

static void all_at_once(void **state)
{
    struct sim_config config = {.ram_bytes = 32 * MIB, .cpus = CPUS, .quiet = true};
    uint64_t rounds = sim_ops(20000) / 10;

    (void)state;
    config.seed = sim_seed(23);
    sim_start(&config);
    cache_on(BYTES);
    for (unsigned i = 0; i < CPUS; i++) {
        randoms[i] = config.seed * CPUS + i;
    }
    sim_hold_up(20);
    for (unsigned i = 0; i < 10; i++) {
        sim_run_on_cpus(CPUS, storm, &rounds);
        vli_slab_validate();
    }
    sim_hold_up(0);
    for (unsigned i = 0; i < PLACES; i++) {
        uint64_t *object = atomic_exchange(&places[i], NULL);

        if (object != NULL) {
            vl_cache_free(cache, object);
        }
    }
    machine_off();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_come_home),
        cmocka_unit_test(mixed_sheaves_are_sorted),
        cmocka_unit_test(others_slabs_come_first),
        cmocka_unit_test(wandering_holds_no_more),
        cmocka_unit_test(kept_once_for_each_borrowed),
        cmocka_unit_test(the_last_unit_of_all),
        cmocka_unit_test(what_is_far_stays_there),
        cmocka_unit_test(the_last_unit_of_both_nodes),
        cmocka_unit_test(freed_while_it_moves),
        cmocka_unit_test(moved_while_it_is_given),
        cmocka_unit_test(moved_while_it_is_purged),
        cmocka_unit_test(purged_while_it_moves),
        cmocka_unit_test(all_at_once),
    };

    /* Debug builds mark what is given out and comes back, which the steps go around. */
    const struct CMUnitTest marked[] = {
        cmocka_unit_test(units_come_home),
        cmocka_unit_test(mixed_sheaves_are_sorted),
        cmocka_unit_test(others_slabs_come_first),
        cmocka_unit_test(wandering_holds_no_more),
        cmocka_unit_test(the_last_unit_of_all),
        cmocka_unit_test(what_is_far_stays_there),
        cmocka_unit_test(the_last_unit_of_both_nodes),
        cmocka_unit_test(all_at_once),
    };

    if (VLI_MARK_HEAD != 0) {
        return cmocka_run_group_tests(marked, NULL, NULL);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
