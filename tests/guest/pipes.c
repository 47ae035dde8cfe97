/*
 * pipes.c - pipes and poll: blocking, limits, ends that go, atomic writes, select, dup, closing.
 *
 * Goal: as Linux. Method: a process with its own pipe for what does not block, children for the
 * rest; all that passes is checked byte by byte.
 */
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/uio.h>

static void limits(void)
{
    int ends[2];
    static char big[200000];
    check(pipe2(ends, O_NONBLOCK) == 0, "pipe2");
    record("read, empty", read(ends[0], big, 1));
    record("write 200000", write(ends[1], big, sizeof(big)));
    record("write, full", write(ends[1], big, 1));
    record("read 4096", read(ends[0], big, 4096));
    record("write 4096", write(ends[1], big, 4096));
    int waiting = 0;
    record("FIONREAD", ioctl(ends[0], FIONREAD, &waiting));
    printf("waiting %d\n", waiting);
    close(ends[1]);
    long total = 0, count;
    while ((count = read(ends[0], big, 10000)) > 0) {
        total += count;
    }
    printf("drained %ld then %ld\n", total, count);
    close(ends[0]);
    record("pipe2 closes on exec", pipe2(ends, O_CLOEXEC));
    record("F_GETFD", fcntl(ends[0], F_GETFD));
    signal(SIGPIPE, SIG_IGN);
    close(ends[0]);
    record("nobody reads", write(ends[1], big, 1));
    close(ends[1]);
    record("write of 0 bytes", pipe(ends) == 0 ? write(ends[1], big, 0) : -1);
    close(ends[0]);
    close(ends[1]);
}

static void polled(void)
{
    int ends[2];
    char byte = 0;
    check(pipe(ends) == 0, "a pipe");
    struct pollfd both[3] = {{ends[0], POLLIN, 0}, {ends[1], POLLOUT, 0}, {-1, POLLIN, 99}};
    record("poll", poll(both, 3, 0));
    printf("events %x %x %x\n", (unsigned)both[0].revents, (unsigned)both[1].revents,
           (unsigned)both[2].revents);
    record("write", write(ends[1], "x", 1));
    record("poll", poll(both, 2, 1000));
    printf("events %x %x\n", (unsigned)both[0].revents, (unsigned)both[1].revents);
    record("read", read(ends[0], &byte, 1));
    record("poll times out", poll(both, 1, 50));
    fd_set reads;
    FD_ZERO(&reads);
    FD_SET(ends[0], &reads);
    struct timeval time = {0, 20000};
    record("select times out", select(ends[0] + 1, &reads, NULL, NULL, &time));
    pid_t child = fork();
    if (child == 0) {
        usleep(50000);
        _exit(write(ends[1], "y", 1) == 1 ? 0 : 1);
    }
    FD_SET(ends[0], &reads);
    record("select", select(ends[0] + 1, &reads, NULL, NULL, NULL));
    waitpid(child, NULL, 0);
    record("read", read(ends[0], &byte, 1));
    close(ends[1]);
    record("poll, the writer is gone", poll(both, 1, 1000));
    printf("events %x\n", (unsigned)both[0].revents);
    close(ends[0]);
    record("poll of a closed one", poll(both, 1, 0));
    printf("events %x\n", (unsigned)both[0].revents);
    check(pipe(ends) == 0 && close(ends[0]) == 0, "a pipe without a reader");
    both[1].fd = ends[1];
    record("poll", poll(&both[1], 1, 0));
    printf("events %x\n", (unsigned)both[1].revents);
    close(ends[1]);
}

/* A megabyte through a pipe whose ends go in steps of different size. */
static void big_transfer(void)
{
    int ends[2], status = 1;
    check(pipe(ends) == 0, "a pipe");
    pid_t child = fork();
    if (child == 0) {
        static unsigned char out[7919];
        unsigned at = 0;
        close(ends[0]);
        while (at < 1 << 20) {
            size_t bytes = sizeof(out);
            for (size_t i = 0; i < bytes; i++) {
                out[i] = (unsigned char)((at + i) * 31 >> 3);
            }
            if (at + bytes > 1 << 20) {
                bytes = (1 << 20) - at;
            }
            if (write(ends[1], out, bytes) != (ssize_t)bytes) {
                _exit(1);
            }
            at += (unsigned)bytes;
        }
        _exit(0);
    }
    close(ends[1]);
    unsigned char in[5003];
    unsigned at = 0, wrong = 0;
    for (ssize_t count; (count = read(ends[0], in, sizeof(in))) > 0;) {
        for (ssize_t i = 0; i < count; i++, at++) {
            wrong += in[i] != (unsigned char)(at * 31 >> 3);
        }
    }
    waitpid(child, &status, 0);
    printf("passed %u wrong %u status %d\n", at, wrong, status);
    close(ends[0]);
}

/* Writers of up to 4096 bytes each must not mix. */
static void atomic_writes(void)
{
    int ends[2];
    check(pipe(ends) == 0, "a pipe");
    for (int writer = 0; writer < 4; writer++) {
        if (fork() == 0) {
            char out[1000];
            memset(out, 'a' + writer, sizeof(out));
            for (int i = 0; i < 100; i++) {
                if (write(ends[1], out, sizeof(out)) != sizeof(out)) {
                    _exit(1);
                }
            }
            _exit(0);
        }
    }
    close(ends[1]);
    static char all[400000];
    size_t total = 0;
    for (ssize_t count; (count = read(ends[0], all + total, sizeof(all) - total)) > 0;) {
        total += (size_t)count;
    }
    size_t mixed = 0;
    for (size_t i = 0; i < total; i++) {
        mixed += all[i] != all[i / 1000 * 1000];
    }
    while (wait(NULL) > 0) {
    }
    printf("total %zu mixed %zu\n", total, mixed);
    close(ends[0]);
}

static void die_of_pipe(void)
{
    int ends[2];
    signal(SIGPIPE, SIG_DFL);
    if (pipe(ends) == 0) {
        close(ends[0]);
        write(ends[1], "x", 1);
    }
}

static void chain(void)
{
    int first[2], last = -1;
    check(pipe(first) == 0, "a chain of 20");
    last = first[0];
    for (int i = 0; i < 20; i++) {
        int next[2];
        if (pipe(next) != 0) {
            return;
        }
        if (fork() == 0) {
            char byte;
            close(first[1]);
            close(next[0]);
            while (read(last, &byte, 1) == 1) {
                byte++;
                if (write(next[1], &byte, 1) != 1) {
                    _exit(1);
                }
            }
            _exit(0);
        }
        close(last);
        close(next[1]);
        last = next[0];
    }
    char word[6] = "ABCDE";
    check(write(first[1], word, 5) == 5 && close(first[1]) == 0, "into it");
    size_t got = 0;
    for (ssize_t count; got < 5 && (count = read(last, word + got, 5 - got)) > 0;) {
        got += (size_t)count;
    }
    printf("out of it: %s\n", word);
    close(last);
    while (wait(NULL) > 0) {
    }
}

int main(void)
{
    limits();
    polled();
    big_transfer();
    atomic_writes();
    in_child("SIGPIPE", die_of_pipe);
    chain();
    return check_done();
}
