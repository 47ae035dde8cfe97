/*
 * lat_proc.c - experiment 3, by the method of lmbench's program of that name: what it takes to make
 * a process and have it end.
 *
 * usage: lat_proc fork|exec|shell ROUNDS [REPEATS]
 *
 * fork: fork, the child exits. exec: the child executes /bin/hello, a tiny static program. shell:
 * the child executes /bin/sh -c /bin/hello. Two warm-up rounds, then REPEATS (default 5) figures,
 * each the mean of ROUNDS rounds, in hundredths of a microsecond.
 */
#include "measure.h"
#include <sys/wait.h>

#define HELLO "/bin/hello"

static void child_fork(void)
{
}

static void child_exec(void)
{
    char *arguments[] = {HELLO, NULL};
    char *environment[] = {"PATH=/bin", NULL};
    close(1);
    execve(HELLO, arguments, environment);
}

static void child_shell(void)
{
    char *arguments[] = {"sh", "-c", HELLO, NULL};
    char *environment[] = {"PATH=/bin", NULL};
    close(1);
    execve("/bin/sh", arguments, environment);
}

static void one_process(void (*body)(void), int want)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        body();
        _exit(want);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("fork");
        exit(1);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "lat_proc: a child ended with status %#x\n", (unsigned)status);
        exit(1);
    }
}

int main(int count, char **words)
{
    if (count < 3) {
        fprintf(stderr, "usage: lat_proc fork|exec|shell ROUNDS [REPEATS]\n");
        return 2;
    }
    void (*body)(void) = child_fork;
    int want = 0;
    if (strcmp(words[1], "fork") != 0) {
        /* Reached only if the exec failed. */
        want = 127;
        body = strcmp(words[1], "exec") == 0 ? child_exec : child_shell;
    }
    uint64_t rounds = strtoull(words[2], NULL, 10);
    uint64_t repeats = count > 3 ? strtoull(words[3], NULL, 10) : 5;
    if (rounds == 0) {
        return 2;
    }
    one_process(body, want);
    one_process(body, want);
    for (uint64_t repeat = 0; repeat < repeats; repeat++) {
        uint64_t start = now_ns();
        for (uint64_t i = 0; i < rounds; i++) {
            one_process(body, want);
        }
        uint64_t total = now_ns() - start;
        printf("@proc kind=%s rounds=%llu each=%llu\n", words[1], (unsigned long long)rounds,
               (unsigned long long)(total / 10 / rounds));
        fflush(stdout);
    }
    return 0;
}
