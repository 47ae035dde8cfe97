/*
 * tables.h - descriptor tables of one CPU: GDT, TSS, IDT.
 */
#ifndef KERNEL_CPU_TABLES_H
#define KERNEL_CPU_TABLES_H

#include <vellum/types.h>

#define GDT_ENTRIES     10u
#define IST_STACK_BYTES 4096u

/* Stacks that the CPU switches to by itself. */
enum ist { IST_NONE, IST_DOUBLE_FAULT, IST_NMI, IST_MACHINE_CHECK, IST_COUNT };

struct __attribute__((packed)) cpu_tss {
    uint32_t reserved0;
    uint64_t rsp0; /* stack for entries from user mode */
    uint64_t rsp1;
    uint64_t rsp2;
    uint64_t reserved1;
    uint64_t ist[7];
    uint64_t reserved2;
    uint16_t reserved3;
    uint16_t io_map_base;
};
_Static_assert(sizeof(struct cpu_tss) == 104, "the CPU's layout");

struct cpu;

/** tables_init() - load GDT, TSS and IDT of this CPU, set the registers of the syscall entry and
 * make @cpu the base of %gs.
 * @ist_stacks: IST_COUNT - 1 stacks of IST_STACK_BYTES. */
void tables_init(struct cpu *cpu, void *ist_stacks);

/** tables_init_idt() - fill the one IDT that all CPUs share. Context: once, first CPU. */
void tables_init_idt(void);

#endif
