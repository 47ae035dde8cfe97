/*
 * futex_robust.c - robust futexes: the words that a thread holds when it ends are marked, and who
 * waits for one of them is woken.
 *
 * The list of them lies in the user's memory and may be anything: the walk has a limit.
 */
#include "kernel/proc/internal.h"

#define FUTEX_WAITERS     0x80000000u
#define FUTEX_OWNER_DIED  0x40000000u
#define FUTEX_TID_MASK    0x3fffffffu
#define ROBUST_LIST_LIMIT 2048u

/* The owner of the futex at @word died: mark it, wake one waiter. Returns: false on a fault. */
static bool robust_release(uint64_t word, uint32_t tid)
{
    uint32_t value;
    uint32_t found;

    if (word % sizeof(value) != 0 || get_user32(&value, word) != VL_OK) {
        return false;
    }
    for (;;) {
        if ((value & FUTEX_TID_MASK) != tid) {
            return true;
        }
        found = value;
        if (user_cmpxchg32(word, &found, (value & FUTEX_WAITERS) | FUTEX_OWNER_DIED) != VL_OK) {
            return false;
        }
        if (found == value) {
            break;
        }
        value = found;
    }
    if ((value & FUTEX_WAITERS) != 0) {
        futex_wake_word(word, 1);
    }
    return true;
}

/* struct robust_list_head: first entry, distance from an entry to its futex word, an entry that
 * was being taken or given back. Bit 0 of a pointer marks a priority-inheriting futex. */
void futex_robust_exit(struct task *task)
{
    uint64_t head = task->robust_list;
    uint64_t entry;
    uint64_t next;
    uint64_t offset;
    uint64_t pending;
    unsigned left = ROBUST_LIST_LIMIT;

    if (get_user64(&entry, head) != VL_OK || get_user64(&offset, head + 8) != VL_OK ||
        get_user64(&pending, head + 16) != VL_OK) {
        return;
    }
    while ((entry & ~(uint64_t)1) != head && left-- != 0) {
        /* The next one first: the futex may be gone once it is released. */
        bool ended = get_user64(&next, entry & ~(uint64_t)1) != VL_OK;

        if (entry != pending && !robust_release((entry & ~(uint64_t)1) + offset, task->tid)) {
            return;
        }
        if (ended) {
            return;
        }
        entry = next;
    }
    if (pending != 0) {
        (void)robust_release((pending & ~(uint64_t)1) + offset, task->tid);
    }
}

SYSCALL(set_robust_list)
{
    if ((size_t)b != 24) {
        return -EINVAL;
    }
    current_task()->robust_list = (uint64_t)a;
    return 0;
}

SYSCALL(get_robust_list)
{
    struct task *task = current_task();
    uint64_t head = task->robust_list;
    unsigned long flags;

    if ((uint32_t)a != 0 && (uint32_t)a != task->tid) {
        flags = proc_lock();
        task = tid_find((uint32_t)a);
        head = task != NULL ? task->robust_list : 0;
        proc_unlock(flags);
        if (task == NULL) {
            return -ESRCH;
        }
    }
    if (put_user64((uint64_t)c, 24) != VL_OK || put_user64((uint64_t)b, head) != VL_OK) {
        return -EFAULT;
    }
    return 0;
}
