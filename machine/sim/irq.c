/*
 * irq.c - interrupts as signals to a CPU's thread.
 *
 * A signal may arrive anywhere: in the core, in the machine, in libc. The handler runs the
 * interrupt at once only if interrupts are on and the interrupted instruction belongs to the core
 * (its code is in a section of its own in builds that test: the Makefile renames it), for there
 * the core's own rules are all that counts. Elsewhere it leaves a mark, and the next restore in
 * the core runs the interrupt. ThreadSanitizer delays signals to places of its own choice, where
 * the instruction says nothing: there every interrupt waits for a restore.
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

static void run(void)
{
    void (*handler)(unsigned cpu) = atomic_load_explicit(&irq_handler, memory_order_relaxed);
    int saved_errno = errno;

    sim_self.irq_off = 1;
    sim_self.in_irq = 1;
    atomic_signal_fence(memory_order_seq_cst);
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

#if defined(VLI_TSAN)
static bool is_core(const ucontext_t *context)
{
    (void)context;
    return false;
}
#else
static bool is_core(const ucontext_t *context)
{
    uintptr_t at = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];

    return at >= (uintptr_t)__start_vl_core_text && at < (uintptr_t)__stop_vl_core_text;
}
#endif

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    sim_self.irq_pending = 1;
    if (sim_self.irq_off == 0 && is_core(context)) {
        sim_irq_run_pending();
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

void sim_irq_cpu_off(unsigned cpu)
{
    pthread_mutex_lock(&cpu_lock);
    atomic_store(&sim_machine.running[cpu], 0);
    pthread_mutex_unlock(&cpu_lock);
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
