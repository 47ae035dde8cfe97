/*
 * sys_ident.c - who a process is: numbers, groups, sessions, users, capabilities, limits.
 */
#include "kernel/proc/internal.h"

SYSCALL(getpid)
{
    return (long)current_process()->pid;
}

SYSCALL(gettid)
{
    return (long)current_task()->tid;
}

SYSCALL(getppid)
{
    unsigned long flags = proc_lock();
    const struct process *parent = current_process()->parent;
    long pid = parent != NULL ? (long)parent->pid : 0;

    proc_unlock(flags);
    return pid;
}

SYSCALL(set_tid_address)
{
    current_task()->clear_child_tid = (uint64_t)a;
    return (long)current_task()->tid;
}

/* ------------------------------------------------------------------------ groups, sessions */

/* May the running process move @target? Locks: proc_lock held. */
static long setpgid_check(const struct process *target)
{
    const struct process *self = current_process();

    if (target == NULL || target->state != PROCESS_ALIVE) {
        return -ESRCH;
    }
    if (target->parent == self) {
        if (target->group->session != self->group->session) {
            return -EPERM;
        }
        if ((target->flags & PROCESS_EXECED) != 0) {
            return -EACCES;
        }
    } else if (target != self) {
        return -ESRCH;
    }
    return target->group->session->leader == target ? -EPERM : 0;
}

/* @spare is used, and set to NULL, when there is no such group yet; a group that is left empty
 * goes to *@out_empty. Locks: proc_lock held. */
static long setpgid_locked(uint32_t pid, uint32_t pgid, struct process_group **spare,
                           struct process_group **out_empty)
{
    struct process *target = pid_find(pid);
    struct process_group *group;
    struct session *session;
    long result = setpgid_check(target);

    if (result != 0) {
        return result;
    }
    session = target->group->session;
    group = group_find(pgid);
    if (group == NULL) {
        if (pgid != pid) {
            return -EPERM;
        }
        group = *spare;
        *spare = NULL;
        group_publish(group, session);
    } else if (group->session != session) {
        return -EPERM;
    }
    if (target->group != group) {
        *out_empty = group_leave(target);
        group_join(target, group);
    }
    return 0;
}

SYSCALL(setpgid)
{
    uint32_t pid = (int32_t)a != 0 ? (uint32_t)a : current_process()->pid;
    uint32_t pgid = (int32_t)b != 0 ? (uint32_t)b : pid;
    struct process_group *spare;
    struct process_group *empty = NULL;
    unsigned long flags;
    long result;

    if ((int32_t)pgid < 0) {
        return -EINVAL;
    }
    spare = group_create(pgid, GROUP_SESSION_GIVEN);
    if (spare == NULL) {
        return -ENOMEM;
    }
    flags = proc_lock();
    result = setpgid_locked(pid, pgid, &spare, &empty);
    proc_unlock(flags);
    group_free(spare);
    group_free(empty);
    return result;
}

enum group_or_session { ID_GROUP, ID_SESSION };

static long group_id_of(uint32_t pid, enum group_or_session which)
{
    unsigned long flags = proc_lock();
    const struct process *process = current_process();
    const struct task *task;
    long result = -ESRCH;

    if (pid != 0) {
        task = tid_find(pid);
        process = task != NULL ? task->process : NULL;
    }
    if (process != NULL && process->group != NULL) {
        result = (long)(which == ID_GROUP ? process->group->id : process->group->session->id);
    }
    proc_unlock(flags);
    return result;
}

SYSCALL(getpgid)
{
    return group_id_of((uint32_t)a, ID_GROUP);
}

SYSCALL(getpgrp)
{
    return group_id_of(0, ID_GROUP);
}

SYSCALL(getsid)
{
    return group_id_of((uint32_t)a, ID_SESSION);
}

SYSCALL(setsid)
{
    struct process *self = current_process();
    struct process_group *fresh = group_create(self->pid, GROUP_SESSION_FRESH);
    struct process_group *empty = NULL;
    unsigned long flags;
    long result = -EPERM;

    if (fresh == NULL) {
        return -ENOMEM;
    }
    flags = proc_lock();
    if (group_find(self->pid) == NULL) {
        group_publish(fresh, fresh->session);
        fresh->session->leader = self;
        empty = group_leave(self);
        group_join(self, fresh);
        fresh = NULL;
        result = (long)self->pid;
    }
    proc_unlock(flags);
    group_free(fresh);
    group_free(empty);
    return result;
}

/* --------------------------------------------------------------------------------- users */

SYSCALL(getuid)
{
    return (long)current_cred()->uid;
}

SYSCALL(geteuid)
{
    return (long)current_cred()->euid;
}

SYSCALL(getgid)
{
    return (long)current_cred()->gid;
}

SYSCALL(getegid)
{
    return (long)current_cred()->egid;
}

#define ID_KEEP UINT32_MAX

/* Root that becomes somebody else loses what root may do, unless it keeps it saved. */
static void caps_after_uids(struct credentials *cred)
{
    if (cred->uid != 0 && cred->euid != 0 && cred->suid != 0 && current_process()->keep_caps == 0) {
        cred->cap_permitted = 0;
    }
    cred->cap_effective = cred->euid == 0 ? cred->cap_permitted : 0;
}

/* Store a changed copy of the credentials; @old is what it was made from. */
static long cred_store(const struct credentials *fresh)
{
    struct process *process = current_process();
    struct group_list *groups;
    unsigned long flags = signal_lock(process);

    groups = process->cred.groups; /* may have been replaced since the copy was made */
    process->cred = *fresh;
    process->cred.groups = groups;
    caps_after_uids(&process->cred);
    signal_unlock(process, flags);
    return 0;
}

static bool uid_is_own(const struct credentials *cred, uint32_t uid)
{
    return uid == cred->uid || uid == cred->euid || uid == cred->suid;
}

static bool gid_is_own(const struct credentials *cred, uint32_t gid)
{
    return gid == cred->gid || gid == cred->egid || gid == cred->sgid;
}

SYSCALL(setuid)
{
    struct credentials cred = *current_cred();
    uint32_t uid = (uint32_t)a;

    if (uid == ID_KEEP) {
        return -EINVAL;
    }
    if (capable_root()) {
        cred.uid = uid;
        cred.suid = uid;
    } else if (uid != cred.uid && uid != cred.suid) {
        return -EPERM;
    }
    cred.euid = uid;
    cred.fsuid = uid;
    return cred_store(&cred);
}

SYSCALL(setgid)
{
    struct credentials cred = *current_cred();
    uint32_t gid = (uint32_t)a;

    if (gid == ID_KEEP) {
        return -EINVAL;
    }
    if (capable_root()) {
        cred.gid = gid;
        cred.sgid = gid;
    } else if (gid != cred.gid && gid != cred.sgid) {
        return -EPERM;
    }
    cred.egid = gid;
    cred.fsgid = gid;
    return cred_store(&cred);
}

SYSCALL(setreuid)
{
    struct credentials cred = *current_cred();
    uint32_t ruid = (uint32_t)a;
    uint32_t euid = (uint32_t)b;

    if (!capable_root() && ((ruid != ID_KEEP && ruid != cred.uid && ruid != cred.euid) ||
                            (euid != ID_KEEP && !uid_is_own(&cred, euid)))) {
        return -EPERM;
    }
    if (ruid != ID_KEEP || (euid != ID_KEEP && euid != cred.uid)) {
        cred.suid = euid != ID_KEEP ? euid : cred.euid;
    }
    cred.uid = ruid != ID_KEEP ? ruid : cred.uid;
    cred.euid = euid != ID_KEEP ? euid : cred.euid;
    cred.fsuid = cred.euid;
    return cred_store(&cred);
}

SYSCALL(setregid)
{
    struct credentials cred = *current_cred();
    uint32_t rgid = (uint32_t)a;
    uint32_t egid = (uint32_t)b;

    if (!capable_root() && ((rgid != ID_KEEP && rgid != cred.gid && rgid != cred.egid) ||
                            (egid != ID_KEEP && !gid_is_own(&cred, egid)))) {
        return -EPERM;
    }
    if (rgid != ID_KEEP || (egid != ID_KEEP && egid != cred.gid)) {
        cred.sgid = egid != ID_KEEP ? egid : cred.egid;
    }
    cred.gid = rgid != ID_KEEP ? rgid : cred.gid;
    cred.egid = egid != ID_KEEP ? egid : cred.egid;
    cred.fsgid = cred.egid;
    return cred_store(&cred);
}

SYSCALL(setresuid)
{
    struct credentials cred = *current_cred();
    const uint32_t id[3] = {(uint32_t)a, (uint32_t)b, (uint32_t)c};
    unsigned i;

    for (i = 0; i < 3; i++) {
        if (id[i] != ID_KEEP && !capable_root() && !uid_is_own(&cred, id[i])) {
            return -EPERM;
        }
    }
    cred.uid = id[0] != ID_KEEP ? id[0] : cred.uid;
    cred.euid = id[1] != ID_KEEP ? id[1] : cred.euid;
    cred.suid = id[2] != ID_KEEP ? id[2] : cred.suid;
    cred.fsuid = cred.euid;
    return cred_store(&cred);
}

SYSCALL(setresgid)
{
    struct credentials cred = *current_cred();
    const uint32_t id[3] = {(uint32_t)a, (uint32_t)b, (uint32_t)c};
    unsigned i;

    for (i = 0; i < 3; i++) {
        if (id[i] != ID_KEEP && !capable_root() && !gid_is_own(&cred, id[i])) {
            return -EPERM;
        }
    }
    cred.gid = id[0] != ID_KEEP ? id[0] : cred.gid;
    cred.egid = id[1] != ID_KEEP ? id[1] : cred.egid;
    cred.sgid = id[2] != ID_KEEP ? id[2] : cred.sgid;
    cred.fsgid = cred.egid;
    return cred_store(&cred);
}

static long put_three(uint64_t x, uint64_t y, uint64_t z, const uint32_t *id)
{
    if (put_user32(x, id[0]) != VL_OK || put_user32(y, id[1]) != VL_OK ||
        put_user32(z, id[2]) != VL_OK) {
        return -EFAULT;
    }
    return 0;
}

SYSCALL(getresuid)
{
    const struct credentials *cred = current_cred();
    const uint32_t id[3] = {cred->uid, cred->euid, cred->suid};

    return put_three((uint64_t)a, (uint64_t)b, (uint64_t)c, id);
}

SYSCALL(getresgid)
{
    const struct credentials *cred = current_cred();
    const uint32_t id[3] = {cred->gid, cred->egid, cred->sgid};

    return put_three((uint64_t)a, (uint64_t)b, (uint64_t)c, id);
}

SYSCALL(setfsuid)
{
    struct credentials cred = *current_cred();
    uint32_t old = cred.fsuid;

    if ((uint32_t)a != ID_KEEP &&
        (capable_root() || uid_is_own(&cred, (uint32_t)a) || (uint32_t)a == old)) {
        cred.fsuid = (uint32_t)a;
        (void)cred_store(&cred);
    }
    return (long)old;
}

SYSCALL(setfsgid)
{
    struct credentials cred = *current_cred();
    uint32_t old = cred.fsgid;

    if ((uint32_t)a != ID_KEEP &&
        (capable_root() || gid_is_own(&cred, (uint32_t)a) || (uint32_t)a == old)) {
        cred.fsgid = (uint32_t)a;
        (void)cred_store(&cred);
    }
    return (long)old;
}

SYSCALL(getgroups)
{
    struct process *process = current_process();
    struct group_list copy = {.count = 0};
    unsigned long flags = signal_lock(process);

    if (process->cred.groups != NULL) {
        copy.count = process->cred.groups->count;
        memcpy(copy.gid, process->cred.groups->gid, copy.count * sizeof(uint32_t));
    }
    signal_unlock(process, flags);
    if ((int32_t)a < 0) {
        return -EINVAL;
    }
    if (a == 0) {
        return (long)copy.count;
    }
    if ((uint32_t)a < copy.count) {
        return -EINVAL;
    }
    if (copy.count != 0 &&
        copy_to_user((uint64_t)b, copy.gid, copy.count * sizeof(uint32_t)) != VL_OK) {
        return -EFAULT;
    }
    return (long)copy.count;
}

SYSCALL(setgroups)
{
    struct process *process = current_process();
    struct group_list *fresh = NULL;
    struct group_list *old;
    uint32_t count = (uint32_t)a;
    unsigned long flags;

    if (!capable_root()) {
        return -EPERM;
    }
    if (count > GROUPS_MAX) {
        return -EINVAL;
    }
    if (count != 0) {
        fresh = vl_kmalloc(sizeof(*fresh), VL_WAIT);
        if (fresh == NULL) {
            return -ENOMEM;
        }
        atomic_store_explicit(&fresh->references, 1, memory_order_relaxed);
        fresh->count = count;
        if (copy_from_user(fresh->gid, (uint64_t)b, count * sizeof(uint32_t)) != VL_OK) {
            vl_kfree(fresh);
            return -EFAULT;
        }
    }
    flags = signal_lock(process);
    old = process->cred.groups;
    process->cred.groups = fresh;
    signal_unlock(process, flags);
    groups_put(old);
    return 0;
}

/* -------------------------------------------------------------------------- capabilities */

#define CAPABILITY_V1 0x19980330u
#define CAPABILITY_V2 0x20071026u
#define CAPABILITY_V3 0x20080522u

struct user_cap {
    uint32_t effective, permitted, inheritable;
};

/* Words of the data: 1 or 2; a version that is not known is answered with the newest. */
static long cap_words(uint64_t user_header, uint32_t *out_pid)
{
    uint32_t version;

    if (get_user32(&version, user_header) != VL_OK ||
        get_user32(out_pid, user_header + 4) != VL_OK) {
        return -EFAULT;
    }
    if (version == CAPABILITY_V1) {
        return 1;
    }
    if (version == CAPABILITY_V2 || version == CAPABILITY_V3) {
        return 2;
    }
    return put_user32(user_header, CAPABILITY_V3) != VL_OK ? -EFAULT : -EINVAL;
}

SYSCALL(capget)
{
    struct user_cap cap[2];
    struct process *process = current_process();
    const struct credentials *cred;
    uint32_t pid;
    long words = cap_words((uint64_t)a, &pid);
    unsigned i;

    if (words < 0) {
        return words == -EINVAL && b == 0 ? 0 : words;
    }
    if ((int32_t)pid < 0) {
        return -EINVAL;
    }
    process = pid == 0 ? process : process_find(pid);
    if (process == NULL) {
        return -ESRCH;
    }
    cred = &process->cred;
    for (i = 0; i < 2; i++) {
        cap[i] = (struct user_cap){(uint32_t)(cred->cap_effective >> (32 * i)),
                                   (uint32_t)(cred->cap_permitted >> (32 * i)),
                                   (uint32_t)(cred->cap_inheritable >> (32 * i))};
    }
    if (pid != 0) {
        process_put(process);
    }
    return b == 0 ? 0 : (long)copy_to_user((uint64_t)b, cap, (size_t)words * sizeof(cap[0]));
}

SYSCALL(capset)
{
    struct user_cap cap[2] = {{0, 0, 0}, {0, 0, 0}};
    struct process *process = current_process();
    struct credentials *cred = &process->cred;
    uint32_t pid;
    long words = cap_words((uint64_t)a, &pid);
    uint64_t effective;
    uint64_t permitted;
    unsigned long flags;

    if (words < 0) {
        return words;
    }
    if (pid != 0 && pid != process->pid) {
        return -EPERM;
    }
    if (copy_from_user(cap, (uint64_t)b, (size_t)words * sizeof(cap[0])) != VL_OK) {
        return -EFAULT;
    }
    effective = (uint64_t)cap[1].effective << 32 | cap[0].effective;
    permitted = (uint64_t)cap[1].permitted << 32 | cap[0].permitted;
    if ((permitted & ~cred->cap_permitted) != 0 || (effective & ~permitted) != 0) {
        return -EPERM;
    }
    flags = signal_lock(process);
    cred->cap_permitted = permitted;
    cred->cap_effective = effective;
    cred->cap_inheritable = (uint64_t)cap[1].inheritable << 32 | cap[0].inheritable;
    signal_unlock(process, flags);
    return 0;
}

/* -------------------------------------------------------------------------------- limits */

static long limit_exchange(uint32_t pid, uint32_t number, uint64_t user_new, uint64_t user_old)
{
    struct process *self = current_process();
    struct process *process = self;
    struct rlimit_pair fresh;
    struct rlimit_pair old;
    struct vl_space *space;
    long result;

    if (number >= RLIMIT_COUNT) {
        return -EINVAL;
    }
    if (user_new != 0) {
        if (copy_from_user(&fresh, user_new, sizeof(fresh)) != VL_OK) {
            return -EFAULT;
        }
        if (fresh.soft > fresh.hard) {
            return -EINVAL;
        }
        if (number == RLIMIT_NOFILE && fresh.hard > NOFILE_MOST) {
            return -EPERM;
        }
    }
    if (pid != 0 && pid != self->pid) {
        process = process_find(pid);
        if (process == NULL) {
            return -ESRCH;
        }
    }
    result = rlimit_exchange(process, number, user_new != 0 ? &fresh : NULL, &old);
    space = result == 0 && user_new != 0 ? process_space_get(process) : NULL;
    if (space != NULL) {
        process_apply_limits(process, space);
        vl_space_put(space);
    }
    if (process != self) {
        process_put(process);
    }
    if (result == 0 && user_old != 0 && copy_to_user(user_old, &old, sizeof(old)) != VL_OK) {
        return -EFAULT;
    }
    return result;
}

SYSCALL(prlimit64)
{
    return limit_exchange((uint32_t)a, (uint32_t)b, (uint64_t)c, (uint64_t)d);
}

SYSCALL(getrlimit)
{
    return b == 0 ? -EFAULT : limit_exchange(0, (uint32_t)a, 0, (uint64_t)b);
}

SYSCALL(setrlimit)
{
    return b == 0 ? -EFAULT : limit_exchange(0, (uint32_t)a, (uint64_t)b, 0);
}
