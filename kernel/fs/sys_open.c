/*
 * sys_open.c - descriptors: open, close, dup, fcntl, ioctl, pipe.
 */
#include "kernel/fs/context.h"
#include "kernel/fs/fdtable.h"
#include "kernel/fs/inode_types.h"
#include "kernel/fs/locks.h"
#include "kernel/fs/pipe.h"
#include "kernel/fs/syscalls.h"
#include "kernel/cpu/uaccess.h"
#include "kernel/lib/mem.h"
#include "kernel/proc/process.h"

#define F_DUPFD         0u
#define F_GETFD         1u
#define F_SETFD         2u
#define F_GETFL         3u
#define F_SETFL         4u
#define F_GETLK         5u
#define F_SETLK         6u
#define F_SETLKW        7u
#define F_SETOWN        8u
#define F_GETOWN        9u
#define F_SETSIG        10u
#define F_GETSIG        11u
#define F_OFD_GETLK     36u
#define F_OFD_SETLK     37u
#define F_OFD_SETLKW    38u
#define F_DUPFD_CLOEXEC 1030u
#define F_SETPIPE_SZ    1031u
#define F_GETPIPE_SZ    1032u
#define F_ADD_SEALS     1033u
#define F_GET_SEALS     1034u

#define FIONBIO  0x5421u
#define FIONCLEX 0x5450u
#define FIOCLEX  0x5451u
#define FIOASYNC 0x5452u
#define FIONREAD 0x541bu

/* What F_SETFL changes. */
#define SETTABLE_FLAGS (O_APPEND | O_ASYNC | O_DIRECT | O_NONBLOCK | O_NOATIME)

static long open_at(int dirfd, uint64_t user_path, unsigned flags, unsigned mode)
{
    struct files *files = current_files();
    struct file *file;
    char *path;
    long fd;
    long result = user_path_get(&path, user_path, PATH_EMPTY_REFUSED);

    if (result != 0) {
        return result;
    }
    fd = files_reserve(files, 0, (flags & O_CLOEXEC) != 0);
    if (fd >= 0) {
        result = file_open_at(dirfd, path, flags, mode, &file);
        if (result == 0) {
            files_fill(files, (int)fd, file);
        } else {
            files_unreserve(files, (int)fd);
            fd = result;
        }
    }
    user_path_put(path);
    return fd;
}

SYSCALL(open)
{
    return open_at(AT_FDCWD, (uint64_t)a, (unsigned)b | O_LARGEFILE, (unsigned)c);
}

SYSCALL(openat)
{
    return open_at((int)a, (uint64_t)b, (unsigned)c | O_LARGEFILE, (unsigned)d);
}

SYSCALL(creat)
{
    return open_at(AT_FDCWD, (uint64_t)a, O_CREAT | O_WRONLY | O_TRUNC | O_LARGEFILE, (unsigned)b);
}

/* struct open_how, without any of the ways to confine the walk. */
SYSCALL(openat2)
{
    uint64_t how[3];

    if ((size_t)d < sizeof(how)) {
        return -EINVAL;
    }
    if ((size_t)d > sizeof(how)) {
        return -E2BIG;
    }
    if (copy_from_user(how, (uint64_t)c, sizeof(how)) != VL_OK) {
        return -EFAULT;
    }
    if (how[0] > UINT32_MAX || how[1] > 07777 || how[2] != 0) {
        return -EINVAL;
    }
    return open_at((int)a, (uint64_t)b, (unsigned)how[0] | O_LARGEFILE, (unsigned)how[1]);
}

SYSCALL(close)
{
    return files_close(current_files(), (int)a);
}

#define CLOSE_RANGE_UNSHARE 2u
#define CLOSE_RANGE_CLOEXEC 4u

SYSCALL(close_range)
{
    struct files *files = current_files();
    unsigned first = (unsigned)a;
    unsigned last = (unsigned)b;
    unsigned flags = (unsigned)c;

    /* A table is shared by all threads of a process here; a private one for one of them would be a
     * thing of its own, which no program that was looked at asks for. */
    if (first > last || (flags & ~CLOSE_RANGE_CLOEXEC) != 0) {
        return -EINVAL;
    }
    for (int fd = files_next(files, first > INT32_MAX ? INT32_MAX : (int)first);
         fd >= 0 && (unsigned)fd <= last; fd = files_next(files, fd + 1)) {
        if ((flags & CLOSE_RANGE_CLOEXEC) != 0) {
            (void)files_cloexec(files, fd, 1);
        } else {
            (void)files_close(files, fd);
        }
    }
    return 0;
}

static long dup_from(int fd, unsigned min, bool cloexec)
{
    struct files *files = current_files();
    struct file *file = files_file_get(files, fd);
    long result;

    if (file == NULL) {
        return -EBADF;
    }
    if (min >= rlimit_soft(RLIMIT_NOFILE)) {
        file_put(file);
        return -EINVAL;
    }
    result = files_install(files, file, min, cloexec);
    if (result < 0) {
        file_put(file);
    }
    return result;
}

SYSCALL(dup)
{
    return dup_from((int)a, 0, false);
}

static long dup_onto(int old, int new, bool cloexec)
{
    struct files *files = current_files();
    struct file *file = files_file_get(files, old);
    long result;

    if (file == NULL) {
        return -EBADF;
    }
    result = files_replace(files, new, file, cloexec);
    if (result < 0) {
        file_put(file);
    }
    return result;
}

SYSCALL(dup2)
{
    struct fd_ref ref;

    if ((int)a == (int)b) {
        if (!fd_ref_get((int)a, FD_PATH_TOO, &ref)) {
            return -EBADF;
        }
        fd_ref_put(&ref);
        return (int)b;
    }
    return dup_onto((int)a, (int)b, false);
}

SYSCALL(dup3)
{
    if (((unsigned)c & ~O_CLOEXEC) != 0 || (int)a == (int)b) {
        return -EINVAL;
    }
    return dup_onto((int)a, (int)b, ((unsigned)c & O_CLOEXEC) != 0);
}

/* ---------------------------------------------------------------------------------- fcntl */

static long set_status(struct file *file, unsigned flags)
{
    unsigned old = atomic_load_explicit(&file->flags, memory_order_relaxed);

    if ((flags & O_NOATIME) != 0 && (old & O_NOATIME) == 0 && !inode_is_owner(file->inode)) {
        return -EPERM;
    }
    while (!atomic_compare_exchange_weak_explicit(
        &file->flags, &old, (old & ~SETTABLE_FLAGS) | (flags & SETTABLE_FLAGS),
        memory_order_relaxed, memory_order_relaxed)) {
    }
    return 0;
}

static long fcntl_pipe(struct file *file, unsigned command, uint64_t arg)
{
    struct pipe *pipe = pipe_of(file);

    if (pipe == NULL) {
        return -EBADF;
    }
    return command == F_GETPIPE_SZ ? pipe_capacity(pipe) : pipe_set_capacity(pipe, (unsigned)arg);
}

static long fcntl_file(struct file *file, unsigned command, uint64_t arg)
{
    switch (command) {
    case F_GETFL:
        return (long)(file->flags & ~(O_CLOEXEC | O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC));
    case F_SETFL:
        return set_status(file, (unsigned)arg);
    case F_SETOWN:
        file->owner_pid = (uint32_t)arg;
        return 0;
    case F_GETOWN:
        return (long)(int32_t)file->owner_pid;
    case F_SETSIG:
        if (arg > SIGNAL_MAX) {
            return -EINVAL;
        }
        file->signal = (uint32_t)arg;
        return 0;
    case F_GETSIG:
        return (long)file->signal;
    case F_GETLK:
    case F_SETLK:
    case F_SETLKW:
    case F_OFD_GETLK:
    case F_OFD_SETLK:
    case F_OFD_SETLKW:
        return locks_fcntl(file, command, arg);
    case F_SETPIPE_SZ:
    case F_GETPIPE_SZ:
        return fcntl_pipe(file, command, arg);
    default: /* seals too: no file here can be sealed, which Linux says by EINVAL */
        return -EINVAL;
    }
}

SYSCALL(fcntl)
{
    struct files *files = current_files();
    int fd = (int)a;
    unsigned command = (unsigned)b;
    bool is_path_ok = command == F_GETFL;
    struct fd_ref ref;
    long result;

    switch (command) {
    case F_DUPFD:
    case F_DUPFD_CLOEXEC:
        return dup_from(fd, (unsigned)c, command == F_DUPFD_CLOEXEC);
    case F_GETFD:
        return files_cloexec(files, fd, -1);
    case F_SETFD:
        result = files_cloexec(files, fd, (c & 1) != 0 ? 1 : 0);
        return result < 0 ? result : 0;
    default:
        break;
    }
    if (!fd_ref_get(fd, is_path_ok ? FD_PATH_TOO : FD_NORMAL, &ref)) {
        return -EBADF;
    }
    result = fcntl_file(ref.file, command, (uint64_t)c);
    fd_ref_put(&ref);
    return result;
}

SYSCALL(flock)
{
    struct fd_ref ref;
    long result;

    if (!fd_ref_get((int)a, FD_NORMAL, &ref)) {
        return -EBADF;
    }
    result = locks_flock(ref.file, (unsigned)b);
    fd_ref_put(&ref);
    return result;
}

/* FIONREAD of a regular file: what lies beyond the position. */
static long ioctl_regular(struct file *file, unsigned command, uint64_t arg)
{
    uint64_t size = inode_size(file->inode);
    uint32_t rest = size > file->pos ? (uint32_t)(size - file->pos) : 0;

    if (command != FIONREAD) {
        return -ENOTTY;
    }
    return put_user32(arg, rest) == VL_OK ? 0 : -EFAULT;
}

static long ioctl_file(struct file *file, int fd, unsigned command, uint64_t arg)
{
    uint32_t on;

    switch (command) {
    case FIOCLEX:
    case FIONCLEX:
        return files_cloexec(current_files(), fd, command == FIOCLEX) < 0 ? -EBADF : 0;
    case FIONBIO:
        if (get_user32(&on, arg) != VL_OK) {
            return -EFAULT;
        }
        if (on != 0) {
            atomic_fetch_or_explicit(&file->flags, O_NONBLOCK, memory_order_relaxed);
        } else {
            atomic_fetch_and_explicit(&file->flags, ~O_NONBLOCK, memory_order_relaxed);
        }
        return 0;
    default:
        if (file->ops->ioctl != NULL) {
            return file->ops->ioctl(file, command, arg);
        }
        return inode_is(file->inode, S_IFREG) ? ioctl_regular(file, command, arg) : -ENOTTY;
    }
}

SYSCALL(ioctl)
{
    struct fd_ref ref;
    long result;

    if (!fd_ref_get((int)a, FD_NORMAL, &ref)) {
        return -EBADF;
    }
    result = ioctl_file(ref.file, (int)a, (unsigned)b, (uint64_t)c);
    fd_ref_put(&ref);
    return result;
}

/* ----------------------------------------------------------------------------------- pipe */

long pair_install(struct file *first, struct file *second, bool cloexec, uint64_t user_pair)
{
    struct files *files = current_files();
    int32_t pair[2];
    long fd = files_reserve(files, 0, cloexec);

    if (fd < 0) {
        goto put_files;
    }
    pair[0] = (int32_t)fd;
    fd = files_reserve(files, 0, cloexec);
    if (fd < 0) {
        goto unreserve_first;
    }
    pair[1] = (int32_t)fd;
    if (copy_to_user(user_pair, pair, sizeof(pair)) != VL_OK) {
        fd = -EFAULT;
        goto unreserve_second;
    }
    files_fill(files, pair[0], first);
    files_fill(files, pair[1], second);
    return 0;

unreserve_second:
    files_unreserve(files, pair[1]);
unreserve_first:
    files_unreserve(files, pair[0]);
put_files:
    file_put(first);
    file_put(second);
    return fd;
}

static long make_pipe(uint64_t user_pair, unsigned flags)
{
    struct file *reader;
    struct file *writer;
    long result;

    if ((flags & ~(O_CLOEXEC | O_NONBLOCK | O_DIRECT)) != 0) {
        return -EINVAL;
    }
    result = pipe_make(flags & O_NONBLOCK, &reader, &writer);
    if (result != 0) {
        return result;
    }
    return pair_install(reader, writer, (flags & O_CLOEXEC) != 0, user_pair);
}

SYSCALL(pipe)
{
    return make_pipe((uint64_t)a, 0);
}

SYSCALL(pipe2)
{
    return make_pipe((uint64_t)a, (unsigned)b);
}

#define MFD_CLOEXEC       1u
#define MFD_ALLOW_SEALING 2u
#define MFD_NOEXEC_SEAL   8u
#define MFD_EXEC          16u
#define MFD_NAME_MAX      249u

/* A file of the root file system that never had a name. */
SYSCALL(memfd_create)
{
    static const char prefix[] = "/memfd:";
    char name[sizeof(prefix) + MFD_NAME_MAX + 1];
    struct dentry *root = root_super()->root;
    struct dentry *dentry;
    struct inode *inode;
    struct file *file;
    unsigned flags = (unsigned)b;
    long len;
    long result;

    if ((flags & ~(MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL | MFD_EXEC)) != 0) {
        return -EINVAL;
    }
    len = strncpy_from_user(name + sizeof(prefix) - 1, (uint64_t)a, MFD_NAME_MAX + 1);
    if (len < 0 || len > (long)MFD_NAME_MAX) {
        return len < 0 ? -EFAULT : -EINVAL;
    }
    (void)memcpy(name, prefix, sizeof(prefix) - 1);
    result = root->inode->ops->make(root->inode, S_IFREG | 0777, 0, NULL, &inode);
    if (result != 0) {
        return result;
    }
    atomic_store_explicit(&inode->links, 0, memory_order_relaxed);
    dentry = dentry_make(NULL, name, sizeof(prefix) - 1 + (size_t)len, inode);
    inode_put(inode); /* the dentry has its own */
    if (dentry == NULL) {
        return -ENOMEM;
    }
    result = dentry_open(dentry, O_RDWR | O_LARGEFILE, &file);
    dentry_put(dentry);
    if (result != 0) {
        return result;
    }
    result = files_install(current_files(), file, 0, (flags & MFD_CLOEXEC) != 0);
    if (result < 0) {
        file_put(file);
    }
    return result;
}
