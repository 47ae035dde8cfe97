/*
 * trap.h - what the CPU's entries save, and what the rest of the kernel hangs into them.
 *
 * One frame for all three ways in (syscall, exception, interrupt), at the top of the thread's
 * kernel stack when it comes from user mode: current_frame().
 *
 * The six registers that C functions preserve (rbx, rbp, r12–r15) are in the frame only
 *   - inside syscalls entered through a SYSCALL_FULL stub (entry.S): fork, vfork, clone, execve,
 *     rt_sigreturn and their like;
 *   - inside proc_return_work(), where signals are delivered;
 *   - after an exception in kernel mode.
 * Elsewhere they are still in the CPU or on the kernel stack, and those six fields are stale: that
 * saves twelve instructions on each entry. A change to them takes effect in the places named.
 */
#ifndef KERNEL_CPU_TRAP_H
#define KERNEL_CPU_TRAP_H

/* Offsets for assembly; trap.c asserts them. */
#define TF_R15    0
#define TF_R14    8
#define TF_R13    16
#define TF_R12    24
#define TF_RBP    32
#define TF_RBX    40
#define TF_R11    48
#define TF_R10    56
#define TF_R9     64
#define TF_R8     72
#define TF_RAX    80
#define TF_RCX    88
#define TF_RDX    96
#define TF_RSI    104
#define TF_RDI    112
#define TF_ERROR  120
#define TF_RIP    128
#define TF_CS     136
#define TF_RFLAGS 144
#define TF_RSP    152
#define TF_SS     160
#define TF_SIZE   168

/* Segment selectors. SYSRET wants user data right before user code. */
#define SEL_KERNEL_CODE 0x08
#define SEL_KERNEL_DATA 0x10
#define SEL_USER_DATA   0x2b
#define SEL_USER_CODE   0x33
#define SEL_TSS         0x40

#define RFLAGS_CF  0x00000001
#define RFLAGS_ONE 0x00000002
#define RFLAGS_TF  0x00000100
#define RFLAGS_IF  0x00000200
#define RFLAGS_DF  0x00000400
#define RFLAGS_NT  0x00004000
#define RFLAGS_RF  0x00010000
#define RFLAGS_AC  0x00040000
/* What a user may set by sigreturn or popf: CF PF AF ZF SF TF DF OF RF AC. */
#define RFLAGS_USER 0x00050dd5

#ifndef __ASSEMBLER__

#include <vellum/types.h>

struct trap_frame {
    uint64_t r15, r14, r13, r12, rbp, rbx; /* see above: not always valid */
    uint64_t r11, r10, r9, r8;
    uint64_t rax; /* the syscall's result on the way out */
    uint64_t rcx, rdx, rsi, rdi;
    uint64_t error; /* syscall: its number (Linux: orig_rax); exception: error code, otherwise -1 */
    uint64_t rip, cs, rflags, rsp, ss;
};
_Static_assert(sizeof(struct trap_frame) == TF_SIZE, "entry.S relies on it");

/** trap_is_user() - did it come from user mode? */
static inline bool trap_is_user(const struct trap_frame *frame)
{
    return (frame->cs & 3u) != 0;
}

/* Exceptions, by vector. */
enum trap_vector {
    TRAP_DIVIDE = 0,
    TRAP_DEBUG = 1,
    TRAP_NMI = 2,
    TRAP_BREAKPOINT = 3,
    TRAP_OVERFLOW = 4,
    TRAP_BOUND = 5,
    TRAP_INVALID_OPCODE = 6,
    TRAP_NO_FPU = 7,
    TRAP_DOUBLE_FAULT = 8,
    TRAP_INVALID_TSS = 10,
    TRAP_NO_SEGMENT = 11,
    TRAP_STACK = 12,
    TRAP_PROTECTION = 13,
    TRAP_PAGE_FAULT = 14,
    TRAP_FPU = 16,
    TRAP_ALIGNMENT = 17,
    TRAP_MACHINE_CHECK = 18,
    TRAP_SIMD = 19
};

/* Page-fault error code. */
#define PF_PRESENT  1u
#define PF_WRITE    2u
#define PF_USER     4u
#define PF_RESERVED 8u
#define PF_FETCH    16u

/* An exception that user code raised and the kernel did not resolve. */
struct user_fault {
    enum trap_vector vector;
    uint64_t error;        /* the CPU's error code */
    uint64_t address;      /* page fault: CR2; otherwise rip */
    enum vl_status status; /* page fault: what vl_space_fault() said (VL_EFAULT: no area there,
                            * VL_EACCES: not allowed, VL_EBUSERROR, VL_ENOMEM …) */
};

/* ------------------------------------------------- supplied by kernel/proc (weak defaults here) */

/**
 * proc_user_fault() - turn an unresolved exception of user code into a signal.
 * @frame: the interrupted user registers (rbx, rbp, r12–r15 stale).
 * Context: thread, interrupts on, no locks held. Post the signal (which calls thread_signal()) and
 * return; delivery follows in proc_return_work().
 */
void proc_user_fault(struct trap_frame *frame, const struct user_fault *fault);

/**
 * proc_return_work() - the thread is about to go back to user mode and thread_signal() was called
 * for it: deliver signals, stop, or exit.
 * @frame: all registers valid; may be changed at will.
 * Context: thread, interrupts on, no locks held. The pending mark was cleared before the call; it
 * is called again when the mark is set meanwhile.
 */
void proc_return_work(struct trap_frame *frame);

/* A syscall: arguments as they stand in registers, the result (or negated errno) returned. */
typedef long syscall_fn(long a, long b, long c, long d, long e, long f);

/* Length of syscall_table; a number beyond goes to syscall_unknown(). */
#define SYSCALL_COUNT 512

/* Every entry is non-NULL: fill holes with syscall_unknown. */
extern syscall_fn *const syscall_table[SYSCALL_COUNT];

/** syscall_unknown() - -ENOSYS and a log line; current_frame()->error holds the number. */
long syscall_unknown(long a, long b, long c, long d, long e, long f);

/** full_sys_NAME() - stubs in entry.S: save the six registers, then go to sys_NAME. Put these
 * into syscall_table for calls that need the whole frame. */
syscall_fn full_sys_fork, full_sys_vfork, full_sys_clone, full_sys_clone3, full_sys_execve,
    full_sys_execveat, full_sys_rt_sigreturn;

/* ------------------------------------------------------------------ supplied by kernel/cpu */

/** current_frame() - the user registers of the running thread, at the top of its kernel stack. */
static inline struct trap_frame *current_frame(void);

/** trap_frame_user_init() - a frame for a program's start: all registers zero, flags clean. */
void trap_frame_user_init(struct trap_frame *frame, uint64_t rip, uint64_t rsp);

/**
 * trap_return_to_user() - leave for user mode with current_frame() as it is now.
 * For a kernel thread that has become the first program. Context: thread. Does not return.
 */
_Noreturn void trap_return_to_user(void);

#include "kernel/cpu/cpu.h"

static inline struct trap_frame *current_frame(void)
{
    uintptr_t top;

    __asm__("movq %%gs:%c1, %0" : "=r"(top) : "i"(GS_KERNEL_STACK));
    return (struct trap_frame *)(top - sizeof(struct trap_frame));
}

/*
 * The exception table: {address of an instruction that may fault, address to go on at}. An entry is
 * written next to the instruction by EXTABLE(from, to) within __asm__; the section is sorted by
 * the first use. A fault in kernel mode at an address that is not there panics.
 */
#define EXTABLE(from, to)                                                                          \
    ".pushsection .extable, \"a\"\n\t"                                                             \
    ".balign 8\n\t"                                                                                \
    ".quad " from ", " to "\n\t"                                                                   \
    ".popsection\n\t"

#endif
#endif
