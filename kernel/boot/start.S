/*
 * start.S - from the loader to C.
 *
 * PVH (Xen's "PHYS32_ENTRY", also what QEMU's -kernel uses for an ELF file that carries the note):
 * 32-bit protected mode, paging off, flat segments, %ebx holds the physical address of struct
 * hvm_start_info. The code below clears .bss, makes tables that map the first GiB three times (at
 * its own address, in the direct map, at the image's addresses), switches to long mode and calls
 * boot_main(). boot_main() replaces the tables by the final ones, which have no low mapping.
 */
#define KERNEL_VMA 0xffffffff80000000
#define PHYS(x)    ((x) - KERNEL_VMA)

    .section .note.Xen, "a", @note
    .balign 4
    .long 4             /* length of the name */
    .long 8             /* length of the value */
    .long 18            /* XEN_ELFNOTE_PHYS32_ENTRY */
    .asciz "Xen"
    .quad PHYS(boot_start)

    .section .text.boot, "ax"
    .code32
    .global boot_start
    .type boot_start, @function
boot_start:
    cli
    cld
    movl %ebx, %ebp
    /* .bss: from the file's end of data to bss_end. */
    movl $PHYS(bss_start), %edi
    movl $PHYS(bss_end), %ecx
    subl %edi, %ecx
    shrl $2, %ecx
    xorl %eax, %eax
    rep stosl

    /* 512 large pages: the first GiB. */
    movl $PHYS(boot_pd), %edi
    movl $0x83, %eax    /* present, writable, large */
    movl $512, %ecx
1:  movl %eax, (%edi)
    addl $0x200000, %eax
    addl $8, %edi
    loop 1b
    movl $(PHYS(boot_pd) + 3), PHYS(boot_pdpt)           /* low, and the direct map */
    movl $(PHYS(boot_pd) + 3), PHYS(boot_pdpt) + 510 * 8 /* the image */
    movl $(PHYS(boot_pdpt) + 3), PHYS(boot_pml4)
    movl $(PHYS(boot_pdpt) + 3), PHYS(boot_pml4) + 256 * 8
    movl $(PHYS(boot_pdpt) + 3), PHYS(boot_pml4) + 511 * 8

    movl $0x20, %eax    /* CR4: PAE */
    movl %eax, %cr4
    movl $PHYS(boot_pml4), %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx /* EFER: long mode on, no-execute on */
    rdmsr
    orl $0x900, %eax
    wrmsr
    movl %cr0, %eax
    orl $0x80010001, %eax /* CR0: PG, WP, PE */
    andl $0x9ffffff3, %eax /* not CD, NW, EM, TS */
    movl %eax, %cr0
    lgdt PHYS(boot_gdt_pointer)
    ljmp $8, $PHYS(boot_start64)

    .code64
boot_start64:
    movabsq $boot_high, %rax
    jmp *%rax
boot_high:
    movl $0x10, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    xorl %eax, %eax
    movl %eax, %fs
    movl %eax, %gs
    leaq boot_stack_top(%rip), %rsp
    movl %ebp, %edi
    xorl %ebp, %ebp
    pushq $0
    call boot_main
    ud2
    .size boot_start, . - boot_start

    .section .rodata
    .balign 8
boot_gdt:
    .quad 0
    .quad 0x00af9b000000ffff /* 64-bit code */
    .quad 0x00cf93000000ffff /* data */
boot_gdt_pointer:
    .word . - boot_gdt - 1
    .quad PHYS(boot_gdt)

    .section .bss.page, "aw", @nobits
    .balign 4096
    .global boot_pml4
boot_pml4:
    .skip 4096
boot_pdpt:
    .skip 4096
boot_pd:
    .skip 4096
    /* The first CPU's boot stack becomes its idle thread's stack; the page below stays unmapped in
     * the final tables. */
    .global boot_stack_guard, boot_stack_top
boot_stack_guard:
    .skip 4096
    .skip 16384
boot_stack_top:
    .section .note.GNU-stack, "", @progbits
