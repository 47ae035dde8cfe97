/*
 * gs.h - where the hot fields of struct cpu stand, as numbers: for assembly and for the inline
 * accessors that must not need the whole struct. cpu.c asserts each against the struct.
 */
#ifndef KERNEL_CPU_GS_H
#define KERNEL_CPU_GS_H

#define GS_SELF         0  /* struct cpu *: its own address */
#define GS_CURRENT      8  /* struct thread *: the running thread */
#define GS_KERNEL_STACK 16 /* top of the running thread's kernel stack */
#define GS_USER_STACK   24 /* scratch of the syscall entry */
#define GS_PREEMPT      32 /* uint32_t: depth of preemption-off, and PREEMPT_NO_RESCHED */
#define GS_ID           36 /* uint32_t: the CPU's number */
#define GS_IRQ_DEPTH    40 /* uint32_t: interrupt handlers running */
/* The core's per-CPU area: VL_HOST_PERCPU_GS. */
#define GS_CORE_AREA 4096

/* Set in the preemption word while nobody asked for a switch, so that one decrement that gives
 * zero means both "depth is zero" and "a switch is due". */
#define PREEMPT_NO_RESCHED 0x80000000u

#endif
