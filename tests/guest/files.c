/*
 * files.c - the file system's calls: names, directories, links, holes, times, and their errors.
 *
 * Goal: each as Linux has it on a file system in memory. Method: a tree below /tmp/files; results
 * are printed.
 */
#include "check.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>

static void touch(const char *name)
{
    int fd = open(name, O_WRONLY | O_CREAT, 0644);
    check(fd >= 0 && close(fd) == 0, name);
}

static void opening(void)
{
    record("open missing", open("missing", O_RDONLY));
    record_good("create", open("a", O_RDWR | O_CREAT, 0640));
    record("create, exclusive", open("a", O_RDWR | O_CREAT | O_EXCL, 0640));
    record("open below a file", open("a/b", O_RDONLY));
    record("open with a slash", open("a/", O_RDONLY));
    record("directory wanted", open("a", O_RDONLY | O_DIRECTORY));
    record("empty name", open("", O_RDONLY));
    char name[5000];
    memset(name, 'n', sizeof(name));
    name[256] = 0;
    record("name of 256", open(name, O_WRONLY | O_CREAT, 0600));
    name[255] = 0;
    record_good("name of 255", open(name, O_WRONLY | O_CREAT, 0600));
    record("and away", unlink(name));
    memset(name, '/', sizeof(name));
    name[4999] = 0;
    record("path of 4999", open(name, O_RDONLY));
    struct stat info;
    stat("a", &info);
    printf("mode %o links %lu size %ld\n", (unsigned)info.st_mode, (unsigned long)info.st_nlink,
           (long)info.st_size);
    record("access", access("a", R_OK | W_OK));
    record("access to execute", access("a", X_OK));
    record("access missing", access("missing", F_OK));
    record("chmod", chmod("a", 04711));
    stat("a", &info);
    printf("mode %o\n", (unsigned)info.st_mode);
}

static void directories(void)
{
    record("mkdir", mkdir("d", 0755));
    record("mkdir again", mkdir("d", 0755));
    record("mkdir below missing", mkdir("missing/d", 0755));
    record("mkdir below a file", mkdir("a/d", 0755));
    record("mkdir with a slash", mkdir("e/", 0755));
    record("rmdir of a file", rmdir("a"));
    touch("d/f");
    record("rmdir, not empty", rmdir("d"));
    record("rmdir of .", rmdir("d/."));
    record("rmdir of ..", rmdir("d/.."));
    record("unlink of a directory", unlink("d"));
    record("unlink missing", unlink("missing"));
    struct stat info;
    stat("d", &info);
    printf("links of a directory: %lu\n", (unsigned long)info.st_nlink);
    mkdir("d/g", 0755);
    stat("d", &info);
    printf("with one inside: %lu\n", (unsigned long)info.st_nlink);
    record("rmdir", rmdir("d/g"));
    record("chdir to a file", chdir("a"));
    record("chdir", chdir("d"));
    char where[100];
    printf("cwd %s\n", getcwd(where, sizeof(where)));
    record("chdir up", chdir(".."));
    int fd = open("d", O_RDONLY | O_DIRECTORY);
    record("fchdir", fchdir(fd));
    record("openat", openat(fd, "f", O_RDONLY) >= 0 ? 0 : -1);
    record("back", chdir("/tmp/files"));
    close(fd);
    mkdir("gone", 0755);
    chdir("gone");
    rmdir("/tmp/files/gone");
    record("getcwd of what is gone", syscall(SYS_getcwd, where, sizeof(where)));
    record("create in what is gone", open("x", O_CREAT | O_WRONLY, 0600));
    record("leave", chdir("/tmp/files"));
}

static int compare(const void *one, const void *two)
{
    return strcmp(one, two);
}

/* Reads a directory while entries are removed: each that stays is seen once. */
static void listing(void)
{
    char name[32];
    static char names[400][16];
    mkdir("many", 0755);
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof(name), "many/f%03d", i);
        close(open(name, O_WRONLY | O_CREAT, 0600));
    }
    size_t count = 0;
    DIR *dir = opendir("many");
    for (struct dirent *entry; (entry = readdir(dir)) && count < 400;) {
        snprintf(names[count++], sizeof(names[0]), "%.15s", entry->d_name);
    }
    qsort(names, count, sizeof(names[0]), compare);
    int doubles = 0;
    for (size_t i = 1; i < count; i++) {
        doubles += strcmp(names[i], names[i - 1]) == 0;
    }
    printf("entries %zu doubles %d first %s last %s\n", count, doubles, names[0], names[count - 1]);
    rewinddir(dir);
    int removed = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == 'f') {
            snprintf(name, sizeof(name), "many/%.15s", entry->d_name);
            removed += unlink(name) == 0;
        }
    }
    closedir(dir);
    printf("removed while reading: %d\n", removed);
    record("then it is empty", rmdir("many"));
    char buffer[64];
    int fd = open("d", O_RDONLY);
    record("getdents64, too small", syscall(SYS_getdents64, fd, buffer, 10));
    close(fd);
}

static void renaming(void)
{
    struct stat one, two;
    touch("r1");
    touch("r2");
    stat("r1", &one);
    record("rename over a file", rename("r1", "r2"));
    stat("r2", &two);
    check(one.st_ino == two.st_ino, "it is the same file");
    record("rename missing", rename("r1", "r3"));
    mkdir("rd", 0755);
    mkdir("rd/inner", 0755);
    mkdir("re", 0755);
    record("rename file over directory", rename("r2", "rd"));
    record("rename directory over file", rename("rd", "r2"));
    record("rename over a directory that is not empty", rename("re", "rd"));
    record("rename over an empty directory", rename("rd", "re"));
    record("rename into itself", rename("re", "re/inner/x"));
    record("rename to itself", rename("r2", "r2"));
    record("rename of .", rename("re/.", "rf"));
    record("into another directory", rename("r2", "re/inner/r2"));
    record("it is there", access("re/inner/r2", F_OK));
    record("renameat2, no replace", syscall(SYS_renameat2, AT_FDCWD, "a", AT_FDCWD, "re", 1));
    unlink("re/inner/r2");
    rmdir("re/inner");
    record("clean", rmdir("re"));
}

static void links(void)
{
    struct stat info;
    char text[100] = {0};
    record("link", link("a", "hard"));
    stat("hard", &info);
    printf("links %lu\n", (unsigned long)info.st_nlink);
    record("link of a directory", link("d", "dd"));
    record("link over another", link("a", "hard"));
    record("symlink", symlink("a", "soft"));
    record("symlink again", symlink("a", "soft"));
    record("readlink", readlink("soft", text, sizeof(text)));
    record("readlink, short", readlink("soft", text, 0));
    record("readlink of a file", readlink("a", text, sizeof(text)));
    lstat("soft", &info);
    printf("mode %o size %ld\n", (unsigned)info.st_mode, (long)info.st_size);
    record("not followed", open("soft", O_RDONLY | O_NOFOLLOW));
    record("dangling", symlink("nothing", "dangling"));
    record("open dangling", open("dangling", O_RDONLY));
    record("exclusive over dangling", open("dangling", O_CREAT | O_EXCL | O_WRONLY, 0600));
    record_good("create through dangling", open("dangling", O_CREAT | O_WRONLY, 0600));
    record("it made", unlink("nothing"));
    symlink("loop2", "loop1");
    symlink("loop1", "loop2");
    record("loop", open("loop1", O_RDONLY));
    record("unlink a loop", unlink("loop1"));
    symlink("d", "to-d");
    record("through a link to a directory", access("to-d/f", F_OK));
    record("rmdir of a link", rmdir("to-d"));
    const char *names[] = {"hard", "soft", "dangling", "loop2", "to-d"};
    for (size_t i = 0; i < 5; i++) {
        check(unlink(names[i]) == 0, names[i]);
    }
}

static void contents(void)
{
    char byte[32] = {0};
    struct stat info;
    int fd = open("c", O_RDWR | O_CREAT | O_TRUNC, 0600);
    record("write", write(fd, "hello", 5));
    record("pwrite far", pwrite(fd, "end", 3, 100000));
    fstat(fd, &info);
    printf("size %ld\n", (long)info.st_size);
    record("pread of a hole", pread(fd, byte, 4, 50000));
    check(byte[0] == 0 && byte[3] == 0, "a hole reads zero");
    record("pread at the end", pread(fd, byte, 10, 99998));
    check(memcmp(byte, "\0\0end", 5) == 0, "what was written");
    record("pread beyond", pread(fd, byte, 10, 200000));
    record("lseek", lseek(fd, -3, SEEK_END));
    record("read", read(fd, byte, 10));
    record("lseek beyond", lseek(fd, 1 << 30, SEEK_SET));
    record("read there", read(fd, byte, 1));
    record("truncate", ftruncate(fd, 3));
    record("and grow", ftruncate(fd, 10));
    record("pread", pread(fd, byte, 32, 0));
    check(memcmp(byte, "hel\0\0\0\0\0\0\0", 10) == 0, "what was cut off reads zero");
    record("truncate negative", ftruncate(fd, -1));
    int append = open("c", O_WRONLY | O_APPEND);
    record("append", write(append, "x", 1));
    record("position", lseek(append, 0, SEEK_CUR));
    struct iovec vector[3] = {{"one", 3}, {NULL, 0}, {"three", 5}};
    record("writev", writev(append, vector, 3));
    fstat(fd, &info);
    printf("size %ld\n", (long)info.st_size);
    int copy = dup(fd);
    lseek(fd, 2, SEEK_SET);
    record("a duplicate shares the position", lseek(copy, 0, SEEK_CUR));
    record("F_GETFL", fcntl(append, F_GETFL) & (O_ACCMODE | O_APPEND));
    record("F_DUPFD", fcntl(fd, F_DUPFD, 100));
    record("F_SETFD", fcntl(100, F_SETFD, FD_CLOEXEC));
    record("F_GETFD", fcntl(100, F_GETFD));
    record("unlink while open", unlink("c"));
    record("still readable", pread(fd, byte, 3, 0));
    fstat(fd, &info);
    printf("links %lu\n", (unsigned long)info.st_nlink);
    close(fd);
    close(copy);
    close(append);
    close(100);
}

static void times_and_others(void)
{
    struct timespec times[2] = {{1000000000, 5}, {1234567890, 987654321}};
    struct stat info;
    record("utimensat", utimensat(AT_FDCWD, "a", times, 0));
    stat("a", &info);
    printf("times %ld %ld.%ld\n", (long)info.st_atime, (long)info.st_mtime,
           (long)info.st_mtim.tv_nsec);
    record("utimensat missing", utimensat(AT_FDCWD, "missing", times, 0));
    record("mkfifo", mkfifo("fifo", 0600));
    stat("fifo", &info);
    printf("mode %o\n", (unsigned)info.st_mode);
    record("not blocking, nobody reads", open("fifo", O_WRONLY | O_NONBLOCK));
    record("away", unlink("fifo"));
    printf("umask %o\n", (unsigned)umask(027));
    close(open("m", O_CREAT | O_WRONLY, 0666));
    stat("m", &info);
    printf("mode %o, umask %o\n", (unsigned)info.st_mode, (unsigned)umask(022));
    record("away", unlink("m"));
    stat("/dev/null", &info);
    printf("/dev/null %o %lx\n", (unsigned)(info.st_mode & S_IFMT), (unsigned long)info.st_rdev);
    char byte[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    int fd = open("/dev/zero", O_RDWR);
    record("read of /dev/zero", read(fd, byte, 8));
    check(byte[7] == 0, "zeros");
    close(fd);
    fd = open("/dev/null", O_RDWR);
    record("read of /dev/null", read(fd, byte, 8));
    record("write to /dev/null", write(fd, byte, 8));
    close(fd);
    struct statfs fs;
    record("statfs", statfs("/tmp", &fs));
}

int main(void)
{
    umask(022);
    mkdir("/tmp/files", 0755);
    chdir("/tmp/files");
    opening();
    directories();
    listing();
    renaming();
    links();
    contents();
    times_and_others();
    unlink("a");
    unlink("d/f");
    rmdir("d");
    rmdir("e");
    chdir("/");
    record("all is clean", rmdir("/tmp/files"));
    return check_done();
}
