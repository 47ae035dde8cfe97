/*
 * Goal: the fast paths of frames and objects stand an interrupt after any of their instructions.
 * Method: each path is run one instruction at a time by the CPU's trap flag, once for each of its
 * instructions with an interrupt right after that one, and once with an interrupt after all of
 * them. The interrupt allocates and frees, and each time holds other things than before, so that
 * what lies on top of a list or a stock differs from what the path saw, or is the same by chance
 * while what is below differs. After each run: nothing is held twice, what was written is still
 * there, all structures are valid. At the end as many frames are free as at the beginning.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "core/frame/frame.h"
#include "core/slab/slab.h"
#include "machine/sim/sim.h"

#define MIB      (1ull << 20)
#define IRQ_HELD 8u
/* Can this build be stepped? (sim_step()) */
#if defined(VLI_TSAN)
#define IS_STEPPED 0
#else
#define IS_STEPPED 1
#endif
/* About twice the steps of one path that a run of this test spends; each takes microseconds. */
#define STEPS_MAX 8000u

/* -------------------------------------------------------------------------------- the interrupt */

static struct {
    uint64_t random;
    uint64_t runs;
    unsigned frames;
    struct vl_pfn frame[IRQ_HELD];
    unsigned order[IRQ_HELD];
    unsigned objects;
    uint64_t *object[IRQ_HELD];
} irq;

static void check(bool good, const char *what)
{
    if (!good) {
        vl_host_panic(what);
    }
}

static uint64_t *words(struct vl_pfn pfn)
{
    return vl_frame_to_virt(pfn);
}

static void irq_put_frame(void)
{
    irq.frames--;
    check(*words(irq.frame[irq.frames]) == irq.frame[irq.frames].n, "an interrupt's frame changed");
    vl_frame_free(irq.frame[irq.frames], irq.order[irq.frames]);
}

static void irq_put_object(void)
{
    irq.objects--;
    check(*irq.object[irq.objects] == (uintptr_t)irq.object[irq.objects],
          "an interrupt's object changed");
    vl_kfree(irq.object[irq.objects]);
}

static void irq_get_frame(unsigned order)
{
    if (irq.frames < IRQ_HELD &&
        vl_frame_alloc(order, VL_ATOMIC, &irq.frame[irq.frames]) == VL_OK) {
        *words(irq.frame[irq.frames]) = irq.frame[irq.frames].n;
        irq.order[irq.frames++] = order;
    }
}

static void irq_get_object(void)
{
    uint64_t *object = irq.objects < IRQ_HELD ? vl_kmalloc(64, VL_ATOMIC) : NULL;

    if (object != NULL) {
        *object = (uintptr_t)object;
        irq.object[irq.objects++] = object;
    }
}

/* Takes two and gives one back, or gives two and takes one: the tops are never what they were. */
static void on_interrupt(unsigned cpu)
{
    uint64_t random = sim_random(&irq.random);

    (void)cpu;
    irq.runs++;
    if (random % 2 == 0) {
        irq_get_frame(random % 32 == 0 ? 9 : 0);
        irq_get_frame(0);
    }
    while (irq.frames > random / 8 % 3) {
        irq_put_frame();
    }
    if (random / 2 % 2 == 0) {
        irq_get_object();
        irq_get_object();
    }
    while (irq.objects > random / 32 % 3) {
        irq_put_object();
    }
}

static void irq_end(void)
{
    while (irq.frames > 0) {
        irq_put_frame();
    }
    while (irq.objects > 0) {
        irq_put_object();
    }
}

/* ------------------------------------------------------------------------------------- the paths
 */

/* What a path holds from one run to the next. */
static struct {
    struct vl_pfn frame[64];
    struct vl_frame *descriptor;
    uint64_t *object;
    struct vl_cache *cache;
    bool had;
} path;

static void frame_get_0(void *arg)
{
    (void)arg;
    path.had = vl_frame_alloc(0, VL_ATOMIC, &path.frame[0]) == VL_OK;
}

static void frame_put_0(void *arg)
{
    (void)arg;
    vl_frame_free(path.frame[0], 0);
}

static void frame_get_9(void *arg)
{
    (void)arg;
    path.had = vl_frame_alloc(9, VL_ATOMIC, &path.frame[0]) == VL_OK;
}

static void frame_put_9(void *arg)
{
    (void)arg;
    vl_frame_free(path.frame[0], 9);
}

static void frame_get_3(void *arg)
{
    (void)arg;
    path.had = vl_frame_alloc(3, VL_ATOMIC, &path.frame[0]) == VL_OK;
}

static void frame_put_3(void *arg)
{
    (void)arg;
    vl_frame_free(path.frame[0], 3);
}

static void descriptor_get(void *arg)
{
    (void)arg;
    path.descriptor = vli_frame_get(0, VL_ATOMIC);
    path.had = path.descriptor != NULL;
    if (path.had) {
        path.frame[0] = vli_frame_pfn(path.descriptor);
    }
}

static void descriptor_put(void *arg)
{
    (void)arg;
    vli_frame_put(path.descriptor, 0);
}

static void bulk_get(void *arg)
{
    (void)arg;
    path.had = vl_frame_alloc_bulk(64, VL_ATOMIC, path.frame) == 64;
}

static void bulk_put(void *arg)
{
    (void)arg;
    vl_frame_free_bulk(path.frame, 64);
}

static void run_get(void *arg)
{
    (void)arg;
    path.had = vl_frame_alloc_run(11, VL_ATOMIC, path.frame) == VL_OK;
    for (unsigned i = 1; i < 11; i++) {
        path.frame[i].n = path.frame[0].n + i;
    }
}

static void run_put(void *arg)
{
    (void)arg;
    vl_frame_free_run(path.frame[8], 3);
    vl_frame_free_run(path.frame[0], 8);
}

static bool destroy(void *arg, struct vl_pfn pfn, unsigned order)
{
    (void)arg;
    (void)order;
    *words(pfn) = UINT64_MAX;
    return true;
}

/* What comes back is new each time. */
static void report_get(void *arg)
{
    (void)arg;
    (void)vl_frame_report_free(2, destroy, NULL);
    path.had = vl_frame_alloc(2, VL_ATOMIC, &path.frame[0]) == VL_OK;
}

static void report_put(void *arg)
{
    (void)arg;
    vl_frame_free(path.frame[0], 2);
    (void)vl_frame_report_free(0, destroy, NULL);
}

static void object_get(void *arg)
{
    (void)arg;
    path.object = vl_kmalloc(64, VL_ATOMIC);
    path.had = path.object != NULL;
}

static void object_put(void *arg)
{
    (void)arg;
    vl_kfree(path.object);
}

static void cache_get(void *arg)
{
    (void)arg;
    path.object = vl_cache_alloc(path.cache, VL_ATOMIC);
    path.had = path.object != NULL;
}

static void cache_put(void *arg)
{
    (void)arg;
    vl_cache_free(path.cache, path.object);
}

/* ---------------------------------------------------------------------------------------- the test
 */

/* A pair of paths: what one gets, the other gives back. */
struct pair {
    const char *name;
    void (*get)(void *arg);
    void (*put)(void *arg);
    size_t frames; /* that path.frame holds in between; 0: path.object */
};

static void mark(const struct pair *pair, uint64_t value)
{
    check(path.had, "nothing was to be had");
    for (size_t i = 0; i < pair->frames; i++) {
        *words(path.frame[i]) = value + i;
    }
    if (pair->frames == 0) {
        *path.object = value;
    }
}

static void check_mark(const struct pair *pair, uint64_t value)
{
    for (size_t i = 0; i < pair->frames; i++) {
        check(*words(path.frame[i]) == value + i, "somebody else has the frame, too");
    }
    check(pair->frames != 0 || *path.object == value, "somebody else has the object, too");
}

/* Runs a path, with interrupts as sim_step() has them. */
static uint64_t run(void (*fn)(void *arg), uint64_t at)
{
    if (at == 0) {
        fn(NULL);
        return 0;
    }
    return sim_step(fn, NULL, at);
}

/* One run of both, each with interrupts as said. */
static void run_pair(const struct pair *pair, uint64_t at_get, uint64_t at_put)
{
    uint64_t value = at_get * 0x10001u + at_put + 1;

    (void)run(pair->get, at_get);
    mark(pair, value);
    on_interrupt(0);
    check_mark(pair, value);
    (void)run(pair->put, at_put);
    vli_frame_validate();
    vli_slab_validate();
}

/* How far apart the places are where a path of @length instructions is interrupted: each one of a
 * short path, a sample of a long one, which differs from seed to seed. */
static uint64_t gap(uint64_t length)
{
    uint64_t most = length == 0 ? 1 : STEPS_MAX / length;

    return most < 8 ? length / 8 + 1 : length / most + 1;
}

static void step_through(const struct pair *pair)
{
    uint64_t runs = irq.runs;
    uint64_t get;
    uint64_t put;

    /* The first run fills what was empty. */
    run_pair(pair, 0, 0);
    get = sim_step(pair->get, NULL, 0);
    mark(pair, 1);
    put = sim_step(pair->put, NULL, 0);
    for (uint64_t at = 1 + sim_random(&irq.random) % gap(get); at <= get; at += gap(get)) {
        run_pair(pair, at, 0);
    }
    for (uint64_t at = 1 + sim_random(&irq.random) % gap(put); at <= put; at += gap(put)) {
        run_pair(pair, 0, at);
    }
    for (uint64_t i = get + put > STEPS_MAX / 2 ? 3 : 0; i < 4; i++) {
        run_pair(pair, SIM_STEP_ALL, 0);
        run_pair(pair, 0, SIM_STEP_ALL);
    }
    fprintf(stderr, "# %s: %llu and %llu instructions, %llu interrupts\n", pair->name,
            (unsigned long long)get, (unsigned long long)put,
            (unsigned long long)(irq.runs - runs));
}

static uint64_t free_frames(void)
{
    struct vl_frame_counts counts;

    vl_drain_all();
    vl_frame_counts(&counts);
    return counts.free_zones + counts.free_stock;
}

static void step_all(const struct pair *pairs, size_t count, bool stock)
{
    struct sim_config config = {.ram_bytes = 128 * MIB, .quiet = true};
    struct vl_cache_spec spec = {.name = "stepped", .size = 200};
    uint64_t before;

    config.seed = sim_seed(3);
    sim_start(&config);
    before = free_frames();
    vl_frame_set_stock(stock);
    memset(&irq, 0, sizeof(irq));
    irq.random = config.seed;
    assert_int_equal(vl_cache_create(&spec, &path.cache), VL_OK);
    sim_irq_set(on_interrupt);
    for (size_t i = 0; i < count; i++) {
        step_through(&pairs[i]);
    }
    sim_irq_set(NULL);
    irq_end();
    assert_int_equal(vl_cache_destroy(path.cache), VL_OK);
    assert_int_equal(free_frames(), before);
    vli_frame_validate();
    vli_slab_validate();
    sim_stop();
}

static const struct pair frame_pairs[] = {
    {"order 0", frame_get_0, frame_put_0, 1}, {"order 9", frame_get_9, frame_put_9, 1},
    {"order 3", frame_get_3, frame_put_3, 1}, {"descriptor", descriptor_get, descriptor_put, 1},
    {"bulk of 64", bulk_get, bulk_put, 64},   {"run of 11", run_get, run_put, 11},
    {"report", report_get, report_put, 1},
};

static const struct pair object_pairs[] = {
    {"kmalloc(64)", object_get, object_put, 0},
    {"cache of 200", cache_get, cache_put, 0},
};

static void frames_with_stocks(void **state)
{
    (void)state;
    step_all(frame_pairs, sizeof(frame_pairs) / sizeof(frame_pairs[0]), true);
}

static void frames_without_stocks(void **state)
{
    (void)state;
    step_all(frame_pairs, sizeof(frame_pairs) / sizeof(frame_pairs[0]), false);
}

static void objects(void **state)
{
    (void)state;
    step_all(object_pairs, sizeof(object_pairs) / sizeof(object_pairs[0]), true);
}

static volatile unsigned counted;

static void count_to_ten(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < 10; i++) {
        counted = counted + 1;
    }
}

static void one_frame(void *arg)
{
    if (vl_frame_alloc(0, VL_ATOMIC, arg) == VL_OK) {
        vl_frame_free(*(struct vl_pfn *)arg, 0);
    }
}

/* The method itself: the core's instructions are seen, others are not, and interrupts come. */
static void stepping_steps(void **state)
{
    struct sim_config config = {.ram_bytes = 64 * MIB, .quiet = true};
    struct vl_pfn pfn;
    uint64_t length;
    uint64_t part;

    (void)state;
    sim_start(&config);
    memset(&irq, 0, sizeof(irq));
    sim_irq_set(on_interrupt);
    counted = 0;
    assert_int_equal(sim_step(count_to_ten, NULL, SIM_STEP_ALL), 0);
    assert_int_equal(counted, 10);
    assert_int_equal(irq.runs, 0);
    one_frame(&pfn);
    length = sim_step(one_frame, &pfn, 0);
    assert_int_equal(irq.runs, 0);
    part = sim_step(one_frame, &pfn, 5);
    if (IS_STEPPED) {
        assert_true(length > 20);
        assert_int_equal(part, 5);
        assert_int_equal(irq.runs, 1);
        (void)sim_step(one_frame, &pfn, SIM_STEP_ALL);
        assert_true(irq.runs > 20);
    }
    sim_irq_set(NULL);
    irq_end();
    sim_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stepping_steps),
        cmocka_unit_test(frames_with_stocks),
        cmocka_unit_test(frames_without_stocks),
        cmocka_unit_test(objects),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
