/*
 * bad_calls.c - calls that do not exist, bad pointers to those that do, bad descriptors.
 *
 * Goal: EFAULT, EBADF, ENOSYS and the like as on Linux, never a crash of the kernel. Method: each
 * call by number with pointers to nothing, to read-only memory, to the kernel, to where no address
 * is canonical, and to a buffer whose end is not mapped.
 */
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#define PAGE ((size_t)4096)

static char *edge; /* the last bytes before an unmapped page */
static char *read_only;

static void numbers(void)
{
    record("call 100000", syscall(100000));
    record("call -1", syscall(-1));
    record("call 1000", syscall(1000));
    record("call 380", syscall(380));
    record("call 2^31", syscall(0x80000000l));
    record("call with high bits", syscall(0x7fffffff00000000l));
    record("getpid is unharmed", syscall(SYS_getpid) == getpid());
}

static void with_pointer(const char *what, void *bad)
{
    int ends[2], fd = open("/tmp/bad", O_RDWR | O_CREAT | O_TRUNC, 0600);
    check(pipe(ends) == 0 && fd >= 0 && write(ends[1], "0123456789", 10) == 10, what);
    record("write", syscall(SYS_write, fd, bad, 10));
    record("write to a pipe", syscall(SYS_write, ends[1], bad, 10));
    record("read of a pipe", syscall(SYS_read, ends[0], bad, 10));
    record("open", syscall(SYS_open, bad, O_RDONLY));
    record("openat", syscall(SYS_openat, AT_FDCWD, bad, O_RDONLY));
    record("stat path", syscall(SYS_stat, bad, edge - 1000));
    record("stat result", syscall(SYS_stat, "/", bad));
    record("fstat", syscall(SYS_fstat, fd, bad));
    record("newfstatat", syscall(SYS_newfstatat, AT_FDCWD, "/", bad, 0));
    record("pipe", syscall(SYS_pipe, bad));
    record("pipe2", syscall(SYS_pipe2, bad, 0));
    record("getcwd", syscall(SYS_getcwd, bad, 100));
    record("chdir", syscall(SYS_chdir, bad));
    record("mkdir", syscall(SYS_mkdir, bad, 0700));
    record("unlink", syscall(SYS_unlink, bad));
    record("rename", syscall(SYS_rename, bad, bad));
    record("readlink path", syscall(SYS_readlink, bad, edge - 100, 10));
    record("uname", syscall(SYS_uname, bad));
    record("clock_gettime", syscall(SYS_clock_gettime, CLOCK_MONOTONIC, bad));
    record("nanosleep", syscall(SYS_nanosleep, bad, NULL));
    record("rt_sigaction new", syscall(SYS_rt_sigaction, SIGUSR1, bad, NULL, 8));
    record("rt_sigaction old", syscall(SYS_rt_sigaction, SIGUSR1, NULL, bad, 8));
    record("rt_sigprocmask new", syscall(SYS_rt_sigprocmask, 0, bad, NULL, 8));
    record("rt_sigprocmask old", syscall(SYS_rt_sigprocmask, 0, NULL, bad, 8));
    record("sigaltstack", syscall(SYS_sigaltstack, bad, NULL));
    record("execve path", syscall(SYS_execve, bad, NULL, NULL));
    record("execve arguments", syscall(SYS_execve, "/bin/busybox", bad, NULL));
    record("futex", syscall(SYS_futex, bad, 0, 0, NULL, NULL, 0));
    record("poll", syscall(SYS_poll, bad, 1, 0));
    record("writev", syscall(SYS_writev, fd, bad, 1));
    record("readv", syscall(SYS_readv, ends[0], bad, 1));
    record("getdents64", syscall(SYS_getdents64, open("/", O_RDONLY), bad, 4096));
    record("getrandom", syscall(SYS_getrandom, bad, 16, 0));
    record("ioctl", syscall(SYS_ioctl, 1, 0x5401, bad));
    record("setitimer", syscall(SYS_setitimer, 0, bad, NULL));
    record("prlimit64", syscall(SYS_prlimit64, 0, 7, NULL, bad));
    record("getrlimit", syscall(SYS_getrlimit, 7, bad));
    record("sysinfo", syscall(SYS_sysinfo, bad));
    struct iovec vector = {.iov_base = bad, .iov_len = 10};
    record("writev, bad base", syscall(SYS_writev, fd, &vector, 1));
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    record("wait4", syscall(SYS_wait4, child, bad, 0, NULL) == -1 ? -1 : 0);
    close(ends[0]);
    close(ends[1]);
    close(fd);
}

/* A buffer that begins well and ends in nothing. */
static void across_the_edge(void)
{
    int fd = open("/tmp/bad", O_RDWR | O_CREAT | O_TRUNC, 0600);
    int ends[2];
    char byte[64];
    check(pipe(ends) == 0, "across the edge");
    memset(edge - 16, 'x', 16);
    record("write of 16 + 16 bytes to a file", write(fd, edge - 16, 32));
    record("read back", pread(fd, byte, sizeof(byte), 0));
    check(pwrite(fd, "0123456789abcdefghijklmnopqrstuv", 32, 0) == 32, "fill the file");
    record("read of 32 bytes", pread(fd, edge - 16, 32, 0));
    record("name without an end", syscall(SYS_open, edge - 4, O_RDONLY));
    edge[-1] = 0;
    edge[-2] = '/';
    record_good("name up to the edge", syscall(SYS_open, edge - 2, O_RDONLY));
    record("stat across", syscall(SYS_stat, "/", edge - 8));
    close(fd);
    close(ends[0]);
    close(ends[1]);
}

static void descriptors(void)
{
    char byte[8];
    struct stat info;
    record("read of -1", read(-1, byte, 1));
    record("read of 99", read(99, byte, 1));
    record("read of 2^31", read(0x7fffffff, byte, 1));
    record("close of 99", close(99));
    record("fstat of 99", fstat(99, &info));
    record("lseek of 99", lseek(99, 0, SEEK_SET));
    record("dup of 99", dup(99));
    record("dup2 to 2^30", dup2(1, 1 << 30));
    record("dup2 to itself", dup2(1, 1));
    record("fcntl of 99", fcntl(99, F_GETFL));
    record("fcntl unknown", fcntl(1, 12345));
    record("ioctl of 99", syscall(SYS_ioctl, 99, 0x5401, byte));
    record("getdents64 of a file", syscall(SYS_getdents64, 1, byte, sizeof(byte)));
    int fd = open("/tmp/bad", O_RDONLY);
    record("write to a read-only one", write(fd, byte, 1));
    record("ftruncate of a read-only one", ftruncate(fd, 0));
    record("lseek negative", lseek(fd, -1, SEEK_SET));
    record("lseek unknown", lseek(fd, 0, 99));
    record("read length -1", syscall(SYS_read, fd, byte, -1l));
    close(fd);
    fd = open("/tmp/bad", O_WRONLY);
    record("read of a write-only one", read(fd, byte, 1));
    close(fd);
    int ends[2];
    check(pipe(ends) == 0, "a pipe");
    record("lseek of a pipe", lseek(ends[0], 0, SEEK_SET));
    record("pread of a pipe", pread(ends[0], byte, 1, 0));
    record("write to the reading end", write(ends[0], byte, 1));
    record("ftruncate of a pipe", ftruncate(ends[0], 0));
    close(ends[0]);
    close(ends[1]);
    int directory = open("/", O_RDONLY);
    record("read of a directory", read(directory, byte, 1));
    record("open a directory for writing", open("/", O_WRONLY));
    record("pipe2 unknown flags", syscall(SYS_pipe2, ends, 12345));
    close(directory);
    record("poll too many", syscall(SYS_poll, &byte, 1u << 30, 0));
    record("writev too many", syscall(SYS_writev, 1, byte, 100000));
    record("writev negative", syscall(SYS_writev, 1, byte, -1));
}

static void numbers_out_of_range(void)
{
    struct timespec time = {.tv_sec = 0, .tv_nsec = 1000000000};
    struct timespec negative = {.tv_sec = -1, .tv_nsec = 0};
    stack_t small = {.ss_sp = edge - 100, .ss_size = 100};
    sigset_t set;
    sigemptyset(&set);
    record("nanosleep of 10^9 ns", nanosleep(&time, NULL));
    record("nanosleep negative", nanosleep(&negative, NULL));
    record("clock_gettime unknown", syscall(SYS_clock_gettime, 9999, &time));
    record("sigaction of KILL", syscall(SYS_rt_sigaction, SIGKILL, NULL, NULL, 8));
    struct {
        void *handler;
        unsigned long flags;
        void *restorer;
        unsigned long mask;
    } action = {SIG_IGN, 0, NULL, 0};
    record("sigaction of KILL, new", syscall(SYS_rt_sigaction, SIGKILL, &action, NULL, 8));
    record("sigaction of 0", syscall(SYS_rt_sigaction, 0, NULL, NULL, 8));
    record("sigaction of 65", syscall(SYS_rt_sigaction, 65, NULL, NULL, 8));
    record("sigaction, wrong size", syscall(SYS_rt_sigaction, SIGUSR1, NULL, NULL, 4));
    record("sigprocmask, wrong how", syscall(SYS_rt_sigprocmask, 77, &set, NULL, 8));
    record("sigprocmask, wrong size", syscall(SYS_rt_sigprocmask, 0, &set, NULL, 16));
    record("sigaltstack too small", sigaltstack(&small, NULL));
    record("arch_prctl unknown", syscall(SYS_arch_prctl, 12345, 0));
    record("arch_prctl, fs not canonical", syscall(SYS_arch_prctl, 0x1002, 1ul << 63));
    record("futex unknown", syscall(SYS_futex, edge - 8, 99, 0, NULL, NULL, 0));
    record("futex not aligned", syscall(SYS_futex, edge - 7, 0, 0, NULL, NULL, 0));
    record("kill to 2^31", syscall(SYS_kill, 0x7fffffff, 0));
    record("tgkill of -1", syscall(SYS_tgkill, -1, 1, 0));
    record("clone without meaning", syscall(SYS_clone, 0x00010000, 0, 0, 0, 0));
    record("prlimit64 unknown", syscall(SYS_prlimit64, 0, 99, NULL, NULL));
    record("getcwd of 1 byte", syscall(SYS_getcwd, edge - 100, 1));
    record("mincore of the kernel", syscall(SYS_mincore, 0xffff888000000000ul, PAGE, edge - 8));
}

int main(void)
{
    char *pages = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + 2 * PAGE, 2 * PAGE);
    edge = pages + 2 * PAGE;
    read_only = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    numbers();
    with_pointer("null + 8", (void *)8);
    with_pointer("unmapped", edge);
    with_pointer("kernel", (void *)0xffffffff80000000ul);
    with_pointer("kernel, direct map", (void *)0xffff888000000000ul);
    with_pointer("not canonical", (void *)0x8000000000000000ul);
    with_pointer("top of the user's half", (void *)0x7ffffffff000ul);
    with_pointer("last byte", (void *)~0ul);
    record("read into read-only", syscall(SYS_getcwd, read_only, PAGE));
    record("stat into text", syscall(SYS_stat, "/", (void *)(uintptr_t)&main));
    across_the_edge();
    descriptors();
    numbers_out_of_range();
    unlink("/tmp/bad");
    return check_done();
}
