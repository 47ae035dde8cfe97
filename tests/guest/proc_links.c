/*
 * proc_links.c - what /proc says of a process's files and settings, and what can be changed there.
 *
 * Goal: links, modes, texts and errnos as on Linux. Method: what does not depend on the machine is
 * printed.
 */
#include "check.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

static char text[4096];

static void show_link(const char *path)
{
    ssize_t len = readlink(path, text, sizeof(text) - 1);
    if (len < 0) {
        printf("%s: errno %d\n", path, errno);
        return;
    }
    text[len] = 0;
    printf("%s -> %s\n", path, text);
}

static void show_text(const char *path)
{
    int fd = open(path, O_RDONLY);
    ssize_t len = read(fd, text, sizeof(text) - 1);
    text[len > 0 ? len : 0] = 0;
    printf("%s: %s", path, text);
    close(fd);
}

static long store(const char *path, const char *value)
{
    int fd = open(path, O_WRONLY);
    long result = write(fd, value, strlen(value));
    int error = errno;
    close(fd);
    errno = error;
    return result;
}

static void descriptors(void)
{
    struct stat info;
    char path[64];
    int fds[3] = {open("/tmp/links", O_RDONLY | O_CREAT, 0600), open("/tmp/links", O_WRONLY),
                  open("/tmp/links", O_RDWR)};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[i]);
        lstat(path, &info);
        printf("mode %o size %ld\n", (unsigned)info.st_mode, (long)info.st_size);
    }
    show_link(path);
    record("write through it", write(open(path, O_WRONLY), "through", 7));
    unlink("/tmp/links");
    show_link(path);
    record_good("open what is gone", open(path, O_RDWR));
    record("its size", stat(path, &info) == 0 ? (long)info.st_size : -1);
    int ends[2];
    check(pipe(ends) == 0, "pipe");
    snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
    check(readlink(path, text, sizeof(text)) > 7 && memcmp(text, "pipe:[", 6) == 0, "a pipe");
    int again = open(path, O_WRONLY);
    record("write into it", write(again, "again", 5));
    record("read", read(ends[0], text, 100));
    record("no such descriptor", open("/proc/self/fd/999", O_RDONLY));
    record("no number", open("/proc/self/fd/1x", O_RDONLY));
    record("create there", open("/proc/self/fd/x", O_WRONLY | O_CREAT, 0600));
    record("mkdir", mkdir("/proc/x", 0700));
    record("unlink", unlink("/proc/self/comm"));
    record("unlink missing", unlink("/proc/nothing"));
    record("rename", rename("/proc/self/comm", "/proc/self/x"));
    record("of nobody", open("/proc/99999", O_RDONLY));
    record("of 0", open("/proc/0", O_RDONLY));
    record("leading zero", open("/proc/01", O_RDONLY));
}

static void settings(void)
{
    show_text("/proc/self/oom_score_adj");
    record("adjust", store("/proc/self/oom_score_adj", "500\n"));
    show_text("/proc/self/oom_score_adj");
    record("too much", store("/proc/self/oom_score_adj", "1001"));
    record("no number", store("/proc/self/oom_score_adj", "x"));
    record("less", store("/proc/self/oom_score_adj", "-17"));
    show_text("/proc/self/oom_score_adj");
    record("a name", store("/proc/self/comm", "a-name-that-is-long\n"));
    show_text("/proc/self/comm");
    record("read-only", store("/proc/self/stat", "1"));
    record("hostname", store("/proc/sys/kernel/hostname", "here\n"));
    show_text("/proc/sys/kernel/hostname");
    struct utsname name;
    uname(&name);
    printf("%s\n", name.nodename);
    record("overcommit", store("/proc/sys/vm/overcommit_memory", "1\n"));
    show_text("/proc/sys/vm/overcommit_memory");
    record("drop_caches", store("/proc/sys/vm/drop_caches", "x"));
    show_text("/proc/sys/kernel/ostype");
}

static void links(void)
{
    mkdir("/tmp/links-dir", 0755);
    check(chdir("/tmp/links-dir") == 0, "chdir");
    show_link("/proc/self/cwd");
    show_link("/proc/self/root");
    rmdir("/tmp/links-dir");
    show_link("/proc/self/cwd");
    check(chdir("/") == 0, "chdir");
    check(readlink("/proc/self/exe", text, sizeof(text)) > 10, "exe");
    struct stat one, two;
    stat("/proc/self/exe", &one);
    stat("/proc/self/root/proc/self/exe", &two);
    check(one.st_ino == two.st_ino && S_ISREG(one.st_mode), "the same file both ways");
    snprintf(text, sizeof(text), "/proc/%d/task/%d/comm", getpid(), getpid());
    check(access(text, R_OK) == 0, "a thread's");
    int count = 0;
    DIR *dir = opendir("/proc/self/task");
    while (readdir(dir)) {
        count++;
    }
    closedir(dir);
    printf("threads and dots: %d\n", count);
    mkdir("/tmp/links-root", 0755);
    mkdir("/tmp/links-root/proc", 0755);
    record("mount", mount("inside", "/tmp/links-root/proc", "proc", 0, NULL));
    fflush(stdout);
    if (fork() == 0) {
        record("chroot", chroot("/tmp/links-root"));
        check(chdir("/") == 0, "chdir");
        show_text("/proc/mounts");
        show_link("/proc/self/root");
        record("up and out", open("../../bin", O_RDONLY));
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    record("umount", umount("/tmp/links-root/proc"));
}

int main(void)
{
    mkdir("/tmp", 01777);
    descriptors();
    settings();
    links();
    return check_done();
}
