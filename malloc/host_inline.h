/*
 * host_inline.h - the hot part of the host contract inside a Linux process that uses the core as
 * its malloc. Included by <vellum/host.h>; nothing else needs to include it.
 *
 * Physical memory is one reserved range of addresses; physical address 0 is its first byte. There
 * is one CPU, number 0, as far as the core's per-CPU data goes: threads are preempted anywhere, so
 * what the core changes "with interrupts off" is under a lock of its own here, or is per CPU by
 * restartable sequences (arch/rseq.h). Spin locks are mutexes that sleep: who holds one may be
 * preempted, and whoever spins meanwhile burns the CPU that the holder needs.
 */
#ifndef MALLOC_HOST_INLINE_H
#define MALLOC_HOST_INLINE_H

#include <stdatomic.h>
#include <vellum/types.h>

/* First byte of the range. Set once, before the core starts. */
extern _Atomic(unsigned char *) vli_range_base __attribute__((visibility("hidden")));
#define VL_HOST_PHYS_LINEAR 1

static inline void *vl_host_phys_to_virt(struct vl_pa pa)
{
    return atomic_load_explicit(&vli_range_base, memory_order_relaxed) + pa.a;
}
#define vl_host_phys_to_virt vl_host_phys_to_virt

static inline unsigned vl_host_cpu_id(void)
{
    return 0;
}
#define vl_host_cpu_id vl_host_cpu_id

extern unsigned char vli_malloc_percpu[];
static inline void *vl_host_percpu_area(unsigned cpu)
{
    (void)cpu;
    return vli_malloc_percpu;
}
#define vl_host_percpu_area vl_host_percpu_area

static inline void vl_host_preempt_off(void)
{
}
#define vl_host_preempt_off vl_host_preempt_off

static inline void vl_host_preempt_on(void)
{
}
#define vl_host_preempt_on vl_host_preempt_on

static inline void vl_host_cpu_relax(void)
{
    __builtin_ia32_pause();
}
#define vl_host_cpu_relax vl_host_cpu_relax

extern _Thread_local struct vl_thread vli_malloc_thread;
static inline struct vl_thread *vl_host_thread(void)
{
    return &vli_malloc_thread;
}
#define vl_host_thread vl_host_thread

/* ---- locks: 0 free, 1 held, 2 held and somebody sleeps; 3 and 4: the same, held around fork() by
 * who forks, for whom it is as if it were free (fork.c) ---- */

#define VLI_MUTEX_FORK       3u
#define VLI_MUTEX_FORK_SLEEP 4u

/** vli_mutex_wait() - take a lock that was found held: spin a little, then sleep. */
void vli_mutex_wait(_Atomic uint32_t *word);
/** vli_mutex_wake() - wake one sleeper. */
void vli_mutex_wake(_Atomic uint32_t *word);

static inline bool vl_host_try_lock(_Atomic uint32_t *word)
{
    uint32_t free = 0;

    /* Acquire: pairs with the release in vl_host_unlock(). */
    return atomic_compare_exchange_strong_explicit(word, &free, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

static inline void vl_host_lock(_Atomic uint32_t *word)
{
    if (__builtin_expect(!vl_host_try_lock(word), 0)) {
        vli_mutex_wait(word);
    }
}

static inline void vl_host_unlock(_Atomic uint32_t *word)
{
    if (__builtin_expect(atomic_load_explicit(word, memory_order_relaxed) >= VLI_MUTEX_FORK, 0)) {
        return;
    }
    /* Release: pairs with the acquires of the next taker. */
    if (__builtin_expect(atomic_exchange_explicit(word, 0, memory_order_release) == 2, 0)) {
        vli_mutex_wake(word);
    }
}
#define VL_HOST_LOCK 1

/* ---- how much is kept ----
 *
 * More than in a kernel: what nobody needed for a purge delay is drained (range.c), and so is
 * everything before the heap would grow. Slabs of up to 1 MiB, whose free pages can be given back
 * one by one, for objects of up to 32 KiB. */
#define VL_HOST_SHEAF_BYTES (1u << 20)
/* Or else two threads that come and go among some thousand objects meet at the locks all the time.
 */
#define VL_HOST_SHEAF_BYTES_MIN    (64u << 10)
#define VL_HOST_BARN_FULL          1024u
#define VL_HOST_BARN_SHARE         1u
#define VL_HOST_BARN_BYTES         (1u << 30)
#define VL_HOST_BARN_VACANT        1024u
#define VL_HOST_SLAB_TRIES_WITHOUT 0
#define VL_HOST_SHEAF_HOW          (VL_WAIT | VL_MAY_FAIL)
#define VL_HOST_SLABS_KEPT         UINT32_MAX
#define VL_HOST_SLAB_ORDER         7u
#define VL_HOST_SLAB_ORDER_LARGE   8u
#define VL_HOST_CACHE_BYTES        32768u

/* Which cache a page belongs to, by a byte for each (range.c). */
#define VL_HOST_SLAB_MAP 1

static inline unsigned long vl_host_irq_save(void)
{
    return 0;
}

static inline void vl_host_irq_restore(unsigned long flags)
{
    (void)flags;
}
#define vl_host_irq_save    vl_host_irq_save
#define vl_host_irq_restore vl_host_irq_restore

#endif
