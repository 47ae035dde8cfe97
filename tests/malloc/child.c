/*
 * child.c - see child.h.
 */
#include "tests/malloc/child.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void child_main(int argc, char **argv, const struct child_case *cases, size_t count)
{
    if (argc != 3 || strcmp(argv[1], "--case") != 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(argv[2], cases[i].name) == 0) {
            exit(cases[i].run());
        }
    }
    _exit(99);
}

static void become(const char *name, const char *options, int to)
{
    char value[256];
    const char *given = getenv("VELLUM_MALLOC");

    (void)setpgid(0, 0);
    (void)dup2(to, STDERR_FILENO);
    if (options != NULL) {
        (void)snprintf(value, sizeof(value), "%s%s%s", given != NULL ? given : "",
                       given != NULL ? "," : "", options);
        (void)setenv("VELLUM_MALLOC", value, 1);
    }
    (void)execl("/proc/self/exe", "case", "--case", name, (char *)NULL);
    _exit(98);
}

/* Reads to the end of what all of them print. False: @seconds went by before. */
static bool listen_to(int from, unsigned seconds, struct child_result *out)
{
    time_t end = time(NULL) + (time_t)seconds;
    struct pollfd waits = {.fd = from, .events = POLLIN};
    size_t had = 0;
    char rest[256];
    ssize_t more = 1;

    while (more > 0) {
        time_t left = end - time(NULL);
        bool fits = had + 1 < sizeof(out->output);

        if (left <= 0 || poll(&waits, 1, (int)left * 1000) == 0) {
            return false;
        }
        more = fits ? read(from, out->output + had, sizeof(out->output) - 1 - had)
                    : read(from, rest, sizeof(rest));
        had += fits && more > 0 ? (size_t)more : 0;
    }
    return true;
}

void child_run(const char *name, const char *options, unsigned seconds, struct child_result *out)
{
    int ends[2];
    int status;
    pid_t pid;
    bool late;

    memset(out, 0, sizeof(*out));
    out->status = -1;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return;
    }
    pid = fork();
    if (pid == 0) {
        become(name, options, ends[1]);
    }
    (void)close(ends[1]);
    if (pid < 0) {
        (void)close(ends[0]);
        return;
    }
    (void)setpgid(pid, pid); /* as the child does: whoever comes first */
    late = !listen_to(ends[0], seconds, out);
    if (late) {
        (void)kill(-pid, SIGKILL);
    }
    (void)close(ends[0]);
    if (waitpid(pid, &status, 0) != pid) {
        return;
    }
    (void)kill(-pid, SIGKILL); /* what it left behind, which holds no number of ours */
    out->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    out->signal = late ? SIGALRM : WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED true
#else
#define IS_SANITIZED false
#endif

bool is_sanitized(void)
{
    return IS_SANITIZED;
}

size_t resident_bytes(void)
{
    char text[128];
    unsigned long pages = 0;
    unsigned long all = 0;
    unsigned long files = 0;
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t had = file < 0 ? -1 : read(file, text, sizeof(text) - 1);

    if (file >= 0) {
        (void)close(file);
    }
    if (had > 0) {
        text[had] = '\0';
        if (sscanf(text, "%lu %lu %lu", &all, &pages, &files) != 3) {
            return 0;
        }
    }
    return IS_SANITIZED ? 0 : (pages - files) * 4096u;
}

unsigned long random_next(unsigned long *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}
