/*
 * posix_timer.h - the end of a process's timers.
 */
#ifndef KERNEL_PROC_POSIX_TIMER_H
#define KERNEL_PROC_POSIX_TIMER_H

struct process;

/** posix_timers_end() - at exec and exit. Context: its last thread, no locks. */
void posix_timers_end(struct process *process);

#endif
