/*
 * sys_sched.c - scheduling calls. There is one policy, SCHED_OTHER, with nice values; SCHED_BATCH
 * and SCHED_IDLE are kept, inherited and told, and have no effect; the real-time policies are
 * refused as a kernel refuses who lacks the right.
 */
#include "kernel/proc/internal.h"

#define SCHED_OTHER 0
#define SCHED_FIFO  1
#define SCHED_RR    2
#define SCHED_BATCH 3
#define SCHED_IDLE  5
#define SCHED_RESET ((int)THREAD_POLICY_RESET)

enum priority_which { PRIO_PROCESS, PRIO_PGRP, PRIO_USER };

SYSCALL(sched_yield)
{
    thread_yield();
    return 0;
}

/* The thread of @tid (0: the running one) with a reference, or NULL. */
static struct thread *thread_of(uint32_t tid)
{
    struct thread *thread = NULL;
    struct task *task;
    unsigned long flags;
    unsigned long inner;

    if (tid == 0) {
        thread_get(current());
        return current();
    }
    flags = proc_lock();
    task = tid_find(tid);
    if (task != NULL) {
        inner = signal_lock(task->process);
        if (!vli_list_is_empty(&task->link)) {
            thread = task->thread;
            thread_get(thread);
        }
        signal_unlock(task->process, inner);
    }
    proc_unlock(flags);
    return thread;
}

SYSCALL(sched_setaffinity)
{
    struct vl_cpumask mask = {{0}};
    size_t len = (uint32_t)b < sizeof(mask) ? (uint32_t)b : sizeof(mask);
    struct thread *thread;
    long result;

    if (copy_from_user(&mask, (uint64_t)c, len) != VL_OK) {
        return -EFAULT;
    }
    thread = thread_of((uint32_t)a);
    if (thread == NULL) {
        return -ESRCH;
    }
    result = (long)thread_set_affinity(thread, &mask);
    thread_put(thread);
    return result;
}

SYSCALL(sched_getaffinity)
{
    struct vl_cpumask mask;
    struct thread *thread;
    uint32_t len = (uint32_t)b;
    unsigned i;

    if (len % sizeof(uint64_t) != 0 || len * 8u < cpu_count()) {
        return -EINVAL;
    }
    thread = thread_of((uint32_t)a);
    if (thread == NULL) {
        return -ESRCH;
    }
    mask = thread->affinity;
    thread_put(thread);
    for (i = cpu_count(); i < VL_CPUS_MAX; i++) {
        mask.word[i / 64] &= ~((uint64_t)1 << (i % 64));
    }
    len = len < sizeof(mask) ? len : (uint32_t)sizeof(mask);
    return copy_to_user((uint64_t)c, &mask, len) != VL_OK ? -EFAULT : (long)len;
}

/* Returns: 0, -ESRCH. */
static long thread_exists(uint32_t tid)
{
    struct thread *thread = thread_of(tid);

    if (thread == NULL) {
        return -ESRCH;
    }
    thread_put(thread);
    return 0;
}

static long policy_check(int policy, int priority)
{
    switch (policy & ~SCHED_RESET) {
    case SCHED_OTHER:
    case SCHED_BATCH:
    case SCHED_IDLE:
        return priority == 0 ? 0 : -EINVAL;
    case SCHED_FIFO:
    case SCHED_RR:
        return priority >= 1 && priority <= 99 ? -EPERM : -EINVAL;
    default:
        return -EINVAL;
    }
}

long thread_policy_set(struct thread *thread, uint32_t policy)
{
    bool leaves_idle = (thread->policy & ~THREAD_POLICY_RESET) == SCHED_IDLE &&
                       (policy & ~THREAD_POLICY_RESET) != SCHED_IDLE;
    bool keeps_nice = (thread->policy & ~policy & THREAD_POLICY_RESET) != 0;

    if ((leaves_idle || keeps_nice) && !capable_root()) {
        return -EPERM;
    }
    thread->policy = policy;
    return 0;
}

SYSCALL(sched_setscheduler)
{
    struct thread *thread;
    uint32_t priority;
    long result;

    if ((int32_t)a < 0 || c == 0) {
        return -EINVAL;
    }
    if (get_user32(&priority, (uint64_t)c) != VL_OK) {
        return -EFAULT;
    }
    thread = thread_of((uint32_t)a);
    if (thread == NULL) {
        return -ESRCH;
    }
    result = policy_check((int)b, (int)priority);
    if (result == 0) {
        result = thread_policy_set(thread, (uint32_t)b);
    }
    thread_put(thread);
    return result;
}

SYSCALL(sched_setparam)
{
    uint32_t priority;
    long result;

    if ((int32_t)a < 0 || b == 0) {
        return -EINVAL;
    }
    if (get_user32(&priority, (uint64_t)b) != VL_OK) {
        return -EFAULT;
    }
    result = thread_exists((uint32_t)a);
    return result != 0 ? result : policy_check(SCHED_OTHER, (int)priority);
}

SYSCALL(sched_getscheduler)
{
    struct thread *thread = (int32_t)a < 0 ? NULL : thread_of((uint32_t)a);
    long policy;

    if (thread == NULL) {
        return (int32_t)a < 0 ? -EINVAL : -ESRCH;
    }
    policy = (long)thread->policy;
    thread_put(thread);
    return policy;
}

SYSCALL(sched_getparam)
{
    long result;

    if ((int32_t)a < 0 || b == 0) {
        return -EINVAL;
    }
    result = thread_exists((uint32_t)a);
    return result != 0 ? result : (long)put_user32((uint64_t)b, 0);
}

SYSCALL(sched_get_priority_max)
{
    switch ((int)a) {
    case SCHED_FIFO:
    case SCHED_RR:
        return 99;
    case SCHED_OTHER:
    case SCHED_BATCH:
    case SCHED_IDLE:
        return 0;
    default:
        return -EINVAL;
    }
}

SYSCALL(sched_get_priority_min)
{
    switch ((int)a) {
    case SCHED_FIFO:
    case SCHED_RR:
        return 1;
    case SCHED_OTHER:
    case SCHED_BATCH:
    case SCHED_IDLE:
        return 0;
    default:
        return -EINVAL;
    }
}

SYSCALL(sched_rr_get_interval)
{
    long result = thread_exists((uint32_t)a);

    return result != 0 ? result : user_timespec_put((uint64_t)b, TICK_NS);
}

/* ---------------------------------------------------------------------------------- nice */

static bool priority_is_meant(const struct process *process, uint32_t which, uint32_t who)
{
    const struct process *self = current_process();

    switch (which) {
    case PRIO_PROCESS:
        return process->pid == (who != 0 ? who : self->pid);
    case PRIO_PGRP:
        return process->group != NULL && process->group->id == (who != 0 ? who : self->group->id);
    default:
        return process->cred.uid == (who != 0 ? who : self->cred.uid);
    }
}

/* Sets (or only reads, as the best) the nice value of a process's threads. */
static long process_nice(struct process *process, const int32_t *fresh, int32_t *best)
{
    unsigned long flags = signal_lock(process);
    struct vli_list *pos;
    long result = 0;

    vli_list_each (pos, &process->tasks) {
        struct thread *thread = vli_list_entry(pos, struct task, link)->thread;

        if (fresh != NULL && *fresh < thread->nice && !capable_root()) {
            result = -EACCES;
        } else if (fresh != NULL) {
            thread->nice = *fresh;
        }
        if (thread->nice < *best) {
            *best = thread->nice;
        }
    }
    signal_unlock(process, flags);
    return result;
}

/* Returns: 0; -ESRCH nobody is meant; -EACCES. */
static long priority_each(uint32_t which, uint32_t who, const int32_t *fresh, int32_t *best)
{
    struct process *process = process_next(1);
    long result = -ESRCH;
    uint32_t pid;

    while (process != NULL) {
        unsigned long flags = proc_lock();
        bool meant = priority_is_meant(process, which, who);

        proc_unlock(flags);
        pid = process->pid;
        if (meant) {
            long one = process_nice(process, fresh, best);

            result = result == -ESRCH || one != 0 ? one : result;
        }
        process_put(process);
        process = process_next(pid + 1);
    }
    return result;
}

SYSCALL(getpriority)
{
    int32_t best = 20;
    long result;

    if ((uint32_t)a > PRIO_USER) {
        return -EINVAL;
    }
    result = priority_each((uint32_t)a, (uint32_t)b, NULL, &best);
    return result != 0 ? result : 20 - (long)best;
}

SYSCALL(setpriority)
{
    int32_t nice = (int32_t)c;
    int32_t best = 20;

    if ((uint32_t)a > PRIO_USER) {
        return -EINVAL;
    }
    nice = nice < -20 ? -20 : nice > 19 ? 19 : nice;
    return priority_each((uint32_t)a, (uint32_t)b, &nice, &best);
}

SYSCALL(getcpu)
{
    uint32_t id = vl_host_cpu_id();

    if (a != 0 && put_user32((uint64_t)a, id) != VL_OK) {
        return -EFAULT;
    }
    return b != 0 ? (long)put_user32((uint64_t)b, vl_host_cpu_node(id)) : 0;
}
