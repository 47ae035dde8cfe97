/*
 * inode.c - the life of inodes: made, counted, charged to their file system, freed.
 *
 * A regular file's inode and its vl_object live together: the inode holds one reference to the
 * object, mappings hold more, and the object's owner is the inode. The last reference to the inode
 * drops the object; only when the last mapping goes too, the object's release frees the inode.
 * That is why an unlinked file that is still mapped keeps its pages and no more than them.
 */
#include "kernel/fs/inode_types.h"
#include "kernel/cpu/uaccess.h"
#include "kernel/lib/mem.h"
#include "kernel/proc/process.h"

static struct vl_cache *inode_cache;

void inode_init(void)
{
    static const struct vl_cache_spec spec = {
        .name = "inode", .size = sizeof(struct inode), .align = 64};

    if (vl_cache_create(&spec, &inode_cache) != VL_OK) {
        vli_panic("no memory for the cache of inodes");
    }
}

struct inode *inode_make(struct super *super, uint32_t mode, const struct inode_ops *ops,
                         const struct file_ops *file_ops)
{
    struct inode *inode = vl_cache_alloc(inode_cache, VL_WAIT | VL_ZEROED);
    struct process *process = current_process();

    if (inode == NULL) {
        return NULL;
    }
    atomic_init(&inode->references, 1);
    atomic_init(&inode->links, 1);
    inode->mode = mode;
    inode->uid = process != NULL ? process->cred.fsuid : 0;
    inode->gid = process != NULL ? process->cred.fsgid : 0;
    inode->super = super;
    inode->ops = ops;
    inode->file_ops = file_ops;
    inode->number = atomic_fetch_add_explicit(&super->next_number, 1, memory_order_relaxed);
    mutex_init(&inode->mutex);
    vli_spin_init(&inode->spin);
    inode->accessed_ns = inode->modified_ns = inode->changed_ns = clock_realtime_ns();
    atomic_fetch_add_explicit(&super->references, 1, memory_order_relaxed);
    return inode;
}

void inode_free(struct inode *inode)
{
    struct super *super = inode->super;

    if (inode->charged_pages != 0) {
        atomic_fetch_sub_explicit(&super->pages, (int64_t)inode->charged_pages,
                                  memory_order_relaxed);
    }
    vl_cache_free(inode_cache, inode);
    super_put(super);
}

void inode_put(struct inode *inode)
{
    /* Release: what this holder wrote is seen by who frees; the acquire below pairs with it. */
    if (atomic_fetch_sub_explicit(&inode->references, 1, memory_order_release) != 1) {
        return;
    }
    atomic_thread_fence(memory_order_acquire);
    locks_forget(inode);
    switch (inode->mode & S_IFMT) {
    case S_IFREG:
        if (inode->u.object != NULL && inode->ops == &inode_ops_ram) {
            vl_object_put(inode->u.object); /* its release frees the inode */
            return;
        }
        break;
    case S_IFDIR:
        if (inode->u.table != NULL) {
            dir_table_free(inode->u.table);
        }
        break;
    case S_IFLNK:
        if (inode->ops == &inode_ops_ram) {
            vl_kfree(inode->u.link);
        }
        break;
    default:
        break;
    }
    inode_free(inode);
}

long inode_permission_ids(const struct inode *inode, unsigned mask, uint32_t uid, uint32_t gid)
{
    uint32_t mode = inode->mode;

    if (uid == 0) {
        /* Root may do all but execute what nobody may execute. */
        bool can_exec = (mode & 0111u) != 0 || inode_is(inode, S_IFDIR);

        return (mask & MAY_EXEC) != 0 && !can_exec ? -EACCES : 0;
    }
    if (inode->uid == uid) {
        mode >>= 6;
    } else if (inode->gid == gid || cred_in_group(inode->gid)) {
        mode >>= 3;
    }
    return (mode & mask & 7u) == mask ? 0 : -EACCES;
}

long inode_permission(const struct inode *inode, unsigned mask)
{
    struct process *process = current_process();

    if (process == NULL) {
        return 0;
    }
    return inode_permission_ids(inode, mask, process->cred.fsuid, process->cred.fsgid);
}

bool inode_is_owner(const struct inode *inode)
{
    struct process *process = current_process();

    return process == NULL || process->cred.fsuid == 0 || process->cred.fsuid == inode->uid;
}

void inode_touch(struct inode *inode, unsigned which)
{
    uint64_t now = clock_realtime_ns();

    if ((which & TOUCH_ACCESS) != 0) {
        inode->accessed_ns = now;
    }
    if ((which & TOUCH_MODIFY) != 0) {
        inode->modified_ns = now;
    }
    if ((which & TOUCH_CHANGE) != 0) {
        inode->changed_ns = now;
    }
}

void inode_charge(struct inode *inode)
{
    uint64_t pages = vl_object_pages(inode->u.object);

    if (pages != inode->charged_pages) {
        int64_t more = (int64_t)(pages - inode->charged_pages);

        atomic_fetch_add_explicit(&inode->super->pages, more, memory_order_relaxed);
        inode->charged_pages = pages;
    }
}

long inode_set_size_locked(struct inode *inode, uint64_t size)
{
    enum vl_status status = vl_object_truncate(inode->u.object, size);

    if (status != VL_OK) {
        return status;
    }
    inode_charge(inode);
    inode_touch(inode, TOUCH_MODIFY | TOUCH_CHANGE);
    return 0;
}

long inode_set_size(struct inode *inode, uint64_t size)
{
    long result;

    mutex_lock(&inode->mutex);
    result = inode_set_size_locked(inode, size);
    mutex_unlock(&inode->mutex);
    return result;
}

uint64_t inode_size(struct inode *inode)
{
    if (inode->ops != NULL && inode->ops->size != NULL) {
        return inode->ops->size(inode);
    }
    return 0;
}

struct vl_object *inode_object(const struct inode *inode)
{
    return inode_is(inode, S_IFREG) && inode->ops == &inode_ops_ram ? inode->u.object : NULL;
}
