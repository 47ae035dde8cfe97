/*
 * socket.c - as much of sockets as needs no network: pairs of connected AF_UNIX streams.
 *
 * A pair is two pipes crossed: each end reads from one and writes to the other. Other families give
 * EAFNOSUPPORT, as a Linux without them does; bind, connect and messages are not there (ENOSYS).
 */
#include "kernel/fs/fdtable.h"
#include "kernel/fs/pipe.h"
#include "kernel/fs/poll.h"
#include "kernel/fs/syscalls.h"
#include "kernel/proc/process.h"

#define AF_UNIX       1
#define SOCK_STREAM   1u
#define SOCK_MASK     0xfu
#define SOCK_CLOEXEC  O_CLOEXEC
#define SOCK_NONBLOCK O_NONBLOCK

/* One end. The two files are pipe ends of this socket's own; nobody else has them. */
struct socket {
    struct file *in;
    struct file *out;
};

/* O_NONBLOCK of the socket counts for its pipes. */
static void pass_flags(struct file *file, struct file *to)
{
    unsigned old = atomic_load_explicit(&to->flags, memory_order_relaxed);
    unsigned want = (old & ~O_NONBLOCK) | (file->flags & O_NONBLOCK);

    if (old != want) {
        atomic_store_explicit(&to->flags, want, memory_order_relaxed);
    }
}

static long socket_read(struct file *file, struct user_iter *to, uint64_t *pos)
{
    struct socket *socket = file->private_data;

    pass_flags(file, socket->in);
    return file_ops_fifo.read(socket->in, to, pos);
}

static long socket_write(struct file *file, struct user_iter *from, uint64_t *pos)
{
    struct socket *socket = file->private_data;

    pass_flags(file, socket->out);
    return file_ops_fifo.write(socket->out, from, pos);
}

static unsigned socket_poll(struct file *file, struct poll_wait *wait)
{
    struct socket *socket = file->private_data;
    unsigned ready = file_ops_fifo.poll(socket->in, wait);
    unsigned out = file_ops_fifo.poll(socket->out, wait);

    /* The other end is gone: reading gives its end, writing EPIPE; Linux says all of it at once. */
    if ((ready & POLLHUP) != 0) {
        ready |= POLLIN | POLLRDNORM | POLLRDHUP;
    }
    return ready | ((out & POLLERR) != 0 ? POLLOUT | POLLWRNORM : out);
}

static long socket_ioctl(struct file *file, unsigned command, uint64_t arg)
{
    struct socket *socket = file->private_data;

    return file_ops_fifo.ioctl(socket->in, command, arg);
}

static void socket_release(struct file *file)
{
    struct socket *socket = file->private_data;

    file_put(socket->in);
    file_put(socket->out);
    vl_kfree(socket);
}

static const struct file_ops socket_ops = {.name = "socket",
                                           .is_stream = true,
                                           .read = socket_read,
                                           .write = socket_write,
                                           .poll = socket_poll,
                                           .ioctl = socket_ioctl,
                                           .release = socket_release};

/* One end on @in and @out, which it takes over also on failure. 0 or an errno. */
static long socket_make(struct file *in, struct file *out, unsigned flags, struct file **out_file)
{
    static const struct inode_ops no_ops = {NULL, NULL, NULL, NULL, NULL, NULL, NULL};
    struct socket *socket = vl_kmalloc(sizeof(*socket), VL_WAIT);
    struct inode *inode = inode_make(super_internal(), S_IFSOCK | 0777, &no_ops, &socket_ops);

    if (socket != NULL && inode != NULL) {
        *socket = (struct socket){in, out};
        *out_file = file_make(inode, &socket_ops, O_RDWR | flags, socket);
        if (*out_file != NULL) {
            inode_put(inode); /* the file has its own */
            return 0;
        }
    }
    if (inode != NULL) {
        inode_put(inode);
    }
    vl_kfree(socket);
    file_put(in);
    file_put(out);
    return -ENOMEM;
}

SYSCALL(socket)
{
    return -EAFNOSUPPORT;
}

SYSCALL(socketpair)
{
    unsigned type = (unsigned)b;
    struct file *reader[2];
    struct file *writer[2];
    struct file *first;
    struct file *second;
    long result;

    if ((int)a != AF_UNIX) {
        return -EAFNOSUPPORT;
    }
    if ((type & ~(SOCK_MASK | SOCK_CLOEXEC | SOCK_NONBLOCK)) != 0) {
        return -EINVAL;
    }
    if ((type & SOCK_MASK) != SOCK_STREAM) {
        return -ESOCKTNOSUPPORT;
    }
    if (c != 0 && c != AF_UNIX) {
        return -EPROTONOSUPPORT;
    }
    result = pipe_make(0, &reader[0], &writer[0]);
    if (result != 0) {
        return result;
    }
    result = pipe_make(0, &reader[1], &writer[1]);
    if (result != 0) {
        file_put(reader[0]);
        file_put(writer[0]);
        return result;
    }
    result = socket_make(reader[0], writer[1], type & SOCK_NONBLOCK, &first);
    if (result != 0) {
        file_put(reader[1]);
        file_put(writer[0]);
        return result;
    }
    result = socket_make(reader[1], writer[0], type & SOCK_NONBLOCK, &second);
    if (result != 0) {
        file_put(first);
        return result;
    }
    return pair_install(first, second, (type & SOCK_CLOEXEC) != 0, (uint64_t)d);
}
