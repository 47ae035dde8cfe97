/*
 * tables.c - descriptor tables and the registers of the syscall entry.
 *
 * Order of the GDT follows from SYSRET: user data right before 64-bit user code. The slot for
 * 32-bit user code (0x20) is empty, so that no user program can be in compatibility mode.
 */
#include "kernel/cpu/tables.h"
#include "kernel/cpu/cpu.h"
#include "kernel/cpu/io.h"
#include "kernel/cpu/trap.h"

#define GATE_INTERRUPT 0x8e00u
#define GATE_USER      0x6000u /* DPL 3: int3 and into */
#define STAR_VALUE     ((uint64_t)SEL_KERNEL_CODE << 32 | (uint64_t)0x23 << 48)
/* Cleared at syscall entry: CF TF IF DF IOPL NT RF AC and the arithmetic flags. */
#define SYSCALL_FLAGS_CLEARED 0x00257fd5u
#define IRQ_FIRST             32u

struct gate {
    uint16_t offset_low;
    uint16_t selector;
    uint16_t flags; /* IST, type, DPL, present */
    uint16_t offset_middle;
    uint32_t offset_high;
    uint32_t zero;
};

struct __attribute__((packed)) table_pointer {
    uint16_t limit;
    uint64_t base;
};

static VLI_ALIGNED(4096) struct gate idt[256];

extern const char entry_divide[], entry_debug[], entry_nmi[], entry_breakpoint[], entry_overflow[],
    entry_bound[], entry_invalid_opcode[], entry_no_fpu[], entry_double_fault[],
    entry_invalid_tss[], entry_no_segment[], entry_stack[], entry_protection[], entry_page_fault[],
    entry_fpu[], entry_alignment[], entry_machine_check[], entry_simd[], entry_irqs[],
    entry_syscall[];

static void set_gate(unsigned vector, const char *entry, unsigned ist, unsigned user)
{
    uintptr_t at = (uintptr_t)entry;

    idt[vector] = (struct gate){.offset_low = (uint16_t)at,
                                .selector = SEL_KERNEL_CODE,
                                .flags = (uint16_t)(GATE_INTERRUPT | ist | user),
                                .offset_middle = (uint16_t)(at >> 16),
                                .offset_high = (uint32_t)(at >> 32)};
}

void tables_init_idt(void)
{
    set_gate(TRAP_DIVIDE, entry_divide, IST_NONE, 0);
    set_gate(TRAP_DEBUG, entry_debug, IST_NONE, 0);
    set_gate(TRAP_NMI, entry_nmi, IST_NMI, 0);
    set_gate(TRAP_BREAKPOINT, entry_breakpoint, IST_NONE, GATE_USER);
    set_gate(TRAP_OVERFLOW, entry_overflow, IST_NONE, GATE_USER);
    set_gate(TRAP_BOUND, entry_bound, IST_NONE, 0);
    set_gate(TRAP_INVALID_OPCODE, entry_invalid_opcode, IST_NONE, 0);
    set_gate(TRAP_NO_FPU, entry_no_fpu, IST_NONE, 0);
    set_gate(TRAP_DOUBLE_FAULT, entry_double_fault, IST_DOUBLE_FAULT, 0);
    set_gate(TRAP_INVALID_TSS, entry_invalid_tss, IST_NONE, 0);
    set_gate(TRAP_NO_SEGMENT, entry_no_segment, IST_NONE, 0);
    set_gate(TRAP_STACK, entry_stack, IST_NONE, 0);
    set_gate(TRAP_PROTECTION, entry_protection, IST_NONE, 0);
    set_gate(TRAP_PAGE_FAULT, entry_page_fault, IST_NONE, 0);
    set_gate(TRAP_FPU, entry_fpu, IST_NONE, 0);
    set_gate(TRAP_ALIGNMENT, entry_alignment, IST_NONE, 0);
    set_gate(TRAP_MACHINE_CHECK, entry_machine_check, IST_MACHINE_CHECK, 0);
    set_gate(TRAP_SIMD, entry_simd, IST_NONE, 0);
    for (unsigned vector = IRQ_FIRST; vector < 256; vector++) {
        set_gate(vector, entry_irqs + (vector - IRQ_FIRST) * 16, IST_NONE, 0);
    }
}

static void init_gdt(struct cpu *cpu)
{
    uint64_t tss = (uint64_t)(uintptr_t)&cpu->tss;
    uint64_t limit = sizeof(struct cpu_tss) - 1;

    cpu->gdt[SEL_KERNEL_CODE / 8] = 0x00af9b000000ffffull;
    cpu->gdt[SEL_KERNEL_DATA / 8] = 0x00cf93000000ffffull;
    cpu->gdt[SEL_USER_DATA / 8] = 0x00cff3000000ffffull;
    cpu->gdt[SEL_USER_CODE / 8] = 0x00affb000000ffffull;
    cpu->gdt[SEL_TSS / 8] =
        limit | (tss & 0xffffff) << 16 | 0x89ull << 40 | (tss >> 24 & 0xff) << 56;
    cpu->gdt[SEL_TSS / 8 + 1] = tss >> 32;
}

static void load_tables(struct cpu *cpu)
{
    struct table_pointer gdt = {sizeof(cpu->gdt) - 1, (uint64_t)(uintptr_t)cpu->gdt};
    struct table_pointer idt_pointer = {sizeof(idt) - 1, (uint64_t)(uintptr_t)idt};

    __asm__ volatile("lgdt %0\n\t"
                     "pushq %2\n\t"
                     "leaq 1f(%%rip), %%rax\n\t"
                     "pushq %%rax\n\t"
                     "lretq\n"
                     "1:\tmovl %3, %%ss\n\t"
                     "xorl %%eax, %%eax\n\t"
                     "movl %%eax, %%ds\n\t"
                     "movl %%eax, %%es\n\t"
                     "movl %%eax, %%fs\n\t"
                     "movl %%eax, %%gs\n\t"
                     "lidt %1\n\t"
                     "ltr %w4"
                     :
                     : "m"(gdt), "m"(idt_pointer), "i"(SEL_KERNEL_CODE), "r"(SEL_KERNEL_DATA),
                       "r"(SEL_TSS)
                     : "rax", "memory");
}

void tables_init(struct cpu *cpu, void *ist_stacks)
{
    uintptr_t stacks = (uintptr_t)ist_stacks;

    init_gdt(cpu);
    cpu->tss.io_map_base = sizeof(struct cpu_tss);
    for (unsigned i = 1; i < IST_COUNT; i++) {
        cpu->tss.ist[i - 1] = stacks + i * IST_STACK_BYTES;
    }
    load_tables(cpu);
    msr_write(MSR_GS_BASE, (uint64_t)(uintptr_t)cpu);
    msr_write(MSR_KERNEL_GS_BASE, 0);
    msr_write(MSR_STAR, STAR_VALUE);
    msr_write(MSR_LSTAR, (uint64_t)(uintptr_t)entry_syscall);
    msr_write(MSR_CSTAR, 0);
    msr_write(MSR_SYSCALL_MASK, SYSCALL_FLAGS_CLEARED);
}
