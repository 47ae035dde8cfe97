/*
 * oom.c - out of memory: the process with the most resident memory is killed, as adjusted by
 * /proc/PID/oom_score_adj.
 *
 * A thread that finds no frame asks here, with no lock of the core held. One victim at a time: as
 * long as one is dying, all who ask wait for it, a bounded time each. Process 1 is never chosen. A
 * victim's threads may use the reserve to exit (VL_THREAD_KILLED), and one that asks itself is told
 * to go on without: its allocation fails, and it dies on its way to user mode.
 */
#include "kernel/proc/internal.h"

/* How long a victim may take before another is chosen, and how often who waits looks. */
#define VICTIM_NS     1000000000ull
#define WAIT_ROUND_NS 10000000ull

static struct mutex oom_mutex = MUTEX_INIT(oom_mutex); /* held to choose, never while waiting */
static _Atomic uint32_t victim_pid;                    /* the last one chosen, 0: none yet */
static _Atomic uint64_t victim_since_ns;

static uint64_t resident_pages(struct process *process)
{
    struct vl_space *space = process_space_get(process);
    struct vl_space_usage usage;

    if (space == NULL) {
        return 0;
    }
    vl_space_usage(space, &usage);
    vl_space_put(space);
    return usage.anonymous + usage.file + usage.tables;
}

int64_t process_badness(struct process *process)
{
    int32_t adjust = atomic_load_explicit(&process->oom_adjust, memory_order_relaxed);
    int64_t pages = (int64_t)resident_pages(process);
    struct vl_frame_counts counts;

    if (process == init_process || pages == 0 || adjust == -1000) {
        return 0;
    }
    if (adjust != 0) {
        vl_frame_counts(&counts);
        pages += adjust * (int64_t)counts.managed / 1000;
    }
    return pages > 0 ? pages : 1; /* the last to be chosen, but chosen */
}

/* The worst process, with a reference; NULL: there is none to kill. */
static struct process *victim_choose(uint64_t *out_pages)
{
    struct process *best = NULL;
    struct process *process = process_next(2);
    int64_t worst = 0;
    uint32_t pid;

    *out_pages = 0;
    while (process != NULL) {
        /* Who is dying already will not give more by being told again. */
        int64_t badness = process->group_exit != 0 ? 0 : process_badness(process);

        pid = process->pid;
        if (badness > worst) {
            if (best != NULL) {
                process_put(best);
            }
            best = process;
            worst = badness;
            *out_pages = resident_pages(process);
        } else {
            process_put(process);
        }
        process = process_next(pid + 1);
    }
    return best;
}

/* Who shares the space would keep it alive. */
static void kill_sharers(struct vl_space *space)
{
    struct process *process = process_next(2);
    unsigned long flags;
    uint32_t pid;

    while (process != NULL) {
        flags = signal_lock(process);
        if (process->space == space && process != init_process) {
            signal_kill_locked(process);
        }
        signal_unlock(process, flags);
        pid = process->pid;
        process_put(process);
        process = process_next(pid + 1);
    }
}

/* Returns: true when a victim was found. */
static bool victim_kill(void)
{
    uint64_t pages;
    struct process *victim = victim_choose(&pages);
    struct vl_space *space;

    if (victim == NULL) {
        return false;
    }
    atomic_store_explicit(&victim_since_ns, clock_ns(), memory_order_relaxed);
    atomic_store_explicit(&victim_pid, victim->pid, memory_order_release);
    printk(VL_LOG_WARNING, "Out of memory: killed process %u with %llu KiB resident", victim->pid,
           (unsigned long long)pages * (VL_PAGE_SIZE / 1024u));
    space = process_space_get(victim);
    if (space != NULL) {
        kill_sharers(space);
        vl_space_put(space);
    }
    process_put(victim);
    return true;
}

/* Is the last victim still giving its memory back, and in time? */
static bool victim_is_dying(void)
{
    uint32_t pid = atomic_load_explicit(&victim_pid, memory_order_acquire);
    struct process *victim = pid != 0 ? process_find(pid) : NULL;
    uint64_t since = atomic_load_explicit(&victim_since_ns, memory_order_relaxed);
    bool dying;

    if (victim == NULL) {
        return false;
    }
    dying =
        victim->group_exit != 0 && victim->state == PROCESS_ALIVE && clock_ns() - since < VICTIM_NS;
    process_put(victim);
    return dying;
}

/*
 * Everybody who runs out waits for the same victim beside the others, and none under the mutex: the
 * victim may be one of them, and must not stand in a queue.
 */
bool vl_host_out_of_memory(VLI_UNUSED uint64_t frames)
{
    bool found = true;

    if (current_process() == NULL || (current()->vl.flags & VL_THREAD_KILLED) != 0) {
        return false;
    }
    if (mutex_is_held_by_me(&oom_mutex)) {
        return false;
    }
    if (mutex_try_lock(&oom_mutex)) {
        found = victim_is_dying() || victim_kill();
        mutex_unlock(&oom_mutex);
    }
    do {
        (void)!sleep_until_ns(clock_ns() + WAIT_ROUND_NS, WAIT_UNINTERRUPTIBLE);
    } while ((current()->vl.flags & VL_THREAD_KILLED) == 0 && victim_is_dying());
    return found && (current()->vl.flags & VL_THREAD_KILLED) == 0;
}

/* Enough for each other process to be killed before, where memory is that short. */
#define TRIES_MAX 256u

bool memory_again(unsigned tries)
{
    struct vl_pfn frame;

    if (tries >= TRIES_MAX || thread_signal_pending(current())) {
        return false;
    }
    if (vl_frame_alloc(0, VL_WAIT, &frame) == VL_OK) {
        vl_frame_free(frame, 0); /* by now there is some again */
        return true;
    }
    return vl_host_out_of_memory(1);
}
