/*
 * futexes.c - the futex call itself: errors, time limits, bit sets, requeueing, wake_op, robust
 * lists, words shared between processes.
 *
 * Goal: what libcs build on holds in each corner. Method: raw calls from threads and processes;
 * who waits is known to wait by a wake that returns the count expected, tried
 * until it does or two seconds pass.
 */
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

/* musl has no header for these. */
#define FUTEX_WAIT                0
#define FUTEX_WAKE                1
#define FUTEX_REQUEUE             3
#define FUTEX_CMP_REQUEUE         4
#define FUTEX_WAKE_OP             5
#define FUTEX_WAIT_BITSET         9
#define FUTEX_WAKE_BITSET         10
#define FUTEX_PRIVATE_FLAG        128
#define FUTEX_CLOCK_REALTIME      256
#define FUTEX_WAIT_PRIVATE        (FUTEX_WAIT | FUTEX_PRIVATE_FLAG)
#define FUTEX_WAKE_PRIVATE        (FUTEX_WAKE | FUTEX_PRIVATE_FLAG)
#define FUTEX_CMP_REQUEUE_PRIVATE (FUTEX_CMP_REQUEUE | FUTEX_PRIVATE_FLAG)
#define FUTEX_WAKE_OP_PRIVATE     (FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG)
#define FUTEX_WAIT_BITSET_PRIVATE (FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG)
#define FUTEX_WAKE_BITSET_PRIVATE (FUTEX_WAKE_BITSET | FUTEX_PRIVATE_FLAG)
#define FUTEX_WAITERS             0x80000000u
#define FUTEX_OWNER_DIED          0x40000000u
#define FUTEX_TID_MASK            0x3fffffffu
#define FUTEX_OP_SET              0u
#define FUTEX_OP_ADD              1u
#define FUTEX_OP_OR               2u
#define FUTEX_OP_ANDN             3u
#define FUTEX_OP_OPARG_SHIFT      8u
#define FUTEX_OP_CMP_EQ           0u
#define FUTEX_OP(op, argument, compare, with)                                                      \
    ((op) << 28 | (compare) << 24 | ((argument)&0xfffu) << 12 | ((with)&0xfffu))

struct robust_entry {
    struct robust_entry *next;
};

struct robust_head {
    struct robust_entry list;
    long offset;
    struct robust_entry *pending;
};

static _Atomic uint32_t word;
static _Atomic uint32_t word2;
static _Atomic int woken;

static long futex(void *at, int op, uint32_t value, const void *time_or_value, void *at2,
                  uint32_t value3)
{
    return syscall(SYS_futex, at, op, value, time_or_value, at2, value3);
}

static void errors(void)
{
    struct timespec none = {0, 0};
    struct timespec bad = {0, 1000000000};
    struct timespec past = {1, 0};

    word = 5;
    record("wait, other value", futex(&word, FUTEX_WAIT, 4, NULL, NULL, 0));
    record("wait, misaligned", futex((char *)&word + 1, FUTEX_WAIT, 5, NULL, NULL, 0));
    record("wait, unmapped", futex((void *)0x1000, FUTEX_WAIT, 5, NULL, NULL, 0));
    record("wait, kernel", futex((void *)0xffff800000000000ul, FUTEX_WAIT, 5, NULL, NULL, 0));
    record("wait private, unmapped", futex((void *)0x1000, FUTEX_WAIT_PRIVATE, 5, NULL, NULL, 0));
    record("wait, no time", futex(&word, FUTEX_WAIT, 5, &none, NULL, 0));
    record("wait, bad time", futex(&word, FUTEX_WAIT, 5, &bad, NULL, 0));
    record("wait, bad time pointer", futex(&word, FUTEX_WAIT, 5, (void *)8, NULL, 0));
    record("wait bitset, past", futex(&word, FUTEX_WAIT_BITSET, 5, &past, NULL, ~0u));
    record("wait bitset 0", futex(&word, FUTEX_WAIT_BITSET, 5, &past, NULL, 0));
    record("wait bitset, real time",
           futex(&word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 5, &past, NULL, ~0u));
    record("wake nobody", futex(&word, FUTEX_WAKE, 1, NULL, NULL, 0));
    record("wake, misaligned", futex((char *)&word + 2, FUTEX_WAKE, 1, NULL, NULL, 0));
    record("wake, unmapped", futex((void *)0x1000, FUTEX_WAKE, 1, NULL, NULL, 0));
    record("wake bitset 0", futex(&word, FUTEX_WAKE_BITSET, 1, NULL, NULL, 0));
    record("requeue, other value", futex(&word, FUTEX_CMP_REQUEUE, 1, (void *)1, &word2, 4));
    record("requeue, negative", futex(&word, FUTEX_REQUEUE, (uint32_t)-1, (void *)1, &word2, 0));
    record("unknown operation", futex(&word, 99, 1, NULL, NULL, 0));
    record("robust list, bad size", syscall(SYS_set_robust_list, &word, 8));
}

static void *waiter(void *bits)
{
    long result = futex(&word, FUTEX_WAIT_BITSET_PRIVATE, 7, NULL, NULL, (uint32_t)(uintptr_t)bits);

    if (result == 0) {
        woken++;
    }
    return NULL;
}

/* Repeats a call until it gives `want`, for two seconds. */
static bool until(long (*call)(void), long want)
{
    struct timespec pause = {0, 1000000};

    for (int i = 0; i < 2000; i++) {
        if (call() == want) {
            return true;
        }
        nanosleep(&pause, NULL);
    }
    return false;
}

static long wake_bit_2(void)
{
    return futex(&word, FUTEX_WAKE_BITSET_PRIVATE, 10, NULL, NULL, 2);
}

static long move_one(void)
{
    return futex(&word, FUTEX_CMP_REQUEUE_PRIVATE, 0, (void *)1, &word2, 7);
}

static long wake_second(void)
{
    return futex(&word2, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0);
}

static long wake_first(void)
{
    return futex(&word, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0);
}

static void sets_and_queues(void)
{
    pthread_t one;
    pthread_t two;

    word = 7;
    woken = 0;
    pthread_create(&one, NULL, waiter, (void *)1);
    pthread_create(&two, NULL, waiter, (void *)2);
    check(until(wake_bit_2, 1), "the waiter of bit 2 alone is woken");
    pthread_join(two, NULL);
    check(woken == 1, "one went on");
    check(until(move_one, 1), "the other is moved to a second word");
    record("none is left on the first", wake_first());
    record("it is on the second", wake_second());
    pthread_join(one, NULL);
    check(woken == 2, "both went on");
}

static long wake_op(void)
{
    /* word2 = 3; wake on word; if the old value was 0, wake on word2 too */
    word2 = 0;
    return futex(&word, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1, &word2,
                 FUTEX_OP(FUTEX_OP_SET, 3, FUTEX_OP_CMP_EQ, 0));
}

static void with_op(void)
{
    pthread_t one;

    word = 7;
    pthread_create(&one, NULL, waiter, (void *)1);
    check(until(wake_op, 1), "wake_op wakes");
    check(word2 == 3, "and sets");
    pthread_join(one, NULL);
    word2 = 10;
    futex(&word, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1, &word2,
          FUTEX_OP(FUTEX_OP_ADD, 5, FUTEX_OP_CMP_EQ, 0));
    check(word2 == 15, "adds");
    futex(&word, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1, &word2,
          FUTEX_OP(FUTEX_OP_ANDN, 3, FUTEX_OP_CMP_EQ, 0));
    check(word2 == 12, "clears bits");
    futex(&word, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1, &word2,
          FUTEX_OP(FUTEX_OP_OR | FUTEX_OP_OPARG_SHIFT, 4, FUTEX_OP_CMP_EQ, 0));
    check(word2 == 28, "sets a bit by its number");
    record("wake_op unknown", futex(&word, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1, &word2, 5u << 28));
    record("wake_op unmapped",
           futex(&word, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1, (void *)0x1000, 0));
}

static void between_processes(void)
{
    _Atomic uint32_t *shared =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 0;
    struct timespec pause = {0, 1000000};
    long result = 0;
    pid_t child = fork();

    if (child == 0) {
        /* At another address, so that the address cannot be the key. */
        _Atomic uint32_t *other = mremap((void *)shared, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED,
                                         (void *)0x200000000000);

        _exit(futex(other, FUTEX_WAIT, 0, NULL, NULL, 0) == 0 ? 6 : 1);
    }
    for (int i = 0; i < 2000 && result != 1; i++) {
        nanosleep(&pause, NULL);
        result = futex(shared, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
    check(result == 1, "a waiter of another process is woken");
    waitpid(child, &status, 0);
    record_status("it", status);
    record("private wakes do not reach it", futex(shared, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
}

/* Dies with a robust futex held. */
static void *die_holding(void *argument)
{
    static struct robust_entry entry;
    static struct robust_head head;

    (void)argument;
    head.list.next = &entry;
    entry.next = &head.list;
    head.offset = (long)((char *)&word - (char *)&entry);
    head.pending = NULL;
    syscall(SYS_set_robust_list, &head, sizeof(head));
    word = (uint32_t)syscall(SYS_gettid) | FUTEX_WAITERS;
    syscall(SYS_exit, 0);
    return NULL;
}

static int clone_body(void *argument)
{
    die_holding(argument);
    return 0;
}

static char stack[65536] __attribute__((aligned(16)));

static void robust(void)
{
    int status = 0;
    int child = clone(clone_body, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);

    check(waitpid(child, &status, 0) == child, "a thread dies with a futex");
    check((word & FUTEX_OWNER_DIED) != 0, "its owner is marked as dead");
    check((word & FUTEX_TID_MASK) == 0, "and is nobody any more");
}

static int set_tid(void *argument)
{
    (void)argument;
    return 0;
}

static void cleared_tid(void)
{
    static _Atomic uint32_t tid = 1;
    static _Atomic uint32_t parents;
    int status = 0;
    int child =
        clone(set_tid, stack + sizeof(stack),
              CLONE_VM | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | CLONE_PARENT_SETTID | SIGCHLD,
              NULL, &parents, NULL, &tid);

    while (tid != 0) {
        futex(&tid, FUTEX_WAIT, tid, NULL, NULL, 0);
    }
    check(parents == (uint32_t)child, "the parent's word has the tid");
    waitpid(child, &status, 0);
    record_status("the child", status);
}

static void on_signal(int number)
{
    (void)number;
}

static void *interrupted(void *argument)
{
    struct timespec limit = {5, 0};

    word = 7;
    *(int *)argument = futex(&word, FUTEX_WAIT_PRIVATE, 7, &limit, NULL, 0) == -1 ? errno : 0;
    return NULL;
}

static void signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct timespec pause = {0, 50000000};
    pthread_t thread;
    int result = -1;

    sigaction(SIGUSR1, &action, NULL);
    pthread_create(&thread, NULL, interrupted, &result);
    nanosleep(&pause, NULL);
    pthread_kill(thread, SIGUSR1);
    nanosleep(&pause, NULL);
    wake_first();
    pthread_join(thread, NULL);
    printf("a limited wait with a handler that restarts: %d\n", result);
}

int main(void)
{
    errors();
    sets_and_queues();
    with_op();
    between_processes();
    robust();
    cleared_tid();
    signals();
    return check_done();
}
