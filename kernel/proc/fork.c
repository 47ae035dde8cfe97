/*
 * fork.c - fork, vfork, clone: new processes and new threads.
 *
 * Everything that may fail is made before the child is published under proc_lock; from there on it
 * is a process like others, though its thread starts a moment later. What Linux lets threads of one
 * process have apart (descriptors, working directory) they share here always: CLONE_THREAD without
 * CLONE_FILES or CLONE_FS is refused by no libc and asked for by none. Namespaces and pidfds are
 * EINVAL.
 */
#include "kernel/proc/internal.h"

#define CSIGNAL              0x000000ffu
#define CLONE_VM             0x00000100u
#define CLONE_FS             0x00000200u
#define CLONE_FILES          0x00000400u
#define CLONE_SIGHAND        0x00000800u
#define CLONE_PIDFD          0x00001000u
#define CLONE_VFORK          0x00004000u
#define CLONE_PARENT         0x00008000u
#define CLONE_THREAD         0x00010000u
#define CLONE_NEWNS          0x00020000u
#define CLONE_SYSVSEM        0x00040000u
#define CLONE_SETTLS         0x00080000u
#define CLONE_PARENT_SETTID  0x00100000u
#define CLONE_CHILD_CLEARTID 0x00200000u
#define CLONE_CHILD_SETTID   0x01000000u
#define CLONE_NEW_ANY        0x7e020080u /* cgroup, uts, ipc, user, pid, net, time, mount */

struct clone_request {
    uint32_t flags; /* CLONE_* */
    uint32_t exit_signal;
    uint64_t stack;
    uint64_t parent_tid;
    uint64_t child_tid;
    uint64_t tls;
};

static long clone_check(const struct clone_request *request)
{
    uint32_t flags = request->flags;

    if ((flags & (CLONE_NEW_ANY | CLONE_PIDFD)) != 0) {
        return -EINVAL;
    }
    if ((flags & CLONE_THREAD) != 0 && (flags & CLONE_SIGHAND) == 0) {
        return -EINVAL;
    }
    if ((flags & CLONE_SIGHAND) != 0 && (flags & CLONE_VM) == 0) {
        return -EINVAL;
    }
    if ((flags & CLONE_PARENT) != 0 && current_process() == init_process) {
        return -EINVAL;
    }
    if ((flags & CLONE_SETTLS) != 0 && request->tls >= USER_END) {
        return -EPERM;
    }
    return 0;
}

/* What a new thread differs in from the one that makes it. */
static void child_registers(struct thread *thread, struct task *task,
                            const struct clone_request *request)
{
    const struct task *parent = current_task();
    struct trap_frame *frame = thread_frame(thread);

    frame->rax = 0;
    if (request->stack != 0) {
        frame->rsp = request->stack;
    }
    if ((request->flags & CLONE_SETTLS) != 0) {
        thread->fs_base = request->tls;
    }
    if ((request->flags & CLONE_CHILD_CLEARTID) != 0) {
        task->clear_child_tid = request->child_tid;
    }
    task->blocked = parent->blocked;
    if ((request->flags & (CLONE_VM | CLONE_VFORK)) != CLONE_VM) {
        task->altstack_base = parent->altstack_base;
        task->altstack_size = parent->altstack_size;
        task->altstack_flags = parent->altstack_flags;
    }
}

/* ------------------------------------------------------------------------------ a thread */

/* Returns: the tid, or a negated errno with nothing published. */
static long thread_publish(struct process *process, struct task *task)
{
    unsigned long flags = proc_lock();
    unsigned long inner;
    long result = -EAGAIN;

    task->tid = pid_alloc();
    if (task->tid != 0) {
        inner = signal_lock(process);
        if (process->group_exit != 0 || process->exec_thread != NULL) {
            result = -EINTR;
        } else {
            vli_list_insert_before(&process->tasks, &task->link);
            process->task_count++;
            result = (long)task->tid;
        }
        signal_unlock(process, inner);
        if (result > 0) {
            tid_hash(task);
        } else {
            pid_release(task->tid);
        }
    }
    proc_unlock(flags);
    return result;
}

static long clone_thread(const struct clone_request *request)
{
    struct process *process = current_process();
    struct task *task = task_alloc();
    struct thread *thread;
    long tid;

    if (task == NULL) {
        return -ENOMEM;
    }
    if (thread_create_user(&thread, current_frame()) != VL_OK) {
        task_discard(task);
        return -ENOMEM;
    }
    task_init(task, process, thread);
    child_registers(thread, task, request);
    thread->space = process->space;
    tid = thread_publish(process, task);
    if (tid < 0) {
        task_count_down();
        task_discard(task);
        thread_discard(thread);
        return tid;
    }
    process_get(process);
    thread->tid = (uint32_t)tid;
    /* A bad address is the program's own loss, as on Linux. */
    if ((request->flags & CLONE_PARENT_SETTID) != 0 &&
        put_user32(request->parent_tid, (uint32_t)tid) != VL_OK) {
        printk(VL_LOG_DEBUG, "clone: bad parent_tid");
    }
    if ((request->flags & CLONE_CHILD_SETTID) != 0 &&
        put_user32(request->child_tid, (uint32_t)tid) != VL_OK) {
        printk(VL_LOG_DEBUG, "clone: bad child_tid");
    }
    thread_start(thread);
    thread_put(thread); /* its running has a reference of its own */
    return tid;
}

/* ----------------------------------------------------------------------------- a process */

/* Shares or copies what the flags say. On failure the caller frees what is set. */
static long child_inherit(struct process *child, const struct clone_request *request)
{
    struct process *parent = current_process();
    unsigned long flags = signal_lock(parent);

    child->cred = parent->cred;
    if (child->cred.groups != NULL) {
        atomic_fetch_add_explicit(&child->cred.groups->references, 1, memory_order_relaxed);
    }
    child->actions = parent->actions;
    if (child->actions != &signal_default_actions) {
        atomic_fetch_add_explicit(&child->actions->references, 1, memory_order_relaxed);
    }
    signal_unlock(parent, flags);
    child->rlimits = rlimits_share(parent);
    child->arg_start = parent->arg_start;
    child->arg_end = parent->arg_end;
    child->env_start = parent->env_start;
    child->env_end = parent->env_end;
    child->stack_start = parent->stack_start;
    child->personality = parent->personality;
    child->memory_policy = parent->memory_policy;
    child->dumpable = parent->dumpable;
    atomic_init(&child->oom_adjust,
                atomic_load_explicit(&parent->oom_adjust, memory_order_relaxed));
    child->no_new_privs = parent->no_new_privs;
    child->keep_caps = parent->keep_caps;
    child->timer_slack_ns = parent->timer_slack_ns;
    child->exe = parent->exe;
    if (child->exe != NULL) {
        file_get(child->exe);
    }
    if ((request->flags & CLONE_FILES) != 0) {
        files_get(parent->files);
        child->files = parent->files;
    } else {
        child->files = files_clone(parent->files);
    }
    if ((request->flags & CLONE_FS) != 0) {
        fs_context_get(parent->fs);
        child->fs = parent->fs;
    } else {
        child->fs = fs_context_clone(parent->fs);
    }
    return child->files == NULL || child->fs == NULL ? -ENOMEM : 0;
}

static long child_space(struct process *child, const struct clone_request *request)
{
    struct process *parent = current_process();
    unsigned long flags;

    if ((request->flags & CLONE_VM) == 0) {
        return (long)vl_space_fork(parent->space, &child->space);
    }
    vl_space_get(parent->space);
    child->space = parent->space;
    flags = signal_lock(parent);
    parent->flags |= PROCESS_SHARES_SPACE;
    signal_unlock(parent, flags);
    child->flags |= PROCESS_SHARES_SPACE;
    return 0;
}

static void child_discard(struct process *child)
{
    if (child->space != NULL) {
        vl_space_put(child->space);
        child->space = NULL;
    }
    if (child->fs != NULL) {
        fs_context_put(child->fs);
    }
    if (child->files != NULL) {
        files_put(child->files);
    }
    if (child->exe != NULL) {
        file_put(child->exe);
    }
    process_put(child);
}

/* Returns: the pid, or -EAGAIN. */
static long process_publish(struct process *child, bool sibling)
{
    struct process *self = current_process();
    struct process *parent = self;
    unsigned long flags = proc_lock();
    uint32_t pid = pid_alloc();

    if (pid == 0) {
        proc_unlock(flags);
        return -EAGAIN;
    }
    if (sibling && self->parent != NULL) {
        parent = self->parent;
    }
    child->pid = pid;
    child->main_task.tid = pid;
    child->main_task.thread->tid = pid;
    child->parent = parent;
    vli_list_insert_before(&parent->children, &child->sibling);
    group_join(child, self->group);
    tid_hash(&child->main_task);
    proc_unlock(flags);
    return (long)pid;
}

/* The child's own copy of its tid word: written into its memory before it runs. */
static void child_set_tid(struct process *child, uint64_t address)
{
    uint32_t tid = child->pid;
    struct vl_pfn pfn;

    if (address % sizeof(tid) != 0 || !user_range_ok(address, sizeof(tid)) ||
        vl_space_frame_get(child->space, address, VL_WRITE, &pfn) != VL_OK) {
        return;
    }
    memcpy((char *)vl_frame_to_virt(pfn) + (address & VL_PAGE_MASK), &tid, sizeof(tid));
    vl_frame_ref_put(pfn);
}

/* Sleep until @child has left our space; only a fatal signal ends it early. */
static void vfork_wait(struct process *child, struct vfork_wait *wait)
{
    struct task *task = current_task();
    struct waiter waiter;
    unsigned long flags;

    waiter_init(&waiter);
    for (;;) {
        wait_prepare(&wait->queue, &waiter, WAIT_INTERRUPTIBLE);
        /* Acquire: pairs with the release in vfork_done(). */
        if (atomic_load_explicit(&wait->done, memory_order_acquire) != 0) {
            break;
        }
        if (wait_sleep(WAIT_FOREVER) == VL_EINTR) {
            thread_clear_signal(current());
            if (signal_is_fatal_pending(task)) {
                break;
            }
        }
    }
    wait_finish(&waiter);
    /* The lock also waits for a child that is in the middle of waking us: *wait is on our stack. */
    flags = signal_lock(child);
    child->main_task.vfork = NULL;
    signal_unlock(child, flags);
    signal_mark_self(task);
}

/* Publish the child, tell tids, let it run. Returns: its pid, or a negated errno (unpublished). */
static long child_launch(struct process *child, const struct clone_request *request)
{
    struct thread *thread = child->main_task.thread;
    struct vfork_wait wait = {.done = 0};
    long pid = process_publish(child, (request->flags & CLONE_PARENT) != 0);

    if (pid < 0) {
        return pid;
    }
    if ((request->flags & CLONE_PARENT_SETTID) != 0 &&
        put_user32(request->parent_tid, (uint32_t)pid) != VL_OK) {
        printk(VL_LOG_DEBUG, "clone: bad parent_tid");
    }
    if ((request->flags & CLONE_CHILD_SETTID) != 0) {
        child_set_tid(child, request->child_tid);
    }
    if ((request->flags & CLONE_VFORK) == 0) {
        thread_start(thread);
        thread_put(thread); /* its running has a reference of its own */
        return pid;
    }
    wait_queue_init(&wait.queue);
    child->main_task.vfork = &wait;
    process_get(child);
    thread_start(thread);
    thread_put(thread); /* its running has a reference of its own */
    vfork_wait(child, &wait);
    process_put(child);
    return pid;
}

static long clone_process(const struct clone_request *request)
{
    struct process *child = process_create();
    struct task *task;
    struct thread *thread;
    long result = -ENOMEM;

    if (child == NULL) {
        return -ENOMEM;
    }
    if (child_inherit(child, request) != 0) {
        goto discard;
    }
    result = child_space(child, request);
    if (result != 0) {
        goto discard;
    }
    result = -ENOMEM;
    if (thread_create_user(&thread, current_frame()) != VL_OK) {
        goto discard;
    }
    task = &child->main_task;
    task_init(task, child, thread);
    child_registers(thread, task, request);
    thread->space = child->space;
    child->exit_signal = request->exit_signal;
    child->start_ns = clock_ns();
    vli_list_insert_before(&child->tasks, &task->link);
    child->task_count = 1;
    process_get(child); /* the tree's; the first is the thread's */
    result = child_launch(child, request);
    if (result > 0) {
        return result;
    }
    process_put(child);
    vli_list_remove(&task->link);
    task_count_down();
    thread_discard(thread);
discard:
    child_discard(child);
    return result;
}

static long clone_any(const struct clone_request *request)
{
    long result = clone_check(request);

    if (result != 0) {
        return result;
    }
    for (unsigned tries = 0;; tries++) {
        /* A signal that came before reaches the parent first, so that a group that is being killed
         * does not outrun the killer by forking. */
        if (thread_signal_pending(current())) {
            return -ERESTARTNOINTR;
        }
        result =
            (request->flags & CLONE_THREAD) != 0 ? clone_thread(request) : clone_process(request);
        if (result != -ENOMEM || !memory_again(tries)) {
            return result;
        }
    }
}

SYSCALL(fork)
{
    const struct clone_request request = {.exit_signal = SIGCHLD};

    return clone_any(&request);
}

SYSCALL(vfork)
{
    const struct clone_request request = {.flags = CLONE_VM | CLONE_VFORK, .exit_signal = SIGCHLD};

    return clone_any(&request);
}

SYSCALL(clone)
{
    const struct clone_request request = {.flags = (uint32_t)a & ~CSIGNAL,
                                          .exit_signal = (uint32_t)a & CSIGNAL,
                                          .stack = (uint64_t)b,
                                          .parent_tid = (uint64_t)c,
                                          .child_tid = (uint64_t)d,
                                          .tls = (uint64_t)e};

    if (request.exit_signal > SIGNAL_MAX) {
        return -EINVAL;
    }
    return clone_any(&request);
}

/* Descriptors or the working directory become the process's own. Threads share them always here, so
 * that a process with several cannot. */
static long unshare_files(uint32_t flags)
{
    struct process *process = current_process();
    struct files *files = NULL;
    struct fs_context *fs = NULL;
    unsigned long irq;

    if ((flags & CLONE_FILES) != 0) {
        files = files_clone(process->files);
        if (files == NULL) {
            return -ENOMEM;
        }
    }
    if ((flags & CLONE_FS) != 0) {
        fs = fs_context_clone(process->fs);
        if (fs == NULL && files != NULL) {
            files_put(files);
        }
        if (fs == NULL) {
            return -ENOMEM;
        }
    }
    irq = signal_lock(process);
    if (files != NULL) {
        struct files *old = process->files;

        process->files = files;
        files = old;
    }
    if (fs != NULL) {
        struct fs_context *old = process->fs;

        process->fs = fs;
        fs = old;
    }
    signal_unlock(process, irq);
    if (files != NULL) {
        files_put(files);
    }
    if (fs != NULL) {
        fs_context_put(fs);
    }
    return 0;
}

SYSCALL(unshare)
{
    uint32_t flags = (uint32_t)a;

    if ((flags & ~(CLONE_FS | CLONE_FILES | CLONE_SYSVSEM | CLONE_THREAD | CLONE_SIGHAND |
                   CLONE_VM)) != 0) {
        return -EINVAL; /* namespaces, as on a Linux without them */
    }
    if (current_process()->task_count > 1) {
        return (flags & ~CLONE_SYSVSEM) != 0 ? -EINVAL : 0;
    }
    return unshare_files(flags);
}

/* Libcs fall back to clone. */
SYSCALL(clone3)
{
    return -ENOSYS;
}
