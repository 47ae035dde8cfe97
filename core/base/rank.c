/*
 * rank.c - the order of locks, checked at each acquisition (debug builds).
 *
 * Ranks of sleeping locks stand in the thread, those of spin locks in the CPU: a thread keeps its
 * sleeping locks when it moves, and a spin lock's holder does not move. The arrays are changed by
 * their owner alone, with interrupts off: one that came in the middle of a change would write its
 * own locks over the entry that is about to count.
 *
 * The new lock's rank must be above all held ones, not only above the last: a try_ lock may be
 * taken against the order (it cannot wait, so it cannot close a cycle) and makes the array
 * unsorted.
 */
#include "core/base/rank.h"

#ifdef VL_DEBUG
#include "core/base/log.h"
#include "core/base/percpu.h"

#define FIRST_SPIN VLI_RANK_TABLE

/* What one thread or CPU holds. */
struct held {
    uint8_t *ranks;
    unsigned count;
    unsigned max;
};

static struct held held_of(enum vli_rank rank, struct vli_percpu *cpu, struct vl_thread *thread)
{
    if (rank >= FIRST_SPIN) {
        return (struct held){cpu->ranks, cpu->rank_count, VLI_COUNT_OF(cpu->ranks)};
    }
    return (struct held){thread->ranks, thread->depth, VLI_COUNT_OF(thread->ranks)};
}

static void set_count(enum vli_rank rank, unsigned count)
{
    if (rank >= FIRST_SPIN) {
        vli_this_cpu()->rank_count = count;
    } else {
        vl_host_thread()->depth = (uint16_t)count;
    }
}

void vli_rank_push_any(enum vli_rank rank)
{
    unsigned long flags = vl_host_irq_save();
    struct held held = held_of(rank, vli_this_cpu(), vl_host_thread());

    if (held.count >= held.max) {
        vli_panic("lock rank %u: more than %u locks held", (unsigned)rank, held.max);
    }
    held.ranks[held.count] = (uint8_t)rank;
    set_count(rank, held.count + 1);
    vl_host_irq_restore(flags);
}

void vli_rank_push(enum vli_rank rank)
{
    unsigned long flags = vl_host_irq_save();
    struct held held = held_of(rank, vli_this_cpu(), vl_host_thread());

    for (unsigned i = 0; i < held.count; i++) {
        if (held.ranks[i] >= (uint8_t)rank) {
            vli_panic("lock order: rank %u asked for while rank %u is held", (unsigned)rank,
                      (unsigned)held.ranks[i]);
        }
    }
    if (rank < FIRST_SPIN && vli_this_cpu()->rank_count != 0) {
        vli_panic("lock order: sleeping lock of rank %u asked for while a spin lock of rank %u "
                  "is held",
                  (unsigned)rank, (unsigned)vli_this_cpu()->ranks[0]);
    }
    vl_host_irq_restore(flags);
    vli_rank_push_any(rank);
}

void vli_rank_pop(enum vli_rank rank)
{
    unsigned long flags = vl_host_irq_save();
    struct held held = held_of(rank, vli_this_cpu(), vl_host_thread());
    unsigned at;

    for (at = held.count; at > 0 && held.ranks[at - 1] != (uint8_t)rank; at--) {
    }
    if (at == 0) {
        vli_panic("lock of rank %u released, which is not held", (unsigned)rank);
    }
    for (; at < held.count; at++) {
        held.ranks[at - 1] = held.ranks[at];
    }
    set_count(rank, held.count - 1);
    vl_host_irq_restore(flags);
}

void vli_rank_assert_no_spin(void)
{
    vl_host_preempt_off();
    if (vli_this_cpu()->rank_count != 0) {
        vli_panic("a spin lock of rank %u is held where none may be",
                  (unsigned)vli_this_cpu()->ranks[0]);
    }
    vl_host_preempt_on();
}

void vli_rank_assert_none(void)
{
    struct vl_thread *thread = vl_host_thread();

    if (thread->depth != 0) {
        vli_panic("a lock of rank %u is held where none may be", (unsigned)thread->ranks[0]);
    }
    vli_rank_assert_no_spin();
}
#endif
