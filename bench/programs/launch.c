/*
 * launch.c - runs one program under an allocator and says what it took.
 *
 * usage: launch RESULT PRELOAD COMMAND [ARGUMENT ...]
 *
 * Writes "elapsed user system peak status" to the file RESULT: seconds, and KiB of the largest
 * process among COMMAND and those that it waited for. A small program does this, because a process
 * inherits the peak of the one that it was forked from until it runs a program of its own, and even
 * that counts: measured from a script, nothing could be smaller than the script's interpreter.
 * PRELOAD may be empty. A signal that ends the launcher first is passed on to the program.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pid_t child;

static void pass_on(int signal_number)
{
    kill(child, signal_number);
}

static double since(const struct timespec *begin)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - begin->tv_sec) + (double)(now.tv_nsec - begin->tv_nsec) * 1e-9;
}

static double in_seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

int main(int count, char **words)
{
    struct timespec begin;
    struct rusage used;
    int status = 0;

    if (count < 4) {
        fputs("usage: launch RESULT PRELOAD COMMAND [ARGUMENT ...]\n", stderr);
        return 2;
    }
    clock_gettime(CLOCK_MONOTONIC, &begin);
    child = fork();
    if (child == 0) {
        if (words[2][0] != '\0') {
            setenv("LD_PRELOAD", words[2], 1);
        }
        execvp(words[3], words + 3);
        perror(words[3]);
        _exit(127);
    }
    signal(SIGTERM, pass_on);
    signal(SIGINT, pass_on);
    while (wait4(child, &status, 0, &used) < 0) {
    }
    double elapsed = since(&begin);
    FILE *result = fopen(words[1], "w");

    if (result == NULL) {
        perror(words[1]);
        return 1;
    }
    status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    fprintf(result, "%.4f %.4f %.4f %ld %d\n", elapsed, in_seconds(used.ru_utime),
            in_seconds(used.ru_stime), used.ru_maxrss, status);
    fclose(result);
    return status;
}
