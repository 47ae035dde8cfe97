/*
 * event.c - what the core reported lately, and allocations that are made to fail.
 *
 * Each CPU has a ring of its last 1,000 events, printed when the core panics. A CPU writes its own
 * ring only; the dump reads the others while they may run, so an entry of theirs may be torn.
 */
#include <sched.h>
#include <stdio.h>
#include <time.h>
#include <string.h>
#include "machine/sim/machine.h"
#include "machine/sim/mmu_state.h"

#define RING 1000u

struct event_entry {
    _Atomic uint64_t a;
    _Atomic uint64_t b;
    _Atomic uint32_t kind;
};

static struct {
    _Atomic uint64_t count;
    struct event_entry entry[RING];
} rings[VL_CPUS_MAX];

static _Atomic uint64_t counts[VL_EVENT_TABLE_FREE + 1];

static _Atomic uint64_t fail_countdown;
static _Atomic uint64_t fail_from = UINT64_MAX; /* from this one on all fail */
static _Atomic uint32_t fail_per_65536;
static _Atomic uint64_t fail_made;
static _Atomic uint64_t fail_asked;
static _Atomic uint64_t fail_random[VL_CPUS_MAX];

void vl_host_event(enum vl_event event, uint64_t a, uint64_t b)
{
    uint64_t at = atomic_fetch_add_explicit(&rings[sim_self.cpu].count, 1, memory_order_relaxed);
    struct event_entry *entry = &rings[sim_self.cpu].entry[at % RING];

    atomic_store_explicit(&entry->kind, (uint32_t)event, memory_order_relaxed);
    atomic_store_explicit(&entry->a, a, memory_order_relaxed);
    atomic_store_explicit(&entry->b, b, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts[event], 1, memory_order_relaxed);
    sim_check_event(event, a, b);
    sim_hold_up_maybe();
}

/* ---------------------------------------------------------------------------- CPUs held up */

unsigned sim_hold_up_one_in;

void sim_hold_up(unsigned one_in)
{
    sim_hold_up_one_in = one_in;
}

void sim_hold_up_slow(void)
{
    static _Thread_local uint64_t random;
    struct timespec while_ns = {.tv_nsec = 1000};
    uint64_t number;

    random += random == 0 ? sim_machine.config.seed + sim_self.cpu : 0;
    number = sim_random(&random);
    if (number % sim_hold_up_one_in != 0) {
        return;
    }
    if (number >> 62 == 0) {
        /* Mostly as short as Linux can, now and then long enough for a whole operation. */
        while_ns.tv_nsec = number >> 58 == 0 ? 500000 : 1000;
        nanosleep(&while_ns, NULL);
    } else {
        sched_yield();
    }
}

void sim_event_start(void)
{
    sim_hold_up(0);
    memset(rings, 0, sizeof(rings));
    memset(counts, 0, sizeof(counts));
}

uint64_t sim_event_count(enum vl_event event)
{
    return atomic_load_explicit(&counts[event], memory_order_relaxed);
}

void sim_event_dump(void)
{
    static const char *const names[] = {"frame alloc", "frame free", "pte set",
                                        "pte clear",   "flush",      "table free"};

    for (unsigned cpu = 0; cpu < sim_machine.config.cpus; cpu++) {
        uint64_t end = atomic_load_explicit(&rings[cpu].count, memory_order_relaxed);
        uint64_t at = end > RING ? end - RING : 0;

        for (; at < end; at++) {
            const struct event_entry *entry = &rings[cpu].entry[at % RING];

            fprintf(stderr, "cpu %u event %llu: %s %llx %llx\n", cpu, (unsigned long long)at,
                    names[entry->kind], (unsigned long long)entry->a, (unsigned long long)entry->b);
        }
    }
}

/* -------------------------------------------------------------------------- failed allocations */

void sim_inject_start(void)
{
    atomic_store(&fail_countdown, UINT64_MAX);
    atomic_store(&fail_from, UINT64_MAX);
    atomic_store(&fail_per_65536, 0);
    atomic_store(&fail_made, 0);
    atomic_store(&fail_asked, 0);
    for (unsigned cpu = 0; cpu < VL_CPUS_MAX; cpu++) {
        atomic_store(&fail_random[cpu], sim_machine.config.seed + cpu * 0x5851f42d4c957f2du);
    }
}

void sim_fail_after(uint64_t count)
{
    atomic_store(&fail_countdown, count);
}

void sim_fail_from(uint64_t count)
{
    uint64_t asked = atomic_load(&fail_asked);

    atomic_store(&fail_from, count == UINT64_MAX ? UINT64_MAX : asked + count);
}

void sim_fail_often(uint32_t per_65536)
{
    atomic_store(&fail_per_65536, per_65536);
}

uint64_t sim_fail_count(void)
{
    return atomic_load(&fail_made);
}

uint64_t sim_alloc_count(void)
{
    return atomic_load(&fail_asked);
}

/* One step of the countdown; true for the one request that takes it from 0 to none. */
static bool countdown_hits(void)
{
    uint64_t left = atomic_load_explicit(&fail_countdown, memory_order_relaxed);

    while (left != UINT64_MAX) {
        if (atomic_compare_exchange_weak_explicit(&fail_countdown, &left, left - 1,
                                                  memory_order_relaxed, memory_order_relaxed)) {
            return left == 0;
        }
    }
    return false;
}

bool vl_host_alloc_fails(void)
{
    uint32_t often = atomic_load_explicit(&fail_per_65536, memory_order_relaxed);
    bool fails = countdown_hits();

    if (atomic_fetch_add_explicit(&fail_asked, 1, memory_order_relaxed) >=
        atomic_load_explicit(&fail_from, memory_order_relaxed)) {
        fails = true;
    }
    if (!fails && often != 0) {
        /* An interrupt of the same CPU may draw the same number: no harm. */
        uint64_t state = atomic_load_explicit(&fail_random[sim_self.cpu], memory_order_relaxed);

        fails = (sim_random(&state) & 0xffffu) < often;
        atomic_store_explicit(&fail_random[sim_self.cpu], state, memory_order_relaxed);
    }
    if (fails) {
        atomic_fetch_add_explicit(&fail_made, 1, memory_order_relaxed);
    }
    return fails;
}
