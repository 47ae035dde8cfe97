/*
 * namespace.c - changes of the tree of names: make, remove, link, rename.
 *
 * Each is one critical section under the mutex of the directory (of both, for a rename): look,
 * check as Linux checks and in its order, change. Directories are locked ancestor first; two that
 * are unrelated by address, while the file system's rename mutex keeps them unrelated.
 */
#include "kernel/fs/context.h"
#include "kernel/fs/inode_types.h"
#include "kernel/lib/mem.h"
#include "kernel/proc/process.h"

#define LINKS_MAX 0x7fffffffu

static void links_add(struct inode *inode, int more)
{
    atomic_fetch_add_explicit(&inode->links, (uint32_t)more, memory_order_relaxed);
}

/* May the running process make or remove names in @dir? Its mutex is held. */
static long may_change(struct dentry *dir)
{
    long result = inode_permission(dir->inode, MAY_WRITE | MAY_EXEC);

    if (result == 0 && (dir->inode->super->flags & MS_RDONLY) != 0) {
        result = -EROFS;
    }
    return result;
}

/* In a sticky directory only the owner of the file or of the directory removes a name. */
static bool is_sticky_foreign(struct dentry *dir, struct inode *inode)
{
    return (dir->inode->mode & S_ISVTX) != 0 && !inode_is_owner(inode) &&
           !inode_is_owner(dir->inode);
}

static bool is_mount_point(struct dentry *dentry)
{
    return atomic_load_explicit(&dentry->mounted, memory_order_relaxed) != NULL;
}

/* Take a removed name's link away from its inode. */
static void drop_link(struct inode *inode)
{
    if (inode_is(inode, S_IFDIR)) {
        atomic_store_explicit(&inode->links, 0, memory_order_relaxed);
    } else {
        links_add(inode, -1);
    }
    inode_touch(inode, TOUCH_CHANGE);
}

/* ---------------------------------------------------------------------------------- make */

/* A directory of /proc finds names and makes none: what is not there gives ENOENT, as on Linux. */

static bool is_device(uint32_t mode)
{
    return (mode & S_IFMT) == S_IFCHR || (mode & S_IFMT) == S_IFBLK;
}

static bool may_make_devices(void)
{
    return current_process() == NULL || capable_root();
}

long node_make_locked(struct dentry *dir, const char *name, size_t len, uint32_t mode,
                      uint32_t device, const char *link, struct dentry **out)
{
    struct inode *inode;
    struct dentry *dentry;
    long result = may_change(dir);

    if ((dir->inode->flags & INODE_DEAD) != 0) {
        return -ENOENT;
    }
    if (result != 0) {
        return result;
    }
    if (is_device(mode) && !may_make_devices()) {
        return -EPERM;
    }
    result = dir->inode->ops->make(dir->inode, mode, device, link, &inode);
    if (result != 0) {
        return result;
    }
    dentry = dentry_make(dir, name, len, inode);
    inode_put(inode); /* the dentry has its own */
    if (dentry == NULL) {
        return -ENOMEM;
    }
    result = dentry_add(dentry);
    if (result != 0) {
        dentry_put(dentry);
        return result;
    }
    if (inode_is(inode, S_IFDIR)) {
        links_add(dir->inode, 1);
    }
    inode_touch(dir->inode, TOUCH_MODIFY | TOUCH_CHANGE);
    if (out != NULL) {
        *out = dentry;
    } else {
        dentry_put(dentry);
    }
    return 0;
}

long node_make(struct path_end *end, uint32_t mode, uint32_t device, const char *link,
               struct dentry **out)
{
    struct dentry *dir = end->dir;
    struct dentry *old;
    long result;

    if (end->kind != END_NAME) {
        return -EEXIST;
    }
    mutex_lock(&dir->inode->mutex);
    result = dentry_lookup(dir, end->name, end->len, &old);
    if (result == 0) {
        dentry_put(old);
        result = -EEXIST;
    } else if (result == -ENOENT && dir->inode->ops->make != NULL) {
        if (end->has_slash && (mode & S_IFMT) != S_IFDIR) {
            result = -ENOENT;
        } else {
            result = node_make_locked(dir, end->name, end->len, mode, device, link, out);
        }
    }
    mutex_unlock(&dir->inode->mutex);
    return result;
}

/* -------------------------------------------------------------------------------- remove */

/* Checks that removal and both sides of a rename share. @dir's mutex is held. */
static long may_remove(struct dentry *dir, struct dentry *dentry)
{
    long result = may_change(dir);

    if (result != 0) {
        return result;
    }
    return is_sticky_foreign(dir, dentry->inode) || dir->inode->ops->make == NULL ? -EPERM : 0;
}

/* Remove the directory @dentry, which is empty, from @dir, whose mutex is held. */
static long remove_directory(struct dentry *dir, struct dentry *dentry)
{
    struct inode *inode = dentry->inode;
    long result = 0;

    mutex_lock(&inode->mutex);
    if (is_mount_point(dentry)) {
        result = -EBUSY;
    } else if (!dentry_is_empty(dentry)) {
        result = -ENOTEMPTY;
    } else {
        inode->flags |= INODE_DEAD;
        dentry_remove(dentry);
        drop_link(inode);
        links_add(dir->inode, -1);
    }
    mutex_unlock(&inode->mutex);
    return result;
}

static long remove_locked(struct path_end *end, struct dentry *dentry, bool directory)
{
    struct dentry *dir = end->dir;
    bool is_directory = inode_is(dentry->inode, S_IFDIR);
    long result;

    if (!directory && end->has_slash) {
        return is_directory ? -EISDIR : -ENOTDIR;
    }
    result = may_remove(dir, dentry);
    if (result != 0) {
        return result;
    }
    if (directory) {
        result = is_directory ? remove_directory(dir, dentry) : -ENOTDIR;
    } else if (is_directory) {
        result = -EISDIR;
    } else if (is_mount_point(dentry)) {
        result = -EBUSY;
    } else {
        dentry_remove(dentry);
        drop_link(dentry->inode);
    }
    if (result == 0) {
        inode_touch(dir->inode, TOUCH_MODIFY | TOUCH_CHANGE);
    }
    return result;
}

long node_remove(struct path_end *end, bool directory)
{
    struct dentry *dentry;
    long result;

    if (end->kind != END_NAME) {
        if (!directory) {
            return -EISDIR;
        }
        return end->kind == END_DOTDOT ? -ENOTEMPTY : end->kind == END_DOT ? -EINVAL : -EBUSY;
    }
    mutex_lock(&end->dir->inode->mutex);
    result = dentry_lookup(end->dir, end->name, end->len, &dentry);
    if (result == 0) {
        result = remove_locked(end, dentry, directory);
        mutex_unlock(&end->dir->inode->mutex);
        dentry_put(dentry); /* perhaps the last: frees the pages, so without the mutex */
        return result;
    }
    mutex_unlock(&end->dir->inode->mutex);
    return result;
}

/* ---------------------------------------------------------------------------------- link */

static long link_locked(struct inode *inode, struct path_end *end)
{
    struct dentry *dir = end->dir;
    struct dentry *dentry;
    uint32_t links = atomic_load_explicit(&inode->links, memory_order_relaxed);
    long result = dentry_lookup(dir, end->name, end->len, &dentry);

    if (result == 0) {
        dentry_put(dentry);
        return -EEXIST;
    }
    if (result != -ENOENT || end->has_slash || (dir->inode->flags & INODE_DEAD) != 0 ||
        dir->inode->ops->make == NULL) {
        return result;
    }
    result = may_change(dir);
    if (result != 0) {
        return result;
    }
    if (inode->super != dir->inode->super) {
        return -EXDEV;
    }
    if (inode_is(inode, S_IFDIR)) {
        return -EPERM;
    }
    /* A file whose last name went may not get one again, unless it never had one. */
    do {
        if (links == 0 && (inode->flags & INODE_LINKABLE) == 0) {
            return -ENOENT;
        }
        if (links >= LINKS_MAX) {
            return -EMLINK;
        }
    } while (!atomic_compare_exchange_weak_explicit(&inode->links, &links, links + 1,
                                                    memory_order_relaxed, memory_order_relaxed));
    dentry = dentry_make(dir, end->name, end->len, inode);
    result = dentry != NULL ? dentry_add(dentry) : -ENOMEM;
    dentry_put(dentry);
    if (result != 0) {
        links_add(inode, -1);
        return result;
    }
    mutex_lock(&inode->mutex);
    inode->flags &= ~INODE_LINKABLE; /* from its first name on it is as any other */
    mutex_unlock(&inode->mutex);
    inode_touch(inode, TOUCH_CHANGE);
    inode_touch(dir->inode, TOUCH_MODIFY | TOUCH_CHANGE);
    return 0;
}

long node_link(struct dentry *source, struct path_end *end)
{
    long result;

    if (end->kind != END_NAME) {
        return -EEXIST;
    }
    mutex_lock(&end->dir->inode->mutex);
    result = link_locked(source->inode, end);
    mutex_unlock(&end->dir->inode->mutex);
    return result;
}

/* -------------------------------------------------------------------------------- rename */

/* What a rename works on, once its directories are locked. */
struct rename {
    struct path_end *from;
    struct path_end *to;
    unsigned flags;
    struct dentry *source; /* counted */
    struct dentry *target; /* counted, or NULL */
    struct dentry *trap;   /* child of the upper directory on the way to the lower one, or NULL */
    bool is_trap_source;   /* the upper directory is from's: the trap must not be the source */
};

/* The child of @upper on the way down to @lower, NULL when @upper is no proper ancestor of it.
 * super->rename_mutex keeps the parents. */
static struct dentry *child_towards(struct dentry *upper, struct dentry *lower)
{
    for (; lower->parent != NULL; lower = lower->parent) {
        if (lower->parent == upper) {
            return lower;
        }
    }
    return NULL;
}

static void lock_directories(struct rename *rename) VL_NO_LOCK_CHECK
{
    struct dentry *from = rename->from->dir;
    struct dentry *to = rename->to->dir;
    struct dentry *first = from;

    if (from == to) {
        mutex_lock(&from->inode->mutex);
        return;
    }
    mutex_lock(&from->inode->super->rename_mutex);
    rename->trap = child_towards(from, to);
    rename->is_trap_source = rename->trap != NULL;
    if (rename->trap == NULL) {
        rename->trap = child_towards(to, from);
        first = rename->trap != NULL || (uintptr_t)to < (uintptr_t)from ? to : from;
    }
    mutex_lock(&first->inode->mutex);
    mutex_lock(first == from ? &to->inode->mutex : &from->inode->mutex);
}

static void unlock_directories(struct rename *rename) VL_NO_LOCK_CHECK
{
    struct dentry *from = rename->from->dir;
    struct dentry *to = rename->to->dir;

    mutex_unlock(&from->inode->mutex);
    if (from != to) {
        mutex_unlock(&to->inode->mutex);
        mutex_unlock(&from->inode->super->rename_mutex);
    }
}

/* Find both names. 0 or an errno; what was found is counted in @rename either way. */
static long rename_find(struct rename *rename)
{
    bool exchange = (rename->flags & RENAME_EXCHANGE) != 0;
    long result;

    result =
        dentry_lookup(rename->from->dir, rename->from->name, rename->from->len, &rename->source);
    if (result != 0) {
        rename->source = NULL;
        return result;
    }
    result = dentry_lookup(rename->to->dir, rename->to->name, rename->to->len, &rename->target);
    if (result != 0) {
        rename->target = NULL;
        if (result != -ENOENT || exchange || rename->to->dir->inode->ops->make == NULL) {
            return result;
        }
    } else if ((rename->flags & RENAME_NOREPLACE) != 0) {
        return -EEXIST;
    }
    return 0;
}

/* Checks in Linux's order. 0, an errno, or 1: nothing is to be done. */
static long rename_check(struct rename *rename)
{
    bool is_directory = inode_is(rename->source->inode, S_IFDIR);
    bool exchange = (rename->flags & RENAME_EXCHANGE) != 0;
    long result;

    if (exchange && rename->to->has_slash && !inode_is(rename->target->inode, S_IFDIR)) {
        return -ENOTDIR;
    }
    if (!is_directory && (rename->from->has_slash || (!exchange && rename->to->has_slash))) {
        return -ENOTDIR;
    }
    if (rename->trap != NULL && rename->is_trap_source && rename->source == rename->trap) {
        return -EINVAL;
    }
    if (rename->trap != NULL && !rename->is_trap_source && rename->target == rename->trap) {
        return exchange ? -EINVAL : -ENOTEMPTY;
    }
    if (rename->target != NULL && rename->target->inode == rename->source->inode) {
        return 1;
    }
    result = may_remove(rename->from->dir, rename->source);
    if (result == 0 && (rename->to->dir->inode->flags & INODE_DEAD) != 0) {
        result = -ENOENT;
    }
    if (result == 0) {
        result = rename->target != NULL ? may_remove(rename->to->dir, rename->target)
                                        : may_change(rename->to->dir);
    }
    if (result != 0) {
        return result;
    }
    if (rename->target != NULL && !exchange) {
        if (is_directory != inode_is(rename->target->inode, S_IFDIR)) {
            return is_directory ? -ENOTDIR : -EISDIR;
        }
    }
    if (is_mount_point(rename->source) ||
        (rename->target != NULL && is_mount_point(rename->target))) {
        return -EBUSY;
    }
    return 0;
}

/* Replace an existing name, or take a free one. */
static long rename_move(struct rename *rename)
{
    struct dentry *target = rename->target;
    struct inode *victim = target != NULL ? target->inode : NULL;
    bool is_directory = inode_is(rename->source->inode, S_IFDIR);
    long result = 0;

    if (victim != NULL && is_directory) {
        mutex_lock(&victim->mutex);
        if (dentry_is_empty(target)) {
            victim->flags |= INODE_DEAD;
        } else {
            result = -ENOTEMPTY;
        }
        mutex_unlock(&victim->mutex);
        if (result != 0) {
            return result;
        }
    }
    result =
        dentry_move(rename->source, rename->to->dir, rename->to->name, rename->to->len, target);
    if (result != 0) {
        if (victim != NULL && is_directory) {
            mutex_lock(&victim->mutex);
            victim->flags &= ~INODE_DEAD;
            mutex_unlock(&victim->mutex);
        }
        return result;
    }
    if (victim != NULL) {
        drop_link(victim);
    }
    if (is_directory) {
        links_add(rename->from->dir->inode, -1);
        links_add(rename->to->dir->inode, victim != NULL ? 0 : 1);
    }
    return 0;
}

static long rename_exchange(struct rename *rename)
{
    bool is_source_directory = inode_is(rename->source->inode, S_IFDIR);
    bool is_target_directory = inode_is(rename->target->inode, S_IFDIR);
    long result = dentry_exchange(rename->source, rename->target);

    if (result == 0 && is_source_directory != is_target_directory) {
        links_add(rename->from->dir->inode, is_source_directory ? -1 : 1);
        links_add(rename->to->dir->inode, is_source_directory ? 1 : -1);
    }
    return result;
}

static long rename_locked(struct rename *rename)
{
    bool exchange = (rename->flags & RENAME_EXCHANGE) != 0;
    long result = rename_find(rename);

    if (result == 0) {
        result = rename_check(rename);
    }
    if (result != 0) {
        return result > 0 ? 0 : result;
    }
    result = exchange ? rename_exchange(rename) : rename_move(rename);
    if (result == 0) {
        inode_touch(rename->from->dir->inode, TOUCH_MODIFY | TOUCH_CHANGE);
        inode_touch(rename->to->dir->inode, TOUCH_MODIFY | TOUCH_CHANGE);
        inode_touch(rename->source->inode, TOUCH_CHANGE);
    }
    return result;
}

long node_rename(struct path_end *from, struct path_end *to, unsigned flags)
{
    struct rename rename;
    long result;

    memset(&rename, 0, sizeof(rename));
    rename.from = from;
    rename.to = to;
    rename.flags = flags;
    if (from->dir->inode->super != to->dir->inode->super) {
        return -EXDEV;
    }
    if (from->kind != END_NAME) {
        return -EBUSY;
    }
    if (to->kind != END_NAME) {
        return (flags & RENAME_NOREPLACE) != 0 ? -EEXIST : -EBUSY;
    }
    lock_directories(&rename);
    result = rename_locked(&rename);
    unlock_directories(&rename);
    dentry_put(rename.source);
    dentry_put(rename.target);
    return result;
}
