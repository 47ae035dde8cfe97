/*
 * timerfd.c - a timer as a file: reading takes the number of times it has expired.
 *
 * The timer's interrupt counts nothing: it wakes the readers. How often the timer has expired is
 * computed from the clock under the lock, by whoever asks, so that a reader that comes late and one
 * that slept see the same.
 *
 * Lock: a spin lock with interrupts off (KRANK_INNER_1), since the interrupt takes it.
 */
#include "kernel/cpu/uaccess.h"
#include "kernel/fs/fdtable.h"
#include "kernel/fs/poll.h"
#include "kernel/fs/syscalls.h"
#include "kernel/fs/vfs.h"
#include "kernel/proc/process.h"
#include "kernel/sched/lock.h"
#include "kernel/sched/timer.h"

#define TFD_TIMER_ABSTIME       1u
#define TFD_TIMER_CANCEL_ON_SET 2u
#define SECOND                  1000000000ull

struct timerfd {
    struct vli_spinlock lock;
    struct timer timer;
    struct wait_queue readers;
    bool is_realtime;
    uint64_t expires_ns;  /* next; 0: not armed */
    uint64_t interval_ns; /* 0: once */
    uint64_t count;       /* expiries not read */
};

struct itimerspec {
    int64_t interval_sec, interval_nsec, value_sec, value_nsec;
};

static unsigned long timerfd_lock(struct timerfd *fd) VL_NO_LOCK_CHECK
{
    return vli_spin_lock_irq(&fd->lock, KRANK_INNER_1);
}

static void timerfd_unlock(struct timerfd *fd, unsigned long flags) VL_NO_LOCK_CHECK
{
    vli_spin_unlock_irq(&fd->lock, KRANK_INNER_1, flags);
}

/* Take in what has expired. The lock is held. */
static void timerfd_advance(struct timerfd *fd)
{
    uint64_t now = clock_ns();
    uint64_t passed = 1;

    if (fd->expires_ns == 0 || fd->expires_ns > now) {
        return;
    }
    if (fd->interval_ns == 0) {
        fd->expires_ns = 0;
    } else {
        passed = (now - fd->expires_ns) / fd->interval_ns + 1;
        fd->expires_ns += passed * fd->interval_ns;
        timer_arm(&fd->timer, fd->expires_ns);
    }
    fd->count += passed;
}

static void timerfd_run(struct timer *timer)
{
    struct timerfd *fd = vli_container_of(timer, struct timerfd, timer);
    unsigned long flags = timerfd_lock(fd);

    timerfd_advance(fd);
    timerfd_unlock(fd, flags);
    wake_all(&fd->readers);
}

/* What has expired and was not read; taken when @takes. */
static uint64_t timerfd_count(struct timerfd *fd, bool takes)
{
    unsigned long flags = timerfd_lock(fd);
    uint64_t count;

    timerfd_advance(fd);
    count = fd->count;
    if (takes) {
        fd->count = 0;
    }
    timerfd_unlock(fd, flags);
    return count;
}

static bool timerfd_is_ready(void *arg)
{
    return timerfd_count(arg, false) != 0;
}

static long timerfd_read(struct file *file, struct user_iter *to, uint64_t *pos)
{
    struct timerfd *fd = file->private_data;
    uint64_t count;

    (void)pos;
    if (to->left < sizeof(count)) {
        return -EINVAL;
    }
    while ((count = timerfd_count(fd, true)) == 0) {
        if ((file->flags & O_NONBLOCK) != 0) {
            return -EAGAIN;
        }
        if (wait_for(&fd->readers, timerfd_is_ready, fd, WAIT_INTERRUPTIBLE, WAIT_FOREVER) !=
            VL_OK) {
            return -ERESTARTSYS;
        }
    }
    return iter_out(to, &count, sizeof(count)) == sizeof(count) ? (long)sizeof(count) : -EFAULT;
}

static unsigned timerfd_poll(struct file *file, struct poll_wait *wait)
{
    struct timerfd *fd = file->private_data;

    poll_wait_on(wait, &fd->readers);
    return timerfd_count(fd, false) != 0 ? POLLIN | POLLRDNORM : 0;
}

static void timerfd_release(struct file *file)
{
    struct timerfd *fd = file->private_data;
    unsigned long flags = timerfd_lock(fd);

    fd->expires_ns = 0;
    timerfd_unlock(fd, flags);
    (void)timer_cancel(&fd->timer);
    vl_kfree(fd);
}

static const struct file_ops timerfd_ops = {.name = "anon_inode:[timerfd]",
                                            .is_stream = true,
                                            .is_endless = true,
                                            .read = timerfd_read,
                                            .poll = timerfd_poll,
                                            .release = timerfd_release};

SYSCALL(timerfd_create)
{
    int clock = (int)a;
    unsigned flags = (unsigned)b;
    struct timerfd *fd;
    struct file *file;
    long result;

    if ((flags & ~(O_NONBLOCK | O_CLOEXEC)) != 0 ||
        (clock != 0 && clock != 1 && clock != 7 && clock != 8 && clock != 9)) {
        return -EINVAL;
    }
    fd = vl_kmalloc(sizeof(*fd), VL_WAIT | VL_ZEROED);
    if (fd == NULL) {
        return -ENOMEM;
    }
    vli_spin_init(&fd->lock);
    timer_init(&fd->timer, timerfd_run);
    wait_queue_init(&fd->readers);
    fd->is_realtime = clock == 0 || clock == 8;
    result = anon_file_make(&timerfd_ops, O_RDWR | (flags & O_NONBLOCK), fd, &file);
    if (result != 0) {
        vl_kfree(fd);
        return result;
    }
    result = files_install(current_files(), file, 0, (flags & O_CLOEXEC) != 0);
    if (result < 0) {
        file_put(file);
    }
    return result;
}

static bool spec_ns(int64_t sec, int64_t nsec, uint64_t *out)
{
    if (sec < 0 || nsec < 0 || nsec >= (int64_t)SECOND) {
        return false;
    }
    *out = (uint64_t)sec > UINT64_MAX / 4 / SECOND ? UINT64_MAX / 4
                                                   : (uint64_t)sec * SECOND + (uint64_t)nsec;
    return true;
}

/* What is left. The lock is held. */
static void timerfd_left(struct timerfd *fd, struct itimerspec *out)
{
    uint64_t now = clock_ns();
    uint64_t left = 0;

    timerfd_advance(fd);
    if (fd->expires_ns != 0) {
        left = fd->expires_ns > now ? fd->expires_ns - now : 1;
    }
    *out = (struct itimerspec){(int64_t)(fd->interval_ns / SECOND),
                               (int64_t)(fd->interval_ns % SECOND), (int64_t)(left / SECOND),
                               (int64_t)(left % SECOND)};
}

/* The file of a descriptor, which must be a timer. */
static long timerfd_get(int number, struct fd_ref *ref)
{
    if (!fd_ref_get(number, FD_NORMAL, ref)) {
        return -EBADF;
    }
    if (ref->file->ops != &timerfd_ops) {
        fd_ref_put(ref);
        return -EINVAL;
    }
    return 0;
}

static void timerfd_set(struct timerfd *fd, uint64_t value, uint64_t interval, bool absolute,
                        struct itimerspec *old)
{
    uint64_t base = !absolute ? 0 : fd->is_realtime ? clock_realtime_ns() : clock_ns();
    uint64_t wait = absolute ? (value > base ? value - base : 0) : value;
    unsigned long flags = timerfd_lock(fd);

    timerfd_left(fd, old);
    (void)timer_try_cancel(&fd->timer);
    fd->count = 0;
    fd->interval_ns = interval;
    fd->expires_ns = value != 0 ? clock_ns() + wait : 0;
    if (value != 0) {
        timer_arm(&fd->timer, fd->expires_ns);
    }
    timerfd_unlock(fd, flags);
}

SYSCALL(timerfd_settime)
{
    struct itimerspec in;
    struct itimerspec old;
    struct fd_ref ref;
    uint64_t value;
    uint64_t interval;
    long result;

    if (((unsigned)b & ~(TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET)) != 0) {
        return -EINVAL;
    }
    if (copy_from_user(&in, (uint64_t)c, sizeof(in)) != VL_OK) {
        return -EFAULT;
    }
    if (!spec_ns(in.value_sec, in.value_nsec, &value) ||
        !spec_ns(in.interval_sec, in.interval_nsec, &interval)) {
        return -EINVAL;
    }
    result = timerfd_get((int)a, &ref);
    if (result != 0) {
        return result;
    }
    timerfd_set(ref.file->private_data, value, interval, ((unsigned)b & TFD_TIMER_ABSTIME) != 0,
                &old);
    fd_ref_put(&ref);
    return d != 0 ? (long)copy_to_user((uint64_t)d, &old, sizeof(old)) : 0;
}

SYSCALL(timerfd_gettime)
{
    struct itimerspec out;
    struct timerfd *fd;
    struct fd_ref ref;
    unsigned long flags;
    long result = timerfd_get((int)a, &ref);

    if (result != 0) {
        return result;
    }
    fd = ref.file->private_data;
    flags = timerfd_lock(fd);
    timerfd_left(fd, &out);
    timerfd_unlock(fd, flags);
    fd_ref_put(&ref);
    return (long)copy_to_user((uint64_t)b, &out, sizeof(out));
}
