/*
 * sem.c - System V semaphores: sets of counters changed all at once or not at all.
 *
 * A call's operations are tried in order under the set's mutex; if one cannot be done, those before
 * it are taken back and the caller sleeps until the set changes. Every change wakes all sleepers,
 * who try again.
 *
 * SEM_UNDO: for each process and set an array of adjustments, linked into the process's list
 * (undo_mutex) and the set's (its mutex). A process's end adds them, cut to what a counter can
 * hold.
 *
 * Locks, outermost first: undo_mutex, a set's mutex.
 */
#include <vellum/vellum.h>
#include "kernel/cpu/uaccess.h"
#include "kernel/ipc/sem.h"
#include "kernel/lib/mem.h"
#include "kernel/proc/syscall.h"
#include "kernel/proc/syscall_list.h"
#include "kernel/sched/timer.h"

struct sem_undo {
    struct sem_undo *next; /* undo_mutex: the process's */
    struct vli_list link;  /* set's mutex: the set's */
    struct sem_set *set;   /* with a reference */
    int32_t adjust[];      /* set's mutex */
};

static struct mutex undo_mutex = MUTEX_INIT(undo_mutex);

static void set_free(struct ipc_entry *entry)
{
    vl_kfree(vli_container_of(entry, struct sem_set, entry));
}

struct ipc_table sem_sets = IPC_TABLE_INIT(sem_sets, set_free);

/* -------------------------------------------------------------------------------- semget */

static struct ipc_entry *set_create(const struct ipc_request *request, long *out_error)
{
    struct sem_set *set;

    if (request->size == 0) {
        *out_error = -EINVAL;
        return NULL;
    }
    set = vl_kmalloc(sizeof(*set) + request->size * sizeof(set->sem[0]), VL_WAIT | VL_ZEROED);
    if (set == NULL) {
        return NULL;
    }
    mutex_init(&set->mutex);
    wait_queue_init(&set->changed_queue);
    vli_list_init(&set->undos);
    set->count = (uint32_t)request->size;
    set->changed = ipc_seconds();
    return &set->entry;
}

static long set_check(const struct ipc_request *request, struct ipc_entry *entry)
{
    return request->size <= vli_container_of(entry, struct sem_set, entry)->count ? 0 : -EINVAL;
}

SYSCALL(semget)
{
    struct ipc_request request = {.key = (uint32_t)a,
                                  .flags = (uint32_t)c,
                                  .size = (uint64_t)b,
                                  .create = set_create,
                                  .check = set_check};

    if ((int)b < 0 || (int)b > (int)SEM_PER_SET_MAX) {
        return -EINVAL;
    }
    request.size = (uint32_t)b;
    return ipc_find_or_create(&sem_sets, &request);
}

/* ----------------------------------------------------------------------------------- undo */

static struct sem_undo *undo_find(struct process *process, const struct sem_set *set)
{
    struct sem_undo *undo = process->sem_undo;

    while (undo != NULL && undo->set != set) {
        undo = undo->next;
    }
    return undo;
}

/* The running process's adjustments of @set, made when there are none. NULL: no memory. */
static struct sem_undo *undo_get(struct sem_set *set)
{
    struct process *process = current_process();
    struct sem_undo *undo;
    struct sem_undo *fresh;

    mutex_lock(&undo_mutex);
    undo = undo_find(process, set);
    mutex_unlock(&undo_mutex);
    if (undo != NULL) {
        return undo;
    }
    fresh = vl_kmalloc(sizeof(*fresh) + set->count * sizeof(fresh->adjust[0]), VL_WAIT | VL_ZEROED);
    if (fresh == NULL) {
        return NULL;
    }
    mutex_lock(&undo_mutex);
    undo = undo_find(process, set); /* another thread may have been faster */
    if (undo == NULL) {
        struct ipc_entry *entry = ipc_get(&sem_sets, set->entry.id);

        fresh->set = set;
        if (entry == &set->entry) {
            fresh->next = process->sem_undo;
            process->sem_undo = fresh;
            mutex_lock(&set->mutex);
            vli_list_insert_before(&set->undos, &fresh->link);
            mutex_unlock(&set->mutex);
            undo = fresh;
            fresh = NULL;
        } else if (entry != NULL) {
            ipc_put(&sem_sets, entry);
        }
    }
    mutex_unlock(&undo_mutex);
    vl_kfree(fresh);
    return undo;
}

static void undo_apply(struct sem_undo *undo)
{
    struct sem_set *set = undo->set;

    mutex_lock(&set->mutex);
    for (uint32_t i = 0; i < set->count && !set->entry.is_removed; i++) {
        int32_t value = set->sem[i].value + undo->adjust[i];

        if (undo->adjust[i] != 0) {
            set->sem[i].value = value < 0 ? 0 : value > SEM_VALUE_MAX ? SEM_VALUE_MAX : value;
            set->sem[i].pid = current_process()->pid;
        }
    }
    vli_list_remove(&undo->link);
    mutex_unlock(&set->mutex);
    wake_all(&set->changed_queue);
}

void sem_process_exit(struct process *process)
{
    struct sem_undo *undo = process->sem_undo;

    process->sem_undo = NULL; /* the last thread: nobody else looks */
    while (undo != NULL) {
        struct sem_undo *next = undo->next;

        undo_apply(undo);
        ipc_put(&sem_sets, &undo->set->entry);
        vl_kfree(undo);
        undo = next;
    }
}

void sem_undo_forget(struct sem_set *set, uint32_t first, uint32_t count)
{
    struct vli_list *pos;

    vli_list_each (pos, &set->undos) {
        struct sem_undo *undo = vli_list_entry(pos, struct sem_undo, link);

        for (uint32_t i = first; i < first + count; i++) {
            undo->adjust[i] = 0;
        }
    }
}

/* --------------------------------------------------------------------------------- semop */

/* A call: its operations, and the one at which it had to wait. */
struct sem_call {
    struct sem_set *set;
    struct sem_undo *undo;
    struct sem_operation *operation;
    uint32_t count;
    struct sem_operation *blocked;
};

/* Back to what it was before the first @done operations. */
static void call_take_back(struct sem_call *call, uint32_t done)
{
    while (done-- > 0) {
        struct sem_operation *operation = &call->operation[done];

        call->set->sem[operation->number].value -= operation->change;
        if ((operation->flags & SEM_UNDO) != 0) {
            call->undo->adjust[operation->number] += operation->change;
        }
    }
}

/* One operation. 0, -EAGAIN (it must wait) or -ERANGE; nothing is changed unless 0. */
static long operation_try(struct sem_call *call, const struct sem_operation *operation)
{
    struct semaphore *sem = &call->set->sem[operation->number];
    int32_t value = sem->value + operation->change;

    if (operation->change == 0 ? sem->value != 0 : value < 0) {
        return -EAGAIN;
    }
    if (value > SEM_VALUE_MAX) {
        return -ERANGE;
    }
    if ((operation->flags & SEM_UNDO) != 0) {
        int32_t adjust = call->undo->adjust[operation->number] - operation->change;

        if (adjust < -SEM_VALUE_MAX - 1 || adjust > SEM_VALUE_MAX) {
            return -ERANGE;
        }
        call->undo->adjust[operation->number] = adjust;
    }
    sem->value = value;
    return 0;
}

/* All of them or none. The set's mutex is held. */
static long call_try(struct sem_call *call)
{
    for (uint32_t i = 0; i < call->count; i++) {
        long result = operation_try(call, &call->operation[i]);

        if (result != 0) {
            call_take_back(call, i);
            call->blocked = &call->operation[i];
            return result;
        }
    }
    for (uint32_t i = 0; i < call->count; i++) {
        call->set->sem[call->operation[i].number].pid = current_process()->pid;
    }
    call->set->operated = ipc_seconds();
    return 0;
}

/* Until it can be done. */
static long call_run(struct sem_call *call, uint64_t deadline_ns) VL_NO_LOCK_CHECK
{
    struct sem_set *set = call->set;
    long result;

    mutex_lock(&set->mutex);
    for (;;) {
        uint32_t *waiting;
        enum vl_status status;

        result = set->entry.is_removed ? -EIDRM : call_try(call);
        if (result != -EAGAIN || ((uint32_t)call->blocked->flags & IPC_NOWAIT) != 0) {
            break;
        }
        waiting = call->blocked->change == 0 ? &set->sem[call->blocked->number].zero_waiters
                                             : &set->sem[call->blocked->number].up_waiters;
        (*waiting)++;
        status = wait_on_mutex(&set->changed_queue, &set->mutex, WAIT_INTERRUPTIBLE, deadline_ns);
        (*waiting)--;
        if (status != VL_OK) {
            result = set->entry.is_removed ? -EIDRM : status == VL_ETIMEDOUT ? -EAGAIN : -EINTR;
            break;
        }
    }
    mutex_unlock(&set->mutex);
    if (result == 0) {
        wake_all(&set->changed_queue);
    }
    return result;
}

/* Checks that need the set; then runs. */
static long call_checked(struct sem_call *call, uint64_t deadline_ns)
{
    bool alters = false;
    bool undoes = false;
    long result;

    for (uint32_t i = 0; i < call->count; i++) {
        if (call->operation[i].number >= call->set->count) {
            return -EFBIG;
        }
        alters = alters || call->operation[i].change != 0;
        undoes = undoes || (call->operation[i].flags & SEM_UNDO) != 0;
    }
    result = ipc_may(&call->set->entry, alters ? IPC_WRITE : IPC_READ);
    if (result != 0) {
        return result;
    }
    if (undoes) {
        call->undo = undo_get(call->set);
        if (call->undo == NULL) {
            return call->set->entry.is_removed ? -EIDRM : -ENOMEM;
        }
    }
    return call_run(call, deadline_ns);
}

static long semop_until(uint32_t id, uint64_t user, uint64_t count, uint64_t deadline_ns)
{
    struct sem_call call = {.count = (uint32_t)count};
    struct ipc_entry *entry;
    long result;

    if (count == 0 || (int)id < 0) {
        return -EINVAL;
    }
    if (count > SEM_OPERATIONS_MAX) {
        return -E2BIG;
    }
    call.operation = vl_kmalloc(count * sizeof(call.operation[0]), VL_WAIT);
    if (call.operation == NULL) {
        return -ENOMEM;
    }
    if (copy_from_user(call.operation, user, count * sizeof(call.operation[0])) != VL_OK) {
        result = -EFAULT;
    } else if ((entry = ipc_get(&sem_sets, id)) == NULL) {
        result = -EINVAL;
    } else {
        call.set = vli_container_of(entry, struct sem_set, entry);
        result = call_checked(&call, deadline_ns);
        ipc_put(&sem_sets, entry);
    }
    vl_kfree(call.operation);
    return result;
}

SYSCALL(semop)
{
    return semop_until((uint32_t)a, (uint64_t)b, (uint64_t)(uint32_t)c, WAIT_FOREVER);
}

SYSCALL(semtimedop)
{
    uint64_t time[2];

    if (d == 0) {
        return semop_until((uint32_t)a, (uint64_t)b, (uint64_t)(uint32_t)c, WAIT_FOREVER);
    }
    if (copy_from_user(time, (uint64_t)d, sizeof(time)) != VL_OK) {
        return -EFAULT;
    }
    if (time[0] > INT64_MAX || time[1] >= 1000000000u) {
        return -EINVAL;
    }
    if (time[0] > UINT64_MAX / 4000000000u) {
        return semop_until((uint32_t)a, (uint64_t)b, (uint64_t)(uint32_t)c, WAIT_FOREVER);
    }
    return semop_until((uint32_t)a, (uint64_t)b, (uint64_t)(uint32_t)c,
                       clock_ns() + time[0] * 1000000000u + time[1]);
}
