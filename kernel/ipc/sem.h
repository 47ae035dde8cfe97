/*
 * sem.h - sets of semaphores, between their operations (sem.c) and their control (semctl.c).
 */
#ifndef KERNEL_IPC_SEM_H
#define KERNEL_IPC_SEM_H

#include "core/base/list.h"
#include "kernel/ipc/ipc.h"

#define SEM_UNDO           010000
#define SEM_VALUE_MAX      32767
#define SEM_PER_SET_MAX    32000u
#define SEM_OPERATIONS_MAX 500u

/* struct sembuf of Linux's user interface. */
struct sem_operation {
    uint16_t number;
    int16_t change;
    int16_t flags;
};

struct semaphore {
    int32_t value;
    uint32_t pid; /* who changed it last */
    uint32_t up_waiters, zero_waiters;
};

struct sem_set {
    struct ipc_entry entry;
    struct mutex mutex;
    struct wait_queue changed_queue;
    struct vli_list undos;     /* mutex; struct sem_undo */
    uint32_t count;            /* fixed */
    int64_t operated, changed; /* mutex; seconds */
    struct semaphore sem[];    /* mutex */
};

extern struct ipc_table sem_sets;

/** sem_undo_forget() - the counters were set: what processes did before is not undone any more.
 * Locks: the set's mutex held. */
void sem_undo_forget(struct sem_set *set, uint32_t first, uint32_t count);

#endif
