/*
 * names.c - names at their edges: rename, link, remove, *at calls, links in paths, mounts, listing.
 *
 * Goal: each errno and each effect as on Linux. Method: a tree below /tmp/names; results printed.
 */
#include "check.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE  2

static void make_file(const char *name, const char *text)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text)) {
        check(false, name);
    }
    close(fd);
}

static void show(const char *name)
{
    char text[64] = "";
    struct stat info;
    if (lstat(name, &info) != 0) {
        printf("%s: errno %d\n", name, errno);
        return;
    }
    int fd = S_ISREG(info.st_mode) ? open(name, O_RDONLY) : -1;
    ssize_t len = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
    close(fd);
    text[len > 0 ? len : 0] = 0;
    printf("%s: mode %o links %lu size %ld text '%s'\n", name, (unsigned)info.st_mode,
           (unsigned long)info.st_nlink, S_ISDIR(info.st_mode) ? 0 : (long)info.st_size, text);
}

static long rename2(const char *from, const char *to, unsigned flags)
{
    return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags);
}

static void renaming(void)
{
    make_file("a", "a");
    make_file("b", "b");
    mkdir("d", 0755);
    mkdir("d/e", 0755);
    mkdir("empty", 0755);
    mkdir("full", 0755);
    make_file("full/x", "x");
    record("file over file", rename("a", "b"));
    show("a");
    show("b");
    record("missing", rename("a", "c"));
    record("file over directory", rename("b", "d"));
    record("directory over file", rename("d", "b"));
    record("directory over empty", rename("d", "empty"));
    show("empty");
    show("empty/e");
    record("directory over full", rename("empty", "full"));
    record("into itself", rename("empty", "empty/e/f"));
    record("into its child", rename("empty", "empty/e"));
    record("over its parent", rename("empty/e", "empty"));
    record("over its grandparent", rename("empty/e", "."));
    record("dot", rename("empty/.", "q"));
    record("dotdot", rename("empty/e/..", "q"));
    record("to dot", rename("b", "."));
    record("root", rename("/", "q"));
    record("to root", rename("b", "/"));
    record("itself", rename("b", "b"));
    record("file with slash", rename("b/", "c"));
    record("to a slash", rename("b", "c/"));
    record("directory to a slash", rename("empty", "moved/"));
    show("moved");
    record("noreplace", rename2("b", "moved", RENAME_NOREPLACE));
    record("noreplace, free", rename2("b", "free", RENAME_NOREPLACE));
    record("exchange with missing", rename2("free", "missing", RENAME_EXCHANGE));
    record("exchange", rename2("free", "full/x", RENAME_EXCHANGE));
    show("free");
    show("full/x");
    record("exchange with directory", rename2("free", "moved", RENAME_EXCHANGE));
    show("free");
    show("moved");
    record("exchange with parent", rename2("full", "full/x", RENAME_EXCHANGE));
    record("exchange with child", rename2("full/x", "full", RENAME_EXCHANGE));
    record("both flags", rename2("free", "full", RENAME_EXCHANGE | RENAME_NOREPLACE));
    record("odd flags", rename2("free", "full", 64));
    char name[256];
    memset(name, 'n', 255);
    name[255] = 0;
    record("to a long name", rename("moved", name));
    record("and back", rename(name, "moved"));
    record("exchange long", rename(name, "moved"));
    show("moved");
}

static void linking(void)
{
    make_file("l1", "hard");
    record("link", link("l1", "l2"));
    show("l2");
    record("link again", link("l1", "l2"));
    record("link of a directory", link("free", "l3"));
    record("link of missing", link("missing", "l3"));
    record("link to a slash", link("l1", "l3/"));
    record("rename onto own link", rename("l1", "l2"));
    show("l1");
    record("unlink", unlink("l1"));
    show("l2");
    record("symlink", symlink("l2", "s1"));
    record("symlink again", symlink("l2", "s1"));
    record("empty symlink", symlink("", "s2"));
    record("symlink to itself", symlink("s3", "s3"));
    record("open it", open("s3", O_RDONLY));
    record("create through it", open("s3", O_WRONLY | O_CREAT, 0600));
    record("not followed", open("s1", O_RDONLY | O_NOFOLLOW));
    record("as a directory, not followed", open("s1", O_RDONLY | O_NOFOLLOW | O_DIRECTORY));
    record("exclusive over a link", open("s1", O_WRONLY | O_CREAT | O_EXCL, 0600));
    record("dangling", symlink("made", "s4"));
    record("exclusive over dangling", open("s4", O_WRONLY | O_CREAT | O_EXCL, 0600));
    record_good("create through dangling", open("s4", O_WRONLY | O_CREAT, 0600));
    show("made");
    record("link of a link", link("s1", "s5"));
    show("s5");
    record("linkat follows", linkat(AT_FDCWD, "s1", AT_FDCWD, "s6", AT_SYMLINK_FOLLOW));
    show("s6");
    record("unlink of a link", unlink("s1"));
    record("unlink with slash", unlink("l2/"));
    record("unlink of a directory", unlink("free"));
    record("unlink of a directory with slash", unlink("free/"));
    record("unlink of dot", unlink("."));
    record("unlink of dotdot", unlink(".."));
    char path[4096];
    for (int i = 0; i < 42; i++) {
        char to[16], name[16];
        snprintf(to, sizeof(to), i == 0 ? "l2" : "n%d", i - 1);
        snprintf(name, sizeof(name), "n%d", i);
        if (symlink(to, name) != 0) {
            check(false, "chain");
        }
    }
    record_good("40 links", open("n39", O_RDONLY));
    record("41 links", open("n40", O_RDONLY));
    record("link with slash to a file", symlink("l2/", "s7"));
    record("open it", open("s7", O_RDONLY));
    record("link to a directory", symlink("moved/../free", "s8"));
    snprintf(path, sizeof(path), "s8/../l2");
    record_good("through it", open(path, O_RDONLY));
    record("rmdir of it", rmdir("s8"));
    record("rmdir of it with slash", rmdir("s8/"));
    record("readlink", readlink("s8", path, sizeof(path)));
    record("readlink, short", readlink("s8", path, 3));
    printf("%.3s\n", path);
    record("readlink of a file", readlink("l2", path, sizeof(path)));
    record("readlink, no room", readlink("s8", path, 0));
}

static void removing(void)
{
    mkdir("r", 0755);
    mkdir("r/s", 0755);
    record("rmdir full", rmdir("r"));
    record("rmdir dot", rmdir("r/s/."));
    record("rmdir dotdot", rmdir("r/s/.."));
    record("rmdir root", rmdir("/"));
    record("rmdir file", rmdir("l2"));
    record("rmdir with slash", rmdir("r/s/"));
    int fd = open("r", O_RDONLY | O_DIRECTORY);
    record("rmdir open", rmdir("r"));
    record("create in removed", openat(fd, "x", O_WRONLY | O_CREAT, 0600));
    record("mkdir in removed", mkdirat(fd, "x", 0700));
    record("open dot of removed", openat(fd, ".", O_RDONLY) >= 0 ? 0 : -1);
    char entries[512];
    record("list removed", syscall(SYS_getdents64, fd, entries, sizeof(entries)));
    struct stat info;
    record("fstat removed", fstat(fd, &info));
    printf("links %lu\n", (unsigned long)info.st_nlink);
    record("fchdir removed", fchdir(fd));
    char cwd[64];
    record("getcwd", syscall(SYS_getcwd, cwd, sizeof(cwd)));
    record("create relative", open("x", O_WRONLY | O_CREAT, 0600));
    record("up", chdir(".."));
    record("getcwd", syscall(SYS_getcwd, cwd, sizeof(cwd)));
    printf("%s\n", cwd);
    record("getcwd, short", syscall(SYS_getcwd, cwd, 5));
    close(fd);
}

static void at_calls(void)
{
    int dir = open("full", O_RDONLY | O_DIRECTORY);
    int file = open("l2", O_RDONLY);
    struct stat info;
    record_good("openat", openat(dir, "x", O_RDONLY));
    record("openat of a file", openat(file, "x", O_RDONLY));
    record("openat of nothing", openat(99, "x", O_RDONLY));
    record_good("openat absolute", openat(99, "/tmp", O_RDONLY));
    record("mkdirat", mkdirat(dir, "y", 0755));
    record("fstatat", fstatat(dir, "y", &info, 0));
    record("fstatat empty", fstatat(dir, "", &info, 0));
    record("fstatat empty path", fstatat(dir, "", &info, AT_EMPTY_PATH));
    record("fstatat odd flag", fstatat(dir, "y", &info, 0x10000));
    record("unlinkat directory", unlinkat(dir, "y", 0));
    record("unlinkat rmdir", unlinkat(dir, "y", AT_REMOVEDIR));
    record("unlinkat odd flag", unlinkat(dir, "y", 1));
    record("renameat", renameat(dir, "x", AT_FDCWD, "out"));
    record("symlinkat", symlinkat("out", dir, "in"));
    record("readlinkat", readlinkat(dir, "in", (char *)&info, sizeof(info)));
    record("faccessat", faccessat(dir, "in", R_OK, 0));
    int path = open("out", O_PATH);
    record("O_PATH read", read(path, &info, 1));
    record("O_PATH fstat", fstat(path, &info));
    record("O_PATH fchmod", fchmod(path, 0600));
    record("O_PATH dup", dup(path) >= 0 ? 0 : -1);
    record("O_PATH F_GETFL", fcntl(path, F_GETFL));
    int link = open("full/in", O_PATH | O_NOFOLLOW);
    record_good("O_PATH of a link", link);
    record("its readlinkat", readlinkat(link, "", (char *)&info, sizeof(info)));
    record("linkat of a descriptor", linkat(path, "", AT_FDCWD, "out2", AT_EMPTY_PATH));
    show("out2");
    int nameless = open(".", O_TMPFILE | O_RDWR, 0600);
    record_good("O_TMPFILE", nameless);
    record("its write", write(nameless, "nameless", 8));
    record("fstat", fstat(nameless, &info));
    printf("links %lu\n", (unsigned long)info.st_nlink);
    char proc[64];
    snprintf(proc, sizeof(proc), "/proc/self/fd/%d", nameless);
    record("named", linkat(AT_FDCWD, proc, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
    show("named");
    record("O_TMPFILE, reading", open(".", O_TMPFILE | O_RDONLY, 0600));
    record("O_CREAT | O_DIRECTORY", open("dir", O_CREAT | O_DIRECTORY | O_RDONLY, 0600));
    unlink("named");
    record("unlinked cannot be linked",
           linkat(AT_FDCWD, proc, AT_FDCWD, "again", AT_SYMLINK_FOLLOW));
}

static void nodes(void)
{
    struct stat info;
    record("mknod fifo", mknod("fifo", S_IFIFO | 0640, 0));
    show("fifo");
    record("mknod null", mknod("null", S_IFCHR | 0666, 1 << 8 | 3));
    record("stat", stat("null", &info));
    printf("rdev %lx\n", (unsigned long)info.st_rdev);
    record("write null", write(open("null", O_WRONLY), "text", 4));
    record("mknod unknown", mknod("odd", S_IFCHR | 0666, 222 << 8 | 9));
    record("open unknown", open("odd", O_RDONLY));
    record("mknod block", mknod("block", S_IFBLK | 0666, 222 << 8 | 9));
    record("open block", open("block", O_RDONLY));
    record("mknod socket", mknod("sock", S_IFSOCK | 0666, 0));
    record("open socket", open("sock", O_RDONLY));
    record("mknod regular", mknod("plain", 0600, 0));
    show("plain");
    record("mknod directory", mknod("nodir", S_IFDIR | 0600, 0));
    record("mknod odd", mknod("nodir", 0130000 | 0600, 0));
    record("fifo, nobody reads", open("fifo", O_WRONLY | O_NONBLOCK));
    record_good("fifo, reading", open("fifo", O_RDONLY | O_NONBLOCK));
    record_good("fifo, writing", open("fifo", O_WRONLY | O_NONBLOCK));
}

static void listing(void)
{
    mkdir("many", 0755);
    for (int i = 0; i < 300; i++) {
        char name[32];
        snprintf(name, sizeof(name), "many/%d", i);
        make_file(name, "");
    }
    DIR *dir = opendir("many");
    long before = -1;
    int count = 0;
    bool seen[300] = {false};
    for (struct dirent *entry; (entry = readdir(dir)) != NULL; count++) {
        if (count == 2) {
            printf("first %s\n", entry->d_name);
        }
        if (count == 150) {
            before = telldir(dir);
        }
        if (entry->d_name[0] != '.') {
            int number = atoi(entry->d_name);
            if (number < 0 || number > 299 || seen[number]) {
                check(false, "each once");
                break;
            }
            seen[number] = true;
            char name[300];
            snprintf(name, sizeof(name), "many/%s", entry->d_name);
            if (number % 2) {
                unlink(name);
            }
        }
    }
    printf("entries %d\n", count);
    seekdir(dir, before);
    for (count = 0; readdir(dir) != NULL; count++) {
    }
    check(count > 0 && count < 160, "from the middle");
    rewinddir(dir);
    for (count = 0; readdir(dir) != NULL; count++) {
    }
    printf("entries %d\n", count);
    closedir(dir);
    char small[24];
    int fd = open("many", O_RDONLY);
    record("no room", syscall(SYS_getdents64, fd, small, 8));
    record("one fits", syscall(SYS_getdents64, fd, small, sizeof(small)));
    record("of a file", syscall(SYS_getdents64, open("l2", O_RDONLY), small, sizeof(small)));
    record("bad address", syscall(SYS_getdents64, fd, 8, 1000));
    record("read of a directory", read(fd, small, 1));
    record("write open of a directory", open("many", O_WRONLY));
    record("lseek to the start", lseek(fd, 0, SEEK_SET));
}

static void mounting(void)
{
    struct stat before, after;
    mkdir("mnt", 0755);
    make_file("mnt/under", "");
    stat("mnt", &before);
    record("mount", mount("none", "mnt", "tmpfs", 0, NULL));
    stat("mnt", &after);
    check(before.st_dev != after.st_dev, "another device");
    record("covered", access("mnt/under", F_OK));
    make_file("mnt/over", "over");
    record("across", rename("mnt/over", "over"));
    record("link across", link("mnt/over", "over"));
    record("rmdir of a mount", rmdir("mnt"));
    record("rename of a mount", rename("mnt", "mnt2"));
    int held = open("mnt/over", O_RDONLY);
    record("umount busy", umount("mnt"));
    close(held);
    record("mount again", mount("none", "mnt", "tmpfs", 0, NULL));
    record("covered too", access("mnt/over", F_OK));
    char cwd[100];
    record("in", chdir("mnt"));
    record("getcwd", syscall(SYS_getcwd, cwd, sizeof(cwd)));
    printf("%s\n", cwd);
    record("umount in use", umount("."));
    record("up", chdir(".."));
    record("umount", umount("mnt"));
    record("uncovered", access("mnt/over", F_OK));
    record("umount", umount("mnt"));
    record("uncovered too", access("mnt/under", F_OK));
    record("umount of none", umount("mnt"));
    record("unknown type", mount("none", "mnt", "nofs", 0, NULL));
    record("on a file", mount("none", "mnt/under", "tmpfs", 0, NULL));
    record("on nothing", mount("none", "nothing", "tmpfs", 0, NULL));
    record("read-only", mount("none", "mnt", "tmpfs", MS_RDONLY, NULL));
    record("create", open("mnt/x", O_WRONLY | O_CREAT, 0600));
    record("mkdir", mkdir("mnt/x", 0700));
    record("lazily", umount2("mnt", MNT_DETACH));
}

static void path_lengths(void)
{
    char path[4200];
    memset(path, 0, sizeof(path));
    for (int i = 0; i < 4094; i += 2) {
        memcpy(path + i, "./", 2);
    }
    strcpy(path + 4090, ".");
    record("4091 bytes", access(path, F_OK));
    memset(path, 0, sizeof(path));
    for (int i = 0; i < 4096; i += 2) {
        memcpy(path + i, "./", 2);
    }
    record("4096 bytes", access(path, F_OK));
    path[4095] = 0;
    record("4095 bytes", access(path, F_OK));
    memset(path, 'x', 300);
    path[300] = 0;
    record("a name of 300", access(path, F_OK));
    strcpy(path + 256, "/y");
    record("below one of 256", access(path, F_OK));
}

int main(void)
{
    umask(022);
    mkdir("/tmp", 01777);
    mkdir("/tmp/names", 0755);
    check(chdir("/tmp/names") == 0, "chdir");
    renaming();
    linking();
    removing();
    at_calls();
    nodes();
    listing();
    mounting();
    path_lengths();
    return check_done();
}
