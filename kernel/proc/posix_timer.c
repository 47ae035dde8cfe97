/*
 * posix_timer.c - timer_create and its kin: any number of timers a process, each with its signal.
 *
 * A timer that expires posts its signal if the last one of it has been taken; while that is still
 * pending, the expiry is added to the overruns that it tells.
 *
 * Clocks: the realtime, monotonic and boot-time ones run on the monotonic clock; CPU-time clocks
 * are refused (EOPNOTSUPP).
 *
 * Lock: the process's signal_lock, for its list and all fields; a timer that runs holds a reference
 * by timer_cancel()'s waiting. Not inherited by fork; ended by exec and exit.
 */
#include "kernel/proc/internal.h"
#include "kernel/proc/posix_timer.h"
#include "kernel/sched/timer.h"

#define TIMERS_MAX    1024u
#define TIMER_ABSTIME 1
#define DELAY_MAX     0x7fffffff

#define SIGEV_SIGNAL    0
#define SIGEV_NONE      1
#define SIGEV_THREAD    2
#define SIGEV_THREAD_ID 4
#define SI_TIMER        (-2)

/* struct sigevent of Linux's user interface, as far as it is looked at. */
struct sigevent_user {
    uint64_t value;
    int32_t signo;
    int32_t notify;
    int32_t tid;
    int32_t pad[11];
};
_Static_assert(sizeof(struct sigevent_user) == 64, "sigevent");

struct timespec_user {
    int64_t sec, nsec;
};
struct itimerspec_user {
    struct timespec_user interval, value;
};

struct posix_timer {
    struct posix_timer *next; /* (S) */
    struct process *process;
    struct timer timer;
    int32_t id, clock, signo, notify, tid;
    uint64_t value;
    uint64_t expires_ns, interval_ns; /* (S) 0: not armed */
    int32_t last_overrun;             /* (S) */
};

static int32_t overrun_capped(uint64_t count)
{
    return count > DELAY_MAX ? DELAY_MAX : (int32_t)count;
}

/* Expiries up to now. (S) held. Returns: how many. */
static uint64_t timer_advance(struct posix_timer *timer, uint64_t now)
{
    uint64_t passed = 1;

    if (timer->interval_ns == 0) {
        timer->expires_ns = 0;
        return passed;
    }
    passed = (now - timer->expires_ns) / timer->interval_ns + 1;
    timer->expires_ns += passed * timer->interval_ns;
    timer_arm(&timer->timer, timer->expires_ns);
    return passed;
}

/* The signal that was posted and not yet taken, or NULL. (S) held. */
static struct signal_node *pending_node(const struct posix_timer *timer, struct task *task)
{
    struct vli_list *queue = task != NULL ? &task->pending.queue : &timer->process->pending.queue;
    struct vli_list *pos;

    vli_list_each (pos, queue) {
        struct signal_node *node = vli_list_entry(pos, struct signal_node, link);

        if (node->info.code == SI_TIMER && node->info.u.sender.pid == timer->id) {
            return node;
        }
    }
    return NULL;
}

/* The thread that the timer's signal goes to, or NULL for the process. (S) held. */
static struct task *timer_task(const struct posix_timer *timer)
{
    struct vli_list *pos;

    vli_list_each (pos, &timer->process->tasks) {
        struct task *task = vli_list_entry(pos, struct task, link);

        if (timer->notify == SIGEV_THREAD_ID && task->tid == (uint32_t)timer->tid) {
            return task;
        }
    }
    return NULL;
}

/* From the timer's interrupt. */
static void posix_timer_run(struct timer *timer)
{
    struct posix_timer *own = vli_container_of(timer, struct posix_timer, timer);
    struct signal_node *node = signal_node_alloc();
    struct signal_info info = {.signo = own->signo, .code = SI_TIMER};
    unsigned long flags = signal_lock(own->process);
    struct task *task = timer_task(own);
    uint64_t now = clock_ns();

    if (own->expires_ns != 0 && own->expires_ns <= now) {
        uint64_t passed = timer_advance(own, now);
        struct signal_node *pending = pending_node(own, task);

        if (pending != NULL) {
            own->last_overrun = overrun_capped((uint64_t)own->last_overrun + passed);
            pending->info.u.sender.uid = (uint32_t)own->last_overrun;
        } else if (own->notify != SIGEV_NONE && (own->notify != SIGEV_THREAD_ID || task != NULL)) {
            own->last_overrun = overrun_capped(passed - 1);
            info.u.sender.pid = own->id; /* si_timerid, si_overrun stand in these places */
            info.u.sender.uid = (uint32_t)own->last_overrun;
            info.u.sender.value = own->value;
            if (signal_post_locked(own->process, task, &info, node)) {
                node = NULL;
            }
        }
    }
    signal_unlock(own->process, flags);
    if (node != NULL) {
        signal_node_free(node);
    }
}

/* (S) held. */
static struct posix_timer *timer_find(struct process *process, int32_t id)
{
    struct posix_timer *timer = process->posix_timers;

    while (timer != NULL && timer->id != id) {
        timer = timer->next;
    }
    return timer;
}

static long event_read(uint64_t user, struct posix_timer *timer)
{
    struct sigevent_user event = {.signo = SIGALRM, .notify = SIGEV_SIGNAL};

    event.value = (uint64_t)(uint32_t)timer->id;
    if (user != 0 && copy_from_user(&event, user, sizeof(event)) != VL_OK) {
        return -EFAULT;
    }
    if (event.notify != SIGEV_SIGNAL && event.notify != SIGEV_NONE &&
        event.notify != SIGEV_THREAD && event.notify != (SIGEV_SIGNAL | SIGEV_THREAD_ID)) {
        return -EINVAL;
    }
    if (event.notify != SIGEV_NONE && (event.signo < 1 || event.signo > 64)) {
        return -EINVAL;
    }
    timer->value = event.value;
    timer->signo = event.signo;
    timer->notify = event.notify;
    timer->tid = event.tid;
    return 0;
}

/* Link the timer under the lowest free number. (S) held. Returns: false: too many. */
static bool timer_link(struct process *process, struct posix_timer *timer)
{
    struct posix_timer **at = &process->posix_timers;
    int32_t id = 0;

    while (*at != NULL && (*at)->id == id) {
        id++;
        at = &(*at)->next;
    }
    timer->id = id;
    timer->next = *at;
    *at = timer;
    return id < (int32_t)TIMERS_MAX;
}

static void timer_unlink(struct process *process, const struct posix_timer *timer)
{
    struct posix_timer **at = &process->posix_timers;

    while (*at != timer) {
        at = &(*at)->next;
    }
    *at = timer->next;
}

static void timer_free(struct posix_timer *timer)
{
    (void)timer_cancel(&timer->timer);
    vl_kfree(timer);
}

static bool clock_is_known(int32_t id)
{
    return id == 0 || id == 1 || id == 7; /* REALTIME, MONOTONIC, BOOTTIME */
}

SYSCALL(timer_create)
{
    struct process *process = current_process();
    struct posix_timer *timer;
    unsigned long flags;
    bool linked;
    long result;

    if (!clock_is_known((int32_t)a)) {
        return (int32_t)a == 2 || (int32_t)a == 3 ? -EOPNOTSUPP : -EINVAL;
    }
    timer = vl_kmalloc(sizeof(*timer), VL_WAIT | VL_ZEROED);
    if (timer == NULL) {
        return -EAGAIN;
    }
    timer->process = process;
    timer->clock = (int32_t)a;
    timer_init(&timer->timer, posix_timer_run);
    flags = signal_lock(process);
    linked = timer_link(process, timer);
    signal_unlock(process, flags);
    result = event_read((uint64_t)b, timer);
    if (result == 0 && !linked) {
        result = -EAGAIN;
    }
    if (result == 0) {
        result = (long)put_user32((uint64_t)c, (uint32_t)timer->id);
    }
    if (result != 0) {
        flags = signal_lock(process);
        timer_unlink(process, timer);
        signal_unlock(process, flags);
        timer_free(timer);
    }
    return result;
}

/* ------------------------------------------------------------------------ set, get, delete */

static bool timespec_ns(const struct timespec_user *in, uint64_t *out)
{
    if (in->sec < 0 || in->nsec < 0 || in->nsec >= (int64_t)NS_PER_SECOND) {
        return false;
    }
    *out = (uint64_t)in->sec > UINT64_MAX / 2 / NS_PER_SECOND
               ? UINT64_MAX / 2
               : (uint64_t)in->sec * NS_PER_SECOND + (uint64_t)in->nsec;
    return true;
}

/* (S) held. */
static void timer_left(const struct posix_timer *timer, struct itimerspec_user *out)
{
    uint64_t now = clock_ns();
    uint64_t left = 0;

    if (timer->expires_ns != 0) {
        left = timer->expires_ns > now ? timer->expires_ns - now : 1;
    }
    out->interval = (struct timespec_user){(int64_t)(timer->interval_ns / NS_PER_SECOND),
                                           (int64_t)(timer->interval_ns % NS_PER_SECOND)};
    out->value =
        (struct timespec_user){(int64_t)(left / NS_PER_SECOND), (int64_t)(left % NS_PER_SECOND)};
}

/* When a setting means, on clock_ns(). */
static uint64_t expiry(const struct posix_timer *timer, uint64_t ns, bool absolute)
{
    uint64_t now = clock_ns();

    if (absolute && timer->clock == 0) {
        uint64_t real = clock_realtime_ns();

        ns = ns > real ? ns - real : 0;
        absolute = false;
    }
    if (absolute) {
        return ns > now ? ns : now;
    }
    return ns > UINT64_MAX - now ? UINT64_MAX : now + ns;
}

SYSCALL(timer_settime)
{
    struct process *process = current_process();
    struct itimerspec_user in;
    struct itimerspec_user old;
    struct posix_timer *timer;
    uint64_t value;
    uint64_t interval;
    unsigned long flags;

    if (c == 0) {
        return -EINVAL;
    }
    if (copy_from_user(&in, (uint64_t)c, sizeof(in)) != VL_OK) {
        return -EFAULT;
    }
    if (!timespec_ns(&in.value, &value) || !timespec_ns(&in.interval, &interval)) {
        return -EINVAL;
    }
    flags = signal_lock(process);
    timer = timer_find(process, (int32_t)a);
    if (timer != NULL) {
        timer_left(timer, &old);
        (void)timer_try_cancel(&timer->timer); /* one that runs waits for the lock, finds no time */
        timer->last_overrun = 0;
        timer->interval_ns = interval;
        timer->expires_ns = 0;
        if (value != 0) {
            timer->expires_ns = expiry(timer, value, ((int)b & TIMER_ABSTIME) != 0);
            timer_arm(&timer->timer, timer->expires_ns);
        }
    }
    signal_unlock(process, flags);
    if (timer == NULL) {
        return -EINVAL;
    }
    return d != 0 ? (long)copy_to_user((uint64_t)d, &old, sizeof(old)) : 0;
}

SYSCALL(timer_gettime)
{
    struct process *process = current_process();
    struct itimerspec_user out;
    unsigned long flags = signal_lock(process);
    struct posix_timer *timer = timer_find(process, (int32_t)a);

    if (timer != NULL) {
        timer_left(timer, &out);
    }
    signal_unlock(process, flags);
    return timer == NULL ? -EINVAL : (long)copy_to_user((uint64_t)b, &out, sizeof(out));
}

SYSCALL(timer_getoverrun)
{
    struct process *process = current_process();
    unsigned long flags = signal_lock(process);
    struct posix_timer *timer = timer_find(process, (int32_t)a);
    long result = timer != NULL ? timer->last_overrun : -EINVAL;

    signal_unlock(process, flags);
    return result;
}

SYSCALL(timer_delete)
{
    struct process *process = current_process();
    unsigned long flags = signal_lock(process);
    struct posix_timer *timer = timer_find(process, (int32_t)a);

    if (timer != NULL) {
        timer->expires_ns = 0;
        timer_unlink(process, timer);
    }
    signal_unlock(process, flags);
    if (timer == NULL) {
        return -EINVAL;
    }
    timer_free(timer);
    return 0;
}

void posix_timers_end(struct process *process)
{
    struct posix_timer *timer;
    unsigned long flags;

    if (process->posix_timers == NULL) {
        return;
    }
    do {
        flags = signal_lock(process);
        timer = process->posix_timers;
        if (timer != NULL) {
            timer->expires_ns = 0;
            process->posix_timers = timer->next;
        }
        signal_unlock(process, flags);
        if (timer != NULL) {
            timer_free(timer);
        }
    } while (timer != NULL);
}
