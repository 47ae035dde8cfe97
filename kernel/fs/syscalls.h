/*
 * syscalls.h - the system calls on files.
 */
#ifndef KERNEL_FS_SYSCALLS_H
#define KERNEL_FS_SYSCALLS_H

#include "kernel/proc/syscall.h"

/* sys_rw.c */
SYSCALL_DECLARE(read);
SYSCALL_DECLARE(write);
SYSCALL_DECLARE(readv);
SYSCALL_DECLARE(writev);
SYSCALL_DECLARE(pread64);
SYSCALL_DECLARE(pwrite64);
SYSCALL_DECLARE(preadv);
SYSCALL_DECLARE(pwritev);
SYSCALL_DECLARE(preadv2);
SYSCALL_DECLARE(pwritev2);
SYSCALL_DECLARE(lseek);
SYSCALL_DECLARE(sendfile);
SYSCALL_DECLARE(copy_file_range);

/* splice.c */
SYSCALL_DECLARE(splice);
SYSCALL_DECLARE(tee);
SYSCALL_DECLARE(vmsplice);

/* sys_open.c */
SYSCALL_DECLARE(open);
SYSCALL_DECLARE(openat);
SYSCALL_DECLARE(openat2);
SYSCALL_DECLARE(creat);
SYSCALL_DECLARE(close);
SYSCALL_DECLARE(close_range);
SYSCALL_DECLARE(dup);
SYSCALL_DECLARE(dup2);
SYSCALL_DECLARE(dup3);
SYSCALL_DECLARE(fcntl);
SYSCALL_DECLARE(ioctl);
SYSCALL_DECLARE(flock);
SYSCALL_DECLARE(pipe);
SYSCALL_DECLARE(pipe2);
SYSCALL_DECLARE(memfd_create);

/* sys_stat.c */
SYSCALL_DECLARE(stat);
SYSCALL_DECLARE(lstat);
SYSCALL_DECLARE(fstat);
SYSCALL_DECLARE(newfstatat);
SYSCALL_DECLARE(statx);
SYSCALL_DECLARE(statfs);
SYSCALL_DECLARE(fstatfs);
SYSCALL_DECLARE(access);
SYSCALL_DECLARE(faccessat);
SYSCALL_DECLARE(faccessat2);
SYSCALL_DECLARE(readlink);
SYSCALL_DECLARE(readlinkat);

/* sys_attr.c */
SYSCALL_DECLARE(chmod);
SYSCALL_DECLARE(fchmod);
SYSCALL_DECLARE(fchmodat);
SYSCALL_DECLARE(fchmodat2);
SYSCALL_DECLARE(chown);
SYSCALL_DECLARE(lchown);
SYSCALL_DECLARE(fchown);
SYSCALL_DECLARE(fchownat);
SYSCALL_DECLARE(utime);
SYSCALL_DECLARE(utimes);
SYSCALL_DECLARE(futimesat);
SYSCALL_DECLARE(utimensat);
SYSCALL_DECLARE(truncate);
SYSCALL_DECLARE(ftruncate);
SYSCALL_DECLARE(fallocate);
SYSCALL_DECLARE(fsync);
SYSCALL_DECLARE(fdatasync);
SYSCALL_DECLARE(sync);
SYSCALL_DECLARE(syncfs);
SYSCALL_DECLARE(sync_file_range);
SYSCALL_DECLARE(fadvise64);
SYSCALL_DECLARE(readahead);
SYSCALL_DECLARE(umask);

/* sys_names.c */
SYSCALL_DECLARE(mkdir);
SYSCALL_DECLARE(mkdirat);
SYSCALL_DECLARE(mknod);
SYSCALL_DECLARE(mknodat);
SYSCALL_DECLARE(rmdir);
SYSCALL_DECLARE(unlink);
SYSCALL_DECLARE(unlinkat);
SYSCALL_DECLARE(link);
SYSCALL_DECLARE(linkat);
SYSCALL_DECLARE(symlink);
SYSCALL_DECLARE(symlinkat);
SYSCALL_DECLARE(rename);
SYSCALL_DECLARE(renameat);
SYSCALL_DECLARE(renameat2);
SYSCALL_DECLARE(getdents);
SYSCALL_DECLARE(getdents64);
SYSCALL_DECLARE(chdir);
SYSCALL_DECLARE(fchdir);
SYSCALL_DECLARE(getcwd);
SYSCALL_DECLARE(chroot);
SYSCALL_DECLARE(mount);
SYSCALL_DECLARE(umount2);

/* sys_poll.c */
SYSCALL_DECLARE(poll);
SYSCALL_DECLARE(ppoll);
SYSCALL_DECLARE(select);
SYSCALL_DECLARE(pselect6);

/* epoll.c, eventfd.c, timerfd.c, signalfd.c, socket.c */
SYSCALL_DECLARE(epoll_create);
SYSCALL_DECLARE(epoll_create1);
SYSCALL_DECLARE(epoll_ctl);
SYSCALL_DECLARE(epoll_wait);
SYSCALL_DECLARE(epoll_pwait);
SYSCALL_DECLARE(eventfd);
SYSCALL_DECLARE(eventfd2);
SYSCALL_DECLARE(timerfd_create);
SYSCALL_DECLARE(timerfd_settime);
SYSCALL_DECLARE(timerfd_gettime);
SYSCALL_DECLARE(signalfd);
SYSCALL_DECLARE(signalfd4);
SYSCALL_DECLARE(socket);
SYSCALL_DECLARE(socketpair);

#endif
