/*
 * sys_names.c - the calls that change or list names, working directories, mounts.
 */
#include "kernel/fs/context.h"
#include "kernel/fs/fdtable.h"
#include "kernel/fs/inode_types.h"
#include "kernel/fs/syscalls.h"
#include "kernel/cpu/uaccess.h"
#include "kernel/lib/mem.h"
#include "kernel/proc/process.h"

/* A path of a call: copied in, and the directory of its last name found. */
struct named {
    char *path;
    struct path_end end;
};

static long named_get(struct named *named, int dirfd, uint64_t user_path)
{
    long result = user_path_get(&named->path, user_path, PATH_EMPTY_REFUSED);

    if (result != 0) {
        return result;
    }
    result = path_parent(dirfd, named->path, &named->end);
    if (result != 0) {
        user_path_put(named->path);
    }
    return result;
}

static void named_put(struct named *named)
{
    path_end_put(&named->end);
    user_path_put(named->path);
}

/* ---------------------------------------------------------------------------------- make */

static long make_at(int dirfd, uint64_t user_path, uint32_t mode, uint32_t device)
{
    struct named named;
    long result = named_get(&named, dirfd, user_path);

    if (result == 0) {
        result = node_make(&named.end, (mode & S_IFMT) | (mode & 07777u & ~fs_umask()), device,
                           NULL, NULL);
        named_put(&named);
    }
    return result;
}

SYSCALL(mkdir)
{
    return make_at(AT_FDCWD, (uint64_t)a, S_IFDIR | ((uint32_t)b & 01777u), 0);
}

SYSCALL(mkdirat)
{
    return make_at((int)a, (uint64_t)b, S_IFDIR | ((uint32_t)c & 01777u), 0);
}

/* The kernel's device number from the user's: the other way round from stat's. */
static uint32_t device_decoded(uint64_t device)
{
    uint64_t major = device >> 8 & 0xfffu;
    uint64_t minor = (device & 0xffu) | (device >> 12 & 0xfff00u);

    return DEVICE(major, minor);
}

static long mknod_at(int dirfd, uint64_t user_path, uint32_t mode, uint64_t device)
{
    switch (mode & S_IFMT) {
    case 0:
        mode |= S_IFREG;
        break;
    case S_IFREG:
    case S_IFIFO:
    case S_IFSOCK:
    case S_IFCHR:
    case S_IFBLK:
        break;
    case S_IFDIR:
        return -EPERM;
    default:
        return -EINVAL;
    }
    return make_at(dirfd, user_path, mode & (S_IFMT | 07777u), device_decoded(device));
}

SYSCALL(mknod)
{
    return mknod_at(AT_FDCWD, (uint64_t)a, (uint32_t)b, (uint64_t)c);
}

SYSCALL(mknodat)
{
    return mknod_at((int)a, (uint64_t)b, (uint32_t)c, (uint64_t)d);
}

static long symlink_at(uint64_t user_text, int dirfd, uint64_t user_path)
{
    struct named named;
    char *text;
    long result = user_path_get(&text, user_text, PATH_EMPTY_REFUSED);

    if (result != 0) {
        return result;
    }
    result = named_get(&named, dirfd, user_path);
    if (result == 0) {
        result = node_make(&named.end, S_IFLNK | 0777, 0, text, NULL);
        named_put(&named);
    }
    user_path_put(text);
    return result;
}

SYSCALL(symlink)
{
    return symlink_at((uint64_t)a, AT_FDCWD, (uint64_t)b);
}

SYSCALL(symlinkat)
{
    return symlink_at((uint64_t)a, (int)b, (uint64_t)c);
}

/* -------------------------------------------------------------------------------- remove */

static long remove_at(int dirfd, uint64_t user_path, bool directory)
{
    struct named named;
    long result = named_get(&named, dirfd, user_path);

    if (result == 0) {
        result = node_remove(&named.end, directory);
        named_put(&named);
    }
    return result;
}

SYSCALL(rmdir)
{
    return remove_at(AT_FDCWD, (uint64_t)a, true);
}

SYSCALL(unlink)
{
    return remove_at(AT_FDCWD, (uint64_t)a, false);
}

SYSCALL(unlinkat)
{
    if (((unsigned)c & ~AT_REMOVEDIR) != 0) {
        return -EINVAL;
    }
    return remove_at((int)a, (uint64_t)b, ((unsigned)c & AT_REMOVEDIR) != 0);
}

/* ----------------------------------------------------------------------- link and rename */

/* The dentry that linkat links; with a reference. */
static long link_source(int dirfd, uint64_t user_path, unsigned flags, struct dentry **out)
{
    struct fd_ref ref;
    char *path;
    long result = user_path_get(
        &path, user_path, (flags & AT_EMPTY_PATH) != 0 ? PATH_EMPTY_ALLOWED : PATH_EMPTY_REFUSED);

    if (result != 0) {
        return result;
    }
    if (path[0] == 0) {
        result = fd_ref_get(dirfd, FD_PATH_TOO, &ref) ? 0 : -EBADF;
        if (result == 0) {
            result = ref.file->dentry != NULL ? 0 : -EXDEV;
            *out = ref.file->dentry;
            if (result == 0) {
                dentry_get(*out);
            }
            fd_ref_put(&ref);
        }
    } else {
        result = path_lookup(dirfd, path, (flags & AT_SYMLINK_FOLLOW) != 0 ? WALK_FOLLOW : 0, out);
    }
    user_path_put(path);
    return result;
}

static long link_at(int old_dirfd, uint64_t user_old, int new_dirfd, uint64_t user_new,
                    unsigned flags)
{
    struct named named;
    struct dentry *source;
    long result;

    if ((flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH)) != 0) {
        return -EINVAL;
    }
    result = link_source(old_dirfd, user_old, flags, &source);
    if (result != 0) {
        return result;
    }
    result = named_get(&named, new_dirfd, user_new);
    if (result == 0) {
        result = node_link(source, &named.end);
        named_put(&named);
    }
    dentry_put(source);
    return result;
}

SYSCALL(link)
{
    return link_at(AT_FDCWD, (uint64_t)a, AT_FDCWD, (uint64_t)b, 0);
}

SYSCALL(linkat)
{
    return link_at((int)a, (uint64_t)b, (int)c, (uint64_t)d, (unsigned)e);
}

static long rename_at(int old_dirfd, uint64_t user_old, int new_dirfd, uint64_t user_new,
                      unsigned flags)
{
    struct named from;
    struct named to;
    long result;

    if ((flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE)) != 0 ||
        flags == (RENAME_NOREPLACE | RENAME_EXCHANGE)) {
        return -EINVAL;
    }
    result = named_get(&from, old_dirfd, user_old);
    if (result != 0) {
        return result;
    }
    result = named_get(&to, new_dirfd, user_new);
    if (result == 0) {
        result = node_rename(&from.end, &to.end, flags);
        named_put(&to);
    }
    named_put(&from);
    return result;
}

SYSCALL(rename)
{
    return rename_at(AT_FDCWD, (uint64_t)a, AT_FDCWD, (uint64_t)b, 0);
}

SYSCALL(renameat)
{
    return rename_at((int)a, (uint64_t)b, (int)c, (uint64_t)d, 0);
}

SYSCALL(renameat2)
{
    return rename_at((int)a, (uint64_t)b, (int)c, (uint64_t)d, (unsigned)e);
}

/* ------------------------------------------------------------------------------- listing */

/* Entries in Linux's layout, collected in the kernel and copied out at the end. */
struct dirent_sink {
    struct dir_sink sink; /* first */
    char *buffer;
    size_t room;
    size_t len;
    bool is_old; /* getdents: the type stands in the last byte */
    bool is_too_small;
};

#define DIRENT_HEAD     19u /* inode 8, offset 8, length 2, type 1 */
#define DIRENT_OLD_HEAD 18u

static bool dirent_add(struct dir_sink *sink, const char *name, size_t len, uint64_t next_pos,
                       uint64_t inode, uint32_t mode)
{
    struct dirent_sink *out = (struct dirent_sink *)sink;
    size_t head = out->is_old ? DIRENT_OLD_HEAD : DIRENT_HEAD;
    size_t size = (head + len + (out->is_old ? 2 : 1) + 7) & ~(size_t)7;
    char *at = out->buffer + out->len;
    uint16_t size16 = (uint16_t)size;
    char type = (char)((mode & S_IFMT) >> 12);

    if (size > out->room - out->len) {
        out->is_too_small = out->len == 0;
        return false;
    }
    memset(at, 0, size);
    memcpy(at, &inode, 8);
    memcpy(at + 8, &next_pos, 8);
    memcpy(at + 16, &size16, 2);
    if (out->is_old) {
        at[size - 1] = type;
    } else {
        at[18] = type;
    }
    memcpy(at + head, name, len);
    out->len += size;
    return true;
}

/* "." and "..", which no table holds. Returns: false when there is no room. */
static bool list_dots(struct file *file, struct dir_sink *sink)
{
    struct dentry *root = fs_root();
    struct dentry *up = dentry_parent(file->dentry, root);
    uint64_t parent = up->inode->number;
    bool fits = true;

    dentry_put(up);
    dentry_put(root);
    if (file->pos == 0) {
        fits = sink->add(sink, ".", 1, 1, file->inode->number, S_IFDIR);
        file->pos = fits ? 1 : 0;
    }
    if (fits && file->pos == 1) {
        fits = sink->add(sink, "..", 2, 2, parent, S_IFDIR);
        file->pos = fits ? 2 : 1;
    }
    return fits;
}

#define LIST_BYTES_MAX 32768u

static long list_directory(struct file *file, struct dirent_sink *sink, uint64_t user)
{
    long result = 0;

    if (!inode_is(file->inode, S_IFDIR) || file->ops->list == NULL) {
        return -ENOTDIR;
    }
    if ((file->inode->flags & INODE_DEAD) != 0) {
        return -ENOENT;
    }
    mutex_lock(&file->pos_mutex);
    if (list_dots(file, &sink->sink)) {
        result = file->ops->list(file, &sink->sink);
    }
    mutex_unlock(&file->pos_mutex);
    if (result != 0 || sink->len == 0) {
        return result == 0 && sink->is_too_small ? -EINVAL : result;
    }
    inode_touch(file->inode, TOUCH_ACCESS);
    return copy_to_user(user, sink->buffer, sink->len) == VL_OK ? (long)sink->len : -EFAULT;
}

static long list_fd(int fd, uint64_t user, size_t size, bool is_old)
{
    struct dirent_sink sink = {{dirent_add}, NULL, 0, 0, is_old, false};
    struct fd_ref ref;
    long result = -ENOMEM;

    if (!fd_ref_get(fd, FD_NORMAL, &ref)) {
        return -EBADF;
    }
    sink.room = size < LIST_BYTES_MAX ? size : LIST_BYTES_MAX;
    sink.buffer = vl_kmalloc(sink.room, VL_WAIT);
    if (sink.buffer != NULL) {
        result = list_directory(ref.file, &sink, user);
        vl_kfree(sink.buffer);
    }
    fd_ref_put(&ref);
    return result;
}

SYSCALL(getdents)
{
    return list_fd((int)a, (uint64_t)b, (unsigned)c, true);
}

SYSCALL(getdents64)
{
    return list_fd((int)a, (uint64_t)b, (unsigned)c, false);
}

/* --------------------------------------------------------------------- working directory */

/* A directory that may be entered. Consumes the reference unless it returns 0. */
static long enter_check(struct dentry *dentry)
{
    long result =
        inode_is(dentry->inode, S_IFDIR) ? inode_permission(dentry->inode, MAY_EXEC) : -ENOTDIR;

    if (result != 0) {
        dentry_put(dentry);
    }
    return result;
}

static long directory_of_path(uint64_t user_path, struct dentry **out)
{
    char *path;
    long result = user_path_get(&path, user_path, PATH_EMPTY_REFUSED);

    if (result != 0) {
        return result;
    }
    result = path_lookup(AT_FDCWD, path, WALK_FOLLOW | WALK_DIRECTORY, out);
    user_path_put(path);
    return result == 0 ? enter_check(*out) : result;
}

SYSCALL(chdir)
{
    struct dentry *dentry;
    long result = directory_of_path((uint64_t)a, &dentry);

    if (result == 0) {
        fs_set_cwd(dentry);
    }
    return result;
}

SYSCALL(fchdir)
{
    struct fd_ref ref;
    struct dentry *dentry;
    long result = -ENOTDIR;

    if (!fd_ref_get((int)a, FD_PATH_TOO, &ref)) {
        return -EBADF;
    }
    dentry = ref.file->dentry;
    if (dentry != NULL) {
        dentry_get(dentry);
        result = enter_check(dentry);
        if (result == 0) {
            fs_set_cwd(dentry);
        }
    }
    fd_ref_put(&ref);
    return result;
}

SYSCALL(chroot)
{
    struct dentry *dentry;
    long result = directory_of_path((uint64_t)a, &dentry);

    if (result == 0 && !capable_root()) {
        dentry_put(dentry);
        result = -EPERM;
    }
    if (result == 0) {
        fs_set_root(dentry);
    }
    return result;
}

SYSCALL(getcwd)
{
    static const char outside[] = "(unreachable)";
    char *path = vl_kmalloc(PATH_MAX_BYTES + sizeof(outside), VL_WAIT);
    struct dentry *cwd;
    struct dentry *root;
    enum path_state state;
    size_t shift;
    long len;

    if (path == NULL) {
        return -ENOMEM;
    }
    cwd = fs_cwd();
    root = fs_root();
    len = dentry_path(cwd, root, path + sizeof(outside) - 1, PATH_MAX_BYTES, &state);
    dentry_put(root);
    dentry_put(cwd);
    if (len >= 0 && state == PATH_DELETED) {
        len = -ENOENT;
    }
    if (len >= 0) {
        shift = state == PATH_OUTSIDE ? 0 : sizeof(outside) - 1;
        memcpy(path, outside, state == PATH_OUTSIDE ? sizeof(outside) - 1 : 0);
        len += (long)(sizeof(outside) - 1 - shift) + 1;
        if ((uint64_t)len > (uint64_t)b) {
            len = -ERANGE;
        } else if (copy_to_user((uint64_t)a, path + shift, (size_t)len) != VL_OK) {
            len = -EFAULT;
        }
    }
    vl_kfree(path);
    return len;
}

/* --------------------------------------------------------------------------------- mounts */

/* A short string argument, which may be missing. 0 or an errno. */
static long text_get(char *out, size_t size, uint64_t user)
{
    long len;

    out[0] = 0;
    if (user == 0) {
        return 0;
    }
    len = strncpy_from_user(out, user, size);
    if (len == (long)size) {
        return -EINVAL;
    }
    return len < 0 ? -EFAULT : 0;
}

SYSCALL(mount)
{
    uint64_t flags = (uint64_t)d;
    char source[64];
    char type[32];
    char *target;
    long result = text_get(type, sizeof(type), (uint64_t)c);

    if (result == 0 && text_get(source, sizeof(source), (uint64_t)a) != 0) {
        (void)strlcpy(source, "none", sizeof(source));
    }
    if (result != 0) {
        return result;
    }
    result = user_path_get(&target, (uint64_t)b, PATH_EMPTY_REFUSED);
    if (result != 0) {
        return result;
    }
    if ((flags & (MS_REMOUNT | MS_PROPAGATION)) != 0) {
        result = mount_change(target, flags);
    } else if ((flags & (MS_BIND | MS_MOVE)) != 0) {
        result = -EINVAL; /* a file system is in one place here */
    } else {
        result = mount_type(source[0] != 0 ? source : "none", target, type, flags, "");
    }
    user_path_put(target);
    return result;
}

SYSCALL(umount2)
{
    char *target;
    long result;

    if (((unsigned)b & ~15u) != 0) {
        return -EINVAL;
    }
    result = user_path_get(&target, (uint64_t)a, PATH_EMPTY_REFUSED);
    if (result == 0) {
        result = mount_detach(target, (unsigned)b);
        user_path_put(target);
    }
    return result;
}
