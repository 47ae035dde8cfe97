/*
 * syscall.h - how a Linux call is written.
 *
 * `long sys_NAME(long a, long b, long c, long d, long e, long f)`: the six argument registers as
 * the user set them; unused ones are ignored. The result, or a negated errno (lib/errno.h), is
 * returned. Put its number and name into kernel/proc/syscall_table.c and its prototype, by
 * SYSCALL_DECLARE, into a header. An int argument is cast first: `int fd = (int)a`.
 *
 * A sleep that a signal ends (VL_EINTR of wait.h) returns -ERESTARTSYS if Linux restarts the call
 * under SA_RESTART (read, write, open, wait4, ioctl, fcntl locks, flock …); -ERESTARTNOHAND for
 * pause, sigsuspend, poll, select, ppoll, epoll_wait; -EINTR where Linux never restarts. If some
 * bytes went already, their count is returned instead.
 */
#ifndef KERNEL_PROC_SYSCALL_H
#define KERNEL_PROC_SYSCALL_H

#include "kernel/cpu/trap.h"
#include "kernel/lib/errno.h"

#define SYSCALL_DECLARE(name) long sys_##name(long a, long b, long c, long d, long e, long f)

/* The head of a definition. */
#define SYSCALL(name)                                                                              \
    long sys_##name(VLI_UNUSED long a, VLI_UNUSED long b, VLI_UNUSED long c, VLI_UNUSED long d,    \
                    VLI_UNUSED long e, VLI_UNUSED long f)

#endif
