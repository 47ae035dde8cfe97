/*
 * mount.c - mounted file systems.
 *
 * A mount is two pointers: the covered dentry's `mounted` and the file system's `covers`, each
 * under the lock of the dentry that it is looked up from. mounts_mutex makes mounting and
 * unmounting one at a time; the walk never takes it. A file system is mounted in one place.
 *
 * Unmounting takes the two pointers away first, so that nobody comes in any more, and then looks
 * whether somebody still is inside: a dentry with more references than the tree itself holds. If
 * so the pointers are put back (EBUSY), unless MNT_DETACH was given: then names go now, and files
 * as they are closed.
 */
#include "kernel/fs/inode_types.h"
#include "kernel/lib/mem.h"
#include "kernel/proc/process.h"

static struct mutex mounts_mutex = MUTEX_INIT(mounts_mutex);
static struct vli_list mounts = VLI_LIST_INIT(mounts);
static struct super *root;
static struct super *internal;
static _Atomic uint32_t last_device;

/* Anybody may use the top of a tmpfs. */
static long tmpfs_fill(struct super *super, const char *options)
{
    long result = ram_fill(super, options);

    if (result == 0) {
        super->root->inode->mode = S_IFDIR | 01777;
    }
    return result;
}

static const struct fs_type rootfs_type = {"rootfs", 0x01021994, tmpfs_fill}; /* as Linux's */
static const struct fs_type internal_type = {"pipefs", 0x50495045, NULL};
static const struct fs_type tmpfs_type = {"tmpfs", 0x01021994, tmpfs_fill};
static const struct fs_type ramfs_type = {"ramfs", 0x858458f6, ram_fill};

const struct fs_type *const fs_types[] = {&sysfs_type,    &tmpfs_type, &procfs_type,
                                          &devtmpfs_type, &ramfs_type, NULL};

static struct super *super_make(const struct fs_type *type, const char *source)
{
    struct super *super = vl_kmalloc(sizeof(*super), VL_WAIT | VL_ZEROED);

    if (super == NULL) {
        return NULL;
    }
    atomic_init(&super->references, 1);
    super->device = atomic_fetch_add_explicit(&last_device, 1, memory_order_relaxed) + 1;
    super->type = type;
    mutex_init(&super->rename_mutex);
    atomic_init(&super->next_number, 1);
    (void)strlcpy(super->source, source, sizeof(super->source));
    vli_list_init(&super->link);
    return super;
}

void super_put(struct super *super)
{
    /* Acquire and release: the last one sees what all others did. */
    if (atomic_fetch_sub_explicit(&super->references, 1, memory_order_acq_rel) == 1) {
        vl_kfree(super);
    }
}

struct super *root_super(void)
{
    return root;
}

struct super *super_internal(void)
{
    return internal;
}

/* Half of memory, as Linux's tmpfs. */
static int64_t pages_half(void)
{
    struct vl_frame_counts counts;

    vl_frame_counts(&counts);
    return (int64_t)((counts.managed + counts.reserved) / 2);
}

void mount_root(void)
{
    root = super_make(&rootfs_type, "rootfs");
    internal = super_make(&internal_type, "none");
    if (root == NULL || internal == NULL || tmpfs_fill(root, "") != 0) {
        vli_panic("no memory for the root file system");
    }
    vli_list_insert_before(&mounts, &root->link);
}

void mount_limit_root(void)
{
    int64_t used = atomic_load_explicit(&root->pages, memory_order_relaxed);
    int64_t half = pages_half();

    root->pages_max = used + used / 8 > half ? used + used / 8 : half;
}

static const struct fs_type *type_find(const char *name)
{
    for (unsigned i = 0; fs_types[i] != NULL; i++) {
        if (strcmp(fs_types[i]->name, name) == 0) {
            return fs_types[i];
        }
    }
    return NULL;
}

/* Put @super on @target, whose reference it takes over. mounts_mutex is held. */
static void cover(struct super *super, struct dentry *target)
{
    super->covers = target;
    name_write_lock(&target->lock, KRANK_DENTRY);
    atomic_store_explicit(&target->mounted, super, memory_order_release);
    name_write_unlock(&target->lock, KRANK_DENTRY);
}

long mount_type(const char *source, const char *target, const char *type_name, uint64_t flags,
                const char *options)
{
    const struct fs_type *type = type_find(type_name);
    struct super *super;
    struct dentry *dentry;
    long result;

    if (!capable_root()) {
        return -EPERM;
    }
    result = path_lookup(AT_FDCWD, target, WALK_FOLLOW, &dentry);
    if (result != 0) {
        return result;
    }
    if (type == NULL || !inode_is(dentry->inode, S_IFDIR)) {
        dentry_put(dentry);
        return type == NULL ? -ENODEV : -ENOTDIR;
    }
    super = super_make(type, source);
    if (super == NULL) {
        dentry_put(dentry);
        return -ENOMEM;
    }
    super->flags = flags & (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME);
    super->pages_max = type == &tmpfs_type ? pages_half() : 0;
    result = type->fill(super, options);
    if (result != 0) {
        dentry_put(dentry);
        super_put(super);
        return result;
    }
    mutex_lock(&mounts_mutex);
    dentry = dentry_uncover(dentry); /* somebody may have mounted there meanwhile */
    cover(super, dentry);
    vli_list_insert_before(&mounts, &super->link);
    mutex_unlock(&mounts_mutex);
    return 0;
}

long mount_change(const char *target, uint64_t flags)
{
    struct dentry *dentry;
    long result;

    if (!capable_root()) {
        return -EPERM;
    }
    result = path_lookup(AT_FDCWD, target, WALK_FOLLOW, &dentry);
    if (result != 0) {
        return result;
    }
    if (dentry != dentry->inode->super->root) {
        result = -EINVAL;
    } else if ((flags & MS_REMOUNT) != 0) {
        dentry->inode->super->flags =
            flags & (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME);
    }
    dentry_put(dentry);
    return result;
}

/* The next dentry of a tree in memory, parents first; consumes the reference, returns another. */
static struct dentry *tree_next(struct dentry *top, struct dentry *at)
{
    uint64_t from = 0;

    for (;;) {
        struct dentry *child = dentry_child(at, from);
        struct dentry *up;

        if (child != NULL) {
            dentry_put(at);
            return child;
        }
        if (at == top) {
            dentry_put(at);
            return NULL;
        }
        from = at->cookie + 1;
        up = at->parent;
        dentry_get(up);
        dentry_put(at);
        at = up;
    }
}

/* Has anybody but the tree a reference to one of its dentries? @extra: the caller's to the root. */
static bool tree_is_busy(struct dentry *top, unsigned extra)
{
    struct dentry *at = top;

    dentry_get(top);
    while (at != NULL) {
        struct dir_table *table = inode_is(at->inode, S_IFDIR) ? at->inode->u.table : NULL;
        unsigned expected = 2 + (table != NULL ? table->count : 0) + (at == top ? extra : 0);

        if (atomic_load_explicit(&at->references, memory_order_relaxed) != expected) {
            dentry_put(at);
            return true;
        }
        at = tree_next(top, at);
    }
    return false;
}

/* Remove all names of a tree in memory. */
static void tree_clear(struct dentry *top)
{
    struct dentry *at = top;

    dentry_get(top);
    for (;;) {
        struct dentry *child = dentry_child(at, 0);
        struct dentry *up;

        if (child != NULL) {
            dentry_put(at);
            at = child;
            continue;
        }
        if (at == top) {
            break;
        }
        up = at->parent;
        dentry_get(up);
        mutex_lock(&up->inode->mutex);
        dentry_remove(at);
        mutex_unlock(&up->inode->mutex);
        dentry_put(at);
        at = up;
    }
    dentry_put(top);
}

/* Is another file system mounted inside of @super? mounts_mutex is held. */
static bool has_mounts(struct super *super)
{
    struct vli_list *link;

    vli_list_each (link, &mounts) {
        struct super *other = vli_list_entry(link, struct super, link);

        if (other->covers != NULL && other->covers->inode->super == super) {
            return true;
        }
    }
    return false;
}

/* Take @super off what it covers. mounts_mutex is held. 0 or -EBUSY. */
static long uncover(struct super *super, bool lazily)
{
    struct dentry *target = super->covers;

    if (has_mounts(super)) {
        return -EBUSY;
    }
    name_write_lock(&target->lock, KRANK_DENTRY);
    atomic_store_explicit(&target->mounted, NULL, memory_order_relaxed);
    name_write_unlock(&target->lock, KRANK_DENTRY);
    if (!lazily && tree_is_busy(super->root, 1)) {
        cover(super, target);
        return -EBUSY;
    }
    name_write_lock(&super->root->lock, KRANK_DENTRY);
    super->covers = NULL;
    name_write_unlock(&super->root->lock, KRANK_DENTRY);
    vli_list_remove(&super->link);
    dentry_put(target);
    return 0;
}

long mount_detach(const char *target, unsigned flags)
{
    struct dentry *dentry;
    struct super *super;
    long result;

    if (!capable_root()) {
        return -EPERM;
    }
    result =
        path_lookup(AT_FDCWD, target, (flags & UMOUNT_NOFOLLOW) != 0 ? 0 : WALK_FOLLOW, &dentry);
    if (result != 0) {
        return result;
    }
    super = dentry->inode->super;
    mutex_lock(&mounts_mutex);
    if (dentry != super->root || super->covers == NULL) {
        result = -EINVAL;
    } else {
        result = uncover(super, (flags & MNT_DETACH) != 0);
    }
    mutex_unlock(&mounts_mutex);
    if (result == 0) {
        tree_clear(super->root);
        dentry_put(super->root); /* the mount's own */
    }
    dentry_put(dentry);
    if (result == 0) {
        super_put(super);
    }
    return result;
}

void mount_each(void (*see)(struct super *super, void *arg), void *arg)
{
    struct vli_list *link;

    mutex_lock(&mounts_mutex);
    vli_list_each (link, &mounts) {
        see(vli_list_entry(link, struct super, link), arg);
    }
    mutex_unlock(&mounts_mutex);
}
