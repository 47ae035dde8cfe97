/*
 * wait.c - queues of waiters.
 *
 * A waiter is inserted and its thread's state set under the queue's lock; a waker changes the
 * condition first and then takes that lock. So either the waker finds the waiter, or the waiter,
 * whose insertion came later, finds the condition changed.
 */
#include "kernel/sched/wait.h"
#include "kernel/sched/lock.h"
#include "kernel/sched/sched.h"
#include "kernel/sched/timer.h"

#define ASLEEP (1u << THREAD_SLEEPING | 1u << THREAD_UNINTERRUPTIBLE)

struct sleep_timer {
    struct timer timer;
    struct thread *thread;
    _Atomic uint32_t fired;
};

void wait_queue_init(struct wait_queue *queue)
{
    vli_spin_init(&queue->lock);
    vli_list_init(&queue->waiters);
}

bool wait_queue_is_empty(struct wait_queue *queue)
{
    /* Pairs with the waiter's lock operation in wait_prepare(): the condition was written before,
     * the list is read after. */
    atomic_thread_fence(memory_order_seq_cst);
    return *(struct vli_list *volatile *)&queue->waiters.next == &queue->waiters;
}

void waiter_init(struct waiter *waiter)
{
    waiter->thread = current();
    waiter->queue = NULL;
    waiter->exclusive = 0;
}

void wait_prepare(struct wait_queue *queue, struct waiter *waiter, unsigned how)
{
    unsigned long flags = vli_spin_lock_irq(&queue->lock, KRANK_WAIT);
    uint32_t state = (how & WAIT_UNINTERRUPTIBLE) != 0 ? THREAD_UNINTERRUPTIBLE : THREAD_SLEEPING;

    if (waiter->queue == NULL) {
        waiter->queue = queue;
        waiter->exclusive = how & WAIT_EXCLUSIVE;
        if (waiter->exclusive != 0) {
            vli_list_insert_before(&queue->waiters, &waiter->link);
        } else {
            vli_list_insert_after(&queue->waiters, &waiter->link);
        }
    }
    /* Sequentially consistent: the caller's reads of its condition come after it. */
    atomic_store_explicit(&waiter->thread->state, state, memory_order_seq_cst);
    vli_spin_unlock_irq(&queue->lock, KRANK_WAIT, flags);
}

static void sleep_timer_run(struct timer *timer)
{
    struct sleep_timer *sleep = vli_container_of(timer, struct sleep_timer, timer);

    atomic_store_explicit(&sleep->fired, 1, memory_order_relaxed);
    (void)sched_wake(sleep->thread, ASLEEP);
}

static enum vl_status sleep_with_timer(struct thread *self, uint64_t deadline_ns)
{
    struct sleep_timer sleep;

    if (deadline_ns <= clock_ns()) {
        return VL_ETIMEDOUT;
    }
    timer_init(&sleep.timer, sleep_timer_run);
    sleep.thread = self;
    atomic_init(&sleep.fired, 0);
    timer_arm(&sleep.timer, deadline_ns);
    schedule();
    (void)timer_cancel(&sleep.timer);
    return atomic_load_explicit(&sleep.fired, memory_order_relaxed) != 0 ? VL_ETIMEDOUT : VL_OK;
}

enum vl_status wait_sleep(uint64_t deadline_ns)
{
    struct thread *self = current();
    uint32_t state = atomic_load_explicit(&self->state, memory_order_relaxed);
    enum vl_status status = VL_OK;

    if (state == THREAD_RUNNING) {
        return VL_OK;
    }
    if (state == THREAD_SLEEPING && thread_signal_pending(self)) {
        return VL_EINTR;
    }
    if (deadline_ns == WAIT_FOREVER) {
        schedule();
    } else {
        status = sleep_with_timer(self, deadline_ns);
    }
    /* Woken and signalled at once: the caller looks at its condition first. */
    return status;
}

void wait_finish(struct waiter *waiter)
{
    struct wait_queue *queue = waiter->queue;

    atomic_store_explicit(&waiter->thread->state, THREAD_RUNNING, memory_order_relaxed);
    if (queue != NULL) {
        unsigned long flags = vli_spin_lock_irq(&queue->lock, KRANK_WAIT);

        vli_list_remove(&waiter->link);
        waiter->queue = NULL;
        vli_spin_unlock_irq(&queue->lock, KRANK_WAIT, flags);
    }
}

static void wake(struct wait_queue *queue, bool all)
{
    unsigned long flags;
    struct vli_list *at;

    if (wait_queue_is_empty(queue)) {
        return;
    }
    flags = vli_spin_lock_irq(&queue->lock, KRANK_WAIT);
    vli_list_each (at, &queue->waiters) {
        struct waiter *waiter = vli_list_entry(at, struct waiter, link);

        if (sched_wake(waiter->thread, ASLEEP) && waiter->exclusive != 0 && !all) {
            break;
        }
    }
    vli_spin_unlock_irq(&queue->lock, KRANK_WAIT, flags);
}

void wake_all(struct wait_queue *queue)
{
    wake(queue, true);
}

void wake_one(struct wait_queue *queue)
{
    wake(queue, false);
}

enum vl_status wait_for(struct wait_queue *queue, bool (*condition)(void *arg), void *arg,
                        unsigned how, uint64_t deadline_ns)
{
    enum vl_status status = VL_OK;
    struct waiter waiter;

    if (condition(arg)) {
        return VL_OK;
    }
    waiter_init(&waiter);
    for (;;) {
        wait_prepare(queue, &waiter, how);
        if (condition(arg)) {
            status = VL_OK;
            break;
        }
        if (status != VL_OK) {
            break;
        }
        status = wait_sleep(deadline_ns);
    }
    wait_finish(&waiter);
    return status;
}

enum vl_status sleep_until_ns(uint64_t deadline_ns, unsigned how)
{
    struct thread *self = current();
    uint32_t state = (how & WAIT_UNINTERRUPTIBLE) != 0 ? THREAD_UNINTERRUPTIBLE : THREAD_SLEEPING;
    enum vl_status status = VL_OK;

    while (status == VL_OK) {
        atomic_store_explicit(&self->state, state, memory_order_seq_cst);
        status = wait_sleep(deadline_ns);
    }
    atomic_store_explicit(&self->state, THREAD_RUNNING, memory_order_relaxed);
    return status == VL_ETIMEDOUT ? VL_OK : status;
}
