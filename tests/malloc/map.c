/*
 * Goal: free() by a map of all pages, or without one: what is not the library's is left alone,
 * wherever it is and however early it is freed; where there are no addresses for a map, or none is
 * wanted, the heap works without; a program may lock all of its memory.
 * Method: free() is called before any other function of the library, then with addresses from all
 * over user space, each beside blocks that must stay whole; each in a child with options of its
 * own, and once with few addresses. /proc/self/maps tells whether there is a map.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include "tests/malloc/child.h"

#define BLOCKS 3000u

static uint64_t there[64];
static int early_errors;

/* Before any constructor, and so before the heap has started. */
static void early(void)
{
    uint64_t here[64] = {0x1122334455667788u};

    errno = EXDEV;
    free(NULL);
    free(here);
    free(there);
    free((void *)(uintptr_t)early);
    early_errors = here[0] != 0x1122334455667788u || there[0] != 0 || errno != EXDEV;
}

static void (*const early_entry)(void) __attribute__((section(".preinit_array"), used)) = early;

/* Is a mapping of 32 GiB there that reads as zeros? */
static int has_map(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long start;
    unsigned long end;
    char rights[8];
    int found = 0;

    while (maps != NULL && fscanf(maps, "%lx-%lx %7s%*[^\n]", &start, &end, rights) == 3) {
        found += end - start > 16ul << 30 && strcmp(rights, "r--p") == 0;
    }
    if (maps != NULL) {
        (void)fclose(maps);
    }
    return found;
}

/* Blocks of all kinds, each full of its number; an address that is not ours between any two. */
static void *blocks_beside(void *arg)
{
    static const uintptr_t bits[] = {0x1000, 0x400000, 1ul << 32, 1ul << 35, 1ul << 44, 1ul << 46};
    uintptr_t local = 0;
    uintptr_t *kept[BLOCKS];
    int *bad = arg;

    for (uintptr_t i = 0; i < BLOCKS; i++) {
        size_t words = 1 + i * i % (i % 16 == 0 ? 9000 : 120);

        kept[i] = malloc(words * sizeof(uintptr_t));
        kept[i][0] = i;
        kept[i][words - 1] = i;
        free(&local);
        free(&there[i % 64]);
        free((void *)(bits[i % 6] + (i << 4)));
        free((void *)(0x7fffffffe000u + (i % 512 << 4)));
    }
    for (uintptr_t i = 0; i < BLOCKS; i++) {
        *bad += kept[i][0] != i || malloc_usable_size(kept[i]) < sizeof(uintptr_t);
        free(kept[i]);
    }
    *bad += local != 0;
    return NULL;
}

static int foreign(void)
{
    pthread_t id;
    int bad = early_errors;
    int bad_there = 0;

    if (pthread_create(&id, NULL, blocks_beside, &bad_there) != 0) {
        return 90;
    }
    (void)blocks_beside(&bad);
    (void)pthread_join(id, NULL);
    return bad + bad_there != 0 ? 1 : 0;
}

static int with_map(void)
{
    return foreign() != 0 ? 1 : has_map() != 1 ? 2 : 0;
}

static int without_map(void)
{
    return foreign() != 0 ? 1 : has_map() != 0 ? 2 : 0;
}

/* 2 GiB of addresses, most of which libc and the program do not need. */
static int narrow(void)
{
    struct rlimit limit = {2ul << 30, 2ul << 30};

    if (setrlimit(RLIMIT_AS, &limit) != 0) {
        return 91;
    }
    (void)execl("/proc/self/exe", "case", "--case", "without_map", (char *)NULL);
    return 92;
}

/* Fails where the user may not lock so much; the heap works in any case. */
static int locked(void)
{
    void *p = malloc(100);

    (void)mlockall(MCL_CURRENT);
    free(p);
    return foreign();
}

static const struct child_case cases[] = {
    {"foreign", foreign}, {"with_map", with_map}, {"without_map", without_map},
    {"narrow", narrow},   {"locked", locked},
};

static void assert_good(const char *name, const char *options)
{
    struct child_result result;

    child_run(name, options, 120, &result);
    if (result.status != 0 || result.output[0] != '\0') {
        fail_msg("%s (%s): signal %d, status %d: %s", name, options, result.signal, result.status,
                 result.output);
    }
}

/* A strategy without sheaves has none. */
#if defined(TEST_LISTS)
#define WITH_MAP "without_map"
#else
#define WITH_MAP "with_map"
#endif

static void with_a_map(void **state)
{
    (void)state;
    assert_good(WITH_MAP, "map=1");
}

static void without_a_map(void **state)
{
    (void)state;
    assert_good("without_map", "map=0");
    assert_good("narrow", "map=1");
}

static void all_memory_locked(void **state)
{
    (void)state;
    assert_good("locked", "map=1,reserve=1G");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_a_map),
        cmocka_unit_test(without_a_map),
        cmocka_unit_test(all_memory_locked),
    };

    child_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
    return cmocka_run_group_tests_name("malloc: free by a map", tests, NULL, NULL);
}
