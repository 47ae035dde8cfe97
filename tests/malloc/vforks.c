/*
 * Goal: a child of vfork(), or of clone() in the same manner, that allocates, as with libc's
 * malloc: beside threads that work on all CPUs, moved to another CPU, with a child of its own; no
 * block is given out twice, and the parent has its fast paths back afterwards. A child of fork()
 * that such a child makes is whole, too. Method: children that are moved to the CPU where their
 * parent is not, while threads of the parent churn on both; what each has is stamped with its own
 * number.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vellum/malloc.h>
#include "tests/malloc/child.h"

#define BLOCKS 200u
#define SIZE   48u

static atomic_bool has_ended;
static atomic_ulong wrong;

/* Takes blocks, stamps them, looks at them again, and gives them back. */
static void churn(unsigned long stamp)
{
    unsigned long *blocks[BLOCKS];

    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(SIZE);
        blocks[i][1] = stamp + i;
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        if (blocks[i][1] != stamp + i) {
            atomic_fetch_add(&wrong, 1);
        }
        free(blocks[i]);
    }
}

static void *busy(void *arg)
{
    while (!atomic_load(&has_ended)) {
        churn((unsigned long)(uintptr_t)arg << 32);
    }
    return NULL;
}

static void move_to(int cpu)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    (void)sched_setaffinity(0, sizeof(one), &one);
}

/* What a child of vfork() does: its exit status, or -1. Not inlined: the frame is for both. */
static __attribute__((noinline)) int in_vfork(int (*fn)(unsigned long), unsigned long arg)
{
    int status = 0;
    pid_t pid = vfork();

    if (pid == 0) {
        _exit(fn(arg));
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
                                                                           : -1;
}

struct work {
    int (*fn)(unsigned long);
    unsigned long arg;
};

static int do_work(void *arg)
{
    const struct work *work = arg;

    _exit(work->fn(work->arg));
}

/* The same by clone(): the child has a stack of its own, and all else of its parent's. */
static int in_clone(int (*fn)(unsigned long), unsigned long arg)
{
    static _Alignas(16) char stack[256 << 10];
    struct work work = {fn, arg};
    int status = 0;
    pid_t pid = clone(do_work, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, &work);

    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
                                                                           : -1;
}

static int allocate(unsigned long stamp)
{
    move_to((int)(stamp & 1));
    for (size_t i = 0; i < 100; i++) {
        churn(stamp << 32);
    }
    return 0;
}

static int beside_threads(void)
{
    pthread_t threads[3];
    int bad = 0;

    for (size_t i = 0; i < 3; i++) {
        bad += pthread_create(&threads[i], NULL, busy, (void *)(i + 1)) != 0;
    }
    for (unsigned long i = 0; i < 40; i++) {
        move_to((int)(i & 1));
        bad += in_vfork(allocate, 1001 + i) != 0;
        bad += in_clone(allocate, 2001 + i) != 0;
        churn(99ul << 32);
    }
    atomic_store(&has_ended, true);
    for (size_t i = 0; i < 3; i++) {
        bad += pthread_join(threads[i], NULL) != 0;
    }
    if (atomic_load(&wrong) != 0) {
        fprintf(stderr, "%lu blocks were given out twice\n", atomic_load(&wrong));
    }
    return bad == 0 && atomic_load(&wrong) == 0 ? 0 : 1;
}

static void *volatile in_child;

static int innermost(unsigned long arg)
{
    free(malloc(SIZE));
    return (int)arg;
}

static int nested(unsigned long arg)
{
    int status = in_vfork(innermost, 3);

    in_child = malloc(SIZE);
    free(in_child);
    return status == 3 ? (int)arg : 99;
}

/* The block that was freed last comes first from this CPU's or this thread's sheaf. */
static int fast_again(void)
{
    void *volatile p;

    move_to(0);
    free(malloc(SIZE));
    p = malloc(SIZE);
    free(p);
    if (in_vfork(nested, 5) != 5) {
        return 1;
    }
    if (vl_malloc_is_percpu() && in_child == p) {
        return 2; /* it was from the sheaf of a CPU which need not be the child's */
    }
    return malloc(SIZE) == p ? 0 : 3;
}

/* The parent's sheaf is its own again, and no other's was in use. */
static int fast_after_clone(void)
{
    void *volatile p;

    move_to(0);
    free(malloc(SIZE));
    p = malloc(SIZE);
    free(p);
    if (in_clone(nested, 5) != 5) {
        return 1;
    }
    if (vl_malloc_is_percpu() && in_child == p) {
        return 2;
    }
    return malloc(SIZE) == p ? 0 : 3;
}

/* A child of vfork() that forks: its child is a process like any. */
static int fork_and_work(unsigned long arg)
{
    pthread_t threads[2];
    pid_t pid = fork();
    int status = 1;

    if (pid == 0) {
        for (size_t i = 0; i < 2; i++) {
            if (pthread_create(&threads[i], NULL, busy, (void *)(i + 1)) != 0) {
                _exit(2);
            }
        }
        for (size_t i = 0; i < 300; i++) {
            move_to((int)(i & 1));
            churn(77ul << 32);
        }
        _exit(atomic_load(&wrong) == 0 ? 0 : 1);
    }
    return waitpid(pid, &status, 0) == pid && status == 0 ? (int)arg : 1;
}

static int forks(void)
{
    return in_vfork(fork_and_work, 7) == 7 ? 0 : 1;
}

/* When there can be no more processes. */
static int fails(void)
{
    const struct rlimit none = {0, 0};

    if (setrlimit(RLIMIT_NPROC, &none) != 0 || syscall(SYS_setresuid, 65534, 65534, 65534) != 0) {
        return 0; /* not allowed to try */
    }
    errno = 0;
    return in_vfork(innermost, 0) == -1 && (errno == EAGAIN) ? 0 : 1;
}

static const struct child_case cases[] = {
    {"beside_threads", beside_threads},
    {"fast_again", fast_again},
    {"fast_after_clone", fast_after_clone},
    {"forks", forks},
    {"fails", fails},
};

static void assert_works(const char *name, const char *options)
{
    struct child_result result;

    child_run(name, options, 60, &result);
    if (result.status != 0) {
        fail_msg("%s (%s): signal %d, status %d: %s", name, options, result.signal, result.status,
                 result.output);
    }
}

static void threads(void **state)
{
    (void)state;
    assert_works("beside_threads", NULL);
    assert_works("beside_threads", "percpu=0");
    assert_works("beside_threads", "secure");
}

static void fast_paths(void **state)
{
    (void)state;
    assert_works("fast_again", NULL);
    assert_works("fast_again", "percpu=0");
    assert_works("fast_after_clone", NULL);
    assert_works("fast_after_clone", "percpu=0");
}

static void forked(void **state)
{
    (void)state;
    assert_works("forks", NULL);
    assert_works("forks", "percpu=0");
}

static void failure(void **state)
{
    (void)state;
    assert_works("fails", NULL);
    assert_works("fails", "percpu=0");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads),
        cmocka_unit_test(fast_paths),
        cmocka_unit_test(forked),
        cmocka_unit_test(failure),
    };

    child_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
    return cmocka_run_group_tests_name("malloc: vfork", tests, NULL, NULL);
}
