/*
 * ids.c - users, groups, capabilities, limits, prctl, scheduling parameters, names of the machine.
 *
 * Goal: what a program run by root sees and may change, and what it may not after it gave root up.
 * Method: calls in a child each, results printed and compared with Linux's.
 */
#include "check.h"
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>

static void show_ids(const char *name)
{
    uid_t uid[3];
    gid_t gid[3];

    syscall(SYS_getresuid, &uid[0], &uid[1], &uid[2]);
    syscall(SYS_getresgid, &gid[0], &gid[1], &gid[2]);
    printf("%s: %u %u %u, %u %u %u\n", name, uid[0], uid[1], uid[2], gid[0], gid[1], gid[2]);
}

static void users(void)
{
    gid_t groups[4] = {7, 8, 9, 10};
    gid_t got[8];

    record("setgroups", syscall(SYS_setgroups, 3, groups));
    record("getgroups", syscall(SYS_getgroups, 8, got));
    check(got[0] == 7 && got[2] == 9, "the groups");
    record("getgroups, no room", syscall(SYS_getgroups, 1, got));
    record("getgroups, negative", syscall(SYS_getgroups, -1, got));
    record("setresgid", syscall(SYS_setresgid, 20, 21, 22));
    record("setregid", syscall(SYS_setregid, 30, -1));
    show_ids("root");
    record("setresuid", syscall(SYS_setresuid, 100, 101, 102));
    show_ids("user");
    record("setuid to root", syscall(SYS_setuid, 0));
    record("setuid to the saved", syscall(SYS_setuid, 102));
    show_ids("user");
    record("setreuid to a stranger", syscall(SYS_setreuid, 500, -1));
    record("setreuid swaps", syscall(SYS_setreuid, 102, 100));
    show_ids("user");
    record("setfsuid tells the old", syscall(SYS_setfsuid, 102));
    record("setfsuid, none", syscall(SYS_setfsuid, -1));
    record("setgid to a stranger", syscall(SYS_setgid, 55));
    record("setgroups as a user", syscall(SYS_setgroups, 1, groups));
    record("sethostname as a user", syscall(SYS_sethostname, "x", 1));
    record("kill process 1", kill(1, 0));
    record("a higher limit",
           syscall(SYS_setrlimit, RLIMIT_CORE, &(struct rlimit){1, RLIM_INFINITY}));
    record("settimeofday as a user", syscall(SYS_settimeofday, NULL, NULL));
}

static void give_up(void)
{
    record("setuid gives all up", syscall(SYS_setuid, 1000));
    show_ids("all");
    record("no way back", syscall(SYS_setreuid, -1, 0));
}

struct cap_header {
    uint32_t version;
    int pid;
};

struct cap_data {
    uint32_t effective, permitted, inheritable;
};

static void capabilities(void)
{
    struct cap_header header = {0x20080522, 0};
    struct cap_data data[2];

    record("capget", syscall(SYS_capget, &header, data));
    check((data[0].effective & 0xff) == 0xff && (data[0].permitted & 0xff) == 0xff, "root has all");
    header.version = 1;
    record("capget, unknown version", syscall(SYS_capget, &header, data));
    printf("version %x\n", header.version);
    header.pid = -1;
    record("capget, bad pid", syscall(SYS_capget, &header, data));
    header.pid = 32000;
    record("capget, nobody", syscall(SYS_capget, &header, data));
    header.pid = 0;
    memset(data, 0, sizeof(data));
    record("capset to none", syscall(SYS_capset, &header, data));
    data[0].permitted = 1;
    record("capset, more again", syscall(SYS_capset, &header, data));
    record("capget", syscall(SYS_capget, &header, data));
    printf("%x %x\n", data[0].effective, data[0].permitted);
    fflush(stdout);
}

static void show_files_limit(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    printf("files %lu %lu\n", (unsigned long)limit.rlim_cur, (unsigned long)limit.rlim_max);
    fflush(stdout);
}

static void limits(void)
{
    struct rlimit limit;

    record("getrlimit", getrlimit(RLIMIT_STACK, &limit));
    printf("stack %lu\n", (unsigned long)limit.rlim_cur);
    record("unknown", syscall(SYS_getrlimit, 16, &limit));
    limit = (struct rlimit){10, 5};
    record("soft above hard", syscall(SYS_setrlimit, RLIMIT_NOFILE, &limit));
    limit = (struct rlimit){10, 2000000};
    record("too many files", syscall(SYS_setrlimit, RLIMIT_NOFILE, &limit));
    limit = (struct rlimit){20, 40};
    record("setrlimit", setrlimit(RLIMIT_NOFILE, &limit));
    in_child("a child", show_files_limit);
    record("prlimit of nobody", syscall(SYS_prlimit64, 32000, RLIMIT_NOFILE, NULL, &limit));
    record("prlimit of the parent", syscall(SYS_prlimit64, getppid(), RLIMIT_CPU, NULL, &limit));
    record("bad pointer", syscall(SYS_prlimit64, 0, RLIMIT_CPU, NULL, 8));
}

static void processes(void)
{
    char name[20] = "";

    record("PR_SET_NAME", prctl(PR_SET_NAME, "a name that is too long"));
    record("PR_GET_NAME", prctl(PR_GET_NAME, name));
    printf("%s\n", name);
    record("PR_GET_DUMPABLE", prctl(PR_GET_DUMPABLE));
    record("PR_SET_DUMPABLE 0", prctl(PR_SET_DUMPABLE, 0));
    record("PR_GET_DUMPABLE", prctl(PR_GET_DUMPABLE));
    record("PR_SET_DUMPABLE 2", prctl(PR_SET_DUMPABLE, 2));
    record("PR_SET_PDEATHSIG 65", prctl(PR_SET_PDEATHSIG, 65));
    record("PR_SET_NO_NEW_PRIVS", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    record("PR_GET_NO_NEW_PRIVS", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    record("PR_SET_NO_NEW_PRIVS 0", prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
    record("unknown", prctl(9999));
    record("arch_prctl, unknown", syscall(SYS_arch_prctl, 1, 0));
    record("arch_prctl, kernel address", syscall(SYS_arch_prctl, 0x1001, 0xffff800000000000ul));
    record("personality", syscall(SYS_personality, 0xffffffff));
}

static void show_no_new_privs(void)
{
    record("PR_GET_NO_NEW_PRIVS", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
}

static void inherited(void)
{
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    in_child("a child's", show_no_new_privs);
    record("PR_SET_TIMERSLACK", prctl(PR_SET_TIMERSLACK, 1234));
    record("PR_GET_TIMERSLACK", prctl(PR_GET_TIMERSLACK));
    record("PR_SET_KEEPCAPS", prctl(PR_SET_KEEPCAPS, 1));
    record("PR_GET_KEEPCAPS", prctl(PR_GET_KEEPCAPS));
    record("PR_SET_KEEPCAPS 2", prctl(PR_SET_KEEPCAPS, 2));
}

static void named_by_descriptor(void)
{
    char *arguments[] = {"sh", "-c", "exit 6", NULL};
    char *none[] = {NULL};
    int fd = open("/bin/sh", O_PATH | O_CLOEXEC);

    if (fork() == 0) {
        syscall(SYS_execveat, fd, "", arguments, none, AT_EMPTY_PATH);
        _exit(errno);
    }
    int status = 0;
    wait(&status);
    record_status("execveat of a descriptor", status);
    record("execveat, nothing named", syscall(SYS_execveat, fd, "", arguments, none, 0));
    record("execveat, unknown flag", syscall(SYS_execveat, fd, "", arguments, none, 1 << 30));
    record("execveat, beside a file", syscall(SYS_execveat, fd, "x", arguments, none, 0));
    record("execveat, bad descriptor", syscall(SYS_execveat, 99, "x", arguments, none, 0));
}

static void not_shared(void)
{
    record("unshare nothing", syscall(SYS_unshare, 0));
    record("unshare files", syscall(SYS_unshare, CLONE_FILES | CLONE_FS));
    record("unshare unknown", syscall(SYS_unshare, 1));
    check(write(1, "", 0) == 0, "descriptors are still there");
}

static void scheduling(void)
{
    struct sched_param parameter = {0};
    unsigned long mask[16] = {0};

    record("sched_getscheduler", syscall(SYS_sched_getscheduler, 0));
    record("sched_getparam", syscall(SYS_sched_getparam, 0, &parameter));
    record("sched_getparam, nobody", syscall(SYS_sched_getparam, 32000, &parameter));
    record("sched_getparam, negative", syscall(SYS_sched_getparam, -1, &parameter));
    parameter.sched_priority = 5;
    record("SCHED_OTHER with a priority",
           syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &parameter));
    record("unknown policy", syscall(SYS_sched_setscheduler, 0, 77, &parameter));
    record("max of FIFO", syscall(SYS_sched_get_priority_max, SCHED_FIFO));
    record("min of OTHER", syscall(SYS_sched_get_priority_min, SCHED_OTHER));
    record("max of unknown", syscall(SYS_sched_get_priority_max, 77));
    record("affinity, no room", syscall(SYS_sched_getaffinity, 0, 4, mask));
    check(syscall(SYS_sched_getaffinity, 0, sizeof(mask), mask) > 0 &&
              mask[0] == (1ul << processors()) - 1,
          "all processors");
    mask[0] = 1ul << (processors() - 1);
    record("to the last", syscall(SYS_sched_setaffinity, 0, sizeof(mask), mask));
    unsigned cpu = 9;
    record("getcpu", syscall(SYS_getcpu, &cpu, NULL, NULL));
    check(cpu == (unsigned)processors() - 1, "it runs there");
    mask[0] = 0;
    record("to none", syscall(SYS_sched_setaffinity, 0, sizeof(mask), mask));
    record("getpriority", syscall(SYS_getpriority, PRIO_PROCESS, 0));
    record("setpriority", setpriority(PRIO_PROCESS, 0, 5));
    record("getpriority", syscall(SYS_getpriority, PRIO_PROCESS, 0));
    record("setpriority 100", setpriority(PRIO_PROCESS, 0, 100));
    record("getpriority", syscall(SYS_getpriority, PRIO_PROCESS, 0));
    record("priority of unknown", syscall(SYS_getpriority, 3, 0));
    record("priority of nobody", syscall(SYS_getpriority, PRIO_PROCESS, 32000));
    record("sched_yield", sched_yield());
}

static void machine(void)
{
    struct utsname name;
    struct sysinfo info;
    unsigned char random[300];
    int different = 0;

    uname(&name);
    printf("%s %s\n", name.sysname, name.machine);
    record("sysinfo", sysinfo(&info));
    check(info.mem_unit == 1 && info.totalram > info.freeram && info.freeram > 0, "has memory");
    record("uname, bad pointer", syscall(SYS_uname, 8));
    record("sethostname, too long", syscall(SYS_sethostname, "x", 65));
    record("sethostname", syscall(SYS_sethostname, "house", 5));
    uname(&name);
    printf("%s\n", name.nodename);
    memset(random, 0, sizeof(random));
    record("getrandom", syscall(SYS_getrandom, random, sizeof(random), 0));
    for (size_t i = 1; i < sizeof(random); i++) {
        different += random[i] != random[i - 1];
    }
    check(different > 250, "is not all the same");
    record("getrandom, unknown flag", syscall(SYS_getrandom, random, 1, 8));
    record("getrandom, bad pointer", syscall(SYS_getrandom, 8, 8, 0));
    record("reboot, no magic", syscall(SYS_reboot, 1, 2, 3, 0));
    record("reboot, unknown", syscall(SYS_reboot, 0xfee1dead, 672274793, 0x77777777, 0));
    record("membarrier unknown", syscall(SYS_membarrier, 1 << 20, 0, 0));
    record("membarrier not registered", syscall(SYS_membarrier, 8, 0, 0));
    record("membarrier registers", syscall(SYS_membarrier, 16, 0, 0));
    record("membarrier", syscall(SYS_membarrier, 8, 0, 0));
}

int main(void)
{
    in_child("users", users);
    in_child("give up", give_up);
    in_child("capabilities", capabilities);
    in_child("limits", limits);
    in_child("processes", processes);
    in_child("inherited", inherited);
    in_child("named by descriptor", named_by_descriptor);
    in_child("not shared", not_shared);
    in_child("scheduling", scheduling);
    in_child("machine", machine);
    return check_done();
}
