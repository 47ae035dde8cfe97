/*
 * storm.c - processes and threads made and ended in every way at once.
 * guest: smp=2 mem=128M seconds=60
 * guest: smp=8 mem=256M seconds=60
 *
 * Goal: the tree of processes, signals, exec and exit hold against each other, and nothing leaks.
 * Method: four workers draw ways to live and die from a fixed seed each; what a child's end must
 * be is known from the draw. Processes in the middle of an exec, of a stop or of making threads
 * are killed. At the end as much memory is free as after a first small round.
 */
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#define WORKERS 4
#define SEED    20240607u

static char *self_path;

static uint32_t draw(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static void fail(const char *what, int status)
{
    printf("FAIL %s: status %x\n", what, (unsigned)status);
    fflush(stdout);
    exit(1);
}

static void *spin(void *argument)
{
    for (;;) {
        ++*(volatile int *)argument;
    }
    return NULL;
}

static void *sleep_for_ever(void *argument)
{
    (void)argument;
    for (;;) {
        pause();
    }
    return NULL;
}

static void *end_all(void *argument)
{
    _exit((int)(intptr_t)argument);
    return NULL;
}

static void *exec_again(void *argument)
{
    char number[8];

    snprintf(number, sizeof(number), "%d", (int)(intptr_t)argument);
    execl(self_path, self_path, "exit", number, NULL);
    _exit(99);
}

static void start(void *(*body)(void *), void *argument)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, body, argument) != 0) {
        _exit(98);
    }
}

/* Ends with exit status `code`, in one of several ways; does not return. */
static void end_by_exit(unsigned way, int code)
{
    static volatile int count;

    switch (way % 6) {
    case 0:
        _exit(code);
    case 1:
        exec_again((void *)(intptr_t)code);
        break;
    case 2:
        start(spin, (void *)&count);
        start(sleep_for_ever, NULL);
        _exit(code);
    case 3:
        start(end_all, (void *)(intptr_t)code);
        sleep_for_ever(NULL);
        break;
    case 4:
        start(spin, (void *)&count);
        exec_again((void *)(intptr_t)code);
        break;
    default:
        start(exec_again, (void *)(intptr_t)code);
        spin((void *)&count);
        break;
    }
    _exit(97);
}

static void round_of_exit(uint32_t *state)
{
    unsigned way = draw(state);
    int code = (int)(draw(state) % 90);
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        end_by_exit(way, code);
    }
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != code) {
        printf("way %u code %d\n", way % 6, code);
        fail("exit", status);
    }
}

/* The child may have ended by itself before the signal came. */
static void round_of_kill(uint32_t *state)
{
    unsigned way = draw(state);
    int code = (int)(draw(state) % 90);
    int number = draw(state) % 2 != 0 ? SIGKILL : SIGTERM;
    unsigned spins = draw(state) % 20000;
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        end_by_exit(way, code);
    }
    for (volatile unsigned i = 0; i < spins; i++) {
    }
    kill(child, number);
    if (waitpid(child, &status, 0) != child ||
        !((WIFEXITED(status) && WEXITSTATUS(status) == code) ||
          (WIFSIGNALED(status) && WTERMSIG(status) == number))) {
        fail("kill", status);
    }
}

static void round_of_stops(uint32_t *state)
{
    static volatile int count;
    int status = 0;
    unsigned rounds = 1 + draw(state) % 3;
    pid_t child = fork();

    if (child == 0) {
        start(spin, (void *)&count);
        spin((void *)&count);
    }
    while (rounds-- != 0) {
        kill(child, SIGSTOP);
        if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status)) {
            fail("stop", status);
        }
        kill(child, SIGCONT);
        if (waitpid(child, &status, WCONTINUED) != child || !WIFCONTINUED(status)) {
            fail("continue", status);
        }
    }
    kill(child, SIGKILL);
    if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status)) {
        fail("end", status);
    }
}

/* Grandchildren whose parent dies first, some of them before, some after it. */
static void round_of_orphans(uint32_t *state)
{
    int status = 0;
    int pipes[2];
    char byte;
    unsigned spins = draw(state) % 5000;
    pid_t child;

    if (pipe(pipes) != 0) {
        fail("pipe", errno);
    }
    child = fork();
    if (child == 0) {
        for (int i = 0; i < 3; i++) {
            if (fork() == 0) {
                for (volatile unsigned n = 0; n < spins * (unsigned)i; n++) {
                }
                _exit(0);
            }
        }
        _exit(4);
    }
    close(pipes[1]);
    /* All of them have ended when the last writing end is closed. */
    while (read(pipes[0], &byte, 1) > 0) {
    }
    close(pipes[0]);
    if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 4) {
        fail("orphans", status);
    }
}

static void round_of_vfork(uint32_t *state)
{
    volatile int code = (int)(draw(state) % 90);
    char number[8];
    int status = 0;
    pid_t child;

    snprintf(number, sizeof(number), "%d", code);
    child = vfork();
    if (child == 0) {
        execl(self_path, self_path, "exit", number, NULL);
        _exit(96);
    }
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != code) {
        fail("vfork", status);
    }
}

static void worker(uint32_t seed, int rounds)
{
    static void (*const kinds[])(uint32_t *) = {round_of_exit, round_of_kill, round_of_stops,
                                                round_of_orphans, round_of_vfork};
    uint32_t state = seed;

    while (rounds-- != 0) {
        kinds[draw(&state) % 5](&state);
    }
    exit(0);
}

static void storm(int rounds)
{
    int status = 0;
    int bad = 0;

    for (uint32_t i = 0; i < WORKERS; i++) {
        if (fork() == 0) {
            worker(SEED + i * 7919u, rounds);
        }
    }
    while (wait(&status) > 0) {
        bad += status != 0;
    }
    check(bad == 0, "all ends are as they must be");
}

int main(int count, char **words)
{
    struct timespec settle = {0, 300000000};
    long before;

    if (count == 3) {
        return atoi(words[2]);
    }
    self_path = words[0];
    storm(10);
    nanosleep(&settle, NULL);
    before = unused_kib_drained();
    storm(50);
    nanosleep(&settle, NULL);
    check_free(before, unused_kib_drained(), "nothing leaks");
    return check_done();
}
