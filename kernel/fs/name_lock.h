/*
 * name_lock.h - the spin lock of a directory's names, and of a table of descriptors: many readers
 * or one writer.
 *
 * A path walk looks into a directory for a few dozen instructions; walks of all CPUs pass through
 * the same few directories. Readers do not wait for each other, only for a writer, and writers are
 * few: changes of one directory hold its mutex anyway. (Ticket locks are fair, but where a virtual
 * CPU may be held up by its host, each place in the line may be.)
 *
 * word: readers in the low bits, NAME_WRITER while a writer holds it or waits for the readers to
 * leave. Preemption is off while it is held. Not for interrupts.
 */
#ifndef KERNEL_FS_NAME_LOCK_H
#define KERNEL_FS_NAME_LOCK_H

#include <stdatomic.h>
#include "core/base/spinlock.h"

#define NAME_WRITER 0x80000000u

struct VL_CAPABILITY("name lock") name_lock {
    _Atomic uint32_t word;
};

static inline void name_lock_init(struct name_lock *lock)
{
    atomic_init(&lock->word, 0);
}

static inline void name_read_lock(struct name_lock *lock, enum vli_rank rank)
    VL_ACQUIRE_SHARED(lock) VL_NO_LOCK_CHECK
{
    vl_host_preempt_off();
    vli_rank_push(rank);
    /* Acquire: pairs with the release of the last writer. */
    while (VLI_UNLIKELY(
        (atomic_fetch_add_explicit(&lock->word, 1, memory_order_acquire) & NAME_WRITER) != 0)) {
        atomic_fetch_sub_explicit(&lock->word, 1, memory_order_relaxed);
        while ((atomic_load_explicit(&lock->word, memory_order_relaxed) & NAME_WRITER) != 0) {
            vl_host_cpu_relax();
        }
    }
}

static inline void name_read_unlock(struct name_lock *lock, enum vli_rank rank)
    VL_RELEASE_SHARED(lock) VL_NO_LOCK_CHECK
{
    /* Release: pairs with the acquire of the next writer. */
    atomic_fetch_sub_explicit(&lock->word, 1, memory_order_release);
    vli_rank_pop(rank);
    vl_host_preempt_on();
}

static inline void name_write_lock(struct name_lock *lock, enum vli_rank rank)
    VL_ACQUIRE(lock) VL_NO_LOCK_CHECK
{
    vl_host_preempt_off();
    vli_rank_push(rank);
    /* Acquire: pairs with the release of the last writer. */
    while ((atomic_fetch_or_explicit(&lock->word, NAME_WRITER, memory_order_acquire) &
            NAME_WRITER) != 0) {
        while ((atomic_load_explicit(&lock->word, memory_order_relaxed) & NAME_WRITER) != 0) {
            vl_host_cpu_relax();
        }
    }
    /* Acquire: pairs with the release of the readers. */
    while ((atomic_load_explicit(&lock->word, memory_order_acquire) & ~NAME_WRITER) != 0) {
        vl_host_cpu_relax();
    }
}

static inline void name_write_unlock(struct name_lock *lock, enum vli_rank rank)
    VL_RELEASE(lock) VL_NO_LOCK_CHECK
{
    /* Release: pairs with the acquires of whoever comes next. */
    atomic_fetch_and_explicit(&lock->word, ~NAME_WRITER, memory_order_release);
    vli_rank_pop(rank);
    vl_host_preempt_on();
}

#endif
