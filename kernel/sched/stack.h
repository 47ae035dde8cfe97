/*
 * stack.h - kernel stacks: 16 KiB each, with an unmapped page below.
 */
#ifndef KERNEL_SCHED_STACK_H
#define KERNEL_SCHED_STACK_H

#include <vellum/types.h>

/** stack_alloc() - Returns: its top (16-aligned), or 0 without memory. Context: may sleep. */
VL_MUST_CHECK uintptr_t stack_alloc(void);

/** stack_free() - keep it for the next. Context: any. */
void stack_free(uintptr_t top);

/** stacks_drain() - unmap all that are kept and give their frames back. Context: thread. */
void stacks_drain(void);

#endif
