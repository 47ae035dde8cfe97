/*
 * transfers.c - reads and writes at their edges: bad addresses, vectors, offsets, holes, appends,
 * truncation, allocation, copies from file to file, sizes, times, modes.
 *
 * Goal: each count and each errno as on Linux. Method: files below /tmp/transfers; results printed.
 */
#include "check.h"
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>

static char buffer[1 << 16];

static int fresh(const char *name, int flags)
{
    unlink(name);
    int fd = open(name, O_CREAT | flags, 0644);
    check(fd >= 0, name);
    return fd;
}

static long size_of(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 ? (long)info.st_size : -1;
}

/* Two pages, the second of which cannot be touched: the address of the last good byte. */
static char *edge(void)
{
    char *at = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(at + 4096, 4096, PROT_NONE);
    return at + 4095;
}

static void addresses(void)
{
    int fd = fresh("a", O_RDWR);
    char *last = edge();
    memset(last - 4095, 'e', 4096);
    record("write over the edge", write(fd, last - 99, 200));
    record("size", size_of(fd));
    record("write from nowhere", write(fd, (void *)8, 10));
    record("write of nothing from nowhere", write(fd, (void *)8, 0));
    record("write from the kernel", write(fd, (void *)0xffffffff80000000ul, 10));
    record("write of too much", write(fd, buffer, (size_t)-1));
    record("write of half of everything", write(fd, buffer, SSIZE_MAX));
    record("pread over the edge", pread(fd, last - 49, 100, 0));
    record("pread to nowhere", pread(fd, (void *)8, 10, 0));
    record("pread at the end", pread(fd, (void *)8, 10, 100000));
    record("pread negative", pread(fd, buffer, 10, -1));
    record("pwrite negative", pwrite(fd, buffer, 10, -1));
    record("read of 0", read(fd, NULL, 0));
    struct iovec vector[4] = {{last - 9, 10}, {NULL, 0}, {last - 9, 10}, {(void *)8, 5}};
    record("writev", writev(fd, vector, 4));
    record("writev, bad first", writev(fd, vector + 3, 1));
    record("writev, none", writev(fd, vector, 0));
    record("writev, negative", writev(fd, vector, -1));
    record("writev, many", writev(fd, vector, 1025));
    record("writev, bad array", writev(fd, (void *)8, 1));
    vector[1].iov_base = last;
    vector[1].iov_len = (size_t)-1;
    record("writev, bad length", writev(fd, vector, 2));
    struct iovec nine[9];
    for (int i = 0; i < 9; i++) {
        nine[i] = (struct iovec){buffer + i, 1};
    }
    record("readv of nine", preadv(fd, nine, 9, 0));
    record("preadv negative", preadv(fd, nine, 9, -1));
    record("read of write-only", read(open("a", O_WRONLY), buffer, 1));
    record("write of read-only", write(open("a", O_RDONLY), buffer, 1));
    record("both bits", read(open("a", O_ACCMODE), buffer, 1));
}

static void positions(void)
{
    int fd = fresh("p", O_RDWR);
    record("seek beyond", lseek(fd, 10000, SEEK_SET));
    record("write there", write(fd, "x", 1));
    record("size", size_of(fd));
    record("from the end", lseek(fd, -1, SEEK_END));
    record("from here", lseek(fd, 5, SEEK_CUR));
    record("before the start", lseek(fd, -1, SEEK_SET));
    record("odd", lseek(fd, 0, 9));
    record("far", lseek(fd, LONG_MAX, SEEK_SET));
    record("too far", lseek(fd, 1, SEEK_CUR));
    record("read there", read(fd, buffer, 1));
    record("write there", write(fd, buffer, 1));
    record("data", lseek(fd, 0, SEEK_DATA));
    record("hole", lseek(fd, 0, SEEK_HOLE));
    record("hole in data", lseek(fd, 8192, SEEK_HOLE));
    record("data in data", lseek(fd, 8200, SEEK_DATA));
    record("data at the end", lseek(fd, 10001, SEEK_DATA));
    record("pread of the hole", pread(fd, buffer, 4096, 0));
    printf("%d %d\n", buffer[0], buffer[4095]);
    struct stat info;
    fstat(fd, &info);
    printf("blocks %ld\n", (long)info.st_blocks);
    int twin = dup(fd);
    lseek(fd, 3, SEEK_SET);
    record("shared position", lseek(twin, 0, SEEK_CUR));
    int ends[2];
    check(pipe(ends) == 0, "pipe");
    record("seek of a pipe", lseek(ends[0], 0, SEEK_SET));
    record("pread of a pipe", pread(ends[0], buffer, 1, 0));
    record("preadv of a pipe", preadv(ends[0], &(struct iovec){buffer, 1}, 1, 0));
    record("ftruncate of a pipe", ftruncate(ends[1], 0));
    record("fsync of a pipe", fsync(ends[1]));
    record("seek of null", lseek(open("/dev/null", O_RDONLY), 5, SEEK_SET));
}

static void appending(void)
{
    int fd = fresh("q", O_RDWR | O_APPEND);
    int other = open("q", O_RDWR);
    record("append", write(fd, "one", 3));
    record("other", write(other, "ONETWO", 6));
    record("append", write(fd, "three", 5));
    record("position", lseek(fd, 0, SEEK_CUR));
    record("pwrite appends", pwrite(fd, "!", 1, 0));
    record("size", size_of(fd));
    record("F_SETFL", fcntl(other, F_SETFL, O_APPEND | O_NONBLOCK));
    record("F_GETFL", fcntl(other, F_GETFL));
    record("append too", write(other, "!", 1));
    record("size", size_of(fd));
    record("pread", pread(fd, buffer, 100, 0));
    printf("%.13s\n", buffer);
    record("sendfile to append", sendfile(other, fd, &(off_t){0}, 3));
}

static void sizes(void)
{
    int fd = fresh("s", O_RDWR);
    memset(buffer, 's', sizeof(buffer));
    record("write", write(fd, buffer, 10000));
    record("cut", ftruncate(fd, 5000));
    record("grow", ftruncate(fd, 10000));
    record("read", pread(fd, buffer, 10000, 0));
    printf("%d %d %d\n", buffer[4999], buffer[5000], buffer[9999]);
    record("negative", ftruncate(fd, -1));
    record("read-only", ftruncate(open("s", O_RDONLY), 0));
    record("by path", truncate("s", 3));
    record("size", size_of(fd));
    record("of a directory", truncate(".", 0));
    record("missing", truncate("missing", 0));
    record("huge", ftruncate(fd, 1L << 50));
    record("size", size_of(fd));
    record("O_TRUNC", open("s", O_RDONLY | O_TRUNC) >= 0 ? 0 : -1);
    record("size", size_of(fd));
    record("fallocate", fallocate(fd, 0, 0, 9000));
    record("size", size_of(fd));
    record("keep size", fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 20000));
    record("size", size_of(fd));
    record("fallocate 0", fallocate(fd, 0, 0, 0));
    record("fallocate negative", fallocate(fd, 0, -1, 1));
    record("fallocate odd", fallocate(fd, 0x1000, 0, 1));
    record("punch", fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, 4096));
    memset(buffer, 'p', 9000);
    record("pwrite", pwrite(fd, buffer, 9000, 0));
    record("punch", fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 100, 8000));
    record("read", pread(fd, buffer, 9000, 0));
    printf("%d %d %d %d\n", buffer[99], buffer[100], buffer[8099], buffer[8100]);
    record("hole", lseek(fd, 0, SEEK_HOLE));
    record("read-only", fallocate(open("s", O_RDONLY), 0, 0, 1));
    int ends[2];
    check(pipe(ends) == 0, "pipe");
    record("of a pipe", fallocate(ends[1], 0, 0, 1));
    struct rlimit limit = {100, 100};
    signal(SIGXFSZ, SIG_IGN);
    if (fork() == 0) {
        int small = fresh("small", O_RDWR);
        setrlimit(RLIMIT_FSIZE, &limit);
        record("limited write", write(small, buffer, 150));
        record("at the limit", write(small, buffer, 1));
        record("limited truncate", ftruncate(small, 101));
        record("limited allocate", fallocate(small, 0, 0, 101));
        _exit(0);
    }
    wait(NULL);
}

static void copies(void)
{
    int in = fresh("in", O_RDWR);
    int out = fresh("out", O_RDWR);
    int ends[2];
    off_t at = 10;
    for (size_t i = 0; i < sizeof(buffer); i++) {
        buffer[i] = (char)(i * 7);
    }
    record("write", write(in, buffer, 50000));
    record("sendfile", sendfile(out, in, &at, 30000));
    printf("at %ld\n", (long)at);
    record("position of in", lseek(in, 0, SEEK_CUR));
    record("position of out", lseek(out, 0, SEEK_CUR));
    char back[30000];
    check(pread(out, back, sizeof(back), 0) == 30000 && memcmp(back, buffer + 10, 30000) == 0,
          "the same bytes");
    lseek(in, 49990, SEEK_SET);
    record("to the end", sendfile(out, in, NULL, 1000));
    record("at the end", sendfile(out, in, NULL, 1000));
    check(pipe(ends) == 0, "pipe");
    record("from a pipe", sendfile(out, ends[0], NULL, 10));
    at = 0;
    record("to a pipe", sendfile(ends[1], in, &at, 10));
    at = -1;
    record("negative", sendfile(out, in, &at, 10));
    loff_t from = 0, to = 100;
    record("copy_file_range", syscall(SYS_copy_file_range, in, &from, out, &to, 5000, 0));
    printf("%ld %ld\n", (long)from, (long)to);
    record("overlapping", syscall(SYS_copy_file_range, in, &(loff_t){0}, in, &(loff_t){10}, 50, 0));
    record("flags", syscall(SYS_copy_file_range, in, NULL, out, NULL, 50, 1));
    record("from a pipe", syscall(SYS_copy_file_range, ends[0], NULL, out, NULL, 50, 0));
    record("to read-only",
           syscall(SYS_copy_file_range, in, NULL, open("out", O_RDONLY), NULL, 5, 0));
}

static void attributes(void)
{
    int fd = fresh("t", O_RDWR);
    struct stat info;
    struct timespec times[2] = {{1000, 5}, {2000, 7}};
    record("futimens", futimens(fd, times));
    fstat(fd, &info);
    printf("%ld.%ld %ld.%ld\n", (long)info.st_atim.tv_sec, info.st_atim.tv_nsec,
           (long)info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
    times[0].tv_nsec = UTIME_OMIT;
    times[1].tv_nsec = UTIME_NOW;
    record("omit, now", utimensat(AT_FDCWD, "t", times, 0));
    fstat(fd, &info);
    printf("%ld %d\n", (long)info.st_atim.tv_sec, info.st_mtim.tv_sec > 2000);
    times[1].tv_nsec = 1000000000;
    record("too many ns", utimensat(AT_FDCWD, "t", times, 0));
    record("missing", utimensat(AT_FDCWD, "missing", NULL, 0));
    record("odd flag", utimensat(AT_FDCWD, "t", NULL, 1));
    record("utimes", utimes("t", (struct timeval[2]){{5, 6}, {7, 8}}));
    fstat(fd, &info);
    printf("%ld.%ld\n", (long)info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
    record("write", write(fd, "x", 1));
    struct stat after;
    fstat(fd, &after);
    check(after.st_mtim.tv_sec > info.st_mtim.tv_sec, "a write sets the time");
    record("chmod", fchmod(fd, 07777));
    fstat(fd, &info);
    printf("%o\n", (unsigned)info.st_mode);
    record("chown", fchown(fd, 100, 200));
    fstat(fd, &info);
    printf("%o %u %u\n", (unsigned)info.st_mode, info.st_uid, info.st_gid);
    record("chown of nothing", fchown(fd, (uid_t)-1, (gid_t)-1));
    symlink("t", "tl");
    record("lchown", lchown("tl", 5, 6));
    lstat("tl", &info);
    printf("%u %u\n", info.st_uid, info.st_gid);
    record("access 8", access("t", 8));
    if (fork() == 0) {
        chmod("t", 0640);
        if (setgid(1000) != 0 || setuid(1000) != 0) {
            _exit(1);
        }
        record("other reads", open("t", O_RDONLY));
        record("other chmods", chmod("t", 0777));
        record("other chowns", chown("t", 1000, 1000));
        record("other touches", utimensat(AT_FDCWD, "t", NULL, 0));
        record("other sets times", utimensat(AT_FDCWD, "t", times, 0));
        record("other unlinks", unlink("t"));
        record("other creates", open("new", O_WRONLY | O_CREAT, 0600));
        record("other mknods", mknod("null", S_IFCHR | 0600, 1 << 8 | 3));
        record("other chroots", chroot("."));
        record("access", access("t", R_OK));
        record("sticky", unlink("/tmp/sticky"));
        _exit(0);
    }
    wait(NULL);
    umask(077);
    record("umask", umask(022));
    mkdir("setgid", 0755);
    chown("setgid", 0, 77);
    chmod("setgid", 02755);
    close(open("setgid/file", O_CREAT | O_WRONLY, 0600));
    mkdir("setgid/dir", 0700);
    stat("setgid/file", &info);
    printf("%o %u\n", (unsigned)info.st_mode, info.st_gid);
    stat("setgid/dir", &info);
    printf("%o %u\n", (unsigned)info.st_mode, info.st_gid);
}

static void devices(void)
{
    int zero = open("/dev/zero", O_RDWR);
    int full = open("/dev/full", O_RDWR);
    memset(buffer, 1, 100);
    record("zero", read(zero, buffer, 100));
    printf("%d\n", buffer[99]);
    record("write zero", write(zero, buffer, 100));
    record("full", read(full, buffer, 10));
    record("write full", write(full, buffer, 10));
    record("urandom", read(open("/dev/urandom", O_RDONLY), buffer, 300));
    record("null", read(open("/dev/null", O_RDONLY), buffer, 10));
    char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, zero, 0);
    check(at != MAP_FAILED && at[5] == 0, "mmap of zero");
    at[5] = 1;
    record("zero to nowhere", read(zero, (void *)8, 10));
    record("mmap of null",
           (long)mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, open("/dev/null", O_RDWR), 0));
    record("ioctl of zero", syscall(SYS_ioctl, zero, 0x5401, buffer));
    record("ioctl of a file", syscall(SYS_ioctl, open("t", O_RDONLY), 0x5401, buffer));
    record("/dev/tty without one", setsid() > 0 ? open("/dev/tty", O_RDWR) : -2);
}

int main(void)
{
    umask(022);
    mkdir("/tmp", 01777);
    close(open("/tmp/sticky", O_CREAT | O_WRONLY, 0600));
    chmod("/tmp", 01777);
    mkdir("/tmp/transfers", 0755);
    check(chdir("/tmp/transfers") == 0, "chdir");
    addresses();
    positions();
    appending();
    sizes();
    copies();
    attributes();
    if (fork() == 0) {
        devices();
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    return check_done();
}
