/*
 * tree4.c - four processes change one tree of directories at once.
 *
 * guest: smp=2
 * guest: smp=4 seconds=60
 *
 * Goal: directories that are made, moved into each other, exchanged, linked into, listed and
 * removed by all at once stay one tree: no circle, no name lost or doubled, no inode left over.
 * Method: each process does random calls on a few names, from a seed that is printed; whatever
 * errno a race gives is right, but only those that Linux can give. Afterwards the tree is walked
 * and removed: each directory's count of links must be 2 and its subdirectories, and the root must
 * be empty again.
 */
#include "check.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#define WORKERS 4
#define ROUNDS  3000

static uint64_t seed;

static unsigned pick(unsigned n)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(seed >> 33) % n;
}

/* A path of one to four of three names. */
static const char *path(char *out)
{
    unsigned depth = 1 + pick(4);
    char *at = out;
    for (unsigned i = 0; i < depth; i++) {
        at += sprintf(at, "%s%c", i != 0 ? "/" : "", 'a' + (int)pick(3));
    }
    return out;
}

static bool is_fair(int error)
{
    static const int fair[] = {ENOENT, EEXIST, ENOTEMPTY, ENOTDIR, EISDIR, EINVAL,
                               ELOOP,  EBUSY,  EPERM,     EMLINK,  0};
    for (unsigned i = 0; i < sizeof(fair) / sizeof(fair[0]); i++) {
        if (fair[i] == error) {
            return true;
        }
    }
    return false;
}

static void list(const char *name)
{
    DIR *dir = opendir(name);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
    }
    if (dir) {
        closedir(dir);
    }
}

/* One random call. Returns: its result, with errno. */
static long step(void)
{
    char one[32], two[32], cwd[256];
    struct stat info;
    int fd;
    switch (pick(12)) {
    case 0:
    case 1:
        return mkdir(path(one), 0755);
    case 2:
        return rmdir(path(one));
    case 3:
        fd = open(path(one), O_CREAT | O_WRONLY, 0644);
        if (fd >= 0) {
            (void)!write(fd, one, strlen(one));
            close(fd);
        }
        return fd < 0 ? -1 : 0;
    case 4:
        return unlink(path(one));
    case 5:
    case 6:
        return rename(path(one), path(two));
    case 7:
        return syscall(SYS_renameat2, AT_FDCWD, path(one), AT_FDCWD, path(two), 2);
    case 8:
        return link(path(one), path(two));
    case 9:
        return symlink(path(one), path(two));
    case 10:
        if (chdir(path(one)) == 0) {
            (void)!getcwd(cwd, sizeof(cwd));
            list("..");
            return chdir("/tmp/tree4");
        }
        return -1;
    default:
        list(path(one));
        return stat(path(two), &info);
    }
}

static int worker(unsigned number)
{
    seed += number * 77777;
    for (unsigned i = 0; i < ROUNDS; i++) {
        errno = 0;
        if (step() != 0 && !is_fair(errno)) {
            return errno;
        }
    }
    return 0;
}

/* Removes what is below the working directory. Returns: whether all was as it must be. */
static bool clear(unsigned depth)
{
    struct stat info;
    unsigned directories = 0;
    bool good = depth < 100;
    DIR *dir = opendir(".");
    if (!dir || !good) {
        return false;
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        good = lstat(entry->d_name, &info) == 0 && good;
        directories += S_ISDIR(info.st_mode);
    }
    good = stat(".", &info) == 0 && info.st_nlink == 2 + directories && good;
    rewinddir(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (lstat(entry->d_name, &info) == 0 && S_ISDIR(info.st_mode)) {
            good = chdir(entry->d_name) == 0 && clear(depth + 1) && chdir("..") == 0 && good;
            good = rmdir(entry->d_name) == 0 && good;
        } else {
            good = unlink(entry->d_name) == 0 && good;
        }
    }
    closedir(dir);
    return good;
}

/* Inodes of the file system that are in use: a name that is left over keeps its own. */
static long inodes_used(void)
{
    struct statfs info;
    return statfs("/tmp", &info) == 0 ? (long)(info.f_files - info.f_ffree) : -1;
}

static bool run(unsigned round)
{
    bool good = mkdir("/tmp/tree4", 0755) == 0 && chdir("/tmp/tree4") == 0;
    for (unsigned i = 0; i < WORKERS; i++) {
        if (fork() == 0) {
            seed = 1000 * round + 1;
            _exit(worker(i));
        }
    }
    for (int status; wait(&status) > 0;) {
        if (status != 0) {
            record_status("a worker", status);
            good = false;
        }
    }
    good = clear(0) && good;
    return chdir("/") == 0 && rmdir("/tmp/tree4") == 0 && good;
}

int main(void)
{
    mkdir("/tmp", 01777);
    printf("seeds 1001 2001 3001\n");
    check(run(1), "one tree, first round");
    long before = inodes_used();
    check(run(2), "one tree, second round");
    check(run(3), "one tree, third round");
    long after = inodes_used();
    if (before != after) {
        printf("inodes %ld, then %ld\n", before, after);
    }
    check(before > 0 && before == after, "no inode and no name is left over");
    return check_done();
}
