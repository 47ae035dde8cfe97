/*
 * entry.h - what entry.S calls in C, and what it offers to the scheduler.
 */
#ifndef KERNEL_CPU_ENTRY_H
#define KERNEL_CPU_ENTRY_H

#include "kernel/cpu/trap.h"

/** page_fault_unresolved() - from user mode, and vl_space_fault() said @status. Context: interrupts
 * on; rbx, rbp, r12–r15 stale. */
void page_fault_unresolved(struct trap_frame *frame, uintptr_t address, enum vl_status status);
/** fault_access - for vl_space_fault(), by the low bits of a page fault's error code. */
extern const uint8_t fault_access[32];
/** page_fault_kernel() - from kernel mode: a user copy, or a bug. Context: interrupts off. */
void page_fault_kernel(struct trap_frame *frame, uintptr_t address);
/** trap_user() - any other exception, from user mode. Context: interrupts on. */
void trap_user(unsigned vector, struct trap_frame *frame);
/** trap_kernel() - any other exception, from kernel mode. Context: interrupts off. */
void trap_kernel(unsigned vector, struct trap_frame *frame);
/** trap_paranoid() - NMI, double fault, machine check, on their own stacks. */
void trap_paranoid(unsigned vector, struct trap_frame *frame);
/** trap_work() - all that is due before going back to user mode: switch, signals; makes the frame
 * safe to return to. Context: thread; interrupts off at entry and exit. */
void trap_work(struct trap_frame *frame);
/** irq_handle() - an interrupt. Context: interrupts off. */
void irq_handle(unsigned vector, struct trap_frame *frame);

/** switch_stacks() - save the preserved registers and %rsp, continue on another stack. */
void switch_stacks(uintptr_t *save_sp, uintptr_t load_sp);
/** thread_start_user() - first code of a user thread (reached by switch_stacks() only). */
void thread_start_user(void);
/** thread_start_kernel() - first code of a kernel thread. */
void thread_start_kernel(void);

#endif
