/*
 * oom_many.c - many processes run out of memory at once, some of them in the middle of an exec.
 * guest: mem=40M linux=192M seconds=60
 *
 * Goal: the kernel goes on killing until all of them are gone, without waiting for one that itself
 * waits for memory; afterwards the memory is there again. Method: twelve eaters that now and then
 * fork and exec with long arguments; the time that all of it takes has a bound; it is done twice.
 */
#include "check.h"
#include <sys/mman.h>
#include <time.h>

#define EATERS        12
#define SECONDS_BOUND 15

static char argument[100000];

static void eat(int number)
{
    char *arguments[] = {"true", argument, argument, argument, argument, argument, NULL};

    for (unsigned i = 0;; i++) {
        size_t bytes = (size_t)1 << 20;
        char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (at == MAP_FAILED) {
            _exit(77);
        }
        memset(at, 1, bytes);
        if (i % EATERS == (unsigned)number % EATERS && fork() == 0) {
            execv("/bin/true", arguments);
            _exit(1);
        }
    }
}

static void eaters(const char *name)
{
    time_t start = time(NULL);
    int killed = 0;

    for (int i = 0; i < EATERS; i++) {
        if (fork() == 0) {
            eat(i);
        }
    }
    for (int i = 0; i < EATERS; i++) {
        int status = 0;

        if (wait(&status) > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
            killed++;
        } else {
            printf("one ended with status 0x%x\n", (unsigned)status);
        }
    }
    record(name, killed);
    check(time(NULL) - start < SECONDS_BOUND, "in time");
}

int main(void)
{
    memset(argument, 'a', sizeof(argument) - 1);
    eaters("killed");
    eaters("killed again");
    record("shell", system("echo the shell lives"));
    return check_done();
}
