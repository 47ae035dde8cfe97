/*
 * host.c - the host contract on the simulated machine: memory, CPUs as threads, sleeping over
 * futexes, deferred work, death tests.
 *
 * RAM is one anonymous mapping of [0, end of the last range), reserved and not committed, so holes
 * cost nothing. The caller of sim_start() is CPU 0; the other CPUs exist while sim_run_on_cpus()
 * runs. Deferred work waits in a list that any context may push to without a lock and that
 * sim_defer_run() takes whole.
 */
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "machine/sim/machine.h"
#include "machine/sim/mmu_state.h"

/* Largest block of frames. */
#define RAM_ALIGN (VL_PAGE_SIZE << VL_ORDER_MAX)

_Static_assert(sizeof(sim_percpu[0]) == VL_PERCPU_BYTES, "host_inline.h names the number");

_Thread_local struct sim_self sim_self;
unsigned char *sim_ram_base;
static void *ram_mapping; /* it, and what was left out for its alignment */
static size_t ram_mapping_bytes;
_Alignas(4096) unsigned char sim_percpu[VL_CPUS_MAX][VL_PERCPU_BYTES];
struct sim_machine sim_machine;

static _Alignas(4096) unsigned char bootstrap[65536];
static _Atomic(struct vl_work *) deferred;
static bool (*oom_policy)(uint64_t frames);
/* In the child of a death test: where the log and the message of the panic go; otherwise -1. */
static int panic_pipe = -1;

static void tell_parent(const char *text)
{
    ssize_t ignored = write(panic_pipe, text, strlen(text));

    ignored += write(panic_pipe, "\n", 1);
    (void)ignored;
}

void vl_host_panic(const char *message)
{
    if (panic_pipe >= 0) {
        tell_parent(message);
        _exit(3);
    }
    fprintf(stderr, "panic on CPU %u: %s\n", sim_self.cpu, message);
    fprintf(stderr, "seed %llu\n", (unsigned long long)sim_machine.config.seed);
    sim_event_dump();
    abort();
}

void vl_host_log(enum vl_log_level level, const char *line)
{
    if (panic_pipe >= 0) {
        tell_parent(line);
    } else if (level < VL_LOG_INFO || !sim_machine.config.quiet) {
        /* In TAP output a line of this form is a comment. */
        fprintf(stderr, "# %s\n", line);
    }
}

size_t vl_host_memory_ranges(struct vl_range *out, size_t max)
{
    size_t count = sim_machine.config.range_count;

    for (size_t i = 0; i < count && i < max; i++) {
        out[i] = sim_machine.config.ranges[i];
    }
    return count;
}

void *vl_host_bootstrap(size_t *out_bytes)
{
    *out_bytes = sizeof(bootstrap);
    return bootstrap;
}

unsigned vl_host_cpu_count(void)
{
    return sim_machine.config.cpus;
}

unsigned vl_host_cpu_node(unsigned cpu)
{
    return sim_machine.config.cpu_node[cpu];
}

unsigned vl_host_zone_node(unsigned zone)
{
    return sim_machine.config.zone_node[zone];
}

unsigned vl_host_node_distance(unsigned from, unsigned to)
{
    unsigned given = sim_machine.config.distance[from % VL_NODES_MAX][to % VL_NODES_MAX];

    return given != 0 ? given : from == to ? 10 : 20;
}

uint64_t vl_host_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void sim_cpu_relax_slow(void)
{
    static _Thread_local unsigned spins;

    if (++spins % 64 == 0) {
        sched_yield();
    }
}

/* ThreadSanitizer holds a signal back until the thread leaves a raw system call: there a sleep ends
 * early now and then, so that no other CPU waits for ever for what the signal asked. */
#if defined(VLI_TSAN)
#define WAIT_NS_MAX 1000000u
#else
#define WAIT_NS_MAX UINT64_MAX
#endif

enum vl_status vl_host_wait(const _Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ns)
{
    uint64_t ns = timeout_ns < WAIT_NS_MAX ? timeout_ns : WAIT_NS_MAX;
    struct timespec timeout = {.tv_sec = (time_t)(ns / 1000000000u),
                               .tv_nsec = (long)(ns % 1000000000u)};
    long result = syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected,
                          ns == UINT64_MAX ? NULL : &timeout, NULL, 0);
    bool is_late = result != 0 && errno == ETIMEDOUT;

    sim_irq_poll();
    return is_late && ns == timeout_ns ? VL_ETIMEDOUT : VL_OK;
}

void vl_host_wake(const _Atomic uint32_t *word, unsigned count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

bool vl_host_may_sleep(void)
{
    return sim_self.in_irq == 0 && sim_self.irq_off == 0 && sim_self.preempt_off == 0;
}

void vl_host_defer(struct vl_work *work)
{
    struct vl_work *head = atomic_load_explicit(&deferred, memory_order_relaxed);

    do {
        work->next = head;
        /* Release: pairs with the acquire in sim_defer_run(). */
    } while (!atomic_compare_exchange_weak_explicit(&deferred, &head, work, memory_order_release,
                                                    memory_order_relaxed));
}

size_t sim_defer_run(void)
{
    size_t count = 0;
    struct vl_work *work;

    /* Acquire: pairs with the release in vl_host_defer(). */
    while ((work = atomic_exchange_explicit(&deferred, NULL, memory_order_acquire)) != NULL) {
        while (work != NULL) {
            struct vl_work *next = work->next;

            work->run(work);
            work = next;
            count++;
        }
    }
    return count;
}

void sim_oom_set(bool (*policy)(uint64_t frames))
{
    oom_policy = policy;
}

bool vl_host_out_of_memory(uint64_t frames)
{
    return oom_policy != NULL && oom_policy(frames);
}

/* ------------------------------------------------------------------------------- on and off */

/* Completes the configuration: CPUs, ranges, the end of RAM. */
static void configure(const struct sim_config *config)
{
    struct sim_config *own = &sim_machine.config;

    *own = *config;
    own->cpus = own->cpus == 0 ? 1 : own->cpus;
    if (own->cpus > VL_CPUS_MAX) {
        fprintf(stderr, "sim: %u CPUs, %u at most\n", own->cpus, VL_CPUS_MAX);
        abort();
    }
    if (own->range_count == 0) {
        uint64_t start = 4u << 20;

        own->ranges[0] = (struct vl_range){.start = {start}, .end = {start + own->ram_bytes}};
        own->range_count = 1;
    }
    sim_machine.ram_end = 0;
    for (size_t i = 0; i < own->range_count; i++) {
        if (own->ranges[i].end.a > sim_machine.ram_end) {
            sim_machine.ram_end = own->ranges[i].end.a;
        }
    }
}

/* RAM stands at a multiple of the largest alignment, and so keeps that of physical addresses, or as
 * far beside one as the test wants it. */
static void map_ram(void)
{
    size_t bytes = sim_machine.ram_end + RAM_ALIGN + sim_machine.config.ram_offset;
    unsigned char *ram = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (ram == MAP_FAILED) {
        perror("sim: RAM");
        abort();
    }
    ram_mapping = ram;
    ram_mapping_bytes = bytes;
    ram += (RAM_ALIGN - (uintptr_t)ram % RAM_ALIGN) % RAM_ALIGN + sim_machine.config.ram_offset;
    madvise(ram, sim_machine.ram_end, MADV_HUGEPAGE);
    sim_ram_base = ram;
}

enum vl_status sim_try_start(const struct sim_config *config)
{
    enum vl_status status;

    if (sim_machine.is_on) {
        /* A test that failed left it so; the next one shall have its say. */
        fprintf(stderr, "# sim: was still on\n");
        sim_stop();
    }
    configure(config);
    map_ram();
    memset(sim_percpu, 0, sizeof(sim_percpu));
    memset(bootstrap, 0, sizeof(bootstrap));
    memset(&sim_self, 0, sizeof(sim_self));
    atomic_store_explicit(&deferred, NULL, memory_order_relaxed);
    oom_policy = NULL;
    sim_machine.is_on = true;
    sim_machine.thread[0] = pthread_self();
    atomic_store(&sim_machine.running[0], 1);
    sim_inject_start();
    sim_event_start();
    sim_irq_start();
    sim_mmu_start();
    status = vl_init();
    if (status != VL_OK) {
        sim_stop();
        return status;
    }
    for (unsigned cpu = 1; cpu < sim_machine.config.cpus; cpu++) {
        sim_self.cpu = cpu;
        vl_cpu_online(cpu);
    }
    sim_self.cpu = 0;
    return VL_OK;
}

void sim_start(const struct sim_config *config)
{
    enum vl_status status = sim_try_start(config);

    if (status != VL_OK) {
        fprintf(stderr, "sim: vl_init() returned %d\n", (int)status);
        abort();
    }
}

void sim_stop(void)
{
    sim_irq_stop();
    sim_mmu_stop();
    munmap(ram_mapping, ram_mapping_bytes);
    sim_ram_base = NULL;
    atomic_store(&sim_machine.running[0], 0);
    sim_machine.is_on = false;
}

/* ------------------------------------------------------------------------------ CPUs at work */

struct cpu_job {
    void (*fn)(void *arg, unsigned cpu);
    void *arg;
    unsigned cpu;
    pthread_barrier_t *start;
};

static void cpu_work(const struct cpu_job *job)
{
    pthread_barrier_wait(job->start);
    job->fn(job->arg, job->cpu);
}

static void *cpu_thread(void *arg)
{
    const struct cpu_job *job = arg;

    memset(&sim_self, 0, sizeof(sim_self));
    sim_self.cpu = job->cpu;
    sim_irq_cpu_on(job->cpu);
    cpu_work(job);
    sim_irq_run_pending();
    sim_irq_cpu_off(job->cpu);
    return NULL;
}

void sim_run_on_cpus(unsigned count, void (*fn)(void *arg, unsigned cpu), void *arg)
{
    struct cpu_job jobs[VL_CPUS_MAX];
    pthread_t threads[VL_CPUS_MAX];
    pthread_barrier_t start;

    if (count == 0 || count > sim_machine.config.cpus) {
        fprintf(stderr, "sim: %u CPUs asked for, there are %u\n", count, sim_machine.config.cpus);
        abort();
    }
    pthread_barrier_init(&start, NULL, count);
    for (unsigned cpu = 0; cpu < count; cpu++) {
        jobs[cpu] = (struct cpu_job){fn, arg, cpu, &start};
    }
    for (unsigned cpu = 1; cpu < count; cpu++) {
        if (pthread_create(&threads[cpu], NULL, cpu_thread, &jobs[cpu]) != 0) {
            perror("sim: thread");
            abort();
        }
    }
    cpu_work(&jobs[0]);
    sim_irq_cpu_off(0);
    for (unsigned cpu = 1; cpu < count; cpu++) {
        pthread_join(threads[cpu], NULL);
    }
    sim_irq_cpu_on(0);
    pthread_barrier_destroy(&start);
    sim_defer_run();
}

/* -------------------------------------------------------------------------------- death tests */

bool sim_dies(void (*fn)(void *arg), void *arg, const char *text)
{
    char message[16384] = "";
    size_t length = 0;
    ssize_t got;
    int ends[2];
    int status;
    pid_t child;

    fflush(NULL);
    if (pipe(ends) != 0 || (child = fork()) < 0) {
        perror("sim: death test");
        abort();
    }
    if (child == 0) {
        close(ends[0]);
        panic_pipe = ends[1];
        fn(arg);
        _exit(0);
    }
    close(ends[1]);
    while (length < sizeof(message) - 1 &&
           (got = read(ends[0], message + length, sizeof(message) - 1 - length)) > 0) {
        length += (size_t)got;
    }
    close(ends[0]);
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 3 && strstr(message, text) != NULL) {
        return true;
    }
    fprintf(stderr, "# expected a panic with \"%s\"; status 0x%x, message \"%s\"\n", text,
            (unsigned)status, message);
    return false;
}

/* -------------------------------------------------------------------- randomness and settings */

uint64_t sim_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t from_environment(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);

    return text != NULL ? strtoull(text, NULL, 0) : fallback;
}

uint64_t sim_seed(uint64_t fallback)
{
    uint64_t seed = from_environment("VL_TEST_SEED", fallback);

    fprintf(stderr, "# seed %llu\n", (unsigned long long)seed);
    return seed;
}

uint64_t sim_ops(uint64_t fallback)
{
    return from_environment("VL_TEST_OPS", fallback);
}
