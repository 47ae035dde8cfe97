/*
 * pipe.h - pipes and FIFOs.
 */
#ifndef KERNEL_FS_PIPE_H
#define KERNEL_FS_PIPE_H

#include "kernel/fs/vfs.h"

#define PIPE_BUF_BYTES 4096u
#define PIPE_BYTES_MAX (1u << 20) /* F_SETPIPE_SZ, as on Linux without privilege */

/** pipe_init() - make the cache. Once, at start-up. */
void pipe_init(void);
/** pipe_make() - both ends, each with one reference. @flags: O_NONBLOCK or 0. 0 or an errno. */
long pipe_make(unsigned flags, struct file **out_read, struct file **out_write);
/** fifo_open() - open(2) of a FIFO: waits for the other side. 0; -ENXIO; -ERESTARTSYS; -ENOMEM. */
long fifo_open(struct inode *inode, struct file *file);
/** pipe_of() - the pipe behind an open file, or NULL. */
struct pipe *pipe_of(struct file *file);
/** pipe_capacity() - F_GETPIPE_SZ: bytes that it holds. */
long pipe_capacity(struct pipe *pipe);
/** pipe_set_capacity() - F_SETPIPE_SZ. Returns: the new capacity; -EBUSY; -EINVAL; -ENOMEM. */
long pipe_set_capacity(struct pipe *pipe, uint64_t bytes);

/* Moves bytes between @bytes and somewhere else; may sleep. Returns: how many, or an errno. */
typedef long pipe_mover(void *arg, void *bytes, size_t len);

/**
 * pipe_drain() - hand what the pipe holds, at most @len, to @mover; what that takes is read.
 * The pipe's mutex is held meanwhile, so that nobody else reads what may yet be refused.
 * Returns: bytes; 0: no writers; -EAGAIN when it were to wait and must not; -ERESTARTSYS; or what
 * @mover said.
 */
enum pipe_wait { PIPE_MAY_WAIT, PIPE_NO_WAIT };
long pipe_drain(struct pipe *pipe, enum pipe_wait how, size_t len, pipe_mover *mover, void *arg);
/** pipe_fill() - have @mover put at most @len bytes in, as many as there is room for. Returns: as
 * pipe_drain(); -EPIPE, with the signal, when nobody reads. */
long pipe_fill(struct pipe *pipe, enum pipe_wait how, size_t len, pipe_mover *mover, void *arg);
/** pipe_copy() - from one pipe into another, which is not the same; with PIPE_TAKE they are read
 * from the first. Returns: as pipe_drain() and pipe_fill(). */
enum pipe_copy_how { PIPE_TAKE, PIPE_LEAVE };
long pipe_copy(struct pipe *from, struct pipe *to, enum pipe_wait how, size_t len,
               enum pipe_copy_how what);

#endif
