/*
 * sys_time.c - clocks, sleeping, interval timers, times used.
 *
 * CLOCK_MONOTONIC, _RAW, _COARSE and BOOTTIME are the same clock here: nothing suspends and nothing
 * slews it. ITIMER_VIRTUAL and ITIMER_PROF count by the scheduler's ticks.
 */
#include "kernel/proc/internal.h"

enum clock_number {
    CLOCK_REALTIME = 0,
    CLOCK_MONOTONIC = 1,
    CLOCK_PROCESS_CPUTIME_ID = 2,
    CLOCK_THREAD_CPUTIME_ID = 3,
    CLOCK_MONOTONIC_RAW = 4,
    CLOCK_REALTIME_COARSE = 5,
    CLOCK_MONOTONIC_COARSE = 6,
    CLOCK_BOOTTIME = 7,
    CLOCK_REALTIME_ALARM = 8,
    CLOCK_BOOTTIME_ALARM = 9,
    CLOCK_TAI = 11
};

#define TIMER_ABSTIME 1

enum itimer_number { ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF };

long user_timespec_get(uint64_t user, uint64_t *out_ns)
{
    struct user_time time;

    if (copy_from_user(&time, user, sizeof(time)) != VL_OK) {
        return -EFAULT;
    }
    if (time.sec < 0 || time.sub < 0 || time.sub >= (int64_t)NS_PER_SECOND) {
        return -EINVAL;
    }
    if ((uint64_t)time.sec > UINT64_MAX / 4 / NS_PER_SECOND) {
        *out_ns = UINT64_MAX / 4;
    } else {
        *out_ns = (uint64_t)time.sec * NS_PER_SECOND + (uint64_t)time.sub;
    }
    return 0;
}

long user_timespec_put(uint64_t user, uint64_t ns)
{
    struct user_time time = {(int64_t)(ns / NS_PER_SECOND), (int64_t)(ns % NS_PER_SECOND)};

    return (long)copy_to_user(user, &time, sizeof(time));
}

static struct user_time timeval_of(uint64_t ns)
{
    return (struct user_time){(int64_t)(ns / NS_PER_SECOND),
                              (int64_t)(ns % NS_PER_SECOND / NS_PER_US)};
}

uint64_t deadline_after(uint64_t ns)
{
    uint64_t now = clock_ns();

    return ns < WAIT_FOREVER - 1 - now ? now + ns : WAIT_FOREVER - 1;
}

/* -------------------------------------------------------------------------------- clocks */

/* CPU clocks of other processes and threads: ~pid << 3 | kind. */
static long cpu_clock_read(int32_t id, uint64_t *out_ns)
{
    uint32_t pid = ~(uint32_t)id >> 3 & 0x1fffffffu;
    bool is_thread = ((uint32_t)id & 4u) != 0;
    struct process *process;
    uint64_t user;
    uint64_t system;

    if (((uint32_t)id & 3u) > 2) {
        return -EINVAL;
    }
    if (is_thread) {
        if (pid != 0 && pid != current()->tid) {
            return -EINVAL;
        }
        *out_ns = thread_cpu_ns(current());
        return 0;
    }
    process = pid == 0 ? current_process() : process_find(pid);
    if (process == NULL) {
        return -EINVAL;
    }
    process_times(process, &user, &system);
    *out_ns = user + system;
    if (pid != 0) {
        process_put(process);
    }
    return 0;
}

/* Returns: 0 or -EINVAL. */
static long clock_read(int32_t id, uint64_t *out_ns)
{
    uint64_t user;
    uint64_t system;

    if (id < 0) {
        return cpu_clock_read(id, out_ns);
    }
    switch (id) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_REALTIME_ALARM:
    case CLOCK_TAI:
        *out_ns = clock_realtime_ns();
        return 0;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME:
    case CLOCK_BOOTTIME_ALARM:
        *out_ns = clock_ns();
        return 0;
    case CLOCK_PROCESS_CPUTIME_ID:
        process_times(current_process(), &user, &system);
        *out_ns = user + system;
        return 0;
    case CLOCK_THREAD_CPUTIME_ID:
        *out_ns = thread_cpu_ns(current());
        return 0;
    default:
        return -EINVAL;
    }
}

SYSCALL(clock_gettime)
{
    uint64_t ns;
    long result = clock_read((int32_t)a, &ns);

    return result != 0 ? result : user_timespec_put((uint64_t)b, ns);
}

SYSCALL(clock_getres)
{
    bool coarse = (int32_t)a == CLOCK_REALTIME_COARSE || (int32_t)a == CLOCK_MONOTONIC_COARSE;
    uint64_t ns;
    long result = clock_read((int32_t)a, &ns);

    if (result != 0 || b == 0) {
        return result;
    }
    return user_timespec_put((uint64_t)b, coarse ? TICK_NS : 1);
}

SYSCALL(clock_settime)
{
    uint64_t ns;
    long result;

    if ((int32_t)a != CLOCK_REALTIME) {
        return -EINVAL;
    }
    result = user_timespec_get((uint64_t)b, &ns);
    if (result == 0 && !capable_root()) {
        result = -EPERM;
    }
    if (result == 0) {
        clock_set_realtime_ns(ns);
    }
    return result;
}

/* Time zones are the programs' business: a zone of zero is handed out. */
SYSCALL(gettimeofday)
{
    struct user_time time = timeval_of(clock_realtime_ns());

    if (a != 0 && copy_to_user((uint64_t)a, &time, sizeof(time)) != VL_OK) {
        return -EFAULT;
    }
    return b != 0 ? (long)put_user64((uint64_t)b, 0) : 0;
}

SYSCALL(settimeofday)
{
    struct user_time time;

    if (a != 0 && copy_from_user(&time, (uint64_t)a, sizeof(time)) != VL_OK) {
        return -EFAULT;
    }
    if (a != 0 && (time.sec < 0 || time.sub < 0 || time.sub >= 1000000)) {
        return -EINVAL;
    }
    if (!capable_root()) {
        return -EPERM;
    }
    if (a != 0) {
        clock_set_realtime_ns((uint64_t)time.sec * NS_PER_SECOND + (uint64_t)time.sub * NS_PER_US);
    }
    return 0;
}

SYSCALL(time)
{
    uint64_t now = clock_realtime_ns() / NS_PER_SECOND;

    if (a != 0 && put_user64((uint64_t)a, now) != VL_OK) {
        return -EFAULT;
    }
    return (long)now;
}

/* ------------------------------------------------------------------------------ sleeping */

/* Sleep to the end in restart_arg[0]; the rest goes to the user at restart_arg[1]. */
static long sleep_again(struct task *task)
{
    uint64_t deadline = task->restart_arg[0];
    uint64_t now;
    long result = 0;

    if (sleep_until_ns(deadline, WAIT_INTERRUPTIBLE) == VL_OK) {
        return 0;
    }
    now = clock_ns();
    if (task->restart_arg[1] != 0) {
        result = user_timespec_put(task->restart_arg[1], deadline > now ? deadline - now : 0);
    }
    return result != 0 ? result : -ERESTARTBLOCK;
}

static long sleep_relative(uint64_t ns, uint64_t user_rest)
{
    struct task *task = current_task();

    task->restart = sleep_again;
    task->restart_arg[0] = deadline_after(ns);
    task->restart_arg[1] = user_rest;
    return sleep_again(task);
}

SYSCALL(nanosleep)
{
    uint64_t ns;
    long result = user_timespec_get((uint64_t)a, &ns);

    return result != 0 ? result : sleep_relative(ns, (uint64_t)b);
}

SYSCALL(clock_nanosleep)
{
    int32_t id = (int32_t)a;
    uint64_t ns;
    uint64_t now;
    long result = clock_read(id, &now);

    if (result != 0 || id == CLOCK_THREAD_CPUTIME_ID) {
        return -EINVAL;
    }
    if (id == CLOCK_REALTIME_COARSE || id == CLOCK_MONOTONIC_COARSE || id == CLOCK_MONOTONIC_RAW ||
        id < 0 || id == CLOCK_PROCESS_CPUTIME_ID) {
        return -EOPNOTSUPP;
    }
    result = user_timespec_get((uint64_t)c, &ns);
    if (result != 0) {
        return result;
    }
    if (((int)b & TIMER_ABSTIME) == 0) {
        return sleep_relative(ns, (uint64_t)d);
    }
    /* An absolute sleep is simply begun again. */
    result = (long)sleep_until_ns(deadline_after(ns > now ? ns - now : 0), WAIT_INTERRUPTIBLE);
    return result == VL_EINTR ? -ERESTARTNOHAND : 0;
}

SYSCALL(restart_syscall)
{
    struct task *task = current_task();

    return task->restart != NULL ? task->restart(task) : -EINTR;
}

/* ---------------------------------------------------------------------------- the timers */

/* From the timer's interrupt. */
static void real_timer_run(struct timer *timer)
{
    struct process *process = vli_container_of(timer, struct process, real_timer);
    unsigned long flags;
    uint64_t now = clock_ns();

    signal_send_process(process, SIGALRM);
    flags = signal_lock(process);
    if (process->real_expires_ns != 0 && process->real_expires_ns <= now) {
        if (process->real_interval_ns == 0) {
            process->real_expires_ns = 0;
        } else {
            uint64_t passed = (now - process->real_expires_ns) / process->real_interval_ns + 1;

            process->real_expires_ns += passed * process->real_interval_ns;
            timer_arm(&process->real_timer, process->real_expires_ns);
        }
    }
    signal_unlock(process, flags);
}

void itimers_init(struct process *process)
{
    timer_init(&process->real_timer, real_timer_run);
}

void itimers_cancel(struct process *process)
{
    unsigned long flags;

    if (process->timer_used == 0) {
        return;
    }
    flags = signal_lock(process);
    process->real_interval_ns = 0;
    process->real_expires_ns = 0;
    signal_unlock(process, flags);
    (void)timer_cancel(&process->real_timer);
}

void proc_tick(struct thread *thread, bool user)
{
    struct process *process = thread->proc;
    unsigned kind;

    if (process == NULL || process->ticking == 0) {
        return;
    }
    for (kind = user ? 0 : 1; kind < 2; kind++) {
        unsigned long flags = signal_lock(process);
        bool expired = false;

        if (process->virtual_ns[kind] != 0) {
            if (process->virtual_ns[kind] <= TICK_NS) {
                process->virtual_ns[kind] = process->virtual_interval_ns[kind];
                expired = true;
            } else {
                process->virtual_ns[kind] -= TICK_NS;
            }
        }
        signal_unlock(process, flags);
        if (expired) {
            signal_send_process(process, kind == 0 ? SIGVTALRM : SIGPROF);
        }
    }
}

/* What is left until the real timer runs. Locks: signal_lock held. */
static uint64_t real_left(const struct process *process)
{
    uint64_t now = clock_ns();

    if (process->real_expires_ns == 0) {
        return 0;
    }
    return process->real_expires_ns > now ? process->real_expires_ns - now : 1;
}

static void real_timer_set(struct process *process, uint64_t ns, uint64_t interval_ns,
                           uint64_t *out_left, uint64_t *out_interval)
{
    unsigned long flags;

    flags = signal_lock(process);
    *out_left = real_left(process);
    *out_interval = process->real_interval_ns;
    process->real_expires_ns = 0;
    process->real_interval_ns = 0;
    signal_unlock(process, flags);
    if (process->timer_used != 0) {
        (void)timer_cancel(&process->real_timer);
    }
    if (ns == 0) {
        return;
    }
    flags = signal_lock(process);
    process->timer_used = 1;
    process->real_expires_ns = deadline_after(ns);
    process->real_interval_ns = interval_ns;
    timer_arm(&process->real_timer, process->real_expires_ns);
    signal_unlock(process, flags);
}

static void virtual_timer_set(struct process *process, unsigned kind, uint64_t ns,
                              uint64_t interval_ns, uint64_t *out_left, uint64_t *out_interval)
{
    unsigned long flags = signal_lock(process);

    *out_left = process->virtual_ns[kind];
    *out_interval = process->virtual_interval_ns[kind];
    process->virtual_ns[kind] = ns;
    process->virtual_interval_ns[kind] = interval_ns;
    process->ticking = process->virtual_ns[0] != 0 || process->virtual_ns[1] != 0;
    signal_unlock(process, flags);
}

struct user_itimer {
    struct user_time interval;
    struct user_time value;
};

static long itimer_put(uint64_t user, uint64_t left, uint64_t interval)
{
    /* A timer that runs is never shown as one that does not. */
    struct user_itimer out = {timeval_of(interval),
                              timeval_of(left != 0 && left < NS_PER_US ? NS_PER_US : left)};

    return (long)copy_to_user(user, &out, sizeof(out));
}

SYSCALL(getitimer)
{
    struct process *process = current_process();
    uint32_t which = (uint32_t)a;
    uint64_t left;
    uint64_t interval;
    unsigned long flags;

    if (which > ITIMER_PROF) {
        return -EINVAL;
    }
    flags = signal_lock(process);
    if (which == ITIMER_REAL) {
        left = real_left(process);
        interval = process->real_interval_ns;
    } else {
        left = process->virtual_ns[which - 1];
        interval = process->virtual_interval_ns[which - 1];
    }
    signal_unlock(process, flags);
    return itimer_put((uint64_t)b, left, interval);
}

static bool timeval_is_valid(const struct user_time *time)
{
    return time->sec >= 0 && time->sub >= 0 && time->sub < 1000000;
}

static uint64_t timeval_ns(const struct user_time *time)
{
    if ((uint64_t)time->sec > UINT64_MAX / 4 / NS_PER_SECOND) {
        return UINT64_MAX / 4;
    }
    return (uint64_t)time->sec * NS_PER_SECOND + (uint64_t)time->sub * NS_PER_US;
}

SYSCALL(setitimer)
{
    struct user_itimer fresh = {{0, 0}, {0, 0}};
    uint32_t which = (uint32_t)a;
    uint64_t left;
    uint64_t interval;

    if (b != 0 && copy_from_user(&fresh, (uint64_t)b, sizeof(fresh)) != VL_OK) {
        return -EFAULT;
    }
    if (which > ITIMER_PROF || !timeval_is_valid(&fresh.value) ||
        !timeval_is_valid(&fresh.interval)) {
        return -EINVAL;
    }
    if (which == ITIMER_REAL) {
        real_timer_set(current_process(), timeval_ns(&fresh.value), timeval_ns(&fresh.interval),
                       &left, &interval);
    } else {
        virtual_timer_set(current_process(), which - 1, timeval_ns(&fresh.value),
                          timeval_ns(&fresh.interval), &left, &interval);
    }
    return c != 0 ? itimer_put((uint64_t)c, left, interval) : 0;
}

SYSCALL(alarm)
{
    uint64_t left;
    uint64_t interval;

    real_timer_set(current_process(), (uint64_t)(uint32_t)a * NS_PER_SECOND, 0, &left, &interval);
    if (left != 0 && left < NS_PER_SECOND) {
        return 1;
    }
    return (long)((left + NS_PER_SECOND / 2) / NS_PER_SECOND);
}

/* ---------------------------------------------------------------------------- times used */

#define RUSAGE_SELF     0
#define RUSAGE_CHILDREN (-1)
#define RUSAGE_THREAD   1

static void rusage_self(struct process *process, struct user_rusage *out)
{
    struct vl_space_usage usage;
    struct process_info info;
    uint64_t peak;

    vl_space_usage(process->space, &usage);
    process_info(process, &info);
    peak = usage.resident_peak > process->resident_peak_ended ? usage.resident_peak
                                                              : process->resident_peak_ended;
    out->user = timeval_of(info.user_ns);
    out->system = timeval_of(info.system_ns);
    out->maxrss_kib = (int64_t)(peak * (VL_PAGE_SIZE / 1024u));
    out->minflt = (int64_t)info.faults;
    out->nvcsw = (int64_t)info.switches;
    out->nivcsw = (int64_t)info.preemptions;
}

static void rusage_children(struct process *process, struct user_rusage *out)
{
    unsigned long flags = proc_lock();

    out->user = timeval_of(process->child_user_ns);
    out->system = timeval_of(process->child_system_ns);
    out->maxrss_kib = (int64_t)(process->child_resident_peak * (VL_PAGE_SIZE / 1024u));
    out->minflt = (int64_t)process->child_faults;
    out->nvcsw = (int64_t)process->child_switches;
    out->nivcsw = (int64_t)process->child_preemptions;
    proc_unlock(flags);
}

SYSCALL(getrusage)
{
    struct user_rusage usage = {0};
    uint64_t user;
    uint64_t system;

    switch ((int)a) {
    case RUSAGE_SELF:
        rusage_self(current_process(), &usage);
        break;
    case RUSAGE_CHILDREN:
        rusage_children(current_process(), &usage);
        break;
    case RUSAGE_THREAD:
        rusage_self(current_process(), &usage);
        thread_times(current(), &user, &system);
        usage.user = timeval_of(user);
        usage.system = timeval_of(system);
        usage.nvcsw = (int64_t)current()->switches;
        usage.nivcsw = (int64_t)current()->preemptions;
        break;
    default:
        return -EINVAL;
    }
    return (long)copy_to_user((uint64_t)b, &usage, sizeof(usage));
}

/* In ticks of 1/100 s. */
SYSCALL(times)
{
    const uint64_t tick = NS_PER_SECOND / 100;
    struct process *process = current_process();
    uint64_t user;
    uint64_t system;
    int64_t out[4];
    unsigned long flags;

    process_times(process, &user, &system);
    flags = proc_lock();
    out[0] = (int64_t)(user / tick);
    out[1] = (int64_t)(system / tick);
    out[2] = (int64_t)(process->child_user_ns / tick);
    out[3] = (int64_t)(process->child_system_ns / tick);
    proc_unlock(flags);
    if (a != 0 && copy_to_user((uint64_t)a, out, sizeof(out)) != VL_OK) {
        return -EFAULT;
    }
    return (long)(clock_ns() / tick);
}
