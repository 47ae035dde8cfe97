/*
 * irq.c - interrupts as signals to a CPU's thread.
 *
 * A signal may arrive anywhere: in the core, in the machine, in libc. The handler runs the
 * interrupt at once only if interrupts are on and the interrupted instruction belongs to the core
 * (its code is in a section of its own in builds that test: the Makefile renames it), for there
 * the core's own rules are all that counts. Elsewhere it leaves a mark, and the next restore in
 * the core runs the interrupt. Code of a test that inlines a restartable range is the core's while
 * it is inside the range. A range is restarted whether the interrupt runs or waits: what runs then
 * may be a part of it (a call), and to start anew does no harm. ThreadSanitizer delays signals to
 * places of its own choice, where the instruction says nothing: there every interrupt waits for a
 * restore.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include "machine/sim/machine.h"

#define SIGNAL SIGUSR1

#pragma GCC visibility push(hidden)
extern const char __start_vl_core_text[] __attribute__((weak));
extern const char __stop_vl_core_text[] __attribute__((weak));
#pragma GCC visibility pop

static _Atomic(void (*)(unsigned cpu)) irq_handler;
static _Atomic uint64_t irq_count;
/* Held while a CPU goes off, so that nobody signals a thread that is gone. */
static pthread_mutex_t cpu_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t storm_thread;
static _Atomic uint32_t storm_gap_us;

/* One vl_host_cpu_call() at a time (call_lock); who is told of it and has not run it yet. */
static struct {
    pthread_mutex_t lock;
    void (*fn)(void *arg, unsigned cpu);
    void *arg;
    _Atomic uint32_t wanted[VL_CPUS_MAX];
    _Atomic uint32_t left;
} call = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Runs the call that waits for @cpu, if one does; interrupts are off. */
static void run_call(unsigned cpu)
{
    /* Acquire: pairs with the release in vl_host_cpu_call(). */
    if (atomic_exchange_explicit(&call.wanted[cpu], 0, memory_order_acquire) != 0) {
        call.fn(call.arg, cpu);
        /* Release: pairs with the acquire in vl_host_cpu_call(). */
        atomic_fetch_sub_explicit(&call.left, 1, memory_order_release);
    }
}

/* Tells a CPU that runs, or runs the call in the stead of one that does not. */
static void call_one(unsigned cpu)
{
    pthread_mutex_lock(&cpu_lock);
    /* Release: pairs with the acquire in run_call(). */
    atomic_store_explicit(&call.wanted[cpu], 1, memory_order_release);
    if (cpu == sim_self.cpu || atomic_load(&sim_machine.running[cpu]) == 0) {
        unsigned long flags = vl_host_irq_save();

        run_call(cpu);
        vl_host_irq_restore(flags);
    } else {
        pthread_kill(sim_machine.thread[cpu], SIGNAL);
    }
    pthread_mutex_unlock(&cpu_lock);
}

void sim_irq_poll(void)
{
    unsigned long flags = vl_host_irq_save();

    run_call(sim_self.cpu);
    vl_host_irq_restore(flags);
}

/* While this CPU waits for others it answers their calls itself: ThreadSanitizer keeps signals back
 * from a thread that blocks or spins, and two CPUs would wait for each other for ever. */
static void answer(void)
{
    sim_irq_poll();
    sim_cpu_relax_slow();
}

void vl_host_cpu_call(const struct vl_cpumask *mask, void (*fn)(void *arg, unsigned cpu), void *arg)
{
    while (pthread_mutex_trylock(&call.lock) != 0) {
        answer();
    }
    call.fn = fn;
    call.arg = arg;
    for (unsigned cpu = 0; cpu < sim_machine.config.cpus; cpu++) {
        if ((mask->word[cpu / 64] >> (cpu % 64) & 1u) != 0) {
            atomic_fetch_add_explicit(&call.left, 1, memory_order_relaxed);
            call_one(cpu);
        }
    }
    /* Acquire: pairs with the release in run_call(). */
    while (atomic_load_explicit(&call.left, memory_order_acquire) != 0) {
        answer();
    }
    pthread_mutex_unlock(&call.lock);
}

static void run(void)
{
    void (*handler)(unsigned cpu) = atomic_load_explicit(&irq_handler, memory_order_relaxed);
    int saved_errno = errno;

    sim_self.irq_off = 1;
    sim_self.in_irq = 1;
    atomic_signal_fence(memory_order_seq_cst);
    run_call(sim_self.cpu);
    if (handler != NULL) {
        handler(sim_self.cpu);
        atomic_fetch_add_explicit(&irq_count, 1, memory_order_relaxed);
    }
    atomic_signal_fence(memory_order_seq_cst);
    sim_self.in_irq = 0;
    sim_self.irq_off = 0;
    errno = saved_errno;
}

void sim_irq_run_pending(void)
{
    while (sim_self.irq_pending != 0 && sim_self.irq_off == 0) {
        sim_self.irq_pending = 0;
        run();
    }
}

void sim_irq_here(void)
{
    sim_self.irq_pending = 1;
    sim_irq_run_pending();
}

bool sim_irq_is_core_text(uintptr_t at)
{
    return (at >= (uintptr_t)__start_vl_core_text && at < (uintptr_t)__stop_vl_core_text) ||
           vl_restart(at) != at;
}

#if defined(VLI_TSAN)
static bool enter(ucontext_t *context)
{
    (void)context;
    return false;
}
#else
/* Restarts the range that was interrupted. Returns: was it the core that was interrupted? */
static bool enter(ucontext_t *context)
{
    uintptr_t ip = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];

    context->uc_mcontext.gregs[REG_RIP] = (greg_t)vl_restart(ip);
    return sim_irq_is_core_text(ip);
}
#endif

static void on_signal(int number, siginfo_t *info, void *context)
{
    bool is_core = enter(context);

    (void)number;
    (void)info;
    sim_self.irq_pending = 1;
    if (sim_self.irq_off != 0) {
        return;
    }
    if (is_core) {
        sim_irq_run_pending();
    } else {
        /* A call touches the core alone, whose rules hold wherever interrupts are on. */
        sim_self.irq_off = 1;
        atomic_signal_fence(memory_order_seq_cst);
        run_call(sim_self.cpu);
        atomic_signal_fence(memory_order_seq_cst);
        sim_self.irq_off = 0;
    }
}

void sim_irq_start(void)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};

    atomic_store(&irq_handler, NULL);
    atomic_store(&irq_count, 0);
    sigemptyset(&action.sa_mask);
    sigaction(SIGNAL, &action, NULL);
}

void sim_irq_stop(void)
{
    sim_irq_storm_end();
    atomic_store(&irq_handler, NULL);
}

/* Interrupts stay off: one that waits would come to a CPU that is off, beside a call in its stead.
 */
void sim_irq_cpu_off(unsigned cpu)
{
    (void)vl_host_irq_save();
    pthread_mutex_lock(&cpu_lock);
    atomic_store(&sim_machine.running[cpu], 0);
    run_call(cpu);
    pthread_mutex_unlock(&cpu_lock);
}

void sim_irq_cpu_on(unsigned cpu)
{
    pthread_mutex_lock(&cpu_lock);
    sim_machine.thread[cpu] = pthread_self();
    atomic_store(&sim_machine.running[cpu], 1);
    pthread_mutex_unlock(&cpu_lock);
    vl_host_irq_restore(0);
}

void sim_irq_set(void (*handler)(unsigned cpu))
{
    atomic_store(&irq_handler, handler);
}

void sim_irq_send(unsigned cpu)
{
    pthread_mutex_lock(&cpu_lock);
    if (atomic_load(&sim_machine.running[cpu]) != 0) {
        pthread_kill(sim_machine.thread[cpu], SIGNAL);
    }
    pthread_mutex_unlock(&cpu_lock);
}

uint64_t sim_irq_count(void)
{
    return atomic_load_explicit(&irq_count, memory_order_relaxed);
}

static void *storm(void *arg)
{
    uint64_t random = sim_machine.config.seed ^ 0x1122334455667788u;
    uint32_t gap_us;

    (void)arg;
    while ((gap_us = atomic_load(&storm_gap_us)) != 0) {
        struct timespec gap = {.tv_nsec = (long)(sim_random(&random) % (2000u * gap_us))};

        nanosleep(&gap, NULL);
        sim_irq_send((unsigned)(sim_random(&random) % sim_machine.config.cpus));
    }
    return NULL;
}

void sim_irq_storm(unsigned gap_us)
{
    sigset_t all;
    sigset_t before;

    sim_irq_storm_end();
    atomic_store(&storm_gap_us, gap_us);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&storm_thread, NULL, storm, NULL) != 0) {
        abort();
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void sim_irq_storm_end(void)
{
    if (atomic_exchange(&storm_gap_us, 0) != 0) {
        pthread_join(storm_thread, NULL);
    }
}
