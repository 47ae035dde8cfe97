/*
 * wait.h - sleeping: queues of waiters, mutexes.
 *
 * The pattern, which loses no wake-up because the waiter is queued before the condition is read:
 *
 *     struct waiter waiter;
 *
 *     waiter_init(&waiter);
 *     for (;;) {
 *         wait_prepare(&queue, &waiter, WAIT_INTERRUPTIBLE);
 *         if (condition) { status = VL_OK; break; }
 *         status = wait_sleep(deadline_ns);
 *         if (status != VL_OK) { break; }     // VL_EINTR, VL_ETIMEDOUT
 *     }
 *     wait_finish(&waiter);
 *
 * The condition may be read under any lock taken and released inside the loop, but it must not
 * sleep. wait_for() and wait_on_mutex() wrap this.
 *
 * For poll, one thread queues several waiters, each on its own queue, and calls wait_finish() for
 * each.
 */
#ifndef KERNEL_SCHED_WAIT_H
#define KERNEL_SCHED_WAIT_H

#include "core/base/list.h"
#include "core/base/spinlock.h"
#include "kernel/sched/thread.h"

#define WAIT_FOREVER UINT64_MAX

enum wait_how {
    WAIT_INTERRUPTIBLE = 0,
    WAIT_UNINTERRUPTIBLE = 1,
    WAIT_EXCLUSIVE = 2 /* or-ed in: wake_one() wakes a single one of these */
};

struct wait_queue {
    struct vli_spinlock lock; /* KRANK_WAIT, taken with interrupts off */
    struct vli_list waiters;  /* exclusive ones last */
};

#define WAIT_QUEUE_INIT(name)                                                                      \
    {                                                                                              \
        VLI_SPINLOCK_INIT, VLI_LIST_INIT((name).waiters)                                           \
    }

struct waiter {
    struct vli_list link;
    struct thread *thread;
    struct wait_queue *queue; /* NULL: not queued yet */
    uint32_t exclusive;
};

void wait_queue_init(struct wait_queue *queue);
/** wait_queue_is_empty() - nobody waits; a hint unless the caller holds what waiters check under.
 * A waker that changed the condition before may skip the wake when true: a full barrier stands
 * between. */
bool wait_queue_is_empty(struct wait_queue *queue);

void waiter_init(struct waiter *waiter);

/** wait_prepare() - queue the waiter (once) and set the thread's state. Context: thread. */
void wait_prepare(struct wait_queue *queue, struct waiter *waiter, unsigned how);

/**
 * wait_sleep() - sleep if not yet woken since wait_prepare().
 * @deadline_ns: on clock_ns(); WAIT_FOREVER for none.
 * Returns: VL_OK woken (or for no reason); VL_EINTR a signal is pending (interruptible only);
 *          VL_ETIMEDOUT.
 */
VL_MUST_CHECK enum vl_status wait_sleep(uint64_t deadline_ns);

/** wait_finish() - take the waiter out of its queue, state running again. */
void wait_finish(struct waiter *waiter);

/** wake_all() - wake every waiter. Context: any; locks of ranks below KRANK_WAIT may be held. */
void wake_all(struct wait_queue *queue);
/** wake_one() - wake all non-exclusive waiters and one exclusive one. */
void wake_one(struct wait_queue *queue);

/** wait_for() - sleep until @condition(@arg) is true. Returns: as wait_sleep(). */
VL_MUST_CHECK enum vl_status wait_for(struct wait_queue *queue, bool (*condition)(void *arg),
                                      void *arg, unsigned how, uint64_t deadline_ns);

/** sleep_until_ns() - Returns: VL_OK when the time has come; VL_EINTR (if @how allows). */
VL_MUST_CHECK enum vl_status sleep_until_ns(uint64_t deadline_ns, unsigned how);

/* A sleeping lock for one holder. Not recursive; released by its holder. Interrupts may not use
 * it. Held across user copies and core calls. */
struct VL_CAPABILITY("mutex") mutex {
    _Atomic uint32_t state; /* 0 free, 1 held, 2 held and somebody waits */
    struct wait_queue queue;
    struct thread *holder; /* for asserts */
};

#define MUTEX_INIT(name)                                                                           \
    {                                                                                              \
        0, WAIT_QUEUE_INIT((name).queue), NULL                                                     \
    }

void mutex_init(struct mutex *mutex);
void mutex_lock(struct mutex *mutex) VL_ACQUIRE(mutex);
VL_MUST_CHECK bool mutex_try_lock(struct mutex *mutex) VL_TRY_ACQUIRE(true, mutex);
void mutex_unlock(struct mutex *mutex) VL_RELEASE(mutex);
bool mutex_is_held_by_me(const struct mutex *mutex);

/** mutex_lock_interruptible() - Returns: VL_OK; VL_EINTR: not taken. */
VL_MUST_CHECK enum vl_status mutex_lock_interruptible(struct mutex *mutex);

/** wait_on_mutex() - as a condition variable: queue, release @mutex, sleep, take it again (always).
 * The caller re-checks its condition. Returns: as wait_sleep(). */
VL_MUST_CHECK enum vl_status wait_on_mutex(struct wait_queue *queue, struct mutex *mutex,
                                           unsigned how, uint64_t deadline_ns) VL_REQUIRES(mutex);

#endif
