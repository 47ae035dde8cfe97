/*
 * child.c - see child.h.
 */
#include "tests/malloc/child.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
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

static void become(const char *name, const char *options, int to, unsigned seconds)
{
    char value[256];
    const char *given = getenv("VELLUM_MALLOC");

    (void)dup2(to, STDERR_FILENO);
    (void)alarm(seconds);
    if (options != NULL) {
        (void)snprintf(value, sizeof(value), "%s%s%s", given != NULL ? given : "",
                       given != NULL ? "," : "", options);
        (void)setenv("VELLUM_MALLOC", value, 1);
    }
    (void)execl("/proc/self/exe", "case", "--case", name, (char *)NULL);
    _exit(98);
}

void child_run(const char *name, const char *options, unsigned seconds, struct child_result *out)
{
    int ends[2];
    size_t had = 0;
    ssize_t more;
    int status;
    pid_t pid;

    memset(out, 0, sizeof(*out));
    out->status = -1;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return;
    }
    pid = fork();
    if (pid == 0) {
        become(name, options, ends[1], seconds);
    }
    (void)close(ends[1]);
    while (had + 1 < sizeof(out->output) &&
           (more = read(ends[0], out->output + had, sizeof(out->output) - 1 - had)) > 0) {
        had += (size_t)more;
    }
    (void)close(ends[0]);
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        return;
    }
    out->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    out->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED true
#else
#define IS_SANITIZED false
#endif

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
