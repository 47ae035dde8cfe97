/*
 * sched.c - which thread runs: one queue a CPU, fair by virtual run time.
 *
 * A queue holds the threads that are ready and not running, in the order of their virtual run time
 * (CPU time weighted by niceness); the first one runs next. A thread that wakes is placed on an
 * idle CPU if there is one, its last CPU preferred; a CPU that runs dry takes a thread from the
 * others.
 *
 * Locks: each queue has a spin lock, taken with interrupts off, and held across the switch of
 * stacks: the thread that was switched to releases it (thread_first_run() for new ones). So whoever
 * holds a thread's queue's lock and finds on_queue == 0 knows that its registers are saved. A
 * queue's owner may take one more, by trying only, to steal.
 *
 * Sleep and wake: a sleeper sets its state, checks its condition, calls schedule(), which takes it
 * off the queue under the lock if the state still says so. A waker takes the state from SLEEPING to
 * WAKING by compare-and-exchange, so that there is one waker; under the lock it finds the thread
 * either still on the queue (then it just goes on running) or off it, and puts it on one.
 */
#include "kernel/sched/sched.h"
#include <vellum/vellum.h>
#include "core/base/assert.h"
#include "core/base/spinlock.h"
#include "kernel/cpu/entry.h"
#include "kernel/cpu/fpu_switch.h"
#include "kernel/cpu/io.h"
#include "kernel/cpu/irq.h"
#include "kernel/cpu/smp.h"
#include "kernel/lib/printk.h"
#include "kernel/sched/lock.h"
#include "kernel/sched/stack.h"
#include "kernel/sched/thread_life.h"
#include "kernel/sched/timer.h"
#include "kernel/sched/timer_queue.h"

/* A waking thread may lag so much behind the others: it gets the CPU soon, not for long. */
#define WAKE_BONUS_NS 3000000u
/* A waking thread takes the CPU at once when it lags at least so much. */
#define WAKE_PREEMPT_NS 1000000u

struct run_queue {
    struct vli_spinlock lock;
    uint32_t ready_count;
    struct vli_list ready;
    uint64_t min_vruntime; /* never goes back */
};

/* Each run queue has its cache line: others look into it when they wake and steal. */
static VLI_ALIGNED(64) struct {
    VLI_ALIGNED(64) struct run_queue queue;
} queues[VL_CPUS_MAX];

#ifdef VL_DEBUG
volatile unsigned sched_wake_window;
#endif

_Static_assert(offsetof(struct thread, vl) == 0, "vl_host_thread() returns it");
_Static_assert(offsetof(struct thread, work) == 24 && offsetof(struct thread, space) == 48,
               "entry.S relies on it");
_Static_assert(offsetof(struct cpu, self) == GS_SELF &&
                   offsetof(struct cpu, current) == GS_CURRENT &&
                   offsetof(struct cpu, kernel_stack) == GS_KERNEL_STACK &&
                   offsetof(struct cpu, user_stack) == GS_USER_STACK &&
                   offsetof(struct cpu, preempt) == GS_PREEMPT &&
                   offsetof(struct cpu, id) == GS_ID &&
                   offsetof(struct cpu, irq_depth) == GS_IRQ_DEPTH &&
                   offsetof(struct cpu, core_area) == GS_CORE_AREA,
               "gs.h says so");

static inline struct run_queue *queue_of(unsigned cpu)
{
    return &queues[cpu].queue;
}

static inline void queue_lock(struct run_queue *queue)
{
    vli_rank_push(KRANK_RUN);
    vli_spin_raw_lock(&queue->lock);
}

static inline void queue_unlock(struct run_queue *queue)
{
    vli_spin_raw_unlock(&queue->lock);
    vli_rank_pop(KRANK_RUN);
}

/* Lock the queue that @thread belongs to, which may change until it is locked. Interrupts off. */
static struct run_queue *queue_lock_of(struct thread *thread)
{
    for (;;) {
        uint32_t cpu = *(volatile uint32_t *)&thread->cpu;
        struct run_queue *queue = queue_of(cpu);

        queue_lock(queue);
        if (VLI_LIKELY(thread->cpu == cpu)) {
            return queue;
        }
        queue_unlock(queue);
    }
}

/* --------------------------------------------------------------------------------- the queue */

static void enqueue(struct run_queue *queue, struct thread *thread)
{
    struct vli_list *at = queue->ready.prev;

    while (at != &queue->ready &&
           vli_list_entry(at, struct thread, run_link)->vruntime > thread->vruntime) {
        at = at->prev;
    }
    vli_list_insert_after(at, &thread->run_link);
    queue->ready_count++;
}

static void dequeue(struct run_queue *queue, struct thread *thread)
{
    vli_list_remove(&thread->run_link);
    queue->ready_count--;
}

static inline struct thread *first_ready(struct run_queue *queue)
{
    return vli_list_first(&queue->ready, struct thread, run_link);
}

static inline bool is_allowed(const struct thread *thread, unsigned cpu)
{
    return (thread->affinity.word[cpu / 64] >> (cpu % 64) & 1) != 0;
}

/* CPU time weighted: each step of niceness counts a quarter more or less. */
static uint64_t weighted(uint64_t ns, int32_t nice)
{
    for (; nice > 0; nice--) {
        ns += ns / 4;
    }
    for (; nice < 0; nice++) {
        ns -= ns / 5;
    }
    return ns;
}

static inline void account(struct run_queue *queue, struct thread *thread, uint64_t now)
{
    uint64_t ns = now - thread->run_start_ns;

    thread->run_start_ns = now;
    thread->run_ns += ns;
    thread->vruntime += VLI_LIKELY(thread->nice == 0) ? ns : weighted(ns, thread->nice);
    if (thread->vruntime > queue->min_vruntime &&
        (queue->ready_count == 0 || first_ready(queue)->vruntime >= thread->vruntime)) {
        queue->min_vruntime = thread->vruntime;
    }
}

static void place(struct run_queue *queue, struct thread *thread)
{
    uint64_t least = queue->min_vruntime;

    least = least > WAKE_BONUS_NS ? least - WAKE_BONUS_NS : 0;
    if (thread->vruntime < least) {
        thread->vruntime = least;
    }
}

/* ------------------------------------------------------------------------------- the switch */

static inline void clear_resched(struct thread *thread)
{
    if (VLI_UNLIKELY((atomic_load_explicit(&thread->work, memory_order_relaxed) & WORK_RESCHED) !=
                     0)) {
        atomic_fetch_and_explicit(&thread->work, ~WORK_RESCHED, memory_order_relaxed);
    }
    cpu_this()->preempt |= PREEMPT_NO_RESCHED;
}

void sched_set_resched(void)
{
    atomic_fetch_or_explicit(&current()->work, WORK_RESCHED, memory_order_relaxed);
    cpu_this()->preempt &= ~PREEMPT_NO_RESCHED;
}

static void wake_on_chosen(struct thread *thread);

static struct thread *steal_from(struct run_queue *victim, unsigned to_cpu)
{
    struct thread *found = NULL;
    struct vli_list *at;

    if (victim->ready_count == 0 || !vli_spin_raw_try_lock(&victim->lock)) {
        return NULL;
    }
    vli_list_each (at, &victim->ready) {
        struct thread *thread = vli_list_entry(at, struct thread, run_link);

        if (is_allowed(thread, to_cpu)) {
            dequeue(victim, thread);
            thread->vruntime -=
                victim->min_vruntime < thread->vruntime ? victim->min_vruntime : thread->vruntime;
            thread->vruntime += queue_of(to_cpu)->min_vruntime;
            thread->cpu = to_cpu;
            found = thread;
            break;
        }
    }
    vli_spin_raw_unlock(&victim->lock);
    return found;
}

static struct thread *steal(unsigned cpu)
{
    unsigned count = cpu_count();

    for (unsigned i = 1; i < count; i++) {
        struct thread *thread = steal_from(queue_of((cpu + i) % count), cpu);

        if (thread != NULL) {
            return thread;
        }
    }
    return NULL;
}

/* Who runs next; taken off the queue. */
static struct thread *pick(struct cpu *cpu, struct run_queue *queue)
{
    struct thread *next;

    if (queue->ready_count != 0) {
        next = first_ready(queue);
        dequeue(queue, next);
        return next;
    }
    next = cpu_count() > 1 ? steal(cpu->id) : NULL;
    return next != NULL ? next : cpu->idle;
}

/* What user threads need from the CPU beyond registers: page table, FPU, segment bases. */
static inline void load_user_state(struct cpu *cpu, struct thread *next)
{
    if (next->space != cpu->space) {
        vl_space_switch(next->space);
        cpu->space = next->space;
    }
    /* The pointer alone does not tell: the thread may have been elsewhere meanwhile and changed its
     * bases there, or be a new one in the place of one that ended on another CPU. */
    if (cpu->user_thread != next || next->base_cpu != cpu->id) {
        cpu->user_thread = next;
        next->base_cpu = cpu->id;
        msr_write(MSR_FS_BASE, next->fs_base);
        msr_write(MSR_KERNEL_GS_BASE, next->gs_base);
    }
    fpu_switch_in(cpu, next);
}

/* The rest of a switch, on the new thread's stack: release the queue, bury the dead. */
static inline void finish_switch(void)
{
    struct cpu *cpu = cpu_this();
    struct thread *prev = cpu->previous;
    bool is_dead = atomic_load_explicit(&prev->state, memory_order_relaxed) == THREAD_DEAD;

    queue_unlock(queue_of(cpu->id));
    if (VLI_UNLIKELY(is_dead)) {
        thread_bury(prev);
    }
    if (VLI_UNLIKELY(cpu->moving != NULL)) {
        cpu->moving = NULL;
        wake_on_chosen(prev);
    }
}

static void switch_to(struct cpu *cpu, struct thread *prev, struct thread *next)
{
    if (prev->fpu != NULL) {
        fpu_switch_out(cpu, prev);
    }
    cpu->previous = prev;
    cpu->current = next;
    cpu->kernel_stack = next->stack_top;
    cpu->tss.rsp0 = next->stack_top;
    if (next->space != NULL) {
        load_user_state(cpu, next);
    }
    switch_stacks(&prev->sp, next->sp);
    finish_switch();
}

/* May @thread be taken off the queue, or did its wake-up or a signal come before? */
static bool may_sleep(struct thread *thread)
{
    uint32_t state = atomic_load_explicit(&thread->state, memory_order_relaxed);

    if (state == THREAD_RUNNING || state == THREAD_WAKING) {
        return false;
    }
    if (state == THREAD_SLEEPING && thread_signal_pending(thread)) {
        /* A waker may be at it too: then the state is its business. */
        atomic_compare_exchange_strong_explicit(&thread->state, &state, THREAD_RUNNING,
                                                memory_order_relaxed, memory_order_relaxed);
        return false;
    }
    return true;
}

/* Its affinity forbids this CPU: take it off the queue as a waker would own it; finish_switch()
 * puts it on another one once its registers are saved. Not when a waker is at it. */
static bool try_move(struct cpu *cpu, struct thread *thread)
{
    uint32_t state = THREAD_RUNNING;

    if (!atomic_compare_exchange_strong_explicit(&thread->state, &state, THREAD_WAKING,
                                                 memory_order_relaxed, memory_order_relaxed)) {
        return false;
    }
    thread->on_queue = 0;
    cpu->moving = thread;
    return true;
}

/* Take @prev off the CPU; it stays ready unless it sleeps. Interrupts off, queue locked. */
static void put_prev(struct cpu *cpu, struct run_queue *queue, struct thread *prev, bool sleeps)
{
    if (prev == cpu->idle) {
        return;
    }
    if (sleeps && may_sleep(prev)) {
        prev->on_queue = 0;
        prev->switches++;
    } else if (is_allowed(prev, cpu->id) || !try_move(cpu, prev)) {
        enqueue(queue, prev);
    }
}

static void reschedule(bool sleeps)
{
    struct cpu *cpu = cpu_this();
    struct run_queue *queue = queue_of(cpu->id);
    struct thread *prev = cpu->current;
    struct thread *next;
    uint64_t now;

    queue_lock(queue);
    now = clock_ns();
    if (prev != cpu->idle) {
        account(queue, prev, now);
    }
    clear_resched(prev);
    put_prev(cpu, queue, prev, sleeps);
    next = pick(cpu, queue);
    next->run_start_ns = now;
    if (prev == cpu->idle && next != prev) {
        timer_queue_want_tick(cpu);
    }
    if (next == prev) {
        queue_unlock(queue);
        return;
    }
    switch_to(cpu, prev, next);
}

void schedule(void)
{
    unsigned long flags = vl_host_irq_save();

    VL_ASSERT(cpu_preempt_depth() == 0 && (flags & RFLAGS_IF) != 0);
    vli_rank_assert_no_spin();
    reschedule(true);
    vl_host_irq_restore(flags);
}

void schedule_preempt(void)
{
    unsigned long flags = vl_host_irq_save();

    current()->preemptions++;
    reschedule(false);
    vl_host_irq_restore(flags);
}

_Noreturn void sched_end(void)
{
    reschedule(true);
    panic("sched: a dead thread was run");
}

void preempt_on_slow(void)
{
    if (cpu_irqs_on()) {
        schedule_preempt();
    }
}

void preempt_from_irq(void)
{
    if (!cpu_in_irq()) {
        schedule_preempt();
    }
}

void thread_yield(void)
{
    struct thread *thread = current();
    unsigned long flags = vl_host_irq_save();
    struct run_queue *queue = queue_of(vl_host_cpu_id());

    /* Behind all that are ready: no debt beyond the last one's. */
    queue_lock(queue);
    if (queue->ready_count != 0) {
        uint64_t last = vli_list_last(&queue->ready, struct thread, run_link)->vruntime;

        thread->vruntime = thread->vruntime < last ? last : thread->vruntime;
    }
    queue_unlock(queue);
    vl_host_irq_restore(flags);
    schedule_preempt();
}

void thread_first_run(void)
{
    finish_switch();
    cpu_irq_on();
}

/* --------------------------------------------------------------------------------- waking */

static inline bool is_cpu_idle(unsigned cpu)
{
    struct cpu *it = cpu_of(cpu);

    return it->current == it->idle && queue_of(cpu)->ready_count == 0;
}

/* Who wakes somebody while it ends leaves its CPU in a moment: no need to interrupt another one. */
static inline bool is_cpu_free_soon(unsigned cpu)
{
    return current()->exit_begun != 0 && !cpu_in_irq() && queue_of(cpu)->ready_count == 0;
}

static unsigned choose_cpu(const struct thread *thread)
{
    unsigned last = thread->cpu;
    unsigned count = cpu_count();
    unsigned self = vl_host_cpu_id();

    if (count > 1 && is_cpu_free_soon(self) && is_allowed(thread, self)) {
        return self;
    }
    if (count == 1 || (is_allowed(thread, last) && is_cpu_idle(last))) {
        return last;
    }
    for (unsigned cpu = 0; cpu < count; cpu++) {
        if (is_allowed(thread, cpu) && is_cpu_idle(cpu)) {
            return cpu;
        }
    }
    for (unsigned cpu = 0; !is_allowed(thread, last) && cpu < count; cpu++) {
        last = is_allowed(thread, cpu) ? cpu : last;
    }
    return last;
}

/* Put @thread, which is on no queue, on the locked one, and look whether it should run now. */
static void activate(struct run_queue *queue, struct thread *thread, unsigned cpu)
{
    struct thread *running = cpu_of(cpu)->current;

    place(queue, thread);
    thread->on_queue = 1;
    atomic_store_explicit(&thread->state, THREAD_RUNNING, memory_order_relaxed);
    enqueue(queue, thread);
    if (running == cpu_of(cpu)->idle || thread->vruntime + WAKE_PREEMPT_NS < running->vruntime) {
        if (cpu == vl_host_cpu_id()) {
            sched_set_resched();
        } else {
            smp_resched(cpu);
        }
    }
}

/*
 * Finish a wake-up of @thread, whose queue is locked and is not any more afterwards. Interrupts
 * off.
 *
 * Between the waker's compare-and-exchange and the lock, the thread may have gone on by itself
 * (it was still on the queue), and even be asleep anew, or have been woken by somebody else. It is
 * put on a queue only if it is on none and its state still says that a waker has to: then exactly
 * one of them does it. A thread that sleeps anew has looked at its condition after this wake-up
 * began, so that nothing is lost.
 */
static void wake_locked(struct run_queue *queue, struct thread *thread)
{
    uint32_t waking = THREAD_WAKING;
    unsigned cpu;

    if (thread->on_queue != 0) {
        atomic_compare_exchange_strong_explicit(&thread->state, &waking, THREAD_RUNNING,
                                                memory_order_relaxed, memory_order_relaxed);
        queue_unlock(queue);
        return;
    }
    if (atomic_load_explicit(&thread->state, memory_order_relaxed) != THREAD_WAKING) {
        queue_unlock(queue);
        return;
    }
    cpu = choose_cpu(thread);
    if (cpu != thread->cpu) {
        uint64_t ahead = thread->vruntime - queue->min_vruntime;

        /* Off the queue and marked, so that a second waker finds nothing to do meanwhile. */
        thread->on_queue = 1;
        queue_unlock(queue);
        sched_wake_linger();
        queue = queue_of(cpu);
        queue_lock(queue);
        thread->cpu = cpu;
        thread->vruntime = queue->min_vruntime + ((int64_t)ahead > 0 ? ahead : 0);
    }
    activate(queue, thread, cpu);
    queue_unlock(queue);
}

static void wake_on_chosen(struct thread *thread)
{
    wake_locked(queue_lock_of(thread), thread);
}

bool sched_wake(struct thread *thread, unsigned states)
{
    uint32_t state = atomic_load_explicit(&thread->state, memory_order_seq_cst);
    unsigned long flags;

    do {
        if ((1u << state & states) == 0) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&thread->state, &state, THREAD_WAKING,
                                                    memory_order_seq_cst, memory_order_seq_cst));
    sched_wake_linger();
    flags = vl_host_irq_save();
    wake_locked(queue_lock_of(thread), thread);
    vl_host_irq_restore(flags);
    return true;
}

void sched_move_if_needed(void)
{
    unsigned long flags = vl_host_irq_save();

    if (!is_allowed(current(), vl_host_cpu_id())) {
        reschedule(false);
    }
    vl_host_irq_restore(flags);
}

void thread_start(struct thread *thread)
{
    unsigned long flags = vl_host_irq_save();
    struct run_queue *queue;
    unsigned cpu;

    VL_ASSERT(atomic_load_explicit(&thread->state, memory_order_relaxed) == THREAD_NEW);
    thread->cpu = vl_host_cpu_id();
    cpu = choose_cpu(thread);
    thread->cpu = cpu;
    queue = queue_of(cpu);
    queue_lock(queue);
    thread->vruntime = queue->min_vruntime;
    activate(queue, thread, cpu);
    queue_unlock(queue);
    vl_host_irq_restore(flags);
}

/* ------------------------------------------------------------------------- ticks, idle, start */

void sched_tick(void)
{
    struct cpu *cpu = cpu_this();
    struct run_queue *queue = queue_of(cpu->id);
    struct thread *thread = cpu->current;
    bool is_user = irq_is_from_user();

    if (thread == cpu->idle) {
        return;
    }
    queue_lock(queue);
    account(queue, thread, clock_ns());
    if ((queue->ready_count != 0 && first_ready(queue)->vruntime < thread->vruntime) ||
        !is_allowed(thread, cpu->id)) {
        sched_set_resched();
    }
    queue_unlock(queue);
    if (is_user) {
        thread->user_ticks++;
        cpu->user_ticks++;
    } else {
        thread->kernel_ticks++;
        cpu->kernel_ticks++;
    }
    proc_tick(thread, is_user);
}

bool sched_is_idle(void)
{
    struct cpu *cpu = cpu_this();

    return cpu->current == cpu->idle;
}

static void resched_interrupt(void *arg)
{
    (void)arg;
    sched_set_resched();
}

_Noreturn void sched_idle_loop(void)
{
    for (;;) {
        cpu_irq_off();
        if ((cpu_this()->preempt & PREEMPT_NO_RESCHED) == 0) {
            reschedule(false);
            cpu_irq_on();
        } else {
            uint64_t start = clock_ns();

            __asm__ volatile("sti\n\thlt" : : : "memory");
            cpu_this()->idle_ns += clock_ns() - start;
        }
    }
}

static void init_queue(struct cpu *cpu, struct thread *idle)
{
    struct run_queue *queue = queue_of(cpu->id);

    vli_spin_init(&queue->lock);
    vli_list_init(&queue->ready);
    cpu->idle = idle;
    cpu->run_queue = queue;
    idle->cpu = cpu->id;
    idle->on_queue = 1;
    timer_queue_init(cpu);
}

void sched_init(void)
{
    struct cpu *cpu = cpu_this();

    init_queue(cpu, cpu->current);
    irq_set_vector(VECTOR_RESCHED, resched_interrupt, NULL);
}

bool sched_prepare_cpu(struct cpu *cpu)
{
    struct thread *idle = thread_alloc("idle");

    if (idle == NULL) {
        return false;
    }
    atomic_store_explicit(&idle->state, THREAD_RUNNING, memory_order_relaxed);
    init_queue(cpu, idle);
    cpu->current = idle;
    cpu->kernel_stack = idle->stack_top;
    return true;
}

void sched_cpu_online(struct cpu *cpu)
{
    cpu->tss.rsp0 = cpu->idle->stack_top;
    cpu->idle->run_start_ns = clock_ns();
}

unsigned sched_runnable_count(void)
{
    unsigned count = 0;

    for (unsigned cpu = 0; cpu < cpu_count(); cpu++) {
        count += queue_of(cpu)->ready_count + (cpu_of(cpu)->current != cpu_of(cpu)->idle);
    }
    return count;
}
