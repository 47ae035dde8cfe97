/*
 * pidfd.c - a process as a file: a name that no other process takes over; readable once it has
 * ended.
 *
 * The file holds a reference on the process. Whoever polls sleeps on one queue of the kernel, which
 * an exit wakes only if somebody is there: no process pays for it otherwise.
 */
#include "kernel/fs/fdtable.h"
#include "kernel/fs/poll.h"
#include "kernel/fs/vfs.h"
#include "kernel/proc/internal.h"
#include "kernel/proc/pidfd.h"

#define PIDFD_NONBLOCK            O_NONBLOCK
#define PIDFD_SIGNAL_THREAD_GROUP 2u

static struct wait_queue ends = WAIT_QUEUE_INIT(ends);

void pidfd_process_ended(void)
{
    if (!wait_queue_is_empty(&ends)) {
        wake_all(&ends);
    }
}

static bool has_ended(const struct process *process)
{
    return atomic_load_explicit(&process->state, memory_order_relaxed) != PROCESS_ALIVE;
}

static unsigned pidfd_poll(struct file *file, struct poll_wait *wait)
{
    poll_wait_on(wait, &ends);
    return has_ended(file->private_data) ? POLLIN | POLLRDNORM : 0;
}

static void pidfd_release(struct file *file)
{
    process_put(file->private_data);
}

static const struct file_ops pidfd_ops = {
    .name = "anon_inode:[pidfd]", .is_stream = true, .poll = pidfd_poll, .release = pidfd_release};

long pidfd_process(int fd, struct process **out, bool *out_nonblock)
{
    struct fd_ref ref;

    if (!fd_ref_get(fd, FD_NORMAL, &ref)) {
        return -EBADF;
    }
    if (ref.file->ops != &pidfd_ops) {
        fd_ref_put(&ref);
        return -EINVAL;
    }
    *out = ref.file->private_data;
    *out_nonblock = (ref.file->flags & O_NONBLOCK) != 0;
    process_get(*out);
    fd_ref_put(&ref);
    return 0;
}

SYSCALL(pidfd_open)
{
    struct process *process;
    struct file *file;
    long result;

    if (((unsigned)b & ~PIDFD_NONBLOCK) != 0 || (int32_t)a <= 0) {
        return -EINVAL;
    }
    process = process_find((uint32_t)a);
    if (process == NULL) {
        return -ESRCH;
    }
    result = anon_file_make(&pidfd_ops, O_RDWR | ((unsigned)b & O_NONBLOCK), process, &file);
    if (result != 0) {
        process_put(process);
        return result;
    }
    result = files_install(current_files(), file, 0, true);
    if (result < 0) {
        file_put(file);
    }
    return result;
}

SYSCALL(pidfd_send_signal)
{
    struct process *process;
    struct signal_info info;
    bool nonblock;
    long result;

    if (((unsigned)d & ~PIDFD_SIGNAL_THREAD_GROUP) != 0) {
        return -EINVAL; /* to one thread or to a process group: not here */
    }
    result = pidfd_process((int)a, &process, &nonblock);
    if (result == -EINVAL) {
        return -EBADF;
    }
    if (result == 0) {
        result = signal_info_for((int)b, (uint64_t)c, process == current_process(), &info);
        if (result == 0) {
            result = has_ended(process) && process->parent == NULL
                         ? -ESRCH
                         : signal_send_info(process, &info);
        }
        process_put(process);
    }
    return result;
}

/* The memory of a process that has been killed: it goes as its threads end; until then there is
 * nothing that can be taken from under them. Waits a bounded time for that. */
SYSCALL(process_mrelease)
{
    struct process *process;
    bool nonblock;
    bool dying;
    unsigned long flags;
    long result;

    if (b != 0) {
        return -EINVAL;
    }
    result = pidfd_process((int)a, &process, &nonblock);
    if (result != 0) {
        return result == -EINVAL ? -EBADF : result;
    }
    flags = signal_lock(process);
    dying = process->group_exit != 0 || (process->pending.set & SIGNAL_BIT(SIGKILL)) != 0;
    signal_unlock(process, flags);
    if (has_ended(process)) {
        result = -ESRCH;
    } else if (!dying) {
        result = -EINVAL;
    } else {
        uint64_t deadline = clock_ns() + NS_PER_SECOND;

        while (process->space != NULL && clock_ns() < deadline && result == 0) {
            result = (long)sleep_until_ns(clock_ns() + NS_PER_SECOND / 1000, WAIT_INTERRUPTIBLE);
        }
    }
    process_put(process);
    return result;
}
