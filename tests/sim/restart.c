/*
 * Goal: pop, push and swap of a CPU's stack of pointers stand an interrupt after any of their
 * instructions, be they code of the core or inlined by somebody else; the test would see it if an
 * interrupted range went on where it was.
 * Method: tokens on stacks, each of which has one owner at any time: a stack, the path under test
 * or the interrupt. One instruction at a time, an interrupt after each that pops, pushes and
 * exchanges the stack; after it, and after each operation, the tokens are counted. Then several
 * CPUs at once in a storm of signals and of calls, which come between instructions of their own
 * choice. Then all of it once more with the restart taken out: it must be noticed.
 *
 * The stacks' words are the last of the area that a host gives for a CPU, which the core's struct
 * does not reach. ThreadSanitizer's builds have no ranges: the same operations with interrupts off.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include "arch/restart.h"
#include "machine/sim/sim.h"

#define MIB     (1ull << 20)
#define SLOTS   (VLI_STACK_BYTES / 8)
#define PLACE   (VL_PERCPU_BYTES - 64u)
#define INDEX   3u
#define TOKENS  150u
#define CPUS    4u
#define HELD    12u
#define ROUNDS  1500u
#define CALLS   20u
#define OPS_SMP 100000u /* between two calls */
/* Code that the machine takes for the core's: interrupts run between its instructions. */
#define CORE __attribute__((section("vl_core_text"), noinline))
_Static_assert(sizeof(struct vli_percpu) <= PLACE, "the words are nobody else's");

enum owner { OWNER_STACK, OWNER_PATH, OWNER_IRQ, OWNER_MAIL };

/* A stack's lowest word is 0. The last block, with zeros before it, stands for no stack: it is
 * empty and full. */
static _Alignas(VLI_STACK_BYTES) uintptr_t blocks[CPUS * 3 + 2][SLOTS];
#define NO_STACK ((uintptr_t)blocks[CPUS * 3 + 1])

static _Atomic uint32_t owner[TOKENS + 1]; /* enum owner; of token 1 and up */
static struct {
    uint64_t runs;
    uint64_t random;
    uintptr_t spare; /* the top of a stack that the interrupt has */
    uintptr_t held[HELD];
    unsigned count;
} irq[CPUS];
static struct {
    uintptr_t unit;
    uintptr_t top;
    bool is_done;
} io;

static void check(bool good, const char *what)
{
    if (!good) {
        vl_host_panic(what);
    }
}

/* A token passes from one owner to another; it is an error if it was not the first one's. */
static inline void pass(uintptr_t token, enum owner from, enum owner to)
{
    check(token > 0 && token <= TOKENS, "restart: this is no token");
    check(atomic_exchange_explicit(&owner[token], to, memory_order_relaxed) == from,
          "restart: a token has two owners");
}

static VLI_ALWAYS_INLINE uintptr_t pop(void)
{
    uintptr_t unit = vli_stack_pop(vli_percpu_pin(), PLACE, INDEX);

    vli_percpu_unpin();
    return unit;
}

static VLI_ALWAYS_INLINE bool push(uintptr_t unit)
{
    bool is_done = vli_stack_push(vli_percpu_pin(), PLACE, INDEX, unit);

    vli_percpu_unpin();
    return is_done;
}

static VLI_ALWAYS_INLINE uintptr_t swap(uintptr_t top)
{
    uintptr_t old = vli_stack_swap(vli_percpu_pin(), PLACE, INDEX, top);

    vli_percpu_unpin();
    return old;
}

/* ------------------------------------------------------------------------------ the interrupt */

/* Now the stack is another, or the same and other tokens on it, or the same ones on it again. */
static void on_interrupt(unsigned cpu)
{
    uint64_t random = sim_random(&irq[cpu].random);
    uintptr_t token;

    irq[cpu].runs++;
    for (uint64_t i = random % 3; i > 0 && irq[cpu].count < HELD; i--) {
        token = pop();
        if (token != 0) {
            pass(token, OWNER_STACK, OWNER_IRQ);
            irq[cpu].held[irq[cpu].count++] = token;
        }
    }
    if (random / 4 % 4 == 0) {
        irq[cpu].spare = swap(irq[cpu].spare);
    }
    for (uint64_t i = random / 16 % 3; i > 0 && irq[cpu].count > 0; i--) {
        token = irq[cpu].held[irq[cpu].count - 1];
        pass(token, OWNER_IRQ, OWNER_STACK);
        if (!push(token)) {
            pass(token, OWNER_STACK, OWNER_IRQ);
            break;
        }
        irq[cpu].count--;
    }
}

/* ------------------------------------------------------------------------------ the stacks */

/* Each token of the stack, from the top down; the seen ones are marked. */
static void count_stack(uintptr_t top, bool *seen)
{
    for (uintptr_t *at = (uintptr_t *)top - 1; *at != 0; at--) {
        check(*at <= TOKENS && !seen[*at], "restart: a token is on the stacks twice");
        check(atomic_load(&owner[*at]) == OWNER_STACK, "restart: somebody owns a token of a stack");
        seen[*at] = true;
    }
}

static uintptr_t *word_of(unsigned cpu)
{
    return (uintptr_t *)((char *)vl_host_percpu_area(cpu) + PLACE) + INDEX;
}

/* While nothing is under way: each token is on a stack, once, or has another owner. */
static void count_all(unsigned cpus, const uintptr_t *tops, unsigned count)
{
    bool seen[TOKENS + 1] = {false};

    for (unsigned cpu = 0; cpu < cpus; cpu++) {
        count_stack(*word_of(cpu), seen);
        count_stack(irq[cpu].spare, seen);
    }
    for (unsigned i = 0; i < count; i++) {
        count_stack(tops[i], seen);
    }
    for (uintptr_t token = 1; token <= TOKENS; token++) {
        check(seen[token] == (atomic_load(&owner[token]) == OWNER_STACK),
              "restart: a token is lost");
    }
}

/* Three stacks for each CPU: the current one, the interrupt's, the path's (returned). */
static void fill(unsigned cpus, uintptr_t *out_tops)
{
    uintptr_t token = 1;

    memset(blocks, 0, sizeof(blocks));
    memset(irq, 0, sizeof(irq));
    for (unsigned cpu = 0; cpu < cpus; cpu++) {
        uintptr_t tops[3];

        for (unsigned i = 0; i < 3; i++) {
            uintptr_t *at = &blocks[cpu * 3 + i][1];

            while (token <= (cpu * 3 + i + 1) * TOKENS / (cpus * 3)) {
                atomic_store(&owner[token], OWNER_STACK);
                *at++ = token++;
            }
            tops[i] = (uintptr_t)at;
        }
        *word_of(cpu) = tops[0];
        irq[cpu].spare = tops[1];
        irq[cpu].random = cpu + 1;
        out_tops[cpu] = tops[2];
    }
}

/* -------------------------------------------------------------- one instruction at a time */

CORE static void core_pop(void *arg)
{
    (void)arg;
    io.unit = pop();
}

CORE static void core_push(void *arg)
{
    (void)arg;
    io.is_done = push(io.unit);
}

CORE static void core_swap(void *arg)
{
    (void)arg;
    io.top = swap(io.top);
}

static void inlined_pop(void *arg)
{
    (void)arg;
    io.unit = pop();
}

static void inlined_push(void *arg)
{
    (void)arg;
    io.is_done = push(io.unit);
}

static void inlined_swap(void *arg)
{
    (void)arg;
    io.top = swap(io.top);
}

struct paths {
    void (*pop)(void *arg);
    void (*push)(void *arg);
    void (*swap)(void *arg);
};
static const struct paths core_paths = {core_pop, core_push, core_swap};
static const struct paths inlined_paths = {inlined_pop, inlined_push, inlined_swap};

/* What the path holds, and how often each way was gone. */
static struct {
    uintptr_t token[TOKENS];
    unsigned count;
    unsigned popped, empty, pushed, full;
} path;

static void path_pop(const struct paths *paths, uint64_t at)
{
    (void)sim_step(paths->pop, NULL, at);
    if (io.unit == 0) {
        path.empty++;
        return;
    }
    path.popped++;
    pass(io.unit, OWNER_STACK, OWNER_PATH);
    path.token[path.count++] = io.unit;
}

static void path_push(const struct paths *paths, uint64_t at)
{
    if (path.count == 0) {
        return;
    }
    io.unit = path.token[path.count - 1];
    /* From here on it is on the stack, as soon as the push is done. */
    pass(io.unit, OWNER_PATH, OWNER_STACK);
    (void)sim_step(paths->push, NULL, at);
    if (io.is_done) {
        path.pushed++;
        path.count--;
    } else {
        path.full++;
        pass(io.unit, OWNER_STACK, OWNER_PATH);
    }
}

static void step_all(const struct paths *paths, uint64_t seed)
{
    uint64_t random = seed;
    uintptr_t spare[2] = {0, NO_STACK};

    memset(&path, 0, sizeof(path));
    fill(1, spare);
    count_all(1, spare, 2);
    sim_irq_set(on_interrupt);
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t r = sim_random(&random);
        uint64_t at = r % 4 == 0 ? SIM_STEP_ALL : r / 4 % 24;

        /* For a while more is taken, then more is given: both ends are reached. */
        if (r / 128 % 8 == 0) {
            io.top = spare[r / 1024 % 2];
            (void)sim_step(paths->swap, NULL, at);
            spare[r / 1024 % 2] = io.top;
        } else if (r / 128 % 8 < (i / 250 % 2 == 0 ? 3u : 6u)) {
            path_pop(paths, at);
        } else {
            path_push(paths, at);
        }
        count_all(1, spare, 2);
    }
    sim_irq_set(NULL);
}

static void core_stands(void **state)
{
    struct sim_config config = {.ram_bytes = 64 * MIB, .quiet = true, .seed = sim_seed(5)};

    (void)state;
    sim_start(&config);
    step_all(&core_paths, config.seed);
    fprintf(stderr, "# %u popped, %u found empty, %u pushed, %u found full, %llu interrupts\n",
            path.popped, path.empty, path.pushed, path.full, (unsigned long long)irq[0].runs);
    assert_true(path.popped > 100 && path.pushed > 100 && path.empty > 10 && path.full > 10);
    assert_true(!VLI_IS_RESTARTABLE || irq[0].runs > ROUNDS);
    sim_stop();
}

static void inlined_stands(void **state)
{
    struct sim_config config = {.ram_bytes = 64 * MIB, .quiet = true, .seed = sim_seed(6)};

    (void)state;
    sim_start(&config);
    step_all(&inlined_paths, config.seed);
    assert_true(!VLI_IS_RESTARTABLE || irq[0].runs > ROUNDS / 2);
    sim_stop();
}

/* ------------------------------------------------------------------- several CPUs, any moment */

static _Atomic uintptr_t mail[16];
static uintptr_t kept_stack[CPUS];

static void on_call(void *arg, unsigned cpu)
{
    (void)arg;
    (void)cpu;
    on_interrupt(vl_host_cpu_id());
}

/* A token goes away by mail, another comes. */
static uintptr_t exchange(uintptr_t token, uint64_t random)
{
    if (token != 0) {
        pass(token, OWNER_PATH, OWNER_MAIL);
    }
    /* Both: what is said of a token is said before it is seen. */
    token = atomic_exchange_explicit(&mail[random % 16], token, memory_order_acq_rel);
    if (token != 0) {
        pass(token, OWNER_MAIL, OWNER_PATH);
    }
    return token;
}

CORE static void core_traffic(unsigned cpu)
{
    uint64_t random = cpu;
    uintptr_t token = 0;

    for (unsigned i = 0; i < OPS_SMP; i++) {
        if (token == 0) {
            token = pop();
            if (token != 0) {
                pass(token, OWNER_STACK, OWNER_PATH);
            }
        } else {
            pass(token, OWNER_PATH, OWNER_STACK);
            if (push(token)) {
                token = 0;
            } else {
                pass(token, OWNER_STACK, OWNER_PATH);
            }
        }
        if (i % 8 == 0) {
            random = random * 6364136223846793005ull + 1442695040888963407ull;
            token = exchange(token, random >> 40);
        }
        if (i % 64 == 0) {
            kept_stack[cpu] = swap(kept_stack[cpu]);
        }
        /* Interrupts that came elsewhere have waited for this. */
        vl_host_irq_restore(vl_host_irq_save());
    }
    if (token != 0) {
        (void)exchange(token, 0);
    }
}

/* The first CPU's calls come to the others as interrupts, too. */
static void traffic(void *arg, unsigned cpu)
{
    struct vl_cpumask all = {{UINT64_MAX}};

    (void)arg;
    for (unsigned i = 0; i < CALLS; i++) {
        core_traffic(cpu);
        if (cpu == 0) {
            vl_host_cpu_call(&all, on_call, NULL);
        }
    }
}

static void run_traffic(void *arg)
{
    for (unsigned i = 0; i < 16; i++) {
        atomic_store(&mail[i], 0);
    }
    fill(CPUS, kept_stack);
    sim_irq_set(on_interrupt);
    sim_irq_storm(20);
    sim_run_on_cpus(CPUS, traffic, arg);
    sim_irq_storm_end();
    sim_irq_set(NULL);
    count_all(CPUS, kept_stack, CPUS);
}

static void storm_on_all_cpus(void **state)
{
    struct sim_config config = {.ram_bytes = 64 * MIB, .cpus = CPUS, .quiet = true};

    (void)state;
    config.seed = sim_seed(7);
    sim_start(&config);
    for (unsigned i = 0; i < 30 && sim_irq_count() < 1000; i++) {
        run_traffic(NULL);
    }
    fprintf(stderr, "# %llu interrupts\n", (unsigned long long)sim_irq_count());
    assert_true(sim_irq_count() > 50);
    sim_stop();
}

/* ------------------------------------------------------------------- the table, and without it */

struct entry {
    int32_t start;
    uint32_t bytes;
};
#pragma GCC visibility push(hidden)
extern const struct entry __start_vl_restart[] __attribute__((weak));
extern const struct entry __stop_vl_restart[] __attribute__((weak));
#pragma GCC visibility pop

static void table_is_exact(void **state)
{
    struct sim_config config = {.ram_bytes = 64 * MIB, .quiet = true};
    unsigned count = 0;

    (void)state;
    sim_start(&config);
    for (const struct entry *entry = __start_vl_restart; entry != __stop_vl_restart; entry++) {
        uintptr_t start = (uintptr_t)&entry->start + (uintptr_t)(intptr_t)entry->start;
        uintptr_t end = start + entry->bytes;

        count++;
        assert_true(entry->bytes > 8 && entry->bytes < 64);
        assert_int_equal(vl_restart(start - 1), start - 1);
        assert_int_equal(vl_restart(start), start);
        assert_int_equal(vl_restart(end), end);
        for (uintptr_t ip = start + 1; ip < end; ip++) {
            assert_int_equal(vl_restart(ip), start);
        }
    }
    assert_int_equal(vl_restart(0), 0);
    assert_int_equal(vl_restart(UINTPTR_MAX), UINTPTR_MAX);
    assert_true(VLI_IS_RESTARTABLE ? count >= 6 : count == 0);
    sim_stop();
}

#if VLI_IS_RESTARTABLE
static void step_without_restart(void *arg)
{
    vl_restart_bounds.bytes = 0;
    step_all(&core_paths, *(uint64_t *)arg);
}

static void storm_without_restart(void *arg)
{
    vl_restart_bounds.bytes = 0;
    for (unsigned i = 0; i < 20; i++) {
        run_traffic(arg);
    }
}

static void missing_restart_is_noticed(void **state)
{
    struct sim_config config = {.ram_bytes = 64 * MIB, .cpus = CPUS, .quiet = true};

    (void)state;
    config.seed = sim_seed(8);
    sim_start(&config);
    assert_true(sim_dies(step_without_restart, &config.seed, "restart: "));
    assert_true(sim_dies(storm_without_restart, NULL, "restart: "));
    sim_stop();
}

#define TEST_OF_RESTART cmocka_unit_test(missing_restart_is_noticed),
#else
#define TEST_OF_RESTART
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(core_stands), cmocka_unit_test(inlined_stands),
        cmocka_unit_test(storm_on_all_cpus), cmocka_unit_test(table_is_exact), TEST_OF_RESTART};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
