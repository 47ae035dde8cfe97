/*
 * waits.c - children and their ends: every kind of wait status, groups, orphans, no children.
 *
 * Goal: exit statuses, signals, stop and continue are told as Linux tells them. Method: children
 * that end in each way; what wait4 and waitid say is printed and compared with Linux.
 */
#include "check.h"
#include <sys/resource.h>

static void exit_seven(void)
{
    _exit(7);
}

static void exit_300(void)
{
    _exit(300);
}

static void die_term(void)
{
    raise(SIGTERM);
}

static void die_kill(void)
{
    raise(SIGKILL);
}

static void die_abort(void)
{
    abort();
}

static void core_quit(void)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    raise(SIGQUIT);
}

static void stop_and_continue(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        raise(SIGSTOP);
        pause();
        _exit(3);
    }
    check(waitpid(child, &status, WUNTRACED) == child, "stop is told");
    record_status("stopped child", status);
    check(waitpid(child, &status, WNOHANG | WUNTRACED) == 0, "and told once");
    kill(child, SIGCONT);
    check(waitpid(child, &status, WCONTINUED | WUNTRACED) == child, "continue is told");
    record_status("continued child", status);
    kill(child, SIGTERM);
    check(waitpid(child, &status, 0) == child, "the end is told");
    record_status("ended child", status);
}

static void with_waitid(void)
{
    siginfo_t info;
    memset(&info, 0, sizeof(info));
    pid_t child = fork();
    if (child == 0) {
        _exit(9);
    }
    check(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0, "waitid without reaping");
    check(info.si_pid == child && info.si_code == CLD_EXITED && info.si_status == 9,
          "waitid's siginfo");
    memset(&info, 0, sizeof(info));
    check(waitid(P_ALL, 0, &info, WEXITED) == 0 && info.si_pid == child, "waitid reaps");
    record("waitid without children", waitid(P_ALL, 0, &info, WEXITED));
    record("waitid without options", waitid(P_ALL, 0, &info, 0));
}

static void groups(void)
{
    int status = 0;
    pid_t first = fork();
    if (first == 0) {
        setpgid(0, 0);
        pause();
        _exit(0);
    }
    setpgid(first, first);
    pid_t second = fork();
    if (second == 0) {
        setpgid(0, first);
        pause();
        _exit(0);
    }
    setpgid(second, first);
    record("wait for a group that is not there", waitpid(-99999, &status, WNOHANG));
    check(getpgid(second) == first, "getpgid");
    check(kill(-first, SIGUSR1) == 0, "signal to a group");
    check(waitpid(-first, &status, 0) > 0, "wait for a group, first");
    record_status("of the group", status);
    check(waitpid(-first, &status, 0) > 0, "wait for a group, second");
    record_status("of the group", status);
    record("group is gone", kill(-first, 0));
}

/* The middle process ends first; its child must then see another parent and still run. */
static void orphan(void)
{
    int ends[2];
    check(pipe(ends) == 0, "pipe");
    pid_t middle = fork();
    if (middle == 0) {
        pid_t own = getpid();
        if (fork() == 0) {
            while (getppid() == own) {
                usleep(1000);
            }
            if (write(ends[1], "x", 1) != 1) {
                _exit(1);
            }
            _exit(0);
        }
        _exit(0);
    }
    int status = 0;
    waitpid(middle, &status, 0);
    char byte = 0;
    check(read(ends[0], &byte, 1) == 1 && byte == 'x', "an orphan gets another parent and runs on");
    close(ends[0]);
    close(ends[1]);
}

static void usage_and_errors(void)
{
    int status = 0;
    struct rusage usage;
    memset(&usage, 0xff, sizeof(usage));
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    check(wait4(child, &status, 0, &usage) == child && usage.ru_utime.tv_sec == 0,
          "wait4's rusage");
    record("wait without children", wait(&status));
    record("wait for one that is no child", waitpid(1, &status, 0));
    record("wait with wrong options", waitpid(-1, &status, 0x40));
    record("kill of no process", kill(999999, 0));
    record("kill with a wrong number", kill(getpid(), 65));
    record("kill with a negative number", kill(getpid(), -1));
    record("setpgid of no process", setpgid(999999, 0));
    record("setpgid to a negative", setpgid(0, -1));
    record("getpgid of no process", getpgid(999999));
    record("getsid of no process", getsid(999999));
}

/* More children at once than a table of few would hold. */
static void many(void)
{
    int good = 0;
    for (int i = 0; i < 200; i++) {
        if (fork() == 0) {
            _exit(i & 0x7f);
        }
    }
    int status = 0, sum = 0;
    while (wait(&status) > 0) {
        good += WIFEXITED(status);
        sum += WEXITSTATUS(status);
    }
    printf("200 children: %d ended, sum %d\n", good, sum);
}

int main(void)
{
    in_child("exit 7", exit_seven);
    in_child("exit 300", exit_300);
    in_child("SIGTERM", die_term);
    in_child("SIGKILL", die_kill);
    in_child("abort", die_abort);
    in_child("SIGQUIT", core_quit);
    stop_and_continue();
    with_waitid();
    groups();
    orphan();
    usage_and_errors();
    many();
    return check_done();
}
