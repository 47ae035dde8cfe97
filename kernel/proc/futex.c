/*
 * futex.c - sleeping on a word of user memory.
 *
 * Waiters stand in chains, by a hash of the memory that the word is: of a private futex the space
 * and the address, of a shared one what vl_space_key() says, so that all who map it meet. A waiter
 * reads the word under its chain's spin lock, after which a waker that changed the word before
 * taking the lock must see it queued: no wake-up is lost. The word is read without resolving
 * faults there; when it is not resident, the lock is left, the page faulted in, and all is begun
 * again.
 *
 * A waiter's struct is on its stack. Who wakes it takes it out of its chain and wakes it while
 * holding the chain's lock, and the waiter takes that lock once more before it returns; requeueing
 * changes which lock that is, so it is read again after being taken.
 *
 * Two chains are locked in order of address, by ranks KRANK_FUTEX and the next.
 */
#include "kernel/proc/internal.h"

#define FUTEX_WAIT           0u
#define FUTEX_WAKE           1u
#define FUTEX_REQUEUE        3u
#define FUTEX_CMP_REQUEUE    4u
#define FUTEX_WAKE_OP        5u
#define FUTEX_WAIT_BITSET    9u
#define FUTEX_WAKE_BITSET    10u
#define FUTEX_COMMAND        0x7fu
#define FUTEX_PRIVATE        0x80u
#define FUTEX_CLOCK_REALTIME 0x100u
#define FUTEX_BITS_ALL       UINT32_MAX

#define CHAINS 256u

#define KRANK_FUTEX_SECOND ((enum vli_rank)(KRANK_FUTEX + 1))

struct futex_key {
    uint64_t id; /* a space's address, or an object's id with bit 0 set */
    uint64_t offset;
};

struct futex_chain {
    struct vli_spinlock lock;
    _Atomic uint32_t waiting; /* how many; lets a wake pass by without the lock */
    struct vli_list waiters;
};

struct futex_waiter {
    struct vli_list link;
    struct futex_key key;
    uint32_t bits;
    _Atomic uint32_t woken;
    struct futex_chain *_Atomic chain;
    struct wait_queue queue;
    struct wait_queue *shared; /* woken instead of queue: futex_waitv()'s, for all its words */
};

static struct futex_chain chains[CHAINS];

void futex_init(void)
{
    unsigned i;

    for (i = 0; i < CHAINS; i++) {
        vli_spin_init(&chains[i].lock);
        vli_list_init(&chains[i].waiters);
    }
}

static struct futex_chain *chain_of(const struct futex_key *key)
{
    uint64_t mixed = (key->id ^ (key->offset * 0x9e3779b97f4a7c15ull)) * 0xff51afd7ed558ccdull;

    return &chains[(mixed >> 40) % CHAINS];
}

static bool key_equal(const struct futex_key *one, const struct futex_key *other)
{
    return one->id == other->id && one->offset == other->offset;
}

/* Returns: 0, -EINVAL misaligned, -EFAULT. */
static long key_get(struct futex_key *out, uint64_t word, bool is_private)
{
    struct vl_space *space = current_process()->space;
    struct vl_memory_key memory;

    if (word % sizeof(uint32_t) != 0) {
        return -EINVAL;
    }
    if (!user_range_ok(word, sizeof(uint32_t))) {
        return -EFAULT;
    }
    if (is_private) {
        *out = (struct futex_key){(uintptr_t)space, word};
        return 0;
    }
    if (vl_space_key(space, word, &memory) != VL_OK) {
        return -EFAULT;
    }
    *out = (struct futex_key){memory.id << 1 | 1u, memory.offset};
    return 0;
}

static void chain_lock(struct futex_chain *chain) VL_NO_LOCK_CHECK
{
    vli_spin_lock(&chain->lock, KRANK_FUTEX);
}

static void chain_unlock(struct futex_chain *chain) VL_NO_LOCK_CHECK
{
    vli_spin_unlock(&chain->lock, KRANK_FUTEX);
}

/* Locks: chain's held. */
static void waiter_queue(struct futex_chain *chain, struct futex_waiter *waiter)
{
    atomic_store_explicit(&waiter->chain, chain, memory_order_relaxed);
    vli_list_insert_before(&chain->waiters, &waiter->link);
    atomic_fetch_add_explicit(&chain->waiting, 1, memory_order_relaxed);
}

/* Locks: chain's held. */
static void waiter_unqueue(struct futex_chain *chain, struct futex_waiter *waiter)
{
    vli_list_remove(&waiter->link);
    atomic_fetch_sub_explicit(&chain->waiting, 1, memory_order_relaxed);
}

/* Locks: chain's held. */
static void waiter_wake(struct futex_chain *chain, struct futex_waiter *waiter)
{
    waiter_unqueue(chain, waiter);
    atomic_store_explicit(&waiter->woken, 1, memory_order_release);
    wake_all(waiter->shared != NULL ? waiter->shared : &waiter->queue);
}

/* Lock the chain that the waiter is on, or was on last. */
static struct futex_chain *waiter_chain_lock(struct futex_waiter *waiter)
{
    struct futex_chain *chain;

    for (;;) {
        chain = atomic_load_explicit(&waiter->chain, memory_order_relaxed);
        chain_lock(chain);
        if (atomic_load_explicit(&waiter->chain, memory_order_relaxed) == chain) {
            return chain;
        }
        chain_unlock(chain);
    }
}

/* --------------------------------------------------------------------------------- wait */

/* Queue the waiter if the word is as expected. Returns: 0, -EAGAIN, -EFAULT. */
static long wait_queue_if(struct futex_waiter *waiter, uint64_t word, uint32_t expected)
{
    struct futex_chain *chain = chain_of(&waiter->key);
    enum vl_status status;
    uint32_t value;

    for (;;) {
        chain_lock(chain);
        status = get_user32_nofault(&value, word);
        if (status == VL_OK && value == expected) {
            waiter_queue(chain, waiter);
            chain_unlock(chain);
            return 0;
        }
        chain_unlock(chain);
        if (status == VL_OK) {
            return -EAGAIN;
        }
        if (get_user32(&value, word) != VL_OK) {
            return -EFAULT;
        }
    }
}

/* Sleep until woken. Returns: 0, -ETIMEDOUT, -ERESTARTSYS. */
static long wait_until_woken(struct futex_waiter *waiter, uint64_t deadline_ns)
{
    struct waiter sleeper;
    struct futex_chain *chain;
    enum vl_status status = VL_OK;
    bool woken;

    waiter_init(&sleeper);
    do {
        wait_prepare(&waiter->queue, &sleeper, WAIT_INTERRUPTIBLE);
        if (atomic_load_explicit(&waiter->woken, memory_order_acquire) != 0) {
            break;
        }
        status = wait_sleep(deadline_ns);
    } while (status == VL_OK);
    wait_finish(&sleeper);
    chain = waiter_chain_lock(waiter);
    woken = atomic_load_explicit(&waiter->woken, memory_order_relaxed) != 0;
    if (!woken) {
        waiter_unqueue(chain, waiter);
    }
    chain_unlock(chain);
    if (woken) {
        return 0;
    }
    return status == VL_ETIMEDOUT ? -ETIMEDOUT : -ERESTARTSYS;
}

static long futex_wait(uint64_t word, uint32_t expected, uint32_t bits, bool is_private,
                       uint64_t deadline_ns)
{
    struct futex_waiter waiter = {.bits = bits};
    long result;

    if (bits == 0) {
        return -EINVAL;
    }
    result = key_get(&waiter.key, word, is_private);
    if (result != 0) {
        return result;
    }
    wait_queue_init(&waiter.queue);
    result = wait_queue_if(&waiter, word, expected);
    return result != 0 ? result : wait_until_woken(&waiter, deadline_ns);
}

static long futex_wait_again(struct task *task)
{
    long result = futex_wait(task->restart_arg[0], (uint32_t)task->restart_arg[1],
                             (uint32_t)(task->restart_arg[1] >> 32),
                             (task->restart_arg[2] & FUTEX_PRIVATE) != 0, task->restart_arg[3]);

    return result == -ERESTARTSYS ? -ERESTARTBLOCK : result;
}

/* A wait with a time limit is begun again by restart_syscall, with the same end. */
static long futex_wait_call(uint64_t word, uint32_t op, uint32_t expected, uint32_t bits,
                            uint64_t deadline_ns)
{
    struct task *task = current_task();
    long result = futex_wait(word, expected, bits, (op & FUTEX_PRIVATE) != 0, deadline_ns);

    if (result != -ERESTARTSYS || deadline_ns == WAIT_FOREVER) {
        return result;
    }
    task->restart = futex_wait_again;
    task->restart_arg[0] = word;
    task->restart_arg[1] = (uint64_t)bits << 32 | expected;
    task->restart_arg[2] = op;
    task->restart_arg[3] = deadline_ns;
    return -ERESTARTBLOCK;
}

/* --------------------------------------------------------------------------------- wake */

/* Wake up to @count waiters on the key. Locks: chain's held. */
static uint32_t chain_wake(struct futex_chain *chain, const struct futex_key *key, uint32_t bits,
                           uint32_t count)
{
    struct vli_list *pos;
    struct vli_list *next;
    uint32_t woken = 0;

    vli_list_each_safe (pos, next, &chain->waiters) {
        struct futex_waiter *waiter = vli_list_entry(pos, struct futex_waiter, link);

        if (woken == count) {
            break;
        }
        if (key_equal(&waiter->key, key) && (waiter->bits & bits) != 0) {
            waiter_wake(chain, waiter);
            woken++;
        }
    }
    return woken;
}

static uint32_t key_wake(const struct futex_key *key, uint32_t bits, uint32_t count)
{
    struct futex_chain *chain = chain_of(key);
    uint32_t woken;

    /* A waiter counts itself under the lock before it sleeps, after it read the word; our caller
     * changed the word before. The fence orders that change before this read. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&chain->waiting, memory_order_relaxed) == 0 &&
        !vli_spin_is_locked(&chain->lock)) {
        return 0;
    }
    chain_lock(chain);
    woken = chain_wake(chain, key, bits, count);
    chain_unlock(chain);
    return woken;
}

static long futex_wake(uint64_t word, uint32_t count, uint32_t bits, bool is_private)
{
    struct futex_key key;
    long result;

    if (bits == 0) {
        return -EINVAL;
    }
    result = key_get(&key, word, is_private);
    return result != 0 ? result : (long)key_wake(&key, bits, count);
}

void futex_wake_word(uint64_t word, unsigned count)
{
    struct futex_key key;

    if (key_get(&key, word, true) == 0) {
        (void)key_wake(&key, FUTEX_BITS_ALL, count);
    }
    if (key_get(&key, word, false) == 0) {
        (void)key_wake(&key, FUTEX_BITS_ALL, count);
    }
}

/* ------------------------------------------------------------------------------- requeue */

static void chains_lock(struct futex_chain *one, struct futex_chain *two) VL_NO_LOCK_CHECK
{
    struct futex_chain *first = one < two ? one : two;

    vli_spin_lock(&first->lock, KRANK_FUTEX);
    if (one != two) {
        vli_spin_lock(&(one < two ? two : one)->lock, KRANK_FUTEX_SECOND);
    }
}

static void chains_unlock(struct futex_chain *one, struct futex_chain *two) VL_NO_LOCK_CHECK
{
    struct futex_chain *first = one < two ? one : two;

    if (one != two) {
        vli_spin_unlock(&(one < two ? two : one)->lock, KRANK_FUTEX_SECOND);
    }
    vli_spin_unlock(&first->lock, KRANK_FUTEX);
}

struct requeue {
    uint64_t word;
    uint64_t to_word;
    uint32_t wake;
    uint32_t move;
    uint32_t expected;
    bool compares;
    struct futex_key key;
    struct futex_key to_key;
};

/* Locks: both chains'. Returns: how many were woken, plus those moved if the call compares. */
static long requeue_locked(const struct requeue *request, struct futex_chain *from,
                           struct futex_chain *to)
{
    struct vli_list *pos;
    struct vli_list *next;
    uint32_t woken = chain_wake(from, &request->key, FUTEX_BITS_ALL, request->wake);
    uint32_t moved = 0;

    vli_list_each_safe (pos, next, &from->waiters) {
        struct futex_waiter *waiter = vli_list_entry(pos, struct futex_waiter, link);

        if (moved == request->move) {
            break;
        }
        if (!key_equal(&waiter->key, &request->key)) {
            continue;
        }
        waiter->key = request->to_key;
        if (from != to) {
            waiter_unqueue(from, waiter);
            waiter_queue(to, waiter);
        }
        moved++;
    }
    return (long)woken + (request->compares ? (long)moved : 0);
}

static long futex_requeue(struct requeue *request, bool is_private)
{
    struct futex_chain *from;
    struct futex_chain *to;
    enum vl_status status;
    uint32_t value;
    long result = key_get(&request->key, request->word, is_private);

    if (result == 0) {
        result = key_get(&request->to_key, request->to_word, is_private);
    }
    if (result != 0) {
        return result;
    }
    from = chain_of(&request->key);
    to = chain_of(&request->to_key);
    for (;;) {
        chains_lock(from, to);
        status = request->compares ? get_user32_nofault(&value, request->word) : VL_OK;
        if (status == VL_OK) {
            result = request->compares && value != request->expected
                         ? -EAGAIN
                         : requeue_locked(request, from, to);
            chains_unlock(from, to);
            return result;
        }
        chains_unlock(from, to);
        if (get_user32(&value, request->word) != VL_OK) {
            return -EFAULT;
        }
    }
}

/* ------------------------------------------------------------------------------- wake_op */

static int32_t sign_extend_12(uint32_t value)
{
    return (int32_t)(value << 20) >> 20;
}

/* Linux: operation, comparison and two 12-bit numbers in one word. */
static bool op_apply(uint32_t code, uint32_t old, uint32_t *out_new)
{
    uint32_t operand = (uint32_t)sign_extend_12(code >> 12 & 0xfffu);

    if ((code & 0x80000000u) != 0) {
        operand = 1u << (operand & 31u);
    }
    switch (code >> 28 & 7u) {
    case 0:
        *out_new = operand;
        return true;
    case 1:
        *out_new = old + operand;
        return true;
    case 2:
        *out_new = old | operand;
        return true;
    case 3:
        *out_new = old & ~operand;
        return true;
    case 4:
        *out_new = old ^ operand;
        return true;
    default:
        return false;
    }
}

static bool op_compare(uint32_t code, uint32_t old, bool *out_valid)
{
    int32_t operand = sign_extend_12(code & 0xfffu);
    int32_t value = (int32_t)old;

    *out_valid = true;
    switch (code >> 24 & 0xfu) {
    case 0:
        return value == operand;
    case 1:
        return value != operand;
    case 2:
        return value < operand;
    case 3:
        return value <= operand;
    case 4:
        return value > operand;
    case 5:
        return value >= operand;
    default:
        *out_valid = false;
        return false;
    }
}

/*
 * Change the second word, then wake on both. The change is made before the chains are locked: who
 * queued himself by the old value is found on the chain afterwards, who comes later reads the new.
 */
static long futex_wake_op(uint64_t word, uint64_t word2, uint32_t count, uint32_t count2,
                          uint32_t code, bool is_private)
{
    struct futex_key key;
    struct futex_key key2;
    uint32_t old;
    uint32_t expected;
    uint32_t fresh;
    bool valid;
    bool wake2;
    long result = key_get(&key, word, is_private);

    if (result == 0) {
        result = key_get(&key2, word2, is_private);
    }
    if (result != 0) {
        return result;
    }
    if (get_user32(&expected, word2) != VL_OK) {
        return -EFAULT;
    }
    do {
        old = expected;
        if (!op_apply(code, old, &fresh)) {
            return -ENOSYS;
        }
        if (user_cmpxchg32(word2, &expected, fresh) != VL_OK) {
            return -EFAULT;
        }
    } while (expected != old);
    wake2 = op_compare(code, old, &valid);
    if (!valid) {
        return -ENOSYS;
    }
    result = (long)key_wake(&key, FUTEX_BITS_ALL, count);
    if (wake2) {
        result += (long)key_wake(&key2, FUTEX_BITS_ALL, count2);
    }
    return result;
}

/* --------------------------------------------------------------------------------- calls */

/* The absolute end of a wait, on the monotonic clock. */
static long deadline_get(uint64_t user, uint32_t op, uint64_t *out)
{
    uint64_t ns;
    uint64_t now;
    long result;

    *out = WAIT_FOREVER;
    if (user == 0) {
        return 0;
    }
    result = user_timespec_get(user, &ns);
    if (result != 0) {
        return result;
    }
    if ((op & FUTEX_COMMAND) == FUTEX_WAIT) {
        *out = deadline_after(ns);
        return 0;
    }
    if ((op & FUTEX_CLOCK_REALTIME) != 0) {
        now = clock_realtime_ns();
        *out = deadline_after(ns > now ? ns - now : 0);
        return 0;
    }
    *out = ns < WAIT_FOREVER ? ns : WAIT_FOREVER - 1;
    return 0;
}

SYSCALL(futex)
{
    uint32_t op = (uint32_t)b;
    uint32_t command = op & FUTEX_COMMAND;
    bool is_private = (op & FUTEX_PRIVATE) != 0;
    struct requeue requeue = {.word = (uint64_t)a,
                              .to_word = (uint64_t)e,
                              .wake = (uint32_t)c,
                              .move = (uint32_t)d,
                              .expected = (uint32_t)f,
                              .compares = command == FUTEX_CMP_REQUEUE};
    uint64_t deadline;
    long result;

    switch (command) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
        result = deadline_get((uint64_t)d, op, &deadline);
        if (result != 0) {
            return result;
        }
        return futex_wait_call((uint64_t)a, op, (uint32_t)c,
                               command == FUTEX_WAIT ? FUTEX_BITS_ALL : (uint32_t)f, deadline);
    case FUTEX_WAKE:
        return futex_wake((uint64_t)a, (uint32_t)c, FUTEX_BITS_ALL, is_private);
    case FUTEX_WAKE_BITSET:
        return futex_wake((uint64_t)a, (uint32_t)c, (uint32_t)f, is_private);
    case FUTEX_REQUEUE:
    case FUTEX_CMP_REQUEUE:
        if ((int32_t)c < 0 || (int32_t)d < 0) {
            return -EINVAL;
        }
        return futex_requeue(&requeue, is_private);
    case FUTEX_WAKE_OP:
        return futex_wake_op((uint64_t)a, (uint64_t)e, (uint32_t)c, (uint32_t)d, (uint32_t)f,
                             is_private);
    default:
        return -ENOSYS;
    }
}

/* -------------------------------------------------------------------- several words at once */

#define WAITV_MAX       128u
#define WAITV_SIZE_32   2u
#define CLOCK_REALTIME  0
#define CLOCK_MONOTONIC 1

/* struct futex_waitv of Linux's user interface. */
struct futex_waitv {
    uint64_t value, word;
    uint32_t flags, reserved;
};

struct waitv_item {
    struct futex_waiter waiter;
    struct futex_waitv user;
};

static long waitv_read(struct waitv_item *items, uint64_t user, uint32_t count,
                       struct wait_queue *queue)
{
    for (uint32_t i = 0; i < count; i++) {
        struct waitv_item *item = &items[i];

        if (copy_from_user(&item->user, user + i * sizeof(item->user), sizeof(item->user)) !=
            VL_OK) {
            return -EFAULT;
        }
        if ((item->user.flags & ~FUTEX_PRIVATE) != WAITV_SIZE_32 || item->user.reserved != 0 ||
            item->user.value > UINT32_MAX) {
            return -EINVAL;
        }
        item->waiter = (struct futex_waiter){.bits = FUTEX_BITS_ALL, .shared = queue};
    }
    for (uint32_t i = 0; i < count; i++) {
        long result = key_get(&items[i].waiter.key, items[i].user.word,
                              (items[i].user.flags & FUTEX_PRIVATE) != 0);

        if (result != 0) {
            return result;
        }
    }
    return 0;
}

/* Leave the chains. Returns: the last item that was woken, or -1. */
static long waitv_leave(struct waitv_item *items, uint32_t count)
{
    long last = -1;

    for (uint32_t i = 0; i < count; i++) {
        struct futex_waiter *waiter = &items[i].waiter;
        struct futex_chain *chain = waiter_chain_lock(waiter);

        if (atomic_load_explicit(&waiter->woken, memory_order_relaxed) != 0) {
            last = (long)i;
        } else {
            waiter_unqueue(chain, waiter);
        }
        chain_unlock(chain);
    }
    return last;
}

static bool waitv_is_woken(struct waitv_item *items, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (atomic_load_explicit(&items[i].waiter.woken, memory_order_acquire) != 0) {
            return true;
        }
    }
    return false;
}

/* Returns: the item that was woken; -EAGAIN, -EFAULT, -ETIMEDOUT, -ERESTARTSYS. */
static long waitv_wait(struct waitv_item *items, uint32_t count, struct wait_queue *queue,
                       uint64_t deadline_ns)
{
    enum vl_status status = VL_OK;
    struct waiter sleeper;
    long woken;

    for (uint32_t i = 0; i < count; i++) {
        long result =
            wait_queue_if(&items[i].waiter, items[i].user.word, (uint32_t)items[i].user.value);

        if (result != 0) {
            woken = waitv_leave(items, i);
            return woken >= 0 ? woken : result;
        }
    }
    waiter_init(&sleeper);
    do {
        wait_prepare(queue, &sleeper, WAIT_INTERRUPTIBLE);
        if (waitv_is_woken(items, count)) {
            break;
        }
        status = wait_sleep(deadline_ns);
    } while (status == VL_OK);
    wait_finish(&sleeper);
    woken = waitv_leave(items, count);
    if (woken >= 0) {
        return woken;
    }
    return status == VL_ETIMEDOUT ? -ETIMEDOUT : -ERESTARTSYS;
}

SYSCALL(futex_waitv)
{
    uint32_t count = (uint32_t)b;
    uint64_t deadline = WAIT_FOREVER;
    struct wait_queue queue;
    struct waitv_item *items;
    long result;

    if ((uint32_t)c != 0 || count == 0 || count > WAITV_MAX || a == 0) {
        return -EINVAL;
    }
    if (d != 0) {
        if ((int32_t)e != CLOCK_REALTIME && (int32_t)e != CLOCK_MONOTONIC) {
            return -EINVAL;
        }
        result = deadline_get((uint64_t)d,
                              FUTEX_WAIT_BITSET |
                                  ((int32_t)e == CLOCK_REALTIME ? FUTEX_CLOCK_REALTIME : 0),
                              &deadline);
        if (result != 0) {
            return result;
        }
    }
    items = vl_kmalloc(count * sizeof(*items), VL_WAIT);
    if (items == NULL) {
        return -ENOMEM;
    }
    wait_queue_init(&queue);
    result = waitv_read(items, (uint64_t)a, count, &queue);
    if (result == 0) {
        result = waitv_wait(items, count, &queue, deadline);
    }
    vl_kfree(items);
    return result;
}
