/*
 * eventfd.c - a counter as a file.
 *
 * Lock: the mutex, for the counter; readers and writers sleep on one queue each.
 */
#include "kernel/fs/fdtable.h"
#include "kernel/fs/poll.h"
#include "kernel/fs/syscalls.h"
#include "kernel/fs/vfs.h"
#include "kernel/proc/process.h"

#define EFD_SEMAPHORE 1u
#define COUNT_MAX     (UINT64_MAX - 1)

struct eventfd {
    struct mutex mutex;
    struct wait_queue readers;
    struct wait_queue writers;
    uint64_t count;
    bool is_semaphore;
};

/* Wait for a change, or say why not. 0 or an errno. The mutex is held. */
static long eventfd_wait(struct eventfd *event, struct file *file, struct wait_queue *queue)
    VL_REQUIRES(event->mutex)
{
    if ((file->flags & O_NONBLOCK) != 0) {
        return -EAGAIN;
    }
    return wait_on_mutex(queue, &event->mutex, WAIT_INTERRUPTIBLE, WAIT_FOREVER) == VL_EINTR
               ? -ERESTARTSYS
               : 0;
}

static long eventfd_read(struct file *file, struct user_iter *to, uint64_t *pos)
{
    struct eventfd *event = file->private_data;
    uint64_t value = 0;
    long result = 0;

    (void)pos;
    if (to->left < sizeof(value)) {
        return -EINVAL;
    }
    mutex_lock(&event->mutex);
    while (result == 0 && event->count == 0) {
        result = eventfd_wait(event, file, &event->readers);
    }
    if (result == 0) {
        value = event->is_semaphore ? 1 : event->count;
        event->count -= value;
    }
    mutex_unlock(&event->mutex);
    if (result != 0) {
        return result;
    }
    wake_all(&event->writers);
    return iter_out(to, &value, sizeof(value)) == sizeof(value) ? (long)sizeof(value) : -EFAULT;
}

static long eventfd_write(struct file *file, struct user_iter *from, uint64_t *pos)
{
    struct eventfd *event = file->private_data;
    uint64_t value;
    long result = 0;

    (void)pos;
    if (from->left < sizeof(value)) {
        return -EINVAL;
    }
    if (iter_in(from, &value, sizeof(value)) != sizeof(value)) {
        return -EFAULT;
    }
    if (value == UINT64_MAX) {
        return -EINVAL;
    }
    mutex_lock(&event->mutex);
    while (result == 0 && value > COUNT_MAX - event->count) {
        result = eventfd_wait(event, file, &event->writers);
    }
    if (result == 0) {
        event->count += value;
    }
    mutex_unlock(&event->mutex);
    if (result != 0) {
        return result;
    }
    wake_all(&event->readers);
    return (long)sizeof(value);
}

static unsigned eventfd_poll(struct file *file, struct poll_wait *wait)
{
    struct eventfd *event = file->private_data;
    unsigned ready = 0;

    poll_wait_on(wait, &event->readers);
    poll_wait_on(wait, &event->writers);
    mutex_lock(&event->mutex);
    ready |= event->count != 0 ? POLLIN | POLLRDNORM : 0;
    ready |= event->count < COUNT_MAX ? POLLOUT | POLLWRNORM : 0;
    mutex_unlock(&event->mutex);
    return ready;
}

static void eventfd_release(struct file *file)
{
    vl_kfree(file->private_data);
}

static const struct file_ops eventfd_ops = {.name = "anon_inode:[eventfd]",
                                            .is_stream = true,
                                            .is_endless = true,
                                            .read = eventfd_read,
                                            .write = eventfd_write,
                                            .poll = eventfd_poll,
                                            .release = eventfd_release};

static long eventfd_make(uint64_t count, unsigned flags)
{
    struct eventfd *event;
    struct file *file;
    long result;

    if ((flags & ~(EFD_SEMAPHORE | O_NONBLOCK | O_CLOEXEC)) != 0) {
        return -EINVAL;
    }
    event = vl_kmalloc(sizeof(*event), VL_WAIT | VL_ZEROED);
    if (event == NULL) {
        return -ENOMEM;
    }
    mutex_init(&event->mutex);
    wait_queue_init(&event->readers);
    wait_queue_init(&event->writers);
    event->count = count;
    event->is_semaphore = (flags & EFD_SEMAPHORE) != 0;
    result = anon_file_make(&eventfd_ops, O_RDWR | (flags & O_NONBLOCK), event, &file);
    if (result != 0) {
        vl_kfree(event);
        return result;
    }
    result = files_install(current_files(), file, 0, (flags & O_CLOEXEC) != 0);
    if (result < 0) {
        file_put(file);
    }
    return result;
}

SYSCALL(eventfd)
{
    return eventfd_make((uint32_t)a, 0);
}

SYSCALL(eventfd2)
{
    return eventfd_make((uint32_t)a, (unsigned)b);
}
