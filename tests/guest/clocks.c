/*
 * clocks.c - clocks, sleeping and who one is.
 *
 * Goal: clocks go forward on every CPU, sleeps last as long as asked. Method: readings from
 * processes on all CPUs, compared through shared memory; sleeps measured with a wide tolerance.
 */
#include "check.h"
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <time.h>

static int64_t now(clockid_t clock)
{
    struct timespec time = {0, 0};
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000ll + time.tv_nsec;
}

/* Each process publishes what it read; nobody may read less than what was published before. */
static void monotonic(void)
{
    _Atomic int64_t *latest =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool good = true;
    for (int i = 0; i < 4; i++) {
        if (fork() == 0) {
            int64_t end = now(CLOCK_MONOTONIC) + 500000000;
            int64_t read;
            do {
                int64_t published = atomic_load(latest);
                read = now(CLOCK_MONOTONIC);
                /* TSCs of emulated CPUs may stand a little apart. */
                if (read + 1000000 < published) {
                    _exit(1);
                }
                while (read > published &&
                       !atomic_compare_exchange_weak(latest, &published, read)) {
                }
            } while (read < end);
            _exit(0);
        }
    }
    for (int status; wait(&status) > 0;) {
        good = status == 0 && good;
    }
    check(good, "no clock goes back");
}

static void sleeping(void)
{
    struct timespec time = {.tv_nsec = 100000000};
    int64_t start = now(CLOCK_MONOTONIC);
    record("nanosleep", nanosleep(&time, NULL));
    int64_t took = now(CLOCK_MONOTONIC) - start;
    check(took >= 100000000 && took < 2000000000, "it takes as long as asked");
    start = now(CLOCK_MONOTONIC);
    struct timespec until = {.tv_sec = start / 1000000000, .tv_nsec = start % 1000000000};
    until.tv_sec += 1;
    record("clock_nanosleep until", clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL));
    check(now(CLOCK_MONOTONIC) - start >= 1000000000, "until then");
    until.tv_sec = 0;
    record("until what was", clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL));
}

static void accounting(void)
{
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    int64_t end = now(CLOCK_MONOTONIC) + 300000000;
    while (now(CLOCK_MONOTONIC) < end) {
    }
    getrusage(RUSAGE_SELF, &after);
    long used = (after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1000 +
                (after.ru_utime.tv_usec - before.ru_utime.tv_usec) / 1000 +
                (after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1000 +
                (after.ru_stime.tv_usec - before.ru_stime.tv_usec) / 1000;
    check(used >= 20 && used <= 2000, "processor time is counted");
    check(now(CLOCK_PROCESS_CPUTIME_ID) > 0, "a process's clock");
    struct tms ticks;
    check(times(&ticks) != (clock_t)-1, "times");
}

static void identity(void)
{
    struct utsname name;
    record("uname", uname(&name));
    printf("%s %s\n", name.sysname, name.machine);
    struct sysinfo info;
    record("sysinfo", sysinfo(&info));
    check(info.totalram > 0 && info.procs > 0, "its figures");
    printf("ids %d %d %d %d\n", (int)getuid(), (int)geteuid(), (int)getgid(), (int)getegid());
    cpu_set_t set;
    CPU_ZERO(&set);
    check(sched_getaffinity(0, sizeof(set), &set) == 0, "affinity");
    check(CPU_COUNT(&set) == processors() && sysconf(_SC_NPROCESSORS_ONLN) == processors(),
          "all CPUs online");
    record("sched_yield", sched_yield());
    struct timeval time;
    record("gettimeofday", gettimeofday(&time, NULL));
    struct timespec resolution;
    record("clock_getres", clock_getres(CLOCK_MONOTONIC, &resolution));
}

int main(void)
{
    monotonic();
    sleeping();
    accounting();
    identity();
    return check_done();
}
