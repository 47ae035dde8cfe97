/*
 * sys_signal.c - the calls that send signals, wait for them, and set masks and actions.
 */
#include "kernel/proc/internal.h"

#define SIG_BLOCK   0
#define SIG_UNBLOCK 1
#define SIG_SETMASK 2

static bool signo_is_valid(int signo)
{
    return signo >= 1 && signo <= SIGNAL_MAX;
}

/* --------------------------------------------------------------------------------- masks */

signal_set signal_set_blocked(signal_set mask)
{
    struct process *process = current_process();
    struct task *task = current_task();
    unsigned long flags = signal_lock(process);
    signal_set old = task->blocked;
    signal_set newly;
    struct vli_list *pos;

    mask &= ~SIGNALS_UNBLOCKABLE;
    task->blocked = mask;
    /* What was sent to the process, and was ours to take until now, is another thread's. */
    newly = mask & ~old & process->pending.set;
    if (VLI_UNLIKELY(newly != 0) && process->task_count > 1) {
        vli_list_each (pos, &process->tasks) {
            struct task *other = vli_list_entry(pos, struct task, link);

            if (other != task && (newly & ~other->blocked) != 0) {
                thread_signal(other->thread);
            }
        }
    }
    signal_mark_self_locked(task);
    signal_unlock(process, flags);
    return old;
}

void signal_mask_for_call(signal_set mask)
{
    struct task *task = current_task();

    task->saved_blocked = signal_set_blocked(mask);
    task->flags |= TASK_RESTORE_MASK;
}

void signal_mask_restore(void)
{
    struct task *task = current_task();

    if ((task->flags & TASK_RESTORE_MASK) != 0 && !thread_signal_pending(current())) {
        task->flags &= ~TASK_RESTORE_MASK;
        (void)signal_set_blocked(task->saved_blocked);
    }
}

SYSCALL(rt_sigprocmask)
{
    struct task *task = current_task();
    signal_set old = task->blocked;
    signal_set set;

    if ((size_t)d != sizeof(signal_set)) {
        return -EINVAL;
    }
    if (b != 0) {
        if (get_user64(&set, (uint64_t)b) != VL_OK) {
            return -EFAULT;
        }
        switch ((int)a) {
        case SIG_BLOCK:
            set |= old;
            break;
        case SIG_UNBLOCK:
            set = old & ~set;
            break;
        case SIG_SETMASK:
            break;
        default:
            return -EINVAL;
        }
        if ((set & ~SIGNALS_UNBLOCKABLE) != old) {
            (void)signal_set_blocked(set);
        }
    }
    if (c != 0 && put_user64((uint64_t)c, old) != VL_OK) {
        return -EFAULT;
    }
    return 0;
}

SYSCALL(rt_sigpending)
{
    struct task *task = current_task();
    unsigned long flags = signal_lock(task->process);
    signal_set set = (task->pending.set | task->process->pending.set) & task->blocked;

    signal_unlock(task->process, flags);
    if ((size_t)b > sizeof(set)) {
        return -EINVAL;
    }
    return (long)copy_to_user((uint64_t)a, &set, (size_t)b);
}

SYSCALL(rt_sigaction)
{
    struct process *process = current_process();
    struct vli_list dropped = VLI_LIST_INIT(dropped);
    struct signal_action fresh;
    struct signal_action old;
    int signo = (int)a;
    unsigned long flags;
    bool ignored;

    if ((size_t)d != sizeof(signal_set) || !signo_is_valid(signo)) {
        return -EINVAL;
    }
    if (b != 0 && copy_from_user(&fresh, (uint64_t)b, sizeof(fresh)) != VL_OK) {
        return -EFAULT;
    }
    if (b != 0 && (signo == SIGKILL || signo == SIGSTOP)) {
        return -EINVAL;
    }
    flags = signal_lock(process);
    old = process->actions->action[signo - 1];
    signal_unlock(process, flags);
    if (b != 0) {
        fresh.mask &= ~SIGNALS_UNBLOCKABLE;
        fresh.flags &= SA_KNOWN;
        if (memcmp(&fresh, &old, sizeof(fresh)) != 0 &&
            signal_action_store(process, signo, &fresh) != 0) {
            return -ENOMEM;
        }
        ignored = fresh.handler == SIG_IGN ||
                  (fresh.handler == SIG_DFL && (SIGNALS_DEFAULT_IGNORE & SIGNAL_BIT(signo)) != 0);
        if (ignored) {
            flags = signal_lock(process);
            signal_drop_locked(process, SIGNAL_BIT(signo), &dropped);
            signal_unlock(process, flags);
            signal_nodes_free(&dropped);
        }
    }
    if (c != 0 && copy_to_user((uint64_t)c, &old, sizeof(old)) != VL_OK) {
        return -EFAULT;
    }
    return 0;
}

/* ------------------------------------------------------------------------------- waiting */

/* Sleep until something is to be delivered. */
static void sleep_for_signal(void)
{
    while (!thread_signal_pending(current())) {
        if (sleep_until_ns(WAIT_FOREVER, WAIT_INTERRUPTIBLE) == VL_EINTR) {
            break;
        }
    }
}

SYSCALL(pause)
{
    sleep_for_signal();
    return -ERESTARTNOHAND;
}

SYSCALL(rt_sigsuspend)
{
    signal_set set;

    if ((size_t)b != sizeof(set)) {
        return -EINVAL;
    }
    if (get_user64(&set, (uint64_t)a) != VL_OK) {
        return -EFAULT;
    }
    signal_mask_for_call(set);
    sleep_for_signal();
    return -ERESTARTNOHAND;
}

/* Take one of @set, or have it wake us. */
static int await_try(struct task *task, signal_set set, struct signal_info *info)
{
    struct signal_node *node = NULL;
    unsigned long flags = signal_lock(task->process);
    int signo = signal_dequeue_locked(task, set, info, &node);

    task->awaited = signo == 0 ? set : 0;
    signal_mark_self_locked(task);
    signal_unlock(task->process, flags);
    if (node != NULL) {
        signal_node_free(node);
    }
    return signo;
}

int signal_take(signal_set set, struct signal_info *out)
{
    int signo = await_try(current_task(), set, out);

    current_task()->awaited = 0;
    return signo;
}

bool signal_is_pending(signal_set set)
{
    const struct task *task = current_task();
    unsigned long flags = signal_lock(task->process);
    bool answer = ((task->pending.set | task->process->pending.set) & set) != 0;

    signal_unlock(task->process, flags);
    return answer;
}

SYSCALL(rt_sigtimedwait)
{
    struct task *task = current_task();
    struct signal_info info;
    uint64_t deadline = WAIT_FOREVER;
    uint64_t timeout_ns;
    signal_set set;
    int signo;
    long result;

    if ((size_t)d != sizeof(set)) {
        return -EINVAL;
    }
    if (get_user64(&set, (uint64_t)a) != VL_OK) {
        return -EFAULT;
    }
    set &= ~SIGNALS_UNBLOCKABLE;
    if (c != 0) {
        result = user_timespec_get((uint64_t)c, &timeout_ns);
        if (result != 0) {
            return result;
        }
        deadline = deadline_after(timeout_ns);
    }
    signo = await_try(task, set, &info);
    if (signo == 0) {
        enum vl_status status = VL_EINTR;

        if (!thread_signal_pending(current())) {
            status = sleep_until_ns(deadline, WAIT_INTERRUPTIBLE);
        }
        signo = await_try(task, set, &info);
        task->awaited = 0;
        if (signo == 0) {
            return status == VL_EINTR ? -EINTR : -EAGAIN;
        }
    }
    if (b != 0 && copy_to_user((uint64_t)b, &info, sizeof(info)) != VL_OK) {
        return -EFAULT;
    }
    return signo;
}

/* ------------------------------------------------------------------------------- sending */

static bool may_signal(const struct process *target, int signo)
{
    const struct credentials *own = current_cred();
    const struct credentials *other = &target->cred;

    if (own->euid == 0 || own->euid == other->suid || own->euid == other->uid ||
        own->uid == other->suid || own->uid == other->uid) {
        return true;
    }
    return signo == SIGCONT && target->group != NULL &&
           target->group->session == current_process()->group->session;
}

static void sender_info(struct signal_info *info, int signo, int code)
{
    *info = (struct signal_info){.signo = signo, .code = code};
    info->u.sender.pid = (int32_t)current_process()->pid;
    info->u.sender.uid = current_cred()->uid;
}

long signal_send_info(struct process *process, const struct signal_info *info)
{
    unsigned long flags = proc_lock();
    long result = may_signal(process, info->signo) ? 0 : -EPERM;

    proc_unlock(flags);
    if (result == 0 && info->signo != 0) {
        signal_post(process, NULL, info);
    }
    return result;
}

/* To one process, with its info. */
static long kill_process(uint32_t pid, const struct signal_info *info)
{
    unsigned long flags = proc_lock();
    struct task *task = tid_find(pid);
    struct process *process = task != NULL ? task->process : NULL;
    long result = -ESRCH;

    if (process != NULL) {
        process_get(process);
        result = may_signal(process, info->signo) ? 0 : -EPERM;
    }
    proc_unlock(flags);
    if (process == NULL) {
        return result;
    }
    if (result == 0 && info->signo != 0) {
        signal_post(process, NULL, info);
    }
    process_put(process);
    return result;
}

/* A node for each process that may be meant is at hand before the lock is taken; with none left
 * the signal goes without its info. */
struct node_stock {
    struct vli_list nodes;
};

static void node_stock_fill(struct node_stock *stock, unsigned count)
{
    struct signal_node *node;

    vli_list_init(&stock->nodes);
    while (count-- != 0) {
        node = signal_node_alloc();
        if (node == NULL) {
            return;
        }
        vli_list_insert_after(&stock->nodes, &node->link);
    }
}

static void send_from_stock(struct process *target, const struct signal_info *info,
                            struct node_stock *stock)
{
    struct signal_node *node = NULL;
    unsigned long flags;

    if (!vli_list_is_empty(&stock->nodes)) {
        node = vli_list_first(&stock->nodes, struct signal_node, link);
        vli_list_remove(&node->link);
    }
    flags = signal_lock(target);
    if (signal_post_locked(target, NULL, info, node)) {
        node = NULL;
    }
    signal_unlock(target, flags);
    if (node != NULL) {
        vli_list_insert_after(&stock->nodes, &node->link);
    }
}

static long kill_group(uint32_t pgid, const struct signal_info *info)
{
    struct node_stock stock;
    struct process_group *group;
    struct vli_list *pos;
    unsigned long flags = proc_lock();
    unsigned members;
    long result = -ESRCH;

    group = group_find(pgid);
    members = group != NULL ? group->references : 0;
    proc_unlock(flags);
    node_stock_fill(&stock, info->signo != 0 ? members : 0);
    flags = proc_lock();
    group = group_find(pgid);
    if (group != NULL) {
        vli_list_each (pos, &group->members) {
            struct process *target = vli_list_entry(pos, struct process, group_link);

            if (!may_signal(target, info->signo)) {
                result = result == 0 ? 0 : -EPERM;
                continue;
            }
            result = 0;
            if (info->signo != 0) {
                send_from_stock(target, info, &stock);
            }
        }
    }
    proc_unlock(flags);
    signal_nodes_free(&stock.nodes);
    return result;
}

/* kill(-1): everybody but process 1 and the caller. */
static long kill_all(const struct signal_info *info)
{
    struct process *target = process_next(2);
    struct process *self = current_process();
    long result = -ESRCH;
    uint32_t pid;

    while (target != NULL) {
        pid = target->pid;
        if (target != self) {
            if (!may_signal(target, info->signo)) {
                result = result == 0 ? 0 : -EPERM;
            } else {
                result = 0;
                if (info->signo != 0) {
                    signal_post(target, NULL, info);
                }
            }
        }
        process_put(target);
        target = process_next(pid + 1);
    }
    return result;
}

SYSCALL(kill)
{
    int32_t pid = (int32_t)a;
    struct signal_info info;

    if ((int)b != 0 && !signo_is_valid((int)b)) {
        return -EINVAL;
    }
    sender_info(&info, (int)b, SI_USER);
    if (pid > 0) {
        return kill_process((uint32_t)pid, &info);
    }
    if (pid == 0) {
        return kill_group(process_group_id(), &info);
    }
    if (pid == -1) {
        return kill_all(&info);
    }
    return pid == INT32_MIN ? -ESRCH : kill_group((uint32_t)-pid, &info);
}

/* To thread @tid, of process @tgid unless that is 0. */
static long send_to_thread(uint32_t tgid, uint32_t tid, const struct signal_info *info)
{
    struct signal_node *node = signal_node_alloc();
    unsigned long flags = proc_lock();
    unsigned long inner;
    struct task *task = tid_find(tid);
    long result = -ESRCH;

    if (task != NULL && (tgid == 0 || task->process->pid == tgid)) {
        result = may_signal(task->process, info->signo) ? 0 : -EPERM;
        if (result == 0 && info->signo != 0) {
            inner = signal_lock(task->process);
            /* A main thread that has exited is still found, and is no longer on the list. */
            if (!vli_list_is_empty(&task->link) &&
                signal_post_locked(task->process, task, info, node)) {
                node = NULL;
            }
            signal_unlock(task->process, inner);
        }
    }
    proc_unlock(flags);
    if (node != NULL) {
        signal_node_free(node);
    }
    return result;
}

SYSCALL(tgkill)
{
    struct signal_info info;

    if ((int32_t)a <= 0 || (int32_t)b <= 0 || ((int)c != 0 && !signo_is_valid((int)c))) {
        return -EINVAL;
    }
    sender_info(&info, (int)c, SI_TKILL);
    return send_to_thread((uint32_t)a, (uint32_t)b, &info);
}

SYSCALL(tkill)
{
    struct signal_info info;

    if ((int32_t)a <= 0 || ((int)b != 0 && !signo_is_valid((int)b))) {
        return -EINVAL;
    }
    sender_info(&info, (int)b, SI_TKILL);
    return send_to_thread(0, (uint32_t)a, &info);
}

/* Reads a siginfo from a user who may not pretend to be the kernel or kill(). */
static long queue_info_get(struct signal_info *info, uint64_t user, int signo, bool to_self)
{
    if (copy_from_user(info, user, sizeof(*info)) != VL_OK) {
        return -EFAULT;
    }
    if (!signo_is_valid(signo) && signo != 0) {
        return -EINVAL;
    }
    info->signo = signo;
    return (info->code >= 0 || info->code == SI_TKILL) && !to_self ? -EPERM : 0;
}

long signal_info_for(int signo, uint64_t user, bool to_self, struct signal_info *out)
{
    if (user != 0) {
        return queue_info_get(out, user, signo, to_self);
    }
    if (!signo_is_valid(signo) && signo != 0) {
        return -EINVAL;
    }
    sender_info(out, signo, SI_USER);
    return 0;
}

SYSCALL(rt_sigqueueinfo)
{
    struct signal_info info;
    bool to_self = (uint32_t)a == current_process()->pid;
    long result = queue_info_get(&info, (uint64_t)c, (int)b, to_self);

    return result != 0 ? result : kill_process((uint32_t)a, &info);
}

SYSCALL(rt_tgsigqueueinfo)
{
    struct signal_info info;
    bool to_self = (uint32_t)a == current_process()->pid;
    long result;

    if ((int32_t)a <= 0 || (int32_t)b <= 0) {
        return -EINVAL;
    }
    result = queue_info_get(&info, (uint64_t)d, (int)c, to_self);
    return result != 0 ? result : send_to_thread((uint32_t)a, (uint32_t)b, &info);
}
