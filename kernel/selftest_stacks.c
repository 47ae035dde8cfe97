/*
 * selftest_stacks.c - does every interrupt restart the range that it came into?
 *
 * Goal: per-CPU stacks of pointers (arch/restart.h) lose nothing and give nothing out twice, while
 * threads are interrupted, preempted and moved anywhere. Method: tokens, each of which says who has
 * it. Threads pop one, push it again, perhaps on another CPU, and exchange whole stacks; on every
 * CPU a timer does so too, in its interrupt, every few microseconds. In the end each token is on
 * one stack, or where its owner says.
 *
 * vellum.selftest=no-restart takes the restart out: the same must then fail, which shows that this
 * test can.
 *
 * The stacks' words are the last of the core's area, which its struct does not reach.
 */
#include "kernel/selftest_stacks.h"
#include <vellum/vellum.h>
#include "arch/restart.h"
#include "core/base/assert.h"
#include "kernel/cpu/cpu.h"
#include "kernel/lib/mem.h"
#include "kernel/lib/panic.h"
#include "kernel/sched/thread.h"
#include "kernel/sched/timer.h"

#define PLACE   (VL_PERCPU_BYTES - 64u)
#define INDEX   2u
#define THREADS 12u
#define ROUNDS  100000u
#define ORDER   5u /* of the stacks' memory: two for each CPU, one for each thread */
#define SLOTS   (VLI_STACK_BYTES / 8)
#define EACH    20u /* tokens on each stack in the beginning */
#define HELD    8u
#define GAP_NS  15000u
#define TOKENS  ((VL_CPUS_MAX * 2 + THREADS) * EACH)
_Static_assert(sizeof(struct vli_percpu) <= PLACE, "the words are nobody else's");
_Static_assert((VL_CPUS_MAX * 2 + THREADS) * VLI_STACK_BYTES <= VL_PAGE_SIZE << ORDER, "ORDER");

enum owner { OWNER_STACK, OWNER_THREAD, OWNER_IRQ };

static _Atomic uint8_t owner[TOKENS + 1]; /* enum owner; of token 1 and up */
static unsigned token_count;
static struct vl_pfn memory;
static _Atomic bool timers_on;
static struct ticker {
    struct timer timer; /* first: its callback is given this */
    uint64_t random;
    uintptr_t spare;
    uintptr_t held[HELD];
    unsigned count;
} tickers[VL_CPUS_MAX];
static struct {
    uintptr_t spare;
    uintptr_t held[HELD];
    unsigned count;
} threads[THREADS];

/* A token passes from one owner to another; it is an error if it was not the first one's. */
static void pass(uintptr_t token, enum owner from, enum owner to)
{
    if (token == 0 || token > token_count || atomic_exchange(&owner[token], to) != from) {
        panic("selftest: stacks: token %lu has two owners", (unsigned long)token);
    }
}

static uintptr_t pop(void)
{
    uintptr_t token = vli_stack_pop(vli_percpu_pin(), PLACE, INDEX);

    vli_percpu_unpin();
    return token;
}

static bool push(uintptr_t token)
{
    bool is_done = vli_stack_push(vli_percpu_pin(), PLACE, INDEX, token);

    vli_percpu_unpin();
    return is_done;
}

static uintptr_t swap(uintptr_t top)
{
    uintptr_t old = vli_stack_swap(vli_percpu_pin(), PLACE, INDEX, top);

    vli_percpu_unpin();
    return old;
}

/* Takes up to @wanted tokens, then gives some back; what is on top is rarely what was before. */
static void pop_some(uintptr_t *held, unsigned *count, unsigned wanted, enum owner who)
{
    while (wanted-- > 0 && *count < HELD) {
        uintptr_t token = pop();

        if (token == 0) {
            return;
        }
        pass(token, OWNER_STACK, who);
        held[(*count)++] = token;
    }
}

static void push_some(uintptr_t *held, unsigned *count, unsigned wanted, enum owner who)
{
    while (wanted-- > 0 && *count > 0) {
        uintptr_t token = held[*count - 1];

        pass(token, who, OWNER_STACK);
        if (!push(token)) {
            pass(token, OWNER_STACK, who);
            return;
        }
        (*count)--;
    }
}

static unsigned next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(*state >> 40);
}

/* In the interrupt. */
static void tick(struct timer *timer)
{
    struct ticker *ticker = vli_container_of(timer, struct ticker, timer);
    unsigned random = next_random(&ticker->random);

    pop_some(ticker->held, &ticker->count, random % 3, OWNER_IRQ);
    if (random / 4 % 4 == 0) {
        ticker->spare = swap(ticker->spare);
    }
    push_some(ticker->held, &ticker->count, random / 16 % 3, OWNER_IRQ);
    if (atomic_load(&timers_on)) {
        timer_arm(timer, clock_ns() + GAP_NS);
    }
}

static void start_here(void *arg, unsigned cpu)
{
    (void)arg;
    timer_arm(&tickers[cpu].timer, clock_ns() + GAP_NS);
}

static uintptr_t *word_of(unsigned cpu)
{
    return (uintptr_t *)(void *)(cpu_of(cpu)->core_area + PLACE) + INDEX;
}

/* A stack with its first tokens. Returns: its top. */
static uintptr_t make_stack(unsigned number)
{
    uintptr_t *word = (uintptr_t *)vl_frame_to_virt(memory) + number * SLOTS + 1;

    for (unsigned i = 0; i < EACH; i++) {
        *word++ = ++token_count;
    }
    return (uintptr_t)word;
}

void selftest_stacks_begin(void)
{
    struct vl_cpumask all;
    unsigned number = 0;

    if (vl_frame_alloc(ORDER, VL_WAIT, &memory) != VL_OK) {
        panic("selftest: stacks: no memory");
    }
    memset(vl_frame_to_virt(memory), 0, VL_PAGE_SIZE << ORDER);
    for (unsigned cpu = 0; cpu < cpu_count(); cpu++) {
        *word_of(cpu) = make_stack(number++);
        tickers[cpu].spare = make_stack(number++);
        tickers[cpu].random = cpu;
        timer_init(&tickers[cpu].timer, tick);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        threads[i].spare = make_stack(number++);
    }
    atomic_store(&timers_on, true);
    memset(&all, 0xff, sizeof(all));
    vl_host_cpu_call(&all, start_here, NULL);
}

void selftest_stacks_traffic(unsigned number)
{
    uint64_t random = number;

    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned now = next_random(&random);

        pop_some(threads[number].held, &threads[number].count, now % 4, OWNER_THREAD);
        push_some(threads[number].held, &threads[number].count, now / 4 % 4, OWNER_THREAD);
        if (i % 32 == 0) {
            threads[number].spare = swap(threads[number].spare);
        }
        if (i % 512 == number) {
            thread_yield();
        }
    }
}

static void count_stack(uintptr_t top)
{
    for (uintptr_t *at = (uintptr_t *)top - 1; *at != 0; at--) {
        /* To an owner of its own, so that a second one of it is an error. */
        pass(*at, OWNER_STACK, OWNER_THREAD);
    }
}

void selftest_stacks_end(void)
{
    atomic_store(&timers_on, false);
    for (unsigned cpu = 0; cpu < cpu_count(); cpu++) {
        (void)timer_cancel(&tickers[cpu].timer);
        (void)timer_cancel(&tickers[cpu].timer); /* one that ran meanwhile may be armed again */
        count_stack(*word_of(cpu));
        count_stack(tickers[cpu].spare);
        *word_of(cpu) = 0;
    }
    for (unsigned i = 0; i < THREADS; i++) {
        count_stack(threads[i].spare);
    }
    for (unsigned token = 1; token <= token_count; token++) {
        if (atomic_load(&owner[token]) == OWNER_STACK) {
            panic("selftest: stacks: token %u is lost", token);
        }
    }
    vl_frame_free(memory, ORDER);
}
