/*
 * runner.c - runs the test programs inside a guest, one after the other.
 *
 * usage: runner DIRECTORY NAME=SECONDS ...
 *
 * Each program's output is passed on with '|' before every line, so that lines of the kernel's own
 * do not count; begin and end lines stand around it. A program that is not done in its time is
 * killed with its process group. Only old and plain calls are used: fork, exec, pipe, read, wait,
 * kill, alarm.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t late;
static pid_t child;

static void on_alarm(int number)
{
    (void)number;
    late = 1;
    kill(-child, SIGKILL);
    kill(child, SIGKILL);
}

static void put(const char *data, size_t count)
{
    while (count > 0) {
        ssize_t done = write(1, data, count);
        if (done <= 0) {
            return;
        }
        data += done;
        count -= (size_t)done;
    }
}

/* Passes on what comes from `from` until its end, each line marked. */
static void pass_on(int from)
{
    static char line[4096];
    size_t used = 0;
    char byte[512];
    for (;;) {
        ssize_t count = read(from, byte, sizeof(byte));
        if (count < 0 && errno == EINTR && !late) {
            continue;
        }
        if (count <= 0) {
            break;
        }
        for (ssize_t i = 0; i < count; i++) {
            if (used == 0) {
                line[used++] = '|';
            }
            line[used++] = byte[i];
            if (byte[i] == '\n' || used == sizeof(line)) {
                put(line, used);
                used = 0;
            }
        }
    }
    if (used > 0) {
        line[used++] = '\n';
        put(line, used);
    }
}

static void start(const char *directory, const char *name, int out)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    setpgid(0, 0);
    int null = open("/dev/null", O_RDONLY);
    dup2(null, 0);
    dup2(out, 1);
    dup2(out, 2);
    for (int fd = 3; fd < 16; fd++) {
        close(fd);
    }
    char *arguments[] = {path, NULL};
    char *environment[] = {"PATH=/bin", "HOME=/", "LC_ALL=C", NULL};
    if (chdir("/tmp") == 0) {
        execve(path, arguments, environment);
    }
    dprintf(2, "cannot run %s: errno %d\n", path, errno);
    _exit(127);
}

static void run(const char *directory, const char *name, unsigned seconds)
{
    int ends[2];
    printf("\n@@begin %s\n", name);
    fflush(stdout);
    if (pipe(ends) != 0) {
        printf("@@end %s no pipe\n", name);
        return;
    }
    late = 0;
    child = fork();
    if (child == 0) {
        close(ends[0]);
        start(directory, name, ends[1]);
    }
    setpgid(child, child);
    close(ends[1]);
    alarm(seconds);
    pass_on(ends[0]);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    alarm(0);
    kill(-child, SIGKILL);
    close(ends[0]);
    if (late) {
        printf("\n@@end %s timeout after %u s\n", name, seconds);
    } else if (WIFSIGNALED(status)) {
        printf("\n@@end %s signal %d\n", name, WTERMSIG(status));
    } else {
        printf("\n@@end %s exit %d\n", name, WEXITSTATUS(status));
    }
    fflush(stdout);
}

int main(int count, char **words)
{
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    for (int i = 2; i < count; i++) {
        char name[128];
        snprintf(name, sizeof(name), "%s", words[i]);
        char *equals = strchr(name, '=');
        unsigned seconds = 20;
        if (equals) {
            *equals = 0;
            seconds = (unsigned)atoi(equals + 1);
        }
        run(words[1], name, seconds);
        /* Children of the program that outlived it come here when this is the first process. */
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
    }
    printf("\n@@all\n");
    fflush(stdout);
    return 0;
}
