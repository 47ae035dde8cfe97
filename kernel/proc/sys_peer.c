/*
 * sys_peer.c - another process's memory: process_vm_readv, process_vm_writev; and where memory
 * lies: the NUMA policies of a machine with one node.
 *
 * The other space's pages are held one by one (vl_space_frame_get()), then copied between the frame
 * and the caller's memory: no lock of either space is held while the caller's side may fault.
 */
#include "kernel/fs/iter.h"
#include "kernel/proc/internal.h"

/* ----------------------------------------------------------------------------- process_vm */

/* One page's part: from or to the iterator. Returns: bytes moved; 0 and *@out_error. */
static size_t peer_page(struct vl_space *space, uint64_t va, size_t len, struct user_iter *local,
                        bool writes, long *out_error)
{
    size_t into = va & VL_PAGE_MASK;
    struct vl_pfn pfn;
    char *bytes;
    size_t moved;

    if (!user_range_ok(va, len) ||
        vl_space_frame_get(space, va, writes ? VL_WRITE : VL_READ, &pfn) != VL_OK) {
        *out_error = -EFAULT;
        return 0;
    }
    bytes = (char *)vl_frame_to_virt(pfn) + into;
    moved = writes ? iter_in(local, bytes, len) : iter_out(local, bytes, len);
    vl_frame_ref_put(pfn);
    if (moved != len) {
        *out_error = -EFAULT;
    }
    return moved;
}

static long peer_copy(struct vl_space *space, const struct io_segment *remote, uint64_t count,
                      struct user_iter *local, bool writes)
{
    long error = 0;
    size_t done = 0;

    for (uint64_t i = 0; i < count && error == 0; i++) {
        uint64_t va = remote[i].base;
        uint64_t left = remote[i].len;

        while (left != 0 && local->left != 0 && error == 0) {
            size_t part = VL_PAGE_SIZE - (va & VL_PAGE_MASK);
            size_t moved;

            part = part < left ? part : left;
            part = part < local->left ? part : local->left;
            moved = peer_page(space, va, part, local, writes, &error);
            va += moved;
            left -= moved;
            done += moved;
        }
    }
    return done != 0 ? (long)done : error;
}

/* As ptrace has it: the same user throughout, or root. */
static bool may_access(const struct process *process)
{
    const struct credentials *own = current_cred();
    const struct credentials *other = &process->cred;

    return own->euid == 0 ||
           (own->uid == other->euid && own->uid == other->suid && own->uid == other->uid &&
            own->gid == other->egid && own->gid == other->sgid && own->gid == other->gid);
}

static long peer_run(uint32_t pid, struct user_iter *local, uint64_t remote_user, uint64_t count,
                     bool writes)
{
    struct process *process;
    struct vl_space *space;
    struct io_segment *remote;
    long result = -ESRCH;

    if (count > IO_SEGMENTS_MAX) {
        return -EINVAL;
    }
    remote = vl_kmalloc((count + 1) * sizeof(*remote), VL_WAIT);
    if (remote == NULL) {
        return -ENOMEM;
    }
    if (copy_from_user(remote, remote_user, count * sizeof(*remote)) != VL_OK) {
        vl_kfree(remote);
        return -EFAULT;
    }
    for (uint64_t i = 0; i < count; i++) {
        if ((int64_t)remote[i].len < 0) {
            vl_kfree(remote);
            return -EINVAL;
        }
    }
    process = process_find(pid);
    if (process != NULL) {
        space = may_access(process) ? process_space_get(process) : NULL;
        result = may_access(process) ? -ESRCH : -EPERM;
        if (space != NULL) {
            result = peer_copy(space, remote, count, local, writes);
            vl_space_put(space);
        }
        process_put(process);
    }
    vl_kfree(remote);
    return result;
}

static long process_vm(long a, long b, long c, long d, long e, long f, bool writes)
{
    struct io_segment room[IO_SEGMENTS_FAST];
    struct io_segment *segments = room;
    struct user_iter local;
    long result;

    if (f != 0) {
        return -EINVAL;
    }
    result = iter_segments(&local, (uint64_t)b, (uint64_t)c, room, &segments);
    if (result != 0) {
        return result;
    }
    result = peer_run((uint32_t)a, &local, (uint64_t)d, (uint64_t)e, writes);
    if (segments != room) {
        vl_kfree(segments);
    }
    return result;
}

SYSCALL(process_vm_readv)
{
    return process_vm(a, b, c, d, e, f, false);
}

SYSCALL(process_vm_writev)
{
    return process_vm(a, b, c, d, e, f, true);
}

/* ---------------------------------------------------------------------------------- NUMA */

/* One node, number 0: every policy that names it alone comes to the same. */
#define MPOL_MAX        6u /* DEFAULT, PREFERRED, BIND, INTERLEAVE, LOCAL, PREFERRED_MANY */
#define MPOL_DEFAULT    0u
#define MPOL_PREFERRED  1u
#define MPOL_LOCAL      4u
#define MPOL_MODE_FLAGS 0xe000u
#define MPOL_F_NODE     1u
#define MPOL_F_ADDR     2u
#define MPOL_F_ALLOWED  4u
#define NODE_BITS_MAX   4096u

/* Reads a mask of nodes. Returns: 0 and *@out_empty; -EINVAL (a node that is not there). */
static long nodes_read(uint64_t user, uint64_t bits, bool *out_empty)
{
    uint64_t words;
    uint64_t word;

    *out_empty = true;
    if (user == 0 || bits <= 1) {
        return 0;
    }
    bits--; /* Linux counts one more than it means */
    if (bits > NODE_BITS_MAX * 8) {
        return -EINVAL;
    }
    words = (bits + 63) / 64;
    for (uint64_t i = 0; i < words; i++) {
        if (get_user64(&word, user + i * sizeof(word)) != VL_OK) {
            return -EFAULT;
        }
        if (i == words - 1 && bits % 64 != 0) {
            word &= ((uint64_t)1 << (bits % 64)) - 1;
        }
        if ((i == 0 ? word & ~(uint64_t)1 : word) != 0) {
            return -EINVAL;
        }
        *out_empty = *out_empty && word == 0;
    }
    return 0;
}

/* Is it a policy that this machine can keep? */
static long policy_check(uint32_t mode, uint64_t user, uint64_t bits)
{
    bool empty;
    long result;

    mode &= ~MPOL_MODE_FLAGS;
    if (mode >= MPOL_MAX) {
        return -EINVAL;
    }
    result = nodes_read(user, bits, &empty);
    if (result != 0) {
        return result;
    }
    if (mode == MPOL_DEFAULT || mode == MPOL_LOCAL) {
        return empty ? 0 : -EINVAL;
    }
    return empty && mode != MPOL_PREFERRED ? -EINVAL : 0;
}

SYSCALL(set_mempolicy)
{
    long result = policy_check((uint32_t)a, (uint64_t)b, (uint64_t)c);

    if (result == 0) {
        current_process()->memory_policy = (uint32_t)a;
    }
    return result;
}

SYSCALL(get_mempolicy)
{
    uint32_t flags = (uint32_t)e;
    bool node = (flags & MPOL_F_NODE) != 0;
    struct vl_area_info area;
    uint32_t mode = current_process()->memory_policy;

    if ((flags & ~(MPOL_F_NODE | MPOL_F_ADDR | MPOL_F_ALLOWED)) != 0 ||
        ((flags & MPOL_F_ALLOWED) != 0 && (flags & (MPOL_F_NODE | MPOL_F_ADDR)) != 0)) {
        return -EINVAL;
    }
    if (b != 0 && (uint64_t)c < 1) {
        return -EINVAL;
    }
    if ((flags & MPOL_F_ADDR) != 0) {
        if (vl_space_find(current_process()->space, (vl_va)d, &area) != VL_OK ||
            area.start > (vl_va)d) {
            return -EFAULT;
        }
        mode = MPOL_DEFAULT;
    } else if (d != 0) {
        return -EINVAL;
    }
    if (a != 0 && (flags & MPOL_F_ALLOWED) == 0 &&
        put_user32((uint64_t)a, node ? 0 : mode) != VL_OK) {
        return -EFAULT;
    }
    if (b != 0) {
        size_t bytes = (size_t)(((uint64_t)c + 63) / 64 * 8);
        bool names = (flags & MPOL_F_ALLOWED) != 0;

        if (bytes > NODE_BITS_MAX || clear_user((uint64_t)b, bytes) != VL_OK ||
            (names && put_user64((uint64_t)b, 1) != VL_OK)) {
            return bytes > NODE_BITS_MAX ? -EINVAL : -EFAULT;
        }
    }
    return 0;
}

SYSCALL(mbind)
{
    uint64_t start = (uint64_t)a;
    uint64_t len = vli_round_up((uint64_t)b, VL_PAGE_SIZE);
    struct vl_area_info area;

    if (start % VL_PAGE_SIZE != 0 || ((uint64_t)f & ~7ull) != 0 || start + len < start) {
        return -EINVAL;
    }
    if (len != 0 &&
        (!user_range_ok(start, len) ||
         vl_space_find(current_process()->space, start, &area) != VL_OK || area.start > start)) {
        return -EFAULT;
    }
    return policy_check((uint32_t)c, (uint64_t)d, (uint64_t)e);
}

SYSCALL(migrate_pages)
{
    struct process *process = a == 0 ? NULL : process_find((uint32_t)a);
    bool empty;
    long result;

    if (a != 0 && process == NULL) {
        return -ESRCH;
    }
    if (process != NULL) {
        process_put(process);
    }
    result = nodes_read((uint64_t)c, (uint64_t)b + 1, &empty);
    return result != 0 ? result : nodes_read((uint64_t)d, (uint64_t)b + 1, &empty);
}
