/*
 * cpu.h - one CPU: what the kernel keeps for it, at the base of %gs.
 *
 * Layout: hot fields in the first cache lines (gs.h fixes their offsets), the core's per-CPU area
 * at GS_CORE_AREA. Fields without a remark are written by their own CPU only.
 */
#ifndef KERNEL_CPU_CPU_H
#define KERNEL_CPU_CPU_H

#include <stdatomic.h>
#include <vellum/host.h>
#include "core/base/compiler.h"
#include "kernel/cpu/gs.h"
#include "kernel/cpu/tables.h"

struct thread;
struct vl_space;
struct run_queue;
struct timer_queue;

struct cpu {
    struct cpu *self;
    struct thread *current;
    uintptr_t kernel_stack;
    uintptr_t user_stack;
    uint32_t preempt; /* see gs.h */
    uint32_t id;
    uint32_t irq_depth;
    uint32_t apic_id;
    struct thread *fpu_owner;   /* whose registers the FPU holds, or NULL */
    struct thread *user_thread; /* whose FS and GS bases are loaded */
    struct thread *previous;    /* during a switch: who was left */
    struct thread *moving;      /* during a switch: left, and to be put on another CPU */
    struct vl_space *space;     /* active here, maybe only lazily; NULL: the kernel's root */
    uint64_t active_root;       /* page table in CR3 */
    _Atomic uint32_t online;
    uint32_t irq_from_user; /* the interrupt being handled found user code */
    uint32_t tick_armed;    /* the next event of the local timer is a tick */
    struct thread *idle;
    struct run_queue *run_queue;
    struct timer_queue *timers;
    uint64_t gdt[GDT_ENTRIES];
    struct cpu_tss tss;
    uint64_t irq_count;
    uint64_t exits_begun; /* threads that began to end here; see threads_drain() */
    uint64_t exits_done;  /* threads whose stacks were left for good here */
    uint64_t idle_ns;
    uint64_t user_ticks; /* ticks that found it in user mode, and not */
    uint64_t kernel_ticks;
    VLI_ALIGNED(4096) unsigned char core_area[VL_PERCPU_BYTES];
};

/** cpu_this() - this CPU. Stays true only with preemption or interrupts off. */
static inline struct cpu *cpu_this(void)
{
    struct cpu *cpu;

    __asm__ volatile("movq %%gs:%c1, %0" : "=r"(cpu) : "i"(GS_SELF));
    return cpu;
}

/** cpu_of() - CPU number @id < cpu_count(). */
struct cpu *cpu_of(unsigned id);

/** cpu_count() - CPUs that run. Fixed once SMP is up. */
unsigned cpu_count(void);

/** cpu_preempt_depth() - how many preemption-off are open on this CPU. */
static inline unsigned cpu_preempt_depth(void)
{
    uint32_t word;

    __asm__ volatile("movl %%gs:%c1, %0" : "=r"(word) : "i"(GS_PREEMPT));
    return word & ~PREEMPT_NO_RESCHED;
}

/** cpu_in_irq() - is an interrupt handler running here? */
static inline bool cpu_in_irq(void)
{
    uint32_t depth;

    __asm__ volatile("movl %%gs:%c1, %0" : "=r"(depth) : "i"(GS_IRQ_DEPTH));
    return depth != 0;
}

static inline bool cpu_irqs_on(void)
{
    unsigned long flags;

    __asm__ volatile("pushfq\n\tpopq %0" : "=r"(flags));
    return (flags & 0x200u) != 0;
}

static inline void cpu_irq_on(void)
{
    __asm__ volatile("sti" : : : "memory");
}

static inline void cpu_irq_off(void)
{
    __asm__ volatile("cli" : : : "memory");
}

/** cpu_random64() - a seed from RDRAND, RDSEED or, without them, the TSC mixed; not for secrets
 * in the last case. Context: any. */
uint64_t cpu_random64(void);

/** cpu_hwcap() - CPUID leaf 1 EDX, what Linux hands programs as AT_HWCAP. */
uint32_t cpu_hwcap(void);

/** irq_handler_fn - runs with interrupts off, in the interrupt's context. */
typedef void irq_handler_fn(void *arg);

/**
 * irq_register_isa() - take ISA interrupt line @line (through the I/O APIC, with the MADT's
 * overrides) and call @handler for it on CPU 0.
 * Context: thread, at start-up. Returns: VL_OK; VL_EBUSY taken; VL_EINVAL no such line.
 */
VL_MUST_CHECK enum vl_status irq_register_isa(unsigned line, irq_handler_fn *handler, void *arg);

/**
 * irq_register_pci() - as irq_register_isa(), for a PCI device's interrupt: level-triggered and
 * shareable; @gsi is the global system interrupt (INTx, from the interrupt line register).
 */
VL_MUST_CHECK enum vl_status irq_register_pci(unsigned gsi, irq_handler_fn *handler, void *arg);

/** machine_poweroff() - ACPI S5; halts when that does not work. Does not return. */
_Noreturn void machine_poweroff(void);

/** machine_restart() - ACPI reset register, keyboard controller, triple fault, in this order. */
_Noreturn void machine_restart(void);

/** machine_halt() - stop all CPUs for good. */
_Noreturn void machine_halt(void);

#endif
