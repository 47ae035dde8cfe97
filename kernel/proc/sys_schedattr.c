/*
 * sys_schedattr.c - sched_setattr, sched_getattr, ioprio_set and ioprio_get of one thread.
 *
 * As in sys_sched.c there is one policy: of what sched_setattr() sets the nice value has effect,
 * and the real-time and deadline policies are refused as a kernel refuses who lacks the right. An
 * I/O priority is kept, inherited and told, and has no effect: nothing here waits for a disk.
 */
#include "kernel/proc/internal.h"

#define SCHED_OTHER    0u
#define SCHED_FIFO     1u
#define SCHED_RR       2u
#define SCHED_BATCH    3u
#define SCHED_IDLE     5u
#define SCHED_DEADLINE 6u

#define FLAG_RESET_ON_FORK 1u
#define FLAG_KEEP_POLICY   8u
#define FLAG_KEEP_PARAMS   16u
#define FLAGS_KNOWN        (FLAG_RESET_ON_FORK | 2u | 4u | FLAG_KEEP_POLICY | FLAG_KEEP_PARAMS)

/* struct sched_attr of Linux's user interface, in its first version. */
struct sched_attr {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};
#define ATTR_BYTES 48u
_Static_assert(sizeof(struct sched_attr) == ATTR_BYTES, "struct sched_attr");

/* A task that is kept from ending by both locks. */
struct task_hold {
    struct task *task;
    unsigned long outer, inner;
};

/* The task of @tid (0: the running one). Returns: false: there is none, nothing is locked. */
static bool task_hold(uint32_t tid, struct task_hold *out) VL_NO_LOCK_CHECK
{
    out->outer = proc_lock();
    out->task = tid_find(tid != 0 ? tid : current()->tid);
    if (out->task != NULL) {
        out->inner = signal_lock(out->task->process);
        if (!vli_list_is_empty(&out->task->link)) {
            return true;
        }
        signal_unlock(out->task->process, out->inner);
    }
    proc_unlock(out->outer);
    return false;
}

static void task_let_go(struct task_hold *hold) VL_NO_LOCK_CHECK
{
    signal_unlock(hold->task->process, hold->inner);
    proc_unlock(hold->outer);
}

/* Tells the user how much this kernel knows. */
static long attr_too_big(uint64_t user)
{
    return put_user32(user, ATTR_BYTES) == VL_OK ? -E2BIG : -EFAULT;
}

/* Reads what the user has, of any length; what this kernel does not know must be zero. */
static long attr_read(uint64_t user, struct sched_attr *out)
{
    uint32_t size;
    uint8_t byte;

    if (get_user32(&size, user) != VL_OK) {
        return -EFAULT;
    }
    size = size != 0 ? size : ATTR_BYTES;
    if (size < ATTR_BYTES || size > VL_PAGE_SIZE) {
        return attr_too_big(user);
    }
    if (copy_from_user(out, user, sizeof(*out)) != VL_OK) {
        return -EFAULT;
    }
    for (uint32_t i = ATTR_BYTES; i < size; i++) {
        if (copy_from_user(&byte, user + i, 1) != VL_OK) {
            return -EFAULT;
        }
        if (byte != 0) {
            return attr_too_big(user);
        }
    }
    return 0;
}

static long attr_check(const struct sched_attr *attr)
{
    bool is_real_time = attr->policy == SCHED_FIFO || attr->policy == SCHED_RR;

    if ((attr->flags & ~(uint64_t)FLAGS_KNOWN) != 0) {
        return -EINVAL;
    }
    if ((attr->flags & FLAG_KEEP_POLICY) != 0) {
        return attr->priority == 0 ? 0 : -EINVAL;
    }
    if (attr->policy == SCHED_DEADLINE) {
        return -EPERM;
    }
    if (!is_real_time && attr->policy != SCHED_OTHER && attr->policy != SCHED_BATCH &&
        attr->policy != SCHED_IDLE) {
        return -EINVAL;
    }
    if (attr->priority > 99 || is_real_time != (attr->priority != 0)) {
        return -EINVAL;
    }
    return is_real_time ? -EPERM : 0;
}

/* Sets what was checked. Returns: 0, -EPERM. */
static long attr_apply(const struct sched_attr *attr, struct thread *thread)
{
    uint32_t reset = (attr->flags & FLAG_RESET_ON_FORK) != 0 ? THREAD_POLICY_RESET : 0;
    bool keeps_nice = (attr->flags & FLAG_KEEP_PARAMS) != 0;
    int32_t nice = attr->nice < -20 ? -20 : attr->nice > 19 ? 19 : attr->nice;
    long result = 0;

    if (!keeps_nice && nice < thread->nice && !capable_root()) {
        return -EPERM;
    }
    if ((attr->flags & FLAG_KEEP_POLICY) == 0) {
        result = thread_policy_set(thread, attr->policy | reset);
    }
    if (result == 0 && !keeps_nice) {
        thread->nice = nice;
    }
    return result;
}

SYSCALL(sched_setattr)
{
    struct sched_attr attr;
    struct task_hold hold;
    long result;

    if (b == 0 || (int32_t)a < 0 || (uint32_t)c != 0) {
        return -EINVAL;
    }
    result = attr_read((uint64_t)b, &attr);
    if (result != 0) {
        return result;
    }
    if ((int32_t)attr.policy < 0) {
        return -EINVAL;
    }
    if (!task_hold((uint32_t)a, &hold)) {
        return -ESRCH;
    }
    result = attr_check(&attr);
    if (result == 0) {
        result = attr_apply(&attr, hold.task->thread);
    }
    task_let_go(&hold);
    return result;
}

SYSCALL(sched_getattr)
{
    struct sched_attr attr = {.size = ATTR_BYTES};
    struct task_hold hold;
    uint32_t size = (uint32_t)c;

    if (b == 0 || (int32_t)a < 0 || size > VL_PAGE_SIZE || size < ATTR_BYTES || (uint32_t)d != 0) {
        return -EINVAL;
    }
    if (!task_hold((uint32_t)a, &hold)) {
        return -ESRCH;
    }
    attr.nice = hold.task->thread->nice;
    attr.policy = hold.task->thread->policy & ~THREAD_POLICY_RESET;
    attr.flags = attr.policy != hold.task->thread->policy ? FLAG_RESET_ON_FORK : 0;
    task_let_go(&hold);
    return copy_to_user((uint64_t)b, &attr, sizeof(attr)) == VL_OK ? 0 : -EFAULT;
}

/* ------------------------------------------------------------------------- I/O priorities */

#define IOPRIO_WHO_PROCESS 1
#define CLASS_SHIFT        13u
#define CLASS_NONE         0u
#define CLASS_REAL_TIME    1u
#define CLASS_BEST_EFFORT  2u
#define CLASS_IDLE         3u

static long ioprio_check(uint32_t value)
{
    switch (value >> CLASS_SHIFT) {
    case CLASS_REAL_TIME:
        return capable_root() ? 0 : -EPERM;
    case CLASS_BEST_EFFORT:
    case CLASS_IDLE:
        return 0;
    case CLASS_NONE:
        return (value & 7u) == 0 ? 0 : -EINVAL;
    default:
        return -EINVAL;
    }
}

/* Groups and users are named by none of the programs that set this: EINVAL. */
SYSCALL(ioprio_set)
{
    struct task_hold hold;
    long result = ioprio_check((uint32_t)c);

    if (result != 0 || (int32_t)a != IOPRIO_WHO_PROCESS) {
        return result != 0 ? result : -EINVAL;
    }
    if (!task_hold((uint32_t)b, &hold)) {
        return -ESRCH;
    }
    if (capable_root() || hold.task->process->cred.uid == current_cred()->euid ||
        hold.task->process->cred.uid == current_cred()->uid) {
        hold.task->io_priority = (uint32_t)c;
    } else {
        result = -EPERM;
    }
    task_let_go(&hold);
    return result;
}

SYSCALL(ioprio_get)
{
    struct task_hold hold;
    uint32_t value;

    if ((int32_t)a != IOPRIO_WHO_PROCESS) {
        return -EINVAL;
    }
    if (!task_hold((uint32_t)b, &hold)) {
        return -ESRCH;
    }
    value = hold.task->io_priority;
    task_let_go(&hold);
    return (long)value;
}
