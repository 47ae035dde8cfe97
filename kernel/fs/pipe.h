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

#endif
