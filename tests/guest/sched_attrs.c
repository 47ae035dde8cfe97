/*
 * sched_attrs.c - scheduling attributes, I/O priorities and the state of the clock.
 *
 * Goal: what is set is told and inherited, and errors are as on Linux. Method: the raw calls; their
 * results are printed and compared with Linux.
 */
#include "check.h"
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <time.h>

struct attr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t more[3];
    uint32_t util[2];
};

static long set(int pid, struct attr *attr, unsigned flags)
{
    return syscall(SYS_sched_setattr, pid, attr, flags);
}

static long get(int pid, struct attr *attr, unsigned size, unsigned flags)
{
    return syscall(SYS_sched_getattr, pid, attr, size, flags);
}

static long io(int pid)
{
    return syscall(SYS_ioprio_get, 1, pid);
}

static void without_right(void)
{
    struct attr attr = {.size = 48, .nice = 1};
    check(setuid(1000) == 0, "another user");
    record("nicer", set(0, &attr, 0));
    attr.nice = 7;
    record("less nice", set(0, &attr, 0));
    attr = (struct attr){.size = 48, .policy = 1, .priority = 5};
    record("fifo", set(0, &attr, 0));
    record("real-time I/O", syscall(SYS_ioprio_set, 1, 0, 1 << 13));
    record("I/O of process 1", syscall(SYS_ioprio_set, 1, 1, 2 << 13));
}

static void inherited(void)
{
    struct attr attr;
    record("get", get(0, &attr, 48, 0));
    record("nice", attr.nice);
    record("I/O priority", io(0));
}

static void attributes(void)
{
    struct attr attr = {.size = 48, .nice = 5};
    record("set", set(0, &attr, 0));
    record("nice by getpriority", getpriority(PRIO_PROCESS, 0));
    memset(&attr, 0, sizeof(attr));
    record("get", get(0, &attr, 48, 0));
    record("size", attr.size);
    record("policy", attr.policy);
    record("nice", attr.nice);
    record("priority", attr.priority);
    attr = (struct attr){.size = 40};
    record("too small", set(0, &attr, 0));
    attr = (struct attr){.size = 48, .policy = 77};
    record("policy", set(0, &attr, 0));
    attr = (struct attr){.size = 48, .flags = 1u << 20};
    record("flags", set(0, &attr, 0));
    attr = (struct attr){.size = 48, .priority = 3};
    record("priority", set(0, &attr, 0));
    attr = (struct attr){.size = 48, .flags = 24};
    record("keep all", set(0, &attr, 0));
    record("nice is kept", getpriority(PRIO_PROCESS, 0));
    record("argument", set(0, &attr, 1));
    record("nobody", set(30000, &attr, 0));
    record("negative", set(-1, &attr, 0));
    record("null", set(0, NULL, 0));
    record("bad address", set(0, (struct attr *)8, 0));
    record("get, small", get(0, &attr, 40, 0));
    record("get, flags", get(0, &attr, 48, 1));
    record("get, nobody", get(30000, &attr, 48, 0));
    record("get, bad address", get(0, (struct attr *)8, 48, 0));
}

static long policy(int which)
{
    const struct sched_param parameter = {0};
    return syscall(SYS_sched_setscheduler, 0, which, &parameter);
}

static void policies_inherited(void)
{
    struct attr attr;
    record("policy", syscall(SYS_sched_getscheduler, 0));
    record("get", get(0, &attr, 48, 0));
    record("policy", attr.policy);
    record("flags", attr.flags);
    record("nice", attr.nice);
}

static void policies_without_right(void)
{
    check(setuid(1000) == 0, "another user");
    record("batch", policy(SCHED_BATCH));
    record("idle", policy(SCHED_IDLE));
    record("out of idle", policy(SCHED_OTHER));
    record("policy", syscall(SYS_sched_getscheduler, 0));
    record("reset on fork", policy(SCHED_IDLE | SCHED_RESET_ON_FORK));
    record("and back", policy(SCHED_IDLE));
}

/* What has no effect is told, and inherited. */
static void policies(void)
{
    struct attr attr = {.size = 48, .policy = SCHED_BATCH, .nice = -3};
    record("idle", policy(SCHED_IDLE));
    record("policy", syscall(SYS_sched_getscheduler, 0));
    record("batch", policy(SCHED_BATCH));
    record("policy", syscall(SYS_sched_getscheduler, 0));
    in_child("user", policies_without_right);
    attr.flags = 1;
    record("set", set(0, &attr, 0));
    record("policy", syscall(SYS_sched_getscheduler, 0));
    in_child("child", policies_inherited);
    policies_inherited();
    attr = (struct attr){.size = 48, .policy = SCHED_IDLE, .flags = 8};
    record("keep policy", set(0, &attr, 0));
    policies_inherited();
    record("other", policy(SCHED_OTHER));
    policies_inherited();
}

static void io_priorities(void)
{
    record("none yet", io(0));
    record("set", syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 6));
    record("get", io(0));
    record("by pid", io(getpid()));
    record("idle", syscall(SYS_ioprio_set, 1, getpid(), 3 << 13));
    record("get", io(0));
    record("none with a level", syscall(SYS_ioprio_set, 1, 0, 3));
    record("class", syscall(SYS_ioprio_set, 1, 0, 5 << 13));
    record("who", syscall(SYS_ioprio_set, 9, 0, 2 << 13));
    record("get who", syscall(SYS_ioprio_get, 9, 0));
    record("nobody", io(30000));
    record("set nobody", syscall(SYS_ioprio_set, 1, 30000, 2 << 13));
}

static void clock_state(void)
{
    struct timex state = {.modes = 0};
    struct timeval now;
    record("adjtimex", adjtimex(&state));
    gettimeofday(&now, NULL);
    check(now.tv_sec - state.time.tv_sec <= 1 && now.tv_sec >= state.time.tv_sec, "time");
    record("offset", state.offset);
    record("frequency", state.freq);
    record("status", state.status);
    record("constant", state.constant);
    record("tolerance", state.tolerance);
    record("tick", state.tick);
    state.modes = ADJ_OFFSET_SS_READ;
    record("left to adjust", adjtimex(&state));
    state.modes = 0x8000;
    record("bad mode", adjtimex(&state));
    state.modes = 0;
    record("realtime", clock_adjtime(CLOCK_REALTIME, &state));
    record("monotonic", clock_adjtime(CLOCK_MONOTONIC, &state));
    record("no clock", clock_adjtime(50, &state));
    record("bad address", syscall(SYS_adjtimex, 8));
}

static void no_clock_right(void)
{
    struct timex state = {.modes = ADJ_TICK, .tick = 10000};
    check(setuid(1000) == 0, "another user");
    record("tick", adjtimex(&state));
    state.modes = ADJ_OFFSET_SINGLESHOT;
    record("offset", adjtimex(&state));
}

int main(void)
{
    attributes();
    io_priorities();
    in_child("policies", policies);
    in_child("child", inherited);
    in_child("user", without_right);
    clock_state();
    in_child("clock", no_clock_right);
    return check_done();
}
