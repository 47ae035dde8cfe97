/*
 * pidfd.h - processes as files, for exit and waitid.
 */
#ifndef KERNEL_PROC_PIDFD_H
#define KERNEL_PROC_PIDFD_H

#include <vellum/types.h>

struct process;

/** pidfd_process() - the process that a descriptor names, with a reference (process_put()).
 * Returns: 0; -EBADF; -EINVAL: it names none. */
long pidfd_process(int fd, struct process **out, bool *out_nonblock);

/** pidfd_process_ended() - a process has just become a zombie. Context: no locks. */
void pidfd_process_ended(void);

#endif
