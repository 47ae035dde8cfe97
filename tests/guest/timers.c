/*
 * timers.c - timer_create and timerfd.
 *
 * Goal: expiries, overruns, intervals and errors are as on Linux. Method: short timers; counts are
 * checked against what time has passed, errors are printed and compared with Linux.
 */
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/timerfd.h>
#include <time.h>

static volatile sig_atomic_t signals;
static volatile int value;
static volatile int code;

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    signals++;
    value = info->si_value.sival_int;
    code = info->si_code;
}

static struct itimerspec spec(long first_ms, long interval_ms)
{
    return (struct itimerspec){{interval_ms / 1000, interval_ms % 1000 * 1000000},
                               {first_ms / 1000, first_ms % 1000 * 1000000}};
}

static void signals_by_timer(void)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec time = spec(20, 20);
    struct itimerspec left;
    sigset_t set;
    timer_t timer;

    event.sigev_value.sival_int = 42;
    sigaction(SIGUSR1, &action, NULL);
    record("create", timer_create(CLOCK_MONOTONIC, &event, &timer));
    record("set", timer_settime(timer, 0, &time, NULL));
    while (signals < 3) {
        pause();
    }
    check(value == 42 && code == SI_TIMER, "the signal tells its timer's value");
    record("get", timer_gettime(timer, &left));
    check(left.it_interval.tv_nsec == 20000000, "the interval is told");
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    usleep(150000);
    signals = 0;
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    time = spec(0, 0);
    record("stop", timer_settime(timer, 0, &time, NULL));
    check(signals >= 1, "blocked, then told");
    record("delete", timer_delete(timer));
    record("bad clock", timer_create(77, &event, &timer));
    event.sigev_signo = 99;
    record("bad signal", timer_create(CLOCK_MONOTONIC, &event, &timer));
    event.sigev_notify = 9;
    record("bad kind", timer_create(CLOCK_MONOTONIC, &event, &timer));
}

static void overruns(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
    struct itimerspec time = spec(10, 10);
    struct timespec zero = {0, 0};
    siginfo_t info;
    sigset_t set;
    timer_t timer;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    timer_create(CLOCK_REALTIME, &event, &timer);
    timer_settime(timer, 0, &time, NULL);
    usleep(200000);
    time = spec(0, 0);
    check(sigtimedwait(&set, &info, &zero) == SIGUSR2, "one signal");
    check(timer_getoverrun(timer) >= 5, "that stands for many");
    record("delete", timer_delete(timer));
}

static void by_descriptor(void)
{
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct itimerspec time = spec(30, 0);
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    uint64_t count = 0;

    record_good("create", fd);
    record("not armed", read(fd, &count, sizeof(count)));
    record("set", timerfd_settime(fd, 0, &time, NULL));
    record("not yet", read(fd, &count, sizeof(count)));
    record("poll", poll(&poll_fd, 1, 5000));
    record("read", read(fd, &count, sizeof(count)));
    record("once", (long)count);
    time = spec(10, 10);
    timerfd_settime(fd, 0, &time, NULL);
    usleep(200000);
    read(fd, &count, sizeof(count));
    check(count >= 5, "many at once");
    record("short", read(fd, &count, 4));
    fcntl(fd, F_SETFL, 0);
    record("sleeps", read(fd, &count, sizeof(count)));
    time = spec(0, 0);
    record("stop", timerfd_settime(fd, 0, &time, NULL));
    record("get", timerfd_gettime(fd, &time));
    record("left", time.it_value.tv_sec + time.it_value.tv_nsec);
    record("not a timer", timerfd_settime(0, 0, &time, NULL));
    record("bad clock", timerfd_create(77, 0));
    record("bad flags", timerfd_create(CLOCK_MONOTONIC, 1));
    time.it_value.tv_nsec = 1000000000;
    record("bad time", timerfd_settime(fd, 0, &time, NULL));
    record("close", close(fd));
}

int main(void)
{
    signals_by_timer();
    overruns();
    by_descriptor();
    return check_failures != 0;
}
