/*
 * sim.h - the simulated machine as tests and benches see it.
 *
 *     struct sim_config config = {.ram_bytes = 64 << 20, .cpus = 4, .seed = seed};
 *     sim_start(&config);          RAM is mapped, vl_init() ran, this thread is CPU 0
 *     sim_run_on_cpus(4, fn, arg); fn(arg, cpu) on CPUs 0 … 3, each a thread; returns when all did
 *     sim_stop();                  everything is given back; a machine may be started again
 *
 * A CPU is a thread. Sleeping in the core blocks its CPU. Interrupts are signals to the CPU's
 * thread (sim_irq_*). Failed allocations and interrupts come from the seed, or by a countdown.
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <vellum/vellum.h>

#define SIM_RANGES_MAX 32u

struct sim_config {
    uint64_t ram_bytes; /* one range from 4 MiB up, zone 0; unless ranges are given */
    struct vl_range ranges[SIM_RANGES_MAX];
    size_t range_count;
    unsigned cpus; /* 0 means 1 */
    uint64_t seed; /* of everything random in the machine */
    /* Bytes, whole pages, by which RAM's addresses in the process miss a multiple of 4 MiB. */
    uint64_t ram_offset;
    uint8_t cpu_node[VL_CPUS_MAX];
    uint8_t zone_node[VL_ZONES_MAX];
    /* Distances between nodes; 0: what the core takes where the host says nothing. */
    uint8_t distance[VL_NODES_MAX][VL_NODES_MAX];
    bool quiet; /* drop log lines of VL_LOG_INFO and below */
};

/** sim_start() - a machine with a running core; this thread becomes CPU 0. Aborts on failure. */
void sim_start(const struct sim_config *config);
/** sim_try_start() - the same, returning what vl_init() did; on failure the machine is off. */
VL_MUST_CHECK enum vl_status sim_try_start(const struct sim_config *config);
/** sim_stop() - switch the machine off; every CPU function has returned. */
void sim_stop(void);

/** sim_run_on_cpus() - run @fn on CPUs 0 … @count - 1 at once, CPU 0 being the caller. */
void sim_run_on_cpus(unsigned count, void (*fn)(void *arg, unsigned cpu), void *arg);
/** sim_defer_run() - run what vl_host_defer() queued. Also done at the end of sim_run_on_cpus().
 * Returns: how many were run. */
size_t sim_defer_run(void);

/* ---- randomness: splitmix64, one state a stream ---- */
/** sim_random() - next number of the stream whose state is *@state. */
uint64_t sim_random(uint64_t *state);
/** sim_seed() - the seed for a test: VL_TEST_SEED of the environment, else @fallback; printed. */
uint64_t sim_seed(uint64_t fallback);
/** sim_ops() - how many operations a random test does: VL_TEST_OPS, else @fallback. */
uint64_t sim_ops(uint64_t fallback);

/* ---- failed allocations (VL_EVENTS builds) ---- */
/** sim_fail_after() - the allocation after @count more fails, once. UINT64_MAX: none. */
void sim_fail_after(uint64_t count);
/** sim_fail_from() - all allocations after @count more fail. UINT64_MAX: none. */
void sim_fail_from(uint64_t count);
/** sim_fail_often() - each allocation fails with probability @per_65536 / 65536, from the seed. */
void sim_fail_often(uint32_t per_65536);
/** sim_fail_count() - how many allocations were made to fail since sim_start(). */
uint64_t sim_fail_count(void);
/** sim_alloc_count() - how many were asked about since sim_start(). */
uint64_t sim_alloc_count(void);

/* ---- interrupts ---- */
/** sim_irq_set() - the interrupt handler of all CPUs; NULL for none. */
void sim_irq_set(void (*handler)(unsigned cpu));
/** sim_irq_send() - interrupt a CPU; from any thread. */
void sim_irq_send(unsigned cpu);
/** sim_irq_storm() - until _end, interrupt random CPUs every few @gap_us microseconds. */
void sim_irq_storm(unsigned gap_us);
/** sim_irq_storm_end() - ends it. */
void sim_irq_storm_end(void);
/** sim_irq_count() - interrupts that ran since sim_start(). */
uint64_t sim_irq_count(void);

/** SIM_STEP_ALL - sim_step(): an interrupt after each instruction. */
#define SIM_STEP_ALL UINT64_MAX
/**
 * sim_step() - run @fn(@arg) on this CPU one instruction of the core at a time, with an interrupt
 * after the @at-th of them (from 1), after each (SIM_STEP_ALL), or after none (0).
 * Where interrupts are off it waits until they are on, as ever. ThreadSanitizer does not let
 * instructions be counted: there @fn just runs, and 0 is returned.
 * Returns: how many instructions of the core @fn executed; @at when it came so far.
 */
uint64_t sim_step(void (*fn)(void *arg), void *arg, uint64_t at);

/* ---- time ---- */
/** sim_hold_up() - from now on a CPU is held up for some microseconds, once in @one_in times, where
 * interrupts go off or on, where it leaves a spin lock or reports an event: what others do
 * meanwhile meets it half way. 0: never. Before CPUs run; needs VL_EVENTS. */
void sim_hold_up(unsigned one_in);

/* ---- out of memory ---- */
/** sim_oom_set() - what vl_host_out_of_memory() asks; NULL: nothing can be done. */
void sim_oom_set(bool (*policy)(uint64_t frames));

/* ---- death tests ---- */
/**
 * sim_dies() - does @fn(@arg) panic, with @text in its message or the log before? Runs it in a
 * child process, so that the machine is unharmed; no other CPU may be running.
 */
bool sim_dies(void (*fn)(void *arg), void *arg, const char *text);

/* ---- events ---- */
/** sim_event_dump() - the last events of every CPU, to stderr. */
void sim_event_dump(void);
/** sim_event_count() - events of a kind since sim_start(). */
uint64_t sim_event_count(enum vl_event event);

#endif
