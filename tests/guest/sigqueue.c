/*
 * sigqueue.c - signals that queue, waits for signals, signals to threads, and what stop and
 * continue do to each other.
 *
 * Goal: order, information and masks as Linux has them. Method: signals are blocked, sent, and
 * taken one by one; values are printed and compared with Linux's.
 */
#include "check.h"
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

static void block(int how, int first, int second)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, first);
    if (second != 0) {
        sigaddset(&set, second);
    }
    pthread_sigmask(how, &set, NULL);
}

static int take(siginfo_t *info, int first, int second)
{
    struct timespec none = {0, 0};
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, first);
    if (second != 0) {
        sigaddset(&set, second);
    }
    return sigtimedwait(&set, info, &none);
}

static void queued(void)
{
    int low = SIGRTMIN + 1;
    int high = SIGRTMIN + 5;
    siginfo_t info;
    sigset_t set;

    block(SIG_BLOCK, low, high);
    block(SIG_BLOCK, SIGUSR1, SIGUSR2);
    for (int i = 0; i < 3; i++) {
        union sigval value = {.sival_int = 10 + i};

        sigqueue(getpid(), high, value);
        value.sival_int = 20 + i;
        sigqueue(getpid(), low, value);
        value.sival_int = 30 + i;
        sigqueue(getpid(), SIGUSR1, value);
    }
    sigpending(&set);
    check(sigismember(&set, low) && sigismember(&set, high) && sigismember(&set, SIGUSR1) &&
              !sigismember(&set, SIGUSR2),
          "they are pending");
    for (int i = 0; i < 6; i++) {
        int number = take(&info, low, high);

        printf("real-time +%d value %d code %d\n", number - SIGRTMIN, info.si_value.sival_int,
               info.si_code);
    }
    record("and no more", take(&info, low, high));
    check(take(&info, SIGUSR1, 0) == SIGUSR1, "an old one");
    printf("value %d\n", info.si_value.sival_int);
    record("does not queue", take(&info, SIGUSR1, 0));
    kill(getpid(), SIGUSR2);
    check(take(&info, SIGUSR2, 0) == SIGUSR2 && info.si_code == SI_USER &&
              info.si_pid == getpid() && info.si_uid == getuid(),
          "kill tells who");
    raise(SIGUSR2);
    check(take(&info, SIGUSR2, 0) == SIGUSR2 && info.si_code == SI_TKILL, "tgkill tells so");
    block(SIG_UNBLOCK, low, high);
    block(SIG_UNBLOCK, SIGUSR1, SIGUSR2);
}

static void queue_errors(void)
{
    siginfo_t info;

    memset(&info, 0, sizeof(info));
    info.si_code = SI_USER;
    record("as if by kill, to another", syscall(SYS_rt_sigqueueinfo, getppid(), 0, &info));
    info.si_code = SI_QUEUE;
    record("signal 65", syscall(SYS_rt_sigqueueinfo, getpid(), 65, &info));
    record("to nobody", syscall(SYS_rt_sigqueueinfo, 32000, 0, &info));
    record("bad info", syscall(SYS_rt_sigqueueinfo, getpid(), SIGUSR1, 8));
    record("kill with 65", kill(getpid(), 65));
    record("kill with -1", kill(getpid(), -1));
    record("kill nobody", kill(32000, 0));
    record("kill no group", kill(-32000, 0));
    record("tgkill, other process", syscall(SYS_tgkill, getppid(), getpid(), 0));
    record("tgkill 0", syscall(SYS_tgkill, getpid(), 0, 0));
    record("tkill -1", syscall(SYS_tkill, -1, 0));
    record("mask of another size", syscall(SYS_rt_sigprocmask, 0, NULL, NULL, 4));
    record("mask, unknown how", syscall(SYS_rt_sigprocmask, 7, &info, NULL, 8));
    record("action of SIGKILL", syscall(SYS_rt_sigaction, SIGKILL, &info, NULL, 8));
    record("action read of SIGKILL", syscall(SYS_rt_sigaction, SIGKILL, NULL, &info, 8));
    record("action 0", syscall(SYS_rt_sigaction, 0, NULL, &info, 8));
    record("action 65", syscall(SYS_rt_sigaction, 65, NULL, &info, 8));
    record("wait with a bad time", syscall(SYS_rt_sigtimedwait, &info, NULL, 8, 8));
}

static volatile sig_atomic_t calls;
static volatile sig_atomic_t depth;
static volatile sig_atomic_t deepest;

static void once(int number)
{
    (void)number;
    calls++;
}

static void again(int number)
{
    depth++;
    if (depth > deepest) {
        deepest = depth;
    }
    if (depth < 3) {
        raise(number);
    }
    depth--;
}

static void flags(void)
{
    struct sigaction action = {.sa_handler = once, .sa_flags = (int)SA_RESETHAND};
    struct sigaction now;

    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    sigaction(SIGUSR1, NULL, &now);
    check(calls == 1 && now.sa_handler == SIG_DFL, "SA_RESETHAND");
    action.sa_handler = again;
    action.sa_flags = SA_NODEFER;
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    check(deepest == 3, "SA_NODEFER");
    deepest = 0;
    action.sa_flags = 0;
    sigaction(SIGUSR1, &action, NULL);
    depth = 2;
    raise(SIGUSR1);
    check(deepest == 3 && depth == 2, "once only without it");
    depth = 0;
    signal(SIGUSR1, SIG_IGN);
    block(SIG_BLOCK, SIGUSR1, 0);
    raise(SIGUSR1);
    record("ignored but blocked: kept", take(NULL, SIGUSR1, 0) == SIGUSR1);
    raise(SIGUSR1);
    signal(SIGUSR1, SIG_IGN);
    record("and dropped by ignoring it", take(NULL, SIGUSR1, 0));
    block(SIG_UNBLOCK, SIGUSR1, 0);
    signal(SIGUSR1, SIG_DFL);
}

/* SIGCONT takes pending stops away and the other way round. */
static void stop_and_go_body(void)
{
    sigset_t set;

    block(SIG_BLOCK, SIGCONT, SIGTSTP);
    raise(SIGTSTP);
    raise(SIGCONT);
    sigpending(&set);
    check(!sigismember(&set, SIGTSTP) && sigismember(&set, SIGCONT), "a continue ends a stop");
    raise(SIGTSTP);
    sigpending(&set);
    check(sigismember(&set, SIGTSTP) && !sigismember(&set, SIGCONT), "a stop ends a continue");
}

static void *wait_here(void *number)
{
    sigset_t set;
    int got = 0;

    sigemptyset(&set);
    sigaddset(&set, (int)(intptr_t)number);
    sigwait(&set, &got);
    return (void *)(intptr_t)got;
}

static pthread_t handled_by;

static void note_thread(int number)
{
    (void)number;
    handled_by = pthread_self();
    calls++;
}

static void *unblocked(void *argument)
{
    block(SIG_UNBLOCK, SIGUSR2, 0);
    calls = 0;
    *(volatile int *)argument = 1;
    while (calls == 0) {
        usleep(1000);
    }
    return NULL;
}

static void threads(void)
{
    volatile int ready = 0;
    pthread_t thread;
    void *got;

    block(SIG_BLOCK, SIGUSR1, SIGUSR2);
    pthread_create(&thread, NULL, wait_here, (void *)(intptr_t)SIGUSR1);
    usleep(20000);
    kill(getpid(), SIGUSR1);
    pthread_join(thread, &got);
    check((intptr_t)got == SIGUSR1, "a waiting thread takes the process's signal");
    signal(SIGUSR2, note_thread);
    pthread_create(&thread, NULL, unblocked, (void *)&ready);
    while (ready == 0) {
        usleep(1000);
    }
    kill(getpid(), SIGUSR2);
    pthread_join(thread, NULL);
    check(pthread_equal(handled_by, thread), "the thread that does not block it runs the handler");
    block(SIG_UNBLOCK, SIGUSR1, SIGUSR2);
}

static void *spin(void *argument)
{
    for (;;) {
        ++*(volatile int *)argument;
    }
    return NULL;
}

/* All threads stop, and go on. */
static void stop_of_threads(void)
{
    static volatile int count;
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        pthread_t thread;

        pthread_create(&thread, NULL, spin, (void *)&count);
        for (;;) {
            pause();
        }
    }
    usleep(20000);
    kill(child, SIGSTOP);
    waitpid(child, &status, WUNTRACED);
    record_status("two threads", status);
    kill(child, SIGCONT);
    waitpid(child, &status, WCONTINUED);
    record_status("two threads", status);
    kill(child, SIGSTOP);
    waitpid(child, &status, WUNTRACED);
    record_status("again", status);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    record_status("killed while stopped", status);
}

/* A sleep goes on after a stop, and is not made longer. */
static void sleep_through_stop(void)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        struct timespec start;
        struct timespec end;
        struct timespec sleep = {0, 200000000};
        int result;

        clock_gettime(CLOCK_MONOTONIC, &start);
        result = nanosleep(&sleep, NULL);
        clock_gettime(CLOCK_MONOTONIC, &end);
        long ms = (end.tv_sec - start.tv_sec) * 1000 + (end.tv_nsec - start.tv_nsec) / 1000000;
        _exit(result == 0 && ms >= 200 ? 0 : 1);
    }
    usleep(50000);
    kill(child, SIGSTOP);
    waitpid(child, &status, WUNTRACED);
    kill(child, SIGCONT);
    waitpid(child, &status, 0);
    record_status("a sleep through a stop", status);
}

static void profiling(void)
{
    struct itimerval timer = {{0, 10000}, {0, 10000}};

    signal(SIGVTALRM, once);
    signal(SIGPROF, once);
    calls = 0;
    setitimer(ITIMER_VIRTUAL, &timer, NULL);
    while (calls < 2) {
    }
    setitimer(ITIMER_VIRTUAL, &(struct itimerval){0}, &timer);
    check(timer.it_interval.tv_usec == 10000, "virtual timer");
    calls = 0;
    timer = (struct itimerval){{0, 10000}, {0, 10000}};
    setitimer(ITIMER_PROF, &timer, NULL);
    while (calls < 2) {
        getppid();
    }
    setitimer(ITIMER_PROF, &(struct itimerval){0}, NULL);
    check(true, "profiling timer");
    record("unknown timer", setitimer((__typeof__(ITIMER_REAL))9, &timer, NULL));
    timer.it_value.tv_usec = 1000000;
    record("bad time", setitimer(ITIMER_REAL, &timer, NULL));
    record("alarm", alarm(100));
    record("what was left", alarm(0));
}

int main(void)
{
    queued();
    queue_errors();
    flags();
    in_child("stop and go", stop_and_go_body);
    threads();
    stop_of_threads();
    sleep_through_stop();
    profiling();
    return check_done();
}
