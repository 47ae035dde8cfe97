/*
 * tty.c - the terminal on the serial line: files, job control, ioctl.
 *
 * There is one, /dev/ttyS0, which is /dev/console too. Its controlling session and foreground
 * group are ids under tty->lock; the session's own pointer to the terminal is kernel/proc's.
 * User memory is copied outside of the lock, through small buffers on the stack.
 *
 * Opened as /dev/console it never becomes a controlling terminal, and a hang-up passes it by, as
 * on Linux.
 */
#include "kernel/dev/serial.h"
#include "kernel/dev/tty_state.h"
#include "kernel/boot/boot.h"
#include "kernel/cpu/uaccess.h"
#include "kernel/fs/poll.h"
#include "kernel/lib/mem.h"
#include "kernel/proc/process.h"

#define DEVICE_TTY     DEVICE(5, 0)
#define DEVICE_CONSOLE DEVICE(5, 1)
#define DEVICE_SERIAL  DEVICE(4, 64)
#define CHUNK_BYTES    256u

static struct tty serial_tty;

static unsigned long lock_tty(struct tty *tty) VL_NO_LOCK_CHECK
{
    return vli_spin_lock_irq(&tty->lock, KRANK_TTY);
}

static void unlock_tty(struct tty *tty, unsigned long flags) VL_NO_LOCK_CHECK
{
    vli_spin_unlock_irq(&tty->lock, KRANK_TTY, flags);
}

static void serial_byte(unsigned char byte)
{
    tty_receive(&serial_tty, byte);
}

void dev_init(void)
{
    static const struct termios first = {
        .input = ICRNL | IXON,
        .output = OPOST | ONLCR,
        .control = 0xcbd, /* B9600 CS8 CREAD HUPCL CLOCAL, as Linux's serial console */
        .local = ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | IEXTEN,
        .cc = {3, 28, 127, 21, 4, 0, 1, 0, 17, 19, 26, 0, 18, 15, 23, 22, 0}};
    struct tty *tty = &serial_tty;

    vli_spin_init(&tty->lock);
    wait_queue_init(&tty->readers);
    wait_queue_init(&tty->writers);
    mutex_init(&tty->read_mutex);
    mutex_init(&tty->write_mutex);
    tty->termios = first;
    tty->device = DEVICE_SERIAL;
    serial_set_input(serial_byte);
}

static struct tty *tty_of(const struct file *file)
{
    return file->private_data;
}

/* Was the terminal hung up since @file was opened? The position holds the generation. */
static bool is_hung_up(const struct file *file)
{
    struct tty *tty = tty_of(file);

    return file->pos != UINT64_MAX && file->pos != tty->generation;
}

uint32_t tty_device(const struct tty *tty)
{
    return tty->device;
}

uint32_t tty_foreground(struct tty *tty)
{
    unsigned long flags = lock_tty(tty);
    uint32_t group = tty->foreground;

    unlock_tty(tty, flags);
    return group;
}

/* ---------------------------------------------------------------------------- job control */

/* May the running process use the terminal, or does it belong to another group's foreground?
 * @signo: SIGTTIN or SIGTTOU. 0; -EIO; -ERESTARTSYS with the signal sent. */
static long check_foreground(struct tty *tty, int signo)
{
    uint32_t group = process_group_id();
    uint32_t foreground = tty_foreground(tty);

    if (foreground == 0 || foreground == group || session_tty() != tty) {
        return 0;
    }
    if (signal_is_ignored_or_blocked(signo)) {
        return signo == SIGTTIN ? -EIO : 0;
    }
    if (process_group_is_orphaned()) {
        return -EIO;
    }
    (void)signal_send_group(group, signo);
    return -ERESTARTSYS;
}

/* The running process's session takes the terminal, if both are free. */
static bool try_control(struct tty *tty)
{
    uint32_t session = process_session_id();
    uint32_t group = process_group_id();
    unsigned long flags;
    bool taken;

    if (!process_is_session_leader() || session_tty() != NULL) {
        return false;
    }
    flags = lock_tty(tty);
    taken = tty->session == 0;
    if (taken) {
        tty->session = session;
        tty->foreground = group;
    }
    unlock_tty(tty, flags);
    if (taken) {
        session_set_tty(tty);
    }
    return taken;
}

uint32_t tty_session_ended(struct tty *tty, uint32_t sid)
{
    unsigned long flags = lock_tty(tty);
    uint32_t group = 0;

    if (tty->session == sid) {
        group = tty->foreground;
        tty->session = 0;
        tty->foreground = 0;
        tty->generation++;
        tty_flush_input(tty);
        wake_all(&tty->readers);
        wake_all(&tty->writers);
    }
    unlock_tty(tty, flags);
    return group;
}

/* TIOCNOTTY. */
static long give_up(struct tty *tty)
{
    unsigned long flags;
    uint32_t group = 0;

    if (session_tty() != tty) {
        return -ENOTTY;
    }
    if (!process_is_session_leader()) {
        return 0; /* the session keeps it: here it belongs to the session, not to a process */
    }
    flags = lock_tty(tty);
    group = tty->foreground;
    tty->session = 0;
    tty->foreground = 0;
    unlock_tty(tty, flags);
    session_set_tty(NULL);
    if (group != 0) {
        (void)signal_send_group(group, SIGHUP);
        (void)signal_send_group(group, SIGCONT);
    }
    return 0;
}

/* TIOCSCTTY. */
static long take_control(struct tty *tty)
{
    if (session_tty() == tty && process_is_session_leader()) {
        return 0;
    }
    return try_control(tty) ? 0 : -EPERM;
}

/* TIOCSPGRP. */
static long set_foreground(struct tty *tty, uint64_t user)
{
    unsigned long flags;
    uint32_t group;
    long result = check_foreground(tty, SIGTTOU);

    if (result != 0) {
        return result;
    }
    if (session_tty() != tty) {
        return -ENOTTY;
    }
    if (get_user32(&group, user) != VL_OK) {
        return -EFAULT;
    }
    if ((int32_t)group < 0) {
        return -EINVAL;
    }
    if (!process_group_in_session(group, process_session_id())) {
        return -EPERM;
    }
    flags = lock_tty(tty);
    tty->foreground = group;
    unlock_tty(tty, flags);
    return 0;
}

/* --------------------------------------------------------------------------------- reading */

/* Is there enough for a reader? The lock is held. */
static bool is_ready(struct tty *tty, size_t wanted)
{
    size_t available = tty_available(tty);

    if (tty_is_canonical(tty)) {
        return tty->lines != 0;
    }
    return available != 0 && available >= wanted;
}

/* How a reader in non-canonical mode waits: for how many bytes at first, and how long. */
struct read_plan {
    size_t min;             /* bytes that end the wait */
    uint64_t first_wait_ns; /* for the first byte; WAIT_FOREVER, or 0 for not at all */
    uint64_t next_wait_ns;  /* between bytes */
};

static struct read_plan plan_read(struct tty *tty, size_t room)
{
    uint64_t time_ns = (uint64_t)tty->termios.cc[CC_TIME] * 100000000u;
    size_t min = tty->termios.cc[CC_MIN];
    struct read_plan plan = {1, WAIT_FOREVER, WAIT_FOREVER};

    if (tty_is_canonical(tty)) {
        return plan;
    }
    if (min == 0) {
        plan.first_wait_ns = time_ns;
        return plan;
    }
    plan.min = min < room ? min : room;
    plan.next_wait_ns = time_ns != 0 ? time_ns : WAIT_FOREVER;
    return plan;
}

/* Sleep until there is something to take. 0: there may be; 1: the time is over; or an errno. */
static long wait_input(struct file *file, struct read_plan *plan)
{
    struct tty *tty = tty_of(file);
    uint64_t deadline =
        plan->first_wait_ns == WAIT_FOREVER ? WAIT_FOREVER : clock_ns() + plan->first_wait_ns;
    struct waiter waiter;
    size_t seen = 0;
    long result = 1;

    waiter_init(&waiter);
    for (;;) {
        enum vl_status status;
        unsigned long flags;
        size_t available;
        bool ready;

        wait_prepare(&tty->readers, &waiter, WAIT_INTERRUPTIBLE);
        flags = lock_tty(tty);
        ready = is_ready(tty, plan->min) || is_hung_up(file);
        available = tty_available(tty);
        if (available != seen && plan->next_wait_ns != WAIT_FOREVER) {
            deadline = clock_ns() + plan->next_wait_ns;
        }
        seen = available;
        unlock_tty(tty, flags);
        if (ready) {
            result = 0;
            break;
        }
        if (plan->first_wait_ns == 0) {
            break;
        }
        status = wait_sleep(deadline);
        if (status == VL_EINTR) {
            result = -ERESTARTSYS;
            break;
        }
        if (status == VL_ETIMEDOUT) {
            break;
        }
    }
    wait_finish(&waiter);
    return result;
}

/* Copy what there is. Returns: bytes or -EFAULT. */
static long take_input(struct tty *tty, struct user_iter *to)
{
    char chunk[CHUNK_BYTES];
    long done = 0;
    bool is_end = false;

    while (to->left != 0 && !is_end) {
        size_t want = to->left < sizeof(chunk) ? to->left : sizeof(chunk);
        unsigned long flags = lock_tty(tty);
        size_t len = tty_take(tty, chunk, want, &is_end);

        unlock_tty(tty, flags);
        if (len == 0) {
            break;
        }
        if (iter_out(to, chunk, len) != len) {
            return done != 0 ? done : -EFAULT;
        }
        done += (long)len;
    }
    return done;
}

static long tty_read(struct file *file, struct user_iter *to, uint64_t *pos) VL_NO_LOCK_CHECK
{
    struct tty *tty = tty_of(file);
    bool nonblocking = (file->flags & O_NONBLOCK) != 0;
    struct read_plan plan;
    unsigned long flags;
    bool ready;
    long result;

    (void)pos;
    result = check_foreground(tty, SIGTTIN);
    if (result != 0) {
        return result;
    }
    if (mutex_lock_interruptible(&tty->read_mutex) != VL_OK) {
        return -ERESTARTSYS;
    }
    flags = lock_tty(tty);
    plan = plan_read(tty, to->left);
    ready = is_ready(tty, 1) || is_hung_up(file);
    unlock_tty(tty, flags);
    if (is_hung_up(file)) {
        result = 0;
    } else if (nonblocking) {
        result = ready ? take_input(tty, to) : -EAGAIN;
    } else {
        result = wait_input(file, &plan);
        /* The time is over: a reader gets what has come. */
        result = result < 0 || is_hung_up(file) ? (result < 0 ? result : 0) : take_input(tty, to);
    }
    mutex_unlock(&tty->read_mutex);
    return result;
}

/* --------------------------------------------------------------------------------- writing */

static bool can_write(void *arg)
{
    struct tty *tty = arg;
    unsigned long flags = lock_tty(tty);
    bool stopped = tty->is_stopped;

    unlock_tty(tty, flags);
    return !stopped;
}

/* Write everything; the write mutex is held. */
static long put_all(struct file *file, struct user_iter *from)
{
    struct tty *tty = tty_of(file);
    char chunk[CHUNK_BYTES];
    long done = 0;

    while (from->left != 0) {
        size_t want = from->left < sizeof(chunk) ? from->left : sizeof(chunk);
        unsigned long flags;
        size_t len;

        if (!can_write(tty)) {
            if ((file->flags & O_NONBLOCK) != 0) {
                return done != 0 ? done : -EAGAIN;
            }
            if (wait_for(&tty->writers, can_write, tty, WAIT_INTERRUPTIBLE, WAIT_FOREVER) !=
                VL_OK) {
                return done != 0 ? done : -ERESTARTSYS;
            }
        }
        if (is_hung_up(file)) {
            return done != 0 ? done : -EIO;
        }
        len = iter_in(from, chunk, want);
        flags = lock_tty(tty);
        tty_put(tty, chunk, len);
        unlock_tty(tty, flags);
        done += (long)len;
        if (len < want) {
            return done != 0 ? done : -EFAULT;
        }
        if (thread_signal_pending(current())) {
            break;
        }
    }
    return done;
}

static long tty_write(struct file *file, struct user_iter *from, uint64_t *pos) VL_NO_LOCK_CHECK
{
    struct tty *tty = tty_of(file);
    long result = 0;

    (void)pos;
    if ((tty->termios.local & TOSTOP) != 0) {
        result = check_foreground(tty, SIGTTOU);
    }
    if (result != 0) {
        return result;
    }
    if (mutex_lock_interruptible(&tty->write_mutex) != VL_OK) {
        return -ERESTARTSYS;
    }
    result = put_all(file, from);
    mutex_unlock(&tty->write_mutex);
    return result;
}

static unsigned tty_poll(struct file *file, struct poll_wait *wait)
{
    struct tty *tty = tty_of(file);
    unsigned ready = 0;
    unsigned long flags;
    size_t wanted;

    poll_wait_on(wait, &tty->readers);
    poll_wait_on(wait, &tty->writers);
    flags = lock_tty(tty);
    wanted =
        tty->termios.cc[CC_TIME] == 0 && tty->termios.cc[CC_MIN] != 0 ? tty->termios.cc[CC_MIN] : 1;
    ready |= is_ready(tty, wanted) ? POLLIN | POLLRDNORM : 0;
    ready |= !tty->is_stopped ? POLLOUT | POLLWRNORM : 0;
    ready |= is_hung_up(file) ? POLLIN | POLLRDNORM | POLLHUP | POLLERR : 0;
    unlock_tty(tty, flags);
    return ready;
}

/* ----------------------------------------------------------------------------------- ioctl */

#define TCGETS     0x5401u
#define TCSETS     0x5402u
#define TCSETSW    0x5403u
#define TCSETSF    0x5404u
#define TCSBRK     0x5409u
#define TCXONC     0x540au
#define TCFLSH     0x540bu
#define TIOCEXCL   0x540cu
#define TIOCNXCL   0x540du
#define TIOCSCTTY  0x540eu
#define TIOCGPGRP  0x540fu
#define TIOCSPGRP  0x5410u
#define TIOCOUTQ   0x5411u
#define TIOCGWINSZ 0x5413u
#define TIOCSWINSZ 0x5414u
#define TIOCMGET   0x5415u
#define FIONREAD   0x541bu
#define TIOCNOTTY  0x5422u
#define TIOCGETD   0x5424u
#define TCSBRKP    0x5425u
#define TIOCGSID   0x5429u

static long set_termios(struct tty *tty, uint64_t user, bool flush)
{
    struct termios fresh;
    uint32_t old_local;
    unsigned long flags;
    long result = check_foreground(tty, SIGTTOU);

    if (result != 0) {
        return result;
    }
    if (copy_from_user(&fresh, user, sizeof(fresh)) != VL_OK) {
        return -EFAULT;
    }
    flags = lock_tty(tty);
    if (flush) {
        tty_flush_input(tty);
    }
    old_local = tty->termios.local;
    tty->termios = fresh;
    if ((fresh.input & IXON) == 0 && tty->is_stopped) {
        tty->is_stopped = false;
        wake_all(&tty->writers);
    }
    tty_termios_changed(tty, old_local);
    unlock_tty(tty, flags);
    return 0;
}

static long get_termios(struct tty *tty, uint64_t user)
{
    struct termios copy;
    unsigned long flags = lock_tty(tty);

    copy = tty->termios;
    unlock_tty(tty, flags);
    return copy_to_user(user, &copy, sizeof(copy)) == VL_OK ? 0 : -EFAULT;
}

static long set_size(struct tty *tty, uint64_t user)
{
    struct winsize size;
    unsigned long flags;
    uint32_t group;
    bool changed;

    if (copy_from_user(&size, user, sizeof(size)) != VL_OK) {
        return -EFAULT;
    }
    flags = lock_tty(tty);
    changed = memcmp(&tty->size, &size, sizeof(size)) != 0;
    tty->size = size;
    group = tty->foreground;
    unlock_tty(tty, flags);
    if (changed && group != 0) {
        (void)signal_send_group(group, SIGWINCH);
    }
    return 0;
}

static long get_size(struct tty *tty, uint64_t user)
{
    struct winsize size;
    unsigned long flags = lock_tty(tty);

    size = tty->size;
    unlock_tty(tty, flags);
    return copy_to_user(user, &size, sizeof(size)) == VL_OK ? 0 : -EFAULT;
}

/* TCFLSH: 0 input, 1 output, 2 both; output is never held back. */
static long flush_queues(struct tty *tty, uint64_t which)
{
    unsigned long flags;
    long result = check_foreground(tty, SIGTTOU);

    if (result != 0) {
        return result;
    }
    if (which > 2) {
        return -EINVAL;
    }
    if (which != 1) {
        flags = lock_tty(tty);
        tty_flush_input(tty);
        unlock_tty(tty, flags);
    }
    return 0;
}

/* TCXONC: 0 stops the output, 1 starts it, 2 and 3 send STOP and START. */
static long set_flow(struct tty *tty, uint64_t what)
{
    unsigned long flags;
    char byte;
    long result = check_foreground(tty, SIGTTOU);

    if (result != 0) {
        return result;
    }
    if (what > 3) {
        return -EINVAL;
    }
    flags = lock_tty(tty);
    if (what <= 1) {
        tty->is_stopped = what == 0;
        wake_all(&tty->writers);
    } else {
        byte = (char)tty->termios.cc[what == 2 ? CC_STOP : CC_START];
        if (byte != 0) {
            serial_write(&byte, 1);
        }
    }
    unlock_tty(tty, flags);
    return 0;
}

/* What belongs to the controlling session only. */
static long ioctl_session(struct tty *tty, unsigned command, uint64_t arg)
{
    switch (command) {
    case TIOCSCTTY:
        return take_control(tty);
    case TIOCNOTTY:
        return give_up(tty);
    case TIOCSPGRP:
        return set_foreground(tty, arg);
    case TIOCGPGRP:
    case TIOCGSID:
        if (session_tty() != tty) {
            return -ENOTTY;
        }
        return put_user32(arg, command == TIOCGSID ? process_session_id() : tty_foreground(tty)) ==
                       VL_OK
                   ? 0
                   : -EFAULT;
    default:
        return -ENOTTY;
    }
}

static long tty_ioctl(struct file *file, unsigned command, uint64_t arg)
{
    struct tty *tty = tty_of(file);
    unsigned long flags;
    uint32_t value = 0;

    if (is_hung_up(file)) {
        return -EIO;
    }
    switch (command) {
    case TCGETS:
        return get_termios(tty, arg);
    case TCSETS:
    case TCSETSW: /* output is out already */
    case TCSETSF:
        return set_termios(tty, arg, command == TCSETSF);
    case TIOCGWINSZ:
        return get_size(tty, arg);
    case TIOCSWINSZ:
        return set_size(tty, arg);
    case TCFLSH:
        return flush_queues(tty, arg);
    case TCXONC:
        return set_flow(tty, arg);
    case TCSBRK:
    case TCSBRKP:
        return check_foreground(tty, SIGTTOU);
    case TIOCEXCL:
    case TIOCNXCL:
        return 0;
    case FIONREAD:
        flags = lock_tty(tty);
        value = (uint32_t)tty_available(tty);
        unlock_tty(tty, flags);
        break;
    case TIOCOUTQ:
    case TIOCGETD:
        break;
    case TIOCMGET:
        value = 0x166; /* DTR RTS CTS CAR DSR */
        break;
    default:
        return ioctl_session(tty, command, arg);
    }
    return put_user32(arg, value) == VL_OK ? 0 : -EFAULT;
}

static const struct file_ops tty_ops = {.name = "tty",
                                        .is_stream = true,
                                        .read = tty_read,
                                        .write = tty_write,
                                        .poll = tty_poll,
                                        .ioctl = tty_ioctl};

long tty_open(struct file *file, uint32_t device, bool is_plain)
{
    struct tty *tty = &serial_tty;

    if (device == DEVICE_TTY) {
        tty = current_process() != NULL ? session_tty() : NULL;
        if (tty == NULL) {
            return -ENXIO;
        }
        is_plain = true;
    }
    file->ops = &tty_ops;
    file->private_data = tty;
    file->pos = tty->generation;
    if (device == DEVICE_CONSOLE) {
        file->pos = UINT64_MAX; /* no hang-up reaches it */
    } else if (!is_plain && current_process() != NULL && (file->flags & O_ACCMODE) != O_WRONLY) {
        (void)try_control(tty);
    }
    return 0;
}
