/*
 * Goal: what the child of a threaded program loses is bounded: of each thread that was exchanging a
 * sheaf one sheaf, 253 blocks and 256 KiB at most; over a thousand forks of forks, too, and nothing
 * else goes wrong.
 * Method: a chain of processes. Each has threads that take and give blocks, in numbers that make
 * them exchange sheaves all the time, and lists them where the next process, forked in the midst of
 * it, finds and frees them; then it ends. The last one compares what is in use with what was at the
 * start, looks at the blocks that were there all the time, and tells by the pipe that all share.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vellum/malloc.h>
#include "tests/malloc/child.h"

#define GENERATIONS 1000u
#define THREADS     2u
#define BLOCKS      600u
#define SIZE        64u
/* A quarter of the bound on average: threads do not exchange sheaves all the time (a thirtieth was
 * seen); and a block between the allocator and the list. */
#define LOST_EACH ((253u / 4u + 1u) * SIZE)

static void *_Atomic lists[THREADS][BLOCKS];
static void *witnesses[500];

static void *busy(void *arg)
{
    void *_Atomic *list = arg;

    for (;;) {
        for (size_t i = 0; i < BLOCKS; i++) {
            atomic_store(&list[i], malloc(SIZE));
        }
        for (size_t i = 0; i < BLOCKS; i++) {
            free(atomic_exchange(&list[i], NULL));
        }
    }
    return NULL;
}

/* The threads are not here any more; what they had listed is. */
static void take_over(void)
{
    for (size_t t = 0; t < THREADS; t++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            free(atomic_exchange(&lists[t][i], NULL));
        }
    }
}

static bool start_threads(void)
{
    for (size_t t = 0; t < THREADS; t++) {
        pthread_t thread;

        if (pthread_create(&thread, NULL, busy, lists[t]) != 0) {
            return false;
        }
    }
    return true;
}

static int end_of_chain(size_t before)
{
    struct vl_malloc_stats stats;
    int bad = 0;

    for (size_t i = 0; i < 500; i++) {
        bad += *(size_t *)witnesses[i] != i;
        free(witnesses[i]);
    }
    vl_malloc_stats(&stats);
    if (bad != 0 || stats.used > before + (size_t)GENERATIONS * THREADS * LOST_EACH) {
        fprintf(stderr, "%d wrong; used %zu, before %zu\n", bad, stats.used, before);
        return 1;
    }
    return 0;
}

/* Returns in the last process of the chain, or at an error. */
static int chain(void)
{
    struct vl_malloc_stats stats;

    vl_malloc_stats(&stats);
    for (size_t i = 0; i < 500; i++) {
        witnesses[i] = malloc(SIZE);
        *(size_t *)witnesses[i] = i;
    }
    for (size_t n = 0; n < GENERATIONS; n++) {
        pid_t pid;

        if (!start_threads()) {
            return 2;
        }
        (void)usleep(500);
        pid = fork();
        if (pid != 0) {
            _exit(pid > 0 ? 0 : 3);
        }
        take_over();
    }
    return end_of_chain(stats.used);
}

/* The chain's first process ends at once; its last one writes what it returns. */
static int whole_chain(void)
{
    unsigned char result = 99;
    int ends[2];
    pid_t pid;

    if (pipe(ends) != 0) {
        return 96;
    }
    pid = fork();
    if (pid == 0) {
        (void)close(ends[0]);
        result = (unsigned char)chain();
        _exit(write(ends[1], &result, 1) == 1 ? 0 : 1);
    }
    (void)close(ends[1]);
    return read(ends[0], &result, 1) == 1 && waitpid(pid, NULL, 0) == pid ? result : 95;
}

static const struct child_case cases[] = {
    {"whole_chain", whole_chain},
};

static void assert_bounded(const char *options)
{
    struct child_result result;

    child_run("whole_chain", options, 60, &result);
    if (result.status != 0) {
        fail_msg("%s: signal %d, status %d: %s", options, result.signal, result.status,
                 result.output);
    }
}

static void forks_of_forks(void **state)
{
    (void)state;
    assert_bounded(NULL);
    assert_bounded("percpu=0");
    assert_bounded("secure");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forks_of_forks),
    };

    child_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
    return cmocka_run_group_tests_name("malloc: forks of forks", tests, NULL, NULL);
}
