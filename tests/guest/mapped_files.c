/*
 * mapped_files.c - files mapped, read and written at once see the same pages.
 *
 * Goal: one page cache: what goes in by write() is seen by a mapping and back; private mappings
 * keep their own; truncation takes pages away everywhere. Method: one file, several mappings, a
 * child.
 */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define PAGE ((size_t)4096)
#define RW   (PROT_READ | PROT_WRITE)

static void coherent(void)
{
    char byte[16] = {0};
    int fd = open("/tmp/mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
    check(fd >= 0 && ftruncate(fd, 4 * 4096) == 0, "a file");
    char *shared = mmap(NULL, 4 * PAGE, RW, MAP_SHARED, fd, 0);
    char *second = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 4096);
    char *private = mmap(NULL, 4 * PAGE, RW, MAP_PRIVATE, fd, 0);
    check(shared != MAP_FAILED && second != MAP_FAILED && private != MAP_FAILED, "three mappings");
    strcpy(shared + PAGE, "by mapping");
    check(pread(fd, byte, 10, 4096) == 10 && memcmp(byte, "by mapping", 10) == 0,
          "read sees the mapping");
    check(strcmp(second, "by mapping") == 0 && strcmp(private + PAGE, "by mapping") == 0,
          "other mappings see it");
    check(pwrite(fd, "by write!!", 10, 4096) == 10 && memcmp(shared + PAGE, "by write!!", 10) == 0,
          "a mapping sees write");
    strcpy(private + PAGE, "own");
    check(memcmp(shared + PAGE, "by write!!", 10) == 0, "a private write stays private");
    check(pwrite(fd, "again", 5, 4096) == 5 && strcmp(private + PAGE, "own") == 0,
          "and keeps its page");
    check(strcmp(private + 2 * PAGE, "") == 0 && pwrite(fd, "late", 4, 8192) == 4 &&
              strcmp(private + 2 * PAGE, "late") == 0,
          "a private page that was only read is still the file's");
    check(madvise(private + PAGE, PAGE, MADV_DONTNEED) == 0 &&
              memcmp(private + PAGE, "again", 5) == 0,
          "DONTNEED of a private page gives the file's again");
    munmap(shared, 4 * PAGE);
    munmap(second, PAGE);
    munmap(private, 4 * PAGE);
    close(fd);
}

static void with_child(void)
{
    int fd = open("/tmp/mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
    check(ftruncate(fd, 4096) == 0, "a file");
    volatile int *shared = mmap(NULL, PAGE, RW, MAP_SHARED, fd, 0);
    volatile int *anonymous = mmap(NULL, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    volatile int *private = mmap(NULL, PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *private = 1;
    pid_t child = fork();
    if (child == 0) {
        shared[1] = 11;
        anonymous[1] = 22;
        *private = 33;
        _exit(0);
    }
    waitpid(child, NULL, 0);
    check(shared[1] == 11, "a child's write to a shared file");
    check(anonymous[1] == 22, "a child's write to shared anonymous memory");
    check(*private == 1, "a child's write to private memory");
    munmap((void *)shared, PAGE);
    munmap((void *)anonymous, PAGE);
    munmap((void *)private, PAGE);
    close(fd);
}

static void truncation(void)
{
    int fd = open("/tmp/mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
    check(ftruncate(fd, 3 * 4096) == 0, "a file");
    char *shared = mmap(NULL, 3 * PAGE, RW, MAP_SHARED, fd, 0);
    memset(shared, 'x', 3 * PAGE);
    check(ftruncate(fd, 4096 + 100) == 0, "cut in a page");
    check(shared[PAGE + 99] == 'x' && shared[PAGE + 100] == 0, "the rest of the page is zero");
    check(ftruncate(fd, 3 * 4096) == 0 && shared[2 * PAGE] == 0 && shared[PAGE + 4095] == 0,
          "what comes back is zero");
    munmap(shared, 3 * PAGE);
    close(fd);
    unlink("/tmp/mapped");
}

/* The file is gone by name; its pages live as long as the mapping. */
static void unlinked(void)
{
    int fd = open("/tmp/mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
    check(ftruncate(fd, 4096) == 0, "a file");
    char *shared = mmap(NULL, PAGE, RW, MAP_SHARED, fd, 0);
    close(fd);
    unlink("/tmp/mapped");
    strcpy(shared, "alive");
    check(strcmp(shared, "alive") == 0, "a mapping outlives name and descriptor");
    munmap(shared, PAGE);
}

/* read() into a mapping of the same file, and write() out of one. */
static void onto_itself(void)
{
    int fd = open("/tmp/mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
    check(ftruncate(fd, 4 * 4096) == 0 && pwrite(fd, "source", 6, 0) == 6, "a file");
    char *shared = mmap(NULL, 4 * PAGE, RW, MAP_SHARED, fd, 0);
    check(pread(fd, shared + 2 * PAGE, 6, 0) == 6 && memcmp(shared + 2 * PAGE, "source", 6) == 0,
          "read into its own mapping");
    check(pwrite(fd, shared, 4096, 3 * 4096) == 4096 && memcmp(shared + 3 * PAGE, "source", 6) == 0,
          "write out of its own mapping");
    munmap(shared, 4 * PAGE);
    close(fd);
    unlink("/tmp/mapped");
}

static void running_program(void)
{
    int in = open("/bin/hello", O_RDONLY), out = open("/tmp/copy", O_WRONLY | O_CREAT, 0755);
    char buffer[8192];
    for (ssize_t count; (count = read(in, buffer, sizeof(buffer))) > 0;) {
        if (write(out, buffer, (size_t)count) != count) {
            break;
        }
    }
    close(in);
    close(out);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        char *words[] = {"copy", NULL};
        execv("/tmp/copy", words);
        _exit(99);
    }
    int status = 1;
    waitpid(child, &status, 0);
    record_status("a program written just now runs", status);
    unlink("/tmp/copy");
}

int main(void)
{
    coherent();
    with_child();
    truncation();
    unlinked();
    onto_itself();
    running_program();
    return check_done();
}
