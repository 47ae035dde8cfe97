/*
 * epoll.c - epoll: a set of files that is polled as one.
 *
 * epoll_wait asks every file of the set, as poll would, so it costs O(n) where Linux's costs
 * O(ready); what it returns is the same. Edge triggering (EPOLLET) is taken as level triggering:
 * an edge between two looks cannot be seen from here, and a program that drains until EAGAIN, as
 * edge triggering asks of it, then sees more wake-ups, never fewer.
 *
 * Lock: the mutex, for the list. Lookups of the wanted files happen before it is taken. The set
 * does not keep files open: an item holds a reference to its file, and is dropped when it is the
 * only holder left.
 */
#include "kernel/fs/fdtable.h"
#include "kernel/fs/poll_loop.h"
#include "kernel/fs/syscalls.h"
#include "kernel/cpu/uaccess.h"
#include "kernel/proc/process.h"

#define EPOLL_CTL_ADD 1
#define EPOLL_CTL_DEL 2
#define EPOLL_CTL_MOD 3
#define EPOLLONESHOT  0x40000000u
#define EVENT_BITS    0x3fffu
#define DEPTH_MAX     4u

/* Linux's struct epoll_event: packed, 12 bytes. */
#define EVENT_BYTES 12u
struct event {
    uint32_t events;
    uint32_t data_low;
    uint32_t data_high;
};
_Static_assert(sizeof(struct event) == EVENT_BYTES, "struct epoll_event");

struct item {
    struct vli_list link;
    struct file *file; /* counted */
    int fd;
    struct event event;
    bool is_spent; /* EPOLLONESHOT, reported once */
};

struct epoll {
    struct mutex mutex;
    struct vli_list items;
    uint32_t count;
    struct wait_queue changes; /* woken when the set changes */
};

static const struct file_ops epoll_ops;

static struct epoll *epoll_of(struct file *file)
{
    return file->ops == &epoll_ops ? file->private_data : NULL;
}

static void item_free(struct epoll *epoll, struct item *item)
{
    vli_list_remove(&item->link);
    epoll->count--;
    file_put(item->file);
    vl_kfree(item);
}

/* Files that nobody else has open any more leave the set. The mutex is held. */
static void drop_closed(struct epoll *epoll)
{
    struct vli_list *at;
    struct vli_list *next;

    vli_list_each_safe (at, next, &epoll->items) {
        struct item *item = vli_list_entry(at, struct item, link);

        if (atomic_load_explicit(&item->file->references, memory_order_relaxed) == 1) {
            item_free(epoll, item);
        }
    }
}

static void epoll_release(struct file *file)
{
    struct epoll *epoll = file->private_data;

    while (!vli_list_is_empty(&epoll->items)) {
        item_free(epoll, vli_list_first(&epoll->items, struct item, link));
    }
    vl_kfree(epoll);
}

/* Events that are due for @item. The mutex is held. */
static unsigned item_ready(struct item *item, struct poll_wait *wait)
{
    unsigned wanted = (item->event.events & EVENT_BITS) | POLLERR | POLLHUP;

    return item->is_spent ? 0 : file_poll(item->file, wait) & wanted;
}

static unsigned epoll_poll(struct file *file, struct poll_wait *wait)
{
    struct epoll *epoll = file->private_data;
    struct vli_list *at;
    unsigned ready = 0;

    poll_wait_on(wait, &epoll->changes);
    mutex_lock(&epoll->mutex);
    drop_closed(epoll);
    vli_list_each (at, &epoll->items) {
        ready |= item_ready(vli_list_entry(at, struct item, link), wait);
    }
    mutex_unlock(&epoll->mutex);
    return ready != 0 ? POLLIN | POLLRDNORM : 0;
}

static const struct file_ops epoll_ops = {.name = "anon_inode:[eventpoll]",
                                          .is_stream = true,
                                          .poll = epoll_poll,
                                          .release = epoll_release};

static long epoll_make(unsigned flags)
{
    struct epoll *epoll;
    struct file *file;
    long result;

    if ((flags & ~O_CLOEXEC) != 0) {
        return -EINVAL;
    }
    epoll = vl_kmalloc(sizeof(*epoll), VL_WAIT | VL_ZEROED);
    if (epoll == NULL) {
        return -ENOMEM;
    }
    mutex_init(&epoll->mutex);
    vli_list_init(&epoll->items);
    wait_queue_init(&epoll->changes);
    result = anon_file_make(&epoll_ops, O_RDWR, epoll, &file);
    if (result != 0) {
        vl_kfree(epoll);
        return result;
    }
    result = files_install(current_files(), file, 0, (flags & O_CLOEXEC) != 0);
    if (result < 0) {
        file_put(file);
    }
    return result;
}

SYSCALL(epoll_create)
{
    return (int)a <= 0 ? -EINVAL : epoll_make(0);
}

SYSCALL(epoll_create1)
{
    return epoll_make((unsigned)a);
}

/* How deep sets are nested below @file; more than DEPTH_MAX, and circles, come out as more. */
static unsigned nesting(struct file *file, unsigned depth)
{
    struct epoll *epoll = epoll_of(file);
    struct vli_list *at;
    unsigned deepest = depth;

    if (epoll == NULL || depth > DEPTH_MAX) {
        return depth;
    }
    vli_list_each (at, &epoll->items) {
        unsigned below = nesting(vli_list_entry(at, struct item, link)->file, depth + 1);

        deepest = below > deepest ? below : deepest;
    }
    return deepest;
}

static struct item *item_find(struct epoll *epoll, struct file *file, int fd)
{
    struct vli_list *at;

    vli_list_each (at, &epoll->items) {
        struct item *item = vli_list_entry(at, struct item, link);

        if (item->file == file && item->fd == fd) {
            return item;
        }
    }
    return NULL;
}

/* Nested sets are changed one at a time, so that no two threads close a circle together. */
static struct mutex nesting_mutex = MUTEX_INIT(nesting_mutex);

/* Does @inner reach @outer through sets? nesting_mutex is held. */
static bool reaches(struct file *inner, const struct epoll *outer, unsigned depth)
{
    struct epoll *epoll = epoll_of(inner);
    struct vli_list *at;

    if (epoll == NULL || depth > DEPTH_MAX) {
        return false;
    }
    if (epoll == outer) {
        return true;
    }
    vli_list_each (at, &epoll->items) {
        if (reaches(vli_list_entry(at, struct item, link)->file, outer, depth + 1)) {
            return true;
        }
    }
    return false;
}

static long item_add(struct epoll *epoll, struct file *file, int fd, const struct event *event)
{
    struct item *item;

    if (epoll_of(file) != NULL) {
        if (reaches(file, epoll, 0) || nesting(file, 1) > DEPTH_MAX) {
            return -ELOOP;
        }
    }
    item = vl_kmalloc(sizeof(*item), VL_WAIT | VL_ZEROED);
    if (item == NULL) {
        return -ENOMEM;
    }
    file_get(file);
    item->file = file;
    item->fd = fd;
    item->event = *event;
    vli_list_insert_before(&epoll->items, &item->link);
    epoll->count++;
    return 0;
}

/* epoll->mutex is held. */
static long change_set(struct epoll *epoll, int operation, struct file *file, int fd,
                       const struct event *event)
{
    struct item *item;

    drop_closed(epoll);
    item = item_find(epoll, file, fd);
    switch (operation) {
    case EPOLL_CTL_ADD:
        return item != NULL ? -EEXIST : item_add(epoll, file, fd, event);
    case EPOLL_CTL_DEL:
        if (item == NULL) {
            return -ENOENT;
        }
        item_free(epoll, item);
        return 0;
    case EPOLL_CTL_MOD:
        if (item == NULL) {
            return -ENOENT;
        }
        item->event = *event;
        item->is_spent = false;
        return 0;
    default:
        return -EINVAL;
    }
}

static long control(struct file *set, int operation, struct file *file, int fd,
                    const struct event *event)
{
    struct epoll *epoll = epoll_of(set);
    long result;

    if (file->ops->poll == NULL) {
        return -EPERM; /* regular files and directories, as on Linux */
    }
    if (epoll == NULL || file == set) {
        return -EINVAL;
    }
    mutex_lock(&nesting_mutex);
    mutex_lock(&epoll->mutex);
    result = change_set(epoll, operation, file, fd, event);
    mutex_unlock(&epoll->mutex);
    mutex_unlock(&nesting_mutex);
    wake_all(&epoll->changes);
    return result;
}

SYSCALL(epoll_ctl)
{
    int operation = (int)b;
    struct event event = {0, 0, 0};
    struct fd_ref set;
    struct fd_ref ref;
    long result = -EBADF;

    if (operation != EPOLL_CTL_DEL && copy_from_user(&event, (uint64_t)d, sizeof(event)) != VL_OK) {
        return -EFAULT;
    }
    if (!fd_ref_get((int)a, FD_NORMAL, &set)) {
        return -EBADF;
    }
    if (fd_ref_get((int)c, FD_NORMAL, &ref)) {
        result = control(set.file, operation, ref.file, (int)c, &event);
        fd_ref_put(&ref);
    }
    fd_ref_put(&set);
    return result;
}

/* ------------------------------------------------------------------------------------ wait */

struct epoll_look {
    struct file *file;
    struct epoll *epoll;
    struct event *out;
    unsigned max;
};

static long epoll_look(void *arg, struct poll_wait *wait)
{
    struct epoll_look *look = arg;
    struct epoll *epoll = look->epoll;
    unsigned found = 0;

    wait->file = look->file; /* whose queue "changes" is */
    poll_wait_on(wait, &epoll->changes);
    mutex_lock(&epoll->mutex);
    drop_closed(epoll);
    for (uint32_t left = epoll->count; left != 0 && found < look->max; left--) {
        struct item *item = vli_list_first(&epoll->items, struct item, link);
        unsigned ready = item_ready(item, wait);

        /* To the end, so that a full array does not starve those behind. */
        vli_list_remove(&item->link);
        vli_list_insert_before(&epoll->items, &item->link);
        if (ready != 0) {
            look->out[found] = item->event;
            look->out[found].events = ready;
            found++;
            wait->is_queueing = false;
            item->is_spent = (item->event.events & EPOLLONESHOT) != 0;
        }
    }
    mutex_unlock(&epoll->mutex);
    return (long)found;
}

#define EVENTS_STACK 16u
#define EVENTS_MAX   1024u /* of one call: more are told by the next */

static long epoll_wait_file(struct file *file, uint64_t user, int max, uint64_t deadline)
{
    struct event first[EVENTS_STACK];
    struct epoll_look look = {file, epoll_of(file), first, (unsigned)max};
    long result;

    if (max <= 0 || look.epoll == NULL) {
        return -EINVAL;
    }
    look.max = look.max < EVENTS_MAX ? look.max : EVENTS_MAX;
    if (look.max > EVENTS_STACK) {
        look.out = vl_kmalloc(look.max * sizeof(*look.out), VL_WAIT);
        if (look.out == NULL) {
            return -ENOMEM;
        }
    }
    result = poll_loop(epoll_look, &look, deadline);
    if (result > 0 && copy_to_user(user, look.out, (size_t)result * sizeof(*look.out)) != VL_OK) {
        result = -EFAULT;
    }
    if (look.out != first) {
        vl_kfree(look.out);
    }
    return result;
}

static long epoll_wait_ms(int fd, uint64_t user, int max, int timeout_ms)
{
    uint64_t ms = (uint64_t)(timeout_ms < 0 ? 0 : timeout_ms);
    uint64_t deadline = timeout_ms < 0 ? WAIT_FOREVER : ms == 0 ? 0 : clock_ns() + ms * 1000000u;
    struct fd_ref ref;
    long result;

    if (!fd_ref_get(fd, FD_NORMAL, &ref)) {
        return -EBADF;
    }
    result = epoll_wait_file(ref.file, user, max, deadline);
    fd_ref_put(&ref);
    return result;
}

SYSCALL(epoll_wait)
{
    return epoll_wait_ms((int)a, (uint64_t)b, (int)c, (int)d);
}

SYSCALL(epoll_pwait)
{
    signal_set mask;
    long result;

    if (e == 0) {
        return epoll_wait_ms((int)a, (uint64_t)b, (int)c, (int)d);
    }
    if ((uint64_t)f != sizeof(mask)) {
        return -EINVAL;
    }
    if (copy_from_user(&mask, (uint64_t)e, sizeof(mask)) != VL_OK) {
        return -EFAULT;
    }
    signal_mask_for_call(mask);
    result = epoll_wait_ms((int)a, (uint64_t)b, (int)c, (int)d);
    if (result != -EINTR) {
        signal_mask_restore();
    }
    return result;
}
