/*
 * Goal: an interrupt between any two instructions of the paths that take and give several objects
 * at once does no harm, nor do other CPUs that do the same; memory that runs out leaves nothing
 * behind.
 * Method: each call is run one instruction at a time (sim_step()), with an interrupt after each of
 * them or after one at random, which takes and gives objects of the same cache, one by one and
 * several at once, and keeps some; then all CPUs at once, with a storm of interrupts. Each object
 * carries its own number, which must stand when it goes; at the end as many frames are free as in
 * the beginning.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "core/slab/slab.h"
#include "machine/sim/sim.h"

#if VL_SMP
#define CPUS 4u
#else
#define CPUS 1u
#endif
#define BULK_MAX 160u
#define HELD     40u

/* What one CPU's interrupts keep. */
struct irq_state {
    uint64_t random;
    uint64_t runs;
    uint64_t *held[HELD];
    unsigned count;
};

static struct vl_cache *cache;
static size_t size;
static uint64_t seed;
static struct irq_state irq[VL_CPUS_MAX];

static void mark(uint64_t *object, uint64_t value)
{
    object[0] = value;
    object[size / 8 - 1] = value;
}

static void check_mark(const uint64_t *object, uint64_t value)
{
    if (object[0] != value || object[size / 8 - 1] != value) {
        vl_host_panic("slab_step_bulk: somebody else has the object, too");
    }
}

static uint64_t number_of(const void *object)
{
    return (uint64_t)(uintptr_t)object * 0x9e3779b97f4a7c15ull;
}

static void mark_all(uint64_t **objects, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        mark(objects[i], number_of(objects[i]));
    }
}

static void check_all(uint64_t **objects, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        check_mark(objects[i], number_of(objects[i]));
    }
}

static bool take(uint64_t **objects, size_t count)
{
    if (vl_cache_alloc_bulk(cache, VL_ATOMIC, count, (void **)objects) != VL_OK) {
        return false;
    }
    mark_all(objects, count);
    return true;
}

static void give(uint64_t **objects, size_t count)
{
    check_all(objects, count);
    for (size_t i = 0; i < count; i++) {
        mark(objects[i], 0);
    }
    vl_cache_free_bulk(cache, count, (void *const *)objects);
}

static void interrupt(unsigned cpu)
{
    struct irq_state *state = &irq[cpu];
    uint64_t r = sim_random(&state->random);
    size_t count = r % 8;
    uint64_t *one;

    state->runs++;
    if (r / 8 % 2 == 0 && state->count + count <= HELD && take(state->held + state->count, count)) {
        state->count += (unsigned)count;
    } else {
        count = count < state->count ? count : state->count;
        state->count -= (unsigned)count;
        give(state->held + state->count, count);
    }
    one = vl_cache_alloc(cache, VL_ATOMIC);
    if (one != NULL) {
        mark(one, r);
        check_mark(one, r);
        vl_cache_free(cache, one);
    }
}

static void release_held(unsigned cpus)
{
    for (unsigned cpu = 0; cpu < cpus; cpu++) {
        give(irq[cpu].held, irq[cpu].count);
        irq[cpu].count = 0;
    }
}

/* ---- one CPU, instruction by instruction ---- */

static uint64_t *moved[BULK_MAX];
static size_t moved_count;
static bool moved_done;

static void path_take(void *arg)
{
    (void)arg;
    moved_done = vl_cache_alloc_bulk(cache, VL_ATOMIC, moved_count, (void **)moved) == VL_OK;
}

static void path_give(void *arg)
{
    (void)arg;
    vl_cache_free_bulk(cache, moved_count, (void *const *)moved);
}

static void step(void (*fn)(void *arg), uint64_t random)
{
    uint64_t at = random % 8 == 0 && moved_count < 8 ? SIM_STEP_ALL : 1 + random / 8 % 800;

    if (sim_step(fn, NULL, at) == 0) {
        interrupt(0); /* ThreadSanitizer: there are no steps */
    }
}

static uint64_t free_frames(void)
{
    struct vl_frame_counts counts;

    vl_drain_all();
    vl_frame_counts(&counts);
    return counts.free_zones + counts.free_stock;
}

static void start(unsigned cpus, size_t bytes)
{
    struct sim_config config = {.ram_bytes = 64u << 20, .cpus = cpus, .seed = seed, .quiet = true};
    struct vl_cache_spec spec = {.name = "bulk", .size = bytes, .flags = VL_CACHE_NO_MERGE};

    sim_start(&config);
    size = bytes;
    memset(irq, 0, sizeof(irq));
    for (unsigned cpu = 0; cpu < cpus; cpu++) {
        irq[cpu].random = seed + cpu;
    }
    assert_int_equal(vl_cache_create(&spec, &cache), VL_OK);
}

static void end(uint64_t before)
{
    assert_int_equal(vl_cache_destroy(cache), VL_OK);
    assert_int_equal(free_frames(), before);
    sim_stop();
}

/* Each instruction of a call is a step, which costs tens of microseconds in a virtual machine; and
 * debug builds look at each byte of an object. */
static size_t most(size_t bytes)
{
    return VLI_MARK_HEAD == 0 ? BULK_MAX : bytes < 100 ? 40 : 3;
}

/* Some are kept for a few rounds, so that they go back to slabs that are nobody's current one. */
static void rounds(size_t bytes, uint32_t fails_often)
{
    static uint64_t *kept[4][BULK_MAX];
    size_t kept_count[4] = {0};
    uint64_t random = seed ^ bytes;
    uint64_t count = sim_ops(400000) / 4000;
    uint64_t before;

    start(1, bytes);
    before = free_frames();
    sim_irq_set(interrupt);
    sim_fail_often(fails_often);
    count = count < 50 ? 50 : count > 250 ? 250 : count;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t r = sim_random(&random);
        unsigned k = (unsigned)(r % 4);

        check_all(kept[k], kept_count[k]);
        memcpy(moved, kept[k], sizeof(moved));
        moved_count = kept_count[k];
        step(path_give, r / 4);
        moved_count = r / 4096 % 3 == 0 ? r / 16384 % most(bytes) : r / 16384 % 8;
        step(path_take, r / 8);
        kept_count[k] = moved_done ? moved_count : 0;
        memcpy(kept[k], moved, sizeof(moved));
        mark_all(kept[k], kept_count[k]);
        assert_true(moved_done || sim_fail_count() > 0);
        if (i % 16 == 0) {
            vli_slab_validate();
        }
    }
    sim_irq_set(NULL);
    sim_fail_often(0);
    assert_true(irq[0].runs >= count);
    for (unsigned k = 0; k < 4; k++) {
        give(kept[k], kept_count[k]);
    }
    release_held(1);
    vli_slab_validate();
    end(before);
}

static void at_every_instruction(void **state)
{
    (void)state;
    rounds(16, 0);
    rounds(200, 0);
    rounds(VLI_MARK_HEAD == 0 ? 4096 : 520, 0);
}

static void without_memory(void **state)
{
    (void)state;
    rounds(64, 6000);
    rounds(VLI_MARK_HEAD == 0 ? 8192 : 1040, 6000);
}

/* ---- several CPUs ---- */

static _Atomic(uint64_t **) parcels[8]; /* of as many objects as their first place says */

static void exchange(void *arg, unsigned cpu)
{
    uint64_t random = seed + 100 + cpu;
    uint64_t ops = sim_ops(100000) / 20;

    (void)arg;
    for (uint64_t i = 0; i < ops; i++) {
        uint64_t r = sim_random(&random);
        size_t count = 1 + r % BULK_MAX;
        uint64_t **parcel = vl_kmalloc((count + 1) * sizeof(*parcel), VL_ATOMIC);

        if (parcel != NULL && !take(parcel + 1, count)) {
            vl_kfree(parcel);
            parcel = NULL;
        }
        if (parcel != NULL) {
            parcel[0] = (uint64_t *)(uintptr_t)count;
        }
        parcel = atomic_exchange(&parcels[r / BULK_MAX % 8], parcel);
        if (parcel != NULL) {
            give(parcel + 1, (size_t)(uintptr_t)parcel[0]);
            vl_kfree(parcel);
        }
        if (cpu == 0 && i % 1000 == 999) {
            (void)vl_cache_shrink(cache);
        }
    }
}

static void between_cpus(void **state)
{
    uint64_t before;

    (void)state;
    start(CPUS, 88);
    before = free_frames();
    sim_irq_set(interrupt);
    sim_irq_storm(20);
    sim_run_on_cpus(CPUS, exchange, NULL);
    sim_irq_storm_end();
    sim_irq_set(NULL);
    for (unsigned i = 0; i < 8; i++) {
        uint64_t **parcel = atomic_exchange(&parcels[i], NULL);

        if (parcel != NULL) {
            give(parcel + 1, (size_t)(uintptr_t)parcel[0]);
            vl_kfree(parcel);
        }
    }
    release_held(CPUS);
    vli_slab_validate();
    end(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_every_instruction),
        cmocka_unit_test(without_memory),
        cmocka_unit_test(between_cpus),
    };

    seed = sim_seed(20240229);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
