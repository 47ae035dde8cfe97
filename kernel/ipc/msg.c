/*
 * msg.c - System V message queues: messages with a type, taken in order or by type.
 *
 * A queue holds at most `limit` bytes and as many messages. Senders sleep on one wait queue until
 * there is room, receivers on another until a message fits; each change wakes all of the other
 * side, who look again under the queue's mutex.
 */
#include <vellum/vellum.h>
#include "core/base/list.h"
#include "kernel/cpu/uaccess.h"
#include "kernel/ipc/ipc.h"
#include "kernel/lib/mem.h"
#include "kernel/proc/syscall.h"
#include "kernel/proc/syscall_list.h"

#define MSG_STAT     11
#define MSG_INFO     12
#define MSG_STAT_ANY 13

#define MSG_NOERROR 010000u
#define MSG_EXCEPT  020000u
#define MSG_COPY    040000u

#define MESSAGE_BYTES_MAX 8192u
#define QUEUE_BYTES       16384u

struct message {
    struct vli_list link;
    int64_t type;
    size_t len;
    char text[];
};

struct msg_queue {
    struct ipc_entry entry;
    struct mutex mutex;
    struct wait_queue senders, receivers;
    struct vli_list messages;
    uint64_t bytes, count, limit;
    int64_t sent, received, changed; /* seconds */
    uint32_t sender, receiver;       /* pids */
};

/* struct msqid64_ds of Linux's user interface. */
struct queue_user {
    struct ipc_perm_user perm;
    int64_t sent, received, changed;
    uint64_t bytes, count, limit;
    uint32_t sender, receiver;
    uint64_t unused[2];
};
_Static_assert(sizeof(struct queue_user) == 120, "as Linux has it");

static void queue_free(struct ipc_entry *entry)
{
    struct msg_queue *queue = vli_container_of(entry, struct msg_queue, entry);

    while (!vli_list_is_empty(&queue->messages)) {
        struct message *message = vli_list_first(&queue->messages, struct message, link);

        vli_list_remove(&message->link);
        vl_kfree(message);
    }
    vl_kfree(queue);
}

static struct ipc_table queues = IPC_TABLE_INIT(queues, queue_free);

static struct ipc_entry *queue_create(const struct ipc_request *request, long *out_error)
{
    struct msg_queue *queue = vl_kmalloc(sizeof(*queue), VL_WAIT | VL_ZEROED);

    (void)request;
    (void)out_error;
    if (queue == NULL) {
        return NULL;
    }
    mutex_init(&queue->mutex);
    wait_queue_init(&queue->senders);
    wait_queue_init(&queue->receivers);
    vli_list_init(&queue->messages);
    queue->limit = QUEUE_BYTES;
    queue->changed = ipc_seconds();
    return &queue->entry;
}

static long queue_check(const struct ipc_request *request, struct ipc_entry *entry)
{
    (void)request;
    (void)entry;
    return 0;
}

SYSCALL(msgget)
{
    struct ipc_request request = {
        .key = (uint32_t)a, .flags = (uint32_t)b, .create = queue_create, .check = queue_check};

    return ipc_find_or_create(&queues, &request);
}

/* The queue of an identifier that may be used as @want says. */
static long queue_get(uint32_t id, uint32_t want, struct msg_queue **out)
{
    struct ipc_entry *entry = (int32_t)id < 0 ? NULL : ipc_get(&queues, id);

    if (entry == NULL) {
        return -EINVAL;
    }
    if (ipc_may(entry, want) != 0) {
        ipc_put(&queues, entry);
        return -EACCES;
    }
    *out = vli_container_of(entry, struct msg_queue, entry);
    return 0;
}

/* Sleep for a change of the queue. 0 or a negated errno. */
static long queue_wait(struct msg_queue *queue, struct wait_queue *waiters)
    VL_REQUIRES(queue->mutex)
{
    enum vl_status status = wait_on_mutex(waiters, &queue->mutex, WAIT_INTERRUPTIBLE, WAIT_FOREVER);

    return queue->entry.is_removed ? -EIDRM : status == VL_EINTR ? -ERESTARTNOHAND : 0;
}

/* --------------------------------------------------------------------------------- msgsnd */

static long message_read(uint64_t user, size_t len, struct message **out)
{
    struct message *message;
    uint64_t type;

    if (get_user64(&type, user) != VL_OK) {
        return -EFAULT;
    }
    if ((int64_t)type < 1) {
        return -EINVAL;
    }
    message = vl_kmalloc(sizeof(*message) + len, VL_WAIT);
    if (message == NULL) {
        return -ENOMEM;
    }
    message->type = (int64_t)type;
    message->len = len;
    if (copy_from_user(message->text, user + sizeof(type), len) != VL_OK) {
        vl_kfree(message);
        return -EFAULT;
    }
    *out = message;
    return 0;
}

static long message_send(struct msg_queue *queue, struct message *message,
                         uint32_t flags) VL_NO_LOCK_CHECK
{
    long result = 0;

    mutex_lock(&queue->mutex);
    if (queue->entry.is_removed) {
        result = -EIDRM;
    }
    while (result == 0 &&
           (queue->bytes + message->len > queue->limit || queue->count + 1 > queue->limit)) {
        result = (flags & IPC_NOWAIT) != 0 ? -EAGAIN : queue_wait(queue, &queue->senders);
    }
    if (result == 0) {
        vli_list_insert_before(&queue->messages, &message->link);
        queue->bytes += message->len;
        queue->count++;
        queue->sent = ipc_seconds();
        queue->sender = current_process()->pid;
    }
    mutex_unlock(&queue->mutex);
    return result;
}

SYSCALL(msgsnd)
{
    struct msg_queue *queue;
    struct message *message = NULL;
    long result;

    if ((int64_t)c < 0 || (uint64_t)c > MESSAGE_BYTES_MAX || (int)a < 0) {
        return -EINVAL;
    }
    result = message_read((uint64_t)b, (size_t)c, &message);
    if (result != 0) {
        return result;
    }
    result = queue_get((uint32_t)a, IPC_WRITE, &queue);
    if (result == 0) {
        result = message_send(queue, message, (uint32_t)d);
        if (result == 0) {
            wake_all(&queue->receivers);
            message = NULL;
        }
        ipc_put(&queues, &queue->entry);
    }
    vl_kfree(message);
    return result;
}

/* --------------------------------------------------------------------------------- msgrcv */

/* What msgrcv asks for. */
struct msg_wish {
    int64_t type;
    size_t room;
    uint32_t flags;
};

/* The message that the wish means, or NULL: type 0 the first; positive the first of that type (or,
 * with MSG_EXCEPT, of another); negative the first of the lowest type up to its amount; with
 * MSG_COPY the type is a position. */
static struct message *queue_find(struct msg_queue *queue, const struct msg_wish *wish)
{
    struct message *best = NULL;
    struct vli_list *pos;
    int64_t position = 0;
    uint64_t up_to = 0 - (uint64_t)wish->type;

    vli_list_each (pos, &queue->messages) {
        struct message *message = vli_list_entry(pos, struct message, link);

        if ((wish->flags & MSG_COPY) != 0) {
            if (position++ == wish->type) {
                return message;
            }
        } else if (wish->type == 0) {
            return message;
        } else if (wish->type > 0) {
            if ((message->type == wish->type) == ((wish->flags & MSG_EXCEPT) == 0)) {
                return message;
            }
        } else if ((uint64_t)message->type <= up_to &&
                   (best == NULL || message->type < best->type)) {
            best = message;
        }
    }
    return best;
}

static void queue_take(struct msg_queue *queue, struct message *message)
{
    vli_list_remove(&message->link);
    queue->bytes -= message->len;
    queue->count--;
    queue->received = ipc_seconds();
    queue->receiver = current_process()->pid;
}

static long message_receive(struct msg_queue *queue, const struct msg_wish *wish,
                            struct message **out) VL_NO_LOCK_CHECK
{
    bool copies = (wish->flags & MSG_COPY) != 0;
    struct message *message = NULL;
    long result = 0;

    mutex_lock(&queue->mutex);
    if (queue->entry.is_removed) {
        result = -EIDRM;
    }
    while (result == 0 && (message = queue_find(queue, wish)) == NULL) {
        result = (wish->flags & IPC_NOWAIT) != 0 ? -ENOMSG : queue_wait(queue, &queue->receivers);
    }
    if (result == 0 && message->len > wish->room && (wish->flags & MSG_NOERROR) == 0) {
        result = -E2BIG;
    } else if (result == 0 && copies) {
        struct message *copy = vl_kmalloc(sizeof(*copy) + message->len, VL_WAIT);

        if (copy != NULL) {
            memcpy(copy, message, sizeof(*copy) + message->len);
        }
        message = copy;
        result = copy != NULL ? 0 : -ENOMEM;
    } else if (result == 0) {
        queue_take(queue, message);
    }
    mutex_unlock(&queue->mutex);
    *out = message;
    return result;
}

static long message_write(const struct message *message, uint64_t user, size_t room)
{
    size_t len = message->len < room ? message->len : room;

    if (put_user64(user, (uint64_t)message->type) != VL_OK ||
        copy_to_user(user + sizeof(uint64_t), message->text, len) != VL_OK) {
        return -EFAULT;
    }
    return (long)len;
}

SYSCALL(msgrcv)
{
    struct msg_wish wish = {.type = (int64_t)d, .room = (size_t)c, .flags = (uint32_t)e};
    struct msg_queue *queue;
    struct message *message = NULL;
    long result;

    if ((int64_t)c < 0 || (int)a < 0) {
        return -EINVAL;
    }
    if ((wish.flags & MSG_COPY) != 0 &&
        ((wish.flags & MSG_EXCEPT) != 0 || (wish.flags & IPC_NOWAIT) == 0)) {
        return -EINVAL;
    }
    result = queue_get((uint32_t)a, IPC_READ, &queue);
    if (result != 0) {
        return result;
    }
    result = message_receive(queue, &wish, &message);
    if (result == 0) {
        wake_all(&queue->senders);
        result = message_write(message, (uint64_t)b, wish.room);
        vl_kfree(message);
    }
    ipc_put(&queues, &queue->entry);
    return result;
}

/* --------------------------------------------------------------------------------- msgctl */

static long msg_info(int command, uint64_t user)
{
    int32_t info[8] = {(int32_t)(IPC_SLOTS * QUEUE_BYTES / 1024),
                       (int32_t)QUEUE_BYTES,
                       (int32_t)MESSAGE_BYTES_MAX,
                       (int32_t)QUEUE_BYTES,
                       (int32_t)IPC_SLOTS,
                       16,
                       (int32_t)QUEUE_BYTES,
                       0xffff};

    if (command == MSG_INFO) {
        info[0] = (int32_t)queues.used;
        info[1] = 0;
        info[6] = 0;
        for (uint32_t slot = 0; slot < IPC_SLOTS; slot++) {
            struct ipc_entry *entry = ipc_get_slot(&queues, slot);

            if (entry != NULL) {
                struct msg_queue *queue = vli_container_of(entry, struct msg_queue, entry);

                info[1] += (int32_t)queue->count;
                info[6] += (int32_t)queue->bytes;
                ipc_put(&queues, entry);
            }
        }
    }
    return copy_to_user(user, info, sizeof(info)) == VL_OK ? (long)ipc_highest(&queues) : -EFAULT;
}

static long queue_stat(struct msg_queue *queue, int command, uint64_t user)
{
    struct queue_user out;

    if (command != MSG_STAT_ANY && ipc_may(&queue->entry, IPC_READ) != 0) {
        return -EACCES;
    }
    memset(&out, 0, sizeof(out));
    mutex_lock(&queue->mutex);
    ipc_perm_out(&queue->entry, &out.perm);
    out.sent = queue->sent;
    out.received = queue->received;
    out.changed = queue->changed;
    out.bytes = queue->bytes;
    out.count = queue->count;
    out.limit = queue->limit;
    out.sender = queue->sender;
    out.receiver = queue->receiver;
    mutex_unlock(&queue->mutex);
    if (copy_to_user(user, &out, sizeof(out)) != VL_OK) {
        return -EFAULT;
    }
    return command == IPC_STAT ? 0 : (long)queue->entry.id;
}

static long queue_own(struct msg_queue *queue, int command, uint64_t user)
{
    struct queue_user in;
    long result = ipc_owns(&queue->entry);

    if (result != 0) {
        return result;
    }
    if (command == IPC_RMID) {
        ipc_remove(&queues, &queue->entry);
    } else if (copy_from_user(&in, user, sizeof(in)) != VL_OK) {
        return -EFAULT;
    } else if (in.limit > QUEUE_BYTES && !capable_root()) {
        return -EPERM;
    }
    mutex_lock(&queue->mutex);
    if (command == IPC_SET) {
        ipc_perm_in(&queue->entry, &in.perm);
        queue->limit = in.limit;
        queue->changed = ipc_seconds();
    }
    mutex_unlock(&queue->mutex);
    wake_all(&queue->senders);
    wake_all(&queue->receivers);
    return 0;
}

SYSCALL(msgctl)
{
    int command = (int)b;
    bool by_slot = command == MSG_STAT || command == MSG_STAT_ANY;
    struct ipc_entry *entry;
    struct msg_queue *queue;
    long result;

    if ((int)a < 0 || command < 0) {
        return -EINVAL;
    }
    if (command == IPC_INFO || command == MSG_INFO) {
        return msg_info(command, (uint64_t)c);
    }
    if (!by_slot && command != IPC_STAT && command != IPC_SET && command != IPC_RMID) {
        return -EINVAL;
    }
    entry = by_slot ? ipc_get_slot(&queues, (uint32_t)a) : ipc_get(&queues, (uint32_t)a);
    if (entry == NULL) {
        return -EINVAL;
    }
    queue = vli_container_of(entry, struct msg_queue, entry);
    result = command == IPC_SET || command == IPC_RMID ? queue_own(queue, command, (uint64_t)c)
                                                       : queue_stat(queue, command, (uint64_t)c);
    ipc_put(&queues, entry);
    return result;
}
