/*
 * entry.S - the ways into the kernel and out of it.
 *
 * All build one struct trap_frame (trap.h) on the kernel stack, with 8 bytes of padding below, so
 * that %rsp is a multiple of 16 at each call into C (the CPU aligns the stack before it pushes,
 * and a frame has 21 words). F is that padding.
 *
 * The registers that C preserves are not saved on the fast paths; frames have room for them, which
 * the slow ways out (signals, switches) and the SYSCALL_FULL stubs fill. Coming from user mode, each
 * entry does swapgs first and clears AC and DF; going back, swapgs is last. The three exceptions
 * that can strike anywhere (NMI, double fault, machine check) have stacks of their own and look at
 * the GS base itself to learn whether swapgs is due.
 *
 * sysret is used only by the plain syscall path, whose return address is the one that the CPU gave
 * in %rcx. It is canonical: user mappings end a page below the end of the canonical half, so that no
 * syscall instruction can be its last. Every frame that somebody may have changed leaves by iretq,
 * after trap_work() has checked it.
 */
#include "kernel/cpu/gs.h"
#include "kernel/cpu/trap.h"

#define F 8
#define WORK_OFFSET  24 /* of thread.work; sched.c asserts it */
#define SPACE_OFFSET 48 /* of thread.space; likewise */
#define SYSCALL_MAX 511

    .section .text.entry, "ax"

/* Place-holder for clac; see smap.h. */
.macro SMAP_CLOSE
771:.byte 0x0f, 0x1f, 0x00
    .pushsection .clac_sites, "a"
    .long 771b - .
    .popsection
.endm

/* The error code (or -1) and %rdi are on the stack already. */
.macro PUSH_REST
    pushq %rsi
    pushq %rdx
    pushq %rcx
    pushq %rax
    pushq %r8
    pushq %r9
    pushq %r10
    pushq %r11
    subq $(48 + F), %rsp
.endm

.macro POP_REST
    addq $(48 + F), %rsp
    popq %r11
    popq %r10
    popq %r9
    popq %r8
    popq %rax
    popq %rcx
    popq %rdx
    popq %rsi
    popq %rdi
    addq $8, %rsp
.endm

.macro STORE_PRESERVED
    movq %rbx, TF_RBX+F(%rsp)
    movq %rbp, TF_RBP+F(%rsp)
    movq %r12, TF_R12+F(%rsp)
    movq %r13, TF_R13+F(%rsp)
    movq %r14, TF_R14+F(%rsp)
    movq %r15, TF_R15+F(%rsp)
.endm

.macro LOAD_PRESERVED
    movq TF_RBX+F(%rsp), %rbx
    movq TF_RBP+F(%rsp), %rbp
    movq TF_R12+F(%rsp), %r12
    movq TF_R13+F(%rsp), %r13
    movq TF_R14+F(%rsp), %r14
    movq TF_R15+F(%rsp), %r15
.endm

.macro FUNCTION name
    .global \name
    .type \name, @function
    .balign 16
\name:
.endm

/* ------------------------------------------------------------------------------- syscall */

FUNCTION entry_syscall
    swapgs
    movq %rsp, %gs:GS_USER_STACK
    movq %gs:GS_KERNEL_STACK, %rsp
    pushq $SEL_USER_DATA
    pushq %gs:GS_USER_STACK
    pushq %r11
    pushq $SEL_USER_CODE
    pushq %rcx
    pushq %rax
    pushq %rdi
    PUSH_REST
    sti
    movl %eax, %eax /* the number is an int, as on Linux */
    cmpl $SYSCALL_MAX, %eax
    ja 2f
    movq %r10, %rcx
    call *syscall_table(, %rax, 8)
1:  cli
    movq %gs:GS_CURRENT, %rcx
    cmpl $0, WORK_OFFSET(%rcx)
    jne syscall_slow
    movq TF_RDI+F(%rsp), %rdi
    movq TF_RSI+F(%rsp), %rsi
    movq TF_RDX+F(%rsp), %rdx
    movq TF_R8+F(%rsp), %r8
    movq TF_R9+F(%rsp), %r9
    movq TF_R10+F(%rsp), %r10
    movq TF_RIP+F(%rsp), %rcx
    movq TF_RFLAGS+F(%rsp), %r11
    movq TF_RSP+F(%rsp), %rsp
    swapgs
    sysretq
2:  call syscall_unknown
    jmp 1b

/* Result in %rax, preserved registers live in the CPU, interrupts off. */
syscall_slow:
    movq %rax, TF_RAX+F(%rsp)
    STORE_PRESERVED
    jmp return_full

/*
 * Calls that need the whole frame: entered by call from above. They never come back to the fast
 * way out, since they may have changed the frame.
 */
.macro SYSCALL_FULL name
FUNCTION full_\name
    addq $8, %rsp
    STORE_PRESERVED
    call \name
    movq %rax, TF_RAX+F(%rsp)
    jmp return_full_irqs_on
.endm

    SYSCALL_FULL sys_fork
    SYSCALL_FULL sys_vfork
    SYSCALL_FULL sys_clone
    SYSCALL_FULL sys_clone3
    SYSCALL_FULL sys_execve
    SYSCALL_FULL sys_execveat
    SYSCALL_FULL sys_rt_sigreturn

/* ------------------------------------------------------------------------ ways to user mode */

/* void trap_return_to_user(void) */
FUNCTION trap_return_to_user
    cli
    movq %gs:GS_KERNEL_STACK, %rsp
    subq $(TF_SIZE + F), %rsp
    jmp return_full

/* Where a thread made by thread_create_user() begins: the frame stands at %rsp + F. */
FUNCTION thread_start_user
    call thread_first_run
return_full_irqs_on:
    cli
/* Frame complete and maybe changed; interrupts off. */
return_full:
    leaq F(%rsp), %rdi
    call trap_work
    LOAD_PRESERVED
    POP_REST
    swapgs
    iretq

/* Where a thread made by thread_create() begins: entry in %r12, argument in %r13 (popped by the
 * switch). */
FUNCTION thread_start_kernel
    call thread_first_run
    movq %r13, %rdi
    call *%r12
    call thread_exit
    ud2

/* From exceptions and interrupts: preserved registers live in the CPU, interrupts off. */
return_to_user:
    movq %gs:GS_CURRENT, %rax
    cmpl $0, WORK_OFFSET(%rax)
    jne 1f
    POP_REST
    swapgs
    iretq
1:  STORE_PRESERVED
    movq $-1, TF_ERROR+F(%rsp) /* an error code is no call's number, to be restarted */
    jmp return_full

return_to_kernel_full:
    LOAD_PRESERVED
return_to_kernel:
    POP_REST
    iretq

/* ----------------------------------------------------------------------------- exceptions */

/* Exceptions other than page faults; the vector in %edi. */
trap_common:
    PUSH_REST
    SMAP_CLOSE
    cld
    leaq F(%rsp), %rsi
    testb $3, TF_CS+F(%rsp)
    jz 1f
    swapgs
    sti
    call trap_user
    cli
    jmp return_to_user
1:  STORE_PRESERVED
    call trap_kernel
    jmp return_to_kernel_full

.macro TRAP name vector
FUNCTION \name
    pushq $-1
    pushq %rdi
    movl $\vector, %edi
    jmp trap_common
.endm

.macro TRAP_WITH_ERROR name vector
FUNCTION \name
    pushq %rdi
    movl $\vector, %edi
    jmp trap_common
.endm

    TRAP entry_divide 0
    TRAP entry_debug 1
    TRAP entry_breakpoint 3
    TRAP entry_overflow 4
    TRAP entry_bound 5
    TRAP entry_invalid_opcode 6
    TRAP entry_no_fpu 7
    TRAP_WITH_ERROR entry_invalid_tss 10
    TRAP_WITH_ERROR entry_no_segment 11
    TRAP_WITH_ERROR entry_stack 12
    TRAP_WITH_ERROR entry_protection 13
    TRAP entry_fpu 16
    TRAP_WITH_ERROR entry_alignment 17
    TRAP entry_simd 19

/*
 * From user mode straight to vl_space_fault(space, address, access): this is the hottest exception.
 * The address goes into the frame's place for %rbx, which is free on this path, since CR2 may have
 * changed when the core says no.
 */
FUNCTION entry_page_fault
    pushq %rdi
    PUSH_REST
    SMAP_CLOSE
    cld
    testb $3, TF_CS+F(%rsp)
    jz 1f
    swapgs
    movl TF_ERROR+F(%rsp), %eax
    movq %cr2, %rsi
    movq %rsi, TF_RBX+F(%rsp)
    sti
    andl $31, %eax
    movzbl fault_access(%rax), %edx
    testl %edx, %edx
    jz 2f
    movq %gs:GS_CURRENT, %rax
    movq SPACE_OFFSET(%rax), %rdi
    call vl_space_fault
    testl %eax, %eax
    jnz 3f
    cli
    jmp return_to_user
2:  movl $-14, %eax             /* VL_EFAULT */
3:  leaq F(%rsp), %rdi
    movq TF_RBX+F(%rsp), %rsi
    movl %eax, %edx
    call page_fault_unresolved
    cli
    jmp return_to_user
1:  STORE_PRESERVED
    leaq F(%rsp), %rdi
    movq %cr2, %rsi
    call page_fault_kernel
    jmp return_to_kernel_full

/* May strike between any two instructions, on a stack of its own. */
.macro PARANOID name vector
FUNCTION \name
.if \vector != 8
    pushq $-1
.endif
    pushq %rdi
    PUSH_REST
    STORE_PRESERVED
    SMAP_CLOSE
    cld
    xorl %ebx, %ebx
    movl $0xc0000101, %ecx  /* GS base: the kernel's is in the upper half */
    rdmsr
    testl %edx, %edx
    js 1f
    swapgs
    incl %ebx
1:  movl $\vector, %edi
    leaq F(%rsp), %rsi
    call trap_paranoid
    testl %ebx, %ebx
    jz return_to_kernel_full
    swapgs
    jmp return_to_kernel_full
.endm

    PARANOID entry_nmi 2
    PARANOID entry_double_fault 8
    PARANOID entry_machine_check 18

/* ----------------------------------------------------------------------------- interrupts */

irq_common:
    PUSH_REST
    SMAP_CLOSE
    cld
    testb $3, TF_CS+F(%rsp)
    jz 1f
    swapgs
    leaq F(%rsp), %rsi
    call irq_handle
    jmp return_to_user
1:  leaq F(%rsp), %rsi
    call irq_handle
    /* The interrupted code had interrupts on. Depth zero and a switch due: switch here. */
    cmpl $0, %gs:GS_PREEMPT
    jne return_to_kernel
    call preempt_from_irq
    jmp return_to_kernel

    .balign 16
    .global entry_irqs
entry_irqs: /* vectors 32 to 255, 16 bytes each */
    vector = 32
    .rept 224
    .balign 16
    pushq $-1
    pushq %rdi
    movl $vector, %edi
    jmp irq_common
    vector = vector + 1
    .endr

/* --------------------------------------------------------------------------------- switch */

/* void switch_stacks(uintptr_t *save_sp, uintptr_t load_sp) */
FUNCTION switch_stacks
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret

    .section .note.GNU-stack, "", @progbits
