/*
 * splices.c - splice, tee and vmsplice.
 *
 * Goal: what they move, where positions go, blocking and errors are as on Linux. Method: patterns
 * through pipes, files and memory are checked byte for byte; results are compared with Linux.
 */
#include "check.h"
#include <fcntl.h>
#include <sys/uio.h>

#define BYTES 10000

static char pattern[BYTES];
static char back[BYTES];

static void errors(const int *pipe_fd, const int *other, int file)
{
    off_t at = 0;
    record("no length", splice(99, NULL, 98, NULL, 0, 0));
    record("flags", splice(pipe_fd[0], NULL, other[1], NULL, 1, 64));
    record("no descriptor", splice(99, NULL, pipe_fd[1], NULL, 1, 0));
    record("no pipe", splice(file, NULL, file, NULL, 1, 0));
    record("same pipe", splice(pipe_fd[0], NULL, pipe_fd[1], NULL, 1, 0));
    record("offset of a pipe", splice(pipe_fd[0], &at, file, NULL, 1, 0));
    record("wrong end", splice(pipe_fd[1], NULL, file, NULL, 1, 0));
    record("empty", splice(pipe_fd[0], NULL, file, NULL, 1, SPLICE_F_NONBLOCK));
    record("bad offset", splice(file, (off_t *)8, pipe_fd[1], NULL, 1, 0));
    at = -1;
    record("negative offset", splice(file, &at, pipe_fd[1], NULL, 1, 0));
    record("tee, no pipe", tee(file, pipe_fd[1], 1, 0));
    record("tee, same", tee(pipe_fd[0], pipe_fd[1], 1, 0));
    record("tee, empty", tee(pipe_fd[0], other[1], 1, SPLICE_F_NONBLOCK));
    record("tee, nothing", tee(pipe_fd[0], other[1], 0, 0));
}

static void through_files(const int *pipe_fd, int file)
{
    off_t at = 100;
    int copy = open("/tmp/spliced", O_RDWR | O_CREAT | O_TRUNC, 0600);
    record("from the file", splice(file, &at, pipe_fd[1], NULL, 5000, 0));
    record("offset", at);
    record("own position", lseek(file, 0, SEEK_CUR));
    record("into another", splice(pipe_fd[0], NULL, copy, NULL, 9000, 0));
    record("its position", lseek(copy, 0, SEEK_CUR));
    check(pread(copy, back, BYTES, 0) == 5000 && memcmp(back, pattern + 100, 5000) == 0, "same");
    lseek(file, 9000, SEEK_SET);
    record("to the end", splice(file, NULL, pipe_fd[1], NULL, 5000, 0));
    record("at the end", splice(file, NULL, pipe_fd[1], NULL, 5000, 0));
    at = 3;
    record("at an offset", splice(pipe_fd[0], NULL, copy, &at, 7, 0));
    record("it moved", at);
    record("the rest", read(pipe_fd[0], back, BYTES));
    check(memcmp(back, pattern + 9007, 993) == 0, "rest is the same");
    check(pread(copy, back, 12, 0) == 12 && memcmp(back + 3, pattern + 9000, 7) == 0, "written");
    close(copy);
    copy = open("/tmp/spliced", O_WRONLY | O_APPEND);
    record("append", splice(pipe_fd[0], NULL, copy, NULL, 1, SPLICE_F_NONBLOCK));
    close(copy);
    unlink("/tmp/spliced");
}

static void through_pipes(const int *pipe_fd, const int *other)
{
    check(write(pipe_fd[1], pattern, 6000) == 6000, "written");
    record("tee", tee(pipe_fd[0], other[1], 5000, 0));
    record("teed", read(other[0], back, BYTES));
    check(memcmp(back, pattern, 5000) == 0, "teed the same");
    record("splice", splice(pipe_fd[0], NULL, other[1], NULL, 9000, 0));
    record("spliced", read(other[0], back, BYTES));
    check(memcmp(back, pattern, 6000) == 0, "spliced the same");
    record("none is left", tee(pipe_fd[0], other[1], 1, SPLICE_F_NONBLOCK));
}

static void through_memory(const int *pipe_fd, int file)
{
    struct iovec out[2] = {{pattern, 10}, {pattern + 5000, 4990}};
    struct iovec in[2] = {{back, 4000}, {back + 4000, 1000}};
    struct iovec bad = {(void *)8, 10};
    record("in", vmsplice(pipe_fd[1], out, 2, 0));
    memset(back, 0, sizeof(back));
    record("out", vmsplice(pipe_fd[0], in, 2, 0));
    check(memcmp(back, pattern, 10) == 0 && memcmp(back + 10, pattern + 5000, 4990) == 0, "same");
    record("none", vmsplice(pipe_fd[0], in, 0, 0));
    record("bad", vmsplice(pipe_fd[1], &bad, 1, 0));
    record("no pipe", vmsplice(file, in, 1, 0));
    record("too many", vmsplice(pipe_fd[1], in, 1025, 0));
    record("empty", vmsplice(pipe_fd[0], in, 1, SPLICE_F_NONBLOCK));
}

/* A child feeds 1 MiB through a pipe, the parent splices it on to a file that discards it. */
static void long_way(void)
{
    int pipe_fd[2];
    int status;
    int null = open("/dev/null", O_WRONLY);
    long sum = 0;
    long part;
    pid_t child;
    check(pipe(pipe_fd) == 0, "pipe");
    child = fork();
    if (child == 0) {
        for (int i = 0; i < 128; i++) {
            if (write(pipe_fd[1], pattern, 8192) != 8192) {
                _exit(1);
            }
        }
        _exit(0);
    }
    close(pipe_fd[1]);
    while ((part = splice(pipe_fd[0], NULL, null, NULL, 100000, 0)) > 0) {
        sum += part;
    }
    record("all", sum);
    record("then the end", part);
    check(waitpid(child, &status, 0) == child && status == 0, "child");
    close(pipe_fd[0]);
    close(null);
}

static void broken(int file)
{
    int pipe_fd[2];
    int other[2];
    off_t at = 0;
    signal(SIGPIPE, SIG_IGN);
    check(pipe(pipe_fd) == 0 && pipe(other) == 0, "pipes");
    close(pipe_fd[0]);
    record("nobody reads", splice(file, &at, pipe_fd[1], NULL, 10, 0));
    close(other[1]);
    record("nobody writes", splice(other[0], NULL, file, NULL, 10, 0));
    close(pipe_fd[1]);
    close(other[0]);
}

int main(void)
{
    int pipe_fd[2];
    int other[2];
    int file = open("/tmp/splice", O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int i = 0; i < BYTES; i++) {
        pattern[i] = (char)(i * 7 + i / 251);
    }
    check(file >= 0 && write(file, pattern, BYTES) == BYTES, "file");
    lseek(file, 0, SEEK_SET);
    check(pipe(pipe_fd) == 0 && pipe(other) == 0, "pipes");
    errors(pipe_fd, other, file);
    through_files(pipe_fd, file);
    through_pipes(pipe_fd, other);
    through_memory(pipe_fd, file);
    long_way();
    broken(file);
    unlink("/tmp/splice");
    return check_done();
}
