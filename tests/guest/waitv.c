/*
 * waitv.c - futex_waitv: waiting on several words at once.
 *
 * Goal: which word woke the caller, time limits, values that differ and errors are as on Linux.
 * Method: a child waits on words in shared memory that the parent wakes; results are printed and
 * compared with Linux.
 */
#include "check.h"
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#define FUTEX_WAITV_NUMBER 449
#define SIZE_32            2u
#define PRIVATE            128u

struct entry {
    uint64_t value, word;
    uint32_t flags, reserved;
};

static uint32_t *words;
static struct entry entry_of[3];

static long wait_on(unsigned count, const struct timespec *limit, int clock)
{
    return syscall(FUTEX_WAITV_NUMBER, entry_of, count, 0, limit, clock);
}

static void prepare(uint32_t flags)
{
    for (int i = 0; i < 3; i++) {
        entry_of[i] = (struct entry){0, (uintptr_t)&words[i * 100], flags, 0};
    }
}

static void errors(void)
{
    struct timespec bad = {0, 1000000000};
    record("none", wait_on(0, NULL, 0));
    record("too many", wait_on(129, NULL, 0));
    record("flags", syscall(FUTEX_WAITV_NUMBER, entry_of, 1, 1, NULL, 0));
    record("null", syscall(FUTEX_WAITV_NUMBER, NULL, 1, 0, NULL, 0));
    record("bad address", syscall(FUTEX_WAITV_NUMBER, 8, 1, 0, NULL, 0));
    record("bad time", wait_on(1, &bad, CLOCK_MONOTONIC));
    bad.tv_nsec = 0;
    record("bad clock", wait_on(1, &bad, 7));
    entry_of[2].value = 1;
    record("differs", wait_on(3, NULL, 0));
    prepare(SIZE_32);
    entry_of[1].reserved = 1;
    record("reserved", wait_on(3, NULL, 0));
    prepare(SIZE_32);
    entry_of[1].flags = 1;
    record("size", wait_on(3, NULL, 0));
    prepare(SIZE_32);
    entry_of[1].word += 2;
    record("misaligned", wait_on(3, NULL, 0));
    prepare(SIZE_32);
    entry_of[2].word = 8;
    record("no word", wait_on(3, NULL, 0));
    prepare(SIZE_32);
}

static void time_limits(void)
{
    struct timespec limit;
    clock_gettime(CLOCK_MONOTONIC, &limit);
    limit.tv_sec++;
    record("monotonic", wait_on(3, &limit, CLOCK_MONOTONIC));
    clock_gettime(CLOCK_REALTIME, &limit);
    record("realtime, past", wait_on(3, &limit, CLOCK_REALTIME));
    prepare(SIZE_32 | PRIVATE);
    record("private", wait_on(3, &limit, CLOCK_REALTIME));
    prepare(SIZE_32);
}

static void woken(int which)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        _exit((int)wait_on(3, NULL, 0) + 10);
    }
    for (int i = 0; i < 500; i++) {
        if (syscall(SYS_futex, &words[which * 100], 1, 1, NULL, NULL, 0) == 1) {
            break;
        }
        usleep(10000);
    }
    check(waitpid(child, &status, 0) == child, "child");
    record_status("woken", status);
    record("nobody is left", syscall(SYS_futex, &words[0], 1, 9, NULL, NULL, 0));
}

static void on_alarm(int number)
{
    (void)number;
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_alarm};
    words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(words != MAP_FAILED, "memory");
    prepare(SIZE_32);
    errors();
    time_limits();
    woken(0);
    woken(1);
    woken(2);
    sigaction(SIGALRM, &action, NULL);
    ualarm(100000, 0);
    record("interrupted", wait_on(3, NULL, 0));
    return check_done();
}
