/*
 * jobs.c - the tree of processes: groups, sessions, orphans, who may move whom, reaping unasked.
 *
 * Goal: the rules of POSIX job control and of Linux's prctl around it. Method: small families of
 * processes that report by exit statuses and pipes; results are compared with Linux's.
 */
#include "check.h"
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

static volatile sig_atomic_t hups;
static volatile sig_atomic_t conts;

static void count(int number)
{
    if (number == SIGHUP) {
        hups++;
    } else {
        conts++;
    }
}

static void short_sleep(void)
{
    struct timespec pause = {0, 20000000};

    nanosleep(&pause, NULL);
}

static void moving(void)
{
    int status = 0;
    int go[2];
    int ready[2];
    char byte;

    record("setpgid of nobody", setpgid(99999 % 32768, 0));
    record("setpgid negative", setpgid(0, -1));
    record("setpgid negative pid", setpgid(-5, 0));
    if (pipe(go) != 0 || pipe(ready) != 0) {
        exit(1);
    }
    pid_t child = fork();
    if (child == 0) {
        close(go[1]);
        (void)!read(go[0], &byte, 1);
        _exit(getpgrp() == getpid() ? 3 : 4);
    }
    record("a parent moves its child", setpgid(child, child));
    check(getpgid(child) == child, "it is moved");
    record("to a group that is not there", setpgid(child, 30000));
    record("back to the parent's", setpgid(child, getpgrp()));
    record("and to its own again", setpgid(child, 0));
    close(go[1]);
    waitpid(child, &status, 0);
    record_status("it agrees", status);
    record("a dead child", setpgid(child, 0));
    child = fork();
    if (child == 0) {
        char *arguments[] = {"/bin/sleep", "5", NULL};
        char *none[] = {NULL};

        fcntl(ready[1], F_SETFD, FD_CLOEXEC);
        close(ready[0]);
        execve(arguments[0], arguments, none);
        _exit(1);
    }
    close(ready[1]);
    (void)!read(ready[0], &byte, 1); /* closed by its exec */
    record("a child after its exec", setpgid(child, child));
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    close(ready[0]);
    close(go[0]);
}

static void lead_session(int done)
{
    bool good = setsid() == getpid() && getsid(0) == getpid() && getpgrp() == getpid();
    int status;
    pid_t child;

    check(good, "a session of its own");
    record("setpgid of a session's leader", setpgid(0, 0));
    child = fork();
    if (child == 0) {
        setpgid(0, 0);
        pause();
    }
    record_good("getsid of a child", getsid(child) == getpid() ? 0 : -1);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    close(done);
    pause();
}

static void sessions_body(void)
{
    int done[2];
    int status = 0;
    char byte;

    setpgid(0, 0);
    record("setsid of a leader of a group", setsid());
    if (pipe(done) != 0) {
        _exit(1);
    }
    pid_t child = fork();
    if (child == 0) {
        lead_session(done[1]);
        _exit(0);
    }
    close(done[1]);
    (void)!read(done[0], &byte, 1);
    record("child of another session", setpgid(child, getpgrp()));
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    record_status("the leader", status);
}

/* A stopped member of a group that loses its last link is told SIGHUP, then SIGCONT. */
static void orphaned(void)
{
    int pipes[2];
    char byte = 0;

    if (pipe(pipes) != 0) {
        exit(1);
    }
    pid_t child = fork();
    if (child == 0) {
        int status;

        setpgid(0, 0);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            setpgid(0, 0);
            signal(SIGHUP, count);
            signal(SIGCONT, count);
            raise(SIGSTOP);
            byte = hups == 1 && conts == 1 ? 'y' : 'n';
            (void)!write(pipes[1], &byte, 1);
            _exit(9);
        }
        waitpid(grandchild, &status, WUNTRACED);
        record_status("grandchild", status);
        _exit(0);
    }
    close(pipes[1]);
    (void)!read(pipes[0], &byte, 1);
    check(byte == 'y', "an orphaned and stopped group is told SIGHUP and SIGCONT");
    int status = 0;
    waitpid(child, &status, 0);
    record_status("child", status);
    record("the grandchild is not ours", wait(&status));
    close(pipes[0]);
}

static void subreaper(void)
{
    int status = 0;

    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t child = fork();
    if (child == 0) {
        pid_t grandchild = fork();
        if (grandchild == 0) {
            while (getppid() != getpgrp()) {
                short_sleep();
            }
            _exit(31);
        }
        _exit(0);
    }
    waitpid(child, &status, 0);
    check(wait(&status) > 0, "the grandchild comes to the subreaper");
    record_status("grandchild", status);
    record("nobody is left", wait(&status));
}

/* Stop signals of the terminal do nothing to an orphaned group. */
static void stop_of_orphans(void)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        setsid();
        raise(SIGTSTP);
        raise(SIGTTIN);
        raise(SIGTTOU);
        _exit(11);
    }
    waitpid(child, &status, WUNTRACED);
    record_status("an orphan is not stopped by SIGTSTP", status);
}

static void unasked(void)
{
    int status = 0;
    struct sigaction action = {.sa_handler = SIG_IGN};
    siginfo_t info;

    sigaction(SIGCHLD, &action, NULL);
    if (fork() == 0) {
        _exit(1);
    }
    record("wait with SIGCHLD ignored", wait(&status));
    action.sa_handler = SIG_DFL;
    action.sa_flags = SA_NOCLDWAIT;
    sigaction(SIGCHLD, &action, NULL);
    if (fork() == 0) {
        _exit(1);
    }
    record("wait with SA_NOCLDWAIT", wait(&status));
    action.sa_flags = 0;
    sigaction(SIGCHLD, &action, NULL);
    pid_t child = fork();
    if (child == 0) {
        _exit(5);
    }
    memset(&info, 0, sizeof(info));
    record("waitid without reaping", waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT));
    check(info.si_pid == child && info.si_status == 5 && info.si_code == CLD_EXITED, "tells all");
    check(waitpid(child, &status, 0) == child, "and leaves it");
    record("waitid of nobody", waitid(P_PID, (id_t)child, &info, WEXITED));
    record("waitid of nothing", waitid(P_ALL, 0, &info, WNOHANG));
    record("waitid, unknown kind", waitid(77, 0, &info, WEXITED));
    record("wait4, unknown option", wait4(-1, &status, 0x100, NULL));
}

static volatile sig_atomic_t told;
static siginfo_t told_info;

static void tell(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    told++;
    told_info = *info;
}

static void told_by_signal(void)
{
    struct sigaction action = {.sa_sigaction = tell, .sa_flags = SA_SIGINFO};
    sigset_t set;
    sigset_t none;
    int status = 0;

    sigemptyset(&none);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    sigaction(SIGCHLD, &action, NULL);
    pid_t child = fork();
    if (child == 0) {
        raise(SIGSTOP);
        _exit(21);
    }
    sigsuspend(&none);
    check(told == 1 && told_info.si_code == CLD_STOPPED && told_info.si_status == SIGSTOP,
          "SIGCHLD says stopped");
    /* Going on is not told, so that its signal does not stand in for that of the end. */
    action.sa_flags |= SA_NOCLDSTOP;
    sigaction(SIGCHLD, &action, NULL);
    kill(child, SIGCONT);
    sigsuspend(&none);
    check(told_info.si_code == CLD_EXITED, "and of the rest only the end");
    check(told_info.si_pid == child && told_info.si_status == 21, "SIGCHLD says exited");
    waitpid(child, &status, 0);
    told = 0;
    child = fork();
    if (child == 0) {
        raise(SIGTERM);
    }
    sigsuspend(&none);
    check(told_info.si_code == CLD_KILLED && told_info.si_status == SIGTERM, "SIGCHLD says killed");
    waitpid(child, &status, 0);
    action.sa_handler = SIG_DFL;
    action.sa_flags = 0;
    sigaction(SIGCHLD, &action, NULL);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static void death_of_parent(void)
{
    int pipes[2];
    char byte = 0;

    if (pipe(pipes) != 0) {
        exit(1);
    }
    pid_t child = fork();
    if (child == 0) {
        int ready[2];

        if (pipe(ready) != 0) {
            _exit(1);
        }
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGUSR1);
            signal(SIGUSR1, SIG_DFL);
            close(ready[0]);
            close(ready[1]);
            for (;;) {
                pause();
            }
        }
        close(ready[1]);
        (void)!read(ready[0], &byte, 1);
        _exit(0);
    }
    close(pipes[1]);
    int status = 0;
    waitpid(child, &status, 0);
    check(wait(&status) > 0, "the grandchild ends too");
    record_status("grandchild", status);
    close(pipes[0]);
}

static int clone_exit(void *argument)
{
    _exit((int)(intptr_t)argument);
}

static char stack[65536] __attribute__((aligned(16)));

static void clones(void)
{
    int status = 0;
    char *top = stack + sizeof(stack);

    record("thread without sighand", syscall(SYS_clone, CLONE_THREAD, 0, 0, 0, 0));
    record("sighand without vm", syscall(SYS_clone, CLONE_SIGHAND, 0, 0, 0, 0));
    pid_t child = clone(clone_exit, top, CLONE_VM, (void *)(intptr_t)12);
    record("wait for a child without a signal", waitpid(child, &status, WNOHANG));
    check(waitpid(child, &status, __WALL) == child, "__WALL waits for it");
    record_status("it", status);
    signal(SIGUSR2, SIG_IGN);
    child = clone(clone_exit, top, CLONE_VM | SIGUSR2, (void *)(intptr_t)13);
    record("__WCLONE is for it", waitpid(child, &status, __WCLONE) == child);
    child = clone(clone_exit, top, CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_FS | SIGCHLD,
                  (void *)(intptr_t)14);
    check(waitpid(child, &status, 0) == child, "a child that shares everything");
    record_status("it", status);
    check(getppid() > 0, "the parent is known");
}

int main(void)
{
    setpgid(0, 0);
    moving();
    in_child("sessions", sessions_body);
    orphaned();
    subreaper();
    stop_of_orphans();
    unasked();
    told_by_signal();
    death_of_parent();
    clones();
    return check_done();
}
