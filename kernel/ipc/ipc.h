/*
 * ipc.h - what System V shared memory, semaphores and message queues have in common: keys, numbers,
 * permissions.
 *
 * A table holds the entries of one kind. An identifier is slot + IPC_SLOTS * (times the slot was
 * used, modulo IPC_SEQUENCES), so that a stale one is not taken for a new entry. Entries are
 * counted: the table's own reference goes at IPC_RMID, a caller's when it is done.
 *
 * Locks, outermost first: a table's mutex; an entry's own. No user copy and no call of a space runs
 * under a table's mutex.
 */
#ifndef KERNEL_IPC_IPC_H
#define KERNEL_IPC_IPC_H

#include "kernel/proc/process.h"
#include "kernel/sched/wait.h"

#define IPC_SLOTS     1024u
#define IPC_SEQUENCES 32768u

#define IPC_PRIVATE 0u
#define IPC_CREAT   01000u
#define IPC_EXCL    02000u
#define IPC_NOWAIT  04000u

#define IPC_RMID 0
#define IPC_SET  1
#define IPC_STAT 2
#define IPC_INFO 3

/* What an access needs, as the upper three permission bits. */
#define IPC_READ  0400u
#define IPC_WRITE 0200u

/* Head of every entry. */
struct ipc_entry {
    uint32_t id;
    uint32_t key;
    uint32_t uid, gid, cuid, cgid;
    uint32_t mode;       /* nine permission bits and marks of the kind */
    uint32_t references; /* table's mutex */
    bool is_removed;     /* table's mutex to set; read under the entry's lock too */
};

struct ipc_table {
    struct mutex mutex;
    struct ipc_entry *slot[IPC_SLOTS];
    uint32_t sequence;
    uint32_t used;
    void (*release)(struct ipc_entry *entry); /* no reference is left; called without the mutex */
};

#define IPC_TABLE_INIT(name, release_fn)                                                           \
    {                                                                                              \
        .mutex = MUTEX_INIT((name).mutex), .release = (release_fn)                                 \
    }

/* struct ipc64_perm of Linux's user interface. */
struct ipc_perm_user {
    uint32_t key, uid, gid, cuid, cgid, mode;
    uint16_t seq, pad;
    uint32_t pad2;
    uint64_t unused[2];
};
_Static_assert(sizeof(struct ipc_perm_user) == 48, "as Linux has it");

/* How one kind finds or makes an entry: shmget, semget, msgget. */
struct ipc_request {
    uint32_t key;
    uint32_t flags; /* IPC_CREAT, IPC_EXCL and permission bits */
    /* A fresh entry, zeroed but for its own fields; NULL and a negated errno. */
    struct ipc_entry *(*create)(const struct ipc_request *request, long *out_error);
    /* May an existing one be had by this request? 0 or a negated errno. */
    long (*check)(const struct ipc_request *request, struct ipc_entry *entry);
    uint64_t size; /* bytes of a segment, semaphores of a set */
};

/** ipc_find_or_create() - Returns: the identifier or a negated errno. Context: may sleep. */
long ipc_find_or_create(struct ipc_table *table, const struct ipc_request *request);

/** ipc_get() - the entry of an identifier, with a reference. NULL: there is none (EINVAL). */
struct ipc_entry *ipc_get(struct ipc_table *table, uint32_t id);
/** ipc_get_slot() - the entry of a slot, for the _STAT commands. NULL: there is none. */
struct ipc_entry *ipc_get_slot(struct ipc_table *table, uint32_t slot);
/** ipc_put() - ends either. Context: may sleep. */
void ipc_put(struct ipc_table *table, struct ipc_entry *entry);
/** ipc_remove() - IPC_RMID: no identifier or key leads to the entry any more. */
void ipc_remove(struct ipc_table *table, struct ipc_entry *entry);
/** ipc_highest() - the highest slot in use, 0 when none is. */
uint32_t ipc_highest(struct ipc_table *table);

/** ipc_may() - may the running process have @want (IPC_READ | IPC_WRITE)? 0 or -EACCES. */
long ipc_may(const struct ipc_entry *entry, uint32_t want);
/** ipc_owns() - may it remove or change the entry? 0 or -EPERM. */
long ipc_owns(const struct ipc_entry *entry);
/** ipc_perm_out() / ipc_perm_in() - to and from the user's form (IPC_STAT, IPC_SET). */
void ipc_perm_out(const struct ipc_entry *entry, struct ipc_perm_user *out);
void ipc_perm_in(struct ipc_entry *entry, const struct ipc_perm_user *in);

/** ipc_seconds() - wall-clock time. */
int64_t ipc_seconds(void);

/** sem_process_exit() - undo what the process's SEM_UNDO operations did. Context: its last thread,
 * no locks. */
void sem_process_exit(struct process *process);

#endif
