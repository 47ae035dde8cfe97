/*
 * machine.h - what the files of the simulated machine share with each other.
 */
#ifndef SIM_MACHINE_H
#define SIM_MACHINE_H

#include <pthread.h>
#include "machine/sim/sim.h"

/* The machine that is switched on. */
struct sim_machine {
    struct sim_config config;
    uint64_t ram_end; /* physical; addresses below it are backed */
    bool is_on;
    pthread_t thread[VL_CPUS_MAX]; /* of each CPU that runs */
    _Atomic uint32_t running[VL_CPUS_MAX];
};
extern struct sim_machine sim_machine;

/** sim_irq_start() / sim_irq_stop() - signal handler in place, counters zero; and away. */
void sim_irq_start(void);
void sim_irq_stop(void);
/** sim_irq_here() - an interrupt arrives at this moment: runs, or waits for the restore. The caller
 * is a signal handler that interrupted the core. */
void sim_irq_here(void);
/** sim_irq_is_core_text() - is this the address of an instruction of the core? */
bool sim_irq_is_core_text(uintptr_t at);
/** sim_irq_poll() - run what vl_host_cpu_call() wants of this CPU, if anything. */
void sim_irq_poll(void);
/** sim_irq_cpu_on() - this thread is the CPU from now on and takes signals. */
void sim_irq_cpu_on(unsigned cpu);
/** sim_irq_cpu_off() - this CPU's thread is about to end: no more signals to it. */
void sim_irq_cpu_off(unsigned cpu);
/** sim_inject_start() - no failures, counters zero. */
void sim_inject_start(void);
/** sim_event_start() - empty rings. */
void sim_event_start(void);

#endif
