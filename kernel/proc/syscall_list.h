/*
 * syscall_list.h - Linux's x86-64 call numbers: which of them exist, by name.
 *
 * CALL: reached directly; FULL: through a stub that saves all registers (cpu/trap.h).
 */
#ifndef KERNEL_PROC_SYSCALL_LIST_H
#define KERNEL_PROC_SYSCALL_LIST_H

#include "kernel/proc/syscall.h"

/* clang-format off */
/* kernel/proc */
#define SYSCALL_LIST_PROC(CALL, FULL) \
    CALL(9, mmap) CALL(10, mprotect) CALL(11, munmap) CALL(12, brk) CALL(13, rt_sigaction) \
    CALL(14, rt_sigprocmask) FULL(15, rt_sigreturn) CALL(24, sched_yield) CALL(25, mremap) \
    CALL(26, msync) CALL(27, mincore) CALL(28, madvise) CALL(34, pause) \
    CALL(35, nanosleep) CALL(36, getitimer) CALL(37, alarm) CALL(38, setitimer) \
    CALL(39, getpid) FULL(56, clone) FULL(57, fork) FULL(58, vfork) FULL(59, execve) \
    CALL(60, exit) CALL(61, wait4) CALL(62, kill) CALL(63, uname) CALL(96, gettimeofday) \
    CALL(97, getrlimit) CALL(98, getrusage) CALL(99, sysinfo) CALL(100, times) \
    CALL(102, getuid) CALL(103, syslog) CALL(104, getgid) CALL(105, setuid) \
    CALL(106, setgid) CALL(107, geteuid) CALL(108, getegid) CALL(109, setpgid) \
    CALL(110, getppid) CALL(111, getpgrp) CALL(112, setsid) CALL(113, setreuid) \
    CALL(114, setregid) CALL(115, getgroups) CALL(116, setgroups) CALL(117, setresuid) \
    CALL(118, getresuid) CALL(119, setresgid) CALL(120, getresgid) CALL(121, getpgid) \
    CALL(122, setfsuid) CALL(123, setfsgid) CALL(124, getsid) CALL(125, capget) \
    CALL(126, capset) CALL(127, rt_sigpending) CALL(128, rt_sigtimedwait) \
    CALL(129, rt_sigqueueinfo) CALL(130, rt_sigsuspend) CALL(131, sigaltstack) \
    CALL(135, personality) CALL(140, getpriority) CALL(141, setpriority) \
    CALL(142, sched_setparam) CALL(143, sched_getparam) CALL(144, sched_setscheduler) \
    CALL(145, sched_getscheduler) CALL(146, sched_get_priority_max) \
    CALL(147, sched_get_priority_min) CALL(148, sched_rr_get_interval) CALL(149, mlock) \
    CALL(150, munlock) CALL(151, mlockall) CALL(152, munlockall) CALL(157, prctl) \
    CALL(158, arch_prctl) CALL(159, adjtimex) CALL(160, setrlimit) CALL(164, settimeofday) \
    CALL(169, reboot) CALL(170, sethostname) CALL(171, setdomainname) CALL(186, gettid) \
    CALL(200, tkill) CALL(201, time) CALL(202, futex) CALL(203, sched_setaffinity) \
    CALL(204, sched_getaffinity) CALL(218, set_tid_address) CALL(219, restart_syscall) \
    CALL(222, timer_create) CALL(223, timer_settime) CALL(224, timer_gettime) \
    CALL(225, timer_getoverrun) CALL(226, timer_delete) CALL(227, clock_settime) \
    CALL(228, clock_gettime) CALL(229, clock_getres) CALL(230, clock_nanosleep) \
    CALL(231, exit_group) CALL(234, tgkill) CALL(237, mbind) CALL(238, set_mempolicy) \
    CALL(239, get_mempolicy) CALL(247, waitid) CALL(251, ioprio_set) CALL(252, ioprio_get) \
    CALL(256, migrate_pages) CALL(272, unshare) CALL(273, set_robust_list) \
    CALL(274, get_robust_list) CALL(297, rt_tgsigqueueinfo) CALL(302, prlimit64) \
    CALL(305, clock_adjtime) CALL(309, getcpu) CALL(310, process_vm_readv) \
    CALL(311, process_vm_writev) CALL(314, sched_setattr) CALL(315, sched_getattr) \
    CALL(318, getrandom) FULL(322, execveat) CALL(324, membarrier) CALL(325, mlock2) \
    CALL(329, pkey_mprotect) CALL(330, pkey_alloc) CALL(331, pkey_free) CALL(334, rseq) \
    CALL(424, pidfd_send_signal) CALL(434, pidfd_open) FULL(435, clone3) \
    CALL(448, process_mrelease) CALL(449, futex_waitv)

/* kernel/fs */
#define SYSCALL_LIST_FS(CALL) \
    CALL(0, read) CALL(1, write) CALL(2, open) CALL(3, close) CALL(4, stat) CALL(5, fstat) \
    CALL(6, lstat) CALL(7, poll) CALL(8, lseek) CALL(16, ioctl) CALL(17, pread64) \
    CALL(18, pwrite64) CALL(19, readv) CALL(20, writev) CALL(21, access) CALL(22, pipe) \
    CALL(23, select) CALL(32, dup) CALL(33, dup2) CALL(40, sendfile) CALL(41, socket) \
    CALL(53, socketpair) CALL(72, fcntl) CALL(73, flock) CALL(74, fsync) \
    CALL(75, fdatasync) CALL(76, truncate) CALL(77, ftruncate) CALL(78, getdents) \
    CALL(79, getcwd) CALL(80, chdir) CALL(81, fchdir) CALL(82, rename) CALL(83, mkdir) \
    CALL(84, rmdir) CALL(85, creat) CALL(86, link) CALL(87, unlink) CALL(88, symlink) \
    CALL(89, readlink) CALL(90, chmod) CALL(91, fchmod) CALL(92, chown) CALL(93, fchown) \
    CALL(94, lchown) CALL(95, umask) CALL(132, utime) CALL(133, mknod) CALL(137, statfs) \
    CALL(138, fstatfs) CALL(161, chroot) CALL(162, sync) CALL(165, mount) \
    CALL(166, umount2) CALL(187, readahead) CALL(213, epoll_create) CALL(217, getdents64) \
    CALL(221, fadvise64) CALL(232, epoll_wait) CALL(233, epoll_ctl) CALL(235, utimes) \
    CALL(257, openat) CALL(258, mkdirat) CALL(259, mknodat) CALL(260, fchownat) \
    CALL(261, futimesat) CALL(262, newfstatat) CALL(263, unlinkat) CALL(264, renameat) \
    CALL(265, linkat) CALL(266, symlinkat) CALL(267, readlinkat) CALL(268, fchmodat) \
    CALL(269, faccessat) CALL(270, pselect6) CALL(271, ppoll) CALL(275, splice) \
    CALL(276, tee) CALL(277, sync_file_range) CALL(278, vmsplice) CALL(280, utimensat) \
    CALL(281, epoll_pwait) CALL(282, signalfd) CALL(283, timerfd_create) \
    CALL(284, eventfd) CALL(285, fallocate) CALL(286, timerfd_settime) \
    CALL(287, timerfd_gettime) CALL(289, signalfd4) CALL(290, eventfd2) \
    CALL(291, epoll_create1) CALL(292, dup3) CALL(293, pipe2) CALL(295, preadv) \
    CALL(296, pwritev) CALL(306, syncfs) CALL(316, renameat2) CALL(319, memfd_create) \
    CALL(326, copy_file_range) CALL(327, preadv2) CALL(328, pwritev2) CALL(332, statx) \
    CALL(436, close_range) CALL(437, openat2) CALL(439, faccessat2) CALL(452, fchmodat2)

/* kernel/ipc */
#define SYSCALL_LIST_IPC(CALL) \
    CALL(29, shmget) CALL(30, shmat) CALL(31, shmctl) CALL(64, semget) CALL(65, semop) \
    CALL(66, semctl) CALL(67, shmdt) CALL(68, msgget) CALL(69, msgsnd) CALL(70, msgrcv) \
    CALL(71, msgctl) CALL(220, semtimedop)

/* clang-format on */
#define SYSCALL_LIST_DECLARE(number, name) SYSCALL_DECLARE(name);
SYSCALL_LIST_PROC(SYSCALL_LIST_DECLARE, SYSCALL_LIST_DECLARE)
SYSCALL_LIST_FS(SYSCALL_LIST_DECLARE)
SYSCALL_LIST_IPC(SYSCALL_LIST_DECLARE)

#endif
