/*
 * sys_attr.c - changing what a file is: mode, owner, times, size.
 */
#include "kernel/fs/context.h"
#include "kernel/fs/fdtable.h"
#include "kernel/fs/inode_types.h"
#include "kernel/fs/syscalls.h"
#include "kernel/cpu/uaccess.h"
#include "kernel/lib/mem.h"
#include "kernel/proc/process.h"

#define NS_PER_S 1000000000u

/* A change, applied to an inode whose mutex is held. */
struct change {
    uint32_t mode;
    uint32_t uid, gid; /* UINT32_MAX: as it is */
    uint64_t accessed_ns, modified_ns;
    bool keep_accessed, keep_modified;
    bool is_now; /* both times are now: who may write may do it */
};

typedef long change_fn(struct inode *inode, const struct change *change);

static long change_locked(struct inode *inode, change_fn *apply, const struct change *change)
{
    long result;

    if ((inode->super->flags & MS_RDONLY) != 0) {
        return -EROFS;
    }
    mutex_lock(&inode->mutex);
    result = apply(inode, change);
    if (result == 0) {
        inode_touch(inode, TOUCH_CHANGE);
    }
    mutex_unlock(&inode->mutex);
    return result;
}

static long change_fd(int fd, change_fn *apply, const struct change *change)
{
    struct fd_ref ref;
    long result;

    if (!fd_ref_get(fd, FD_NORMAL, &ref)) {
        return -EBADF;
    }
    result = change_locked(ref.file->inode, apply, change);
    fd_ref_put(&ref);
    return result;
}

static long change_path(int dirfd, uint64_t user_path, unsigned at_flags, change_fn *apply,
                        const struct change *change)
{
    struct dentry *dentry;
    struct fd_ref ref;
    char *path;
    long result =
        user_path_get(&path, user_path,
                      (at_flags & AT_EMPTY_PATH) != 0 ? PATH_EMPTY_ALLOWED : PATH_EMPTY_REFUSED);

    if (result != 0) {
        return result;
    }
    if (path[0] == 0 && dirfd != AT_FDCWD) {
        user_path_put(path);
        if (!fd_ref_get(dirfd, FD_PATH_TOO, &ref)) {
            return -EBADF;
        }
        result = change_locked(ref.file->inode, apply, change);
        fd_ref_put(&ref);
        return result;
    }
    result = path_lookup(dirfd, path[0] == 0 ? "." : path,
                         (at_flags & AT_SYMLINK_NOFOLLOW) != 0 ? 0 : WALK_FOLLOW, &dentry);
    user_path_put(path);
    if (result == 0) {
        result = change_locked(dentry->inode, apply, change);
        dentry_put(dentry);
    }
    return result;
}

/* ---------------------------------------------------------------------------------- mode */

static long apply_mode(struct inode *inode, const struct change *change)
{
    uint32_t mode = change->mode & 07777u;

    if (!inode_is_owner(inode)) {
        return -EPERM;
    }
    if (inode_is(inode, S_IFLNK)) {
        return -EOPNOTSUPP;
    }
    if (!capable_root() && !cred_in_group(inode->gid)) {
        mode &= ~S_ISGID;
    }
    inode->mode = (inode->mode & S_IFMT) | mode;
    return 0;
}

SYSCALL(chmod)
{
    struct change change = {.mode = (uint32_t)b};

    return change_path(AT_FDCWD, (uint64_t)a, 0, apply_mode, &change);
}

SYSCALL(fchmod)
{
    struct change change = {.mode = (uint32_t)b};

    return change_fd((int)a, apply_mode, &change);
}

SYSCALL(fchmodat)
{
    struct change change = {.mode = (uint32_t)c};

    return change_path((int)a, (uint64_t)b, 0, apply_mode, &change);
}

SYSCALL(fchmodat2)
{
    struct change change = {.mode = (uint32_t)c};

    if (((unsigned)d & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) != 0) {
        return -EINVAL;
    }
    return change_path((int)a, (uint64_t)b, (unsigned)d, apply_mode, &change);
}

/* --------------------------------------------------------------------------------- owner */

static long apply_owner(struct inode *inode, const struct change *change)
{
    bool is_owner = inode_is_owner(inode);

    if (change->uid != UINT32_MAX && !capable_root() && (!is_owner || change->uid != inode->uid)) {
        return -EPERM;
    }
    if (change->gid != UINT32_MAX && !capable_root() &&
        (!is_owner || (change->gid != inode->gid && !cred_in_group(change->gid)))) {
        return -EPERM;
    }
    inode->uid = change->uid != UINT32_MAX ? change->uid : inode->uid;
    inode->gid = change->gid != UINT32_MAX ? change->gid : inode->gid;
    if (!inode_is(inode, S_IFDIR)) {
        inode->mode &= ~(S_ISUID | ((inode->mode & 0010u) != 0 ? S_ISGID : 0u));
    }
    return 0;
}

SYSCALL(chown)
{
    struct change change = {.uid = (uint32_t)b, .gid = (uint32_t)c};

    return change_path(AT_FDCWD, (uint64_t)a, 0, apply_owner, &change);
}

SYSCALL(lchown)
{
    struct change change = {.uid = (uint32_t)b, .gid = (uint32_t)c};

    return change_path(AT_FDCWD, (uint64_t)a, AT_SYMLINK_NOFOLLOW, apply_owner, &change);
}

SYSCALL(fchown)
{
    struct change change = {.uid = (uint32_t)b, .gid = (uint32_t)c};

    return change_fd((int)a, apply_owner, &change);
}

SYSCALL(fchownat)
{
    struct change change = {.uid = (uint32_t)c, .gid = (uint32_t)d};

    if (((unsigned)e & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) != 0) {
        return -EINVAL;
    }
    return change_path((int)a, (uint64_t)b, (unsigned)e, apply_owner, &change);
}

/* --------------------------------------------------------------------------------- times */

static long apply_times(struct inode *inode, const struct change *change)
{
    if (change->keep_accessed && change->keep_modified) {
        return 0;
    }
    if (!inode_is_owner(inode)) {
        if (!change->is_now) {
            return -EPERM;
        }
        if (inode_permission(inode, MAY_WRITE) != 0) {
            return -EACCES;
        }
    }
    if (!change->keep_accessed) {
        inode->accessed_ns = change->accessed_ns;
    }
    if (!change->keep_modified) {
        inode->modified_ns = change->modified_ns;
    }
    return 0;
}

static struct change times_now(void)
{
    uint64_t now = clock_realtime_ns();

    return (struct change){.accessed_ns = now, .modified_ns = now, .is_now = true};
}

#define UTIME_NOW  0x3fffffffu
#define UTIME_OMIT 0x3ffffffeu

/* One of the two struct timespec. 0 or -EINVAL. */
static long time_import(const uint64_t *timespec, uint64_t now, uint64_t *out_ns, bool *out_keep,
                        bool *out_is_now)
{
    *out_keep = timespec[1] == UTIME_OMIT;
    *out_is_now = timespec[1] == UTIME_NOW;
    if (*out_keep || *out_is_now) {
        *out_ns = now;
        return 0;
    }
    if (timespec[1] >= NS_PER_S) {
        return -EINVAL;
    }
    /* Before 1970 and after 2554 there are no times here; Linux clamps to the file system's too. */
    *out_ns = (int64_t)timespec[0] < 0               ? 0
              : timespec[0] >= UINT64_MAX / NS_PER_S ? UINT64_MAX
                                                     : timespec[0] * NS_PER_S + timespec[1];
    return 0;
}

SYSCALL(utimensat)
{
    struct change change = times_now();
    uint64_t times[4];
    bool is_accessed_now;
    bool is_modified_now;

    if (((unsigned)d & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) != 0) {
        return -EINVAL;
    }
    if (c != 0) {
        uint64_t now = change.accessed_ns;

        if (copy_from_user(times, (uint64_t)c, sizeof(times)) != VL_OK) {
            return -EFAULT;
        }
        if (time_import(times, now, &change.accessed_ns, &change.keep_accessed, &is_accessed_now) !=
                0 ||
            time_import(times + 2, now, &change.modified_ns, &change.keep_modified,
                        &is_modified_now) != 0) {
            return -EINVAL;
        }
        change.is_now = is_accessed_now && is_modified_now;
    }
    if (b == 0) {
        return (int)a == AT_FDCWD ? -EFAULT : change_fd((int)a, apply_times, &change);
    }
    return change_path((int)a, (uint64_t)b, (unsigned)d, apply_times, &change);
}

/* struct timeval[2], or NULL for now. */
static long utimes_at(int dirfd, uint64_t user_path, uint64_t user_times)
{
    struct change change = times_now();
    uint64_t times[4];

    if (user_times != 0) {
        if (copy_from_user(times, user_times, sizeof(times)) != VL_OK) {
            return -EFAULT;
        }
        if (times[1] >= 1000000 || times[3] >= 1000000) {
            return -EINVAL;
        }
        change.is_now = false;
        change.accessed_ns = times[0] * NS_PER_S + times[1] * 1000;
        change.modified_ns = times[2] * NS_PER_S + times[3] * 1000;
    }
    return change_path(dirfd, user_path, 0, apply_times, &change);
}

SYSCALL(utimes)
{
    return utimes_at(AT_FDCWD, (uint64_t)a, (uint64_t)b);
}

SYSCALL(futimesat)
{
    return utimes_at((int)a, (uint64_t)b, (uint64_t)c);
}

SYSCALL(utime)
{
    struct change change = times_now();
    uint64_t times[2];

    if (b != 0) {
        if (copy_from_user(times, (uint64_t)b, sizeof(times)) != VL_OK) {
            return -EFAULT;
        }
        change.is_now = false;
        change.accessed_ns = times[0] * NS_PER_S;
        change.modified_ns = times[1] * NS_PER_S;
    }
    return change_path(AT_FDCWD, (uint64_t)a, 0, apply_times, &change);
}

/* ---------------------------------------------------------------------------------- size */

/* RLIMIT_FSIZE for a file that is to grow. 0 or -EFBIG with SIGXFSZ. */
static long size_allowed(struct inode *inode, uint64_t size)
{
    if (size > inode_size(inode) && size > rlimit_soft(RLIMIT_FSIZE)) {
        signal_send_thread(current(), SIGXFSZ);
        return -EFBIG;
    }
    return 0;
}

SYSCALL(truncate)
{
    struct dentry *dentry;
    char *path;
    long result;

    if (b < 0) {
        return -EINVAL;
    }
    result = user_path_get(&path, (uint64_t)a, PATH_EMPTY_REFUSED);
    if (result != 0) {
        return result;
    }
    result = path_lookup(AT_FDCWD, path, WALK_FOLLOW, &dentry);
    user_path_put(path);
    if (result != 0) {
        return result;
    }
    if (inode_object(dentry->inode) == NULL) {
        result = inode_is(dentry->inode, S_IFDIR) ? -EISDIR : -EINVAL;
    } else {
        result = inode_permission(dentry->inode, MAY_WRITE);
    }
    if (result == 0 && (dentry->inode->super->flags & MS_RDONLY) != 0) {
        result = -EROFS;
    }
    result = result == 0 ? size_allowed(dentry->inode, (uint64_t)b) : result;
    result = result == 0 ? inode_set_size(dentry->inode, (uint64_t)b) : result;
    dentry_put(dentry);
    return result;
}

SYSCALL(ftruncate)
{
    struct fd_ref ref;
    long result;

    if (b < 0) {
        return -EINVAL;
    }
    if (!fd_ref_get((int)a, FD_NORMAL, &ref)) {
        return -EBADF;
    }
    if (inode_object(ref.file->inode) == NULL || (ref.file->flags & O_ACCMODE) == O_RDONLY) {
        result = -EINVAL;
    } else {
        result = size_allowed(ref.file->inode, (uint64_t)b);
        result = result == 0 ? inode_set_size(ref.file->inode, (uint64_t)b) : result;
    }
    fd_ref_put(&ref);
    return result;
}

#define FALLOC_KEEP_SIZE  1u
#define FALLOC_PUNCH_HOLE 2u
#define FALLOC_ZERO_RANGE 16u

/* Zero [start, end) within pages that are there. inode->mutex is held. */
static void zero_part(struct vl_object *object, uint64_t start, uint64_t end)
{
    struct vl_pfn pfn;

    if (start < end &&
        vl_object_page_get(object, start >> VL_PAGE_SHIFT, VL_PAGE_FIND, &pfn) == VL_OK) {
        memset((char *)vl_frame_to_virt(pfn) + (start & VL_PAGE_MASK), 0, (size_t)(end - start));
        vl_object_page_put(pfn);
    }
}

/* Take out whole pages, zero the rest at both ends. inode->mutex is held. */
static long punch(struct vl_object *object, uint64_t start, uint64_t end)
{
    uint64_t first = (start + VL_PAGE_MASK) & ~(uint64_t)VL_PAGE_MASK;
    uint64_t last = end & ~(uint64_t)VL_PAGE_MASK;

    if (first > last) { /* within one page */
        zero_part(object, start, end);
        return 0;
    }
    zero_part(object, start, first);
    zero_part(object, last, end);
    return first < last ? (long)vl_object_punch(object, first, last) : 0;
}

/* Give pages to all of [start, end). inode->mutex is held. */
static long allocate_pages(struct inode *inode, uint64_t start, uint64_t end)
{
    for (uint64_t index = start >> VL_PAGE_SHIFT; index << VL_PAGE_SHIFT < end; index++) {
        struct vl_pfn pfn;

        if (thread_signal_pending(current())) {
            return -EINTR;
        }
        inode_charge(inode);
        if (inode->super->pages_max != 0 &&
            atomic_load_explicit(&inode->super->pages, memory_order_relaxed) >=
                inode->super->pages_max) {
            return -ENOSPC;
        }
        if (vl_object_page_get(inode->u.object, index, VL_PAGE_CREATE, &pfn) != VL_OK) {
            return -ENOSPC;
        }
        vl_object_page_put(pfn);
    }
    return 0;
}

static long fallocate_locked(struct inode *inode, unsigned mode, uint64_t start, uint64_t end)
{
    struct vl_object *object = inode->u.object;
    long result = 0;

    if ((mode & FALLOC_PUNCH_HOLE) != 0) {
        uint64_t size = vl_object_size(object);

        result = start < size ? punch(object, start, end < size ? end : size) : 0;
    } else {
        if ((mode & FALLOC_ZERO_RANGE) != 0) {
            result = punch(object, start, end);
        }
        result = result == 0 ? allocate_pages(inode, start, end) : result;
        if (result == 0 && (mode & FALLOC_KEEP_SIZE) == 0) {
            result = vl_object_extend(object, end);
        }
    }
    inode_charge(inode);
    if (result == 0) {
        inode_touch(inode, TOUCH_MODIFY | TOUCH_CHANGE);
    }
    return result;
}

static long fallocate_file(struct file *file, unsigned mode, int64_t offset, int64_t len)
{
    struct inode *inode = file->inode;
    unsigned known = FALLOC_KEEP_SIZE | FALLOC_PUNCH_HOLE | FALLOC_ZERO_RANGE;
    uint64_t end;
    long result;

    if (offset < 0 || len <= 0) {
        return -EINVAL;
    }
    if ((mode & ~known) != 0 ||
        ((mode & FALLOC_PUNCH_HOLE) != 0 && mode != (FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE))) {
        return -EOPNOTSUPP;
    }
    if ((file->flags & O_ACCMODE) == O_RDONLY) {
        return -EBADF;
    }
    if (inode_object(inode) == NULL) {
        return inode_is(inode, S_IFIFO) ? -ESPIPE : inode_is(inode, S_IFDIR) ? -EISDIR : -ENODEV;
    }
    if (__builtin_add_overflow((uint64_t)offset, (uint64_t)len, &end) || end > INT64_MAX) {
        return -EFBIG;
    }
    result = (mode & FALLOC_KEEP_SIZE) == 0 ? size_allowed(inode, end) : 0;
    if (result != 0) {
        return result;
    }
    mutex_lock(&inode->mutex);
    result = fallocate_locked(inode, mode, (uint64_t)offset, end);
    mutex_unlock(&inode->mutex);
    return result;
}

SYSCALL(fallocate)
{
    struct fd_ref ref;
    long result;

    if (!fd_ref_get((int)a, FD_NORMAL, &ref)) {
        return -EBADF;
    }
    result = fallocate_file(ref.file, (unsigned)b, c, d);
    fd_ref_put(&ref);
    return result;
}

/* ---------------------------------------------------- what files in memory always fulfil */

static long sync_fd(int fd)
{
    struct fd_ref ref;
    long result;

    if (!fd_ref_get(fd, FD_NORMAL, &ref)) {
        return -EBADF;
    }
    result = file_sync(ref.file);
    fd_ref_put(&ref);
    return result;
}

SYSCALL(fsync)
{
    return sync_fd((int)a);
}

SYSCALL(fdatasync)
{
    return sync_fd((int)a);
}

SYSCALL(sync)
{
    return 0;
}

SYSCALL(syncfs)
{
    struct fd_ref ref;

    if (!fd_ref_get((int)a, FD_NORMAL, &ref)) {
        return -EBADF;
    }
    fd_ref_put(&ref);
    return 0;
}

SYSCALL(sync_file_range)
{
    struct fd_ref ref;
    long result = 0;

    if (((unsigned)d & ~7u) != 0 || b < 0 || c < 0) {
        return -EINVAL;
    }
    if (!fd_ref_get((int)a, FD_NORMAL, &ref)) {
        return -EBADF;
    }
    if (ref.file->ops->is_stream) {
        result = -ESPIPE;
    }
    fd_ref_put(&ref);
    return result;
}

SYSCALL(fadvise64)
{
    struct fd_ref ref;
    long result = 0;

    if (!fd_ref_get((int)a, FD_NORMAL, &ref)) {
        return -EBADF;
    }
    if (ref.file->ops->is_stream) {
        result = -ESPIPE;
    } else if (c < 0 || (unsigned)d > 5) {
        result = -EINVAL;
    }
    fd_ref_put(&ref);
    return result;
}

SYSCALL(readahead)
{
    struct fd_ref ref;
    long result = 0;

    if (!fd_ref_get((int)a, FD_NORMAL, &ref)) {
        return -EBADF;
    }
    if ((ref.file->flags & O_ACCMODE) == O_WRONLY) {
        result = -EBADF;
    } else if (!inode_is(ref.file->inode, S_IFREG)) {
        result = -EINVAL;
    }
    fd_ref_put(&ref);
    return result;
}

SYSCALL(umask)
{
    return (long)fs_set_umask((uint32_t)a);
}
