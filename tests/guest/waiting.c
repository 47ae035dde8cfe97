/*
 * waiting.c - files that are waited for, and locks: epoll, eventfd, UNIX pairs, FIFOs, poll of
 * many, fcntl and flock, descriptors at their limits.
 *
 * Goal: as Linux. Method: events and errnos are printed; waits that must end by another's doing are
 * ended by a child.
 */
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static void pause_ms(int ms)
{
    poll(NULL, 0, ms);
}

static void events(void)
{
    uint64_t value = 0;
    int fd = eventfd(3, EFD_NONBLOCK);
    record_good("eventfd", fd);
    record("read", read(fd, &value, 8));
    printf("%lu\n", (unsigned long)value);
    record("read empty", read(fd, &value, 8));
    record("short read", read(fd, &value, 7));
    value = 5;
    record("write", write(fd, &value, 8));
    record("write", write(fd, &value, 8));
    value = UINT64_MAX;
    record("write of all ones", write(fd, &value, 8));
    value = UINT64_MAX - 11;
    record("write to the brim", write(fd, &value, 8));
    value = 1;
    record("beyond", write(fd, &value, 8));
    struct pollfd ready = {fd, POLLIN | POLLOUT, 0};
    record("poll", poll(&ready, 1, 0));
    printf("%x\n", (unsigned)ready.revents);
    record("read", read(fd, &value, 8));
    printf("%lx\n", (unsigned long)value);
    record("poll", poll(&ready, 1, 0));
    printf("%x\n", (unsigned)ready.revents);
    record("lseek", lseek(fd, 0, SEEK_SET));
    close(fd);
    fd = eventfd(2, EFD_SEMAPHORE);
    record("semaphore", read(fd, &value, 8));
    printf("%lu\n", (unsigned long)value);
    record("semaphore", read(fd, &value, 8));
    fflush(stdout);
    if (fork() == 0) {
        pause_ms(50);
        value = 1;
        _exit(write(fd, &value, 8) == 8 ? 0 : 1);
    }
    record("semaphore, waiting", read(fd, &value, 8));
    wait(NULL);
    close(fd);
}

static void show_events(const char *name, int set, int max, int ms)
{
    struct epoll_event found[8];
    int count = epoll_wait(set, found, max, ms);
    record(name, count);
    for (int i = 0; i < count; i++) {
        printf("  %x %d\n", (unsigned)found[i].events, found[i].data.fd);
    }
}

static void sets(void)
{
    int ends[2], other[2];
    check(pipe(ends) == 0 && pipe(other) == 0, "pipes");
    int set = epoll_create1(EPOLL_CLOEXEC);
    record_good("epoll_create1", set);
    struct epoll_event event = {EPOLLIN, {.fd = 1}};
    record("add", epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event));
    record("add again", epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event));
    record("add itself", epoll_ctl(set, EPOLL_CTL_ADD, set, &event));
    record("add a file", epoll_ctl(set, EPOLL_CTL_ADD, open("/", O_RDONLY), &event));
    record("add nothing", epoll_ctl(set, EPOLL_CTL_ADD, 999, &event));
    record("odd", epoll_ctl(set, 9, ends[0], &event));
    record("not a set", epoll_ctl(ends[0], EPOLL_CTL_ADD, ends[1], &event));
    record("modify missing", epoll_ctl(set, EPOLL_CTL_MOD, other[0], &event));
    record("delete missing", epoll_ctl(set, EPOLL_CTL_DEL, other[0], NULL));
    show_events("nothing", set, 8, 0);
    show_events("times out", set, 8, 30);
    event = (struct epoll_event){EPOLLIN | EPOLLONESHOT, {.fd = 2}};
    record("add", epoll_ctl(set, EPOLL_CTL_ADD, other[0], &event));
    check(write(ends[1], "x", 1) == 1 && write(other[1], "y", 1) == 1, "write");
    show_events("one at a time", set, 1, 0);
    show_events("the other", set, 1, 0);
    show_events("one is spent", set, 8, 0);
    record("armed again", epoll_ctl(set, EPOLL_CTL_MOD, other[0], &event));
    int outer = epoll_create1(0);
    event = (struct epoll_event){EPOLLIN, {.fd = 3}};
    record("nested", epoll_ctl(outer, EPOLL_CTL_ADD, set, &event));
    show_events("nested", outer, 8, 0);
    record("circle", epoll_ctl(set, EPOLL_CTL_ADD, outer, &event));
    record("delete", epoll_ctl(set, EPOLL_CTL_DEL, other[0], NULL));
    char byte;
    check(read(ends[0], &byte, 1) == 1, "read");
    show_events("nested, nothing", outer, 8, 0);
    fflush(stdout);
    if (fork() == 0) {
        pause_ms(50);
        _exit(write(ends[1], "z", 1) == 1 ? 0 : 1);
    }
    show_events("nested, woken", outer, 8, 5000);
    wait(NULL);
    close(ends[1]);
    show_events("hang-up", set, 8, 0);
    close(ends[0]);
    show_events("closed", set, 8, 0);
    record("max 0", epoll_wait(set, &event, 0, 0));
    record("bad address", epoll_wait(outer, (void *)8, 1, 0));
    record("create 0", syscall(SYS_epoll_create, 0));
    record("create odd", epoll_create1(1));
}

static void pairs(void)
{
    int ends[2];
    char text[100] = "";
    record("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    record("there", write(ends[0], "there", 5));
    record("back", write(ends[1], "back", 4));
    record("read", read(ends[1], text, 100));
    printf("%.5s\n", text);
    record("read", read(ends[0], text, 100));
    printf("%.4s\n", text);
    struct stat info;
    fstat(ends[0], &info);
    printf("%o\n", (unsigned)info.st_mode & S_IFMT);
    record("lseek", lseek(ends[0], 0, SEEK_SET));
    struct pollfd ready = {ends[0], POLLIN | POLLOUT | POLLRDHUP, 0};
    record("poll", poll(&ready, 1, 0));
    printf("%x\n", (unsigned)ready.revents);
    record("nonblock", fcntl(ends[0], F_SETFL, O_NONBLOCK));
    record("nothing", read(ends[0], text, 1));
    record("late", write(ends[1], "late", 4));
    close(ends[1]);
    record("poll", poll(&ready, 1, 0));
    printf("%x\n", (unsigned)ready.revents);
    record("what came before", read(ends[0], text, 100));
    record("then the end", read(ends[0], text, 100));
    signal(SIGPIPE, SIG_IGN);
    record("nobody reads", write(ends[0], "x", 1));
    close(ends[0]);
    record("odd family", socketpair(AF_INET, SOCK_STREAM, 0, ends) == -1 ? 0 : -2);
    record("bad address", syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, 8));
}

static void fifos(void)
{
    char text[10];
    unlink("/tmp/waiting-fifo");
    record("mkfifo", mkfifo("/tmp/waiting-fifo", 0600));
    fflush(stdout);
    if (fork() == 0) {
        int fd = open("/tmp/waiting-fifo", O_WRONLY);
        pause_ms(30);
        _exit(write(fd, "fifo", 4) == 4 ? 0 : 1);
    }
    int fd = open("/tmp/waiting-fifo", O_RDONLY);
    record("read waits for the writer", read(fd, text, 10));
    record("and sees its end", read(fd, text, 10));
    wait(NULL);
    struct pollfd ready = {fd, POLLIN, 0};
    record("poll", poll(&ready, 1, 0));
    printf("%x\n", (unsigned)ready.revents);
    int reader = open("/tmp/waiting-fifo", O_RDONLY | O_NONBLOCK);
    close(fd);
    close(reader);
    reader = open("/tmp/waiting-fifo", O_RDONLY | O_NONBLOCK);
    ready.fd = reader;
    record("no writer yet", poll(&ready, 1, 0));
    record("read", read(reader, text, 1));
    int both = open("/tmp/waiting-fifo", O_RDWR);
    record("read, a writer", read(reader, text, 1));
    record("F_GETPIPE_SZ", fcntl(both, F_GETPIPE_SZ));
    record("F_SETPIPE_SZ", fcntl(both, F_SETPIPE_SZ, 5000));
    char big[20000];
    fcntl(both, F_SETFL, O_NONBLOCK);
    record("fill", write(both, big, sizeof(big)));
    record("grow", fcntl(both, F_SETPIPE_SZ, 65536));
    record("fill", write(both, big, sizeof(big)));
    record("shrink", fcntl(both, F_SETPIPE_SZ, 4096));
    int held = -1;
    record("FIONREAD", ioctl(reader, FIONREAD, &held));
    printf("%d\n", held);
}

static void many(void)
{
    struct pollfd fds[200];
    int ends[200][2];
    for (int i = 0; i < 200; i++) {
        if (pipe(ends[i]) != 0) {
            check(false, "many pipes");
        }
        fds[i] = (struct pollfd){ends[i][0], POLLIN, 0};
    }
    record("nothing", poll(fds, 200, 10));
    fflush(stdout);
    if (fork() == 0) {
        pause_ms(40);
        _exit(write(ends[187][1], "x", 1) == 1 ? 0 : 1);
    }
    record("one of them", poll(fds, 200, 5000));
    printf("%x\n", (unsigned)fds[187].revents);
    wait(NULL);
    for (int i = 0; i < 200; i++) {
        close(ends[i][0]);
        close(ends[i][1]);
    }
    record("closed ones", poll(fds, 3, 0));
    printf("%x\n", (unsigned)fds[2].revents);
    record("too many", poll(fds, 100000, 0));
    record("bad address", poll((void *)8, 1, 0));
}

static long lock(int fd, int command, int type, long start, long len)
{
    struct flock range = {
        .l_type = (short)type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
    long result = fcntl(fd, command, &range);
    if (command == F_GETLK && result == 0) {
        printf("  type %d start %ld len %ld other %d\n", range.l_type, (long)range.l_start,
               (long)range.l_len, range.l_pid != getpid() && range.l_pid != 0);
    }
    return result;
}

static void locks(void)
{
    int fd = open("/tmp/waiting-lock", O_RDWR | O_CREAT, 0600);
    record("write lock", lock(fd, F_SETLK, F_WRLCK, 0, 100));
    record("own again", lock(fd, F_SETLK, F_RDLCK, 10, 20));
    record("test own", lock(fd, F_GETLK, F_WRLCK, 0, 0));
    fflush(stdout);
    if (fork() == 0) {
        record("other's write", lock(fd, F_SETLK, F_WRLCK, 0, 5));
        record("other's read in read", lock(fd, F_SETLK, F_RDLCK, 12, 5));
        record("other's read in write", lock(fd, F_SETLK, F_RDLCK, 5, 10));
        record("test", lock(fd, F_GETLK, F_WRLCK, 0, 0));
        record("test", lock(fd, F_GETLK, F_WRLCK, 15, 1));
        record("beyond", lock(fd, F_SETLK, F_WRLCK, 100, 0));
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    record("the other's went", lock(fd, F_SETLK, F_WRLCK, 0, 0));
    fflush(stdout);
    if (fork() == 0) {
        int mine = open("/tmp/waiting-lock", O_RDWR);
        long result = lock(mine, F_SETLKW, F_WRLCK, 50, 10);
        pause_ms(50); /* for the parent to say what it has to */
        record("waits", result);
        fflush(stdout);
        _exit(0);
    }
    pause_ms(50);
    printf("unlocking\n");
    fflush(stdout);
    record("part", lock(fd, F_SETLK, F_UNLCK, 40, 40));
    wait(NULL);
    int twin = open("/tmp/waiting-lock", O_RDWR);
    close(twin);
    fflush(stdout);
    if (fork() == 0) {
        record("closing any descriptor unlocks", lock(fd, F_SETLK, F_WRLCK, 0, 5));
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    record("read lock on write-only",
           lock(open("/tmp/waiting-lock", O_WRONLY), F_SETLK, F_RDLCK, 0, 1));
    record("odd type", lock(fd, F_SETLK, 7, 0, 1));
    record("negative", lock(fd, F_SETLK, F_RDLCK, -1, 1));
    record("backwards", lock(fd, F_SETLK, F_RDLCK, 10, -5));
    record("too far backwards", lock(fd, F_SETLK, F_RDLCK, 1, -5));
    record("flock", flock(fd, LOCK_EX));
    int second = open("/tmp/waiting-lock", O_RDWR);
    record("flock of another", flock(second, LOCK_SH | LOCK_NB));
    record("of its twin", flock(dup(fd), LOCK_SH | LOCK_NB));
    record("shared", flock(second, LOCK_SH | LOCK_NB));
    record("upgrade", flock(second, LOCK_EX | LOCK_NB));
    record("unlock", flock(fd, LOCK_UN));
    record("upgrade", flock(second, LOCK_EX | LOCK_NB));
    record("odd", flock(fd, 77));
}

static void *close_later(void *arg)
{
    pause_ms(30);
    close(*(int *)arg);
    return NULL;
}

static void descriptors(void)
{
    struct rlimit limit = {20, 20};
    int ends[2];
    fflush(stdout);
    if (fork() == 0) {
        for (int i = 3; i < 1024; i++) {
            close(i);
        }
        setrlimit(RLIMIT_NOFILE, &limit);
        int fd = -1, last = -1;
        while ((fd = open("/", O_RDONLY)) >= 0) {
            last = fd;
        }
        record("open", fd);
        printf("last %d\n", last);
        record("dup2 to the limit", dup2(0, 20));
        record("F_DUPFD at the limit", fcntl(0, F_DUPFD, 20));
        record("pipe", pipe(ends));
        close(7);
        record("pipe, one left", pipe(ends));
        record("the one", dup(0));
        record("dup3 same", dup3(5, 5, 0));
        record("dup3 odd", dup3(5, 6, 1));
        record("dup2 same", dup2(5, 5));
        record("dup2 of closed", dup2(19, 5) == 5 ? 0 : -1);
        record("close_range", syscall(SYS_close_range, 5, ~0u, 0));
        record("closed", fcntl(6, F_GETFD));
        record("close_range cloexec", syscall(SYS_close_range, 3, 4, 4));
        record("marked", fcntl(4, F_GETFD));
        record("close_range backwards", syscall(SYS_close_range, 5, 3, 0));
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    int big = fcntl(0, F_DUPFD, 900);
    record("a high one", big);
    record("close", close(big));
    record("close again", close(big));
    check(pipe(ends) == 0, "pipe");
    pthread_t thread;
    pthread_create(&thread, NULL, close_later, &ends[1]);
    char byte;
    record("read until the end is closed by another thread", read(ends[0], &byte, 1));
    pthread_join(thread, NULL);
}

int main(void)
{
    mkdir("/tmp", 01777);
    events();
    sets();
    pairs();
    fifos();
    many();
    locks();
    descriptors();
    return check_done();
}
