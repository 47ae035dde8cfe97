/*
 * signalfds.c - pending signals read from a file.
 *
 * Goal: which signals a read takes, in which order and with what in them, blocking, polling and
 * errors are as on Linux. Method: signals that the program and its child send while they are
 * blocked; records are printed and compared with Linux.
 */
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

static struct signalfd_siginfo record_of[4];

static void print_records(const char *name, long bytes)
{
    record(name, bytes);
    for (long i = 0; i < bytes / (long)sizeof(record_of[0]); i++) {
        const struct signalfd_siginfo *one = &record_of[i];
        printf(" %u code %d own %d uid %u int %d ptr %llx status %d\n", one->ssi_signo,
               one->ssi_code, one->ssi_pid == (uint32_t)getpid(), one->ssi_uid, one->ssi_int,
               (unsigned long long)one->ssi_ptr, one->ssi_status);
    }
    fflush(stdout);
}

static void errors(int fd, const sigset_t *set)
{
    record("bad size", syscall(SYS_signalfd4, -1, set, (size_t)4, 0));
    record("bad address", syscall(SYS_signalfd4, -1, 8, (size_t)8, 0));
    record("bad flags", syscall(SYS_signalfd4, -1, set, (size_t)8, 1));
    record("no descriptor", syscall(SYS_signalfd4, 99, set, (size_t)8, 0));
    record("not a signalfd", syscall(SYS_signalfd4, 1, set, (size_t)8, 0));
    record("short read", read(fd, record_of, 127));
    record("write", write(fd, record_of, 128));
    record("seek", lseek(fd, 1, SEEK_SET));
    raise(SIGUSR1);
    record("bad buffer", read(fd, (void *)8, 128));
    record("it is lost", read(fd, record_of, 128));
}

static void waits(int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct pollfd poll_fd = {fd, POLLIN, 0};
    int epoll = epoll_create1(0);
    int status = 0;
    pid_t self = getpid();
    pid_t child = fork();
    if (child == 0) {
        usleep(100000);
        kill(self, SIGUSR2);
        _exit(5);
    }
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    record("epoll", epoll_wait(epoll, &event, 1, 5000));
    record("poll", poll(&poll_fd, 1, 5000));
    record("events", poll_fd.revents);
    record("read", read(fd, record_of, sizeof(record_of[0])));
    check(record_of[0].ssi_signo == SIGUSR2 && record_of[0].ssi_pid == (uint32_t)child, "from");
    fcntl(fd, F_SETFL, 0);
    record("blocks for SIGCHLD", read(fd, record_of, sizeof(record_of[0])));
    check(record_of[0].ssi_signo == SIGCHLD && record_of[0].ssi_pid == (uint32_t)child, "child");
    record("its status", record_of[0].ssi_status);
    record("its code", record_of[0].ssi_code);
    check(waitpid(child, &status, 0) == child, "reaped");
    close(epoll);
}

static void on_alarm(int number)
{
    (void)number;
}

static void interrupted(int fd)
{
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    ualarm(100000, 0);
    record("interrupted", read(fd, record_of, sizeof(record_of[0])));
}

int main(void)
{
    sigset_t set;
    sigset_t pending;
    sigset_t one;
    struct pollfd poll_fd = {.events = POLLIN};
    union sigval value = {.sival_ptr = (void *)0x1122334455667788};
    int fd;
    int other;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGRTMIN + 3);
    sigprocmask(SIG_BLOCK, &set, NULL);
    fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    record_good("make", fd);
    record("close on exec", fcntl(fd, F_GETFD));
    record("flags", fcntl(fd, F_GETFL));
    record("empty", read(fd, record_of, sizeof(record_of)));
    poll_fd.fd = fd;
    record("poll, empty", poll(&poll_fd, 1, 0));
    kill(getpid(), SIGUSR2);
    kill(getpid(), SIGUSR2);
    raise(SIGUSR1);
    sigqueue(getpid(), SIGRTMIN + 3, value);
    value.sival_int = 7;
    sigqueue(getpid(), SIGRTMIN + 3, value);
    record("poll, full", poll(&poll_fd, 1, 0));
    record("events", poll_fd.revents);
    print_records("two", read(fd, record_of, 2 * sizeof(record_of[0]) + 5));
    print_records("rest", read(fd, record_of, sizeof(record_of)));
    sigpending(&pending);
    record("pending", sigismember(&pending, SIGUSR1));
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    other = signalfd(-1, &one, SFD_NONBLOCK);
    raise(SIGUSR2);
    record("not in its set", read(other, record_of, sizeof(record_of)));
    check(signalfd(other, &set, 0) == other, "another set");
    print_records("now it is", read(other, record_of, sizeof(record_of)));
    close(other);
    errors(fd, &set);
    waits(fd);
    interrupted(fd);
    return check_done();
}
