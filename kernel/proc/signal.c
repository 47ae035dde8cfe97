/*
 * signal.c - queues of signals, who takes one, and what happens to whom takes it.
 *
 * A signal is posted under the target's signal_lock: ignored ones go at once (unless blocked, since
 * the program may change its mind), others are queued on the task or on the process, and a thread
 * that does not block it is told by thread_signal(). proc_return_work() then takes them one by one
 * on the way to user mode. A signal that is sure to kill the process (default action, no core)
 * starts the group's exit when it is posted, so that waits which only a kill may end need look at
 * one word.
 *
 * Signal actions are shared by parent and child until one of them changes its own: fork copies a
 * pointer instead of 2 KiB.
 *
 * Stopping: stop_signal is set for the process; each thread counts itself in stopped_tasks and
 * sleeps as THREAD_STOPPED; the last one to do so tells the parent. stop_round tells one stop from
 * the next, so that a thread that wakes late does not mend the count of a later stop.
 */
#include "kernel/proc/internal.h"

static struct vl_cache *node_cache;

struct signal_actions signal_default_actions = {.references = 1};

void signal_init(void)
{
    static const struct vl_cache_spec spec = {
        .name = "signal", .size = sizeof(struct signal_node), .align = 8};

    if (vl_cache_create(&spec, &node_cache) != VL_OK) {
        panic("no memory for signals");
    }
}

struct signal_node *signal_node_alloc(void)
{
    return vl_cache_alloc(node_cache, VL_ATOMIC);
}

void signal_node_free(struct signal_node *node)
{
    vl_cache_free(node_cache, node);
}

void signal_nodes_free(struct vli_list *nodes)
{
    struct vli_list *pos;
    struct vli_list *next;

    vli_list_each_safe (pos, next, nodes) {
        signal_node_free(vli_list_entry(pos, struct signal_node, link));
    }
    vli_list_init(nodes);
}

void signal_queue_clear(struct signal_pending *pending)
{
    signal_nodes_free(&pending->queue);
    pending->set = 0;
}

/* ------------------------------------------------------------------------------- actions */

void signal_actions_put(struct signal_actions *actions)
{
    if (actions != &signal_default_actions &&
        atomic_fetch_sub_explicit(&actions->references, 1, memory_order_acq_rel) == 1) {
        vl_kfree(actions);
    }
}

static void actions_set(struct signal_actions *actions, int signo,
                        const struct signal_action *action)
{
    signal_set bit = SIGNAL_BIT(signo);

    actions->action[signo - 1] = *action;
    actions->ignored &= ~bit;
    actions->caught &= ~bit;
    if (action->handler == SIG_IGN) {
        actions->ignored |= bit;
    } else if (action->handler != SIG_DFL) {
        actions->caught |= bit;
    }
}

static bool actions_are_own(const struct process *process)
{
    return process->actions != &signal_default_actions && process->actions->references == 1;
}

long signal_action_store(struct process *process, int signo, const struct signal_action *action)
{
    struct signal_actions *fresh = NULL;
    struct signal_actions *old = NULL;
    unsigned long flags;

    if (!actions_are_own(process)) {
        fresh = vl_kmalloc(sizeof(*fresh), VL_WAIT);
        if (fresh == NULL) {
            return -ENOMEM;
        }
    }
    flags = signal_lock(process);
    if (fresh != NULL && !actions_are_own(process)) {
        old = process->actions;
        memcpy(fresh, old, sizeof(*fresh));
        atomic_store_explicit(&fresh->references, 1, memory_order_relaxed);
        process->actions = fresh;
        fresh = NULL;
    }
    VL_ASSERT(actions_are_own(process));
    actions_set(process->actions, signo, action);
    signal_unlock(process, flags);
    vl_kfree(fresh);
    if (old != NULL) {
        signal_actions_put(old);
    }
    return 0;
}

long signal_actions_exec(struct process *process)
{
    struct signal_actions *old = process->actions;
    struct signal_actions *fresh = &signal_default_actions;
    unsigned long flags;
    int signo;

    if (old->caught == 0) {
        return 0;
    }
    if (old->ignored != 0) {
        fresh = vl_kmalloc(sizeof(*fresh), VL_WAIT);
        if (fresh == NULL) {
            return -ENOMEM;
        }
        memset(fresh, 0, sizeof(*fresh));
        atomic_store_explicit(&fresh->references, 1, memory_order_relaxed);
        fresh->ignored = old->ignored;
        for (signo = 1; signo <= SIGNAL_MAX; signo++) {
            if ((old->ignored & SIGNAL_BIT(signo)) != 0) {
                fresh->action[signo - 1].handler = SIG_IGN;
            }
        }
    }
    flags = signal_lock(process);
    process->actions = fresh;
    signal_unlock(process, flags);
    signal_actions_put(old);
    return 0;
}

static bool signal_is_ignored(const struct process *process, int signo)
{
    signal_set bit = SIGNAL_BIT(signo);

    if ((process->actions->ignored & bit) != 0) {
        return true;
    }
    if ((process->actions->caught & bit) != 0) {
        return false;
    }
    return (SIGNALS_DEFAULT_IGNORE & bit) != 0 || (process->flags & PROCESS_UNKILLABLE) != 0;
}

bool signal_is_ignored_or_blocked(int signo)
{
    struct process *process = current_process();
    unsigned long flags = signal_lock(process);
    bool answer = (current_task()->blocked & SIGNAL_BIT(signo)) != 0 ||
                  process->actions->action[signo - 1].handler == SIG_IGN;

    signal_unlock(process, flags);
    return answer;
}

/* ------------------------------------------------------------------------------- queues */

/* Drop what is queued of @set; nodes go to @out. */
static void pending_drop(struct signal_pending *pending, signal_set set, struct vli_list *out)
{
    struct vli_list *pos;
    struct vli_list *next;

    if ((pending->set & set) == 0) {
        return;
    }
    pending->set &= ~set;
    vli_list_each_safe (pos, next, &pending->queue) {
        const struct signal_node *node = vli_list_entry(pos, struct signal_node, link);

        if ((SIGNAL_BIT(node->info.signo) & set) != 0) {
            vli_list_remove(pos);
            vli_list_insert_before(out, pos);
        }
    }
}

void signal_drop_locked(struct process *process, signal_set set, struct vli_list *out)
{
    struct vli_list *pos;

    pending_drop(&process->pending, set, out);
    vli_list_each (pos, &process->tasks) {
        pending_drop(&vli_list_entry(pos, struct task, link)->pending, set, out);
    }
}

/* Take @signo out of @pending; its info, made up when it was lost, to @out. */
static void pending_take(struct signal_pending *pending, int signo, struct signal_info *out,
                         struct signal_node **out_node)
{
    struct signal_node *found = NULL;
    struct vli_list *pos;
    bool more = false;

    vli_list_each (pos, &pending->queue) {
        struct signal_node *node = vli_list_entry(pos, struct signal_node, link);

        if (node->info.signo != signo) {
            continue;
        }
        if (found != NULL) {
            more = true;
            break;
        }
        found = node;
    }
    if (!more) {
        pending->set &= ~SIGNAL_BIT(signo);
    }
    if (found == NULL) {
        *out = (struct signal_info){.signo = signo, .code = SI_USER};
        return;
    }
    *out = found->info;
    vli_list_remove(&found->link);
    *out_node = found;
}

int signal_dequeue_locked(struct task *task, signal_set allowed, struct signal_info *out,
                          struct signal_node **out_node)
{
    struct process *process = task->process;
    signal_set own = task->pending.set & allowed;
    signal_set shared = process->pending.set & allowed;
    signal_set faults = own & SIGNALS_FAULT;
    int signo;

    if (own != 0) {
        signo = (int)vli_bit_lowest(faults != 0 ? faults : own) + 1;
        pending_take(&task->pending, signo, out, out_node);
    } else if (shared != 0) {
        signo = (int)vli_bit_lowest(shared) + 1;
        pending_take(&process->pending, signo, out, out_node);
    } else {
        return 0;
    }
    if ((SIGNALS_DEFAULT_STOP & SIGNAL_BIT(signo)) != 0) {
        process->stop_dequeued = 1;
    }
    return signo;
}

static bool task_must_die(const struct task *task)
{
    const struct process *process = task->process;

    return process->group_exit != 0 ||
           (process->exec_thread != NULL && process->exec_thread != task->thread);
}

static bool task_has_work(const struct task *task)
{
    const struct process *process = task->process;

    return ((task->pending.set | process->pending.set) & ~task->blocked) != 0 ||
           task_must_die(task) || process->stop_signal != 0 || process->continued != 0;
}

void signal_mark_self_locked(struct task *task)
{
    if (task_has_work(task)) {
        atomic_fetch_or_explicit(&task->thread->work, WORK_SIGNAL, memory_order_relaxed);
    } else if (thread_signal_pending(task->thread)) {
        thread_clear_signal(task->thread);
    }
}

void signal_mark_self(struct task *task)
{
    unsigned long flags = signal_lock(task->process);

    signal_mark_self_locked(task);
    signal_unlock(task->process, flags);
}

bool signal_is_fatal_pending(struct task *task)
{
    unsigned long flags = signal_lock(task->process);
    bool fatal = task_must_die(task);

    signal_unlock(task->process, flags);
    return fatal;
}

/* ------------------------------------------------------------------------------- posting */

static void process_resume_locked(struct process *process)
{
    struct vli_list *pos;

    process->stop_dequeued = 0;
    if (process->stop_signal == 0) {
        return;
    }
    process->continued = process->stopped_tasks == process->task_count;
    process->stop_signal = 0;
    process->stopped_tasks = 0;
    vli_list_each (pos, &process->tasks) {
        struct task *task = vli_list_entry(pos, struct task, link);

        thread_wake_stopped(task->thread);
        thread_signal(task->thread);
    }
}

static void group_exit_locked(struct process *process, uint32_t status)
{
    struct vli_list *pos;

    if (process->group_exit == 0) {
        process->group_exit = 1;
        process->group_exit_code = status;
    }
    process->stop_signal = 0;
    process->stop_dequeued = 0;
    vli_list_each (pos, &process->tasks) {
        thread_kill_mark(vli_list_entry(pos, struct task, link)->thread);
    }
}

void signal_kill_locked(struct process *process)
{
    group_exit_locked(process, SIGKILL);
}

/* May @task take @signo now, by its mask or by a sigtimedwait() that asks for it? */
static bool task_takes(const struct task *task, signal_set bit)
{
    return (task->blocked & bit) == 0 || (task->awaited & bit) != 0;
}

static bool signal_is_fatal(const struct process *process, int signo)
{
    signal_set bit = SIGNAL_BIT(signo);

    return process->actions->action[signo - 1].handler == SIG_DFL &&
           (bit & (SIGNALS_DEFAULT_IGNORE | SIGNALS_DEFAULT_STOP | SIGNALS_DEFAULT_CORE)) == 0 &&
           (process->flags & PROCESS_UNKILLABLE) == 0;
}

/* Tell a thread that takes the signal, if there is one. */
static void signal_wake_taker(struct process *process, struct task *task, int signo)
{
    signal_set bit = SIGNAL_BIT(signo);
    struct vli_list *pos;

    if (task != NULL) {
        if (!task_takes(task, bit)) {
            return;
        }
    } else {
        vli_list_each (pos, &process->tasks) {
            struct task *other = vli_list_entry(pos, struct task, link);

            if (task_takes(other, bit)) {
                task = other;
                break;
            }
        }
        if (task == NULL) {
            return;
        }
    }
    if (signal_is_fatal(process, signo) && (task->blocked & bit) == 0) {
        group_exit_locked(process, (uint32_t)signo);
        return;
    }
    thread_signal(task->thread);
}

bool signal_post_locked(struct process *process, struct task *task, const struct signal_info *info,
                        struct signal_node *node)
{
    int signo = info->signo;
    signal_set bit = SIGNAL_BIT(signo);
    struct vli_list *first = process->tasks.next;
    struct signal_pending *pending = task != NULL ? &task->pending : &process->pending;
    const struct task *judge;

    if (vli_list_is_empty(&process->tasks)) {
        return false;
    }
    if (signo == SIGKILL) {
        if ((process->flags & PROCESS_UNKILLABLE) == 0) {
            signal_kill_locked(process);
        }
        return false;
    }
    if (signo == SIGCONT) {
        signal_drop_locked(process, SIGNALS_DEFAULT_STOP, &process->dropped);
        process_resume_locked(process);
    } else if ((SIGNALS_DEFAULT_STOP & bit) != 0) {
        signal_drop_locked(process, SIGNAL_BIT(SIGCONT), &process->dropped);
    }
    judge = task != NULL ? task : vli_list_entry(first, struct task, link);
    if (signal_is_ignored(process, signo) && (judge->blocked & bit) == 0) {
        return false;
    }
    if (signo < SIGRTMIN && (pending->set & bit) != 0) {
        return false;
    }
    pending->set |= bit;
    if (node != NULL) {
        node->info = *info;
        vli_list_insert_before(&pending->queue, &node->link);
    }
    if (!wait_queue_is_empty(&process->arrivals)) {
        wake_all(&process->arrivals);
    }
    signal_wake_taker(process, task, signo);
    return node != NULL;
}

void signal_post(struct process *process, struct task *task, const struct signal_info *info)
{
    struct signal_node *node = signal_node_alloc();
    struct vli_list dropped = VLI_LIST_INIT(dropped);
    unsigned long flags = signal_lock(process);

    if (signal_post_locked(process, task, info, node)) {
        node = NULL;
    }
    vli_list_splice(&process->dropped, &dropped);
    signal_unlock(process, flags);
    if (node != NULL) {
        signal_node_free(node);
    }
    signal_nodes_free(&dropped);
}

void signal_send_bare(struct process *process, int signo)
{
    const struct signal_info info = {.signo = signo, .code = SI_KERNEL};
    unsigned long flags = signal_lock(process);

    (void)signal_post_locked(process, NULL, &info, NULL);
    signal_unlock(process, flags);
}

void signal_send_process(struct process *process, int signo)
{
    const struct signal_info info = {.signo = signo, .code = SI_KERNEL};

    signal_post(process, NULL, &info);
}

void signal_send_thread(struct thread *thread, int signo)
{
    const struct signal_info info = {.signo = signo, .code = SI_KERNEL};

    if (thread->proc != NULL) {
        signal_post(thread->proc, (struct task *)thread->proc_private, &info);
    }
}

unsigned signal_send_group(uint32_t pgid, int signo)
{
    unsigned long flags = proc_lock();
    struct process_group *group = group_find(pgid);
    struct vli_list *pos;
    unsigned count = 0;

    if (group != NULL) {
        vli_list_each (pos, &group->members) {
            signal_send_bare(vli_list_entry(pos, struct process, group_link), signo);
            count++;
        }
    }
    proc_unlock(flags);
    return count;
}

/* --------------------------------------------------------------------------- the way out */

struct stop_ticket {
    const struct task *task;
    uint32_t round;
};

/* A later stop must not find this thread asleep already: it would wait for it to count itself. */
static bool may_stop(void *arg)
{
    const struct stop_ticket *ticket = arg;
    const struct process *process = ticket->task->process;

    return process->stop_signal != 0 && process->stop_round == ticket->round &&
           !task_must_die(ticket->task);
}

/* The process is stopping: count this thread, tell the parent if it is the last, sleep. */
static void stop_here(struct process *process, struct task *task)
{
    unsigned long flags = signal_lock(process);
    struct stop_ticket ticket = {task, process->stop_round};
    uint32_t signo = process->stop_signal;
    bool all;

    if (signo == 0 || task_must_die(task)) {
        signal_unlock(process, flags);
        return;
    }
    process->stopped_tasks++;
    all = process->stopped_tasks == process->task_count;
    signal_unlock(process, flags);
    if (all) {
        child_notify(process, CLD_STOPPED, signo);
    }
    thread_stop_self(may_stop, &ticket);
    flags = signal_lock(process);
    if (process->stop_signal != 0 && process->stop_round == ticket.round) {
        process->stopped_tasks--;
    }
    signal_unlock(process, flags);
}

/* A stop signal was taken, with its default action. */
static void stop_start(struct process *process, int signo)
{
    unsigned long flags;
    struct vli_list *pos;

    if (signo != SIGSTOP && process_group_is_orphaned()) {
        return;
    }
    flags = signal_lock(process);
    if (process->stop_dequeued != 0 && process->stop_signal == 0 && process->group_exit == 0) {
        process->stop_signal = (uint32_t)signo;
        process->stop_round++;
        process->stopped_tasks = 0;
        vli_list_each (pos, &process->tasks) {
            struct task *task = vli_list_entry(pos, struct task, link);

            if (task->thread != current()) {
                thread_signal(task->thread);
            }
        }
    }
    process->stop_dequeued = 0;
    signal_unlock(process, flags);
}

enum restart_kind { RESTART_NO_HANDLER, RESTART_HANDLER, RESTART_HANDLER_RESTARTS };

/* A call that a signal cut short: EINTR, or once more. */
static void syscall_restart(struct trap_frame *frame, enum restart_kind kind)
{
    long result = (long)frame->rax;
    bool again;

    if ((int64_t)frame->error < 0) {
        return;
    }
    switch (-result) {
    case ERESTARTNOINTR:
        again = true;
        break;
    case ERESTARTSYS:
        again = kind != RESTART_HANDLER;
        break;
    case ERESTARTNOHAND:
    case ERESTARTBLOCK:
        again = kind == RESTART_NO_HANDLER;
        break;
    default:
        return;
    }
    if (again) {
        frame->rax = -result == ERESTARTBLOCK ? SYSCALL_RESTART_NUMBER : frame->error;
        frame->rip -= 2; /* the syscall instruction */
    } else {
        frame->rax = (uint64_t)-EINTR;
    }
    frame->error = UINT64_MAX;
}

/* Run the handler. */
static void handler_start(struct trap_frame *frame, struct task *task,
                          const struct signal_info *info, const struct signal_action *action)
{
    static const struct signal_action reset = {.handler = SIG_DFL};
    signal_set mask = task->blocked;
    int signo = info->signo;

    syscall_restart(frame,
                    (action->flags & SA_RESTART) != 0 ? RESTART_HANDLER_RESTARTS : RESTART_HANDLER);
    if ((task->flags & TASK_RESTORE_MASK) != 0) {
        mask = task->saved_blocked;
        task->flags &= ~TASK_RESTORE_MASK;
    }
    if ((action->flags & SA_RESETHAND) != 0 &&
        signal_action_store(task->process, signo, &reset) != 0) {
        signal_force_fatal(SIGKILL);
        return;
    }
    if (signal_frame_push(frame, task, info, action, mask) != 0) {
        signal_force_fatal(SIGSEGV);
        return;
    }
    mask = task->blocked | action->mask;
    if ((action->flags & SA_NODEFER) == 0) {
        mask |= SIGNAL_BIT(signo);
    }
    (void)signal_set_blocked(mask);
}

/* What proc_return_work() found to do. */
struct delivery {
    int signo;
    struct signal_info info;
    struct signal_action action;
    struct signal_node *node;
    struct vli_list dropped;
};

enum delivery_step { STEP_DONE, STEP_AGAIN, STEP_DIE, STEP_STOP, STEP_CONTINUED, STEP_SIGNAL };

static enum delivery_step delivery_next(struct process *process, struct task *task,
                                        struct delivery *next)
{
    unsigned long flags = signal_lock(process);
    enum delivery_step step = STEP_SIGNAL;

    vli_list_splice(&process->dropped, &next->dropped);
    next->node = NULL;
    if (task_must_die(task)) {
        step = STEP_DIE;
    } else if (process->continued != 0) {
        process->continued = 0;
        step = STEP_CONTINUED;
    } else if (process->stop_signal != 0) {
        step = STEP_STOP;
    } else {
        next->signo = signal_dequeue_locked(task, ~task->blocked, &next->info, &next->node);
        if (next->signo == 0) {
            step = STEP_DONE;
        } else {
            next->action = process->actions->action[next->signo - 1];
        }
    }
    signal_unlock(process, flags);
    if (next->node != NULL) {
        signal_node_free(next->node);
    }
    return step;
}

/* The default action. Returns only if that is not the end. */
static void default_action(struct process *process, const struct delivery *next)
{
    signal_set bit = SIGNAL_BIT(next->signo);

    if ((bit & SIGNALS_DEFAULT_IGNORE) != 0 || (process->flags & PROCESS_UNKILLABLE) != 0) {
        return;
    }
    if ((bit & SIGNALS_DEFAULT_STOP) != 0) {
        stop_start(process, next->signo);
        return;
    }
    group_exit_start((uint32_t)next->signo);
    task_exit((uint32_t)next->signo);
}

void proc_return_work(struct trap_frame *frame)
{
    struct process *process = current_process();
    struct task *task = current_task();
    struct delivery next;
    enum delivery_step step;

    vli_list_init(&next.dropped);
    do {
        step = delivery_next(process, task, &next);
        if (VLI_UNLIKELY(!vli_list_is_empty(&next.dropped))) {
            signal_nodes_free(&next.dropped);
        }
        switch (step) {
        case STEP_DIE:
            task_exit(process->group_exit_code);
        case STEP_CONTINUED:
            child_notify(process, CLD_CONTINUED, SIGCONT);
            break;
        case STEP_STOP:
            stop_here(process, task);
            break;
        case STEP_SIGNAL:
            if (next.action.handler == SIG_DFL) {
                default_action(process, &next);
            } else if (next.action.handler != SIG_IGN) {
                handler_start(frame, task, &next.info, &next.action);
                signal_mark_self(task);
                return;
            }
            break;
        default:
            break;
        }
    } while (step != STEP_DONE);
    syscall_restart(frame, RESTART_NO_HANDLER);
    if ((task->flags & TASK_RESTORE_MASK) != 0) {
        task->flags &= ~TASK_RESTORE_MASK;
        (void)signal_set_blocked(task->saved_blocked);
    }
}

void signal_force_fatal(int signo)
{
    struct process *process = current_process();
    unsigned long flags = signal_lock(process);

    process->flags &= ~PROCESS_UNKILLABLE;
    group_exit_locked(process, (uint32_t)signo);
    signal_unlock(process, flags);
}

void signal_force(const struct signal_info *info)
{
    static const struct signal_action reset = {.handler = SIG_DFL};
    struct process *process = current_process();
    struct task *task = current_task();
    signal_set bit = SIGNAL_BIT(info->signo);
    uint64_t handler = process->actions->action[info->signo - 1].handler;
    unsigned long flags;

    if ((task->blocked & bit) != 0 || handler == SIG_IGN) {
        if (handler != SIG_DFL && signal_action_store(process, info->signo, &reset) != 0) {
            signal_force_fatal(info->signo);
            return;
        }
        handler = SIG_DFL;
        (void)signal_set_blocked(task->blocked & ~bit);
    }
    if (handler == SIG_DFL) {
        flags = signal_lock(process);
        process->flags &= ~PROCESS_UNKILLABLE;
        signal_unlock(process, flags);
    }
    signal_post(process, task, info);
}
