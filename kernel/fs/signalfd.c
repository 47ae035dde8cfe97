/*
 * signalfd.c - pending signals as a file: reading takes them as a handler would.
 *
 * The file holds a set of signals and nothing else. As on Linux, what is read and polled are the
 * signals of the thread that does it, not of the one that made the file. They are taken only while
 * they are pending, so the program blocks them first. Readers sleep on the process's arrivals.
 */
#include "kernel/cpu/uaccess.h"
#include "kernel/fs/fdtable.h"
#include "kernel/fs/poll.h"
#include "kernel/fs/syscalls.h"
#include "kernel/fs/vfs.h"
#include "kernel/proc/process.h"

/* struct signalfd_siginfo of Linux's user interface. */
struct signal_record {
    uint32_t signo;
    int32_t error;
    int32_t code;
    uint32_t pid;
    uint32_t uid;
    int32_t fd;
    uint32_t timer_id;
    uint32_t band;
    uint32_t overrun;
    uint32_t trap_number;
    int32_t status;
    int32_t value_int;
    uint64_t value;
    uint64_t utime;
    uint64_t stime;
    uint64_t address;
    uint8_t pad[48];
};
_Static_assert(sizeof(struct signal_record) == 128, "signalfd_siginfo");

struct signalfd {
    _Atomic signal_set set;
};

static bool signo_is_fault(int signo)
{
    return signo == SIGSEGV || signo == SIGBUS || signo == SIGILL || signo == SIGFPE ||
           signo == SIGTRAP;
}

/* Which members of siginfo's union count is told by code and number. */
static void record_fill(struct signal_record *out, const struct signal_info *info)
{
    bool from_kernel = info->code > SI_USER && info->code < SI_KERNEL;

    *out = (struct signal_record){
        .signo = (uint32_t)info->signo, .error = info->error, .code = info->code};
    if (from_kernel && signo_is_fault(info->signo)) {
        out->address = info->u.fault.address;
        return;
    }
    if (info->code == SI_TIMER) {
        out->timer_id = (uint32_t)info->u.sender.pid;
        out->overrun = info->u.sender.uid;
    } else {
        out->pid = (uint32_t)info->u.sender.pid;
        out->uid = info->u.sender.uid;
    }
    if (from_kernel && info->signo == SIGCHLD) {
        out->status = info->u.child.status;
        out->utime = (uint64_t)info->u.child.utime;
        out->stime = (uint64_t)info->u.child.stime;
    } else if (info->code < 0) {
        out->value = info->u.sender.value;
        out->value_int = (int32_t)info->u.sender.value;
    }
}

/* Is there something for a reader, or has the set changed under it? */
static bool signalfd_is_ready(void *arg)
{
    struct signalfd *fd = arg;

    return signal_is_pending(atomic_load_explicit(&fd->set, memory_order_relaxed));
}

/* Take one signal, waiting for it unless @file does not block. Its number or an errno. */
static long signalfd_take(struct file *file, struct signal_info *info)
{
    struct signalfd *fd = file->private_data;
    int signo;

    while ((signo = signal_take(atomic_load_explicit(&fd->set, memory_order_relaxed), info)) == 0) {
        if ((file->flags & O_NONBLOCK) != 0) {
            return -EAGAIN;
        }
        if (wait_for(&current_process()->arrivals, signalfd_is_ready, fd, WAIT_INTERRUPTIBLE,
                     WAIT_FOREVER) != VL_OK) {
            return -ERESTARTSYS;
        }
    }
    return signo;
}

static long signalfd_read(struct file *file, struct user_iter *to, uint64_t *pos)
{
    struct signalfd *fd = file->private_data;
    struct signal_record record;
    struct signal_info info;
    long done = 0;

    (void)pos;
    if (to->left < sizeof(record)) {
        return -EINVAL;
    }
    while (to->left >= sizeof(record)) {
        long signo = done == 0
                         ? signalfd_take(file, &info)
                         : signal_take(atomic_load_explicit(&fd->set, memory_order_relaxed), &info);

        if (signo <= 0) {
            return done != 0 ? done : signo;
        }
        record_fill(&record, &info);
        if (iter_out(to, &record, sizeof(record)) != sizeof(record)) {
            return done != 0 ? done : -EFAULT;
        }
        done += (long)sizeof(record);
    }
    return done;
}

static unsigned signalfd_poll(struct file *file, struct poll_wait *wait)
{
    poll_wait_on(wait, &current_process()->arrivals);
    return signalfd_is_ready(file->private_data) ? POLLIN | POLLRDNORM : 0;
}

static void signalfd_release(struct file *file)
{
    vl_kfree(file->private_data);
}

static const struct file_ops signalfd_ops = {.name = "anon_inode:[signalfd]",
                                             .is_stream = true,
                                             .is_endless = true,
                                             .read = signalfd_read,
                                             .poll = signalfd_poll,
                                             .release = signalfd_release};

static long signalfd_make(signal_set set, unsigned flags)
{
    struct signalfd *fd = vl_kmalloc(sizeof(*fd), VL_WAIT | VL_ZEROED);
    struct file *file;
    long result;

    if (fd == NULL) {
        return -ENOMEM;
    }
    atomic_init(&fd->set, set);
    result = anon_file_make(&signalfd_ops, O_RDWR | (flags & O_NONBLOCK), fd, &file);
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

/* Another set for a file that is there. */
static long signalfd_change(int number, signal_set set)
{
    struct signalfd *fd;
    struct fd_ref ref;

    if (!fd_ref_get(number, FD_NORMAL, &ref)) {
        return -EBADF;
    }
    if (ref.file->ops != &signalfd_ops) {
        fd_ref_put(&ref);
        return -EINVAL;
    }
    fd = ref.file->private_data;
    atomic_store_explicit(&fd->set, set, memory_order_relaxed);
    wake_all(&current_process()->arrivals);
    fd_ref_put(&ref);
    return number;
}

static long signalfd_call(int number, uint64_t user_set, size_t set_size, unsigned flags)
{
    signal_set set;

    if (set_size != sizeof(set)) {
        return -EINVAL;
    }
    if (get_user64(&set, user_set) != VL_OK) {
        return -EFAULT;
    }
    if ((flags & ~(O_NONBLOCK | O_CLOEXEC)) != 0) {
        return -EINVAL;
    }
    set &= ~SIGNALS_UNBLOCKABLE;
    return number == -1 ? signalfd_make(set, flags) : signalfd_change(number, set);
}

SYSCALL(signalfd)
{
    return signalfd_call((int)a, (uint64_t)b, (size_t)c, 0);
}

SYSCALL(signalfd4)
{
    return signalfd_call((int)a, (uint64_t)b, (size_t)c, (unsigned)d);
}
