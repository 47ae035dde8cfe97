/*
 * irq.h - interrupt vectors and what answers them.
 */
#ifndef KERNEL_CPU_IRQ_H
#define KERNEL_CPU_IRQ_H

#include "kernel/cpu/trap.h"

#define IRQ_FIRST_VECTOR 32u
/* Interrupts of this kernel's own, above the devices'. */
#define VECTOR_TIMER    0xf0u
#define VECTOR_RESCHED  0xf1u
#define VECTOR_FLUSH    0xf2u
#define VECTOR_CALL     0xf3u
#define VECTOR_SPURIOUS 0xffu

/** irq_set_vector() - @handler answers @vector from now on. Context: start-up. */
void irq_set_vector(unsigned vector, irq_handler_fn *handler, void *arg);

/** irq_is_from_user() - did the interrupt being handled on this CPU find user code? */
bool irq_is_from_user(void);

/** irq_init() - mask the old interrupt controllers, set up the I/O APICs. Context: start-up. */
void irq_init(void);

#endif
