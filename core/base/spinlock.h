/*
 * spinlock.h - ticket locks: first come, first served; four bytes, so that one fits into a frame's
 * descriptor.
 *
 * The word holds two 16-bit halves: the next ticket (high) and the ticket being served (low). A
 * taker adds one to the high half and waits until the low half equals its ticket; the holder alone
 * writes the low half. At most 65,535 waiters.
 *
 * The taker's fetch_add and its reads are acquire; the release store of the low half pairs with
 * them. Preemption is off while one is held. A lock that an interrupt handler also takes is taken
 * by the _irq forms everywhere. With SMP=0 only the effect on preemption and interrupts is left.
 */
#ifndef VLI_SPINLOCK_H
#define VLI_SPINLOCK_H

#include <stdatomic.h>
#include <vellum/host.h>
#include "core/base/assert.h"
#include "core/base/rank.h"

struct VL_CAPABILITY("spin lock") vli_spinlock {
    union {
        _Atomic uint32_t both;
        struct {
            _Atomic uint16_t serving; /* little-endian: the low half */
            _Atomic uint16_t next;
        } half;
    } word;
};
_Static_assert(sizeof(struct vli_spinlock) == 4, "lives in a frame's descriptor");

#define VLI_SPINLOCK_INIT                                                                          \
    {                                                                                              \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }

#if defined(VL_HOST_LOCK)
#define VLI_SPIN_IS_HELD(word) ((word) != 0)
#else
#define VLI_SPIN_IS_HELD(word) ((word) >> 16 != ((word)&0xffffu))
#endif

static inline void vli_spin_init(struct vli_spinlock *lock)
{
    atomic_store_explicit(&lock->word.both, 0, memory_order_relaxed);
}

/** vli_spin_is_locked() - is anybody holding it? For asserts. */
static inline bool vli_spin_is_locked(struct vli_spinlock *lock)
{
    uint32_t word = atomic_load_explicit(&lock->word.both, memory_order_relaxed);

    return VLI_SPIN_IS_HELD(word);
}

#if defined(VL_HOST_LOCK)
static inline void vli_spin_raw_lock(struct vli_spinlock *lock)
{
    vl_host_lock(&lock->word.both);
}
static inline bool vli_spin_raw_try_lock(struct vli_spinlock *lock)
{
    return vl_host_try_lock(&lock->word.both);
}
static inline void vli_spin_raw_unlock(struct vli_spinlock *lock)
{
    vl_host_unlock(&lock->word.both);
}
#elif VL_SMP
/** vli_spin_wait_slow() - spin until @ticket is served. */
VLI_NOINLINE void vli_spin_wait_slow(struct vli_spinlock *lock, uint16_t ticket);

static inline void vli_spin_raw_lock(struct vli_spinlock *lock)
{
    /* Acquire: pairs with the release in vli_spin_raw_unlock(). */
    uint32_t old = atomic_fetch_add_explicit(&lock->word.both, 0x10000u, memory_order_acquire);

    if (VLI_UNLIKELY(old != (old << 16 | old >> 16))) {
        vli_spin_wait_slow(lock, (uint16_t)(old >> 16));
    }
}

static inline bool vli_spin_raw_try_lock(struct vli_spinlock *lock)
{
    uint32_t old = atomic_load_explicit(&lock->word.both, memory_order_relaxed);

    /* The halves are equal: nobody holds it. A rotation compares them in fewer instructions. */
    if (old != (old << 16 | old >> 16)) {
        return false;
    }
    /* Acquire: pairs with the release in vli_spin_raw_unlock(). */
    return atomic_compare_exchange_strong_explicit(&lock->word.both, &old, old + 0x10000u,
                                                   memory_order_acquire, memory_order_relaxed);
}

static inline void vli_spin_raw_unlock(struct vli_spinlock *lock)
{
    uint16_t serving = atomic_load_explicit(&lock->word.half.serving, memory_order_relaxed);

    /* Release: pairs with the acquires of the next taker. */
    atomic_store_explicit(&lock->word.half.serving, (uint16_t)(serving + 1u), memory_order_release);
}
#else
static inline void vli_spin_raw_lock(struct vli_spinlock *lock)
{
    (void)lock;
}
static inline bool vli_spin_raw_try_lock(struct vli_spinlock *lock)
{
    (void)lock;
    return true;
}
static inline void vli_spin_raw_unlock(struct vli_spinlock *lock)
{
    (void)lock;
}
#endif

/** vli_spin_lock() - take it; preemption is off until vli_spin_unlock(). Not from interrupts. */
static inline void vli_spin_lock(struct vli_spinlock *lock, enum vli_rank rank)
    VL_ACQUIRE(lock) VL_NO_LOCK_CHECK
{
    vl_host_preempt_off();
    vli_rank_push(rank);
    vli_spin_raw_lock(lock);
}

static inline void vli_spin_unlock(struct vli_spinlock *lock, enum vli_rank rank)
    VL_RELEASE(lock) VL_NO_LOCK_CHECK
{
    vli_spin_raw_unlock(lock);
    vli_rank_pop(rank);
    vl_host_preempt_on();
}

/** vli_spin_lock_irq() - take it with interrupts off; returns what unlock_irq needs. Any context.
 */
static inline unsigned long vli_spin_lock_irq(struct vli_spinlock *lock, enum vli_rank rank)
    VL_ACQUIRE(lock) VL_NO_LOCK_CHECK
{
    unsigned long flags = vl_host_irq_save();

    vli_rank_push(rank);
    vli_spin_raw_lock(lock);
    return flags;
}

/** vli_spin_try_lock_irq() - the same if nobody has it; any order of locks is right then. False: it
 * is taken, and interrupts are as they were. */
VL_MUST_CHECK static inline bool vli_spin_try_lock_irq(struct vli_spinlock *lock,
                                                       enum vli_rank rank, unsigned long *flags)
    VL_TRY_ACQUIRE(true, lock) VL_NO_LOCK_CHECK
{
    *flags = vl_host_irq_save();
    if (!vli_spin_raw_try_lock(lock)) {
        vl_host_irq_restore(*flags);
        return false;
    }
    vli_rank_push_any(rank);
    return true;
}

static inline void vli_spin_unlock_irq(struct vli_spinlock *lock, enum vli_rank rank,
                                       unsigned long flags) VL_RELEASE(lock) VL_NO_LOCK_CHECK
{
    vli_spin_raw_unlock(lock);
    vli_rank_pop(rank);
    vl_host_irq_restore(flags);
}

#endif
