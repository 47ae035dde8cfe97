/*
 * semctl.c - reading, setting and removing sets of semaphores.
 */
#include <vellum/vellum.h>
#include "kernel/cpu/uaccess.h"
#include "kernel/ipc/sem.h"
#include "kernel/lib/mem.h"
#include "kernel/proc/syscall.h"
#include "kernel/proc/syscall_list.h"

#define GETPID       11
#define GETVAL       12
#define GETALL       13
#define GETNCNT      14
#define GETZCNT      15
#define SETVAL       16
#define SETALL       17
#define SEM_STAT     18
#define SEM_INFO     19
#define SEM_STAT_ANY 20

/* struct semid64_ds of Linux's user interface. */
struct set_user {
    struct ipc_perm_user perm;
    int64_t operated;
    uint64_t unused1;
    int64_t changed;
    uint64_t unused2;
    uint64_t count, unused[2];
};
_Static_assert(sizeof(struct set_user) == 104, "as Linux has it");

/* IPC_INFO and SEM_INFO. */
static long sem_info(int command, uint64_t user)
{
    int32_t info[10] = {(int32_t)(IPC_SLOTS * SEM_PER_SET_MAX),
                        (int32_t)IPC_SLOTS,
                        (int32_t)(IPC_SLOTS * SEM_PER_SET_MAX),
                        (int32_t)(IPC_SLOTS * SEM_PER_SET_MAX),
                        (int32_t)SEM_PER_SET_MAX,
                        (int32_t)SEM_OPERATIONS_MAX,
                        (int32_t)SEM_OPERATIONS_MAX,
                        20,
                        SEM_VALUE_MAX,
                        SEM_VALUE_MAX};

    if (command == SEM_INFO) {
        int32_t sems = 0;

        for (uint32_t slot = 0; slot < IPC_SLOTS; slot++) {
            struct ipc_entry *entry = ipc_get_slot(&sem_sets, slot);

            if (entry != NULL) {
                sems += (int32_t)vli_container_of(entry, struct sem_set, entry)->count;
                ipc_put(&sem_sets, entry);
            }
        }
        info[7] = (int32_t)sem_sets.used;
        info[9] = sems;
    }
    return copy_to_user(user, info, sizeof(info)) == VL_OK ? (long)ipc_highest(&sem_sets) : -EFAULT;
}

static long set_stat(struct sem_set *set, int command, uint64_t user)
{
    struct set_user out;

    if (command != SEM_STAT_ANY && ipc_may(&set->entry, IPC_READ) != 0) {
        return -EACCES;
    }
    memset(&out, 0, sizeof(out));
    mutex_lock(&set->mutex);
    ipc_perm_out(&set->entry, &out.perm);
    out.operated = set->operated;
    out.changed = set->changed;
    out.count = set->count;
    mutex_unlock(&set->mutex);
    if (copy_to_user(user, &out, sizeof(out)) != VL_OK) {
        return -EFAULT;
    }
    return command == IPC_STAT ? 0 : (long)set->entry.id;
}

static long set_own(struct sem_set *set, int command, uint64_t user)
{
    struct set_user in;
    long result = ipc_owns(&set->entry);

    if (result != 0) {
        return result;
    }
    if (command == IPC_SET && copy_from_user(&in, user, sizeof(in)) != VL_OK) {
        return -EFAULT;
    }
    mutex_lock(&set->mutex);
    if (command == IPC_SET) {
        ipc_perm_in(&set->entry, &in.perm);
        set->changed = ipc_seconds();
    }
    mutex_unlock(&set->mutex);
    if (command == IPC_RMID) {
        ipc_remove(&sem_sets, &set->entry);
        /* Sleepers look at the mark under the mutex: none may have looked before it was set. */
        mutex_lock(&set->mutex);
        mutex_unlock(&set->mutex);
        wake_all(&set->changed_queue);
    }
    return 0;
}

static long value_get(struct sem_set *set, uint32_t number, int command)
{
    const struct semaphore *sem = &set->sem[number];
    long result;

    if (ipc_may(&set->entry, IPC_READ) != 0) {
        return -EACCES;
    }
    mutex_lock(&set->mutex);
    result = set->entry.is_removed ? -EIDRM
             : command == GETPID   ? (long)sem->pid
             : command == GETVAL   ? (long)sem->value
             : command == GETNCNT  ? (long)sem->up_waiters
                                   : (long)sem->zero_waiters;
    mutex_unlock(&set->mutex);
    return result;
}

/* SETVAL and SETALL come to this. */
static long values_set(struct sem_set *set, uint32_t first, uint32_t count, const uint16_t *value)
{
    for (uint32_t i = 0; i < count; i++) {
        if (value[i] > SEM_VALUE_MAX) {
            return -ERANGE;
        }
    }
    mutex_lock(&set->mutex);
    if (set->entry.is_removed) {
        mutex_unlock(&set->mutex);
        return -EIDRM;
    }
    sem_undo_forget(set, first, count);
    for (uint32_t i = 0; i < count; i++) {
        set->sem[first + i].value = value[i];
        set->sem[first + i].pid = current_process()->pid;
    }
    set->changed = ipc_seconds();
    mutex_unlock(&set->mutex);
    wake_all(&set->changed_queue);
    return 0;
}

static long all(struct sem_set *set, int command, uint64_t user)
{
    size_t bytes = set->count * sizeof(uint16_t);
    uint16_t *value;
    long result = ipc_may(&set->entry, command == SETALL ? IPC_WRITE : IPC_READ);

    if (result != 0) {
        return result;
    }
    value = vl_kmalloc(bytes, VL_WAIT);
    if (value == NULL) {
        return -ENOMEM;
    }
    if (command == GETALL) {
        mutex_lock(&set->mutex);
        for (uint32_t i = 0; i < set->count; i++) {
            value[i] = (uint16_t)set->sem[i].value;
        }
        mutex_unlock(&set->mutex);
        result = copy_to_user(user, value, bytes) == VL_OK ? 0 : -EFAULT;
    } else if (copy_from_user(value, user, bytes) != VL_OK) {
        result = -EFAULT;
    } else {
        result = values_set(set, 0, set->count, value);
    }
    vl_kfree(value);
    return result;
}

static long one(struct sem_set *set, uint32_t number, int command, uint64_t argument)
{
    uint16_t value;

    if (number >= set->count) {
        return -EINVAL;
    }
    if (command != SETVAL) {
        return value_get(set, number, command);
    }
    if ((int32_t)argument < 0 || (int32_t)argument > SEM_VALUE_MAX) {
        return -ERANGE;
    }
    if (ipc_may(&set->entry, IPC_WRITE) != 0) {
        return -EACCES;
    }
    value = (uint16_t)argument;
    return values_set(set, number, 1, &value);
}

static long control(struct sem_set *set, uint32_t number, int command, uint64_t argument)
{
    switch (command) {
    case IPC_STAT:
    case SEM_STAT:
    case SEM_STAT_ANY:
        return set_stat(set, command, argument);
    case IPC_SET:
    case IPC_RMID:
        return set_own(set, command, argument);
    case GETALL:
    case SETALL:
        return all(set, command, argument);
    case GETPID:
    case GETVAL:
    case GETNCNT:
    case GETZCNT:
    case SETVAL:
        return one(set, number, command, argument);
    default:
        return -EINVAL;
    }
}

SYSCALL(semctl)
{
    int command = (int)c;
    bool by_slot = command == SEM_STAT || command == SEM_STAT_ANY;
    struct ipc_entry *entry;
    long result;

    if ((int)a < 0) {
        return -EINVAL;
    }
    if (command == IPC_INFO || command == SEM_INFO) {
        return sem_info(command, (uint64_t)d);
    }
    entry = by_slot ? ipc_get_slot(&sem_sets, (uint32_t)a) : ipc_get(&sem_sets, (uint32_t)a);
    if (entry == NULL) {
        return -EINVAL;
    }
    result =
        control(vli_container_of(entry, struct sem_set, entry), (uint32_t)b, command, (uint64_t)d);
    ipc_put(&sem_sets, entry);
    return result;
}
