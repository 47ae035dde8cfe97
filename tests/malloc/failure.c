/*
 * Goal: when memory runs out, a call returns NULL with errno ENOMEM and nothing else is harmed: at
 * whichever call to Linux it is refused, and at the limit that was set; and when there is memory
 * again the heap goes on.
 * Method: this program's own syscall() and mremap() stand before libc's, also for the library, and
 * refuse the call with the number that the parent chose, then this one in three, until all
 * calls have had their turn. Limits by the option.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vellum/malloc.h>
#include "tests/malloc/child.h"

static long calls;
static long refuse_at; /* 0: none */
static bool refuse_more;

static bool is_refused(void)
{
    calls++;
    if (refuse_at == 0 || calls < refuse_at) {
        return false;
    }
    return calls == refuse_at || (refuse_more && calls % 3 != 0);
}

/* libc's. To look it up takes no memory. */
static long (*libc_syscall(void))(long number, ...)
{
    static long (*found)(long number, ...);

    if (found == NULL) {
        *(void **)&found = dlsym(RTLD_NEXT, "syscall");
    }
    return found;
}

/* By this the heap gets memory (malloc/calls.h). */
long syscall(long number, ...)
{
    long words[6];
    va_list more;

    va_start(more, number);
    for (size_t i = 0; i < 6; i++) {
        words[i] = va_arg(more, long);
    }
    va_end(more);
    if ((number == SYS_mmap || number == SYS_mprotect) && is_refused()) {
        errno = ENOMEM;
        return -1;
    }
    return libc_syscall()(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

/* By this it resizes mappings. */
void *mremap(void *at, size_t bytes, size_t fresh, int flags, ...)
{
    if (is_refused()) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return (void *)libc_syscall()(SYS_mremap, at, bytes, fresh, flags, 0);
}

/* ---- a workload that needs all kinds of memory ---- */

#define BLOCKS 600u

static struct {
    unsigned char *start;
    size_t size;
} blocks[BLOCKS];

static bool is_whole(size_t i)
{
    return blocks[i].start == NULL || (blocks[i].start[0] == (unsigned char)i &&
                                       blocks[i].start[blocks[i].size - 1] == (unsigned char)i);
}

static void stamp(size_t i, void *start, size_t size)
{
    blocks[i].start = start;
    blocks[i].size = size;
    blocks[i].start[0] = (unsigned char)i;
    blocks[i].start[size - 1] = (unsigned char)i;
}

/* One call; false when what it returned is wrong. */
static bool step(size_t i, unsigned long *seed, size_t *failed)
{
    size_t size = 1 + random_next(seed) % ((size_t)64 << random_next(seed) % 16);
    bool is_new = blocks[i].start == NULL;
    void *p;

    errno = 0;
    if (!is_whole(i)) {
        return false;
    }
    switch (random_next(seed) % 4) {
    case 0:
        p = realloc(blocks[i].start, size);
        break;
    case 1:
        free(blocks[i].start);
        blocks[i].start = NULL;
        p = memalign((size_t)1 << random_next(seed) % 14, size);
        break;
    default:
        free(blocks[i].start);
        blocks[i].start = NULL;
        p = calloc(1, size);
    }
    (void)is_new;
    if (p == NULL) {
        (*failed)++;
        return errno == ENOMEM && is_whole(i);
    }
    stamp(i, p, size);
    return true;
}

static int workload(void)
{
    unsigned long seed = 23;
    size_t failed = 0;

    for (size_t n = 0; n < 1500; n++) {
        if (!step(random_next(&seed) % BLOCKS, &seed, &failed)) {
            fprintf(stderr, "after %zu steps\n", n);
            return 1;
        }
    }
    refuse_at = 0; /* there is memory again */
    for (size_t i = 0; i < BLOCKS; i++) {
        if (!is_whole(i)) {
            return 2;
        }
        free(blocks[i].start);
        blocks[i].start = malloc(i * 100 + 1);
        if (blocks[i].start == NULL) {
            return 3;
        }
        free(blocks[i].start);
    }
    return 0;
}

/* Refuses what the environment names; exit status 42: there were not so many calls. */
static int refused(void)
{
    long at = strtol(getenv("REFUSE_AT"), NULL, 10);
    int status;

    refuse_more = getenv("REFUSE_MORE") != NULL;
    refuse_at = at;
    status = workload();
    return status != 0 ? status : calls < at ? 42 : 0;
}

/* From the very first call on: the heap cannot start. */
static int refused_wholly(void)
{
    void *p;

    refuse_at = 1;
    refuse_more = true;
    errno = 0;
    p = malloc(10);
    return p == NULL && errno != ENOMEM;
}

static int at_limit(void)
{
    size_t got = 0;
    void *list = NULL;
    void *p;

    if (malloc(40u << 20) != NULL || errno != ENOMEM) {
        return 1;
    }
    free(malloc(10u << 20));
    for (size_t round = 0; round < 3; round++) {
        size_t before = got;

        got = 0;
        errno = 0;
        while ((p = malloc(1000)) != NULL) {
            *(void **)p = list;
            list = p;
            got += 1000;
            if (got > 32u << 20) {
                return 2;
            }
        }
        if (errno != ENOMEM || got < 26u << 20 || (round > 0 && got + (1u << 20) < before)) {
            fprintf(stderr, "%zu bytes, before %zu\n", got, before);
            return 3;
        }
        while (list != NULL) {
            p = list;
            list = *(void **)list;
            free(p);
        }
        /* Another size gets what this one had. */
        for (size_t i = 0; i < 20; i++) {
            p = malloc(1000000);
            if (p == NULL) {
                return 4;
            }
            *(void **)p = list;
            list = p;
        }
        while (list != NULL) {
            p = list;
            list = *(void **)list;
            free(p);
        }
    }
    return 0;
}

/* Few addresses: ulimit -v. */
static int few_addresses(void)
{
    struct rlimit limit = {300u << 20, 300u << 20};
    size_t got = 0;

    if (setrlimit(RLIMIT_AS, &limit) != 0) {
        return 9;
    }
    while (malloc(100000) != NULL) {
        got += 100000;
    }
    return got < 60u << 20 || errno != ENOMEM;
}

static const struct child_case cases[] = {
    {"refused", refused},
    {"refused_wholly", refused_wholly},
    {"at_limit", at_limit},
    {"few_addresses", few_addresses},
};

static int run(const char *name, const char *options)
{
    struct child_result result;

    child_run(name, options, 60, &result);
    if (result.signal != 0 || (result.status != 0 && result.status != 42)) {
        fail_msg("%s, call %s: signal %d, status %d: %s", name, getenv("REFUSE_AT"), result.signal,
                 result.status, result.output);
    }
    return result.status;
}

static void each_call(void **state)
{
    char number[16];
    int status = 0;
    int at;

    (void)state;
    for (at = 1; status != 42 && at < 2000; at += at < 40 ? 1 : 5) {
        (void)snprintf(number, sizeof(number), "%d", at);
        (void)setenv("REFUSE_AT", number, 1);
        status = run("refused", NULL);
    }
    assert_int_equal(status, 42);
    assert_true(at > 20); /* there were some */
}

static void many_calls(void **state)
{
    char number[16];

    (void)state;
    (void)setenv("REFUSE_MORE", "1", 1);
    for (int at = 3; at < 120; at += 13) {
        (void)snprintf(number, sizeof(number), "%d", at);
        (void)setenv("REFUSE_AT", number, 1);
        (void)run("refused", NULL);
    }
    (void)run("refused_wholly", NULL);
}

static void limits(void **state)
{
    (void)state;
    assert_int_equal(run("at_limit", "limit=32M"), 0);
    assert_int_equal(run("few_addresses", NULL), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call),
        cmocka_unit_test(many_calls),
        cmocka_unit_test(limits),
    };

    child_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
    return cmocka_run_group_tests_name("malloc: out of memory", tests, NULL, NULL);
}
