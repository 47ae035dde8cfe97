/*
 * pidfds.c - processes as descriptors.
 *
 * Goal: opening, signals, polling, waiting and errors are as on Linux. Method: children that wait
 * for a signal; results are printed and compared with Linux.
 */
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#define SYS_process_mrelease_number 448
#define P_PIDFD_NUMBER              3

static int open_pid(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static long send_signal(int fd, int number)
{
    return syscall(SYS_pidfd_send_signal, fd, number, NULL, 0);
}

int main(void)
{
    pid_t child = fork();
    struct pollfd poll_fd = {.events = POLLIN};
    siginfo_t info;
    int fd;
    if (child == 0) {
        pause();
        _exit(1);
    }
    fd = open_pid(child);
    record_good("open", fd);
    record("close on exec", fcntl(fd, F_GETFD));
    poll_fd.fd = fd;
    record("poll, alive", poll(&poll_fd, 1, 0));
    record("signal 0", send_signal(fd, 0));
    record("release, alive", syscall(SYS_process_mrelease_number, fd, 0));
    record("bad signal", send_signal(fd, 99));
    record("flags", syscall(SYS_pidfd_send_signal, fd, 0, NULL, 64));
    record("not a pidfd", send_signal(1, 0));
    record("no descriptor", send_signal(99, 0));
    record("kill", send_signal(fd, SIGKILL));
    record("poll, dies", poll(&poll_fd, 1, 5000));
    record("what", poll_fd.revents);
    memset(&info, 0, sizeof(info));
    record("wait", waitid((idtype_t)P_PIDFD_NUMBER, (id_t)fd, &info, WEXITED));
    check(info.si_pid == child && info.si_code == CLD_KILLED && info.si_status == SIGKILL, "how");
    record("signal after", send_signal(fd, 0));
    record("wait after", waitid((idtype_t)P_PIDFD_NUMBER, (id_t)fd, &info, WEXITED));
    record("wait for no pidfd", waitid((idtype_t)P_PIDFD_NUMBER, 1, &info, WEXITED));
    record("nobody", open_pid(999999));
    record("negative", open_pid(-5));
    record("open flags", syscall(SYS_pidfd_open, getpid(), 1));
    return check_failures != 0;
}
