/*
 * ramfs.c - files that live in memory: the root file system, tmpfs, and the nodes of devtmpfs.
 *
 * A regular file is a vl_object. read() and write() copy between the user and the object's own
 * frames, held for the length of each copy; mmap() and exec map the same frames; so all see one
 * content. User memory is never touched under a spin lock or a lock of the core: the frame is held
 * by its reference alone.
 *
 * Order of a write: inode->mutex, pages one by one, the size last, so that a reader never sees
 * bytes that were not written yet. A reader takes no lock: it reads the size and holds each page.
 */
#include "kernel/fs/inode_types.h"
#include "kernel/lib/mem.h"
#include "kernel/proc/process.h"

#define FILE_BYTES_MAX ((uint64_t)INT64_MAX)

/* --------------------------------------------------------------------------------- inodes */

/* The last mapping of a file went after its inode: or with it. */
static void ram_release(void *owner)
{
    inode_free(owner);
}

void ram_describe(void *owner, char *path, size_t size, uint32_t *out_dev, uint64_t *out_inode)
{
    struct inode *inode = owner;
    struct dentry *alias;
    enum path_state state;

    *out_dev = inode->super->device;
    *out_inode = inode->number;
    vli_spin_lock(&inode->spin, KRANK_FILES);
    alias = inode->alias;
    if (alias != NULL) {
        dentry_get(alias); /* it is in a table, so it has references */
    }
    vli_spin_unlock(&inode->spin, KRANK_FILES);
    if (alias == NULL) {
        (void)vli_print(path, size, "/memfd: (deleted)");
        return;
    }
    if (size < 2 || dentry_path(alias, root_super()->root, path, size, &state) < 0) {
        (void)vli_print(path, size, "?");
    }
    dentry_put(alias);
}

static const struct vl_object_ops ram_object_ops = {ram_release, ram_describe};

static long ram_make(struct inode *dir, uint32_t mode, uint32_t device, const char *link,
                     struct inode **out)
{
    static const struct file_ops *const none = NULL;
    const struct file_ops *file_ops = (mode & S_IFMT) == S_IFREG   ? &file_ops_regular
                                      : (mode & S_IFMT) == S_IFDIR ? &file_ops_directory
                                      : (mode & S_IFMT) == S_IFIFO ? &file_ops_fifo
                                                                   : none;
    struct inode *inode = inode_make(dir->super, mode, &inode_ops_ram, file_ops);
    bool is_complete = inode != NULL;

    if (inode == NULL) {
        return -ENOMEM;
    }
    inode->device = device;
    if ((dir->mode & S_ISGID) != 0) {
        inode->gid = dir->gid;
        inode->mode |= (mode & S_IFMT) == S_IFDIR ? S_ISGID : 0;
    }
    switch (mode & S_IFMT) {
    case S_IFREG:
        is_complete = vl_object_create(&ram_object_ops, inode, &inode->u.object) == VL_OK;
        break;
    case S_IFDIR:
        inode->u.table = dir_table_make();
        atomic_init(&inode->links, 2);
        is_complete = inode->u.table != NULL;
        break;
    case S_IFLNK:
        inode->u.link = vl_kmalloc(strlen(link) + 1, VL_WAIT);
        is_complete = inode->u.link != NULL;
        if (is_complete) {
            memcpy(inode->u.link, link, strlen(link) + 1);
        }
        break;
    default:
        break;
    }
    if (!is_complete) {
        inode_free(inode);
        return -ENOMEM;
    }
    *out = inode;
    return 0;
}

static long ram_read_link(struct inode *inode, char *out, size_t size)
{
    size_t len = strlen(inode->u.link);

    len = len < size ? len : size;
    memcpy(out, inode->u.link, len);
    return (long)len;
}

static uint64_t ram_size(struct inode *inode)
{
    switch (inode->mode & S_IFMT) {
    case S_IFREG:
        return vl_object_size(inode->u.object);
    case S_IFLNK:
        return strlen(inode->u.link);
    case S_IFDIR: /* as tmpfs: 20 bytes for each entry and for "." and ".." */
        return ((uint64_t)inode->u.table->count + 2) * 20;
    default:
        return 0;
    }
}

const struct inode_ops inode_ops_ram = {
    .make = ram_make, .read_link = ram_read_link, .size = ram_size};

/* -------------------------------------------------------------------------------- reading */

/* Copy up to @want bytes of one page, from @pos on. Returns: bytes copied. */
static long read_piece(struct vl_object *object, struct user_iter *to, uint64_t pos, size_t want)
{
    size_t within = (size_t)(pos & VL_PAGE_MASK);
    struct vl_pfn pfn;
    enum vl_status status = vl_object_page_get(object, pos >> VL_PAGE_SHIFT, VL_PAGE_FIND, &pfn);
    size_t copied;

    if (status == VL_ENOENT) {
        return (long)iter_zero(to, want);
    }
    if (status != VL_OK) {
        return status;
    }
    copied = iter_out(to, (const char *)vl_frame_to_virt(pfn) + within, want);
    vl_object_page_put(pfn);
    return (long)copied;
}

/* Linux's relatime: note an access only if it tells something new. */
static void note_access(struct file *file)
{
    struct inode *inode = file->inode;

    if ((inode->accessed_ns <= inode->modified_ns || inode->accessed_ns <= inode->changed_ns) &&
        (file->flags & O_NOATIME) == 0) {
        inode_touch(inode, TOUCH_ACCESS);
    }
}

static long regular_read(struct file *file, struct user_iter *to, uint64_t *pos)
{
    struct vl_object *object = file->inode->u.object;
    long done = 0;
    long error = 0;

    while (to->left != 0) {
        uint64_t size = vl_object_size(object);
        size_t want = VL_PAGE_SIZE - (size_t)(*pos & VL_PAGE_MASK);
        long copied;

        if (*pos >= size) {
            break;
        }
        want = want < to->left ? want : to->left;
        want = want < size - *pos ? want : (size_t)(size - *pos);
        copied = read_piece(object, to, *pos, want);
        if (copied > 0) {
            *pos += (uint64_t)copied;
            done += copied;
        }
        if (copied < (long)want) {
            error = copied < 0 ? copied : -EFAULT;
            break;
        }
    }
    note_access(file);
    return done != 0 ? done : error;
}

/* -------------------------------------------------------------------------------- writing */

/* Copy up to @want bytes into one page, from @pos on. Returns: bytes copied or an errno. */
static long write_piece(struct inode *inode, struct user_iter *from, uint64_t pos, size_t want)
{
    struct super *super = inode->super;
    size_t within = (size_t)(pos & VL_PAGE_MASK);
    struct vl_pfn pfn;
    enum vl_page_mode mode = VL_PAGE_CREATE;
    enum vl_status status;
    size_t copied;

    if (super->pages_max != 0 &&
        atomic_load_explicit(&super->pages, memory_order_relaxed) +
                (int64_t)(vl_object_pages(inode->u.object) - inode->charged_pages) >=
            super->pages_max) {
        mode = VL_PAGE_FIND; /* full: only pages that are there */
    }
    status = vl_object_page_get(inode->u.object, pos >> VL_PAGE_SHIFT, mode, &pfn);
    if (status != VL_OK) {
        return status == VL_ENOENT || status == VL_ENOMEM ? -ENOSPC : (long)status;
    }
    copied = iter_in(from, (char *)vl_frame_to_virt(pfn) + within, want);
    vl_object_page_put(pfn);
    return (long)copied;
}

/* The bytes of a write that RLIMIT_FSIZE and the largest file allow. Returns: an errno or 0. */
static long limit_write(uint64_t pos, size_t *len)
{
    uint64_t limit = current_process() != NULL ? rlimit_soft(RLIMIT_FSIZE) : RLIM_INFINITY;

    if (limit != RLIM_INFINITY) {
        if (pos >= limit) {
            signal_send_thread(current(), SIGXFSZ);
            return -EFBIG;
        }
        *len = *len < limit - pos ? *len : (size_t)(limit - pos);
    }
    if (pos >= FILE_BYTES_MAX) {
        return -EFBIG;
    }
    *len = *len < FILE_BYTES_MAX - pos ? *len : (size_t)(FILE_BYTES_MAX - pos);
    return 0;
}

/* The bytes of [pos, pos + len), page by page; inode->mutex is held. */
static long write_pages(struct inode *inode, struct user_iter *from, uint64_t pos, size_t len)
{
    size_t done = 0;
    long error = 0;

    while (done < len) {
        size_t want = VL_PAGE_SIZE - (size_t)((pos + done) & VL_PAGE_MASK);
        long copied;

        want = want < len - done ? want : len - done;
        copied = write_piece(inode, from, pos + done, want);
        if (copied > 0) {
            done += (size_t)copied;
        }
        if (copied < (long)want) {
            error = copied < 0 ? copied : -EFAULT;
            break;
        }
    }
    if (done != 0 && pos + done > vl_object_size(inode->u.object)) {
        enum vl_status status = vl_object_extend(inode->u.object, pos + done);

        if (status != VL_OK) {
            return status;
        }
    }
    return done != 0 ? (long)done : error;
}

/* A write by somebody without privilege ends set-id. */
static void drop_set_id(struct inode *inode)
{
    if ((inode->mode & (S_ISUID | S_ISGID)) != 0 && current_process() != NULL && !capable_root()) {
        inode->mode &= ~(S_ISUID | ((inode->mode & 0010u) != 0 ? S_ISGID : 0u));
    }
}

static long regular_write(struct file *file, struct user_iter *from, uint64_t *pos)
{
    struct inode *inode = file->inode;
    size_t len = from->left;
    long result;

    if (len == 0) {
        return 0;
    }
    mutex_lock(&inode->mutex);
    if ((file->flags & O_APPEND) != 0) {
        *pos = vl_object_size(inode->u.object);
    }
    result = limit_write(*pos, &len);
    if (result == 0) {
        result = write_pages(inode, from, *pos, len);
        inode_charge(inode);
    }
    if (result > 0) {
        *pos += (uint64_t)result;
        drop_set_id(inode);
        inode_touch(inode, TOUCH_MODIFY | TOUCH_CHANGE);
    }
    mutex_unlock(&inode->mutex);
    return result;
}

static long regular_map(struct file *file, uint32_t prot, bool shared,
                        struct vl_object **out_object, uint32_t *out_prot_max)
{
    (void)prot;
    (void)shared;
    (void)out_prot_max;
    *out_object = file->inode->u.object;
    return 0;
}

const struct file_ops file_ops_regular = {
    .read = regular_read, .write = regular_write, .map = regular_map};

const struct file_ops file_ops_directory = {.list = dentry_list};

/* --------------------------------------------------------------------------------- mounts */

long ram_fill(struct super *super, const char *options)
{
    struct inode *inode = inode_make(super, S_IFDIR | 0755, &inode_ops_ram, &file_ops_directory);

    (void)options;
    if (inode == NULL) {
        return -ENOMEM;
    }
    inode->u.table = dir_table_make();
    if (inode->u.table == NULL) {
        inode_free(inode);
        return -ENOMEM;
    }
    atomic_store_explicit(&inode->links, 2, memory_order_relaxed);
    super->root = dentry_make(NULL, "/", 1, inode);
    inode_put(inode);
    return super->root != NULL ? 0 : -ENOMEM;
}
