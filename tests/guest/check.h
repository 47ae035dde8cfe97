/*
 * check.h - what the guest's test programs share: named checks, and values to record.
 *
 * A program prints one line a check; the harness (tools/test_guest) compares all of its output with
 * what the same program printed on Linux, so a value that Linux decides, an errno for one, is
 * printed rather than written down here. What is printed must be the same on each run.
 */
#ifndef GUEST_CHECK_H
#define GUEST_CHECK_H

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

static int check_failures;

/* Prints one check; a failed one makes the program end with status 1. */
static inline void check(bool good, const char *name)
{
    printf("%s %s\n", good ? "ok" : "FAIL", name);
    if (!good) {
        check_failures++;
    }
    fflush(stdout);
}

/* Prints a call's result: "name: 0", or the errno's number. */
static inline void record(const char *name, long result)
{
    if (result == -1) {
        printf("%s: errno %d\n", name, errno);
    } else {
        printf("%s: %ld\n", name, result);
    }
    fflush(stdout);
}

/* As record(), for calls whose good result is an address or a descriptor: prints only "good". */
static inline void record_good(const char *name, long result)
{
    if (result == -1) {
        printf("%s: errno %d\n", name, errno);
    } else {
        printf("%s: good\n", name);
    }
    fflush(stdout);
}

/* Prints how a child ended. */
static inline void record_status(const char *name, int status)
{
    if (WIFEXITED(status)) {
        printf("%s: exit %d\n", name, WEXITSTATUS(status));
    } else if (WIFSIGNALED(status)) {
        printf("%s: signal %d\n", name, WTERMSIG(status));
    } else if (WIFSTOPPED(status)) {
        printf("%s: stopped %d\n", name, WSTOPSIG(status));
    } else {
        printf("%s: %s\n", name, WIFCONTINUED(status) ? "continued" : "unknown");
    }
    fflush(stdout);
}

/* Runs `body` in a child and prints how it ended. */
static inline void in_child(const char *name, void (*body)(void))
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        body();
        _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        printf("%s: no child, errno %d\n", name, errno);
        check_failures++;
        return;
    }
    record_status(name, status);
}

static inline int check_done(void)
{
    printf("%s\n", check_failures ? "failed" : "done");
    fflush(stdout);
    return check_failures ? 1 : 0;
}

/* Is this kernel ours? What only it promises (exact counts of frames) is checked only there. */
static inline bool on_vellum(void)
{
    struct utsname name;
    return uname(&name) == 0 && strstr(name.version, "Vellum") != NULL;
}

/* How many processors a program finds: two, as tests are booted without more being asked for, or
 * one on a kernel that was built for one. */
static inline int processors(void)
{
    struct utsname name;
    return uname(&name) == 0 && strstr(name.version, "SMP") != NULL ? 2 : 1;
}

/* A number of KiB from /proc/meminfo, -1 when it is not there. */
static inline long meminfo_kib(const char *name)
{
    char line[128];
    long kib = -1;
    size_t length = strlen(name);
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof(line), file)) {
        if (strncmp(line, name, length) == 0 && line[length] == ':') {
            kib = atol(line + length + 1);
        }
    }
    if (file) {
        fclose(file);
    }
    return kib;
}

/* Bytes of kernel objects in use, by /proc/slabinfo. */
static inline long object_bytes(void)
{
    char line[256];
    long bytes = 0;
    FILE *file = fopen("/proc/slabinfo", "r");
    while (file && fgets(line, sizeof(line), file)) {
        char name[64];
        long active;
        long all;
        long size;
        if (sscanf(line, "%63s %ld %ld %ld", name, &active, &all, &size) == 4 &&
            strcmp(name, "sheaf") != 0) { /* the slab allocator's own, for what CPUs keep */
            bytes += active * size;
        }
    }
    if (file) {
        fclose(file);
    }
    return bytes;
}

/* Free memory in KiB, after what is cached for later has been given back. */
static inline long free_kib_once(void)
{
    FILE *file = fopen("/proc/sys/vm/drop_caches", "w");
    if (file) {
        fputs("3\n", file);
        fclose(file);
    }
    return meminfo_kib("MemFree");
}

/* The same with the room between the objects of slabs: objects that live on may lie in one slab
 * more or less than before, which is no leak. */
static inline long unused_kib_once(void)
{
    return free_kib_once() + meminfo_kib("Slab") - object_bytes() / 1024;
}
/* Either, once the tasks that ended a moment ago are wholly gone: it no longer changes. */
static inline long settled(long (*kib_once)(void))
{
    long last = -1;
    for (int same = 0, i = 0; same < 3 && i < 50; i++) {
        long now = kib_once();
        same = now == last ? same + 1 : 0;
        last = now;
        usleep(50000);
    }
    return last;
}

static inline long free_kib_drained(void)
{
    return settled(free_kib_once);
}

static inline long unused_kib_drained(void)
{
    return settled(unused_kib_once);
}

/* The count of free memory is back; only our kernel promises it. */
static inline void check_free(long before, long after, const char *name)
{
    bool good = !on_vellum() || (before > 0 && before == after);
    if (!good) {
        printf("free before %ld KiB, after %ld KiB\n", before, after);
    }
    check(good, name);
}

#endif
