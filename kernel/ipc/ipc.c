/*
 * ipc.c - tables of System V identifiers, and who may use what they name.
 */
#include "kernel/ipc/ipc.h"
#include "kernel/lib/errno.h"
#include "kernel/sched/timer.h"

#define MODE_MASK 0777u

int64_t ipc_seconds(void)
{
    return (int64_t)(clock_realtime_ns() / 1000000000u);
}

/* ---------------------------------------------------------------------------- permissions */

long ipc_may(const struct ipc_entry *entry, uint32_t want)
{
    const struct credentials *cred = current_cred();
    uint32_t granted = entry->mode;

    if (capable_root()) {
        return 0;
    }
    if (cred->euid != entry->uid && cred->euid != entry->cuid) {
        bool in_group = cred_in_group(entry->gid) || cred_in_group(entry->cgid);

        granted <<= in_group ? 3 : 6;
    }
    return (want & ~granted & (IPC_READ | IPC_WRITE)) == 0 ? 0 : -EACCES;
}

long ipc_owns(const struct ipc_entry *entry)
{
    uint32_t uid = current_cred()->euid;

    return uid == entry->uid || uid == entry->cuid || capable_root() ? 0 : -EPERM;
}

void ipc_perm_out(const struct ipc_entry *entry, struct ipc_perm_user *out)
{
    *out = (struct ipc_perm_user){.key = entry->key,
                                  .uid = entry->uid,
                                  .gid = entry->gid,
                                  .cuid = entry->cuid,
                                  .cgid = entry->cgid,
                                  .mode = entry->mode,
                                  .seq = (uint16_t)(entry->id / IPC_SLOTS)};
}

void ipc_perm_in(struct ipc_entry *entry, const struct ipc_perm_user *in)
{
    entry->uid = in->uid;
    entry->gid = in->gid;
    entry->mode = (entry->mode & ~MODE_MASK) | (in->mode & MODE_MASK);
}

/* --------------------------------------------------------------------------------- tables */

static struct ipc_entry *find_key(struct ipc_table *table, uint32_t key)
{
    for (uint32_t i = 0; key != IPC_PRIVATE && i < IPC_SLOTS; i++) {
        if (table->slot[i] != NULL && table->slot[i]->key == key) {
            return table->slot[i];
        }
    }
    return NULL;
}

/* The table's mutex is held. */
static long use_existing(const struct ipc_request *request, struct ipc_entry *entry)
{
    uint32_t want = (request->flags | request->flags << 3 | request->flags << 6) & MODE_MASK;
    long result;

    if ((request->flags & (IPC_CREAT | IPC_EXCL)) == (IPC_CREAT | IPC_EXCL)) {
        return -EEXIST;
    }
    result = request->check(request, entry);
    if (result == 0) {
        result = ipc_may(entry, want);
    }
    return result != 0 ? result : (long)entry->id;
}

/* The table's mutex is held. */
static long use_fresh(struct ipc_table *table, const struct ipc_request *request)
{
    const struct credentials *cred = current_cred();
    uint32_t slot = 0;
    long error = -ENOMEM;
    struct ipc_entry *entry;

    while (slot < IPC_SLOTS && table->slot[slot] != NULL) {
        slot++;
    }
    if (slot == IPC_SLOTS) {
        return -ENOSPC;
    }
    entry = request->create(request, &error);
    if (entry == NULL) {
        return error;
    }
    entry->id = slot + IPC_SLOTS * (table->sequence % IPC_SEQUENCES);
    entry->key = request->key;
    entry->uid = entry->cuid = cred->euid;
    entry->gid = entry->cgid = cred->egid;
    entry->mode = request->flags & MODE_MASK;
    entry->references = 1;
    table->slot[slot] = entry;
    table->sequence++;
    table->used++;
    return (long)entry->id;
}

long ipc_find_or_create(struct ipc_table *table, const struct ipc_request *request)
{
    struct ipc_entry *entry;
    long result;

    mutex_lock(&table->mutex);
    entry = find_key(table, request->key);
    if (entry != NULL) {
        result = use_existing(request, entry);
    } else if (request->key != IPC_PRIVATE && (request->flags & IPC_CREAT) == 0) {
        result = -ENOENT;
    } else {
        result = use_fresh(table, request);
    }
    mutex_unlock(&table->mutex);
    return result;
}

struct ipc_entry *ipc_get_slot(struct ipc_table *table, uint32_t slot)
{
    struct ipc_entry *entry = NULL;

    mutex_lock(&table->mutex);
    if (slot < IPC_SLOTS && table->slot[slot] != NULL) {
        entry = table->slot[slot];
        entry->references++;
    }
    mutex_unlock(&table->mutex);
    return entry;
}

struct ipc_entry *ipc_get(struct ipc_table *table, uint32_t id)
{
    struct ipc_entry *entry = ipc_get_slot(table, id % IPC_SLOTS);

    if (entry != NULL && entry->id != id) {
        ipc_put(table, entry);
        entry = NULL;
    }
    return entry;
}

void ipc_put(struct ipc_table *table, struct ipc_entry *entry)
{
    bool last;

    mutex_lock(&table->mutex);
    VL_ASSERT(entry->references != 0);
    entry->references--;
    last = entry->references == 0;
    mutex_unlock(&table->mutex);
    if (last) {
        table->release(entry);
    }
}

void ipc_remove(struct ipc_table *table, struct ipc_entry *entry)
{
    bool was_there;

    mutex_lock(&table->mutex);
    was_there = !entry->is_removed;
    if (was_there) {
        entry->is_removed = true;
        table->slot[entry->id % IPC_SLOTS] = NULL;
        table->used--;
    }
    mutex_unlock(&table->mutex);
    if (was_there) {
        ipc_put(table, entry);
    }
}

uint32_t ipc_highest(struct ipc_table *table)
{
    uint32_t slot = IPC_SLOTS - 1;

    mutex_lock(&table->mutex);
    while (slot > 0 && table->slot[slot] == NULL) {
        slot--;
    }
    mutex_unlock(&table->mutex);
    return slot;
}
