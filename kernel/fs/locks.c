/*
 * locks.c - advisory locks.
 *
 * Three kinds share one list an inode: range locks of a process (fcntl; the owner is its descriptor
 * table, as threads share both), range locks of an open file (OFD), and flock's, which are OFD
 * locks over everything that only meet each other. A list is made by the first lock and freed with
 * the last, so that a file which nobody locks costs one pointer. Owners do not wait in cycles for
 * ever: a waiter can be interrupted by a signal; EDEADLK is not reported.
 *
 * Lock: lists_mutex, one for all: these calls are rare, and sleep.
 */
#include "kernel/fs/locks.h"
#include "kernel/fs/inode_types.h"
#include "kernel/cpu/uaccess.h"
#include "kernel/proc/process.h"

#define OFFSET_END UINT64_MAX

enum lock_kind { LOCK_PROCESS, LOCK_OFD, LOCK_FLOCK };

struct range_lock {
    struct range_lock *next;
    const void *owner; /* struct files or struct file */
    uint64_t start;
    uint64_t end; /* exclusive; OFFSET_END: to infinity */
    int32_t pid;
    enum lock_kind kind;
    bool is_write;
};

struct flock_list {
    struct range_lock *first;
    struct wait_queue waiters;
    uint32_t users; /* waiting threads */
};

static struct mutex lists_mutex = MUTEX_INIT(lists_mutex);

static bool do_meet(const struct range_lock *lock, const struct range_lock *wanted)
{
    return lock->start < wanted->end && wanted->start < lock->end;
}

/* The first lock that forbids @wanted, or NULL. */
static struct range_lock *conflict(struct flock_list *list, const struct range_lock *wanted)
{
    struct range_lock *lock = list != NULL ? list->first : NULL;

    for (; lock != NULL; lock = lock->next) {
        bool is_flock = lock->kind == LOCK_FLOCK;

        if (is_flock == (wanted->kind == LOCK_FLOCK) && lock->owner != wanted->owner &&
            (lock->is_write || wanted->is_write) && do_meet(lock, wanted)) {
            return lock;
        }
    }
    return NULL;
}

/* Take @wanted's range away from its owner's locks. @spare is used when one splits in two.
 * Returns: whether the spare was used. */
static bool cut_range(struct flock_list *list, const struct range_lock *wanted,
                      struct range_lock *spare)
{
    struct range_lock **link = &list->first;
    bool used = false;

    while (*link != NULL) {
        struct range_lock *lock = *link;

        if (lock->owner != wanted->owner || lock->kind != wanted->kind || !do_meet(lock, wanted)) {
            link = &lock->next;
        } else if (lock->start < wanted->start && lock->end > wanted->end) {
            *spare = *lock;
            spare->start = wanted->end;
            lock->end = wanted->start;
            lock->next = spare;
            used = true;
            break;
        } else if (lock->start < wanted->start) {
            lock->end = wanted->start;
            link = &lock->next;
        } else if (lock->end > wanted->end) {
            lock->start = wanted->end;
            link = &lock->next;
        } else {
            *link = lock->next;
            vl_kfree(lock);
        }
    }
    return used;
}

/* Put @fresh into the list, which is ordered by start, and let it swallow what touches it and is
 * alike. */
static void insert_range(struct flock_list *list, struct range_lock *fresh)
{
    struct range_lock **link = &list->first;

    while (*link != NULL) {
        struct range_lock *lock = *link;

        if (lock->owner == fresh->owner && lock->kind == fresh->kind &&
            lock->is_write == fresh->is_write &&
            (lock->end == fresh->start || lock->start == fresh->end)) {
            fresh->start = lock->start < fresh->start ? lock->start : fresh->start;
            fresh->end = lock->end > fresh->end ? lock->end : fresh->end;
            *link = lock->next;
            vl_kfree(lock);
        } else {
            link = &lock->next;
        }
    }
    for (link = &list->first; *link != NULL && (*link)->start <= fresh->start;) {
        link = &(*link)->next;
    }
    fresh->next = *link;
    *link = fresh;
}

/* The list of an inode is freed when nothing hangs on it. lists_mutex is held. */
static void list_trim(struct inode *inode)
{
    struct flock_list *list = inode->locks;

    if (list != NULL && list->first == NULL && list->users == 0) {
        inode->locks = NULL;
        vl_kfree(list);
    }
}

static struct flock_list *list_of(struct inode *inode)
{
    if (inode->locks == NULL) {
        struct flock_list *list = vl_kmalloc(sizeof(*list), VL_WAIT | VL_ZEROED);

        if (list != NULL) {
            wait_queue_init(&list->waiters);
            inode->locks = list;
        }
    }
    return inode->locks;
}

/* Wait until nothing forbids @wanted. 0, -EAGAIN or -ERESTARTSYS. lists_mutex is held. */
static long wait_free(struct flock_list *list, const struct range_lock *wanted, bool may_wait)
    VL_REQUIRES(lists_mutex)
{
    while (conflict(list, wanted) != NULL) {
        enum vl_status status;

        if (!may_wait) {
            return -EAGAIN;
        }
        list->users++;
        status = wait_on_mutex(&list->waiters, &lists_mutex, WAIT_INTERRUPTIBLE, WAIT_FOREVER);
        list->users--;
        if (status == VL_EINTR) {
            return -ERESTARTSYS;
        }
    }
    return 0;
}

enum lock_change { LOCK_SET, LOCK_CLEAR };

/* Set or clear a range. 0 or an errno. */
static long change_range(struct inode *inode, const struct range_lock *wanted,
                         enum lock_change change, bool may_wait)
{
    struct range_lock *fresh = vl_kmalloc(sizeof(*fresh), VL_WAIT);
    struct range_lock *spare = vl_kmalloc(sizeof(*spare), VL_WAIT);
    struct flock_list *list;
    long result = fresh != NULL && spare != NULL ? 0 : -ENOLCK;

    mutex_lock(&lists_mutex);
    list = result == 0 ? list_of(inode) : NULL;
    if (list == NULL) {
        result = -ENOLCK;
    } else if (change == LOCK_SET) {
        result = wait_free(list, wanted, may_wait);
    }
    if (result == 0) {
        if (cut_range(list, wanted, spare)) {
            spare = NULL;
        }
        if (change == LOCK_SET) {
            *fresh = *wanted;
            insert_range(list, fresh);
            fresh = NULL;
        }
        wake_all(&list->waiters);
    }
    list_trim(inode);
    mutex_unlock(&lists_mutex);
    vl_kfree(fresh);
    vl_kfree(spare);
    return result;
}

/* ---------------------------------------------------------------------------------- fcntl */

#define F_GETLK      5u
#define F_SETLK      6u
#define F_SETLKW     7u
#define F_OFD_GETLK  36u
#define F_OFD_SETLK  37u
#define F_OFD_SETLKW 38u

/* A struct flock as a range. 0 or an errno. */
static long range_import(struct file *file, const struct flock_range *user, struct range_lock *out)
{
    int64_t base = user->whence == 1   ? (int64_t)file->pos
                   : user->whence == 2 ? (int64_t)inode_size(file->inode)
                                       : 0;
    int64_t start;
    int64_t end;

    if (user->whence < 0 || user->whence > 2) {
        return -EINVAL;
    }
    if (__builtin_add_overflow(base, user->start, &start)) {
        return -EOVERFLOW;
    }
    if (start < 0) {
        return -EINVAL;
    }
    out->start = (uint64_t)start;
    out->end = OFFSET_END;
    if (user->len != 0) {
        if (__builtin_add_overflow(start, user->len, &end)) {
            return -EOVERFLOW;
        }
        if (end < 0) {
            return -EINVAL;
        }
        out->start = (uint64_t)(user->len > 0 ? start : end);
        out->end = (uint64_t)(user->len > 0 ? end : start);
    }
    return 0;
}

/* F_GETLK: what forbids it, or F_UNLCK. */
static void range_test(struct inode *inode, const struct range_lock *wanted,
                       struct flock_range *user)
{
    struct range_lock *lock;

    mutex_lock(&lists_mutex);
    lock = conflict(inode->locks, wanted);
    if (lock == NULL) {
        user->type = F_UNLCK;
    } else {
        user->type = lock->is_write ? F_WRLCK : F_RDLCK;
        user->whence = 0;
        user->start = (int64_t)lock->start;
        user->len = lock->end == OFFSET_END ? 0 : (int64_t)(lock->end - lock->start);
        user->pid = lock->kind == LOCK_PROCESS ? lock->pid : -1;
    }
    mutex_unlock(&lists_mutex);
}

long locks_fcntl(struct file *file, unsigned command, uint64_t user)
{
    bool is_ofd = command >= F_OFD_GETLK;
    bool may_wait = command == F_SETLKW || command == F_OFD_SETLKW;
    unsigned access = file->flags & O_ACCMODE;
    struct flock_range range;
    struct range_lock wanted = {0};
    long result;

    if (copy_from_user(&range, user, sizeof(range)) != VL_OK) {
        return -EFAULT;
    }
    result = range_import(file, &range, &wanted);
    if (result != 0) {
        return result;
    }
    if (range.type < F_RDLCK || range.type > F_UNLCK || (is_ofd && range.pid != 0)) {
        return -EINVAL;
    }
    wanted.kind = is_ofd ? LOCK_OFD : LOCK_PROCESS;
    wanted.owner = is_ofd ? (const void *)file : (const void *)current_files();
    wanted.pid = (int32_t)current_process()->pid;
    wanted.is_write = range.type == F_WRLCK;
    if (command == F_GETLK || command == F_OFD_GETLK) {
        if (range.type == F_UNLCK) {
            return -EINVAL;
        }
        range_test(file->inode, &wanted, &range);
        return copy_to_user(user, &range, sizeof(range)) == VL_OK ? 0 : -EFAULT;
    }
    if ((range.type == F_RDLCK && access == O_WRONLY) ||
        (range.type == F_WRLCK && access == O_RDONLY)) {
        return -EBADF;
    }
    return change_range(file->inode, &wanted, range.type == F_UNLCK ? LOCK_CLEAR : LOCK_SET,
                        may_wait);
}

/* ---------------------------------------------------------------------------------- flock */

#define LOCK_SH 1u
#define LOCK_EX 2u
#define LOCK_NB 4u
#define LOCK_UN 8u

long locks_flock(struct file *file, unsigned operation)
{
    struct range_lock wanted = {.owner = file, .end = OFFSET_END, .kind = LOCK_FLOCK};
    unsigned what = operation & ~LOCK_NB;

    if (what != LOCK_SH && what != LOCK_EX && what != LOCK_UN) {
        return -EINVAL;
    }
    wanted.is_write = what == LOCK_EX;
    return change_range(file->inode, &wanted, what == LOCK_UN ? LOCK_CLEAR : LOCK_SET,
                        (operation & LOCK_NB) == 0);
}

/* -------------------------------------------------------------------------------- closing */

/* All locks of @owner on @inode go. */
static void drop_owner(struct inode *inode, const void *owner)
{
    struct range_lock **link;

    mutex_lock(&lists_mutex);
    if (inode->locks != NULL) {
        link = &inode->locks->first;
        while (*link != NULL) {
            struct range_lock *lock = *link;

            if (lock->owner == owner) {
                *link = lock->next;
                vl_kfree(lock);
            } else {
                link = &lock->next;
            }
        }
        wake_all(&inode->locks->waiters);
        list_trim(inode);
    }
    mutex_unlock(&lists_mutex);
}

void locks_close(struct files *files, struct file *file)
{
    /* Unlocked look: what this owner locked, it or a thread before it wrote here. */
    if (file->inode->locks != NULL) {
        drop_owner(file->inode, files);
    }
}

void locks_release(struct file *file)
{
    if (file->inode->locks != NULL) {
        drop_owner(file->inode, file);
    }
}

void locks_forget(struct inode *inode)
{
    VL_ASSERT(inode->locks == NULL);
}
