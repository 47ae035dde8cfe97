/*
 * Goal: filters of system calls (seccomp) that answer with an error are borne, whichever call they
 * refuse: blocks grow, keep what was written there, are copied from what is not the library's;
 * memory that cannot be given back is kept. The same where Linux refuses to resize a mapping since
 * the program gave advice about a part of it.
 * Method: a real filter in a child, before the heap starts (over exec, so that libc meets it as
 * well) or afterwards; each call alone, then all of them; in both modes.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vellum/malloc.h>
#include "tests/malloc/child.h"

static const struct call {
    const char *name;
    unsigned number;
} calls[] = {
    {"madvise", SYS_madvise},
    {"mremap", SYS_mremap},
    {"membarrier", SYS_membarrier},
    {"process_vm_readv", SYS_process_vm_readv},
    {"rseq", SYS_rseq},
    {"mincore", SYS_mincore},
    {"getrandom", SYS_getrandom},
    {"sched_getaffinity", SYS_sched_getaffinity},
    {"open", SYS_open},
    {"clock_gettime", SYS_clock_gettime},
};

#define CALLS (sizeof(calls) / sizeof(calls[0]))

/* Refuses the calls of the environment's REFUSE, "all" or one name. glibc itself ends a program
 * whose first thread had rseq and whose second has not. */
static bool filter(bool with_rseq)
{
    struct sock_filter code[2 * CALLS + 2] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    unsigned short length = 1;
    struct sock_fprog program = {.filter = code};
    const char *which = getenv("REFUSE");

    for (size_t i = 0; i < CALLS; i++) {
        if ((with_rseq || calls[i].number != SYS_rseq) &&
            (strcmp(which, "all") == 0 || strcmp(which, calls[i].name) == 0)) {
            code[length++] =
                (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].number, 0, 1);
            code[length++] =
                (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)EPERM);
        }
    }
    code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    program.len = length;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static bool is_filled(const unsigned char *p, size_t size, unsigned char with)
{
    for (size_t i = 0; i < size; i++) {
        if (p[i] != with) {
            return false;
        }
    }
    return true;
}

/* Through all kinds of blocks, up and down. */
static int resizes(void)
{
    unsigned char *p = malloc(10);
    int bad = 0;

    memset(p, 7, 10);
    for (size_t size = 20; size < 40u << 20; size *= 3) {
        p = realloc(p, size);
        if (p == NULL) {
            fprintf(stderr, "realloc(%zu) failed\n", size);
            return 1;
        }
        bad += !is_filled(p, size / 3, 7);
        memset(p, 7, size);
    }
    for (size_t size = 30u << 20; size > 10; size /= 4) {
        p = realloc(p, size);
        bad += p == NULL || !is_filled(p, size, 7);
    }
    free(p);
    return bad;
}

/* 6,000 bytes that are not the library's, with nothing behind them. */
static int adopts(void)
{
    unsigned char *pages =
        mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *p;
    int bad = 0;

    bad += pages == MAP_FAILED || mprotect(pages + 8192, 4096, PROT_NONE) != 0;
    memset(pages, 9, 8192);
    errno = EXDEV;
    p = realloc(pages + 8192 - 6000, 100);
    bad += p == NULL || !is_filled(p, 100, 9);
    p = realloc(pages + 8192 - 6000, 20000);
    bad += p == NULL || !is_filled(p, 6000, 9) || errno != EXDEV;
    return bad;
}

static void *worker(void *arg)
{
    void *kept[300];
    int bad = 0;

    for (size_t round = 0; round < 20; round++) {
        for (size_t i = 0; i < 300; i++) {
            kept[i] = calloc(1, 1 + i * 37 % 9000);
            bad += kept[i] == NULL || !is_filled(kept[i], 1 + i * 37 % 9000, 0);
            memset(kept[i], 1, 1 + i * 37 % 9000);
        }
        for (size_t i = 0; i < 300; i++) {
            free(kept[i]);
        }
        (void)malloc_trim(0);
    }
    return bad == 0 ? arg : NULL;
}

static int threads(void)
{
    pthread_t ids[3];
    int bad = 0;

    for (size_t i = 0; i < 3; i++) {
        bad += pthread_create(&ids[i], NULL, worker, ids) != 0;
    }
    for (size_t i = 0; i < 3; i++) {
        void *result = NULL;

        bad += pthread_join(ids[i], &result) != 0 || result != ids;
    }
    return bad;
}

/* Large tables are zero, though memory that was used is used again. */
static int zeroed(void)
{
    int bad = 0;

    for (size_t size = 50000; size < 8u << 20; size = size * 5 / 4) {
        unsigned char *p = malloc(size);

        memset(p, 5, size);
        free(p);
        p = calloc(1, size);
        bad += p == NULL || !is_filled(p, size, 0);
        free(p);
    }
    return bad;
}

/* In secure mode what is not the library's ends the program. */
static bool is_secure(void)
{
    const char *options = getenv("VELLUM_MALLOC");

    return options != NULL && strstr(options, "secure") != NULL;
}

/* Also the first call leaves errno alone, whatever was refused. */
static int works(void)
{
    errno = EXDEV;
    free(malloc(1));
    if (errno != EXDEV) {
        return 5;
    }
    return resizes() != 0                  ? 1
           : !is_secure() && adopts() != 0 ? 2
           : threads() != 0                ? 3
           : zeroed() != 0                 ? 4
                                           : 0;
}

static int from_now(void)
{
    free(malloc(100));
    return filter(false) ? works() : 96;
}

static int from_start(void)
{
    if (!filter(true)) {
        return 96;
    }
    (void)execl("/proc/self/exe", "case", "--case", "works", (char *)NULL);
    return 97;
}

static int mode_without_rseq(void)
{
    return vl_malloc_is_percpu() ? 1 : 0;
}

static int no_rseq(void)
{
    if (!filter(true)) {
        return 96;
    }
    (void)execl("/proc/self/exe", "case", "--case", "mode_without_rseq", (char *)NULL);
    return 97;
}

/* Linux resizes only what is one mapping to it. */
static int advised(void)
{
    unsigned char *p = malloc(4u << 20);

    memset(p, 3, 4u << 20);
    if (madvise(p + (1u << 20), 1u << 20, MADV_DONTFORK) != 0) {
        return 95;
    }
    p = realloc(p, 9u << 20);
    if (p == NULL || !is_filled(p, 4u << 20, 3)) {
        return 1;
    }
    memset(p, 4, 9u << 20);
    free(p);
    return 0;
}

static const struct child_case cases[] = {
    {"works", works},           {"from_now", from_now},
    {"from_start", from_start}, {"mode_without_rseq", mode_without_rseq},
    {"no_rseq", no_rseq},       {"advised", advised},
};

static void assert_works(const char *name, const char *options)
{
    struct child_result result;

    child_run(name, options, 60, &result);
    if (result.status != 0 || result.output[0] != '\0') {
        fail_msg("%s (%s), without %s: signal %d, status %d: %s", name, options, getenv("REFUSE"),
                 result.signal, result.status, result.output);
    }
}

static void each_mode(const char *name)
{
    assert_works(name, NULL);
    assert_works(name, "percpu=0");
    assert_works(name, "secure");
}

static void one_by_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < CALLS; i++) {
        (void)setenv("REFUSE", calls[i].name, 1);
        assert_works("from_now", NULL);
        assert_works("from_start", NULL);
    }
    (void)setenv("REFUSE", "rseq", 1);
    assert_works("no_rseq", NULL);
}

static void all(void **state)
{
    (void)state;
    (void)setenv("REFUSE", "all", 1);
    each_mode("from_now");
    each_mode("from_start");
}

static void advice(void **state)
{
    (void)state;
    each_mode("advised");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_by_one),
        cmocka_unit_test(all),
        cmocka_unit_test(advice),
    };

    child_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
    return cmocka_run_group_tests_name("malloc: refused calls", tests, NULL, NULL);
}
