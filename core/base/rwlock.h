/*
 * rwlock.h - reader-writer locks that sleep, over the host's wait and wake.
 *
 * First come, first served: once a writer waits, new readers wait behind it, and it waits for those
 * before it only. One word of state that everybody changes by compare-and-exchange or add, and a
 * queue of sleepers; the fast paths are inline: one locked instruction. rwlock.c tells the rest.
 *
 * state: bits 0…29 readers, bit 30 a writer holds it, bit 31 somebody waits.
 */
#ifndef VLI_RWLOCK_H
#define VLI_RWLOCK_H

#include <stdatomic.h>
#include "core/base/spinlock.h"

struct vli_rw_waiter;

/* (Q): queue_lock. */
struct VL_CAPABILITY("sleeping lock") vli_rwlock {
    _Atomic uint32_t state;
    uint32_t rank;               /* enum vli_rank */
    struct vli_rw_waiter *first; /* (Q) NULL: nobody waits */
    struct vli_rw_waiter *last;  /* (Q) stale when first is NULL */
    struct vli_spinlock queue_lock;
};

#define VLI_RW_READERS 0x3fffffffu
#define VLI_RW_WRITER  0x40000000u
#define VLI_RW_WAITERS 0x80000000u

/** vli_rw_init() - free, nobody waits. */
static inline void vli_rw_init(struct vli_rwlock *lock, enum vli_rank rank)
{
    atomic_init(&lock->state, 0);
    lock->rank = (uint32_t)rank;
    lock->first = NULL;
    lock->last = NULL;
    vli_spin_init(&lock->queue_lock);
}

/** vli_rw_read_lock_slow() - queue and sleep until it is ours. */
void vli_rw_read_lock_slow(struct vli_rwlock *lock);
/** vli_rw_write_lock_slow() - the same, exclusive. */
void vli_rw_write_lock_slow(struct vli_rwlock *lock);
/** vli_rw_wake_slow() - the last one out hands the lock to those who wait. */
void vli_rw_wake_slow(struct vli_rwlock *lock);

/** vli_rw_read_lock() - shared; may sleep. */
static inline void vli_rw_read_lock(struct vli_rwlock *lock)
    VL_ACQUIRE_SHARED(lock) VL_NO_LOCK_CHECK
{
    uint32_t old = atomic_load_explicit(&lock->state, memory_order_relaxed);

    vli_rank_push((enum vli_rank)lock->rank);
    /* Acquire: pairs with the release in the unlocks. */
    if (VLI_UNLIKELY((old & (VLI_RW_WRITER | VLI_RW_WAITERS)) != 0 ||
                     !atomic_compare_exchange_strong_explicit(&lock->state, &old, old + 1,
                                                              memory_order_acquire,
                                                              memory_order_relaxed))) {
        vli_rw_read_lock_slow(lock);
    }
}

/** vli_rw_read_unlock() - ends a shared hold. */
static inline void vli_rw_read_unlock(struct vli_rwlock *lock)
    VL_RELEASE_SHARED(lock) VL_NO_LOCK_CHECK
{
    uint32_t old;

    vli_rank_pop((enum vli_rank)lock->rank);
    /* Release: pairs with the acquires of later takers. The lock may be gone after it. */
    old = atomic_fetch_sub_explicit(&lock->state, 1, memory_order_release);
    if (VLI_UNLIKELY(old == (1u | VLI_RW_WAITERS))) {
        vli_rw_wake_slow(lock);
    }
}

/** vli_rw_write_lock() - exclusive; may sleep. */
static inline void vli_rw_write_lock(struct vli_rwlock *lock) VL_ACQUIRE(lock) VL_NO_LOCK_CHECK
{
    uint32_t old = 0;

    vli_rank_push((enum vli_rank)lock->rank);
    /* Acquire: pairs with the release in the unlocks. */
    if (VLI_UNLIKELY(!atomic_compare_exchange_strong_explicit(
            &lock->state, &old, VLI_RW_WRITER, memory_order_acquire, memory_order_relaxed))) {
        vli_rw_write_lock_slow(lock);
    }
}

/** vli_rw_write_unlock() - ends an exclusive hold. */
static inline void vli_rw_write_unlock(struct vli_rwlock *lock) VL_RELEASE(lock) VL_NO_LOCK_CHECK
{
    uint32_t old;

    vli_rank_pop((enum vli_rank)lock->rank);
    /* Release: pairs with the acquires of later takers. The lock may be gone after it. */
    old = atomic_fetch_sub_explicit(&lock->state, VLI_RW_WRITER, memory_order_release);
    if (VLI_UNLIKELY((old & VLI_RW_WAITERS) != 0)) {
        vli_rw_wake_slow(lock);
    }
}

/** vli_rw_try_write_lock() - exclusive or not at all; never sleeps, any rank. */
bool vli_rw_try_write_lock(struct vli_rwlock *lock) VL_TRY_ACQUIRE(true, lock);
/** vli_rw_try_read_lock() - shared or not at all; never sleeps, any rank. */
bool vli_rw_try_read_lock(struct vli_rwlock *lock) VL_TRY_ACQUIRE_SHARED(true, lock);
/** vli_rw_downgrade() - from exclusive to shared without letting a writer in between. */
void vli_rw_downgrade(struct vli_rwlock *lock) VL_RELEASE(lock) VL_ACQUIRE_SHARED(lock);
/** vli_rw_waiting() - how many stand in the queue at this moment. */
uint32_t vli_rw_waiting(struct vli_rwlock *lock);
/** vli_rw_is_write_locked() - for asserts. */
bool vli_rw_is_write_locked(struct vli_rwlock *lock);
/** vli_rw_is_locked() - in either way; for asserts. */
bool vli_rw_is_locked(struct vli_rwlock *lock);

#endif
