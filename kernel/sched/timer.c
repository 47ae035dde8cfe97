/*
 * timer.c - timers: a sorted list a CPU, and one hardware timer that serves it and the tick.
 *
 * A timer is armed on the CPU that arms it and runs there. While a CPU is not idle, its hardware
 * timer never waits longer than a tick (TICK_NS); an idle CPU waits for its first timer only.
 *
 * Locks: each queue has a spin lock (interrupts off); it guards the list and the timers' state. The
 * callback runs without it; queue->running names the timer then, so that timer_cancel() can wait.
 */
#include "kernel/sched/timer.h"
#include "core/base/spinlock.h"
#include "kernel/cpu/apic.h"
#include "kernel/cpu/irq.h"
#include "kernel/sched/lock.h"
#include "kernel/sched/sched.h"
#include "kernel/sched/timer_queue.h"

enum { TIMER_IDLE, TIMER_ARMED };

struct timer_queue {
    struct vli_spinlock lock;
    struct vli_list timers;
    struct timer *volatile running;
    uint64_t tick_ns; /* when the next tick is due; UINT64_MAX when idle */
};

static struct timer_queue queues[VL_CPUS_MAX];

void timer_init(struct timer *timer, timer_fn *run)
{
    vli_list_init(&timer->link);
    timer->run = run;
    timer->expires_ns = 0;
    timer->cpu = vl_host_cpu_id();
    atomic_init(&timer->state, TIMER_IDLE);
}

static uint32_t state_of(const struct timer *timer)
{
    return atomic_load_explicit(&timer->state, memory_order_relaxed);
}

static void set_state(struct timer *timer, uint32_t state)
{
    atomic_store_explicit(&timer->state, state, memory_order_relaxed);
}

/* Lock the queue that @timer belongs to. */
static struct timer_queue *lock_of(struct timer *timer, unsigned long *out_flags) VL_NO_LOCK_CHECK
{
    for (;;) {
        uint32_t cpu = *(volatile uint32_t *)&timer->cpu;
        struct timer_queue *queue = &queues[cpu];

        *out_flags = vli_spin_lock_irq(&queue->lock, KRANK_TIMER);
        if (VLI_LIKELY(timer->cpu == cpu)) {
            return queue;
        }
        vli_spin_unlock_irq(&queue->lock, KRANK_TIMER, *out_flags);
    }
}

static uint64_t first_expiry(const struct timer_queue *queue)
{
    return vli_list_is_empty(&queue->timers)
               ? UINT64_MAX
               : vli_list_first(&queue->timers, struct timer, link)->expires_ns;
}

/* Set the hardware for the next event of this CPU. Interrupts off, queue locked. */
static void program(struct timer_queue *queue)
{
    uint64_t next = first_expiry(queue);
    uint64_t now;

    next = next < queue->tick_ns ? next : queue->tick_ns;
    if (next == UINT64_MAX) {
        return; /* a stale event does no harm */
    }
    now = clock_ns();
    apic_timer_arm(next > now ? next - now : 1);
}

static void insert(struct timer_queue *queue, struct timer *timer)
{
    struct vli_list *at = queue->timers.prev;

    while (at != &queue->timers &&
           vli_list_entry(at, struct timer, link)->expires_ns > timer->expires_ns) {
        at = at->prev;
    }
    vli_list_insert_after(at, &timer->link);
    set_state(timer, TIMER_ARMED);
}

static bool disarm_locked(struct timer *timer)
{
    if (state_of(timer) != TIMER_ARMED) {
        return false;
    }
    vli_list_remove(&timer->link);
    set_state(timer, TIMER_IDLE);
    return true;
}

void timer_arm(struct timer *timer, uint64_t expires_ns) VL_NO_LOCK_CHECK
{
    unsigned long irq = vl_host_irq_save();
    unsigned self = vl_host_cpu_id();
    struct timer_queue *queue;
    unsigned long flags;

    /* Until this CPU's queue is both locked and the timer's: others may move it meanwhile. */
    for (;;) {
        queue = lock_of(timer, &flags);
        disarm_locked(timer);
        if (VLI_LIKELY(timer->cpu == self)) {
            break;
        }
        timer->cpu = self;
        vli_spin_unlock_irq(&queue->lock, KRANK_TIMER, flags);
    }
    timer->expires_ns = expires_ns;
    insert(queue, timer);
    if (queue->timers.next == &timer->link) {
        program(queue);
    }
    vli_spin_unlock_irq(&queue->lock, KRANK_TIMER, flags);
    vl_host_irq_restore(irq);
}

bool timer_try_cancel(struct timer *timer) VL_NO_LOCK_CHECK
{
    unsigned long flags;
    struct timer_queue *queue = lock_of(timer, &flags);
    bool was_armed = disarm_locked(timer);

    vli_spin_unlock_irq(&queue->lock, KRANK_TIMER, flags);
    return was_armed;
}

bool timer_cancel(struct timer *timer)
{
    for (;;) {
        uint32_t cpu = *(volatile uint32_t *)&timer->cpu;

        if (timer_try_cancel(timer)) {
            return true;
        }
        if (queues[cpu].running != timer) {
            return false;
        }
        vl_host_cpu_relax();
    }
}

/* Run what is due. Interrupts off. */
static void run_expired(struct timer_queue *queue, uint64_t now)
{
    unsigned long flags = vli_spin_lock_irq(&queue->lock, KRANK_TIMER);

    while (first_expiry(queue) <= now) {
        struct timer *timer = vli_list_first(&queue->timers, struct timer, link);

        disarm_locked(timer);
        queue->running = timer;
        vli_spin_unlock_irq(&queue->lock, KRANK_TIMER, flags);
        timer->run(timer);
        flags = vli_spin_lock_irq(&queue->lock, KRANK_TIMER);
        queue->running = NULL;
    }
    vli_spin_unlock_irq(&queue->lock, KRANK_TIMER, flags);
}

static void timer_interrupt(void *arg)
{
    struct cpu *cpu = cpu_this();
    struct timer_queue *queue = cpu->timers;
    uint64_t now = clock_ns();

    (void)arg;
    run_expired(queue, now);
    if (now >= queue->tick_ns) {
        sched_tick();
        cpu->tick_armed = !sched_is_idle();
        queue->tick_ns = cpu->tick_armed != 0 ? now + TICK_NS : UINT64_MAX;
    }
    vli_spin_raw_lock(&queue->lock);
    program(queue);
    vli_spin_raw_unlock(&queue->lock);
}

void timer_queue_arm_tick(struct cpu *cpu)
{
    struct timer_queue *queue = cpu->timers;

    cpu->tick_armed = 1;
    vli_spin_raw_lock(&queue->lock);
    queue->tick_ns = clock_ns() + TICK_NS;
    program(queue);
    vli_spin_raw_unlock(&queue->lock);
}

void timer_queue_init(struct cpu *cpu)
{
    struct timer_queue *queue = &queues[cpu->id];

    vli_spin_init(&queue->lock);
    vli_list_init(&queue->timers);
    queue->tick_ns = UINT64_MAX;
    cpu->timers = queue;
}

void timers_init(void)
{
    irq_set_vector(VECTOR_TIMER, timer_interrupt, NULL);
}
