/*
 * apic.h - the local APIC of each CPU, as xAPIC or x2APIC.
 */
#ifndef KERNEL_CPU_APIC_H
#define KERNEL_CPU_APIC_H

#include <vellum/types.h>

/** apic_init() - find the registers. Context: once, first CPU. */
void apic_init(void);
/** apic_enable() - this CPU's. */
void apic_enable(void);
/** apic_id() - this CPU's. */
uint32_t apic_id(void);
/** apic_end_of_interrupt() - the interrupt being handled is done with. */
void apic_end_of_interrupt(void);
/** apic_send() - interrupt @vector to the CPU with @apic_id. Context: any. */
void apic_send(uint32_t apic_id, unsigned vector);
/** apic_send_nmi() - to one CPU. */
void apic_send_nmi(uint32_t apic_id);
/** apic_send_init() - reset a CPU. */
void apic_send_init(uint32_t apic_id);
/** apic_send_startup() - start a CPU at the page @page_pa below 1 MiB. */
void apic_send_startup(uint32_t apic_id, uint64_t page_pa);
/** apic_timer_arm() - interrupt VECTOR_TIMER after @ns (at least one tick of the timer); 0 stops.
 */
void apic_timer_arm(uint64_t ns);
/** apic_timer_calibrate() - measure its speed against the clock, which must run. */
void apic_timer_calibrate(void);

#endif
