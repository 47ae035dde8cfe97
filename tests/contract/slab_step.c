/*
 * Goal: an interrupt between any two instructions of the fast paths does no harm, whatever it does
 * with the same cache.
 * Method: the CPU's trap flag is set around a pair of calls; after every instruction of the core
 * that runs with interrupts on, the trap handler is the interrupt: it takes objects, gives some
 * back in an order that leaves the old address on top of another list, or keeps them. Each object
 * carries its own number, which must stand when it goes.
 *
 * The core's code is in a section of its own (see machine/sim/irq.c). ThreadSanitizer's runtime
 * cannot be stepped through (it would meet its own locks), and its builds turn interrupts off in
 * the fast paths: there the interrupt comes between the calls.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include "core/slab/slab.h"
#include "machine/sim/sim.h"

#define HELD 8u

#pragma GCC visibility push(hidden)
extern const char __start_vl_core_text[] __attribute__((weak));
extern const char __stop_vl_core_text[] __attribute__((weak));
#pragma GCC visibility pop

static size_t size;
static struct vl_cache *cache; /* NULL: kmalloc */
static uint64_t seed;
static uint64_t irq_random;
static uint64_t *irq_held[HELD]; /* what interrupts took and keep */
static volatile uint64_t steps;
static volatile uint64_t injected;
static volatile sig_atomic_t is_injecting;

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

static uint64_t *take_marked(uint64_t mark)
{
    uint64_t *object = take();

    if (object == NULL) {
        abort();
    }
    object[0] = mark;
    object[size / 8 - 1] = mark;
    return object;
}

static void give_marked(uint64_t *object, uint64_t mark)
{
    if (object[0] != mark || object[size / 8 - 1] != mark) {
        abort();
    }
    give(object);
}

/* The interrupt. Two are taken and the first given back: the list begins as before, and is another.
 * Now and then so much is taken or given that the current slab changes. */
static void interrupt(void)
{
    uint64_t r = sim_random(&irq_random);
    uint64_t **held = &irq_held[r % HELD];
    uint64_t *first = take_marked(r);
    uint64_t *second = take_marked(r + 1);

    give_marked(first, r);
    if (*held != NULL) {
        give_marked(*held, (uintptr_t)held);
        *held = NULL;
    }
    if (r % 3 == 0) {
        second[0] = (uintptr_t)held;
        second[size / 8 - 1] = (uintptr_t)held;
        *held = second;
    } else {
        give_marked(second, r + 1);
    }
}

static bool in_core(const ucontext_t *context)
{
    uintptr_t at = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];

    return at >= (uintptr_t)__start_vl_core_text && at < (uintptr_t)__stop_vl_core_text;
}

/* Runs the interrupt as the machine would. */
static void inject(void)
{
    sim_self.irq_off = 1;
    sim_self.in_irq = 1;
    atomic_signal_fence(memory_order_seq_cst);
    interrupt();
    atomic_signal_fence(memory_order_seq_cst);
    sim_self.in_irq = 0;
    sim_self.irq_off = 0;
    injected++;
}

static void on_step(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    steps++;
    if (is_injecting != 0 || sim_self.irq_off != 0 || !in_core(context)) {
        return;
    }
    is_injecting = 1;
    inject();
    is_injecting = 0;
}

#if defined(VLI_TSAN)
static void stepping_on(void)
{
    inject();
}

static void stepping_off(void)
{
    inject();
}
#else
static void stepping_on(void)
{
    __asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" : : : "cc", "memory");
}

static void stepping_off(void)
{
    __asm__ volatile("pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq" : : : "cc", "memory");
}
#endif

static void release_held(void)
{
    for (unsigned i = 0; i < HELD; i++) {
        if (irq_held[i] != NULL) {
            give_marked(irq_held[i], (uintptr_t)&irq_held[i]);
            irq_held[i] = NULL;
        }
    }
}

static void step_through(unsigned rounds)
{
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO | SA_NODEFER};
    struct sigaction before;
    uint64_t *kept[64] = {0};

    irq_random = seed;
    injected = 0;
    sigaction(SIGTRAP, &action, &before);
    for (unsigned i = 0; i < rounds; i++) {
        uint64_t **place = &kept[i * 7 % 64];

        if (*place != NULL) {
            assert_true((*place)[0] == (uintptr_t)place);
            stepping_on();
            give(*place);
            stepping_off();
        }
        stepping_on();
        *place = take();
        stepping_off();
        assert_non_null(*place);
        (*place)[0] = (uintptr_t)place;
        (*place)[size / 8 - 1] = (uintptr_t)place;
        if (i % 16 == 0) {
            vli_slab_validate();
        }
    }
    sigaction(SIGTRAP, &before, NULL);
    for (unsigned i = 0; i < 64; i++) {
        if (kept[i] != NULL) {
            give_marked(kept[i], (uintptr_t)&kept[i]);
        }
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
    uint64_t rounds = sim_ops(1000000) / 5000;

    return rounds < 40 ? 40 : rounds > 200 ? 200 : (unsigned)rounds;
}

static void kmalloc_at_every_instruction(void **state)
{
    size_t sizes[] = {8, 64, 256};
    struct sim_config config = {.ram_bytes = 64u << 20, .cpus = 1, .seed = 1, .quiet = true};
    uint64_t before;

    (void)state;
    sim_start(&config);
    before = free_frames();
    cache = NULL;
    for (unsigned i = 0; i < VLI_COUNT_OF(sizes); i++) {
        size = sizes[i];
        step_through(rounds_here());
        assert_true(injected > rounds_here());
    }
    assert_int_equal(free_frames(), before);
    sim_stop();
}

static void construct(void *object)
{
    memset(object, 0, size);
}

static void caches_at_every_instruction(void **state)
{
    struct sim_config config = {.ram_bytes = 64u << 20, .cpus = 1, .seed = 1, .quiet = true};
    struct vl_cache_spec spec = {
        .name = "stepped", .size = 96, .align = 32, .constructor = construct};

    (void)state;
    sim_start(&config);
    size = spec.size;
    assert_int_equal(vl_cache_create(&spec, &cache), VL_OK);
    step_through(rounds_here());
    assert_true(injected > rounds_here());
    assert_int_equal(vl_cache_destroy(cache), VL_OK);
    sim_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kmalloc_at_every_instruction),
        cmocka_unit_test(caches_at_every_instruction),
    };

    seed = sim_seed(20051213);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
