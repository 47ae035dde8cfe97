/*
 * arch/vfork.h (x86-64) - vfork() for who works on per-CPU sheaves (arch/rseq.h).
 *
 * A child of vfork() has its parent's memory and thread pointer, and with them the parent's struct
 * rseq; but Linux has registered it for the parent alone: the number of the CPU in it is not the
 * child's, and no sequence of the child's is restarted. Other threads of the program run on. So the
 * child's first act is to write -2 for the number, which is what libc has there when registration
 * failed: all fast paths find the stopped area, and every block is taken from its slab and given to
 * it under locks.
 *
 *      parent     vfork ................ sleeps ............... cpu_id = cpu_id_start
 *      child           cpu_id = -2    malloc, free    execve
 *
 * When the child is gone its parent puts the number right: from cpu_id_start, which Linux keeps for
 * the parent and the child leaves alone, in a sequence of its own, since the parent may be moved
 * meanwhile. A child of a child finds a negative number and changes nothing.
 *
 * The call must not return through the stack, where the child's calls have been by the time that
 * the parent returns: the return address is kept in a register, as every vfork() does. Registers
 * are the kernel's to keep for each of the two: rdi the return address, r8 the offset of struct
 * rseq, r9 the number before.
 *
 * Defined in malloc/vfork.c. Weak, so that a static libc may have one, too.
 */
#ifndef VLI_ARCH_VFORK_H
#define VLI_ARCH_VFORK_H

#include <stdint.h>

/** vli_vfork_offset() - from the thread pointer to struct rseq where sheaves are CPUs'; 0: there is
 * nothing to do. Starts the heap, which the child must not do. */
int64_t vli_vfork_offset(void) __attribute__((visibility("hidden")));

/** vli_vfork_put_right() - the number in this thread's struct rseq is the one that Linux keeps for
 * it again. It changes no register but rcx. */
void vli_vfork_put_right(int64_t offset) __attribute__((visibility("hidden")));

/* 1: the call; behind it the child; 2: the parent, whose sequence is 3 to 8; 5: its descriptor; 6:
 * its abort handler; 7: an error. 58 is the call's number. */
#define VLI_VFORK_DEFINE                                                                           \
    __asm__(".text\n"                                                                              \
            ".balign 16\n"                                                                         \
            ".weak vfork\n"                                                                        \
            ".weak __vfork\n"                                                                      \
            ".type vfork, @function\n"                                                             \
            ".type __vfork, @function\n"                                                           \
            "vfork:\n"                                                                             \
            "__vfork:\n\t"                                                                         \
            "subq $8, %rsp\n\t"                                                                    \
            "call vli_vfork_offset\n\t"                                                            \
            "addq $8, %rsp\n\t"                                                                    \
            "popq %rdi\n\t"                                                                        \
            "movl $-1, %r9d\n\t"                                                                   \
            "movq %rax, %r8\n\t"                                                                   \
            "testq %r8, %r8\n\t"                                                                   \
            "jz 1f\n\t"                                                                            \
            "movl %fs:4(%r8), %r9d\n"                                                              \
            "1:\n\t"                                                                               \
            "movl $58, %eax\n\t"                                                                   \
            "syscall\n\t"                                                                          \
            "pushq %rdi\n\t"                                                                       \
            "testl %r9d, %r9d\n\t"                                                                 \
            "js 4f\n\t"                                                                            \
            "testq %rax, %rax\n\t"                                                                 \
            "jnz 2f\n\t"                                                                           \
            "movl $-2, %fs:4(%r8)\n\t"                                                             \
            "ret\n"                                                                                \
            "2:\n\t"                                                                               \
            "movq %r8, %rdi\n\t"                                                                   \
            "call vli_vfork_put_right\n"                                                           \
            "4:\n\t"                                                                               \
            "cmpq $-4096, %rax\n\t"                                                                \
            "ja 7f\n\t"                                                                            \
            "ret\n"                                                                                \
            "7:\n\t"                                                                               \
            "negl %eax\n\t"                                                                        \
            "pushq %rax\n\t"                                                                       \
            "call __errno_location@PLT\n\t"                                                        \
            "popq %rcx\n\t"                                                                        \
            "movl %ecx, (%rax)\n\t"                                                                \
            "movq $-1, %rax\n\t"                                                                   \
            "ret\n\t"                                                                              \
            ".size vfork, . - vfork\n\t"                                                           \
            ".globl vli_vfork_put_right\n\t"                                                       \
            ".hidden vli_vfork_put_right\n\t"                                                      \
            ".type vli_vfork_put_right, @function\n"                                               \
            "vli_vfork_put_right:\n\t"                                                             \
            "leaq 5f(%rip), %rcx\n\t"                                                              \
            "movq %rcx, %fs:8(%rdi)\n"                                                             \
            "3:\n\t"                                                                               \
            "movl %fs:0(%rdi), %ecx\n\t"                                                           \
            "movl %ecx, %fs:4(%rdi)\n"                                                             \
            "8:\n\t"                                                                               \
            "ret\n\t"                                                                              \
            ".byte 0x0f, 0xb9, 0x3d\n\t"                                                           \
            ".long 0x53053053\n"                                                                   \
            "6:\n\t"                                                                               \
            "jmp vli_vfork_put_right\n\t"                                                          \
            ".size vli_vfork_put_right, . - vli_vfork_put_right\n\t"                               \
            ".pushsection __rseq_cs, \"aw\", @progbits\n\t"                                        \
            ".balign 32\n"                                                                         \
            "5:\n\t"                                                                               \
            ".long 0, 0\n\t"                                                                       \
            ".quad 3b, 8b - 3b, 6b\n\t"                                                            \
            ".popsection")

#endif
