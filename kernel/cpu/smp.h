/*
 * smp.h - the other CPUs: starting them, interrupting them, stopping them.
 */
#ifndef KERNEL_CPU_SMP_H
#define KERNEL_CPU_SMP_H

#include <vellum/types.h>

/** smp_boot_cpu() - make %gs work on the first CPU. Context: first thing of all. */
void smp_boot_cpu(void);

/** smp_prepare() - count the CPUs of the ACPI tables, make their struct cpu by boot_alloc().
 * Context: once, first CPU, before vl_init(). */
void smp_prepare(void);

/** smp_known_count() - CPUs that the tables name, whether they run yet or not. */
unsigned smp_known_count(void);

/** smp_init_vectors() - interrupts between CPUs. Context: once, start-up. */
void smp_init_vectors(void);

struct cpu;
/** smp_cpu_entry() - where the trampoline ends: first code of a started CPU. */
_Noreturn void smp_cpu_entry(struct cpu *cpu);

/** smp_start_others() - start them, one after another. Context: thread, once. */
void smp_start_others(void);

/** smp_resched() - make CPU @id look at its run queue. Context: any. */
void smp_resched(unsigned id);

/** smp_stop_others() - stop all other CPUs by NMI, for good. Context: any. */
void smp_stop_others(void);
/** smp_is_stopping() - did somebody call smp_stop_others()? */
bool smp_is_stopping(void);
/** smp_stop_this() - halt for ever. */
_Noreturn void smp_stop_this(void);

#endif
