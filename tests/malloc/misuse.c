/*
 * Goal: in secure mode what a program does wrong ends it at once, with a line that says what: frees
 * of what is free, of what is inside a block, of what never was one; and freed memory is filled. In
 * the default mode a double free does not go unnoticed for ever either. Options that are not
 * understood have no effect and are said to be so in one line. A pointer that is not the heap's is
 * left alone.
 * Method: each fault in a child of its own, whose end and message are looked at.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <vellum/malloc.h>
#include "tests/malloc/child.h"

/* Bytes at the start of a freed block that are the library's: the list of free ones. */
#if defined(TEST_LISTS)
#define LINK_BYTES sizeof(void *)
#else
#define LINK_BYTES 0u
#endif

/* Hides from the compiler what it would warn of. */
static void *volatile hidden;

static void *hide(void *p)
{
    hidden = p;
    return hidden;
}

static int twice(void)
{
    void *p = hide(malloc(100));

    free(p);
    free(hidden);
    return 0;
}

static int twice_run(void)
{
    void *p = hide(malloc(100000));

    free(p);
    free(hidden);
    return 0;
}

static int twice_large(void)
{
    void *p = hide(malloc(10000000));

    free(p);
    free(hidden);
    return 0;
}

static int inside(void)
{
    free((char *)hide(malloc(100)) + 16);
    return 0;
}

static int inside_run(void)
{
    free((char *)hide(malloc(100000)) + 4096);
    return 0;
}

static int inside_large(void)
{
    free((char *)hide(malloc(10000000)) + 4096);
    return 0;
}

static int of_stack(void)
{
    char local[64];

    free(hide(local + 16));
    return 0;
}

static int realloc_freed(void)
{
    void *p = hide(malloc(100));

    free(p);
    return realloc(hidden, 200) == NULL;
}

static int realloc_inside(void)
{
    return realloc((char *)hide(malloc(100)) + 32, 200) == NULL;
}

static int filled(void)
{
    unsigned char *p = hide(malloc(100));

    memset(p, 1, 100);
    free(p);
    p = hidden;
    for (size_t i = LINK_BYTES; i < 100; i++) {
        if (p[i] != 0xdf) {
            return 1;
        }
    }
    return 0;
}

/* Works as ever: a little of all. */
static int ordinary(void)
{
    for (size_t i = 0; i < 3000; i++) {
        unsigned char *p = malloc(i * 13 % 70000);
        unsigned char *q = calloc(1, i);

        memset(p, 1, i * 13 % 70000);
        for (size_t k = 0; k < i; k++) {
            if (q[k] != 0) {
                return 1;
            }
        }
        p = realloc(p, i * 29 % 70000 + 1);
        free(q);
        free(p);
    }
    return 0;
}

/* Default mode: the second free is found when the batch goes back to the slab. */
static int twice_then_more(void)
{
    void *kept[1000];
    void *p = hide(malloc(100));

    free(p);
    free(hidden);
    for (size_t i = 0; i < 1000; i++) {
        kept[i] = malloc(100);
    }
    for (size_t i = 0; i < 1000; i++) {
        free(kept[i]);
    }
    (void)malloc_trim(0);
    return 0;
}

/* What is not the heap's, freed and resized, as with blocks that the dynamic loader allocated
 * before it found us. */
static int foreign(void)
{
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *moved;

    if (munmap(page + 4096, 4096) != 0) {
        return 9;
    }
    strcpy(page + 4032, "kept");
    free(hide(page + 4032));                  /* no effect */
    moved = realloc(hide(page + 4032), 1000); /* more than can be read */
    if (moved == NULL || moved == page + 4032 || strcmp(moved, "kept") != 0) {
        return 1;
    }
    moved[999] = 1;
    free(moved);
    return strcmp(page + 4032, "kept") != 0;
}

static int is_percpu(void)
{
    return vl_malloc_is_percpu() ? 1 : 0;
}

static int aligned24(void)
{
    size_t wrong = 0;

    for (size_t i = 0; i < 100; i++) {
        wrong += (uintptr_t)malloc(24) % 16 != 0;
    }
    return wrong != 0;
}

static const struct child_case cases[] = {
    {"twice", twice},       {"twice_run", twice_run},         {"twice_large", twice_large},
    {"inside", inside},     {"inside_run", inside_run},       {"inside_large", inside_large},
    {"of_stack", of_stack}, {"realloc_freed", realloc_freed}, {"realloc_inside", realloc_inside},
    {"filled", filled},     {"ordinary", ordinary},           {"twice_then_more", twice_then_more},
    {"foreign", foreign},   {"is_percpu", is_percpu},         {"aligned24", aligned24},
};

static void assert_dies(const char *name, const char *options, const char *says)
{
    struct child_result result;

    child_run(name, options, 20, &result);
    if (result.signal != SIGABRT || strstr(result.output, says) == NULL) {
        fail_msg("%s: signal %d, status %d: %s", name, result.signal, result.status, result.output);
    }
}

static void assert_returns(const char *name, const char *options, int status)
{
    struct child_result result;

    child_run(name, options, 20, &result);
    if (result.status != status) {
        fail_msg("%s (%s): signal %d, status %d: %s", name, options, result.signal, result.status,
                 result.output);
    }
}

static void secure_dies(void **state)
{
    (void)state;
    assert_dies("twice", "secure", "freed twice");
    assert_dies("twice_run", "secure", "nothing was allocated there");
    assert_dies("twice_large", "secure", "never given out");
    assert_dies("inside", "secure", "inside an object");
    assert_dies("inside_run", "secure", "nothing was allocated there");
    assert_dies("inside_large", "secure", "never given out");
    assert_dies("of_stack", "secure", "never given out");
    assert_dies("realloc_freed", "secure", "no block in use");
    assert_dies("realloc_inside", "secure", "no block in use");
}

static void secure_works(void **state)
{
    (void)state;
    assert_returns("ordinary", "secure", 0);
    assert_returns("filled", "secure", 0);
}

static void default_mode(void **state)
{
    (void)state;
    assert_dies("twice_then_more", NULL, "freed twice");
    assert_dies("twice_run", NULL, "nothing was allocated there");
    assert_returns("foreign", NULL, 0);
    assert_returns("ordinary", NULL, 0);
}

static void options(void **state)
{
    static const char *const bad[] = {"percpu=2",  "purge=x", "limit=1Q",           "secure=yes",
                                      "huge=some", "nothing", "limit=99999999999T", "purge="};
    struct child_result result;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char list[64] = "secure,";

        /* Half of the list is understood: all of it has no effect. */
        child_run("is_percpu", strcat(list, bad[i]), 20, &result);
        assert_int_equal(result.signal, 0);
        assert_non_null(strstr(result.output, "is not understood; the defaults hold"));
        assert_non_null(strstr(result.output, bad[i]));
    }
    assert_returns("is_percpu", "percpu=0", 0);
    assert_returns("ordinary", "percpu=0,purge=0", 0);
    assert_returns("ordinary", "percpu,purge=never,huge=always,limit=100M,reserve=1G", 0);
    assert_returns("aligned24", "align16", 0);
    child_run("ordinary", "stats", 20, &result);
    assert_int_equal(result.status, 0);
    assert_non_null(strstr(result.output, "used "));
    assert_non_null(strstr(result.output, "mode per "));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(secure_dies),
        cmocka_unit_test(secure_works),
        cmocka_unit_test(default_mode),
        cmocka_unit_test(options),
    };

    child_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
    return cmocka_run_group_tests_name("malloc: misuse, and options", tests, NULL, NULL);
}
