/*
 * mutex.c - sleeping locks with three states (Drepper, "Futexes are tricky", mutex 2): free, held,
 * held with somebody waiting. The uncontended pair is two locked instructions and no queue.
 */
#include "core/base/assert.h"
#include "kernel/sched/wait.h"

enum { FREE, HELD, CONTENDED };

void mutex_init(struct mutex *mutex)
{
    atomic_init(&mutex->state, FREE);
    wait_queue_init(&mutex->queue);
    mutex->holder = NULL;
}

bool mutex_try_lock(struct mutex *mutex) VL_NO_LOCK_CHECK
{
    uint32_t state = FREE;

    /* Acquire: pairs with the release in mutex_unlock(). */
    if (!atomic_compare_exchange_strong_explicit(&mutex->state, &state, HELD, memory_order_acquire,
                                                 memory_order_relaxed)) {
        return false;
    }
    mutex->holder = current();
    return true;
}

static enum vl_status lock_slow(struct mutex *mutex, unsigned how)
{
    enum vl_status status = VL_OK;
    struct waiter waiter;

    waiter_init(&waiter);
    for (;;) {
        wait_prepare(&mutex->queue, &waiter, how | WAIT_EXCLUSIVE);
        if (atomic_exchange_explicit(&mutex->state, CONTENDED, memory_order_acquire) == FREE) {
            status = VL_OK;
            mutex->holder = current();
            break;
        }
        if (status != VL_OK) {
            break;
        }
        status = wait_sleep(WAIT_FOREVER);
    }
    wait_finish(&waiter);
    return status;
}

void mutex_lock(struct mutex *mutex) VL_NO_LOCK_CHECK
{
    VL_ASSERT_SLOW(cpu_preempt_depth() == 0 && !cpu_in_irq());
    if (VLI_UNLIKELY(!mutex_try_lock(mutex))) {
        VL_ASSERT(mutex->holder != current());
        (void)(lock_slow(mutex, WAIT_UNINTERRUPTIBLE) == VL_OK);
    }
}

enum vl_status mutex_lock_interruptible(struct mutex *mutex)
{
    return VLI_LIKELY(mutex_try_lock(mutex)) ? VL_OK : lock_slow(mutex, WAIT_INTERRUPTIBLE);
}

void mutex_unlock(struct mutex *mutex) VL_NO_LOCK_CHECK
{
    VL_ASSERT(mutex->holder == current());
    mutex->holder = NULL;
    /* Release: pairs with the acquires of later takers. */
    if (VLI_UNLIKELY(atomic_exchange_explicit(&mutex->state, FREE, memory_order_release) ==
                     CONTENDED)) {
        wake_one(&mutex->queue);
    }
}

bool mutex_is_held_by_me(const struct mutex *mutex)
{
    return mutex->holder == current();
}

enum vl_status wait_on_mutex(struct wait_queue *queue, struct mutex *mutex, unsigned how,
                             uint64_t deadline_ns) VL_NO_LOCK_CHECK
{
    enum vl_status status;
    struct waiter waiter;

    waiter_init(&waiter);
    wait_prepare(queue, &waiter, how);
    /* Whoever changes the condition holds the mutex, so that no change falls between. Unlocking
     * may wake others, which sets no state of this thread. */
    mutex_unlock(mutex);
    status = wait_sleep(deadline_ns);
    wait_finish(&waiter);
    mutex_lock(mutex);
    return status;
}
