/*
 * Goal: caches of exact sizes: objects are apart, aligned, as dense as the size allows, also by the
 * inlined sequences in this program; free() takes them; a cache with objects out is not destroyed.
 * A moved or interrupted thread never loses or doubles an object.
 * Method: many objects at once, their addresses sorted; threads that are thrown from CPU to CPU and
 * interrupted by a timer, each object stamped by who has it.
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
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>
#include <vellum/malloc.h>
#include "tests/malloc/child.h"

#define OBJECTS 5000u
#define SHORT   300u /* of a cache that comes and goes */

static int by_address(const void *a, const void *b)
{
    const unsigned char *x = *(unsigned char *const *)a;
    const unsigned char *y = *(unsigned char *const *)b;

    return x < y ? -1 : x > y;
}

static void dense(size_t size, size_t align)
{
    static unsigned char *all[OBJECTS];
    struct vl_malloc_cache cache;

    assert_int_equal(vl_malloc_cache_create("dense", size, align, &cache), 0);
    for (size_t i = 0; i < OBJECTS; i++) {
        all[i] = vl_malloc_cache_alloc(&cache);
        assert_non_null(all[i]);
        assert_true(align == 0 || (uintptr_t)all[i] % align == 0);
        memset(all[i], (int)i, size);
        assert_int_equal(malloc_usable_size(all[i]), size);
    }
    qsort(all, OBJECTS, sizeof(all[0]), by_address);
    for (size_t i = 0; i + 1 < OBJECTS; i++) {
        assert_true(all[i] + size <= all[i + 1]);
    }
    assert_int_equal(vl_malloc_cache_destroy(&cache), EBUSY);
    for (size_t i = 0; i < OBJECTS; i++) {
        if (i % 2 == 0) {
            vl_malloc_cache_free(&cache, all[i]);
        } else {
            free(all[i]);
        }
    }
    assert_int_equal(vl_malloc_cache_destroy(&cache), 0);
}

static void exact_sizes(void **state)
{
    (void)state;
    dense(24, 0);
    dense(520, 0);
    dense(1040, 0);
    dense(48, 64);
    dense(1, 0);
    dense(4097, 0);
    dense(100, 4096);
}

static void bad_ones(void **state)
{
    struct vl_malloc_cache cache;

    (void)state;
    assert_int_equal(vl_malloc_cache_create("none", 0, 0, &cache), EINVAL);
    assert_int_equal(vl_malloc_cache_create("odd", 10, 24, &cache), EINVAL);
    assert_int_equal(vl_malloc_cache_create("wide", 10, 8192, &cache), EINVAL);
    assert_int_equal(vl_malloc_cache_create("big", (size_t)1 << 40, 0, &cache), EINVAL);
}

/* ---- moved about and interrupted ---- */

static struct vl_malloc_cache shared;
static atomic_bool stop;
static atomic_size_t wrong;

/* Being called is all: a sequence that a signal interrupts begins anew. */
static void tick(int number)
{
    (void)number;
}

static void *stamper(void *arg)
{
    size_t me = (size_t)arg + 1;
    size_t *mine[40];

    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        for (size_t i = 0; i < 40; i++) {
            mine[i] = vl_malloc_cache_alloc(&shared);
            *mine[i] = me * 100 + i;
        }
        for (size_t i = 0; i < 40; i++) {
            if (*mine[i] != me * 100 + i) {
                atomic_fetch_add(&wrong, 1);
            }
            vl_malloc_cache_free(&shared, mine[i]);
        }
    }
    return NULL;
}

static void mover(pthread_t *threads, size_t count)
{
    int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);

    for (int i = 0; i < 2000; i++) {
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET(i % cpus, &set);
        (void)pthread_setaffinity_np(threads[(size_t)i % count], sizeof(set), &set);
        (void)usleep(300);
    }
}

static void interrupted(void **state)
{
    struct itimerval often = {{0, 200}, {0, 200}};
    struct itimerval never = {{0, 0}, {0, 0}};
    pthread_t threads[3];

    (void)state;
    assert_int_equal(vl_malloc_cache_create("shared", 64, 0, &shared), 0);
    (void)signal(SIGALRM, tick);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, stamper, (void *)i), 0);
    }
    mover(threads, 3);
    atomic_store(&stop, true);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_int_equal(atomic_load(&wrong), 0);
    assert_int_equal(vl_malloc_cache_destroy(&shared), 0);
}

/* Gives everything back over and over, while somebody's caches come and go. */
static void *trimmer(void *arg)
{
    (void)arg;
    while (!atomic_load(&stop)) {
        (void)malloc_trim(0);
    }
    return NULL;
}

static void ends_while_others_trim(void **state)
{
    pthread_t thread;
    unsigned failed = 0;

    (void)state;
    atomic_store(&stop, false);
    assert_int_equal(pthread_create(&thread, NULL, trimmer, NULL), 0);
    for (unsigned i = 0; i < 2000; i++) {
        size_t sizes[] = {24, 5000, 9000, 12288};
        struct vl_malloc_cache cache;
        static void *objects[SHORT];

        assert_int_equal(vl_malloc_cache_create("short", sizes[i % 4], 0, &cache), 0);
        for (size_t k = 0; k < SHORT; k++) {
            objects[k] = vl_malloc_cache_alloc(&cache);
        }
        for (size_t k = 0; k < SHORT; k += 2) {
            vl_malloc_cache_free(&cache, objects[k]);
        }
        for (size_t k = 1; k < SHORT; k += 2) {
            vl_malloc_cache_free(&cache, objects[k]);
        }
        failed += vl_malloc_cache_destroy(&cache) != 0 ? 1u : 0u;
    }
    atomic_store(&stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_sizes),
        cmocka_unit_test(bad_ones),
        cmocka_unit_test(interrupted),
        cmocka_unit_test(ends_while_others_trim),
    };

    return cmocka_run_group_tests_name("malloc: inlined caches", tests, NULL, NULL);
}
