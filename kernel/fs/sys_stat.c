/*
 * sys_stat.c - asking about files: the stat family, statfs, access, readlink.
 */
#include "kernel/fs/context.h"
#include "kernel/fs/fdtable.h"
#include "kernel/fs/inode_types.h"
#include "kernel/fs/syscalls.h"
#include "kernel/cpu/uaccess.h"
#include "kernel/lib/mem.h"
#include "kernel/proc/process.h"

#define NS_PER_S 1000000000u

/* Linux's struct stat on x86-64. */
struct user_stat {
    uint64_t device;
    uint64_t inode;
    uint64_t links;
    uint32_t mode;
    uint32_t uid;
    uint32_t gid;
    uint32_t pad;
    uint64_t node_device;
    int64_t size;
    int64_t block_size;
    int64_t blocks;
    uint64_t accessed_s, accessed_ns;
    uint64_t modified_s, modified_ns;
    uint64_t changed_s, changed_ns;
    int64_t unused[3];
};
_Static_assert(sizeof(struct user_stat) == 144, "struct stat");

/* A device number as stat hands it out: the minor's upper bits lie above the major. */
static uint64_t device_encoded(uint32_t device)
{
    uint64_t major = device >> 20;
    uint64_t minor = device & 0xfffffu;

    return (minor & 0xffu) | major << 8 | (minor & ~(uint64_t)0xffu) << 12;
}

/* 512-byte blocks. */
static uint64_t inode_blocks(struct inode *inode)
{
    struct vl_object *object = inode_object(inode);

    return object != NULL ? vl_object_pages(object) * (VL_PAGE_SIZE / 512) : 0;
}

static void stat_fill(struct inode *inode, struct user_stat *out)
{
    memset(out, 0, sizeof(*out));
    out->device = device_encoded(inode->super->device);
    out->inode = inode->number;
    out->links = atomic_load_explicit(&inode->links, memory_order_relaxed);
    out->mode = inode->mode;
    out->uid = inode->uid;
    out->gid = inode->gid;
    out->node_device = device_encoded(inode->device);
    out->size = (int64_t)inode_size(inode);
    out->block_size = (int64_t)VL_PAGE_SIZE;
    out->blocks = (int64_t)inode_blocks(inode);
    out->accessed_s = inode->accessed_ns / NS_PER_S;
    out->accessed_ns = inode->accessed_ns % NS_PER_S;
    out->modified_s = inode->modified_ns / NS_PER_S;
    out->modified_ns = inode->modified_ns % NS_PER_S;
    out->changed_s = inode->changed_ns / NS_PER_S;
    out->changed_ns = inode->changed_ns % NS_PER_S;
}

static long stat_inode(struct inode *inode, uint64_t user_stat)
{
    struct user_stat stat;

    stat_fill(inode, &stat);
    return copy_to_user(user_stat, &stat, sizeof(stat)) == VL_OK ? 0 : -EFAULT;
}

/* The inode that the *at calls mean; with a reference. 0 or an errno. */
static long inode_at(int dirfd, uint64_t user_path, unsigned flags, struct inode **out)
{
    struct dentry *dentry;
    struct fd_ref ref;
    char *path = NULL;
    bool is_empty = (flags & AT_EMPTY_PATH) != 0;
    long result = 0;

    if (!is_empty || user_path != 0) {
        result =
            user_path_get(&path, user_path, is_empty ? PATH_EMPTY_ALLOWED : PATH_EMPTY_REFUSED);
        if (result != 0) {
            return result;
        }
        is_empty = path[0] == 0;
    }
    if (is_empty && dirfd != AT_FDCWD) {
        if (!fd_ref_get(dirfd, FD_PATH_TOO, &ref)) {
            result = -EBADF;
        } else {
            *out = ref.file->inode;
            inode_get(*out);
            fd_ref_put(&ref);
        }
    } else {
        result = path_lookup(dirfd, is_empty ? "." : path,
                             (flags & AT_SYMLINK_NOFOLLOW) != 0 ? 0 : WALK_FOLLOW, &dentry);
        if (result == 0) {
            *out = dentry->inode;
            inode_get(*out);
            dentry_put(dentry);
        }
    }
    if (path != NULL) {
        user_path_put(path);
    }
    return result;
}

static long stat_at(int dirfd, uint64_t user_path, unsigned flags, uint64_t user_stat)
{
    struct inode *inode;
    long result;

    if ((flags & ~(AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH)) != 0) {
        return -EINVAL;
    }
    result = inode_at(dirfd, user_path, flags, &inode);
    if (result == 0) {
        result = stat_inode(inode, user_stat);
        inode_put(inode);
    }
    return result;
}

SYSCALL(stat)
{
    return stat_at(AT_FDCWD, (uint64_t)a, 0, (uint64_t)b);
}

SYSCALL(lstat)
{
    return stat_at(AT_FDCWD, (uint64_t)a, AT_SYMLINK_NOFOLLOW, (uint64_t)b);
}

SYSCALL(fstat)
{
    struct fd_ref ref;
    long result;

    if (!fd_ref_get((int)a, FD_PATH_TOO, &ref)) {
        return -EBADF;
    }
    result = stat_inode(ref.file->inode, (uint64_t)b);
    fd_ref_put(&ref);
    return result;
}

SYSCALL(newfstatat)
{
    return stat_at((int)a, (uint64_t)b, (unsigned)d, (uint64_t)c);
}

/* ---------------------------------------------------------------------------------- statx */

struct user_time {
    int64_t s;
    uint32_t ns;
    uint32_t pad;
};

struct user_statx {
    uint32_t mask;
    uint32_t block_size;
    uint64_t attributes;
    uint32_t links;
    uint32_t uid;
    uint32_t gid;
    uint16_t mode;
    uint16_t pad;
    uint64_t inode;
    uint64_t size;
    uint64_t blocks;
    uint64_t attributes_mask;
    struct user_time accessed, born, changed, modified;
    uint32_t node_major, node_minor;
    uint32_t device_major, device_minor;
    uint64_t mount_id;
    uint64_t spare[13];
};
_Static_assert(sizeof(struct user_statx) == 256, "struct statx");

#define STATX_BASIC      0x7ffu
#define STATX_RESERVED   0x80000000u
#define AT_STATX_SYNCING 0x6000u

static struct user_time time_of(uint64_t ns)
{
    return (struct user_time){(int64_t)(ns / NS_PER_S), (uint32_t)(ns % NS_PER_S), 0};
}

static void statx_fill(struct inode *inode, struct user_statx *out)
{
    memset(out, 0, sizeof(*out));
    out->mask = STATX_BASIC;
    out->block_size = (uint32_t)VL_PAGE_SIZE;
    out->links = atomic_load_explicit(&inode->links, memory_order_relaxed);
    out->uid = inode->uid;
    out->gid = inode->gid;
    out->mode = (uint16_t)inode->mode;
    out->inode = inode->number;
    out->size = inode_size(inode);
    out->blocks = inode_blocks(inode);
    out->accessed = time_of(inode->accessed_ns);
    out->modified = time_of(inode->modified_ns);
    out->changed = time_of(inode->changed_ns);
    out->node_major = inode->device >> 20;
    out->node_minor = inode->device & 0xfffffu;
    out->device_minor = inode->super->device;
}

SYSCALL(statx)
{
    unsigned flags = (unsigned)c;
    struct user_statx statx;
    struct inode *inode;
    long result;

    if (((unsigned)d & STATX_RESERVED) != 0 || (flags & AT_STATX_SYNCING) == AT_STATX_SYNCING ||
        (flags & ~(AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH | AT_STATX_SYNCING)) !=
            0) {
        return -EINVAL;
    }
    result = inode_at((int)a, (uint64_t)b, flags, &inode);
    if (result != 0) {
        return result;
    }
    statx_fill(inode, &statx);
    inode_put(inode);
    return copy_to_user((uint64_t)e, &statx, sizeof(statx)) == VL_OK ? 0 : -EFAULT;
}

/* --------------------------------------------------------------------------------- statfs */

struct user_statfs {
    uint64_t type;
    uint64_t block_size;
    uint64_t blocks;
    uint64_t blocks_free;
    uint64_t blocks_available;
    uint64_t files;
    uint64_t files_free;
    uint64_t id;
    uint64_t name_max;
    uint64_t fragment_size;
    uint64_t flags;
    uint64_t spare[4];
};
_Static_assert(sizeof(struct user_statfs) == 120, "struct statfs");

#define ST_VALID 0x20u

static long statfs_super(struct super *super, uint64_t user)
{
    struct user_statfs out;
    int64_t used = atomic_load_explicit(&super->pages, memory_order_relaxed);
    uint64_t inodes;

    memset(&out, 0, sizeof(out));
    out.type = super->type->magic;
    out.block_size = VL_PAGE_SIZE;
    out.fragment_size = VL_PAGE_SIZE;
    out.name_max = NAME_MAX_BYTES;
    out.flags = super->flags | ST_VALID;
    if (super->pages_max != 0) {
        out.blocks = (uint64_t)super->pages_max;
        out.blocks_free = used < super->pages_max ? (uint64_t)(super->pages_max - used) : 0;
        out.blocks_available = out.blocks_free;
        /* As tmpfs: at most one inode a page. One reference of the super is the mount's. */
        inodes = atomic_load_explicit(&super->references, memory_order_relaxed) - 1u;
        out.files = (uint64_t)super->pages_max;
        out.files_free = inodes < out.files ? out.files - inodes : 0;
    }
    return copy_to_user(user, &out, sizeof(out)) == VL_OK ? 0 : -EFAULT;
}

SYSCALL(statfs)
{
    struct inode *inode;
    long result = inode_at(AT_FDCWD, (uint64_t)a, 0, &inode);

    if (result == 0) {
        result = statfs_super(inode->super, (uint64_t)b);
        inode_put(inode);
    }
    return result;
}

SYSCALL(fstatfs)
{
    struct fd_ref ref;
    long result;

    if (!fd_ref_get((int)a, FD_PATH_TOO, &ref)) {
        return -EBADF;
    }
    result = statfs_super(ref.file->inode->super, (uint64_t)b);
    fd_ref_put(&ref);
    return result;
}

/* --------------------------------------------------------------------------------- access */

static long access_at(int dirfd, uint64_t user_path, unsigned mode, unsigned flags)
{
    const struct credentials *cred = current_cred();
    bool effective = (flags & AT_EACCESS) != 0;
    struct inode *inode;
    long result;

    if ((mode & ~7u) != 0 || (flags & ~(AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) != 0) {
        return -EINVAL;
    }
    result = inode_at(dirfd, user_path, flags, &inode);
    if (result != 0) {
        return result;
    }
    result = inode_permission_ids(inode, mode, effective ? cred->fsuid : cred->uid,
                                  effective ? cred->fsgid : cred->gid);
    if (result == 0 && (mode & MAY_WRITE) != 0 && (inode->super->flags & MS_RDONLY) != 0 &&
        !inode_is(inode, S_IFCHR)) {
        result = -EROFS;
    }
    inode_put(inode);
    return result;
}

SYSCALL(access)
{
    return access_at(AT_FDCWD, (uint64_t)a, (unsigned)b, 0);
}

SYSCALL(faccessat)
{
    return access_at((int)a, (uint64_t)b, (unsigned)c, 0);
}

SYSCALL(faccessat2)
{
    return access_at((int)a, (uint64_t)b, (unsigned)c, (unsigned)d);
}

/* ------------------------------------------------------------------------------- readlink */

/* The text of a symbolic link, or of a link of /proc that leads to an object. */
static long link_text(struct dentry *dentry, char *out, size_t size)
{
    const struct inode_ops *ops = dentry->inode->ops;
    struct dentry *target;
    long result;

    if (!inode_is(dentry->inode, S_IFLNK)) {
        return -EINVAL;
    }
    if (ops->read_link != NULL) {
        return ops->read_link(dentry->inode, out, size);
    }
    result = ops->follow(dentry->inode, &target);
    if (result == 0) {
        result = dentry_path_text(target, out, size);
        dentry_put(target);
    }
    return result;
}

/* The link that a descriptor was opened on (O_PATH | O_NOFOLLOW), with a reference. */
static long link_of_fd(int fd, struct dentry **out)
{
    struct fd_ref ref;
    long result;

    if (!fd_ref_get(fd, FD_PATH_TOO, &ref)) {
        return -EBADF;
    }
    result = inode_is(ref.file->inode, S_IFLNK) ? dentry_of_file(ref.file, out) : -ENOENT;
    fd_ref_put(&ref);
    return result;
}

static long readlink_at(int dirfd, uint64_t user_path, uint64_t user_out, int size)
{
    struct dentry *dentry;
    char *path;
    long result;

    if (size <= 0) {
        return -EINVAL;
    }
    result = user_path_get(&path, user_path, PATH_EMPTY_ALLOWED);
    if (result != 0) {
        return result;
    }
    if (path[0] == 0 && dirfd != AT_FDCWD) {
        result = link_of_fd(dirfd, &dentry);
    } else {
        result = path_lookup(dirfd, path, 0, &dentry);
    }
    if (result == 0) {
        result = link_text(dentry, path, PATH_MAX_BYTES);
        dentry_put(dentry);
    }
    if (result > 0) {
        result = result < size ? result : size;
        result = copy_to_user(user_out, path, (size_t)result) == VL_OK ? result : -EFAULT;
    }
    user_path_put(path);
    return result;
}

SYSCALL(readlink)
{
    return readlink_at(AT_FDCWD, (uint64_t)a, (uint64_t)b, (int)c);
}

SYSCALL(readlinkat)
{
    return readlink_at((int)a, (uint64_t)b, (uint64_t)c, (int)d);
}
