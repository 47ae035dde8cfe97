/*
 * Goal: a heap that is confined to a region never leaves it, has a hard cap and says NULL when it
 * is full, loses nothing, joins what is freed, and ends the program when it is misused. Method:
 * random sequences against a model on regions between guard bytes, until full and empty again;
 * misuse in children.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vellum/malloc.h>
#include "tests/malloc/child.h"

#define GUARD 256u

/* A region at an odd address, with guards around it. */
static unsigned char *region_new(size_t bytes)
{
    unsigned char *all = malloc(bytes + 2 * GUARD + 1);

    assert_non_null(all);
    memset(all, 0x5a, bytes + 2 * GUARD + 1);
    return all + GUARD + 1;
}

static void region_end(unsigned char *region, size_t bytes)
{
    for (size_t i = 0; i < GUARD; i++) {
        assert_int_equal(region[-1 - (ptrdiff_t)i], 0x5a);
        assert_int_equal(region[bytes + i], 0x5a);
    }
    free(region - GUARD - 1);
}

/* Everything is free, in one block again. */
static void assert_whole(struct vl_heap *heap)
{
    struct vl_heap_stats stats;

    vl_heap_stats(heap, &stats);
    assert_int_equal(stats.used, 0);
    assert_int_equal(stats.blocks, 0);
    assert_int_equal(stats.largest, stats.bytes);
}

static void too_small(void **state)
{
    unsigned char *region = region_new(4096);

    (void)state;
    errno = 0;
    assert_null(vl_heap_create(region, 4095));
    assert_int_equal(errno, EINVAL);
    assert_null(vl_heap_create(NULL, 100000));
    assert_null(vl_heap_create(region, SIZE_MAX - 4096));
    assert_non_null(vl_heap_create(region, 4096));
    vl_heap_destroy((struct vl_heap *)(((uintptr_t)region + 15) & ~(uintptr_t)15));
    region_end(region, 4096);
}

/* Fills it with blocks of one size: nearly all bytes are had, then NULL, then all of it again. */
static void fill(size_t bytes, size_t size)
{
    unsigned char *region = region_new(bytes);
    struct vl_heap *heap = vl_heap_create(region, bytes);
    void **list = NULL;
    size_t count = 0;
    void *p;

    assert_non_null(heap);
    while ((p = vl_heap_alloc(heap, size)) != NULL) {
        assert_true((unsigned char *)p >= region);
        assert_true((unsigned char *)p + size <= region + bytes);
        assert_true((uintptr_t)p % 16 == 0);
        assert_true(vl_heap_usable_size(heap, p) >= size);
        memset(p, 0x77, size);
        *(void **)p = list;
        list = p;
        count++;
        assert_true(count <= bytes / size);
    }
    assert_true(count * (size + 24) + size + 6000 >= bytes);
    while (list != NULL) {
        p = list;
        list = *list;
        vl_heap_free(heap, p);
    }
    assert_whole(heap);
    vl_heap_destroy(heap);
    region_end(region, bytes);
}

static void until_full(void **state)
{
    (void)state;
    for (size_t bytes = 4096; bytes < 3000000; bytes = bytes * 3 + 17) {
        for (size_t size = 8; size < bytes / 4; size = size * 2 + 5) {
            fill(bytes, size);
        }
    }
}

#define BLOCKS 300u

static void random_sequence(void **state)
{
    static struct {
        unsigned char *start;
        size_t size;
        unsigned char mark;
    } blocks[BLOCKS];
    size_t bytes = 200000;
    unsigned char *region = region_new(bytes);
    struct vl_heap *heap = vl_heap_create(region, bytes);
    unsigned long seed = 5;
    size_t refused = 0;

    (void)state;
    for (size_t i = 0; i < 300000; i++) {
        size_t n = random_next(&seed) % BLOCKS;
        size_t size = random_next(&seed) % ((size_t)8 << random_next(&seed) % 10);
        size_t align = (size_t)1 << random_next(&seed) % 12;
        unsigned char *p = blocks[n].start;

        for (size_t k = 0; p != NULL && k < blocks[n].size; k++) {
            assert_int_equal(p[k], (unsigned char)(blocks[n].mark + k));
        }
        switch (random_next(&seed) % 4) {
        case 0: /* resized, if there is one and room for it */
            p = vl_heap_realloc(heap, blocks[n].start, size);
            refused += p == NULL ? 1 : 0;
            for (size_t k = 0;
                 p != NULL && blocks[n].start != NULL && k < blocks[n].size && k < size; k++) {
                assert_int_equal(p[k], (unsigned char)(blocks[n].mark + k));
            }
            if (p == NULL) {
                continue;
            }
            break;
        default:
            vl_heap_free(heap, blocks[n].start);
            p = vl_heap_alloc_aligned(heap, align, size);
            refused += p == NULL ? 1 : 0;
            assert_true((uintptr_t)p % align == 0);
        }
        blocks[n].start = p;
        blocks[n].size = p != NULL ? size : 0;
        blocks[n].mark = (unsigned char)i;
        for (size_t k = 0; k < blocks[n].size; k++) {
            p[k] = (unsigned char)(i + k);
        }
    }
    assert_true(refused > 100); /* it was full at times */
    for (size_t i = 0; i < BLOCKS; i++) {
        vl_heap_free(heap, blocks[i].start);
    }
    assert_whole(heap);
    vl_heap_destroy(heap);
    region_end(region, bytes);
}

static void sizes_that_are_none(void **state)
{
    unsigned char *region = region_new(65536);
    struct vl_heap *heap = vl_heap_create(region, 65536);
    void *p = vl_heap_alloc(heap, 0);

    (void)state;
    assert_non_null(p);
    assert_null(vl_heap_alloc(heap, SIZE_MAX));
    assert_null(vl_heap_alloc(heap, SIZE_MAX - 24));
    assert_null(vl_heap_alloc(heap, PTRDIFF_MAX));
    assert_null(vl_heap_alloc(heap, 65536));
    assert_null(vl_heap_realloc(heap, p, SIZE_MAX));
    assert_null(vl_heap_realloc(heap, p, 70000));
    assert_null(vl_heap_alloc_aligned(heap, 48, 10));
    assert_null(vl_heap_alloc_aligned(heap, (size_t)1 << 63, 10));
    assert_null(vl_heap_alloc_aligned(heap, 64, SIZE_MAX - 10));
    vl_heap_free(heap, p);
    vl_heap_free(heap, NULL);
    assert_whole(heap);
    vl_heap_destroy(heap);
    region_end(region, 65536);
}

/* ---- threads, and fork while they are inside ---- */

static struct vl_heap *shared;

static void *user(void *arg)
{
    unsigned long seed = (unsigned long)arg + 3;
    size_t *kept[20] = {NULL};
    size_t wrong = 0;

    for (size_t i = 0; i < 50000; i++) {
        size_t n = random_next(&seed) % 20;

        wrong += kept[n] != NULL && *kept[n] != n + (size_t)arg * 20;
        vl_heap_free(shared, kept[n]);
        kept[n] = vl_heap_alloc(shared, 8 + random_next(&seed) % 1000);
        if (kept[n] != NULL) {
            *kept[n] = n + (size_t)arg * 20;
        }
    }
    for (size_t i = 0; i < 20; i++) {
        vl_heap_free(shared, kept[i]);
    }
    return (void *)wrong;
}

static void threads(void **state)
{
    size_t bytes = 300000;
    unsigned char *region = region_new(bytes);
    pthread_t all[4];
    int status;
    void *wrong;

    (void)state;
    shared = vl_heap_create(region, bytes);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&all[i], NULL, user, (void *)i), 0);
    }
    for (size_t i = 0; i < 10; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            (void)alarm(20);
            vl_heap_free(shared, vl_heap_alloc(shared, 100));
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(all[i], &wrong), 0);
        assert_null(wrong);
    }
    assert_whole(shared);
    vl_heap_destroy(shared);
    region_end(region, bytes);
}

/* ---- misuse ---- */

static unsigned char misused[65536];

static int free_twice(void)
{
    struct vl_heap *heap = vl_heap_create(misused, sizeof(misused));
    void *p = vl_heap_alloc(heap, 100);

    vl_heap_free(heap, p);
    vl_heap_free(heap, p);
    return 0;
}

static int free_foreign(void)
{
    struct vl_heap *heap = vl_heap_create(misused, sizeof(misused));

    vl_heap_free(heap, malloc(100));
    return 0;
}

static int free_overrun(void)
{
    struct vl_heap *heap = vl_heap_create(misused, sizeof(misused));
    unsigned char *p = vl_heap_alloc(heap, 100);
    void *q = vl_heap_alloc(heap, 100);

    memset(p, 0, vl_heap_usable_size(heap, p) + 8); /* q's head */
    vl_heap_free(heap, q);
    return 0;
}

/* The one that was made last, and the one before. */
static int destroy_twice(void)
{
    struct vl_heap *first = vl_heap_create(misused, sizeof(misused) / 2);
    struct vl_heap *last = vl_heap_create(misused + sizeof(misused) / 2, sizeof(misused) / 2);

    vl_heap_destroy(first);
    vl_heap_destroy(last);
    vl_heap_destroy(first);
    return 0;
}

static const struct child_case cases[] = {{"free_twice", free_twice},
                                          {"free_foreign", free_foreign},
                                          {"free_overrun", free_overrun},
                                          {"destroy_twice", destroy_twice}};

#define CASES (sizeof(cases) / sizeof(cases[0]))

static void misuse(void **state)
{
    static const char *const says[CASES] = {"freed already", "no block of it", "was overwritten",
                                            "destroyed already"};
    struct child_result result;

    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        child_run(cases[i].name, NULL, 20, &result);
        assert_int_equal(result.signal, SIGABRT);
        assert_non_null(strstr(result.output, says[i]));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(too_small),       cmocka_unit_test(until_full),
        cmocka_unit_test(random_sequence), cmocka_unit_test(sizes_that_are_none),
        cmocka_unit_test(threads),         cmocka_unit_test(misuse),
    };

    child_main(argc, argv, cases, CASES);
    return cmocka_run_group_tests_name("malloc: heaps confined to a region", tests, NULL, NULL);
}
