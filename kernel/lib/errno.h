/*
 * errno.h - Linux's error numbers, x86-64. System calls return them negated.
 */
#ifndef KERNEL_LIB_ERRNO_H
#define KERNEL_LIB_ERRNO_H

#define EPERM           1
#define ENOENT          2
#define ESRCH           3
#define EINTR           4
#define EIO             5
#define ENXIO           6
#define E2BIG           7
#define ENOEXEC         8
#define EBADF           9
#define ECHILD          10
#define EAGAIN          11
#define ENOMEM          12
#define EACCES          13
#define EFAULT          14
#define ENOTBLK         15
#define EBUSY           16
#define EEXIST          17
#define EXDEV           18
#define ENODEV          19
#define ENOTDIR         20
#define EISDIR          21
#define EINVAL          22
#define ENFILE          23
#define EMFILE          24
#define ENOTTY          25
#define ETXTBSY         26
#define EFBIG           27
#define ENOSPC          28
#define ESPIPE          29
#define EROFS           30
#define EMLINK          31
#define EPIPE           32
#define EDOM            33
#define ERANGE          34
#define EDEADLK         35
#define ENAMETOOLONG    36
#define ENOLCK          37
#define ENOSYS          38
#define ENOTEMPTY       39
#define ELOOP           40
#define ENOMSG          42
#define EIDRM           43
#define ENODATA         61
#define ETIME           62
#define EPROTO          71
#define EOVERFLOW       75
#define EBADMSG         74
#define EBADFD          77
#define EILSEQ          84
#define ELIBBAD         80
#define ENOTSOCK        88
#define EMSGSIZE        90
#define EPROTONOSUPPORT 93
#define ESOCKTNOSUPPORT 94
#define EOPNOTSUPP      95
#define EAFNOSUPPORT    97
#define ECONNRESET      104
#define ENOTCONN        107
#define ETIMEDOUT       110
#define ECONNREFUSED    111
#define EALREADY        114
#define EINPROGRESS     115
#define ECANCELED       125
#define EOWNERDEAD      130

/* Inside the kernel only: the call was interrupted by a signal before it did anything; the way
 * back to user mode turns it into EINTR or a restart (SA_RESTART). */
#define ERESTARTSYS 512
/* The same, but restarted whatever the handler says, unless there is one: then EINTR. */
#define ERESTARTNOHAND 514
/* Restarted always. */
#define ERESTARTNOINTR 513
/* As ERESTARTNOHAND, but the restart goes through restart_syscall: nanosleep, futex. */
#define ERESTARTBLOCK 516

#endif
