/*
 * host.h - starting the host side of the core.
 */
#ifndef KERNEL_HOST_H
#define KERNEL_HOST_H

/** host_init_early() - before vl_init(). */
void host_init_early(void);

/** host_start_threads() - the thread of deferred work. Context: once the scheduler runs. */
void host_start_threads(void);

#endif
