/*
 * out_of_memory.c - memory runs out: the biggest process is killed, the others live.
 * guest: mem=24M linux=192M seconds=90
 *
 * Goal: SIGKILL for the biggest, nobody else; afterwards the memory is there again. Method: a
 * child dirties memory until it is killed, while a small one stands by; three times; then a shell
 * must still run. The same with a program that forks.
 */
#include "check.h"
#include <sys/mman.h>

static void eat(void)
{
    for (;;) {
        size_t bytes = (size_t)1 << 20;
        char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) {
            _exit(77);
        }
        memset(at, 1, bytes);
    }
}

static void stand_by(void)
{
    for (;;) {
        pause();
    }
}

int main(void)
{
    fflush(stdout);
    pid_t small = fork();
    if (small == 0) {
        stand_by();
    }
    in_child("the biggest", eat);
    long before = free_kib_drained();
    in_child("the biggest, again", eat);
    in_child("and again", eat);
    long after = free_kib_drained();
    check(kill(small, 0) == 0 && waitpid(small, NULL, WNOHANG) == 0, "the small one lives");
    record("shell", system("echo the shell lives"));
    check_free(before, after, "free frames as before");
    kill(small, SIGKILL);
    int status = 0;
    waitpid(small, &status, 0);
    record_status("the small one", status);
    return check_done();
}
