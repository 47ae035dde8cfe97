/*
 * rwlock.c - the slow side of sleeping locks: a queue, and ownership handed over.
 *
 * Whoever finds the lock taken puts a waiter (on its own stack) at the end of the queue, sets
 * WAITERS and sleeps on the waiter's own word. While WAITERS is set nobody takes the lock by
 * himself: the last one out gives it to the first in the queue, a writer or all readers that stand
 * before the next writer. First come, first served, so nobody starves; a waiting writer holds up
 * readers that come later; and a wake-up cannot be lost, since what is waited for is a word that
 * the giver sets before it wakes.
 *
 * The queue is guarded by lock->queue_lock, a spin lock that nothing else is taken under (it needs
 * no rank). WAITERS changes under it only, and is set exactly while the queue is not empty.
 *
 *      0 ──────────── readers 1 … n, or WRITER            (fast paths, inline)
 *      held ───────── held | WAITERS                      (a waiter queues)
 *      WAITERS alone: the last one out is about to hand over; nobody else may change the state.
 *
 * The waiter's word may be gone when vl_host_wake() is called for it: the sleeper was free to go on
 * once it was set. The host uses the address as a key only, and waits may end for no reason.
 */
#include "core/base/rwlock.h"

enum side { READER, WRITER };

struct vli_rw_waiter {
    struct vli_rw_waiter *next;
    enum side side;
    _Atomic uint32_t granted;
};

static void queue_lock(struct vli_rwlock *lock)
{
    vl_host_preempt_off();
    vli_spin_raw_lock(&lock->queue_lock);
}

static void queue_unlock(struct vli_rwlock *lock)
{
    vli_spin_raw_unlock(&lock->queue_lock);
    vl_host_preempt_on();
}

/* Takes the lock, or sets WAITERS, for which there must be a holder or a queue. True: taken. */
static bool take_or_mark(struct vli_rwlock *lock, enum side side)
{
    uint32_t old = atomic_load_explicit(&lock->state, memory_order_relaxed);
    uint32_t fresh;
    bool can_take;

    do {
        if (side == READER) {
            can_take = (old & (VLI_RW_WRITER | VLI_RW_WAITERS)) == 0;
            fresh = can_take ? old + 1 : old | VLI_RW_WAITERS;
        } else {
            can_take = old == 0;
            fresh = can_take ? VLI_RW_WRITER : old | VLI_RW_WAITERS;
        }
        /* Acquire: pairs with the release in the unlocks. */
    } while (!atomic_compare_exchange_weak_explicit(&lock->state, &old, fresh, memory_order_acquire,
                                                    memory_order_relaxed));
    return can_take;
}

static void lock_slow(struct vli_rwlock *lock, enum side side)
{
    struct vli_rw_waiter self = {NULL, side, 0};

    queue_lock(lock);
    if (take_or_mark(lock, side)) {
        queue_unlock(lock);
        return;
    }
    if (lock->first == NULL) {
        lock->first = &self;
    } else {
        lock->last->next = &self;
    }
    lock->last = &self;
    queue_unlock(lock);
    /* Acquire: pairs with the release in grant(). */
    while (atomic_load_explicit(&self.granted, memory_order_acquire) == 0) {
        (void)vl_host_wait(&self.granted, 0, UINT64_MAX);
    }
}

void vli_rw_read_lock_slow(struct vli_rwlock *lock)
{
    lock_slow(lock, READER);
}

void vli_rw_write_lock_slow(struct vli_rwlock *lock)
{
    lock_slow(lock, WRITER);
}

/* Cuts the readers at the head of the queue off it. Returns the first; *@count of them. */
static struct vli_rw_waiter *take_readers(struct vli_rwlock *lock, uint32_t *count)
{
    struct vli_rw_waiter *first = lock->first;
    struct vli_rw_waiter *last = NULL;

    *count = 0;
    while (lock->first != NULL && lock->first->side == READER) {
        last = lock->first;
        lock->first = last->next;
        ++*count;
    }
    if (last == NULL) {
        return NULL;
    }
    last->next = NULL;
    return first;
}

/* Tells those of a list cut off the queue that the lock is theirs. No spin lock held. */
static void grant(struct vli_rw_waiter *waiter)
{
    struct vli_rw_waiter *next;

    for (; waiter != NULL; waiter = next) {
        next = waiter->next;
        /* Release: pairs with the acquire in lock_slow(); the waiter is gone after it. */
        atomic_store_explicit(&waiter->granted, 1, memory_order_release);
        vl_host_wake(&waiter->granted, 1);
    }
}

void vli_rw_wake_slow(struct vli_rwlock *lock)
{
    struct vli_rw_waiter *waiter;
    uint32_t fresh;

    queue_lock(lock);
    /* Acquire: what earlier holders did, released by their unlocks, comes before the next one. */
    VL_ASSERT(atomic_load_explicit(&lock->state, memory_order_acquire) == VLI_RW_WAITERS);
    VL_ASSERT(lock->first != NULL);
    waiter = take_readers(lock, &fresh);
    if (waiter == NULL) {
        waiter = lock->first;
        lock->first = waiter->next;
        waiter->next = NULL;
        fresh = VLI_RW_WRITER;
    }
    if (lock->first != NULL) {
        fresh |= VLI_RW_WAITERS;
    }
    /* Release: a later taker's acquire sees what earlier holders did. */
    atomic_store_explicit(&lock->state, fresh, memory_order_release);
    queue_unlock(lock);
    grant(waiter);
}

bool vli_rw_try_read_lock(struct vli_rwlock *lock) VL_NO_LOCK_CHECK
{
    uint32_t old = atomic_load_explicit(&lock->state, memory_order_relaxed);

    do {
        if ((old & (VLI_RW_WRITER | VLI_RW_WAITERS)) != 0) {
            return false;
        }
        /* Acquire: pairs with the release in the unlocks. */
    } while (!atomic_compare_exchange_weak_explicit(&lock->state, &old, old + 1,
                                                    memory_order_acquire, memory_order_relaxed));
    vli_rank_push_any((enum vli_rank)lock->rank);
    return true;
}

bool vli_rw_try_write_lock(struct vli_rwlock *lock) VL_NO_LOCK_CHECK
{
    uint32_t old = 0;

    /* Acquire: pairs with the release in the unlocks. */
    if (!atomic_compare_exchange_strong_explicit(&lock->state, &old, VLI_RW_WRITER,
                                                 memory_order_acquire, memory_order_relaxed)) {
        return false;
    }
    vli_rank_push_any((enum vli_rank)lock->rank);
    return true;
}

void vli_rw_downgrade(struct vli_rwlock *lock) VL_NO_LOCK_CHECK
{
    struct vli_rw_waiter *readers = NULL;
    uint32_t count = 0;

    VL_ASSERT(vli_rw_is_write_locked(lock));
    queue_lock(lock);
    if (lock->first != NULL) {
        readers = take_readers(lock, &count);
    }
    /* Release: pairs with the acquires of the readers that come in now. One step, so that no
     * writer gets in between. WAITERS is clear already when there was no queue. */
    atomic_fetch_sub_explicit(&lock->state,
                              VLI_RW_WRITER - 1u - count +
                                  (readers != NULL && lock->first == NULL ? VLI_RW_WAITERS : 0u),
                              memory_order_release);
    queue_unlock(lock);
    grant(readers);
}

uint32_t vli_rw_waiting(struct vli_rwlock *lock)
{
    const struct vli_rw_waiter *waiter;
    uint32_t count = 0;

    queue_lock(lock);
    for (waiter = lock->first; waiter != NULL; waiter = waiter->next) {
        count++;
    }
    queue_unlock(lock);
    return count;
}

bool vli_rw_is_write_locked(struct vli_rwlock *lock)
{
    return (atomic_load_explicit(&lock->state, memory_order_relaxed) & VLI_RW_WRITER) != 0;
}

bool vli_rw_is_locked(struct vli_rwlock *lock)
{
    return (atomic_load_explicit(&lock->state, memory_order_relaxed) & ~VLI_RW_WAITERS) != 0;
}
