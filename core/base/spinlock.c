/*
 * spinlock.c - the slow side of ticket locks.
 *
 * The waiter reads one word and writes nothing, so that waiting costs the holder one cache miss at
 * its unlock. Its distance in the queue says how long to pause between reads: a lock that is n
 * holders away cannot be ours before n unlocks.
 */
#include "core/base/spinlock.h"

#if VL_SMP && !defined(VL_HOST_LOCK)
void vli_spin_wait_slow(struct vli_spinlock *lock, uint16_t ticket)
{
    uint16_t distance;

    for (;;) {
        /* Acquire: pairs with the release in vli_spin_raw_unlock(). */
        distance = (uint16_t)(ticket -
                              atomic_load_explicit(&lock->word.half.serving, memory_order_acquire));
        if (distance == 0) {
            return;
        }
        for (uint16_t i = 0; i < distance; i++) {
            vl_host_cpu_relax();
        }
    }
}
#endif
