/*
 * shm.c - System V shared memory: a segment is an object of the core, an attachment is an area that
 * maps it.
 *
 * Nothing counts attachments beside the object itself: each area holds one reference, the segment
 * one more until IPC_RMID drops it. When the last goes, the object calls segment_release(), and the
 * identifier ends. So fork, exec, exit and munmap need no hook.
 *
 * Lock: the segment's mutex, for the pointer to the object, times and pids. segment_release() takes
 * it while the object still exists, so that a pointer found under the mutex is valid and
 * vl_object_try_get() decides.
 */
#include <vellum/vellum.h>
#include "core/base/bits.h"
#include "core/base/log.h"
#include "kernel/cpu/uaccess.h"
#include "kernel/ipc/ipc.h"
#include "kernel/lib/mem.h"
#include "kernel/proc/syscall.h"
#include "kernel/proc/syscall_list.h"

#define SHM_LOCK     11
#define SHM_UNLOCK   12
#define SHM_STAT     13
#define SHM_INFO     14
#define SHM_STAT_ANY 15

#define SHM_RDONLY  010000u
#define SHM_RND     020000u
#define SHM_REMAP   040000u
#define SHM_EXEC    0100000u
#define SHM_HUGETLB 04000u
/* Marks in the mode. */
#define SHM_DEST   01000u
#define SHM_LOCKED 02000u

#define SHM_BYTES_MAX (UINT64_MAX - (1ull << 24)) /* as Linux's default */

struct segment {
    struct ipc_entry entry;
    struct mutex mutex;
    struct vl_object *object; /* NULL when it has ended */
    bool holds;               /* the segment's own reference */
    bool is_listed;           /* false only until it is made; then it is in the table */
    uint64_t size;
    int64_t attached, detached, changed; /* seconds */
    uint32_t creator, last;              /* pids */
};

/* struct shmid64_ds of Linux's user interface. */
struct segment_user {
    struct ipc_perm_user perm;
    uint64_t size;
    int64_t attached, detached, changed;
    uint32_t creator, last;
    uint64_t attachments, unused[2];
};
_Static_assert(sizeof(struct segment_user) == 112, "as Linux has it");

static void segment_free(struct ipc_entry *entry)
{
    vl_kfree(vli_container_of(entry, struct segment, entry));
}

static struct ipc_table segments = IPC_TABLE_INIT(segments, segment_free);

/* The object's last reference went. */
static void segment_release(void *owner)
{
    struct segment *segment = owner;

    mutex_lock(&segment->mutex);
    segment->object = NULL;
    mutex_unlock(&segment->mutex);
    if (!segment->is_listed) {
        return; /* of a segment that could not be made: the caller holds the table's mutex */
    }
    ipc_remove(&segments, &segment->entry);
}

static void segment_describe(void *owner, char *path, size_t size, uint32_t *out_dev,
                             uint64_t *out_inode)
{
    struct segment *segment = owner;

    vli_print(path, size, "/SYSV%08x (deleted)", segment->entry.key);
    *out_dev = 1;
    *out_inode = segment->entry.id;
}

static const struct vl_object_ops segment_ops = {.release = segment_release,
                                                 .describe = segment_describe};

/* ------------------------------------------------------------------------------- shmget */

static struct ipc_entry *segment_create(const struct ipc_request *request, long *out_error)
{
    struct segment *segment;

    if (request->size == 0 || request->size > INT64_MAX) { /* more is no size of a file */
        *out_error = -EINVAL;
        return NULL;
    }
    if ((request->flags & SHM_HUGETLB) != 0) {
        *out_error = -ENOMEM; /* as Linux with an empty pool of huge pages */
        return NULL;
    }
    segment = vl_kmalloc(sizeof(*segment), VL_WAIT | VL_ZEROED);
    if (segment == NULL) {
        return NULL;
    }
    mutex_init(&segment->mutex);
    if (vl_object_create(&segment_ops, segment, &segment->object) != VL_OK) {
        vl_kfree(segment);
        return NULL;
    }
    segment->size = request->size;
    segment->holds = true;
    segment->changed = ipc_seconds();
    segment->creator = current_process()->pid;
    if (vl_object_extend(segment->object, vli_round_up(request->size, VL_PAGE_SIZE)) != VL_OK) {
        vl_object_put(segment->object);
        vl_kfree(segment);
        *out_error = -ENOMEM;
        return NULL;
    }
    segment->is_listed = true;
    return &segment->entry;
}

static long segment_check(const struct ipc_request *request, struct ipc_entry *entry)
{
    struct segment *segment = vli_container_of(entry, struct segment, entry);

    return request->size <= segment->size ? 0 : -EINVAL;
}

SYSCALL(shmget)
{
    struct ipc_request request = {.key = (uint32_t)a,
                                  .flags = (uint32_t)c,
                                  .size = (uint64_t)b,
                                  .create = segment_create,
                                  .check = segment_check};

    return ipc_find_or_create(&segments, &request);
}

/* ------------------------------------------------------------------------ shmat and shmdt */

/* The segment of an identifier, with references on it and on its object. */
static long segment_get(uint32_t id, struct segment **out, struct vl_object **out_object)
{
    struct ipc_entry *entry = ipc_get(&segments, id);
    struct segment *segment;
    bool lives;

    if (entry == NULL) {
        return -EINVAL;
    }
    segment = vli_container_of(entry, struct segment, entry);
    mutex_lock(&segment->mutex);
    lives = segment->object != NULL && vl_object_try_get(segment->object);
    *out_object = segment->object;
    mutex_unlock(&segment->mutex);
    if (!lives) {
        ipc_put(&segments, entry);
        return -EIDRM;
    }
    *out = segment;
    return 0;
}

static long attach_place(struct vl_map_request *request, uint64_t address, uint32_t flags)
{
    if (address == 0) {
        return (flags & SHM_REMAP) != 0 ? -EINVAL : 0;
    }
    if ((address & VL_PAGE_MASK) != 0) {
        if ((flags & SHM_RND) == 0) {
            return -EINVAL;
        }
        address &= ~(uint64_t)VL_PAGE_MASK;
    }
    request->hint = address;
    request->place = (flags & SHM_REMAP) != 0 ? VL_MAP_FIXED : VL_MAP_FIXED_NOREPLACE;
    return 0;
}

static long attach(struct segment *segment, struct vl_object *object, uint64_t address,
                   uint32_t flags)
{
    bool read_only = (flags & SHM_RDONLY) != 0;
    struct vl_map_request request = {.object = object,
                                     .len = vli_round_up(segment->size, VL_PAGE_SIZE),
                                     .prot = VL_READ | (read_only ? 0 : VL_WRITE) |
                                             ((flags & SHM_EXEC) != 0 ? VL_EXEC : 0),
                                     .prot_max = VL_READ | VL_EXEC | (read_only ? 0 : VL_WRITE),
                                     .kind = VL_MAP_SHARED};
    vl_va at;
    enum vl_status status;
    long result = attach_place(&request, address, flags);

    if (result == 0) {
        result = ipc_may(&segment->entry, IPC_READ | (read_only ? 0 : IPC_WRITE));
    }
    if (result != 0) {
        return result;
    }
    if (request.len == 0 || request.len > VL_USER_END) {
        return -ENOMEM;
    }
    status = vl_space_map(current_process()->space, &request, &at);
    if (status == VL_EEXIST) {
        return -EINVAL;
    }
    if (status != VL_OK) {
        return (long)status;
    }
    mutex_lock(&segment->mutex);
    segment->attached = ipc_seconds();
    segment->last = current_process()->pid;
    mutex_unlock(&segment->mutex);
    return (long)at;
}

SYSCALL(shmat)
{
    struct segment *segment;
    struct vl_object *object;
    long result = segment_get((uint32_t)a, &segment, &object);

    if (result != 0) {
        return result == -EIDRM ? -EIDRM : -EINVAL;
    }
    result = attach(segment, object, (uint64_t)b, (uint32_t)c);
    vl_object_put(object);
    ipc_put(&segments, &segment->entry);
    return result;
}

/* The segment that @object is, with a reference; the caller's space holds the object. */
static struct segment *segment_of(struct vl_object *object)
{
    struct segment *found = NULL;

    for (uint32_t slot = 0; object != NULL && found == NULL && slot < IPC_SLOTS; slot++) {
        struct ipc_entry *entry = ipc_get_slot(&segments, slot);
        struct segment *segment;

        if (entry == NULL) {
            continue;
        }
        segment = vli_container_of(entry, struct segment, entry);
        if (segment->object == object) {
            found = segment;
        } else {
            ipc_put(&segments, entry);
        }
    }
    return found;
}

/* Every area that stems from the attachment at @base goes: the segment may have been split. */
static void detach(struct vl_space *space, struct segment *segment, vl_va base)
{
    struct vl_area_info area;
    vl_va at = base;

    while (at < base + segment->size && vl_space_find(space, at, &area) == VL_OK &&
           area.start < base + segment->size) {
        if (area.object == segment->object && area.start - area.offset == base &&
            vl_space_unmap(space, area.start, area.end - area.start) != VL_OK) {
            return;
        }
        at = area.end;
    }
}

SYSCALL(shmdt)
{
    struct vl_space *space = current_process()->space;
    vl_va base = (vl_va)a;
    struct vl_area_info area;
    struct segment *segment;

    if ((base & VL_PAGE_MASK) != 0 || vl_space_find(space, base, &area) != VL_OK ||
        area.start != base || area.offset != 0 || (segment = segment_of(area.object)) == NULL) {
        return -EINVAL;
    }
    mutex_lock(&segment->mutex);
    segment->detached = ipc_seconds();
    segment->last = current_process()->pid;
    mutex_unlock(&segment->mutex);
    detach(space, segment, base);
    ipc_put(&segments, &segment->entry);
    return 0;
}

/* --------------------------------------------------------------------------------- shmctl */

static void segment_out(struct segment *segment, struct segment_user *out)
{
    memset(out, 0, sizeof(*out));
    ipc_perm_out(&segment->entry, &out->perm);
    mutex_lock(&segment->mutex);
    out->size = segment->size;
    out->attached = segment->attached;
    out->detached = segment->detached;
    out->changed = segment->changed;
    out->creator = segment->creator;
    out->last = segment->last;
    if (segment->object != NULL) {
        out->attachments = vl_object_references(segment->object) - (segment->holds ? 1u : 0u);
    }
    mutex_unlock(&segment->mutex);
}

/* IPC_RMID: the key is free at once, the identifier when the last attachment goes. */
static void segment_destroy(struct segment *segment)
{
    struct vl_object *object = NULL;

    mutex_lock(&segment->mutex);
    if (segment->holds) {
        segment->holds = false;
        segment->entry.key = IPC_PRIVATE;
        segment->entry.mode |= SHM_DEST;
        object = segment->object;
    }
    mutex_unlock(&segment->mutex);
    if (object != NULL) {
        vl_object_put(object);
    }
}

static long segment_set(struct segment *segment, uint64_t user)
{
    struct segment_user in;

    if (copy_from_user(&in, user, sizeof(in)) != VL_OK) {
        return -EFAULT;
    }
    mutex_lock(&segment->mutex);
    ipc_perm_in(&segment->entry, &in.perm);
    segment->changed = ipc_seconds();
    mutex_unlock(&segment->mutex);
    return 0;
}

static long info_limits(uint64_t user)
{
    uint64_t info[9] = {SHM_BYTES_MAX, 1, IPC_SLOTS, IPC_SLOTS, SHM_BYTES_MAX};

    return copy_to_user(user, info, sizeof(info)) == VL_OK ? (long)ipc_highest(&segments) : -EFAULT;
}

static long info_usage(uint64_t user)
{
    uint64_t info[6] = {0};

    for (uint32_t slot = 0; slot < IPC_SLOTS; slot++) {
        struct ipc_entry *entry = ipc_get_slot(&segments, slot);
        struct segment *segment;

        if (entry == NULL) {
            continue;
        }
        segment = vli_container_of(entry, struct segment, entry);
        mutex_lock(&segment->mutex);
        info[0]++;
        info[1] += vli_round_up(segment->size, VL_PAGE_SIZE) >> VL_PAGE_SHIFT;
        info[2] += segment->object != NULL ? vl_object_pages(segment->object) : 0;
        mutex_unlock(&segment->mutex);
        ipc_put(&segments, entry);
    }
    return copy_to_user(user, info, sizeof(info)) == VL_OK ? (long)ipc_highest(&segments) : -EFAULT;
}

static long segment_stat(struct segment *segment, int command, uint64_t user)
{
    struct segment_user out;

    if (command != SHM_STAT_ANY && ipc_may(&segment->entry, IPC_READ) != 0) {
        return -EACCES;
    }
    segment_out(segment, &out);
    if (copy_to_user(user, &out, sizeof(out)) != VL_OK) {
        return -EFAULT;
    }
    return command == IPC_STAT ? 0 : (long)segment->entry.id;
}

static long segment_change(struct segment *segment, int command, uint64_t user)
{
    long result = ipc_owns(&segment->entry);

    if (result != 0) {
        return result;
    }
    if (command == IPC_SET) {
        return segment_set(segment, user);
    }
    if (command == IPC_RMID) {
        segment_destroy(segment);
    } else if (command == SHM_LOCK) {
        segment->entry.mode |= SHM_LOCKED; /* nothing is ever paged out */
    } else {
        segment->entry.mode &= ~SHM_LOCKED;
    }
    return 0;
}

SYSCALL(shmctl)
{
    int command = (int)b;
    bool by_slot = command == SHM_STAT || command == SHM_STAT_ANY;
    bool is_stat = by_slot || command == IPC_STAT;
    struct ipc_entry *entry;
    struct segment *segment;
    long result;

    if ((int)a < 0 || command < 0) {
        return -EINVAL;
    }
    if (command == IPC_INFO) {
        return info_limits((uint64_t)c);
    }
    if (command == SHM_INFO) {
        return info_usage((uint64_t)c);
    }
    if (!is_stat && command != IPC_SET && command != IPC_RMID && command != SHM_LOCK &&
        command != SHM_UNLOCK) {
        return -EINVAL;
    }
    entry = by_slot ? ipc_get_slot(&segments, (uint32_t)a) : ipc_get(&segments, (uint32_t)a);
    if (entry == NULL) {
        return -EINVAL;
    }
    segment = vli_container_of(entry, struct segment, entry);
    result = is_stat ? segment_stat(segment, command, (uint64_t)c)
                     : segment_change(segment, command, (uint64_t)c);
    ipc_put(&segments, entry);
    return result;
}
