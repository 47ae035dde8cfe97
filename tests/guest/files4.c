/*
 * files4.c - four processes at once create, rename, unlink, open and map files of one directory.
 * guest: smp=2 seconds=90
 * guest: smp=8 seconds=90
 *
 * Goal: no file shows another's contents, nothing is left, no frame is lost. Method: a file's
 * contents say its owner and number throughout; each process works on names of its own and, by
 * open and rename, on those of the others.
 */
#include "check.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define WORKERS 4
#define ROUNDS  150
#define PAGES   6
#define PAGE    ((size_t)4096)

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* Fills a new file by write and by mapping; every word of it is `tag`. */
static bool make_file(const char *name, uint64_t tag)
{
    uint64_t words[512];
    for (size_t i = 0; i < 512; i++) {
        words[i] = tag;
    }
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)(PAGES * PAGE)) != 0) {
        return false;
    }
    uint64_t *at = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    bool good = at != MAP_FAILED;
    for (size_t i = 0; good && i < PAGES; i++) {
        if (i % 2 == 0) {
            good = pwrite(fd, words, PAGE, (off_t)(i * PAGE)) == (ssize_t)PAGE;
        } else {
            memcpy(at + i * 512, words, PAGE);
        }
    }
    munmap(at, PAGES * PAGE);
    close(fd);
    return good;
}

/* All words of a file that is complete are the same; an incomplete one may hold zeros. */
static bool look_at(const char *name)
{
    int fd = open(name, O_RDONLY);
    struct stat info;
    if (fd < 0) {
        return errno == ENOENT;
    }
    bool good = fstat(fd, &info) == 0;
    if (good && info.st_size == (off_t)(PAGES * PAGE)) {
        uint64_t *at = mmap(NULL, PAGES * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
        uint64_t tag = 0;
        good = at != MAP_FAILED;
        for (size_t i = 0; good && i < PAGES * 512; i += 97) {
            uint64_t word;
            /* The file may be cut meanwhile by its owner: read() then gives less, a map SIGBUS. */
            if (pread(fd, &word, 8, (off_t)(i * 8)) != 8) {
                break;
            }
            if (word != 0 && tag == 0) {
                tag = word;
            }
            good = word == 0 || (word ^ tag) >> 32 == 0;
        }
        munmap(at, PAGES * PAGE);
    }
    close(fd);
    return good;
}

static int worker(unsigned own)
{
    uint64_t seed = own + 1;
    char name[64], other[64];
    for (unsigned i = 0; i < ROUNDS; i++) {
        snprintf(name, sizeof(name), "w%u-%u", own, i % 5);
        snprintf(other, sizeof(other), "w%u-%u", (unsigned)next_random(&seed) % WORKERS,
                 (unsigned)next_random(&seed) % 5);
        if (!make_file(name, (uint64_t)(own + 1) << 32 | i)) {
            return 1;
        }
        switch (next_random(&seed) % 4) {
        case 0:
            snprintf(other, sizeof(other), "s%u", (unsigned)next_random(&seed) % 3);
            if (rename(name, other) != 0) {
                return 2;
            }
            break;
        case 1:
            if (unlink(name) != 0) {
                return 3;
            }
            break;
        default:
            break;
        }
        snprintf(other, sizeof(other), "s%u", (unsigned)next_random(&seed) % 3);
        if (!look_at(other)) {
            return 4;
        }
        if (next_random(&seed) % 3 == 0 && unlink(other) != 0 && errno != ENOENT) {
            return 5;
        }
    }
    return 0;
}

static bool run(void)
{
    bool good = mkdir("/tmp/four", 0755) == 0 && chdir("/tmp/four") == 0;
    for (unsigned i = 0; i < WORKERS; i++) {
        if (fork() == 0) {
            _exit(worker(i));
        }
    }
    for (int status; wait(&status) > 0;) {
        if (status != 0) {
            record_status("a worker", status);
            good = false;
        }
    }
    DIR *dir = opendir(".");
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] != '.') {
            good = look_at(entry->d_name) && unlink(entry->d_name) == 0 && good;
        }
    }
    closedir(dir);
    return chdir("/") == 0 && rmdir("/tmp/four") == 0 && good;
}

/* In a process of its own, so that nothing that a libc keeps counts as lost. */
static void run_in_child(void)
{
    check(run(), "four processes at once");
    _exit(check_failures);
}

int main(void)
{
    in_child("first round", run_in_child);
    long before = unused_kib_drained();
    in_child("second round", run_in_child);
    in_child("third round", run_in_child);
    long after = unused_kib_drained();
    check_free(before, after, "free frames as before");
    return check_done();
}
