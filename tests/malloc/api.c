/*
 * Goal: every function of <stdlib.h> and <malloc.h> does what C, POSIX and glibc say, at the edges
 * as well: sizes of nothing and of everything, alignments that are none, products that overflow,
 * errno on failure and on success.
 * Method: each by hand. The program is linked with the library, so these are its functions.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vellum/malloc.h>

/* Sizes that no machine has, kept from the compiler, which would refuse them. */
static volatile size_t everything = SIZE_MAX;

static void ours(void **state)
{
    void *p = malloc(100);
    struct vl_malloc_stats stats;

    (void)state;
    assert_non_null(p);
    vl_malloc_stats(&stats);
    assert_true(stats.used >= 100);
    assert_true(malloc_usable_size(p) >= 100 && malloc_usable_size(p) <= 112);
    free(p);
}

static void sizes(void **state)
{
    (void)state;
    for (size_t size = 0; size < 70000; size += size < 2100 ? 1 : 61) {
        unsigned char *p = malloc(size);

        assert_non_null(p);
        assert_true((uintptr_t)p % 8 == 0);
        if (size > 24) {
            assert_true((uintptr_t)p % 16 == 0);
        }
        assert_true(malloc_usable_size(p) >= size);
        if (size > 128) { /* an eighth, or to a page for whole frames */
            assert_true(malloc_usable_size(p) <= size + size / 8 + 4096 * (size > 16384));
        }
        memset(p, 0xa5, malloc_usable_size(p));
        free(p);
    }
}

static void large_sizes(void **state)
{
    static const size_t some[] = {65536, 100000, 1000000, 1048576, 1048577, 5000000, 100000001};

    (void)state;
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
        unsigned char *p = malloc(some[i]);

        assert_non_null(p);
        assert_true(malloc_usable_size(p) >= some[i]);
        p[0] = 1;
        p[some[i] - 1] = 2;
        free(p);
    }
}

static void nothing(void **state)
{
    void *a = malloc(0);
    void *b = malloc(0);
    void *c = calloc(0, 10);
    void *d = realloc(NULL, 0);

    (void)state;
    assert_non_null(a);
    assert_non_null(b);
    assert_ptr_not_equal(a, b);
    assert_non_null(c);
    assert_non_null(d);
    free(a);
    free(b);
    free(c);
    assert_null(realloc(d, 0)); /* freed */
    free(NULL);
    assert_int_equal(malloc_usable_size(NULL), 0);
}

static void too_much(void **state)
{
    void *p = malloc(10);
    void *none;

    (void)state;
    for (size_t size = everything; size > PTRDIFF_MAX; size -= SIZE_MAX / 7) {
        errno = 0;
        none = malloc(size);
        assert_null(none);
        assert_int_equal(errno, ENOMEM);
        errno = 0;
        none = realloc(p, size);
        assert_null(none);
        assert_int_equal(errno, ENOMEM);
        errno = 0;
        none = calloc(1, size);
        assert_null(none);
        assert_int_equal(errno, ENOMEM);
        errno = 0;
        none = memalign(64, size);
        assert_null(none);
        assert_int_equal(errno, ENOMEM);
        errno = 0;
        none = pvalloc(size);
        assert_null(none);
        assert_int_equal(errno, ENOMEM);
    }
    errno = 0;
    none = malloc((size_t)PTRDIFF_MAX / 2);
    assert_null(none);
    assert_int_equal(errno, ENOMEM);
    free(p);
}

static void products(void **state)
{
    size_t half = everything / 2 + 1;
    void *p = malloc(10);
    void *none;

    (void)state;
    errno = 0;
    none = calloc(half, 2);
    assert_null(none);
    assert_int_equal(errno, ENOMEM);
    errno = 0;
    none = calloc((size_t)1 << 32, (size_t)1 << 32);
    assert_null(none);
    assert_int_equal(errno, ENOMEM);
    errno = 0;
    none = reallocarray(p, half, 2);
    assert_null(none);
    assert_int_equal(errno, ENOMEM);
    p = reallocarray(p, 10, 20);
    assert_non_null(p);
    assert_true(malloc_usable_size(p) >= 200);
    free(p);
}

static void errno_is_left(void **state)
{
    void *p[100];

    (void)state;
    errno = 77;
    for (size_t i = 0; i < 100; i++) {
        p[i] = malloc(i * 30000);
        assert_int_equal(errno, 77);
        p[i] = realloc(p[i], i * 1000 + 1);
        assert_int_equal(errno, 77);
    }
    for (size_t i = 0; i < 100; i++) {
        free(p[i]);
        assert_int_equal(errno, 77);
    }
    assert_int_equal(malloc_trim(0) & ~1, 0);
    assert_int_equal(errno, 77);
}

static void zeroed(void **state)
{
    (void)state;
    for (size_t size = 1; size < 3000000; size = size * 3 / 2 + 1) {
        for (int round = 0; round < 3; round++) {
            unsigned char *p = calloc(1, size);

            assert_non_null(p);
            for (size_t i = 0; i < size; i++) {
                assert_int_equal(p[i], 0);
            }
            memset(p, 0xff, malloc_usable_size(p));
            free(p);
        }
    }
}

static void grows_and_shrinks(void **state)
{
    unsigned char *p = NULL;
    size_t size;

    (void)state;
    for (size = 1; size < 20000000; size = size * 5 / 4 + 1) {
        p = realloc(p, size);
        assert_non_null(p);
        for (size_t i = 0; i < size * 4 / 5 - (size > 1 ? 1 : 0); i += 97) {
            assert_int_equal(p[i], (unsigned char)(i / 97));
        }
        for (size_t i = 0; i < size; i += 97) {
            p[i] = (unsigned char)(i / 97);
        }
    }
    while (size > 1) {
        size = size / 2;
        p = realloc(p, size);
        assert_non_null(p);
        assert_true(malloc_usable_size(p) >= size);
        for (size_t i = 0; i < size; i += 97) {
            assert_int_equal(p[i], (unsigned char)(i / 97));
        }
    }
    free(p);
}

static void aligned(void **state)
{
    (void)state;
    for (size_t align = 1; align <= (size_t)16 << 20; align *= 2) {
        for (size_t size = 0; size < 200000; size = size * 3 + 1) {
            void *p = memalign(align, size);
            void *q = aligned_alloc(align, size);
            void *r = NULL;

            assert_non_null(p);
            assert_non_null(q);
            assert_int_equal((uintptr_t)p & (align - 1), 0);
            assert_int_equal((uintptr_t)q & (align - 1), 0);
            assert_true(malloc_usable_size(p) >= size);
            if (align >= sizeof(void *)) {
                assert_int_equal(posix_memalign(&r, align, size), 0);
                assert_int_equal((uintptr_t)r & (align - 1), 0);
            }
            memset(p, 1, size);
            memset(q, 2, size);
            free(q);
            p = realloc(p, size + 100);
            assert_non_null(p);
            free(p);
            free(r);
        }
    }
}

static void bad_alignments(void **state)
{
    void *p = (void *)(uintptr_t)&everything;

    (void)state;
    errno = 5;
    assert_int_equal(posix_memalign(&p, 0, 10), EINVAL);
    assert_int_equal(posix_memalign(&p, 4, 10), EINVAL);
    assert_int_equal(posix_memalign(&p, 24, 10), EINVAL);
    assert_int_equal(posix_memalign(&p, 100, 10), EINVAL);
    assert_int_equal(posix_memalign(&p, 64, everything), ENOMEM);
    assert_int_equal(posix_memalign(&p, everything / 2 + 1, 10), ENOMEM);
    assert_int_equal(errno, 5);                          /* left alone */
    assert_ptr_equal(p, (void *)(uintptr_t)&everything); /* so is this */
    assert_null(aligned_alloc(24, 48));
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_null(memalign(everything, 10));
    assert_int_equal(errno, EINVAL);
    p = memalign(100, 10); /* glibc: rounded up to 128 */
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 128, 0);
    free(p);
}

static void pages(void **state)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *p = valloc(10);
    void *q = pvalloc(page + 1);

    (void)state;
    assert_int_equal((uintptr_t)p % page, 0);
    assert_int_equal((uintptr_t)q % page, 0);
    assert_true(malloc_usable_size(q) >= 2 * page);
    free(p);
    free(q);
}

static void infos(void **state)
{
    struct mallinfo2 before = mallinfo2();
    void *p = malloc(5000000);
    void *q = malloc(5000);
    struct mallinfo2 after = mallinfo2();
    char text[65536];
    FILE *to = fmemopen(text, sizeof(text), "w");

    (void)state;
    assert_true(after.hblkhd >= before.hblkhd + 5000000);
    assert_true(after.uordblks >= before.uordblks + 5005000);
    assert_int_equal(after.hblks, before.hblks + 1);
    assert_non_null(to);
    assert_int_equal(malloc_info(0, to), 0);
    assert_int_equal(malloc_info(1, to), EINVAL);
    assert_int_equal(fclose(to), 0);
    assert_memory_equal(text, "<malloc version=", 16);
    assert_non_null(strstr(text, "<system type=\"current\""));
    assert_non_null(strstr(text, "</malloc>"));
    assert_int_equal(mallopt(M_MMAP_THRESHOLD, 1), 1);
    free(p);
    free(q);
    assert_true(mallinfo2().hblkhd < after.hblkhd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ours),
        cmocka_unit_test(sizes),
        cmocka_unit_test(large_sizes),
        cmocka_unit_test(nothing),
        cmocka_unit_test(too_much),
        cmocka_unit_test(products),
        cmocka_unit_test(errno_is_left),
        cmocka_unit_test(zeroed),
        cmocka_unit_test(grows_and_shrinks),
        cmocka_unit_test(aligned),
        cmocka_unit_test(bad_alignments),
        cmocka_unit_test(pages),
        cmocka_unit_test(infos),
    };

    return cmocka_run_group_tests_name("malloc: the functions", tests, NULL, NULL);
}
