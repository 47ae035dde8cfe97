/*
 * Goal: an interrupt between any two instructions of the paths that take and give objects, fast
 * ones and slow ones, does no harm, whatever it does with the same cache; nor does memory that runs
 * out meanwhile. Method: each call is run one instruction at a time (sim_step()), with an interrupt
 * after each of them, or after one at random. The interrupt takes objects, gives some back in an
 * order that leaves the old address on top of another list, or keeps them; now and then it takes
 * and gives so many that what the CPU keeps is exchanged as a whole, or leaves the CPU with
 * nothing. Objects are so large and so
 * small that all ways between the CPU and the slabs are gone. Each object carries its own number,
 * which must stand when it goes. Once more with allocations that fail at random; and then as many
 * frames are free as in the beginning.
 *
 * ThreadSanitizer does not let instructions be counted, and its builds turn interrupts off in the
 * fast paths: there the interrupt comes between the calls.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "core/slab/slab.h"
#include "machine/sim/sim.h"

#define HELD 8u
#define KEPT 96u
#define MANY 150u
#define BULK 100u

static size_t size;
static struct vl_cache *cache; /* NULL: kmalloc */
static uint64_t seed;
static uint64_t irq_random;
static uint64_t *irq_held[HELD]; /* what interrupts took and keep */
static uint64_t irq_runs;
static uint64_t *moved; /* by the call that is stepped through */

static void *take(void)
{
    return cache != NULL ? vl_cache_alloc(cache, VL_ATOMIC) : vl_kmalloc_any(size, VL_ATOMIC);
}

static void give(void *object)
{
    if (cache != NULL) {
        vl_cache_free(cache, object);
    } else {
        vl_kfree(object);
    }
}

static void mark(uint64_t *object, uintptr_t value)
{
    object[0] = value;
    object[size / 8 - 1] = value;
}

static void check_mark(const uint64_t *object, uintptr_t value)
{
    if (object[0] != value || object[size / 8 - 1] != value) {
        vl_host_panic("slab_step: somebody else has the object, too");
    }
}

/* NULL only where allocations are made to fail. */
static uint64_t *take_marked(uintptr_t value)
{
    uint64_t *object = take();

    if (object != NULL) {
        mark(object, value);
    }
    return object;
}

static void give_marked(uint64_t *object, uintptr_t value)
{
    if (object != NULL) {
        check_mark(object, value);
        give(object);
    }
}

/* All that the CPU keeps goes and comes. */
static void take_many(uint64_t random)
{
    static uint64_t *many[MANY];
    unsigned count = 1 + (unsigned)(random % MANY);

    for (unsigned i = 0; i < count; i++) {
        many[i] = take_marked(random + i);
    }
    for (unsigned i = 0; i < count; i++) {
        unsigned from = random / 256 % 2 == 0 ? i : count - 1 - i;

        give_marked(many[from], random + from);
    }
}

/* The interrupt. Two are taken and the first given back: the list begins as before, and is another.
 */
static void interrupt(unsigned cpu)
{
    uint64_t r = sim_random(&irq_random);
    uint64_t **held = &irq_held[r % HELD];
    uint64_t *first = take_marked(r);
    uint64_t *second = take_marked(r + 1);

    (void)cpu;
    irq_runs++;
    give_marked(first, r);
    give_marked(*held, (uintptr_t)held);
    *held = NULL;
    if (r / 8 % 3 == 0 && second != NULL) {
        mark(second, (uintptr_t)held);
        *held = second;
    } else {
        give_marked(second, r + 1);
    }
    if (r / 32 % 32 == 0) {
        take_many(r / 1024);
    }
    if (r / 4096 % 16 == 0) {
        vli_slab_flush(cache); /* as another CPU that drains asks this one to */
    }
    /* Where units are not linked, what is under way is nobody's, and all else must be right. */
    if (VLI_SLAB_LINK_BYTES == 0 && r / 64 % 64 == 0) {
        vli_slab_validate();
    }
}

static void path_take(void *arg)
{
    (void)arg;
    moved = take();
}

static void path_give(void *arg)
{
    (void)arg;
    give(moved);
}

#if defined(VLI_TSAN)
#define IS_STEPPED 0
static void step(void (*fn)(void *arg), uint64_t random)
{
    (void)random;
    interrupt(0);
    fn(NULL);
    interrupt(0);
}
#else
#define IS_STEPPED 1
/* An interrupt after each instruction, or one where a fast path or a slow one has got to. Debug
 * builds look at each byte of an object: there large ones are not interrupted all the way. */
static void step(void (*fn)(void *arg), uint64_t random)
{
    uint64_t at = random % 16 < 4 && (VLI_MARK_HEAD == 0 || size <= 64) ? SIM_STEP_ALL
                  : random % 16 < 14                                    ? 1 + random / 16 % 50
                                                                        : 1 + random / 16 % 600;

    (void)sim_step(fn, NULL, at);
}
#endif

/* Several at once: what the CPU keeps goes away in between, and comes back. */
static struct {
    void *objects[BULK];
    size_t count;
    bool had;
} bulk;

static void path_take_bulk(void *arg)
{
    (void)arg;
    bulk.had = vl_cache_alloc_bulk(cache, VL_ATOMIC, bulk.count, bulk.objects) == VL_OK;
}

static void path_give_bulk(void *arg)
{
    (void)arg;
    vl_cache_free_bulk(cache, bulk.count, bulk.objects);
}

static void step_through_bulk(unsigned rounds)
{
    uint64_t random = seed;

    sim_irq_set(interrupt);
    for (unsigned i = 0; i < rounds; i++) {
        uint64_t r = sim_random(&random);

        bulk.count = 1 + r % BULK;
        step(path_take_bulk, r / BULK);
        for (size_t k = 0; bulk.had && k < bulk.count; k++) {
            mark(bulk.objects[k], r + k);
        }
        for (size_t k = 0; bulk.had && k < bulk.count; k++) {
            check_mark(bulk.objects[k], r + k);
        }
        if (bulk.had) {
            step(path_give_bulk, r / BULK / 16);
        }
        assert_true(bulk.had || sim_fail_count() != 0);
        vli_slab_validate();
    }
    sim_irq_set(NULL);
}

static void release_held(void)
{
    for (unsigned i = 0; i < HELD; i++) {
        give_marked(irq_held[i], (uintptr_t)&irq_held[i]);
        irq_held[i] = NULL;
    }
}

/* For a while more is taken than given, then the other way round. */
static void step_through(unsigned rounds)
{
    uint64_t *kept[KEPT] = {0};
    uint64_t random = seed ^ size;
    unsigned failed = 0;

    irq_random = seed;
    irq_runs = 0;
    sim_irq_set(interrupt);
    for (unsigned i = 0; i < rounds; i++) {
        uint64_t r = sim_random(&random);
        uint64_t **place = &kept[i / 64 % 2 == 0 ? r % KEPT : i * 7 % KEPT];

        if (*place != NULL) {
            moved = *place;
            check_mark(moved, (uintptr_t)place);
            *place = NULL;
            step(path_give, r / KEPT);
            if (i / 64 % 2 != 0) {
                continue;
            }
        }
        step(path_take, sim_random(&random));
        if (moved != NULL) {
            mark(moved, (uintptr_t)place);
            *place = moved;
        } else {
            failed++;
        }
        if (i % 16 == 0) {
            vli_slab_validate();
        }
    }
    sim_irq_set(NULL);
    assert_true(failed == 0 || sim_fail_count() != 0);
    for (unsigned i = 0; i < KEPT; i++) {
        give_marked(kept[i], (uintptr_t)&kept[i]);
    }
    release_held();
    vli_slab_validate();
}

static uint64_t free_frames(void)
{
    struct vl_frame_counts counts;

    vl_drain_all();
    vl_frame_counts(&counts);
    return counts.free_zones + counts.free_stock;
}

static unsigned rounds_here(void)
{
    /* A step costs tens of microseconds in a virtual machine. */
    uint64_t rounds = sim_ops(1000000) / 2000;

    return rounds < 100 ? 100 : rounds > 500 ? 500 : (unsigned)rounds;
}

static void start(void)
{
    struct sim_config config = {.ram_bytes = 64u << 20, .cpus = 1, .quiet = true};

    config.seed = seed;
    sim_start(&config);
}

static void kmalloc_stands(void)
{
    static const size_t sizes[] = {8, 64, 256, 2048, 12288};

    cache = NULL;
    for (unsigned i = 0; i < VLI_COUNT_OF(sizes); i++) {
        size = sizes[i];
        step_through(rounds_here());
        assert_true(irq_runs > rounds_here());
    }
}

static void kmalloc_at_every_instruction(void **state)
{
    uint64_t before;

    (void)state;
    start();
    before = free_frames();
    kmalloc_stands();
    assert_int_equal(free_frames(), before);
    sim_stop();
}

static void kmalloc_without_memory(void **state)
{
    uint64_t before;

    (void)state;
    start();
    before = free_frames();
    sim_fail_often(8192);
    kmalloc_stands();
    sim_fail_often(0);
    assert_int_equal(free_frames(), before);
    sim_stop();
}

/* ---- each way from a CPU to the slabs and back, interrupted in all places ---- */

#define STORE      240u
#define GIVEN      150u
#define SLOW_LEAST 100u /* instructions; fast paths have fewer, but in debug builds */

static uint64_t *store[STORE];
static unsigned stored;

static void store_take(void)
{
    store[stored] = take_marked((uintptr_t)&store[stored]);
    stored += store[stored] != NULL ? 1u : 0u;
}

static void store_give(void)
{
    stored--;
    give_marked(store[stored], (uintptr_t)&store[stored]);
}

/* From nothing that any CPU keeps: so many objects out, of which some came back, of which some went
 * again. */
static void set_up(unsigned given, unsigned taken)
{
    while (stored > 0) {
        store_give();
    }
    vl_drain_all();
    while (stored < STORE - GIVEN) {
        store_take();
    }
    for (unsigned i = 0; i < GIVEN; i++) {
        store_take();
    }
    for (unsigned i = 0; i < given; i++) {
        store_give();
    }
    for (unsigned i = 0; i < taken; i++) {
        store_take();
    }
}

/* All that the CPU keeps is another afterwards. */
static void interrupt_hard(unsigned cpu)
{
    interrupt(cpu);
    take_many(sim_random(&irq_random) | 64u);
    vli_slab_validate();
}

/* One call in the state that was set up, interrupted after instruction @at. Returns: how many it
 * has. */
static uint64_t one_call(bool is_take, uint64_t at)
{
    uint64_t length;

    if (is_take) {
        length = sim_step(path_take, NULL, at);
        mark(moved, 1);
        give_marked(moved, 1);
    } else {
        stored--;
        moved = store[stored];
        check_mark(moved, (uintptr_t)&store[stored]);
        length = sim_step(path_give, NULL, at);
    }
    vli_slab_validate();
    return length;
}

/* Returns: how many places of the path were interrupted; 0 when it is a fast one. */
static unsigned through_state(bool is_take, unsigned given, unsigned taken)
{
    uint64_t length;
    uint64_t gap;
    unsigned places = 0;

    set_up(given, taken);
    sim_irq_set(NULL);
    length = one_call(is_take, 0);
    if (length < SLOW_LEAST) {
        return 0;
    }
    sim_irq_set(interrupt_hard);
    gap = length / (rounds_here() / 8) + 1; /* each way is met many times */
    for (uint64_t at = 1 + sim_random(&irq_random) % gap; at <= length; at += gap) {
        sim_irq_set(NULL);
        set_up(given, taken);
        sim_irq_set(interrupt_hard);
        (void)one_call(is_take, at);
        places++;
    }
    sim_irq_set(NULL);
    return places;
}

static void slow_ways_at_each_instruction(void **state)
{
    static const size_t sizes[] = {64, 1024};
    unsigned ways = 0;
    unsigned places = 0;

    (void)state;
    start();
    cache = NULL;
    irq_random = seed;
    for (unsigned i = 0; i < (VLI_MARK_HEAD == 0 ? 2u : 1u); i++) {
        size = sizes[i];
        for (unsigned n = 0; n < GIVEN; n += VLI_MARK_HEAD == 0 ? 1u : 17u) {
            unsigned gave = through_state(false, n, 0);
            unsigned took = through_state(true, GIVEN, n);

            ways += (gave != 0 ? 1u : 0u) + (took != 0 ? 1u : 0u);
            places += gave + took;
        }
        while (stored > 0) {
            store_give();
        }
        release_held();
    }
    fprintf(stderr, "# %u slow ways, %u places\n", ways, places);
    assert_true(IS_STEPPED ? ways >= 4 && places > 40 : ways == 0);
    sim_stop();
}

static void construct(void *object)
{
    memset(object, 0, size);
}

static void caches_at_every_instruction(void **state)
{
    struct vl_cache_spec spec = {
        .name = "stepped", .size = 96, .align = 32, .constructor = construct};

    (void)state;
    start();
    size = spec.size;
    assert_int_equal(vl_cache_create(&spec, &cache), VL_OK);
    step_through(rounds_here());
    assert_true(irq_runs > rounds_here());
    step_through_bulk(rounds_here() / 4);
    sim_fail_often(8192);
    step_through_bulk(rounds_here() / 4);
    sim_fail_often(0);
    release_held();
    assert_int_equal(vl_cache_destroy(cache), VL_OK);
    sim_stop();
}

#if defined(VLI_IS_RESTARTABLE) && VLI_IS_RESTARTABLE
static void without_restart(void *arg)
{
    vl_restart_bounds.bytes = 0;
    for (unsigned i = 0; i < 20; i++) {
        size = *(size_t *)arg;
        cache = NULL;
        step_through(500);
        seed++;
    }
}

/* The method itself: an interrupted range that goes on where it was is noticed. */
static void missing_restart_is_noticed(void **state)
{
    size_t of = 64;

    (void)state;
    start();
    assert_true(sim_dies(without_restart, &of, ""));
    sim_stop();
}
#define TEST_OF_RESTART cmocka_unit_test(missing_restart_is_noticed),
#else
#define TEST_OF_RESTART
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kmalloc_at_every_instruction), cmocka_unit_test(kmalloc_without_memory),
        cmocka_unit_test(slow_ways_at_each_instruction),
        cmocka_unit_test(caches_at_every_instruction), TEST_OF_RESTART};

    seed = sim_seed(20051213);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
