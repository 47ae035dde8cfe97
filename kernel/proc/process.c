/*
 * process.c - making and freeing processes and tasks, and reading them from outside.
 *
 * A process's main task (the thread with tid == pid) lives inside struct process, so that a fork
 * allocates one object here; further threads have theirs from a cache. What most processes never
 * change (limits, signal actions) is shared by reference until changed.
 */
#include "kernel/boot/boot.h"
#include "kernel/proc/internal.h"

static struct vl_cache *process_cache;
static struct vl_cache *task_cache;
static _Atomic uint32_t process_total;
static _Atomic uint32_t thread_total;

static struct rlimits rlimits_default = {
    .references = 1,
    .limit =
        {
            [RLIMIT_CPU] = {RLIM_INFINITY, RLIM_INFINITY},
            [RLIMIT_FSIZE] = {RLIM_INFINITY, RLIM_INFINITY},
            [RLIMIT_DATA] = {RLIM_INFINITY, RLIM_INFINITY},
            [RLIMIT_STACK] = {8u << 20, RLIM_INFINITY},
            [RLIMIT_CORE] = {0, RLIM_INFINITY},
            [RLIMIT_RSS] = {RLIM_INFINITY, RLIM_INFINITY},
            [RLIMIT_NPROC] = {RLIM_INFINITY, RLIM_INFINITY},
            [RLIMIT_NOFILE] = {1024, 4096},
            [RLIMIT_MEMLOCK] = {8u << 20, 8u << 20},
            [RLIMIT_AS] = {RLIM_INFINITY, RLIM_INFINITY},
            [RLIMIT_LOCKS] = {RLIM_INFINITY, RLIM_INFINITY},
            [RLIMIT_SIGPENDING] = {RLIM_INFINITY, RLIM_INFINITY},
            [RLIMIT_MSGQUEUE] = {819200, 819200},
            [RLIMIT_NICE] = {0, 0},
            [RLIMIT_RTPRIO] = {0, 0},
            [RLIMIT_RTTIME] = {RLIM_INFINITY, RLIM_INFINITY},
        },
};

void proc_init(void)
{
    static const struct vl_cache_spec process_spec = {
        .name = "process", .size = sizeof(struct process), .align = 64};
    static const struct vl_cache_spec task_spec = {
        .name = "task", .size = sizeof(struct task), .align = 64};

    if (vl_cache_create(&process_spec, &process_cache) != VL_OK ||
        vl_cache_create(&task_spec, &task_cache) != VL_OK) {
        panic("no memory for the tables of processes");
    }
    futex_init();
    signal_init();
}

struct process *process_create(void)
{
    struct process *process = vl_cache_alloc(process_cache, VL_WAIT | VL_ZEROED);

    if (process == NULL) {
        return NULL;
    }
    atomic_store_explicit(&process->references, 1, memory_order_relaxed);
    vli_list_init(&process->children);
    vli_list_init(&process->tasks);
    vli_list_init(&process->pending.queue);
    vli_list_init(&process->dropped);
    wait_queue_init(&process->child_wait);
    wait_queue_init(&process->arrivals);
    vli_spin_init(&process->signal_lock);
    process->rlimits = &rlimits_default;
    process->actions = &signal_default_actions;
    process->dumpable = 1;
    itimers_init(process);
    atomic_fetch_add_explicit(&process_total, 1, memory_order_relaxed);
    return process;
}

void process_get(struct process *process)
{
    atomic_fetch_add_explicit(&process->references, 1, memory_order_relaxed);
}

void process_put(struct process *process)
{
    /* Acquire and release: the last to leave sees what all others wrote. */
    if (atomic_fetch_sub_explicit(&process->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    VL_ASSERT(vli_list_is_empty(&process->tasks));
    VL_ASSERT(vli_list_is_empty(&process->children));
    VL_ASSERT(process->space == NULL);
    signal_queue_clear(&process->pending);
    signal_nodes_free(&process->dropped);
    signal_actions_put(process->actions);
    rlimits_put(process->rlimits);
    groups_put(process->cred.groups);
    vl_cache_free(process_cache, process);
    atomic_fetch_sub_explicit(&process_total, 1, memory_order_relaxed);
}

void task_init(struct task *task, struct process *process, struct thread *thread)
{
    task->thread = thread;
    task->process = process;
    vli_list_init(&task->link);
    vli_list_init(&task->pending.queue);
    thread->proc = process;
    thread->proc_private = task;
    if (current()->proc != NULL) {
        task->io_priority = current_task()->io_priority;
    }
    atomic_fetch_add_explicit(&thread_total, 1, memory_order_relaxed);
}

struct task *task_alloc(void)
{
    return vl_cache_alloc(task_cache, VL_WAIT | VL_ZEROED);
}

void task_discard(struct task *task)
{
    vl_cache_free(task_cache, task);
}

void task_count_down(void)
{
    atomic_fetch_sub_explicit(&thread_total, 1, memory_order_relaxed);
}

struct process_group *process_unlink(struct process *process)
{
    struct process_group *group;

    VL_ASSERT(process->state == PROCESS_ZOMBIE);
    atomic_store_explicit(&process->state, PROCESS_DEAD, memory_order_relaxed);
    vli_list_remove(&process->sibling);
    process->parent = NULL;
    tid_unhash(&process->main_task);
    group = group_leave(process);
    pid_release(process->pid);
    return group;
}

unsigned process_count(unsigned *out_threads)
{
    if (out_threads != NULL) {
        *out_threads = thread_total;
    }
    return process_total;
}

struct vl_space *process_space_get(struct process *process)
{
    unsigned long flags = signal_lock(process);
    struct vl_space *space = process->space;

    if (space != NULL) {
        vl_space_get(space);
    }
    signal_unlock(process, flags);
    return space;
}

struct files *process_files_get(struct process *process)
{
    unsigned long flags = signal_lock(process);
    struct files *files = process->files;

    if (files != NULL) {
        files_get(files);
    }
    signal_unlock(process, flags);
    return files;
}

struct fs_context *process_fs_get(struct process *process)
{
    unsigned long flags = signal_lock(process);
    struct fs_context *fs = process->fs;

    if (fs != NULL) {
        fs_context_get(fs);
    }
    signal_unlock(process, flags);
    return fs;
}

struct file *process_exe_get(struct process *process)
{
    unsigned long flags = signal_lock(process);
    struct file *exe = process->exe;

    if (exe != NULL) {
        file_get(exe);
    }
    signal_unlock(process, flags);
    return exe;
}

/* ------------------------------------------------------------------------- limits, groups */

void rlimits_put(struct rlimits *limits)
{
    if (limits != &rlimits_default &&
        atomic_fetch_sub_explicit(&limits->references, 1, memory_order_acq_rel) == 1) {
        vl_kfree(limits);
    }
}

struct rlimits *rlimits_share(struct process *process)
{
    unsigned long flags = signal_lock(process);
    struct rlimits *limits = process->rlimits;

    if (limits != &rlimits_default) {
        atomic_fetch_add_explicit(&limits->references, 1, memory_order_relaxed);
    }
    signal_unlock(process, flags);
    return limits;
}

struct rlimit_pair process_rlimit(struct process *process, enum rlimit_number number)
{
    struct rlimits *limits = rlimits_share(process);
    struct rlimit_pair pair = limits->limit[number];

    rlimits_put(limits);
    return pair;
}

uint64_t rlimit_soft(enum rlimit_number number)
{
    /* A thread that changes the limits replaces the table; this word is read whole either way. The
     * table itself stays while the lock is held. */
    struct process *process = current_process();
    unsigned long flags;
    uint64_t soft;

    if (process == NULL) {
        return rlimits_default.limit[number].soft;
    }
    if (process->rlimits == &rlimits_default) {
        return rlimits_default.limit[number].soft;
    }
    flags = signal_lock(process);
    soft = process->rlimits->limit[number].soft;
    signal_unlock(process, flags);
    return soft;
}

/* Swap in @limit for @number; @fresh is a table to use when the present one is shared. Returns the
 * table that is left over. */
static struct rlimits *rlimit_store(struct process *process, unsigned number,
                                    const struct rlimit_pair *limit, struct rlimits *fresh)
{
    struct rlimits *limits = process->rlimits;

    if (limits != &rlimits_default && limits->references == 1) {
        limits->limit[number] = *limit;
        return fresh;
    }
    memcpy(fresh->limit, limits->limit, sizeof(fresh->limit));
    fresh->limit[number] = *limit;
    process->rlimits = fresh;
    return limits;
}

long rlimit_exchange(struct process *process, unsigned number, const struct rlimit_pair *fresh,
                     struct rlimit_pair *out_old)
{
    struct rlimits *table = NULL;
    unsigned long flags;
    long result = 0;

    if (fresh != NULL) {
        table = vl_kmalloc(sizeof(*table), VL_WAIT);
        if (table == NULL) {
            return -ENOMEM;
        }
        atomic_store_explicit(&table->references, 1, memory_order_relaxed);
    }
    flags = signal_lock(process);
    *out_old = process->rlimits->limit[number];
    if (fresh != NULL && fresh->hard > out_old->hard && !capable_root()) {
        result = -EPERM;
    } else if (fresh != NULL) {
        table = rlimit_store(process, number, fresh, table);
    }
    signal_unlock(process, flags);
    if (table != NULL) {
        rlimits_put(table);
    }
    return result;
}

void process_apply_limits(struct process *process, struct vl_space *space)
{
    struct vl_space_limits limits;
    const struct rlimits *table;
    unsigned long flags;

    if (process->rlimits == &rlimits_default) {
        table = &rlimits_default;
        limits = (struct vl_space_limits){.address_space = table->limit[RLIMIT_AS].soft,
                                          .stack = table->limit[RLIMIT_STACK].soft,
                                          .data = table->limit[RLIMIT_DATA].soft};
    } else {
        flags = signal_lock(process);
        table = process->rlimits;
        limits = (struct vl_space_limits){.address_space = table->limit[RLIMIT_AS].soft,
                                          .stack = table->limit[RLIMIT_STACK].soft,
                                          .data = table->limit[RLIMIT_DATA].soft};
        signal_unlock(process, flags);
    }
    vl_space_set_limits(space, &limits);
}

void groups_put(struct group_list *groups)
{
    if (groups != NULL &&
        atomic_fetch_sub_explicit(&groups->references, 1, memory_order_acq_rel) == 1) {
        vl_kfree(groups);
    }
}

/* The list may be replaced by another thread's setgroups(). */
bool cred_in_group(uint32_t gid)
{
    struct process *process = current_process();
    const struct credentials *cred = &process->cred;
    unsigned long flags;
    bool found = false;
    uint32_t i;

    if (gid == cred->fsgid) {
        return true;
    }
    if (cred->groups == NULL) {
        return false;
    }
    flags = signal_lock(process);
    for (i = 0; cred->groups != NULL && i < cred->groups->count && !found; i++) {
        found = cred->groups->gid[i] == gid;
    }
    signal_unlock(process, flags);
    return found;
}

/* ---------------------------------------------------------------------- times, /proc/PID */

void thread_times(struct thread *thread, uint64_t *out_user_ns, uint64_t *out_system_ns)
{
    uint64_t total = thread_cpu_ns(thread);
    uint64_t user = thread->user_ticks;
    uint64_t kernel = thread->kernel_ticks;

    /* The precise sum, split as the ticks found it; with no tick yet it is the system's. */
    *out_user_ns = user + kernel == 0 ? 0 : total / (user + kernel) * user;
    *out_system_ns = total - *out_user_ns;
}

void process_times(struct process *process, uint64_t *out_user_ns, uint64_t *out_system_ns)
{
    unsigned long flags = signal_lock(process);
    struct vli_list *pos;

    *out_user_ns = process->ended_user_ns;
    *out_system_ns = process->ended_system_ns;
    vli_list_each (pos, &process->tasks) {
        struct task *task = vli_list_entry(pos, struct task, link);
        uint64_t user;
        uint64_t kernel;

        thread_times(task->thread, &user, &kernel);
        *out_user_ns += user;
        *out_system_ns += kernel;
    }
    signal_unlock(process, flags);
}

static char thread_state_letter(const struct thread *thread)
{
    switch (atomic_load_explicit(&thread->state, memory_order_relaxed)) {
    case THREAD_SLEEPING:
        return 'S';
    case THREAD_UNINTERRUPTIBLE:
        return 'D';
    case THREAD_STOPPED:
        return 'T';
    default:
        return 'R';
    }
}

static void info_fill_tasks(struct process *process, struct process_info *out)
{
    struct vli_list *pos;

    out->threads = process->task_count;
    out->shared_pending = process->pending.set;
    out->ignored = process->actions->ignored;
    out->caught = process->actions->caught;
    out->switches = process->ended_switches;
    out->preemptions = process->ended_preemptions;
    vli_list_each (pos, &process->tasks) {
        const struct task *task = vli_list_entry(pos, struct task, link);

        out->switches += task->thread->switches;
        out->preemptions += task->thread->preemptions;
    }
    if (vli_list_is_empty(&process->tasks)) {
        out->state = 'Z';
        memcpy(out->name, process->last_name, sizeof(out->name));
    } else {
        const struct task *task = vli_list_first(&process->tasks, struct task, link);

        out->state = thread_state_letter(task->thread);
        memcpy(out->name, task->thread->name, sizeof(out->name));
        out->nice = task->thread->nice;
        out->affinity = task->thread->affinity;
        out->last_cpu = task->thread->cpu;
        out->pending = task->pending.set;
        out->blocked = task->blocked;
    }
}

void process_info(struct process *process, struct process_info *out)
{
    struct vl_space_usage usage = {0};
    struct vl_space *space = process_space_get(process);
    unsigned long flags;

    *out = (struct process_info){
        .pid = process->pid, .exit_signal = process->exit_signal, .start_ns = process->start_ns};
    if (space != NULL) {
        vl_space_usage(space, &usage);
        vl_space_put(space);
    }
    flags = signal_lock(process);
    info_fill_tasks(process, out);
    out->faults = process->faults_ended + usage.faults;
    out->uid[0] = process->cred.uid;
    out->uid[1] = process->cred.euid;
    out->uid[2] = process->cred.suid;
    out->uid[3] = process->cred.fsuid;
    out->gid[0] = process->cred.gid;
    out->gid[1] = process->cred.egid;
    out->gid[2] = process->cred.sgid;
    out->gid[3] = process->cred.fsgid;
    out->cap_permitted = process->cred.cap_permitted;
    out->cap_effective = process->cred.cap_effective;
    out->cap_inheritable = process->cred.cap_inheritable;
    signal_unlock(process, flags);
    process_times(process, &out->user_ns, &out->system_ns);
    flags = proc_lock();
    out->ppid = process->parent != NULL ? process->parent->pid : 0;
    if (process->group != NULL) {
        out->pgid = process->group->id;
        out->sid = process->group->session->id;
        out->tty = process->group->session->tty;
    }
    out->child_user_ns = process->child_user_ns;
    out->child_system_ns = process->child_system_ns;
    out->child_faults = process->child_faults;
    proc_unlock(flags);
}

size_t process_tids(struct process *process, uint32_t *out, size_t max)
{
    unsigned long flags = signal_lock(process);
    struct vli_list *pos;
    size_t count = 0;

    vli_list_each (pos, &process->tasks) {
        if (count < max) {
            out[count] = vli_list_entry(pos, struct task, link)->tid;
        }
        count++;
    }
    signal_unlock(process, flags);
    return count;
}
