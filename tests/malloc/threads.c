/*
 * Goal: threads of any number use the heap at once: blocks are freed by others than who allocated
 * them; threads come and go, allocate while they end, and fork while others allocate; a child finds
 * the heap whole; libraries that allocate are loaded and unloaded meanwhile. Nothing stalls.
 * Method: each situation by itself, contents checked, under an alarm. Fork cases run in children of
 * their own, where a deadlock is a timeout.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <vellum/malloc.h>
#include "tests/malloc/child.h"

#if defined(__SANITIZE_THREAD__)
#define LIBRARIES /* it takes the loader's own locking for races */
#else
#define LIBRARIES cmocka_unit_test(libraries),
#endif

/* The number, or a tenth of it where things are slow. */
static size_t scaled(size_t n)
{
    return getenv("VL_TEST_QUICK") != NULL ? n / 10 : n;
}

static double now(void)
{
    struct timespec at;

    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

/* ---- allocate here, free there ---- */

#define RING    1024u
#define OBJECTS scaled(400000)

static _Atomic(unsigned char *) ring[RING];

static void *producer(void *arg)
{
    unsigned long seed = 11;

    for (size_t i = 0; i < OBJECTS; i++) {
        size_t size = 16 + random_next(&seed) % (size_t)arg;
        unsigned char *p = malloc(size);

        p[0] = (unsigned char)i;
        p[size - 1] = (unsigned char)i;
        *(uint32_t *)(void *)(p + 4) = (uint32_t)size;
        while (atomic_load(&ring[i % RING]) != NULL) {
            sched_yield();
        }
        atomic_store(&ring[i % RING], p);
    }
    return NULL;
}

static void *consumer(void *arg)
{
    size_t wrong = 0;

    (void)arg;
    for (size_t i = 0; i < OBJECTS; i++) {
        unsigned char *p;

        while ((p = atomic_load(&ring[i % RING])) == NULL) {
            sched_yield();
        }
        atomic_store(&ring[i % RING], NULL);
        wrong +=
            p[0] != (unsigned char)i || p[*(uint32_t *)(void *)(p + 4) - 1] != (unsigned char)i;
        free(p);
    }
    return (void *)wrong;
}

static void stream_of(size_t size)
{
    pthread_t threads[2];
    void *wrong;

    assert_int_equal(pthread_create(&threads[0], NULL, producer, (void *)size), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, consumer, NULL), 0);
    assert_int_equal(pthread_join(threads[0], NULL), 0);
    assert_int_equal(pthread_join(threads[1], &wrong), 0);
    assert_null(wrong);
}

static void here_and_there(void **state)
{
    size_t before;

    (void)state;
    stream_of(64);
    stream_of(2000);
    before = resident_bytes();
    stream_of(64); /* the same once more takes no more memory */
    stream_of(2000);
    assert_true(resident_bytes() <= before + (8u << 20));
}

/* ---- many threads ---- */

#define MANY  64u
#define SLOTS 64u

static _Atomic(uint64_t *) slots[SLOTS * MANY];

/* Takes blocks out of slots that all threads share and puts others there. */
static void *exchanger(void *arg)
{
    unsigned long seed = (unsigned long)arg + 1;
    size_t wrong = 0;

    for (size_t i = 0; i < scaled(20000); i++) {
        size_t words = 1 + random_next(&seed) % 100;
        uint64_t *p = malloc(words * 8);

        p[0] = words;
        p[words - 1] = words == 1 ? 1 : (uintptr_t)p;
        p = atomic_exchange(&slots[random_next(&seed) % (SLOTS * MANY)], p);
        if (p != NULL) {
            wrong += p[0] > 100 || p[p[0] - 1] != (p[0] == 1 ? 1 : (uintptr_t)p);
            free(p);
        }
    }
    return (void *)wrong;
}

static void many_at_once(void **state)
{
    pthread_t threads[MANY];
    void *wrong;

    (void)state;
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, exchanger, (void *)i), 0);
    }
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    for (size_t i = 0; i < SLOTS * MANY; i++) {
        free(atomic_exchange(&slots[i], NULL));
    }
}

/* Bursts: all threads want many of one size at once, and give them back at once. */
static void *burster(void *arg)
{
    void *kept[500];
    double *longest = arg;

    for (size_t round = 0; round < 20; round++) {
        double start = now();
        double took;

        for (size_t i = 0; i < 500; i++) {
            kept[i] = malloc(200);
            *(size_t *)kept[i] = i;
        }
        for (size_t i = 0; i < 500; i++) {
            free(kept[i]);
        }
        took = now() - start;
        *longest = took > *longest ? took : *longest;
        sched_yield();
    }
    return NULL;
}

static void bursts(void **state)
{
    static double longest[MANY];
    pthread_t threads[MANY];
    double start = now();

    (void)state;
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, burster, &longest[i]), 0);
    }
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    /* 640,000 pairs: well below a second of work. A stall in the middle tier, all threads queueing
     * at one lock whose holder does not run, takes many times that. */
    assert_true(now() - start < 20);
}

/* ---- threads that come and go ---- */

static pthread_key_t late_key;

/* Runs after the library's own destructor in some rounds: it puts itself back. */
static void late(void *arg)
{
    uintptr_t rounds = *(uintptr_t *)arg;

    free(arg);
    if (rounds > 0) {
        uintptr_t *next = malloc(sizeof(*next));

        *next = rounds - 1;
        (void)pthread_setspecific(late_key, next);
    }
}

static void *visitor(void *arg)
{
    void *kept[20];
    uintptr_t *rounds = malloc(sizeof(*rounds));

    /* In the last round a sanitizer's thread is over, and atomic operations end in its runtime. */
    *rounds = is_sanitized() ? 2 : 3;
    (void)pthread_setspecific(late_key, rounds);
    for (size_t i = 0; i < 20; i++) {
        kept[i] = malloc(i * 50 + (size_t)arg % 40);
    }
    for (size_t i = 0; i < 20; i++) {
        free(kept[i]);
    }
    return malloc(100); /* outlives its thread */
}

static void ten_thousand(void **state)
{
    struct vl_malloc_stats stats;
    size_t before = 0;
    pthread_t threads[8];
    void *left;

    (void)state;
    assert_int_equal(pthread_key_create(&late_key, late), 0);
    for (size_t i = 0; i < scaled(10000); i += 8) {
        for (size_t k = 0; k < 8; k++) {
            assert_int_equal(pthread_create(&threads[k], NULL, visitor, (void *)(i + k)), 0);
        }
        for (size_t k = 0; k < 8; k++) {
            assert_int_equal(pthread_join(threads[k], &left), 0);
            assert_non_null(left);
            free(left);
        }
        if (i == scaled(1000) / 8 * 8) {
            before = resident_bytes();
        }
    }
    /* Nothing of a thread stays: neither its number nor its blocks. */
    vl_malloc_stats(&stats);
    assert_true(stats.areas <= 16);
    assert_true(resident_bytes() <= before + (4u << 20));
}

/* ---- fork ---- */

static atomic_bool stop;

static void *churner(void *arg)
{
    unsigned long seed = (unsigned long)arg + 7;
    void *kept[64] = {NULL};

    while (!atomic_load(&stop)) {
        size_t i = random_next(&seed) % 64;

        free(kept[i]);
        kept[i] = malloc(random_next(&seed) % (i == 0 ? 3000000 : 3000));
    }
    for (size_t i = 0; i < 64; i++) {
        free(kept[i]);
    }
    return NULL;
}

/* What a child does: everything that takes a lock. */
static int use_all(void)
{
    void *p[300];
    pthread_t thread;

    for (size_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < 300; i++) {
            p[i] = malloc(i * 97);
            if (p[i] == NULL) {
                return 1;
            }
            memset(p[i], 1, i * 97);
        }
        for (size_t i = 0; i < 300; i++) {
            free(p[i]);
        }
        p[0] = malloc(5000000);
        free(realloc(p[0], 9000000));
        (void)malloc_trim(0);
        (void)mallinfo2();
    }
    atomic_store(&stop, true);
    if (is_sanitized()) { /* pthread_create is theirs: their locks stay as another thread had them
                           */
        return 0;
    }
    if (pthread_create(&thread, NULL, churner, NULL) != 0 || pthread_join(thread, NULL) != 0) {
        return 2;
    }
    return 0;
}

static int forks(void)
{
    pthread_t threads[4];
    int status = 0;
    int bad = 0;

    for (size_t i = 0; i < 4; i++) {
        if (pthread_create(&threads[i], NULL, churner, (void *)i) != 0) {
            return 3;
        }
    }
    for (size_t i = 0; i < scaled(60) && bad == 0; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            _exit(use_all());
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
            bad = 4;
        }
        free(malloc(i * 1000));
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < 4; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    return bad;
}

static void fork_in_threads(void **state)
{
    struct child_result result;

    (void)state;
    child_run("forks", NULL, 60, &result);
    if (result.status != 0) {
        fail_msg("status %d, signal %d: %s", result.status, result.signal, result.output);
    }
}

/* ---- libraries ---- */

static void *loader(void *arg)
{
    size_t wrong = 0;

    (void)arg;
    for (size_t i = 0; i < scaled(50); i++) {
        void *library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
        void *other = dlopen("libresolv.so.2", RTLD_NOW | RTLD_LOCAL);

        wrong += library == NULL || dlsym(library, "cos") == NULL;
        wrong += other == NULL || dlclose(other) != 0;
        wrong += dlclose(library) != 0;
    }
    return (void *)wrong;
}

static __attribute__((unused)) void libraries(void **state)
{
    pthread_t threads[3];
    void *wrong;

    (void)state;
    atomic_store(&stop, false);
    assert_int_equal(pthread_create(&threads[0], NULL, churner, NULL), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, loader, NULL), 0);
    assert_int_equal(pthread_create(&threads[2], NULL, loader, NULL), 0);
    assert_int_equal(pthread_join(threads[1], &wrong), 0);
    assert_null(wrong);
    assert_int_equal(pthread_join(threads[2], &wrong), 0);
    assert_null(wrong);
    atomic_store(&stop, true);
    assert_int_equal(pthread_join(threads[0], NULL), 0);
}

/* ---- trimming while others allocate ---- */

static void trims(void **state)
{
    pthread_t threads[4];

    (void)state;
    atomic_store(&stop, false);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, churner, (void *)i), 0);
    }
    for (size_t i = 0; i < scaled(300); i++) {
        struct vl_malloc_stats stats;

        (void)malloc_trim(0);
        vl_malloc_stats(&stats);
        free(malloc(i));
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

int main(int argc, char **argv)
{
    const struct child_case cases[] = {{"forks", forks}};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(here_and_there),  cmocka_unit_test(many_at_once),
        cmocka_unit_test(bursts),          cmocka_unit_test(ten_thousand),
        cmocka_unit_test(fork_in_threads), LIBRARIES cmocka_unit_test(trims),
    };

    child_main(argc, argv, cases, 1);
    (void)alarm(120);
    return cmocka_run_group_tests_name("malloc: threads", tests, NULL, NULL);
}
