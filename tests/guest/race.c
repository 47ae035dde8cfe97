/*
 * race.c - threads of one space: some touch while others unmap, protect and fork.
 * guest: smp=2 seconds=90
 * guest: smp=8 seconds=90
 *
 * Goal: nothing is lost, nobody sees another's page, the counts of frames come back. Method: the
 * touching threads write a value of theirs and read it back; a fault of theirs, when the page is
 * just then gone or read-only, jumps back and is expected. Each round maps anew.
 */
#include "check.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define PAGE     ((size_t)4096)
#define PAGES    64
#define TOUCHERS 3
#define ROUNDS   60

static char *memory;
static atomic_bool over;
static atomic_ulong wrong, faults, touches;
static _Thread_local sigjmp_buf back;

static void on_fault(int number)
{
    (void)number;
    atomic_fetch_add(&faults, 1);
    siglongjmp(back, 1);
}

/* Thread n owns word n of each page: what it reads is its last value, or zero after an unmap. */
static void *touch(void *argument)
{
    size_t own = (size_t)(uintptr_t)argument;
    volatile uint64_t round = 0;
    while (!atomic_load(&over)) {
        round = round + 1;
        if (sigsetjmp(back, 1) != 0) {
            continue;
        }
        for (size_t i = 0; i < PAGES; i++) {
            volatile uint64_t *word = (volatile uint64_t *)(memory + i * PAGE) + own;
            uint64_t value = (uint64_t)own << 56 | round << 8 | i;
            uint64_t seen = *word;
            if (seen != 0 && (seen >> 56 != own || (seen & 0xff) != i)) {
                atomic_fetch_add(&wrong, 1);
            }
            *word = value;
            seen = *word;
            if (seen != value && seen != 0) {
                atomic_fetch_add(&wrong, 1);
            }
        }
        atomic_fetch_add(&touches, 1);
    }
    return NULL;
}

static void *unmap(void *argument)
{
    (void)argument;
    for (unsigned i = 0; !atomic_load(&over); i++) {
        char *at = memory + (i * 7 % PAGES) * PAGE;
        size_t len = (1 + i % 5) * PAGE;
        if (at + len > memory + PAGES * PAGE) {
            len = PAGE;
        }
        if (i % 2 == 0) {
            munmap(at, len);
        }
        mmap(at, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        usleep(100);
    }
    return NULL;
}

static void *protect(void *argument)
{
    (void)argument;
    for (unsigned i = 0; !atomic_load(&over); i++) {
        char *at = memory + (i * 11 % PAGES) * PAGE;
        mprotect(at, PAGE, PROT_READ);
        mprotect(at, PAGE, PROT_READ | PROT_WRITE);
        usleep(100);
    }
    return NULL;
}

/* The child checks that what it sees stands still, and writes over it. */
static void fork_once(void)
{
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, on_fault);
        volatile size_t i = 0;
        sigsetjmp(back, 1);
        while (i < PAGES) {
            size_t at = i;
            i = i + 1;
            volatile uint64_t *word = (volatile uint64_t *)(memory + at * PAGE);
            uint64_t first = word[1];
            word[0] = 77;
            if (word[1] != first) {
                _exit(1);
            }
        }
        _exit(0);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        printf("child %d status %#x\n", child > 0, (unsigned)status);
        atomic_fetch_add(&wrong, 1);
    }
}

static void run(void)
{
    pthread_t threads[TOUCHERS + 2];
    atomic_store(&over, false);
    memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < TOUCHERS; i++) {
        pthread_create(&threads[i], NULL, touch, (void *)(uintptr_t)(i + 1));
    }
    pthread_create(&threads[TOUCHERS], NULL, unmap, NULL);
    pthread_create(&threads[TOUCHERS + 1], NULL, protect, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        fork_once();
    }
    atomic_store(&over, true);
    for (size_t i = 0; i < TOUCHERS + 2; i++) {
        pthread_join(threads[i], NULL);
    }
    munmap(memory, PAGES * PAGE);
}

/* In a process of its own, so that nothing that a libc keeps counts as lost. */
static void run_in_child(void)
{
    run();
    check(atomic_load(&wrong) == 0, "nobody sees what is not its own");
    check(atomic_load(&touches) > 0, "the touching threads came round");
    _exit(check_failures);
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    in_child("first run", run_in_child);
    long before = unused_kib_drained();
    in_child("second run", run_in_child);
    in_child("third run", run_in_child);
    long after = unused_kib_drained();
    check_free(before, after, "free frames as before");
    return check_done();
}
