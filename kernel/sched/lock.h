/*
 * lock.h - ranks of the kernel's own spin locks, in the core's scheme (core/base/rank.h).
 *
 * Outer ones stand below the core's spin locks, so that core calls which do not sleep may be made
 * under them; inner ones above all, so that they may be taken anywhere. Add yours in its place.
 * Locks that interrupt handlers take use vli_spin_lock_irq() everywhere.
 */
#ifndef KERNEL_SCHED_LOCK_H
#define KERNEL_SCHED_LOCK_H

#include "core/base/spinlock.h"

/* Outer: core allocation with VL_ATOMIC is allowed inside. */
#define KRANK_OUTER_1 ((enum vli_rank)16)
#define KRANK_OUTER_2 ((enum vli_rank)17)
#define KRANK_OUTER_3 ((enum vli_rank)18)
#define KRANK_OUTER_4 ((enum vli_rank)19)
/* Interrupts stay on under it, and their handlers allocate: outside of the core's ranks, too. */
#define KRANK_FUTEX ((enum vli_rank)20)
/* Inner: no core call inside; interrupts are off. */
#define KRANK_PROC    ((enum vli_rank)180) /* kernel/proc: the tree of processes, pids */
#define KRANK_SIGNAL  ((enum vli_rank)182) /* kernel/proc: one process's signals */
#define KRANK_TTY     ((enum vli_rank)190)
#define KRANK_INNER_1 ((enum vli_rank)192)
#define KRANK_INNER_2 ((enum vli_rank)193)
#define KRANK_WAIT    ((enum vli_rank)200) /* wait queues: waking is allowed under all above */
#define KRANK_TIMER   ((enum vli_rank)210)
#define KRANK_RUN     ((enum vli_rank)220) /* run queues */
#define KRANK_STACKS  ((enum vli_rank)225)
#define KRANK_LOG     ((enum vli_rank)240) /* innermost of all */

#endif
