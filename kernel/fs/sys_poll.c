/*
 * sys_poll.c - poll, ppoll, select, pselect6.
 *
 * All four come down to an array of struct poll_want in kernel memory and one loop: queue on every
 * file, look, sleep. Waiters for the usual few files are on the stack; more are allocated in
 * chunks, and if there is no memory for one the loop looks every 10 ms instead of sleeping on it.
 */
#include "kernel/fs/fdtable.h"
#include "kernel/fs/poll_loop.h"
#include "kernel/fs/syscalls.h"
#include "kernel/cpu/uaccess.h"
#include "kernel/lib/mem.h"
#include "kernel/proc/process.h"

#define NS_PER_S   1000000000u
#define POLL_FILES 16u /* on the stack */

struct waiter_chunk {
    struct waiter_chunk *next;
    struct poll_waiter waiters[WAITERS_CHUNK];
};

void poll_wait_begin(struct poll_wait *wait)
{
    wait->count = 0;
    wait->is_queueing = true;
    wait->is_short = false;
    wait->chunks = NULL;
    wait->file = NULL;
}

static void waiter_end(struct poll_waiter *waiter)
{
    wait_finish(&waiter->waiter);
    file_put(waiter->file);
}

void poll_wait_end(struct poll_wait *wait)
{
    struct waiter_chunk *chunk = wait->chunks;
    unsigned count = wait->count;

    while (count > WAITERS_FIRST) {
        unsigned in_chunk = (count - WAITERS_FIRST - 1) % WAITERS_CHUNK + 1;
        struct waiter_chunk *next = chunk->next;

        for (unsigned i = 0; i < in_chunk; i++) {
            waiter_end(&chunk->waiters[i]);
        }
        count -= in_chunk;
        vl_kfree(chunk);
        chunk = next;
    }
    for (unsigned i = 0; i < count; i++) {
        waiter_end(&wait->first[i]);
    }
}

/* A free waiter, or NULL. */
static struct poll_waiter *waiter_take(struct poll_wait *wait)
{
    unsigned at = wait->count;

    if (at < WAITERS_FIRST) {
        wait->count++;
        return &wait->first[at];
    }
    at = (at - WAITERS_FIRST) % WAITERS_CHUNK;
    if (at == 0) {
        struct waiter_chunk *chunk = vl_kmalloc(sizeof(*chunk), VL_WAIT);

        if (chunk == NULL) {
            return NULL;
        }
        chunk->next = wait->chunks;
        wait->chunks = chunk;
    }
    wait->count++;
    return &wait->chunks->waiters[at];
}

void poll_wait_on(struct poll_wait *wait, struct wait_queue *queue)
{
    struct poll_waiter *waiter;

    if (wait == NULL || !wait->is_queueing) {
        return;
    }
    waiter = waiter_take(wait);
    if (waiter == NULL) {
        wait->is_short = true;
        return;
    }
    file_get(wait->file); /* keeps the queue, should another thread close the descriptor */
    waiter->file = wait->file;
    waiter_init(&waiter->waiter);
    wait_prepare(queue, &waiter->waiter, WAIT_INTERRUPTIBLE);
}

/* Before another look: what wakes from now on must not be missed. */
static void poll_wait_again(struct poll_wait *wait)
{
    wait->is_queueing = false;
    if (wait->count != 0) {
        struct waiter *first = &wait->first[0].waiter;

        wait_prepare(first->queue, first, WAIT_INTERRUPTIBLE);
    }
}

unsigned file_poll(struct file *file, struct poll_wait *wait)
{
    if (file->ops == NULL || file->ops->poll == NULL) {
        return POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM;
    }
    if (wait != NULL) {
        wait->file = file;
    }
    return file->ops->poll(file, wait);
}

/* Sleep until woken or @deadline_ns. Returns: as wait_sleep(). */
static enum vl_status poll_sleep(struct poll_wait *wait, uint64_t deadline_ns)
{
    uint64_t look_again = clock_ns() + 10000000u;

    if (wait->count == 0 || wait->is_short) {
        uint64_t until = wait->is_short && look_again < deadline_ns ? look_again : deadline_ns;

        if (until == WAIT_FOREVER) {
            struct wait_queue nobody;
            struct waiter waiter;
            enum vl_status status;

            wait_queue_init(&nobody);
            waiter_init(&waiter);
            wait_prepare(&nobody, &waiter, WAIT_INTERRUPTIBLE);
            status = wait_sleep(WAIT_FOREVER);
            wait_finish(&waiter);
            return status;
        }
        if (sleep_until_ns(until, WAIT_INTERRUPTIBLE) == VL_EINTR) {
            return VL_EINTR;
        }
        return until == deadline_ns ? VL_ETIMEDOUT : VL_OK;
    }
    return wait_sleep(deadline_ns);
}

long poll_loop(poll_look_fn *look, void *arg, uint64_t deadline_ns)
{
    struct poll_wait wait;
    bool is_over = false;
    long ready;

    poll_wait_begin(&wait);
    if (deadline_ns == 0) {
        wait.is_queueing = false;
    }
    for (;;) {
        enum vl_status status;

        ready = look(arg, &wait);
        if (ready != 0 || is_over || deadline_ns == 0) {
            break;
        }
        status = poll_sleep(&wait, deadline_ns);
        if (status == VL_EINTR) {
            ready = -EINTR;
            break;
        }
        is_over = status == VL_ETIMEDOUT;
        poll_wait_again(&wait);
    }
    poll_wait_end(&wait);
    return ready;
}

/* ----------------------------------------------------------------------------------- poll */

struct pollfd {
    int32_t fd;
    uint16_t events;
    uint16_t revents;
};

struct poll_set {
    struct pollfd *fds;
    unsigned count;
};

static long poll_look(void *arg, struct poll_wait *wait)
{
    struct poll_set *set = arg;
    long ready = 0;

    for (unsigned i = 0; i < set->count; i++) {
        struct pollfd *want = &set->fds[i];
        struct fd_ref ref;
        unsigned events = POLLNVAL;

        want->revents = 0;
        if (want->fd < 0) {
            continue;
        }
        if (fd_ref_get(want->fd, FD_NORMAL, &ref)) {
            events = file_poll(ref.file, wait) & (want->events | POLLERR | POLLHUP);
            fd_ref_put(&ref);
        }
        if (events != 0) {
            want->revents = (uint16_t)events;
            ready++;
            wait->is_queueing = false;
        }
    }
    return ready;
}

static long do_poll(uint64_t user, unsigned count, uint64_t deadline_ns)
{
    struct pollfd first[POLL_FILES];
    struct poll_set set = {first, count};
    long result = 0;

    if (count > rlimit_soft(RLIMIT_NOFILE)) {
        return -EINVAL;
    }
    if (count > POLL_FILES) {
        set.fds = vl_kmalloc(count * sizeof(*set.fds), VL_WAIT);
        if (set.fds == NULL) {
            return -ENOMEM;
        }
    }
    if (copy_from_user(set.fds, user, count * sizeof(*set.fds)) != VL_OK) {
        result = -EFAULT;
    }
    if (result == 0) {
        result = poll_loop(poll_look, &set, deadline_ns);
    }
    /* Only revents is written back, as on Linux. */
    for (unsigned i = 0; result >= 0 && i < count; i++) {
        if (copy_to_user(user + i * sizeof(struct pollfd) + 6, &set.fds[i].revents, 2) != VL_OK) {
            result = -EFAULT;
        }
    }
    if (set.fds != first) {
        vl_kfree(set.fds);
    }
    return result;
}

/* Deadline on clock_ns() of an interval from now. */
static uint64_t deadline_after(uint64_t s, uint64_t ns)
{
    uint64_t now = clock_ns();

    if (s == 0 && ns == 0) {
        return 0;
    }
    return s >= (UINT64_MAX - now) / NS_PER_S - 1 ? WAIT_FOREVER : now + s * NS_PER_S + ns;
}

/* restart_syscall's work after a stop: the deadline stays what it was. */
static long poll_restart(struct task *task)
{
    long result =
        do_poll(task->restart_arg[0], (unsigned)task->restart_arg[1], task->restart_arg[2]);

    return result == -EINTR ? -ERESTARTBLOCK : result;
}

SYSCALL(poll)
{
    int32_t timeout_ms = (int32_t)c;
    uint64_t ms = (uint64_t)(timeout_ms < 0 ? 0 : timeout_ms);
    uint64_t deadline =
        timeout_ms < 0 ? WAIT_FOREVER : deadline_after(ms / 1000, ms % 1000 * 1000000u);
    long result = do_poll((uint64_t)a, (unsigned)b, deadline);

    if (result == -EINTR) {
        struct task *task = current_task();

        task->restart = poll_restart;
        task->restart_arg[0] = (uint64_t)a;
        task->restart_arg[1] = (uint64_t)b;
        task->restart_arg[2] = deadline;
        return -ERESTARTBLOCK;
    }
    return result;
}

/* A struct timespec that may be missing. 0 or an errno. */
static long timeout_import(uint64_t user, uint64_t unit_ns, uint64_t *out_deadline)
{
    uint64_t time[2];

    *out_deadline = WAIT_FOREVER;
    if (user == 0) {
        return 0;
    }
    if (copy_from_user(time, user, sizeof(time)) != VL_OK) {
        return -EFAULT;
    }
    if (unit_ns == 1000) { /* struct timeval: Linux carries whole seconds over */
        if ((int64_t)time[0] < 0 || (int64_t)time[1] < 0) {
            return -EINVAL;
        }
        time[0] += time[1] / 1000000;
        time[1] = time[1] % 1000000 * 1000;
    } else if ((int64_t)time[0] < 0 || time[1] >= NS_PER_S) {
        return -EINVAL;
    }
    *out_deadline = deadline_after(time[0], time[1]);
    return 0;
}

/* What is left of the time goes back to the user; that he cannot be told is no error. */
static void timeout_export(uint64_t user, uint64_t unit_ns, uint64_t deadline)
{
    uint64_t now = clock_ns();
    uint64_t left = deadline > now ? deadline - now : 0;
    uint64_t time[2] = {left / NS_PER_S, left % NS_PER_S / unit_ns};

    if (user != 0 && deadline != WAIT_FOREVER && copy_to_user(user, time, sizeof(time)) != VL_OK) {
        return;
    }
}

/* The mask of ppoll and pselect. @user_mask may be 0. 0 or an errno. */
static long mask_begin(uint64_t user_mask, uint64_t size)
{
    signal_set mask;

    if (user_mask == 0) {
        return 0;
    }
    if (size != sizeof(mask)) {
        return -EINVAL;
    }
    if (copy_from_user(&mask, user_mask, sizeof(mask)) != VL_OK) {
        return -EFAULT;
    }
    signal_mask_for_call(mask);
    return 0;
}

/* The end of a call with a mask: a signal that ended it is delivered under the mask. */
static long mask_end(uint64_t user_mask, long result)
{
    if (result == -EINTR) {
        return -ERESTARTNOHAND;
    }
    if (user_mask != 0) {
        signal_mask_restore();
    }
    return result;
}

SYSCALL(ppoll)
{
    uint64_t deadline;
    long result = timeout_import((uint64_t)c, 1, &deadline);

    if (result == 0) {
        result = mask_begin((uint64_t)d, (uint64_t)e);
    }
    if (result != 0) {
        return result;
    }
    result = mask_end((uint64_t)d, do_poll((uint64_t)a, (unsigned)b, deadline));
    timeout_export((uint64_t)c, 1, deadline);
    return result;
}

/* --------------------------------------------------------------------------------- select */

#define SELECT_WORDS 16u /* 1024 descriptors on the stack; more are allocated */

struct select_set {
    uint64_t *want[3]; /* read, write, except */
    uint64_t *have[3];
    unsigned count;
};

#define SELECT_IN  (POLLRDNORM | POLLRDBAND | POLLIN | POLLHUP | POLLERR)
#define SELECT_OUT (POLLWRBAND | POLLWRNORM | POLLOUT | POLLERR)
#define SELECT_EX  POLLPRI

/* One descriptor. Returns: how many of its bits are set; -EBADF. */
static long select_one(struct select_set *set, unsigned fd, struct poll_wait *wait)
{
    static const unsigned masks[3] = {SELECT_IN, SELECT_OUT, SELECT_EX};
    uint64_t bit = (uint64_t)1 << fd % 64;
    unsigned word = fd / 64;
    struct fd_ref ref;
    unsigned events;
    long ready = 0;

    if (((set->want[0][word] | set->want[1][word] | set->want[2][word]) & bit) == 0) {
        return 0;
    }
    if (!fd_ref_get((int)fd, FD_NORMAL, &ref)) {
        return -EBADF;
    }
    events = file_poll(ref.file, wait);
    fd_ref_put(&ref);
    for (unsigned i = 0; i < 3; i++) {
        if ((set->want[i][word] & bit) != 0 && (events & masks[i]) != 0) {
            set->have[i][word] |= bit;
            ready++;
        }
    }
    return ready;
}

static long select_look(void *arg, struct poll_wait *wait)
{
    struct select_set *set = arg;
    long ready = 0;

    for (unsigned fd = 0; fd < set->count; fd++) {
        long one = select_one(set, fd, wait);

        if (one < 0) {
            return one;
        }
        if (one != 0) {
            ready += one;
            wait->is_queueing = false;
        }
    }
    return ready;
}

/* Import the three sets, loop, export them. @words: six bit maps of that many words are at @maps.
 */
static long select_maps(unsigned count, const uint64_t *user, uint64_t *maps, unsigned words,
                        uint64_t deadline)
{
    size_t bytes = (count + 7) / 8;
    struct select_set set = {{0}, {0}, count};
    long result;

    memset(maps, 0, words * 6 * sizeof(*maps));
    for (unsigned i = 0; i < 3; i++) {
        set.want[i] = maps + i * words;
        set.have[i] = maps + (i + 3) * words;
        if (user[i] != 0 && copy_from_user(set.want[i], user[i], bytes) != VL_OK) {
            return -EFAULT;
        }
    }
    result = poll_loop(select_look, &set, deadline);
    for (unsigned i = 0; result >= 0 && i < 3; i++) {
        if (user[i] != 0 && copy_to_user(user[i], set.have[i], bytes) != VL_OK) {
            result = -EFAULT;
        }
    }
    return result;
}

static long do_select(int wanted, const uint64_t *user, uint64_t deadline)
{
    uint64_t first[SELECT_WORDS * 6];
    uint64_t *maps = first;
    unsigned capacity = files_capacity(current_files());
    unsigned count = (unsigned)wanted < capacity ? (unsigned)wanted : capacity;
    unsigned words = (count + 63) / 64;
    long result;

    if (wanted < 0) {
        return -EINVAL;
    }
    if (words > SELECT_WORDS) {
        maps = vl_kmalloc(words * 6 * sizeof(*maps), VL_WAIT);
        if (maps == NULL) {
            return -ENOMEM;
        }
    }
    result = select_maps(count, user, maps, words, deadline);
    if (maps != first) {
        vl_kfree(maps);
    }
    return result;
}

SYSCALL(select)
{
    uint64_t user[3] = {(uint64_t)b, (uint64_t)c, (uint64_t)d};
    uint64_t deadline;
    long result = timeout_import((uint64_t)e, 1000, &deadline);

    if (result != 0) {
        return result;
    }
    result = do_select((int)a, user, deadline);
    timeout_export((uint64_t)e, 1000, deadline);
    return result == -EINTR ? -ERESTARTNOHAND : result;
}

SYSCALL(pselect6)
{
    uint64_t user[3] = {(uint64_t)b, (uint64_t)c, (uint64_t)d};
    uint64_t mask[2] = {0, 0};
    uint64_t deadline;
    long result = timeout_import((uint64_t)e, 1, &deadline);

    if (result == 0 && f != 0 && copy_from_user(mask, (uint64_t)f, sizeof(mask)) != VL_OK) {
        result = -EFAULT;
    }
    if (result == 0) {
        result = mask_begin(mask[0], mask[1]);
    }
    if (result != 0) {
        return result;
    }
    result = mask_end(mask[0], do_select((int)a, user, deadline));
    timeout_export((uint64_t)e, 1, deadline);
    return result;
}
