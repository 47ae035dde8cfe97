/*
 * proc_files.c - the texts below /proc: they are there and say what is so.
 *
 * Goal: the files that programs read have Linux's form. Method: lines and fields are looked for;
 * of maps, a mapping of our own must be listed, with its protection, and go away.
 */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>

static char text[1 << 20];

static bool load(const char *path)
{
    size_t used = 0;
    int fd = open(path, O_RDONLY);
    if (fd < 0) {
        return false;
    }
    for (ssize_t count; (count = read(fd, text + used, sizeof(text) - 1 - used)) > 0;) {
        used += (size_t)count;
    }
    close(fd);
    text[used] = 0;
    return used > 0;
}

static void has_all(const char *path, const char *const *words)
{
    check(load(path), path);
    for (; *words; words++) {
        char name[100];
        snprintf(name, sizeof(name), "  %s", *words);
        check(strstr(text, *words) != NULL, name);
    }
}

static bool in_maps(void *at, size_t bytes, const char *protection)
{
    char want[64];
    snprintf(want, sizeof(want), "%lx-%lx %s ", (unsigned long)(uintptr_t)at,
             (unsigned long)(uintptr_t)at + bytes, protection);
    return load("/proc/self/maps") && strstr(text, want) != NULL;
}

static void maps(void)
{
    size_t bytes = 5 * 4096;
    /* Its neighbours are of another kind, so that nothing merges with it. */
    char *around = mmap(NULL, bytes + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *at = mmap(around + 4096, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    check(in_maps(at, bytes, "rw-p"), "maps lists a mapping");
    mprotect(at, bytes, PROT_READ);
    check(in_maps(at, bytes, "r--p"), "with its protection");
    mprotect(at + 4096, 4096, PROT_READ | PROT_EXEC);
    check(in_maps(at, 4096, "r--p") && in_maps(at + 4096, 4096, "r-xp"), "split");
    mprotect(at + 4096, 4096, PROT_READ);
    check(in_maps(at, bytes, "r--p"), "and merged again");
    munmap(at, bytes);
    check(!in_maps(at, bytes, "r--p"), "and gone");
    check(load("/proc/self/maps") && strstr(text, "[stack]") != NULL, "the stack has its name");
    check(strstr(text, "/test/proc_files") != NULL, "the program has its path");
}

static long mem_free(void)
{
    long kib = -1;
    if (load("/proc/meminfo")) {
        char *at = strstr(text, "MemFree:");
        sscanf(at ? at : "", "MemFree: %ld kB", &kib);
    }
    return kib;
}

static void numbers(void)
{
    long before = mem_free();
    size_t bytes = (size_t)16 << 20;
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(at, 1, bytes);
    long during = mem_free();
    check(before - during > 14 << 10 && before - during < 18 << 10, "16 MiB less are free");
    double up = 0, idle = 0;
    check(load("/proc/uptime") && sscanf(text, "%lf %lf", &up, &idle) == 2 && up > 0, "uptime");
    unsigned sum = 0;
    check(load("/proc/buddyinfo"), "buddyinfo");
    for (char *line = text; line && *line; line = strchr(line, '\n'), line += line ? 1 : 0) {
        unsigned orders[11];
        char *zone = strstr(line, "zone");
        int fields = zone ? sscanf(zone, "zone %*s %u %u %u %u %u %u %u %u %u %u %u", &orders[0],
                                   &orders[1], &orders[2], &orders[3], &orders[4], &orders[5],
                                   &orders[6], &orders[7], &orders[8], &orders[9], &orders[10])
                          : 0;
        for (int i = 0; fields == 11 && i < 11; i++) {
            sum += orders[i] << i;
        }
    }
    check(sum > 1000, "its blocks add up");
    munmap(at, bytes);
}

int main(void)
{
    static const char *const meminfo[] = {
        "MemTotal:", "MemFree:", "MemAvailable:", "Cached:", NULL};
    static const char *const slabinfo[] = {"slabinfo - version: 2.1", "kmalloc-", NULL};
    static const char *const vmstat[] = {"nr_free_pages ", "pgfault ", NULL};
    static const char *const status[] = {"Name:\tproc_files\n", "Pid:\t", "VmRSS:", "PPid:", NULL};
    has_all("/proc/meminfo", meminfo);
    has_all("/proc/slabinfo", slabinfo);
    has_all("/proc/vmstat", vmstat);
    has_all("/proc/self/status", status);
    maps();
    numbers();
    check(load("/proc/cmdline") && strstr(text, "console=ttyS0") != NULL, "cmdline");
    check(load("/proc/version") && strstr(text, "version") != NULL, "version");
    return check_done();
}
