/*
 * file.c - open files: making one, opening a path, what the kernel itself reads and maps.
 */
#include "kernel/fs/context.h"
#include "kernel/fs/fdtable.h"
#include "kernel/fs/inode_types.h"
#include "kernel/fs/locks.h"
#include "kernel/fs/pipe.h"
#include "kernel/cpu/uaccess.h"
#include "kernel/lib/mem.h"
#include "kernel/proc/process.h"

#define LINKS_MAX 40u

static struct vl_cache *file_cache;

void file_init(void)
{
    static const struct vl_cache_spec spec = {
        .name = "file", .size = sizeof(struct file), .align = 64};

    if (vl_cache_create(&spec, &file_cache) != VL_OK) {
        vli_panic("no memory for the cache of open files");
    }
}

struct file *file_make(struct inode *inode, const struct file_ops *ops, unsigned flags,
                       void *private_data)
{
    struct file *file = vl_cache_alloc(file_cache, VL_WAIT);

    if (file == NULL) {
        return NULL;
    }
    atomic_init(&file->references, 1);
    atomic_init(&file->flags, flags);
    file->ops = ops;
    file->inode = inode;
    inode_get(inode);
    file->dentry = NULL;
    file->pos = 0;
    file->private_data = private_data;
    mutex_init(&file->pos_mutex);
    file->owner_pid = 0;
    file->signal = 0;
    return file;
}

void file_get(struct file *file)
{
    atomic_fetch_add_explicit(&file->references, 1, memory_order_relaxed);
}

/* Free what was never handed out, or is not used any more. */
static void file_free(struct file *file)
{
    if (file->dentry != NULL) {
        dentry_put(file->dentry);
    }
    inode_put(file->inode);
    vl_cache_free(file_cache, file);
}

void file_put(struct file *file)
{
    /* Release and acquire: the last one sees what all others did. */
    if (atomic_fetch_sub_explicit(&file->references, 1, memory_order_release) != 1) {
        return;
    }
    atomic_thread_fence(memory_order_acquire);
    locks_release(file);
    if (file->ops != NULL && file->ops->release != NULL) {
        file->ops->release(file);
    }
    file_free(file);
}

long anon_file_make(const struct file_ops *ops, unsigned flags, void *private_data,
                    struct file **out)
{
    static const struct inode_ops no_ops = {NULL, NULL, NULL, NULL, NULL, NULL, NULL};
    struct inode *inode = inode_make(super_internal(), 0600, &no_ops, ops);
    struct file *file;

    if (inode == NULL) {
        return -ENOMEM;
    }
    file = file_make(inode, ops, flags, private_data);
    inode_put(inode); /* the file has its own */
    if (file == NULL) {
        return -ENOMEM;
    }
    *out = file;
    return 0;
}

/* -------------------------------------------------------------------------------- opening */

/* What an access mode asks of the inode's permissions. */
static unsigned access_of(unsigned flags)
{
    static const uint8_t access[4] = {MAY_READ, MAY_WRITE, MAY_READ | MAY_WRITE,
                                      MAY_READ | MAY_WRITE};

    return access[flags & O_ACCMODE] | ((flags & O_TRUNC) != 0 ? MAY_WRITE : 0u);
}

long dentry_open(struct dentry *dentry, unsigned flags, struct file **out)
{
    struct inode *inode = dentry->inode;
    const struct file_ops *ops = (flags & O_PATH) != 0 ? NULL : inode->file_ops;
    struct file *file;
    long result = 0;

    file =
        file_make(inode, ops, flags & ~(O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_CLOEXEC), NULL);
    if (file == NULL) {
        return -ENOMEM;
    }
    dentry_get(dentry);
    file->dentry = dentry;
    if ((flags & O_PATH) == 0) {
        uint32_t type = inode->mode & S_IFMT;

        if (type == S_IFCHR || type == S_IFBLK) {
            result = device_open(inode, file, (flags & O_NOCTTY) != 0);
        } else if (type == S_IFIFO) {
            result = fifo_open(inode, file);
        } else if (inode->ops != NULL && inode->ops->open != NULL) {
            result = inode->ops->open(inode, file);
        } else if (file->ops == NULL) {
            result = -ENXIO; /* a socket's name */
        }
    }
    if (result == 0 && (flags & O_TRUNC) != 0 && inode_object(inode) != NULL) {
        result = inode_set_size(inode, 0);
    }
    if (result != 0) {
        file_free(file);
        return result;
    }
    *out = file;
    return 0;
}

/* The checks of open(2) on what was found there. @is_new: made by this call. */
static long open_check(struct dentry *dentry, unsigned flags, bool is_new)
{
    struct inode *inode = dentry->inode;
    long result;

    if ((flags & O_PATH) != 0) {
        return (flags & O_DIRECTORY) != 0 && !inode_is(inode, S_IFDIR) ? -ENOTDIR : 0;
    }
    if (inode_is(inode, S_IFLNK)) {
        return (flags & O_DIRECTORY) != 0 ? -ENOTDIR : -ELOOP;
    }
    if (inode_is(inode, S_IFDIR)) {
        if ((access_of(flags) & MAY_WRITE) != 0 || (flags & O_CREAT) != 0) {
            return -EISDIR;
        }
    } else if ((flags & O_DIRECTORY) != 0) {
        return -ENOTDIR;
    }
    if (is_new) {
        return 0;
    }
    result = inode_permission(inode, access_of(flags));
    if (result == 0 && (flags & O_NOATIME) != 0 && !inode_is_owner(inode)) {
        result = -EPERM;
    }
    return result;
}

/* The last name of an open with O_CREAT: find it or make it. Takes the directory's mutex only when
 * it is not there. 0 and *@out with a reference, or an errno. */
static long find_or_make(struct path_end *end, unsigned flags, unsigned mode, struct dentry **out,
                         bool *out_is_new)
{
    struct dentry *dir = end->dir;
    long result = dentry_lookup(dir, end->name, end->len, out);

    *out_is_new = false;
    if (result == -ENOENT) {
        mutex_lock(&dir->inode->mutex);
        result = dentry_lookup(dir, end->name, end->len, out);
        if (result == -ENOENT && dir->inode->ops->make != NULL) {
            result = node_make_locked(dir, end->name, end->len,
                                      S_IFREG | (mode & 07777u & ~fs_umask()), 0, NULL, out);
            *out_is_new = result == 0;
        }
        mutex_unlock(&dir->inode->mutex);
    }
    if (result == 0 && !*out_is_new) {
        *out = dentry_uncover(*out);
        if ((flags & O_EXCL) != 0) {
            dentry_put(*out);
            result = -EEXIST;
        }
    }
    return result;
}

/* Replace @end by the parent of what the link @link, found in it, leads to. 0 or an errno. */
static long follow_last(struct path_end *end, struct dentry *link)
{
    char *text = vl_kmalloc(PATH_MAX_BYTES + 1, VL_WAIT);
    struct path_end next;
    long len;

    if (text == NULL) {
        return -ENOMEM;
    }
    len = link->inode->ops->read_link(link->inode, text, PATH_MAX_BYTES);
    if (len >= 0) {
        text[len] = 0;
        len = len == 0 ? -ENOENT : path_parent_at(end->dir, text, &next);
    }
    if (len == 0) {
        path_end_put(end);
        *end = next;
        if (end->link == NULL) { /* the name points into the text */
            end->link = text;
            return 0;
        }
    }
    vl_kfree(text);
    return len;
}

/* open(2) with O_CREAT. 0 and *@out with a reference, or an errno. */
static long open_create(int dirfd, const char *path, unsigned flags, unsigned mode,
                        struct dentry **out, bool *out_is_new)
{
    struct path_end end;
    unsigned links = 0;
    long result = path_parent(dirfd, path, &end);

    *out_is_new = false;
    if (result != 0) {
        return result;
    }
    for (;;) {
        if (end.kind != END_NAME || end.has_slash) {
            result = -EISDIR;
            break;
        }
        result = find_or_make(&end, flags, mode, out, out_is_new);
        if (result != 0 || !inode_is((*out)->inode, S_IFLNK) || (flags & O_NOFOLLOW) != 0) {
            break;
        }
        if ((*out)->inode->ops->follow != NULL) { /* /proc/self/fd/1 */
            struct dentry *link = *out;

            result = link->inode->ops->follow(link->inode, out);
            dentry_put(link);
            break;
        }
        result = links++ < LINKS_MAX ? follow_last(&end, *out) : -ELOOP;
        dentry_put(*out);
        if (result != 0) {
            break;
        }
    }
    path_end_put(&end);
    return result;
}

/* O_TMPFILE: a file in @path's file system without a name. */
static long open_nameless(int dirfd, const char *path, unsigned flags, unsigned mode,
                          struct dentry **out)
{
    struct dentry *dir;
    struct inode *inode;
    long result;

    if ((access_of(flags) & MAY_WRITE) == 0) {
        return -EINVAL;
    }
    result = path_lookup(dirfd, path, WALK_FOLLOW | WALK_DIRECTORY, &dir);
    if (result != 0) {
        return result;
    }
    result = inode_permission(dir->inode, MAY_WRITE | MAY_EXEC);
    if (result == 0 && dir->inode->ops->make == NULL) {
        result = -EOPNOTSUPP;
    }
    if (result == 0) {
        result = dir->inode->ops->make(dir->inode, S_IFREG | (mode & 07777u & ~fs_umask()), 0, NULL,
                                       &inode);
    }
    if (result == 0) {
        atomic_store_explicit(&inode->links, 0, memory_order_relaxed);
        inode->flags |= (flags & O_EXCL) != 0 ? 0u : INODE_LINKABLE;
        *out = dentry_make(dir, "#tmpfile", 8, inode);
        inode_put(inode);
        result = *out != NULL ? 0 : -ENOMEM;
    }
    dentry_put(dir);
    return result;
}

long file_open_at(int dirfd, const char *path, unsigned flags, unsigned mode, struct file **out)
{
    struct dentry *dentry;
    bool is_new = false;
    long result;

    if ((flags & O_PATH) != 0) {
        flags &= O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    }
    if ((flags & (O_CREAT | O_DIRECTORY)) == (O_CREAT | O_DIRECTORY)) {
        return -EINVAL;
    }
    if ((flags & O_TMPFILE) == O_TMPFILE) {
        result = open_nameless(dirfd, path, flags, mode, &dentry);
        is_new = true;
        flags &= ~O_TMPFILE;
    } else if ((flags & O_CREAT) != 0) {
        result = open_create(dirfd, path, flags, mode, &dentry, &is_new);
    } else {
        unsigned walk = (flags & O_NOFOLLOW) != 0 ? 0 : WALK_FOLLOW;

        result = path_lookup(dirfd, path, walk, &dentry);
    }
    if (result != 0) {
        return result;
    }
    result = open_check(dentry, flags, is_new);
    if (result == 0) {
        result = dentry_open(dentry, is_new ? flags & ~O_TRUNC : flags, out);
    }
    dentry_put(dentry);
    return result;
}

long vfs_open(const char *path, unsigned flags, unsigned mode, struct file **out)
{
    return file_open_at(AT_FDCWD, path, flags, mode, out);
}

long vfs_open_exec(int dirfd, const char *path, unsigned at_flags, struct file **out)
{
    struct dentry *dentry;
    struct fd_ref ref;
    long result;

    if (path[0] == 0 && (at_flags & AT_EMPTY_PATH) != 0) {
        if (!fd_ref_get(dirfd, FD_PATH_TOO, &ref)) {
            return -EBADF;
        }
        result = dentry_of_file(ref.file, &dentry);
        fd_ref_put(&ref);
    } else {
        result = path_lookup(dirfd, path, (at_flags & AT_SYMLINK_NOFOLLOW) != 0 ? 0 : WALK_FOLLOW,
                             &dentry);
    }
    if (result != 0) {
        return result;
    }
    if (inode_is(dentry->inode, S_IFLNK)) {
        result = -ELOOP;
    } else if (inode_object(dentry->inode) == NULL) {
        result = -EACCES;
    } else {
        result = inode_permission(dentry->inode, MAY_EXEC);
    }
    if (result == 0) {
        result = dentry_open(dentry, O_RDONLY, out);
    }
    dentry_put(dentry);
    return result;
}

long vfs_open_console(struct files *files)
{
    struct file *file;
    long result = vfs_open("/dev/console", O_RDWR, 0, &file);

    if (result != 0) {
        return result;
    }
    for (unsigned i = 0; i < 3; i++) {
        long fd = files_install(files, file, 0, false);

        if (fd < 0) {
            file_put(file);
            return fd;
        }
        if (i < 2) {
            file_get(file);
        }
    }
    return 0;
}

/* -------------------------------------------------------------- what the kernel itself does */

long file_read_kernel(struct file *file, void *out, size_t len, uint64_t pos)
{
    struct user_iter iter;

    if (file->ops == NULL || file->ops->read == NULL) {
        return -EINVAL;
    }
    iter_kernel(&iter, out, len);
    return file->ops->read(file, &iter, &pos);
}

long file_write_kernel(struct file *file, const void *bytes, size_t len, uint64_t pos)
{
    struct user_iter iter;

    if (file->ops == NULL || file->ops->write == NULL) {
        return -EINVAL;
    }
    iter_kernel(&iter, bytes, len);
    return file->ops->write(file, &iter, &pos);
}

uint64_t file_size(const struct file *file)
{
    return inode_size(file->inode);
}

uint32_t file_mode(const struct file *file)
{
    return file->inode->mode;
}

void file_owner(const struct file *file, uint32_t *out_uid, uint32_t *out_gid)
{
    *out_uid = file->inode->uid;
    *out_gid = file->inode->gid;
}

struct inode *file_inode(const struct file *file)
{
    return file->inode;
}

long file_map(struct file *file, uint32_t prot, bool shared, struct vl_object **out_object,
              uint32_t *out_prot_max)
{
    unsigned access = file->flags & O_ACCMODE;

    *out_prot_max = VL_READ | VL_WRITE | VL_EXEC;
    if ((file->flags & O_PATH) != 0) {
        return -EBADF;
    }
    if (access == O_WRONLY) {
        return -EACCES;
    }
    if (shared && access == O_RDONLY) {
        if ((prot & VL_WRITE) != 0) {
            return -EACCES;
        }
        *out_prot_max = VL_READ | VL_EXEC;
    }
    if (file->ops == NULL || file->ops->map == NULL) {
        return -ENODEV;
    }
    return file->ops->map(file, prot, shared, out_object, out_prot_max);
}

/* The name of what never had a path. */
static size_t nameless_text(const struct file *file, char *out, size_t size)
{
    if (inode_is(file->inode, S_IFIFO) || inode_is(file->inode, S_IFSOCK)) {
        return vli_print(out, size, "%s:[%lu]", file->ops->name,
                         (unsigned long)file->inode->number);
    }
    return vli_print(out, size, "%s", file->ops->name);
}

long dentry_of_file(struct file *file, struct dentry **out)
{
    char name[64];

    if (file->dentry != NULL) {
        dentry_get(file->dentry);
        *out = file->dentry;
        return 0;
    }
    *out = dentry_make(NULL, name, nameless_text(file, name, sizeof(name)), file->inode);
    return *out != NULL ? 0 : -ENOMEM;
}

long dentry_path_text(struct dentry *dentry, char *out, size_t size)
{
    static const char gone[] = " (deleted)";
    struct dentry *root = fs_root();
    enum path_state state;
    long len = dentry_path(dentry, root, out, size, &state);

    dentry_put(root);
    if (len >= 0 && state == PATH_DELETED) {
        if ((size_t)len + sizeof(gone) > size) {
            return -ENAMETOOLONG;
        }
        memcpy(out + len, gone, sizeof(gone));
        len += (long)sizeof(gone) - 1;
    }
    return len;
}

long file_path(struct file *file, char *out, size_t size)
{
    if (file->dentry != NULL) {
        return dentry_path_text(file->dentry, out, size);
    }
    return (long)nameless_text(file, out, size);
}

long file_sync(struct file *file)
{
    uint32_t type = file->inode->mode & S_IFMT;

    return type == S_IFREG || type == S_IFDIR || type == S_IFBLK ? 0 : -EINVAL;
}

long user_path_get(char **out, uint64_t user_path, enum path_empty empty)
{
    char *path = vl_kmalloc(PATH_MAX_BYTES, VL_WAIT);
    long len;

    if (path == NULL) {
        return -ENOMEM;
    }
    len = strncpy_from_user(path, user_path, PATH_MAX_BYTES);
    if (len < 0 || len == (long)PATH_MAX_BYTES || (len == 0 && empty == PATH_EMPTY_REFUSED)) {
        vl_kfree(path);
        return len < 0 ? -EFAULT : len == 0 ? -ENOENT : -ENAMETOOLONG;
    }
    *out = path;
    return 0;
}

void user_path_put(char *path)
{
    vl_kfree(path);
}
