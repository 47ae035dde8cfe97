/*
 * rwlock.h - reader-writer locks that sleep, over the host's wait and wake.
 *
 * Writers are preferred: once one waits, new readers wait behind it. One word of state that
 * everybody changes by compare-and-exchange or add, and a word for each side to sleep on. The fast
 * paths are inline: one locked instruction.
 *
 * state: bits 0…29 readers, bit 30 a writer holds it, bit 31 somebody waits.
 */
#ifndef VLI_RWLOCK_H
#define VLI_RWLOCK_H

#include <stdatomic.h>
#include "core/base/spinlock.h"

struct VL_CAPABILITY("sleeping lock") vli_rwlock {
    _Atomic uint32_t state;
    _Atomic uint32_t wait_seq;        /* sleepers sleep on it; changed before each wake */
    _Atomic uint32_t writers_waiting;
    uint32_t rank;                    /* enum vli_rank */
};

#define VLI_RW_READERS 0x3fffffffu
#define VLI_RW_WRITER  0x40000000u
#define VLI_RW_WAITERS 0x80000000u

static inline void vli_rw_init(struct vli_rwlock *lock, enum vli_rank rank)
{
    atomic_init(&lock->state, 0);
    atomic_init(&lock->wait_seq, 0);
    atomic_init(&lock->writers_waiting, 0);
    lock->rank = (uint32_t)rank;
}

void vli_rw_read_lock_slow(struct vli_rwlock *lock);
void vli_rw_write_lock_slow(struct vli_rwlock *lock);
void vli_rw_wake_slow(struct vli_rwlock *lock);

/** vli_rw_read_lock() - shared; may sleep. */
static inline void vli_rw_read_lock(struct vli_rwlock *lock) VL_ACQUIRE_SHARED(lock) VL_NO_LOCK_CHECK
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
    /* Release: pairs with the acquires of later takers. */
    uint32_t old = atomic_fetch_sub_explicit(&lock->state, 1, memory_order_release);

    vli_rank_pop((enum vli_rank)lock->rank);
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
    /* Release: pairs with the acquires of later takers. */
    uint32_t old = atomic_fetch_sub_explicit(&lock->state, VLI_RW_WRITER, memory_order_release);

    vli_rank_pop((enum vli_rank)lock->rank);
    if (VLI_UNLIKELY((old & VLI_RW_WAITERS) != 0)) {
        vli_rw_wake_slow(lock);
    }
}

/** vli_rw_try_write_lock() - exclusive or not at all; never sleeps, any rank. */
bool vli_rw_try_write_lock(struct vli_rwlock *lock);
/** vli_rw_try_read_lock() - shared or not at all; never sleeps, any rank. */
bool vli_rw_try_read_lock(struct vli_rwlock *lock);
/** vli_rw_downgrade() - from exclusive to shared without letting a writer in between. */
void vli_rw_downgrade(struct vli_rwlock *lock);
/** vli_rw_is_write_locked() - for asserts. */
bool vli_rw_is_write_locked(struct vli_rwlock *lock);
/** vli_rw_is_locked() - in either way; for asserts. */
bool vli_rw_is_locked(struct vli_rwlock *lock);

#endif
