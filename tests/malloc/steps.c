/*
 * Goal: a program that is stopped at every instruction goes on. Sequences of per-CPU mode begin
 * anew when they are interrupted, and must not do so for ever: under a debugger's single steps, at
 * a breakpoint within a sequence, with the trap flag set.
 * Method: malloc, free and the rest run with the trap flag set, whose signal's handler counts
 * steps, in each mode; and a child runs the same under ptrace(), step by step. What is given out
 * meanwhile is distinct and keeps what was written there.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vellum/malloc.h>
#include "tests/malloc/child.h"

#define BLOCKS 24u
/* More than any call takes. */
#define STEPS_MAX 100000ul

static volatile unsigned long steps;
static struct vl_malloc_cache cache;

static void count_step(int number)
{
    (void)number;
    if (++steps > STEPS_MAX) {
        static const char text[] = "no end of steps\n";

        (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
        _exit(90);
    }
}

static inline void trap_on(void)
{
    steps = 0;
    __asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
}

static inline void trap_off(void)
{
    __asm__ volatile("pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
}

static size_t size_of(size_t i)
{
    return 1 + i * i * 13 % 2000 + (i % 20 == 7 ? 70000 : 0) + (i % 20 == 19 ? 3000000 : 0);
}

static void *get(size_t i)
{
    switch (i % 4) {
    case 0:
        return vl_malloc_cache_alloc(&cache);
    case 1:
        return calloc(1, size_of(i));
    case 2:
        return realloc(malloc(size_of(i) / 3), size_of(i));
    default:
        return malloc(size_of(i));
    }
}

static size_t length(size_t i)
{
    return i % 4 == 0 ? 100 : size_of(i);
}

static bool is_whole(const unsigned char *block, size_t i)
{
    for (size_t at = 0; at < length(i); at++) {
        if (block[at] != (unsigned char)(i + 1)) {
            return false;
        }
    }
    return true;
}

static int some_of_each(bool traps)
{
    unsigned char *blocks[BLOCKS];
    int bad = 0;

    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            if (traps) {
                trap_on();
            }
            blocks[i] = get(i);
            trap_off();
            bad += blocks[i] == NULL;
            memset(blocks[i], (int)i + 1, length(i));
        }
        for (size_t i = 0; i < BLOCKS; i++) {
            bad += !is_whole(blocks[i], i);
            if (traps) {
                trap_on();
            }
            if (i % 4 == 0) {
                vl_malloc_cache_free(&cache, blocks[i]);
            } else {
                free(blocks[i]);
            }
            trap_off();
        }
    }
    return bad == 0 ? 0 : 1;
}

static int by_flag(void)
{
    const struct sigaction action = {.sa_handler = count_step};
    int bad = vl_malloc_cache_create("stepped", 100, 0, &cache);

    bad += sigaction(SIGTRAP, &action, NULL) != 0;
    bad += some_of_each(true);
    return bad == 0 && steps > 10 ? 0 : 1;
}

/* For who is traced from the start: the signal tells that it begins. */
static int for_tracer(void)
{
    int bad = vl_malloc_cache_create("stepped", 100, 0, &cache);

    (void)ptrace(PTRACE_TRACEME, 0, 0, 0);
    (void)raise(SIGUSR1);
    for (size_t i = 0; i < 8; i++) {
        void *volatile p = get(i);
        void *volatile q = malloc(20);

        bad += p == NULL || q == NULL || p == q;
        free(q);
        if (i % 4 == 0) {
            vl_malloc_cache_free(&cache, p);
        } else {
            free(p);
        }
    }
    (void)raise(SIGUSR2);
    return bad == 0 ? 0 : 1;
}

/* Steps until SIGUSR2. */
static int by_tracer(void)
{
    pid_t pid = fork();
    unsigned long count = 0;
    int status;

    if (pid == 0) {
        _exit(for_tracer());
    }
    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status) || WSTOPSIG(status) != SIGUSR1) {
        return 91;
    }
    do {
        if (ptrace(PTRACE_SINGLESTEP, pid, 0, 0) != 0 || waitpid(pid, &status, 0) != pid) {
            return 92;
        }
    } while (WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP && ++count < STEPS_MAX);
    if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGUSR2) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, &status, 0);
        return 93;
    }
    (void)ptrace(PTRACE_CONT, pid, 0, 0);
    return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 94;
}

static const struct child_case cases[] = {
    {"by_flag", by_flag},
    {"by_tracer", by_tracer},
};

static void assert_ends(const char *name, const char *options)
{
    struct child_result result;

    child_run(name, options, 60, &result);
    if (result.status != 0) {
        fail_msg("%s (%s): signal %d, status %d: %s", name, options, result.signal, result.status,
                 result.output);
    }
}

static void trap_flag(void **state)
{
    (void)state;
    assert_ends("by_flag", "purge=never");
    assert_ends("by_flag", "purge=never,percpu=0");
    assert_ends("by_flag", "purge=never,secure");
}

static void tracer(void **state)
{
    (void)state;
    assert_ends("by_tracer", "purge=never");
    assert_ends("by_tracer", "purge=never,percpu=0");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trap_flag),
        cmocka_unit_test(tracer),
    };

    child_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
    return cmocka_run_group_tests_name("malloc: single steps", tests, NULL, NULL);
}
