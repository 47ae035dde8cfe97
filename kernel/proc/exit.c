/*
 * exit.c - the end of threads and processes.
 *
 * A thread ends in this order: it leaves what it shares through memory (space_leave), then the
 * space; it leaves the list of tasks; the last one also gives up the process's resources and
 * turns it into a zombie, or frees it when the parent does not want to know. After the list is left
 * nobody can reach the thread; its struct task is its own to free, but for the main task, which
 * lives with the process.
 */
#include "kernel/ipc/ipc.h"
#include "kernel/proc/internal.h"
#include "kernel/proc/pidfd.h"
#include "kernel/proc/posix_timer.h"

static void vfork_done(struct task *task)
{
    unsigned long flags = signal_lock(task->process);
    struct vfork_wait *wait = task->vfork;

    task->vfork = NULL;
    if (wait != NULL) {
        /* Release: pairs with the acquire in vfork_wait(). */
        atomic_store_explicit(&wait->done, 1, memory_order_release);
        wake_all(&wait->queue);
    }
    signal_unlock(task->process, flags);
}

void space_leave(struct task *task)
{
    struct process *process = task->process;

    if (task->robust_list != 0) {
        futex_robust_exit(task);
        task->robust_list = 0;
    }
    if (task->clear_child_tid != 0) {
        /* Nobody else is there to see it otherwise, and the page might have to be copied for it. */
        if (process->task_count > 1 || (process->flags & PROCESS_SHARES_SPACE) != 0) {
            if (put_user32(task->clear_child_tid, 0) == VL_OK) {
                futex_wake_word(task->clear_child_tid, 1);
            }
        }
        task->clear_child_tid = 0;
    }
    if (task->vfork != NULL) {
        vfork_done(task);
    }
}

void group_exit_start(uint32_t status)
{
    struct process *process = current_process();
    unsigned long flags = signal_lock(process);
    struct vli_list *pos;

    if (process->group_exit == 0) {
        process->group_exit = 1;
        process->group_exit_code = status;
        process->stop_signal = 0;
        vli_list_each (pos, &process->tasks) {
            struct task *task = vli_list_entry(pos, struct task, link);

            if (task->thread != current()) {
                thread_kill_mark(task->thread);
            }
        }
    }
    signal_unlock(process, flags);
}

/* ------------------------------------------------------------- what the tree does at an exit */

/* Whom @process's children go to. Locks: proc_lock held. */
static struct process *reaper_of(const struct process *process)
{
    struct process *at = process->parent;

    while (at != NULL && at != init_process) {
        if (at->is_subreaper != 0 && at->state == PROCESS_ALIVE && at->task_count != 0) {
            return at;
        }
        at = at->parent;
    }
    return init_process;
}

/* A group that loses its last link to the rest of the session while members are stopped would
 * never be continued: POSIX has it told. Locks: proc_lock held. */
static void group_check_orphaned(struct process_group *group, const struct process *leaving)
{
    struct vli_list *pos;
    bool stopped = false;

    if (!group_is_orphaned(group, leaving)) {
        return;
    }
    vli_list_each (pos, &group->members) {
        const struct process *member = vli_list_entry(pos, struct process, group_link);

        stopped = stopped ||
                  (member != leaving && member->stop_signal != 0 && member->state == PROCESS_ALIVE);
    }
    if (!stopped) {
        return;
    }
    vli_list_each (pos, &group->members) {
        struct process *member = vli_list_entry(pos, struct process, group_link);

        if (member != leaving) {
            signal_send_bare(member, SIGHUP);
            signal_send_bare(member, SIGCONT);
        }
    }
}

/* What the exit hands back to be freed without locks. */
struct exit_result {
    struct process_group *group; /* of the process itself, when reaped at once */
    bool reaped;
};

/* Locks: proc_lock held. */
static void children_give_away(struct process *process, struct vli_list *reaped)
{
    struct process *reaper = reaper_of(process);
    struct vli_list *pos;
    struct vli_list *next;

    if (vli_list_is_empty(&process->children)) {
        return;
    }
    vli_list_each_safe (pos, next, &process->children) {
        struct process *child = vli_list_entry(pos, struct process, sibling);
        bool was_link =
            child->group != process->group && child->group->session == process->group->session;

        vli_list_remove(&child->sibling);
        vli_list_insert_before(&reaper->children, &child->sibling);
        child->parent = reaper;
        child->exit_signal = SIGCHLD;
        if (child->parent_death_signal != 0) {
            signal_send_bare(child, (int)child->parent_death_signal);
        }
        if (child->state == PROCESS_ZOMBIE && child_report_exit(child, NULL)) {
            vli_list_remove(&child->sibling);
            vli_list_insert_before(reaped, &child->sibling);
        }
        if (was_link) {
            group_check_orphaned(child->group, NULL);
        }
    }
}

/* The leader of a session is gone: the terminal is free, its foreground group is told. */
static void session_end(struct process *process)
{
    unsigned long flags = proc_lock();
    struct session *session = process->group->session;
    struct tty *tty = NULL;
    uint32_t sid = session->id;
    uint32_t foreground;

    if (session->leader == process) {
        session->leader = NULL;
        tty = session->tty;
        session->tty = NULL;
    }
    proc_unlock(flags);
    if (tty != NULL) {
        foreground = tty_session_ended(tty, sid);
        if (foreground != 0) {
            signal_send_group(foreground, SIGHUP);
            signal_send_group(foreground, SIGCONT);
        }
    }
}

/* Zombies that nobody waits for: on a private list by their sibling links. */
static void reaped_free(struct vli_list *reaped)
{
    struct vli_list *pos;
    struct vli_list *next;
    struct process_group *group;
    unsigned long flags;

    vli_list_each_safe (pos, next, reaped) {
        struct process *process = vli_list_entry(pos, struct process, sibling);

        flags = proc_lock();
        group = process_unlink(process);
        proc_unlock(flags);
        group_free(group);
        process_put(process);
    }
}

static void process_become_zombie(struct process *process)
{
    struct vli_list reaped = VLI_LIST_INIT(reaped);
    struct signal_node *node = NULL;
    unsigned long flags;

    if (process->exit_signal != 0) {
        node = signal_node_alloc();
    }
    if (process->group->session->leader == process) {
        session_end(process);
    }
    flags = proc_lock();
    children_give_away(process, &reaped);
    if (process->parent->group != process->group &&
        process->parent->group->session == process->group->session) {
        group_check_orphaned(process->group, process);
    }
    atomic_store_explicit(&process->state, PROCESS_ZOMBIE, memory_order_relaxed);
    if (child_report_exit(process, &node)) {
        vli_list_remove(&process->sibling);
        vli_list_insert_before(&reaped, &process->sibling);
    }
    proc_unlock(flags);
    pidfd_process_ended();
    if (node != NULL) {
        signal_node_free(node);
    }
    reaped_free(&reaped);
}

/* ------------------------------------------------------------------------------ the thread */

/* Add what the thread used to the process's sums. Locks: signal_lock held. */
static void usage_collect(struct process *process, struct thread *thread)
{
    uint64_t user;
    uint64_t system;

    thread_times(thread, &user, &system);
    process->ended_user_ns += user;
    process->ended_system_ns += system;
    process->ended_switches += thread->switches;
    process->ended_preemptions += thread->preemptions;
}

static void process_resources_put(struct process *process)
{
    struct vl_space *space;
    struct files *files;
    struct fs_context *fs;
    struct file *exe;
    struct vl_space_usage usage;
    unsigned long flags;

    itimers_cancel(process);
    posix_timers_end(process);
    flags = signal_lock(process);
    space = process->space;
    files = process->files;
    fs = process->fs;
    exe = process->exe;
    process->space = NULL;
    process->files = NULL;
    process->fs = NULL;
    process->exe = NULL;
    signal_unlock(process, flags);
    vl_space_usage(space, &usage);
    process->faults_ended += usage.faults;
    if (usage.resident_peak > process->resident_peak_ended) {
        process->resident_peak_ended = usage.resident_peak;
    }
    vl_space_put(space);
    files_put(files);
    fs_context_put(fs);
    if (exe != NULL) {
        file_put(exe);
    }
}

/*
 * Leave the list of tasks: from here on nobody reaches the task. What was queued for it alone goes
 * to @out_dropped. Returns: true when it was the last.
 */
static bool task_leave(struct process *process, struct task *task, struct vli_list *out_dropped)
{
    unsigned long flags = signal_lock(process);
    struct vli_list *pos;
    bool last = process->task_count == 1;
    bool all_stopped;

    vli_list_splice(&task->pending.queue, out_dropped);
    vli_list_remove(&task->link);
    process->task_count--;
    if (last) {
        memcpy(process->last_name, task->thread->name, sizeof(process->last_name));
    } else {
        usage_collect(process, task->thread);
        /* What was sent to the process and would have been ours goes to another. */
        vli_list_each (pos, &process->tasks) {
            struct task *other = vli_list_entry(pos, struct task, link);

            if ((process->pending.set & ~other->blocked) != 0) {
                thread_signal(other->thread);
            }
        }
        if (process->exec_thread != NULL) {
            wake_all(&process->child_wait);
        }
    }
    all_stopped =
        !last && process->stop_signal != 0 && process->stopped_tasks == process->task_count;
    signal_unlock(process, flags);
    if (all_stopped) {
        child_notify(process, CLD_STOPPED, process->stop_signal);
    }
    return last;
}

/* The last thread: what the process holds goes, then it waits for its parent. */
static void process_end(struct process *process)
{
    unsigned long flags;

    if (process == init_process) {
        panic("Attempted to kill init! exitcode=0x%08x",
              process->group_exit != 0 ? process->group_exit_code : process->main_task.exit_code);
    }
    sem_process_exit(process);
    process_resources_put(process);
    flags = signal_lock(process);
    usage_collect(process, current());
    signal_unlock(process, flags);
    process->exit_status =
        process->group_exit != 0 ? process->group_exit_code : process->main_task.exit_code;
    process_become_zombie(process);
}

_Noreturn void task_exit(uint32_t status)
{
    struct thread *thread = current();
    struct task *task = current_task();
    struct process *process = task->process;
    bool is_main = task == &process->main_task;
    struct vli_list dropped = VLI_LIST_INIT(dropped);
    unsigned long flags;

    thread_exit_begin();
    task->exit_code = status;
    space_leave(task);
    thread_use_space(NULL);
    if (!is_main) {
        flags = proc_lock();
        tid_unhash(task);
        pid_release(task->tid);
        proc_unlock(flags);
    }
    if (task_leave(process, task, &dropped)) {
        process_end(process);
    }
    signal_nodes_free(&dropped);
    thread->proc = NULL;
    thread->proc_private = NULL;
    if (!is_main) {
        task_discard(task);
    }
    task_count_down();
    process_put(process);
    thread_exit();
}

SYSCALL(exit)
{
    task_exit(((uint32_t)a & 0xffu) << 8);
}

SYSCALL(exit_group)
{
    uint32_t status = ((uint32_t)a & 0xffu) << 8;

    group_exit_start(status);
    task_exit(status);
}
