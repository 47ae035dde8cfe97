/*
 * Goal: a program, or a library beside ours, may have an mmap(), mprotect(), munmap(), mremap() and
 * clock_gettime() of its own that allocate: the heap does not wait for itself.
 * Method: this program has them, and each allocates blocks of all kinds before it does its work,
 * in the heap's start, its growth, mappings of their own, their resizing, and giving back.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "tests/malloc/child.h"

static int depth;

/* A block of each kind. */
static void allocate(void)
{
    static void *volatile p;

    if (depth++ == 0) {
        for (size_t size = 8; size <= (size_t)4 << 20; size *= 8) {
            p = malloc(size);
            free(p);
        }
    }
    depth--;
}

void *mmap(void *start, size_t bytes, int rights, int flags, int file, off_t offset)
{
    allocate();
    return (void *)syscall(SYS_mmap, start, bytes, rights, flags, file, offset);
}

int mprotect(void *start, size_t bytes, int rights)
{
    allocate();
    return (int)syscall(SYS_mprotect, start, bytes, rights);
}

int munmap(void *start, size_t bytes)
{
    allocate();
    return (int)syscall(SYS_munmap, start, bytes);
}

void *mremap(void *start, size_t old_bytes, size_t bytes, int flags, ...)
{
    allocate();
    return (void *)syscall(SYS_mremap, start, old_bytes, bytes, flags, NULL);
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    allocate();
    return (int)syscall(SYS_clock_gettime, clock, out);
}

#define BLOCKS 4000u

/* All that makes the heap call Linux. Some 300 MiB of addresses, of which little is touched. */
static int work(void)
{
    static char *blocks[BLOCKS];
    unsigned long seed = 4711;

    for (unsigned round = 0; round < 4; round++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            size_t size = random_next(&seed) % (i % 100 == 0 ? 4000000u : 40000u) + 1;

            blocks[i] = realloc(blocks[i], size);
            if (blocks[i] == NULL) {
                return 1;
            }
            blocks[i][0] = (char)i;
        }
        (void)malloc_trim(0);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        if (blocks[i][0] != (char)i) {
            return 2;
        }
        free(blocks[i]);
    }
    (void)malloc_trim(0);
    return 0;
}

static const struct child_case cases[] = {{"work", work}};

static void works(void **state)
{
    static const char *const modes[] = {"percpu=1", "percpu=0", "secure", "purge=0", "limit=1G"};
    struct child_result result;

    (void)state;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        child_run("work", modes[i], 30, &result);
        if (result.signal != 0 || result.status != 0) {
            print_error("%s: signal %d, status %d: %s\n", modes[i], result.signal, result.status,
                        result.output);
        }
        assert_int_equal(result.signal, 0);
        assert_int_equal(result.status, 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(works)};

    child_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
    return cmocka_run_group_tests_name("malloc: interposed calls", tests, NULL, NULL);
}
