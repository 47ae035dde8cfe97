/*
 * Goal: memory comes back to Linux after a peak, by malloc_trim() and by itself one purge delay
 * later; what is held stays near what is live in long random churn; and no known bad pattern makes
 * it grow: one object left in each slab, sizes that shift, blocks that only ever grow; and
 * malloc_info() tells where it is.
 * Method: resident memory as Linux counts it, in children with a short delay. Bounds leave room for
 * what the program itself needs (2 MiB).
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <vellum/malloc.h>
#include "tests/malloc/child.h"

#define MIB  ((size_t)1 << 20)
#define OWN  (2 * MIB)
#define MOST 200000u

/* What stays in RAM of a free block: a page where the list of free ones goes through them. What a
 * long churn holds, in percent of what is live: there a page with one live block stays, too. */
#if defined(TEST_LISTS)
#define FREE_STAYS  4096u
#define CHURN_HOLDS 125u
#else
#define FREE_STAYS  0u
#define CHURN_HOLDS 120u
#endif

static void *objects[MOST];
static unsigned long seed = 17;

/* Touches all pages that the table will need, so that they do not count later. */
static size_t resident_at_start(void)
{
    memset(objects, 1, sizeof(objects));
    memset(objects, 0, sizeof(objects));
    free(malloc(100));
    return resident_bytes();
}

/* @bytes in objects of @least … @most bytes; returns how many. */
static size_t fill(size_t bytes, size_t least, size_t most)
{
    size_t count = 0;

    while (bytes > 0 && count < MOST) {
        size_t size = least + random_next(&seed) % (most - least + 1);

        objects[count] = malloc(size);
        memset(objects[count], 1, size);
        *(size_t *)objects[count] = size;
        count++;
        bytes -= size < bytes ? size : bytes;
    }
    return count;
}

static void empty(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(objects[i]);
        objects[i] = NULL;
    }
}

static int report(const char *what, size_t have, size_t most)
{
    if (have > most) {
        fprintf(stderr, "%s: %zu KiB, %zu at most\n", what, have / 1024, most / 1024);
    }
    return have > most;
}

/* ---- after a peak ---- */

static int trimmed(void)
{
    size_t before = resident_at_start();
    int bad = 0;

    empty(fill(60 * MIB, 16, 2000));
    bad |= malloc_trim(0) != 1;
    bad |= report("small", resident_bytes(), before + OWN);
    empty(fill(60 * MIB, 3000, 60000));
    bad |= malloc_trim(0) != 1;
    bad |= report("middle", resident_bytes(), before + OWN);
    empty(fill(300 * MIB, 2 * MIB, 9 * MIB)); /* most of these go at once */
    bad |= report("large", resident_bytes(), before + 64 * MIB + OWN);
    (void)malloc_trim(0);
    return bad | report("after", resident_bytes(), before + OWN);
}

/* A program that goes on, but does little: one block at a time, or some now and then. */
static void little(double seconds, size_t blocks)
{
    for (double at = 0; at < seconds; at += 0.01) {
        for (size_t i = 0; i < blocks; i++) {
            objects[MOST - 1 - i] = malloc(64);
        }
        for (size_t i = 0; i < blocks; i++) {
            free(objects[MOST - 1 - i]);
        }
        (void)usleep(10000);
    }
}

/* With purge=200: at once it is all still there, later it is gone. */
static int by_itself(void)
{
    size_t before = resident_at_start();
    int bad = 0;

    empty(fill(60 * MIB, 16, 60000));
    if (resident_bytes() < before + 20 * MIB) {
        fprintf(stderr, "it went at once: there was no delay\n");
        bad = 1;
    }
    little(0.5, 3000);
    return bad | report("later", resident_bytes(), before + OWN);
}

/* Where areas are CPUs', even if no call ever leaves the fast path. */
static int by_itself_idle(void)
{
    size_t before = resident_at_start();

    empty(fill(60 * MIB, 16, 60000));
    little(0.5, 1);
    return vl_malloc_is_percpu() ? report("later", resident_bytes(), before + OWN) : 0;
}

/* purge=never. */
static int never(void)
{
    size_t before = resident_at_start();

    empty(fill(60 * MIB, 16, 60000));
    little(0.3, 3000);
    return resident_bytes() < before + 20 * MIB;
}

/* Blocks of slabs whose descriptors went back are found, moved and freed as any; and so are those
 * of slabs that stand where these stood. */
static int used_again(size_t count, size_t before)
{
    int bad = 0;

    for (size_t i = 0; i < count; i++) {
        size_t size = objects[i] != NULL ? *(size_t *)objects[i] : 0;

        bad |= objects[i] != NULL && malloc_usable_size(objects[i]) < size;
        if (objects[i] != NULL && i % 3 == 0) {
            objects[i] = realloc(objects[i], size + 40000);
            bad |= *(size_t *)objects[i] != size;
        }
    }
    empty(count);
    (void)malloc_trim(0);
    for (size_t size = 20; size < 100000; size *= 7) {
        empty(fill(50 * MIB, size, size * 2));
        (void)malloc_trim(0);
    }
    return bad | report("after it was used again", resident_bytes(), before + OWN);
}

/* Nine of ten go; what is left is spread over all slabs. */
static int nine_of_ten(void)
{
    int bad;

    size_t before = resident_at_start();
    size_t count = fill(150 * MIB, 4096, 32768);
    size_t live = 0;
    size_t stays = 0;

    for (size_t i = 0; i < count; i++) {
        if (random_next(&seed) % 10 != 0) {
            free(objects[i]);
            objects[i] = NULL;
            stays += FREE_STAYS;
        } else {
            live += *(size_t *)objects[i];
        }
    }
    (void)malloc_trim(0);
    bad = report("left", resident_bytes(), before + live / 100 * 119 + stays);
    return bad | used_again(count, before);
}

/* Adds up what malloc_info() says is in RAM. */
static size_t told(void)
{
    static char text[65536];
    FILE *to = fmemopen(text, sizeof(text), "w");
    size_t sum = 0;

    if (to == NULL || malloc_info(0, to) != 0 || fclose(to) != 0) {
        return 0;
    }
    for (const char *at = text; (at = strstr(at, "resident")) != NULL; at += strlen("resident")) {
        const char *value = strstr(at, at[8] == '=' ? "=" : "size=");

        sum += strtoul(strchr(value, '"') + 1, NULL, 10);
    }
    return sum;
}

/* malloc_info() knows where it all is: slabs, runs, what is free, descriptors. */
static int info(void)
{
    size_t before = resident_at_start();
    size_t count = fill(60 * MIB, 16, 200000);
    size_t have = resident_bytes() - before;
    int bad = report("told, all in use", told(), have + MIB) | (told() + MIB < have);

    for (size_t i = 0; i < count; i++) {
        if (i % 8 != 0) {
            free(objects[i]);
            objects[i] = NULL;
        }
    }
    (void)malloc_trim(0);
    have = resident_bytes() - before;
    bad |= report("told, an eighth", told(), have + MIB) | (told() + MIB < have);
    empty(count);
    (void)malloc_trim(0);
    return bad | report("told, nothing", told(), MIB);
}

/* What is not touched costs descriptors only; they go as well, and come back. */
static int descriptors(void)
{
    size_t before = resident_at_start();
    int bad = 0;

    for (size_t round = 0; round < 3; round++) {
        size_t count = 0;

        for (; count < 1100; count++) { /* 1 GiB */
            objects[count] = malloc(MIB - 1);
            bad |= objects[count] == NULL;
            *(size_t *)objects[count] = count;
        }
        bad |= resident_bytes() < before + 7 * MIB;
        for (size_t i = 0; i < count; i++) {
            bad |= *(size_t *)objects[i] != i;
        }
        empty(count);
        (void)malloc_trim(0);
        bad |= report("descriptors", resident_bytes(), before + 3 * MIB);
    }
    return bad;
}

/* limit=200M: what went back may be had as something else, without a word or after a trim. */
static int limited(void)
{
    int bad = 0;

    for (size_t round = 0; round < 4; round++) {
        empty(fill(140 * MIB, 1000, 30000));
        if (round % 2 != 0) {
            (void)malloc_trim(0);
        }
        objects[0] = malloc(150 * MIB);
        bad |= objects[0] == NULL;
        bad |= malloc(100 * MIB) != NULL;
        bad |= (objects[1] = malloc(20 * MIB)) == NULL;
        empty(2);
    }
    return bad;
}

/* ---- churn ---- */

/* One of @large_every objects is a mapping of its own. */
static int churn_with(size_t steps, size_t large_every)
{
    size_t before = resident_at_start();
    size_t live = 0;
    size_t most = 0;

    for (size_t i = 0; i < steps; i++) {
        size_t n = random_next(&seed) % 60000;
        size_t size = 8 + random_next(&seed) % ((size_t)16 << random_next(&seed) % 11);

        if (random_next(&seed) % large_every == 0) {
            size = MIB + random_next(&seed) % (2 * MIB);
        }
        if (objects[n] != NULL) {
            live -= *(size_t *)objects[n];
            free(objects[n]);
        }
        objects[n] = malloc(size);
        memset(objects[n], 1, size);
        *(size_t *)objects[n] = size;
        live += size;
        most = live > most ? live : most;
    }
    return report("churn", resident_bytes(), before + most / 100 * CHURN_HOLDS + OWN);
}

static int churn(void)
{
    return churn_with(4000000, SIZE_MAX);
}

static int churn_large(void)
{
    return churn_with(1000000, 4000);
}

/* ---- bad patterns ---- */

/* Each round leaves one object in about each page and takes as much again: what is free between
 * them must be used. */
static int one_left(void)
{
    size_t before = resident_at_start();
    size_t kept = 0;

    for (size_t round = 0; round < 30; round++) {
        size_t kept_before = kept;
        size_t count = 0;

        for (; count < 100000; count++) { /* 20 MB */
            objects[kept + count] = malloc(200);
            memset(objects[kept + count], 1, 200);
        }
        for (size_t i = 0; i < count; i++) {
            if (i % 40 == 0 && kept + 1 < MOST / 2) {
                objects[kept] = objects[kept_before + i];
                kept++;
            } else {
                free(objects[kept_before + i]);
            }
        }
    }
    return report("one left", resident_bytes(), before + 22 * MIB + kept * 208 + OWN);
}

static int shifting(void)
{
    size_t before = resident_at_start();
    size_t most = 0;

    for (size_t size = 16; size < 40000; size = size * 9 / 8 + 1) {
        size_t count = fill(30 * MIB, size, size);

        most = resident_bytes() > most ? resident_bytes() : most;
        empty(count);
    }
    /* An eighth each for rounding to classes, for what classes keep, and for growing; and runs of
     * frames, whose tails fit no other run of the same length. */
    return report("shifting", most, before + 30 * MIB / 100 * 158 + OWN);
}

static int growing(void)
{
    size_t before = resident_at_start();

    for (size_t round = 0; round < 200; round++) {
        for (size_t size = 1000; size < 3000000; size += size / 3) {
            objects[0] = realloc(objects[0], size);
            memset(objects[0], 1, size);
        }
        free(objects[0]);
        objects[0] = NULL;
    }
    /* The last of each round is kept for a while, in proportion to the heap. */
    return report("growing", resident_bytes(), before + 12 * MIB);
}

static const struct child_case cases[] = {
    {"trimmed", trimmed},
    {"by_itself", by_itself},
    {"by_itself_idle", by_itself_idle},
    {"never", never},
    {"nine_of_ten", nine_of_ten},
    {"info", info},
    {"descriptors", descriptors},
    {"limited", limited},
    {"churn", churn},
    {"churn_large", churn_large},
    {"one_left", one_left},
    {"shifting", shifting},
    {"growing", growing},
};

static void assert_good(const char *name, const char *options)
{
    struct child_result result;

    child_run(name, options, 60, &result);
    if (result.status != 0) {
        fail_msg("%s: signal %d, status %d: %s", name, result.signal, result.status, result.output);
    }
}

static void after_a_peak(void **state)
{
    (void)state;
    assert_good("trimmed", NULL);
    assert_good("by_itself", "purge=200");
    assert_good("by_itself_idle", "purge=200");
    assert_good("never", "purge=never");
    assert_good("nine_of_ten", NULL);
    assert_good("nine_of_ten", "secure");
    assert_good("nine_of_ten", "percpu=0");
    assert_good("info", NULL);
    assert_good("descriptors", NULL);
    assert_good("limited", "limit=200M");
}

static void long_churn(void **state)
{
    (void)state;
    assert_good("churn", NULL);
    assert_good("churn_large", NULL);
}

static void bad_patterns(void **state)
{
    (void)state;
    assert_good("one_left", NULL);
    assert_good("shifting", NULL);
    assert_good("growing", NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_a_peak),
        cmocka_unit_test(long_churn),
        cmocka_unit_test(bad_patterns),
    };

    child_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
    return cmocka_run_group_tests_name("malloc: memory", tests, NULL, NULL);
}
