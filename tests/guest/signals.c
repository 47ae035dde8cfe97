/*
 * signals.c - handlers, masks, stacks, restart, and what a handler sees and may change.
 *
 * Goal: signals as POSIX and Linux have them. Method: each property by itself, in one process, or
 * with a child that sends; what Linux decides is printed.
 */
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>

static volatile sig_atomic_t count, last, nested, on_other_stack;
static siginfo_t seen;
static char other_stack[65536];

static void counting(int number)
{
    count++;
    last = number;
}

static void with_info(int number, siginfo_t *info, void *context)
{
    (void)context;
    count++;
    last = number;
    seen = *info;
}

static void set(int number, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
    count = 0;
    last = 0;
}

static void set_info(int number, void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
    count = 0;
}

static void handlers(void)
{
    set(SIGUSR1, counting, 0);
    raise(SIGUSR1);
    check(count == 1 && last == SIGUSR1, "a handler runs");
    set(SIGUSR1, counting, (int)SA_RESETHAND);
    raise(SIGUSR1);
    struct sigaction now;
    sigaction(SIGUSR1, NULL, &now);
    check(count == 1 && now.sa_handler == SIG_DFL, "SA_RESETHAND");
    set(SIGUSR1, SIG_IGN, 0);
    raise(SIGUSR1);
    check(count == 0, "ignored");
    set_info(SIGUSR2, with_info, 0);
    kill(getpid(), SIGUSR2);
    check(seen.si_signo == SIGUSR2 && seen.si_code == SI_USER && seen.si_pid == getpid(),
          "siginfo of kill");
    union sigval value = {.sival_int = 4711};
    check(sigqueue(getpid(), SIGUSR2, value) == 0 && seen.si_code == SI_QUEUE &&
              seen.si_value.sival_int == 4711,
          "siginfo of sigqueue");
    set_info(SIGCHLD, with_info, 0);
    pid_t child = fork();
    if (child == 0) {
        _exit(6);
    }
    while (count == 0) {
        usleep(1000);
    }
    check(seen.si_code == CLD_EXITED && seen.si_pid == child && seen.si_status == 6,
          "siginfo of a child");
    waitpid(child, NULL, 0);
    set(SIGCHLD, SIG_IGN, 0);
    child = fork();
    if (child == 0) {
        _exit(0);
    }
    check(waitpid(child, NULL, 0) == -1 && errno == ECHILD, "SIGCHLD ignored reaps by itself");
    set(SIGCHLD, SIG_DFL, 0);
}

static void masks(void)
{
    sigset_t one, old, pending;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    set(SIGUSR1, counting, 0);
    sigprocmask(SIG_BLOCK, &one, &old);
    raise(SIGUSR1);
    raise(SIGUSR1);
    sigpending(&pending);
    check(count == 0 && sigismember(&pending, SIGUSR1), "blocked and pending");
    sigprocmask(SIG_SETMASK, &old, NULL);
    check(count == 1, "delivered once when unblocked");
    sigset_t real_time;
    sigemptyset(&real_time);
    sigaddset(&real_time, SIGRTMIN + 1);
    set(SIGRTMIN + 1, counting, 0);
    sigprocmask(SIG_BLOCK, &real_time, &old);
    for (int i = 0; i < 3; i++) {
        union sigval value = {.sival_int = i};
        sigqueue(getpid(), SIGRTMIN + 1, value);
    }
    sigprocmask(SIG_SETMASK, &old, NULL);
    check(count == 3, "real-time signals queue");
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &old);
    sigprocmask(SIG_SETMASK, NULL, &pending);
    check(!sigismember(&pending, SIGKILL) && !sigismember(&pending, SIGSTOP),
          "KILL and STOP cannot be blocked");
    sigprocmask(SIG_SETMASK, &old, NULL);
}

static volatile sig_atomic_t inside, inside_max, runs;

static void nesting(int number)
{
    inside++;
    if (inside > inside_max) {
        inside_max = inside;
    }
    if (number == SIGUSR1 && runs == 0) {
        runs++;
        raise(SIGUSR1);
        nested = inside_max;
        raise(SIGUSR2);
    }
    count++;
    inside--;
}

static void nested_handlers(void)
{
    struct sigaction action = {.sa_handler = nesting};
    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR2, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    count = 0;
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    struct timespec none = {0, 0};
    kill(getpid(), SIGUSR1);
    check(nested == 1 && inside_max == 2 && count == 3,
          "its own signal waits for a handler to end, another does not");
    action.sa_handler = counting;
    action.sa_flags = SA_NODEFER;
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    count = 0;
    sigprocmask(SIG_BLOCK, &usr1, NULL);
    kill(getpid(), SIGUSR1);
    check(sigwaitinfo(&usr1, NULL) == SIGUSR1 && count == 0, "sigwaitinfo takes it");
    errno = 0;
    check(sigtimedwait(&usr1, NULL, &none) == -1 && errno == EAGAIN, "sigtimedwait's timeout");
    sigprocmask(SIG_UNBLOCK, &usr1, NULL);
}

static void look_at_stack(int number)
{
    char here;
    (void)number;
    on_other_stack = &here >= other_stack && &here < other_stack + sizeof(other_stack);
    stack_t now;
    sigaltstack(NULL, &now);
    count = now.ss_flags;
    stack_t another = {.ss_sp = other_stack, .ss_size = sizeof(other_stack)};
    last = sigaltstack(&another, NULL) == -1 ? errno : 0;
}

static void stacks(void)
{
    stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof(other_stack)};
    check(sigaltstack(&stack, NULL) == 0, "sigaltstack");
    set(SIGUSR1, look_at_stack, SA_ONSTACK);
    raise(SIGUSR1);
    check(on_other_stack == 1, "a handler runs on the other stack");
    printf("in the handler: flags %d, change errno %d\n", (int)count, (int)last);
    set(SIGUSR1, look_at_stack, 0);
    raise(SIGUSR1);
    check(on_other_stack == 0, "and without SA_ONSTACK it does not");
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, NULL);
    stack.ss_flags = 1234;
    record("sigaltstack with wrong flags", sigaltstack(&stack, NULL));
}

/* Sends SIGUSR1 to the parent after a while, and writes to the pipe after a longer one. */
static pid_t sender(int to)
{
    pid_t child = fork();
    if (child == 0) {
        usleep(100000);
        kill(getppid(), SIGUSR1);
        usleep(100000);
        _exit(write(to, "x", 1) == 1 ? 0 : 1);
    }
    return child;
}

static void restart(void)
{
    int ends[2];
    char byte = 0;
    check(pipe(ends) == 0, "a pipe");
    set(SIGUSR1, counting, 0);
    pid_t child = sender(ends[1]);
    record("read without SA_RESTART", read(ends[0], &byte, 1));
    waitpid(child, NULL, 0);
    check(read(ends[0], &byte, 1) == 1, "the byte is still there");
    set(SIGUSR1, counting, SA_RESTART);
    child = sender(ends[1]);
    record("read with SA_RESTART", read(ends[0], &byte, 1));
    check(count == 1, "the handler ran");
    waitpid(child, NULL, 0);
    child = sender(ends[1]);
    int status = 0;
    check(waitpid(child, &status, 0) == child, "wait restarts");
    check(read(ends[0], &byte, 1) == 1, "another byte");
    child = sender(ends[1]);
    struct timespec longer = {.tv_sec = 5}, left = {0, 0};
    record("nanosleep is not restarted", nanosleep(&longer, &left));
    check(left.tv_sec == 4, "what is left of it");
    waitpid(child, NULL, 0);
    check(read(ends[0], &byte, 1) == 1, "another byte");
    child = sender(ends[1]);
    struct pollfd ready = {.fd = ends[0], .events = POLLIN};
    record("poll is not restarted", poll(&ready, 1, 5000));
    waitpid(child, NULL, 0);
    child = sender(ends[1]);
    record("pause", pause());
    waitpid(child, NULL, 0);
    close(ends[0]);
    close(ends[1]);
}

static void suspended(void)
{
    sigset_t block, wait;
    sigemptyset(&block);
    sigaddset(&block, SIGUSR1);
    sigprocmask(SIG_BLOCK, &block, NULL);
    set(SIGUSR1, counting, 0);
    raise(SIGUSR1);
    sigemptyset(&wait);
    record("sigsuspend", sigsuspend(&wait));
    check(count == 1, "sigsuspend lets it in");
    raise(SIGUSR1);
    check(count == 1, "and blocks it again");
    sigprocmask(SIG_UNBLOCK, &block, NULL);
    check(count == 2, "until it is unblocked");
}

static sigjmp_buf back;

static void jump(int number)
{
    (void)number;
    siglongjmp(back, 1);
}

static void jumps(void)
{
    volatile int rounds = 0;
    set(SIGSEGV, jump, 0);
    char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigsetjmp(back, 1);
    if (rounds < 5) {
        rounds = rounds + 1;
        *(volatile char *)page = 1;
    }
    check(rounds == 5, "a handler jumps out of a fault, five times");
    set(SIGSEGV, SIG_DFL, 0);
}

static void change_context(int number, siginfo_t *info, void *context)
{
    ucontext_t *user = context;
    (void)number;
    (void)info;
    user->uc_mcontext.gregs[REG_RAX] = 4242;
    user->uc_mcontext.gregs[REG_RIP] += 2;
    sigaddset(&user->uc_sigmask, SIGUSR2);
}

static void contexts(void)
{
    long result = 0;
    sigset_t now;
    set_info(SIGILL, change_context, 0);
    __asm__ volatile("xorl %%eax, %%eax\n ud2\n" : "=a"(result));
    check(result == 4242, "a handler changes a register and the next instruction");
    sigprocmask(SIG_SETMASK, NULL, &now);
    check(sigismember(&now, SIGUSR2), "and the mask");
    sigemptyset(&now);
    sigprocmask(SIG_SETMASK, &now, NULL);
    set(SIGILL, SIG_DFL, 0);
}

static void timers(void)
{
    struct itimerval time = {.it_interval = {0, 20000}, .it_value = {0, 20000}}, rest;
    set(SIGALRM, counting, SA_RESTART);
    setitimer(ITIMER_REAL, &time, NULL);
    while (count < 5) {
        pause();
    }
    memset(&time, 0, sizeof(time));
    setitimer(ITIMER_REAL, &time, &rest);
    check(rest.it_interval.tv_usec == 20000, "an interval timer");
    check(alarm(100) == 0 && alarm(0) == 100, "alarm tells what was left");
    set(SIGPIPE, SIG_IGN, 0);
    int ends[2];
    check(pipe(ends) == 0 && close(ends[0]) == 0, "a broken pipe");
    record("write with SIGPIPE ignored", write(ends[1], "x", 1));
    set(SIGPIPE, counting, 0);
    record("write with a handler", write(ends[1], "x", 1));
    check(count == 1, "SIGPIPE came");
}

static void bad_frame(void)
{
    set(SIGUSR1, counting, 0);
    raise(SIGUSR1);
    __asm__ volatile("movq $8, %%rsp\n movl $15, %%eax\n syscall" ::: "memory");
}

static void no_stack_for_handler(void)
{
    set(SIGUSR1, counting, 0);
    long self = getpid();
    __asm__ volatile("movq $4096, %%rsp\n movl $62, %%eax\n syscall\n ud2" ::"D"(self),
                     "S"((long)SIGUSR1)
                     : "memory", "rax", "rcx", "r11");
}

static void exec_keeps(void)
{
    char *arguments[] = {"sh", "-c", "kill -USR1 $$; kill -USR2 $$; echo not reached", NULL};
    set(SIGUSR1, SIG_IGN, 0);
    set(SIGUSR2, counting, 0);
    execv("/bin/sh", arguments);
}

int main(void)
{
    handlers();
    masks();
    nested_handlers();
    stacks();
    restart();
    suspended();
    jumps();
    contexts();
    timers();
    in_child("rt_sigreturn from nothing", bad_frame);
    in_child("no stack for a handler", no_stack_for_handler);
    in_child("exec keeps ignored, resets handled", exec_keeps);
    return check_done();
}
