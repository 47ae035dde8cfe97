/*
 * wait.c - wait4 and waitid, and telling parents.
 *
 * A parent sleeps on its child_wait queue; whoever changes a child's state in a way that counts
 * (ended, stopped, gone on) wakes it after the change, under proc_lock.
 */
#include "kernel/proc/internal.h"
#include "kernel/proc/pidfd.h"

#define WNOHANG    0x00000001u
#define WUNTRACED  0x00000002u
#define WEXITED    0x00000004u
#define WCONTINUED 0x00000008u
#define WNOWAIT    0x01000000u
#define WNOTHREAD  0x20000000u
#define WALL       0x40000000u
#define WCLONE     0x80000000u

#define STATUS_CONTINUED 0xffffu

enum wait_whom { P_ALL, P_PID, P_PGID, P_PIDFD };

struct wait_request {
    enum wait_whom whom;
    uint32_t id;
    uint32_t options;
    struct process *reaped; /* to be dropped without locks */
    struct process_group *group;
    struct wait_result result;
    struct user_rusage *rusage; /* NULL: not wanted */
};

/* ------------------------------------------------------------------------------- telling */

static void exit_info(const struct process *process, struct signal_info *info)
{
    uint32_t status = process->exit_status;

    *info = (struct signal_info){.signo = (int32_t)process->exit_signal};
    info->u.child.pid = (int32_t)process->pid;
    info->u.child.uid = process->cred.uid;
    info->u.child.utime = (int64_t)(process->ended_user_ns / 10000000u);
    info->u.child.stime = (int64_t)(process->ended_system_ns / 10000000u);
    if ((status & 0x7fu) == 0) {
        info->code = CLD_EXITED;
        info->u.child.status = (int32_t)(status >> 8);
    } else {
        info->code = (status & 0x80u) != 0 ? CLD_DUMPED : CLD_KILLED;
        info->u.child.status = (int32_t)(status & 0x7fu);
    }
}

bool child_report_exit(struct process *process, struct signal_node **node)
{
    struct process *parent = process->parent;
    struct signal_info info;
    unsigned long flags;
    bool autoreap = false;
    const struct signal_action *action;

    flags = signal_lock(parent);
    action = &parent->actions->action[SIGCHLD - 1];
    if (process->exit_signal == SIGCHLD) {
        autoreap = action->handler == SIG_IGN || (action->flags & SA_NOCLDWAIT) != 0;
    }
    if (process->exit_signal != 0 &&
        !(process->exit_signal == SIGCHLD && action->handler == SIG_IGN)) {
        exit_info(process, &info);
        if (signal_post_locked(parent, NULL, &info, node != NULL ? *node : NULL)) {
            *node = NULL;
        }
    }
    signal_unlock(parent, flags);
    wake_all(&parent->child_wait);
    return autoreap;
}

void child_notify(struct process *process, int code, uint32_t status)
{
    struct signal_node *node = signal_node_alloc();
    struct signal_info info = {.signo = SIGCHLD, .code = code};
    struct process *parent;
    unsigned long flags = proc_lock();
    unsigned long inner;

    process->report = (uint32_t)code;
    process->report_status = status;
    parent = process->parent;
    if (parent != NULL && process->state == PROCESS_ALIVE) {
        info.u.child.pid = (int32_t)process->pid;
        info.u.child.uid = process->cred.uid;
        info.u.child.status = (int32_t)status;
        inner = signal_lock(parent);
        if ((parent->actions->action[SIGCHLD - 1].flags & SA_NOCLDSTOP) == 0 &&
            signal_post_locked(parent, NULL, &info, node)) {
            node = NULL;
        }
        signal_unlock(parent, inner);
        wake_all(&parent->child_wait);
    }
    proc_unlock(flags);
    if (node != NULL) {
        signal_node_free(node);
    }
}

/* ------------------------------------------------------------------------------- waiting */

static bool child_is_meant(const struct wait_request *request, const struct process *child)
{
    bool is_clone = child->exit_signal != SIGCHLD;

    if (request->whom == P_PID && child->pid != request->id) {
        return false;
    }
    if (request->whom == P_PGID && child->group->id != request->id) {
        return false;
    }
    return (request->options & WALL) != 0 || is_clone == ((request->options & WCLONE) != 0);
}

static void rusage_of_zombie(const struct process *child, struct user_rusage *out)
{
    uint64_t user_ns = child->ended_user_ns + child->child_user_ns;
    uint64_t system_ns = child->ended_system_ns + child->child_system_ns;
    uint64_t peak = child->resident_peak_ended > child->child_resident_peak
                        ? child->resident_peak_ended
                        : child->child_resident_peak;

    *out = (struct user_rusage){.user = {(int64_t)(user_ns / NS_PER_SECOND),
                                         (int64_t)(user_ns % NS_PER_SECOND / NS_PER_US)},
                                .system = {(int64_t)(system_ns / NS_PER_SECOND),
                                           (int64_t)(system_ns % NS_PER_SECOND / NS_PER_US)},
                                .maxrss_kib = (int64_t)(peak * (VL_PAGE_SIZE / 1024u)),
                                .minflt = (int64_t)(child->faults_ended + child->child_faults),
                                .nvcsw = (int64_t)(child->ended_switches + child->child_switches),
                                .nivcsw =
                                    (int64_t)(child->ended_preemptions + child->child_preemptions)};
}

/* Locks: proc_lock held. */
static void usage_to_parent(struct process *parent, const struct process *child)
{
    parent->child_user_ns += child->ended_user_ns + child->child_user_ns;
    parent->child_system_ns += child->ended_system_ns + child->child_system_ns;
    parent->child_faults += child->faults_ended + child->child_faults;
    parent->child_switches += child->ended_switches + child->child_switches;
    parent->child_preemptions += child->ended_preemptions + child->child_preemptions;
    if (child->resident_peak_ended > parent->child_resident_peak) {
        parent->child_resident_peak = child->resident_peak_ended;
    }
    if (child->child_resident_peak > parent->child_resident_peak) {
        parent->child_resident_peak = child->child_resident_peak;
    }
}

/* Take what @child has to report, if it is wanted. Locks: proc_lock held. */
static bool child_take(struct wait_request *request, struct process *child)
{
    struct wait_result *result = &request->result;
    bool keep = (request->options & WNOWAIT) != 0;

    if (child->state == PROCESS_ZOMBIE) {
        if ((request->options & WEXITED) == 0) {
            return false;
        }
        result->status = child->exit_status;
        result->code = (child->exit_status & 0x7fu) == 0   ? CLD_EXITED
                       : (child->exit_status & 0x80u) != 0 ? CLD_DUMPED
                                                           : CLD_KILLED;
        if (request->rusage != NULL) {
            rusage_of_zombie(child, request->rusage);
        }
    } else if (child->report == CLD_STOPPED && (request->options & WUNTRACED) != 0) {
        result->status = child->report_status << 8 | 0x7fu;
        result->code = CLD_STOPPED;
    } else if (child->report == CLD_CONTINUED && (request->options & WCONTINUED) != 0) {
        result->status = STATUS_CONTINUED;
        result->code = CLD_CONTINUED;
    } else {
        return false;
    }
    result->pid = child->pid;
    result->uid = child->cred.uid;
    if (!keep) {
        child->report = 0;
        if (child->state == PROCESS_ZOMBIE) {
            usage_to_parent(current_process(), child);
            request->group = process_unlink(child);
            request->reaped = child;
        }
    }
    return true;
}

/* Returns: 1 found; 0 none yet; -ECHILD nobody to wait for. */
static long children_scan(struct wait_request *request)
{
    struct process *self = current_process();
    unsigned long flags = proc_lock();
    struct vli_list *pos;
    long result = -ECHILD;

    vli_list_each (pos, &self->children) {
        struct process *child = vli_list_entry(pos, struct process, sibling);

        if (!child_is_meant(request, child)) {
            continue;
        }
        result = 0;
        if (child_take(request, child)) {
            result = 1;
            break;
        }
    }
    proc_unlock(flags);
    return result;
}

/* Returns: 1 and request->result; 0 with WNOHANG; a negated errno. */
static long wait_any(struct wait_request *request)
{
    struct waiter waiter;
    long result = children_scan(request);

    if (result == 0 && (request->options & WNOHANG) == 0) {
        waiter_init(&waiter);
        for (;;) {
            wait_prepare(&current_process()->child_wait, &waiter, WAIT_INTERRUPTIBLE);
            result = children_scan(request);
            if (result != 0) {
                break;
            }
            if (wait_sleep(WAIT_FOREVER) == VL_EINTR) {
                result = -ERESTARTSYS;
                break;
            }
        }
        wait_finish(&waiter);
    }
    if (request->reaped != NULL) {
        group_free(request->group);
        process_put(request->reaped);
    }
    return result;
}

SYSCALL(wait4)
{
    int32_t pid = (int32_t)a;
    struct user_rusage rusage = {0};
    struct wait_request request = {.options = (uint32_t)c};
    long result;

    if ((request.options & ~(WNOHANG | WUNTRACED | WCONTINUED | WNOTHREAD | WCLONE | WALL)) != 0) {
        return -EINVAL;
    }
    if (pid == INT32_MIN) {
        return -ESRCH;
    }
    request.options |= WEXITED;
    request.rusage = d != 0 ? &rusage : NULL;
    if (pid > 0) {
        request.whom = P_PID;
        request.id = (uint32_t)pid;
    } else if (pid != -1) {
        request.whom = P_PGID;
        request.id = pid == 0 ? process_group_id() : (uint32_t)-pid;
    }
    result = wait_any(&request);
    if (result != 1) {
        return result;
    }
    if (b != 0 && put_user32((uint64_t)b, request.result.status) != VL_OK) {
        return -EFAULT;
    }
    if (d != 0 && copy_to_user((uint64_t)d, &rusage, sizeof(rusage)) != VL_OK) {
        return -EFAULT;
    }
    return (long)request.result.pid;
}

static long waitid_info_put(uint64_t user, const struct wait_request *request, bool found)
{
    struct signal_info info = {0};
    const struct wait_result *result = &request->result;

    if (user == 0) {
        return 0;
    }
    if (found) {
        info.signo = SIGCHLD;
        info.code = result->code;
        info.u.child.pid = (int32_t)result->pid;
        info.u.child.uid = result->uid;
        info.u.child.status = result->code == CLD_EXITED      ? (int32_t)(result->status >> 8)
                              : result->code == CLD_STOPPED   ? (int32_t)(result->status >> 8)
                              : result->code == CLD_CONTINUED ? SIGCONT
                                                              : (int32_t)(result->status & 0x7fu);
    }
    /* Linux writes up to si_status and leaves the rest of the user's siginfo alone. */
    return (long)copy_to_user(user, &info, offsetof(struct signal_info, u.child.utime) - 4);
}

/* Whom waitid() means. 0 or a negated errno. */
static long waitid_whom(struct wait_request *request, int whom, int32_t id)
{
    struct process *process;
    bool nonblock;
    long result = 0;

    request->whom = (enum wait_whom)whom;
    switch (whom) {
    case P_ALL:
        break;
    case P_PID:
        result = id <= 0 ? -EINVAL : 0;
        break;
    case P_PGID:
        result = id < 0 ? -EINVAL : 0;
        if (id == 0) {
            request->id = process_group_id();
        }
        break;
    case P_PIDFD:
        result = id < 0 ? -EINVAL : pidfd_process(id, &process, &nonblock);
        if (result == 0) {
            request->whom = P_PID;
            request->id = process->pid;
            request->options |= nonblock ? WNOHANG : 0;
            process_put(process);
        } else if (result == -EINVAL && id >= 0) {
            result = -EBADF;
        }
        break;
    default:
        result = -EINVAL;
    }
    return result;
}

SYSCALL(waitid)
{
    struct user_rusage rusage = {0};
    struct wait_request request = {.options = (uint32_t)d, .id = (uint32_t)b};
    long result;

    if ((request.options & ~(WNOHANG | WNOWAIT | WEXITED | WUNTRACED | WCONTINUED | WNOTHREAD |
                             WCLONE | WALL)) != 0 ||
        (request.options & (WEXITED | WUNTRACED | WCONTINUED)) == 0) {
        return -EINVAL;
    }
    result = waitid_whom(&request, (int)a, (int32_t)b);
    if (result != 0) {
        return result;
    }
    request.rusage = e != 0 ? &rusage : NULL;
    result = wait_any(&request);
    if (result < 0) {
        return result;
    }
    if (result == 1 && e != 0 && copy_to_user((uint64_t)e, &rusage, sizeof(rusage)) != VL_OK) {
        return -EFAULT;
    }
    return waitid_info_put((uint64_t)c, &request, result == 1);
}
