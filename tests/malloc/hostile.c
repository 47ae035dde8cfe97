/*
 * Goal: surroundings that are hostile, or only unusual, do no harm. The heap starts before libc
 * has; the environment is long; Linux limits what is writable, or all addresses; reserves are asked
 * for that no machine has; functions around fork() allocate, registered before anything else; one
 * thread asks for absurd sizes while another works at the hard limit; a block is freed twice while
 * its pages are being given back; Linux allows no more mappings; a daemon closes all files; a block
 * has size 0 and a large alignment; operator new fails in a program whose C++ runtime came later.
 * Method: each in a child of its own. All of them start their heap from .preinit_array, before libc
 * knows the environment, and register functions around fork() there.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vellum/malloc.h>
#include "tests/malloc/child.h"

/* ---- before libc ---- */

static bool works_around_fork;

/* A little of everything, contents checked. Returns false when something is wrong. */
static bool work(void)
{
    void *kept[700];
    bool good = true;

    for (size_t i = 0; i < 700; i++) {
        kept[i] = malloc(1 + i * 7 % 3000 + (i % 100 == 0 ? 60000 : 0));
        good = good && kept[i] != NULL;
        if (kept[i] != NULL) {
            memset(kept[i], (int)i, 1);
        }
    }
    for (size_t i = 0; i < 700; i++) {
        good = good && *(unsigned char *)kept[i] == (unsigned char)i;
        free(kept[i]);
    }
    kept[0] = malloc(3000000);
    kept[1] = realloc(kept[0], 5000000);
    good = good && kept[1] != NULL;
    free(kept[1]);
    return good;
}

static void around_fork(void)
{
    if (works_around_fork && !work()) {
        abort();
    }
}

static void first_of_all(void)
{
    free(malloc(1));
    (void)pthread_atfork(around_fork, around_fork, around_fork);
}
__attribute__((section(".preinit_array"), used)) static void (*const early)(void) = first_of_all;

static int is_percpu(void)
{
    return vl_malloc_is_percpu() ? 1 : 0;
}

static int works(void)
{
    return work() ? 0 : 1;
}

static int become(const char *name)
{
    (void)execl("/proc/self/exe", "case", "--case", name, (char *)NULL);
    return 97;
}

/* ---- limits ---- */

static int little_data(void)
{
    const struct rlimit limit = {20u << 20, 20u << 20};

    return setrlimit(RLIMIT_DATA, &limit) == 0 ? become("works") : 96;
}

static int few_addresses(void)
{
    const struct rlimit limit = {60u << 20, 60u << 20};

    return setrlimit(RLIMIT_AS, &limit) == 0 ? become("works") : 96;
}

/* Megabytes that this process may write, without what files give. */
static int writable(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long sum = 0;
    char line[512];

    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        unsigned long start;
        unsigned long end;
        unsigned long inode;
        char rights[8];

        if (sscanf(line, "%lx-%lx %7s %*s %*s %lu", &start, &end, rights, &inode) == 4 &&
            rights[1] == 'w' && inode == 0) {
            sum += end - start;
        }
    }
    return maps == NULL ? 95 : (int)(sum >> 20 < 90 ? sum >> 20 : 90);
}

static atomic_bool has_ended;

static void *absurd(void *arg)
{
    (void)arg;
    while (!atomic_load(&has_ended)) {
        free(malloc((size_t)1 << 60));
    }
    return NULL;
}

/* Half of the limit is always to be had. */
static int at_limit(void)
{
    size_t failed = 0;
    pthread_t threads[4];

    for (size_t i = 0; i < 4; i++) {
        failed += pthread_create(&threads[i], NULL, absurd, NULL) != 0;
    }
    for (size_t i = 0; i < 60000; i++) {
        void *p = malloc(2u << 20);

        failed += p == NULL ? 1 : 0;
        free(p);
    }
    atomic_store(&has_ended, true);
    for (size_t i = 0; i < 4; i++) {
        failed += pthread_join(threads[i], NULL) != 0;
    }
    return failed == 0 ? 0 : 1;
}

/* ---- fork ---- */

static void *busy(void *arg)
{
    while (!atomic_load(&has_ended)) {
        if (!work()) {
            return arg;
        }
    }
    return NULL;
}

/* A child that forks in turn, and works. */
static int child(void)
{
    pid_t grandchild = fork();
    int status = 1;

    if (grandchild == 0) {
        _exit(work() ? 0 : 1);
    }
    return waitpid(grandchild, &status, 0) == grandchild && status == 0 && work() ? 0 : 1;
}

static int forks(void)
{
    pthread_t threads[3];
    void *wrong;
    int bad = 0;

    works_around_fork = true;
    for (size_t i = 0; i < 3; i++) {
        bad += pthread_create(&threads[i], NULL, busy, &works_around_fork) != 0;
    }
    for (size_t i = 0; i < 20; i++) {
        pid_t pid = fork();
        int status = 1;

        if (pid == 0) {
            _exit(child());
        }
        bad += waitpid(pid, &status, 0) != pid || status != 0;
    }
    atomic_store(&has_ended, true);
    for (size_t i = 0; i < 3; i++) {
        bad += pthread_join(threads[i], &wrong) != 0 || wrong != NULL;
    }
    return bad;
}

/* ---- memory that goes back meanwhile ---- */

/* Blocks of more than a page, whose pages go back one by one. */
static void *busy_large(void *arg)
{
    unsigned char *blocks[40] = {NULL};

    for (size_t n = 0; !atomic_load(&has_ended); n++) {
        size_t i = n * 7 % 40;

        if (blocks[i] != NULL && blocks[i][4500] != (unsigned char)i) {
            return arg;
        }
        free(blocks[i]);
        blocks[i] = malloc(4600 + n % 40 * 600);
        blocks[i][4500] = (unsigned char)i;
    }
    for (size_t i = 0; i < 40; i++) {
        free(blocks[i]);
    }
    return NULL;
}

static int trims_beside(void)
{
    pthread_t threads[3];
    void *wrong;
    int bad = 0;

    for (size_t i = 0; i < 3; i++) {
        bad += pthread_create(&threads[i], NULL, busy_large, &has_ended) != 0;
    }
    for (size_t i = 0; i < 600; i++) {
        (void)malloc_trim(0);
    }
    atomic_store(&has_ended, true);
    for (size_t i = 0; i < 3; i++) {
        bad += pthread_join(threads[i], &wrong) != 0 || wrong != NULL;
    }
    return bad;
}

/* ---- bursts ---- */

#define BURST 400u

static pthread_barrier_t barrier;

/* All find no memory at once. */
static void *burst_one(void *arg)
{
    void *blocks[40];

    (void)arg;
    (void)pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < 40; i++) {
        blocks[i] = malloc(20000);
    }
    (void)pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < 40; i++) {
        free(blocks[i]);
    }
    return NULL;
}

/* The heap is not much larger than what they asked for. */
static int burst(void)
{
    pthread_t threads[BURST];
    pthread_attr_t small;
    int bad = 0;

    bad += pthread_attr_init(&small) != 0 || pthread_attr_setstacksize(&small, 65536) != 0;
    bad += pthread_barrier_init(&barrier, NULL, BURST) != 0;
    for (size_t i = 0; i < BURST; i++) {
        bad += pthread_create(&threads[i], &small, burst_one, NULL) != 0;
    }
    for (size_t i = 0; i < BURST; i++) {
        bad += pthread_join(threads[i], NULL) != 0;
    }
    return bad != 0 ? 91 : mallinfo2().arena < (size_t)3 * BURST * 40 * 20000 ? 0 : 1;
}

/* ---- frees ---- */

static void *volatile again; /* freed once more from inside madvise() */

/* The library's calls come here, too. */
int madvise(void *start, size_t bytes, int advice)
{
    void *p = again;

    again = NULL;
    free(p);
    return (int)syscall(SYS_madvise, start, bytes, advice);
}

static int twice_while_purged(void)
{
    void *blocks[20];

    for (size_t i = 0; i < 20; i++) {
        blocks[i] = malloc(8192);
    }
    again = blocks[10];
    free(blocks[10]);
    free(blocks[11]);
    (void)malloc_trim(0);
    return 0;
}

static int never_online(void)
{
    void *volatile wild = (char *)malloc(100) + ((size_t)1 << 38);

    free(wild);
    (void)malloc_usable_size(wild);
    return 0;
}

static int of_size_zero(void)
{
    int bad = 0;

    for (size_t align = 16; align <= (size_t)1 << 24; align *= 2) {
        char *volatile p = aligned_alloc(align, 0);
        char *volatile q = memalign(align, 0);

        bad += p == NULL || q == NULL || p == q || ((uintptr_t)p | (uintptr_t)q) % align != 0;
        if (bad == 0) {
            *p = 1; /* not promised, but it is somebody's memory */
            *q = 2;
            bad += *p != 1;
        }
        free(p);
        free(realloc(q, 100));
    }
    return bad;
}

/* ---- mappings ---- */

static bool munmap_fails;

/* The library's calls come here, too. */
int munmap(void *start, size_t bytes)
{
    if (munmap_fails) {
        errno = ENOMEM;
        return -1;
    }
    return (int)syscall(SYS_munmap, start, bytes);
}

static bool is_mapped(void *p)
{
    return msync(p, 4096, MS_ASYNC) == 0;
}

/* As when Linux allows no more mappings: what is behind the block goes at once, it itself later. */
static int stuck(void)
{
    size_t before = resident_bytes();
    char *volatile p = malloc(40u << 20);
    char *volatile q = malloc(50u << 20);

    memset(p, 1, 40u << 20);
    memset(q, 1, 50u << 20);
    munmap_fails = true;
    free(p);
    free(q);
    if (errno == ENOMEM || resident_bytes() > before + (10u << 20) || !is_mapped(p)) {
        return 1;
    }
    munmap_fails = false;
    (void)malloc_trim(0);
    return is_mapped(p) || is_mapped(q);
}

static int count_maps(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    int count = 0;
    int c;

    while (maps != NULL && (c = getc(maps)) != EOF) {
        count += c == '\n' ? 1 : 0;
    }
    return maps == NULL ? INT32_MAX : count;
}

/* Large tables of which every second one goes leave Linux with mappings for others. */
static int many_tables(void)
{
    static unsigned char *tables[40000];
    size_t before = resident_bytes();
    int bad = 0;

    for (size_t i = 0; i < 40000; i++) {
        tables[i] = calloc(1, 128u << 10);
        bad += tables[i] == NULL || tables[i][100000] != 0;
    }
    bad += resident_bytes() - before > 600u << 20; /* a page or two of each, and descriptors */
    for (size_t i = 0; i < 40000; i += 2) {
        free(tables[i]);
    }
    bad += count_maps() > 12000;
    for (size_t i = 0; i < 40000; i += 2) { /* once more, on memory that was used */
        tables[i] = malloc(128u << 10);
        tables[i][5000] = 1;
        free(tables[i]);
        tables[i] = calloc(1, 128u << 10);
        bad += tables[i][5000];
    }
    return bad == 0 ? 0 : 1;
}

/* What is kept of 30 MiB is not in the way. */
static int grows_to_limit(void)
{
    char *p;

    free(malloc(30u << 20));
    p = malloc(40u << 20);
    memset(p, 1, 40u << 20);
    p = realloc(p, 80u << 20);
    return p == NULL || p[(40u << 20) - 1] != 1;
}

/* ---- core dumps ---- */

/* Is the mapping with this address in core dumps? -1: there is none. */
static int is_dumped(const void *p)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    bool is_in = false;
    int dumped = -1;
    char line[512];

    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        unsigned long start;
        unsigned long end;

        if (sscanf(line, "%lx-%lx ", &start, &end) == 2) {
            is_in = (uintptr_t)p >= start && (uintptr_t)p < end;
        }
        if (is_in && strncmp(line, "VmFlags:", 8) == 0) {
            dumped = strstr(line, " dd") == NULL ? 1 : 0;
        }
    }
    if (maps != NULL) {
        (void)fclose(maps);
    }
    return dumped;
}

/* Blocks are, the addresses for later are not: gdb's gcore would write all of them. */
static int in_core_dump(void)
{
    char *first = malloc(100);
    char *last = malloc(100);
    int bad = is_dumped(first) != 1;

    for (size_t i = 0; i < 2000; i++) {
        last = malloc(20000);
    }
    bad += is_dumped(last) != 1;
    bad += is_dumped(first + ((size_t)1 << 33)) != 0;
    return bad;
}

/* ---- C++ ---- */

/* What a library of C++ in a program of C does, but without anybody who catches. */
static int new_fails(void)
{
    void *runtime = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);
    union {
        void *found;
        void *(*call)(size_t);
    } operator_new = {dlsym(RTLD_DEFAULT, "_Znwm")};

    if (runtime == NULL || operator_new.found == NULL) {
        return 93;
    }
    return operator_new.call((size_t)1 << 60) != NULL;
}

/* ---- the last lines ---- */

/* In the environment, so that each run has one of its own. */
#define VICTIM "TEST_VICTIM"

/* Closes all that it has, and a file of its own gets the number that the copy of standard error
 * had. */
static int daemon_like(void)
{
    int file = open(getenv(VICTIM), O_RDWR | O_CREAT | O_TRUNC, 0600);

    (void)work();
    for (int i = 0; i < 1024; i++) {
        if (i == STDERR_FILENO || (i > STDERR_FILENO && i != file)) {
            (void)close(i);
        }
    }
    return file >= 0 && fcntl(file, F_DUPFD, 100) >= 0 ? 0 : 92;
}

static const struct child_case cases[] = {
    {"is_percpu", is_percpu},
    {"works", works},
    {"little_data", little_data},
    {"few_addresses", few_addresses},
    {"writable", writable},
    {"at_limit", at_limit},
    {"forks", forks},
    {"trims_beside", trims_beside},
    {"burst", burst},
    {"twice_while_purged", twice_while_purged},
    {"never_online", never_online},
    {"of_size_zero", of_size_zero},
    {"new_fails", new_fails},
    {"daemon_like", daemon_like},
    {"stuck", stuck},
    {"many_tables", many_tables},
    {"grows_to_limit", grows_to_limit},
    {"in_core_dump", in_core_dump},
};

static void assert_returns(const char *name, const char *options, int status)
{
    struct child_result result;

    child_run(name, options, 60, &result);
    if (result.status != status || result.output[0] != '\0') {
        fail_msg("%s (%s): signal %d, status %d: %s", name, options, result.signal, result.status,
                 result.output);
    }
}

static void assert_dies(const char *name, const char *options, const char *says)
{
    struct child_result result;

    child_run(name, options, 60, &result);
    if (result.signal != SIGABRT || strstr(result.output, says) == NULL) {
        fail_msg("%s: signal %d, status %d: %s", name, result.signal, result.status, result.output);
    }
}

static void long_environment(void **state)
{
    static char much[50000];
    char name[32];

    (void)state;
    memset(much, 'x', sizeof(much) - 1);
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(name, sizeof(name), "VELLUM_MALLO%zu", i);
        assert_int_equal(setenv(name, much, 1), 0);
    }
    assert_returns("is_percpu", "percpu=0", 0);
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(name, sizeof(name), "VELLUM_MALLO%zu", i);
        assert_int_equal(unsetenv(name), 0);
    }
}

static void limits_of_linux(void **state)
{
    struct child_result result;

    (void)state;
    assert_returns("little_data", NULL, 0);
    assert_returns("few_addresses", NULL, 0);
    child_run("writable", NULL, 20, &result);
    assert_in_range(result.status, 4, 40);
    child_run("writable", "percpu=0", 20, &result);
    assert_in_range(result.status, 4, 40);
}

static void reserves(void **state)
{
    (void)state;
    assert_returns("works", "reserve=0", 0);
    assert_returns("works", "reserve=16T", 0);
    assert_returns("works", "reserve=100T", 0);
    assert_returns("works", "reserve=9999999T", 0);
}

static void limit_beside_absurd(void **state)
{
    (void)state;
    assert_returns("at_limit", "limit=8M", 0);
}

static void handlers_of_fork(void **state)
{
    (void)state;
    assert_returns("forks", NULL, 0);
    assert_returns("forks", "percpu=0", 0);
    assert_returns("forks", "secure", 0);
}

static void trims(void **state)
{
    (void)state;
    assert_returns("trims_beside", NULL, 0);
    assert_returns("trims_beside", "percpu=0", 0);
    assert_returns("trims_beside", "secure", 0);
}

static void bursts(void **state)
{
    (void)state;
    for (size_t i = 0; i < 5; i++) {
        assert_returns("burst", NULL, 0);
        assert_returns("burst", "percpu=0", 0);
    }
}

static void bad_frees(void **state)
{
    (void)state;
    assert_dies("twice_while_purged", "secure", "freed twice");
    assert_returns("never_online", NULL, 0);
    assert_dies("never_online", "secure", "never given out");
}

static void core_dumps(void **state)
{
    (void)state;
    assert_returns("in_core_dump", NULL, 0);
    assert_returns("in_core_dump", "percpu=0", 0);
}

static void size_zero(void **state)
{
    (void)state;
    assert_returns("of_size_zero", NULL, 0);
    assert_returns("of_size_zero", "secure", 0);
}

static void mappings(void **state)
{
    (void)state;
    assert_returns("stuck", NULL, 0);
    assert_returns("stuck", "purge=0", 0);
    assert_returns("many_tables", NULL, 0);
    assert_returns("grows_to_limit", "limit=100M", 0);
}

static void last_lines(void **state)
{
    char victim[] = "/tmp/vellum-malloc-victim-XXXXXX";
    struct stat written;
    int file = mkstemp(victim);

    (void)state;
    assert_true(file >= 0);
    assert_int_equal(close(file), 0);
    assert_int_equal(setenv(VICTIM, victim, 1), 0);
    assert_returns("daemon_like", "stats", 0);
    assert_int_equal(stat(victim, &written), 0);
    assert_int_equal(unlink(victim), 0);
    assert_int_equal(written.st_size, 0);
}

static void late_runtime(void **state)
{
    (void)state;
    assert_dies("new_fails", NULL, "std::bad_alloc");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_environment),
        cmocka_unit_test(limits_of_linux),
        cmocka_unit_test(reserves),
        cmocka_unit_test(limit_beside_absurd),
        cmocka_unit_test(handlers_of_fork),
        cmocka_unit_test(bursts),
        cmocka_unit_test(bad_frees),
        cmocka_unit_test(size_zero),
        cmocka_unit_test(mappings),
        cmocka_unit_test(last_lines),
        cmocka_unit_test(trims),
        cmocka_unit_test(late_runtime),
        cmocka_unit_test(core_dumps),
    };

    child_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
    return cmocka_run_group_tests_name("malloc: hostile surroundings", tests, NULL, NULL);
}
