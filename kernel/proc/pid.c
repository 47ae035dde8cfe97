/*
 * pid.c - numbers of tasks, groups and sessions, and who bears them.
 *
 * One bitmap for all three kinds: a number is free again when its task, the group and the session
 * of that number are gone. Numbers go round, so that one is not reused at once. Tasks are found by
 * a hash of their number (512 chains; the numbers are consecutive, so chains stay even); groups and
 * sessions are few and stand on lists.
 *
 * All under proc_lock.
 */
#include "kernel/proc/internal.h"

#define TID_CHAINS      512u
#define PID_FIRST_AGAIN 300u /* Linux: low numbers stay with the system's own processes */

struct vli_spinlock proc_lock_word = VLI_SPINLOCK_INIT;
struct process *init_process;

static uint64_t pid_bits[PID_MAX / 64]; /* set: taken */
static uint32_t pid_last;
static struct task *tid_chain[TID_CHAINS];
static struct vli_list groups = VLI_LIST_INIT(groups);
static struct vli_list sessions = VLI_LIST_INIT(sessions);

VLI_NOINLINE void unfair_lock_slow(struct vli_spinlock *lock, unsigned long flags)
{
    do {
        vl_host_irq_restore(flags);
        while (vli_spin_is_locked(lock)) {
            vl_host_cpu_relax();
        }
        (void)vl_host_irq_save();
    } while (!vli_spin_raw_try_lock(lock));
}

static bool pid_is_taken(uint32_t pid)
{
    return (pid_bits[pid / 64] >> (pid % 64) & 1u) != 0;
}

/* The lowest free number ≥ @from, or 0. */
static uint32_t pid_scan(uint32_t from)
{
    uint32_t word = from / 64;
    uint64_t free_bits = ~pid_bits[word] & (~(uint64_t)0 << (from % 64));

    while (free_bits == 0) {
        word++;
        if (word == PID_MAX / 64) {
            return 0;
        }
        free_bits = ~pid_bits[word];
    }
    return word * 64 + vli_bit_lowest(free_bits);
}

uint32_t pid_alloc(void)
{
    uint32_t pid = pid_last + 1 < PID_MAX ? pid_scan(pid_last + 1) : 0;

    VL_ASSERT(!VL_SMP || vli_spin_is_locked(&proc_lock_word));
    if (pid == 0) {
        pid = pid_scan(PID_FIRST_AGAIN);
    }
    if (pid == 0) {
        return 0;
    }
    pid_bits[pid / 64] |= (uint64_t)1 << (pid % 64);
    pid_last = pid;
    return pid;
}

static struct session *session_find(uint32_t sid)
{
    struct vli_list *pos;

    vli_list_each (pos, &sessions) {
        struct session *session = vli_list_entry(pos, struct session, link);

        if (session->id == sid) {
            return session;
        }
    }
    return NULL;
}

struct process_group *group_find(uint32_t pgid)
{
    struct vli_list *pos;

    vli_list_each (pos, &groups) {
        struct process_group *group = vli_list_entry(pos, struct process_group, link);

        if (group->id == pgid) {
            return group;
        }
    }
    return NULL;
}

void pid_release(uint32_t pid)
{
    if (tid_find(pid) == NULL && group_find(pid) == NULL && session_find(pid) == NULL) {
        pid_bits[pid / 64] &= ~((uint64_t)1 << (pid % 64));
    }
}

void tid_hash(struct task *task)
{
    struct task **chain = &tid_chain[task->tid % TID_CHAINS];

    task->tid_next = *chain;
    *chain = task;
}

void tid_unhash(struct task *task)
{
    struct task **link = &tid_chain[task->tid % TID_CHAINS];

    while (*link != task) {
        VL_ASSERT(*link != NULL);
        link = &(*link)->tid_next;
    }
    *link = task->tid_next;
}

struct task *tid_find(uint32_t tid)
{
    struct task *task = tid_chain[tid % TID_CHAINS];

    while (task != NULL && task->tid != tid) {
        task = task->tid_next;
    }
    return task;
}

struct process *pid_find(uint32_t pid)
{
    struct task *task = tid_find(pid);

    return task != NULL && task->process->pid == pid ? task->process : NULL;
}

struct process *process_find(uint32_t pid)
{
    unsigned long flags = proc_lock();
    struct process *process = pid_find(pid);

    if (process != NULL) {
        process_get(process);
    }
    proc_unlock(flags);
    return process;
}

struct process *process_next(uint32_t pid)
{
    unsigned long flags = proc_lock();
    struct process *process = NULL;
    uint32_t at;

    for (at = pid; at < PID_MAX && process == NULL; at++) {
        if (pid_bits[at / 64] == 0) {
            at |= 63u;
        } else if (pid_is_taken(at)) {
            process = pid_find(at);
        }
    }
    if (process != NULL) {
        process_get(process);
    }
    proc_unlock(flags);
    return process;
}

uint32_t process_last_pid(void)
{
    return pid_last;
}

/* ------------------------------------------------------------------------------- groups */

struct process_group *group_create(uint32_t id, enum group_session session)
{
    struct process_group *group = vl_kmalloc(sizeof(*group), VL_WAIT);

    if (group == NULL) {
        return NULL;
    }
    *group = (struct process_group){.id = id};
    vli_list_init(&group->members);
    if (session == GROUP_SESSION_FRESH) {
        group->session = vl_kmalloc(sizeof(*group->session), VL_WAIT);
        if (group->session == NULL) {
            vl_kfree(group);
            return NULL;
        }
        *group->session = (struct session){.id = id};
        vli_list_init(&group->session->link);
    }
    return group;
}

void group_publish(struct process_group *group, struct session *session)
{
    VL_ASSERT(group->session == NULL || group->session == session);
    group->session = session;
    if (session->references++ == 0) {
        vli_list_insert_before(&sessions, &session->link);
    }
    vli_list_insert_before(&groups, &group->link);
}

void group_join(struct process *process, struct process_group *group)
{
    process->group = group;
    group->references++;
    vli_list_insert_before(&group->members, &process->group_link);
}

struct process_group *group_leave(struct process *process)
{
    struct process_group *group = process->group;
    struct session *session = group->session;

    vli_list_remove(&process->group_link);
    process->group = NULL;
    if (--group->references != 0) {
        return NULL;
    }
    vli_list_remove(&group->link);
    if (--session->references == 0) {
        vli_list_remove(&session->link);
        pid_release(session->id);
    } else {
        group->session = NULL;
    }
    pid_release(group->id);
    return group;
}

void group_free(struct process_group *group)
{
    if (group != NULL) {
        vl_kfree(group->session);
        vl_kfree(group);
    }
}

bool group_is_orphaned(const struct process_group *group, const struct process *without)
{
    struct vli_list *pos;

    vli_list_each (pos, &group->members) {
        struct process *member = vli_list_entry(pos, struct process, group_link);
        struct process *parent = member->parent;

        if (member == without || member->state != PROCESS_ALIVE || parent == NULL ||
            parent == init_process) {
            continue;
        }
        if (parent->group != group && parent->group != NULL &&
            parent->group->session == group->session) {
            return false;
        }
    }
    return true;
}

bool process_group_in_session(uint32_t pgid, uint32_t sid)
{
    unsigned long flags = proc_lock();
    struct process_group *group = group_find(pgid);
    bool found = group != NULL && group->session->id == sid;

    proc_unlock(flags);
    return found;
}

bool process_group_is_orphaned(void)
{
    unsigned long flags = proc_lock();
    bool orphaned = group_is_orphaned(current_process()->group, NULL);

    proc_unlock(flags);
    return orphaned;
}

uint32_t process_session_id(void)
{
    unsigned long flags = proc_lock();
    uint32_t sid = current_process()->group->session->id;

    proc_unlock(flags);
    return sid;
}

uint32_t process_group_id(void)
{
    unsigned long flags = proc_lock();
    uint32_t pgid = current_process()->group->id;

    proc_unlock(flags);
    return pgid;
}

bool process_is_session_leader(void)
{
    unsigned long flags = proc_lock();
    bool leader = current_process()->group->session->leader == current_process();

    proc_unlock(flags);
    return leader;
}

struct tty *session_tty(void)
{
    unsigned long flags = proc_lock();
    struct tty *tty = current_process()->group->session->tty;

    proc_unlock(flags);
    return tty;
}

void session_set_tty(struct tty *tty)
{
    unsigned long flags = proc_lock();

    current_process()->group->session->tty = tty;
    proc_unlock(flags);
}
