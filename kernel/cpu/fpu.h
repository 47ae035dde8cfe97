/*
 * fpu.h - the x87, SSE, AVX … state of user threads, in the layout that XSAVE (or FXSAVE) gives.
 *
 * The kernel itself uses none of it. State is saved when a user thread is switched out and
 * restored on its way back to user mode, unless the registers still hold it.
 */
#ifndef KERNEL_CPU_FPU_H
#define KERNEL_CPU_FPU_H

#include <vellum/types.h>

struct thread;

/** fpu_area_bytes() - size of a thread's area, by CPUID; the area is aligned to 64. */
size_t fpu_area_bytes(void);

/** fpu_user_bytes() - size of the image in a signal frame: the area in standard (not compacted)
 * format plus the 4-byte FP_XSTATE_MAGIC2 that Linux puts behind it. */
size_t fpu_user_bytes(void);

/** fpu_reset() - the running thread's state becomes that of a fresh program (execve). */
void fpu_reset(void);

/**
 * fpu_save_to_user() - write the running thread's state at @user (64-aligned) as Linux's signal
 * frame has it: FXSAVE image, sw_reserved with FP_XSTATE_MAGIC1, XSAVE header, MAGIC2.
 * Context: thread, may sleep. Returns: VL_OK or VL_EFAULT.
 */
VL_MUST_CHECK enum vl_status fpu_save_to_user(uint64_t user);

/**
 * fpu_load_from_user() - take the running thread's state from a signal frame; 0 gives the initial
 * state. Hostile images (reserved bits of MXCSR or of the XSAVE header) are refused.
 * Returns: VL_OK; VL_EFAULT; VL_EINVAL.
 */
VL_MUST_CHECK enum vl_status fpu_load_from_user(uint64_t user);

/** fpu_init() - choose the instructions. Context: once, first CPU, after cpu_features_enable(). */
void fpu_init(void);

/** fpu_first_use() - the running @thread, so far the kernel's, is to run user code: fresh state. */
void fpu_first_use(struct thread *thread);

/** fpu_copy_to() - give @child (not yet started) a copy of the running thread's state. */
void fpu_copy_to(struct thread *child);

#endif
