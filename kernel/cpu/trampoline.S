/*
 * trampoline.S - from a CPU's reset to long mode.
 *
 * Copied to a page below 1 MiB, run there: %cs holds the page's segment. Addresses inside are
 * computed from %ebx, the page's physical address. Protected mode is skipped: setting PG and PE
 * together from real mode, with EFER.LME set, gives long mode at once.
 */
#include "kernel/cpu/trap.h"

    .section .rodata
    .balign 16
    .global trampoline_start, trampoline_end, trampoline_data
    .code16
trampoline_start:
    cli
    cld
    movw %cs, %ax
    movw %ax, %ds
    xorl %ebx, %ebx
    movw %ax, %bx
    shll $4, %ebx
    /* The far pointer and the GDT's address need the page's place. */
    movl %ebx, %eax
    addl $(long_mode - trampoline_start), %eax
    movl %eax, far_pointer - trampoline_start
    movl %ebx, %eax
    addl $(gdt - trampoline_start), %eax
    movl %eax, gdt_pointer - trampoline_start + 2
    lgdtl gdt_pointer - trampoline_start
    movl $0x20, %eax        /* PAE */
    movl %eax, %cr4
    movl trampoline_data - trampoline_start, %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx
    rdmsr
    orl $0x900, %eax        /* LME, NXE */
    wrmsr
    movl $0x80010011, %eax  /* PG, WP, ET, PE */
    movl %eax, %cr0
    ljmpl *(far_pointer - trampoline_start)

    .code64
long_mode:
    movl $SEL_KERNEL_DATA, %eax
    movl %eax, %ss
    movl %eax, %ds
    movl %eax, %es
    movq trampoline_data - trampoline_start + 16(%rbx), %rsp
    movq trampoline_data - trampoline_start + 24(%rbx), %rdi
    xorl %ebp, %ebp
    jmp *trampoline_data - trampoline_start + 8(%rbx)

    .balign 8
gdt:
    .quad 0
    .quad 0x00af9b000000ffff
    .quad 0x00cf93000000ffff
gdt_pointer:
    .word 23
    .long 0
    .balign 4
far_pointer:
    .long 0
    .word SEL_KERNEL_CODE
    .balign 8
trampoline_data:            /* struct trampoline_data: root, entry, stack top, cpu */
    .quad 0, 0, 0, 0
trampoline_end:

    .section .note.GNU-stack, "", @progbits
