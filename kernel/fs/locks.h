/*
 * locks.h - advisory locks of files: fcntl's by range and process, flock's by open file.
 */
#ifndef KERNEL_FS_LOCKS_H
#define KERNEL_FS_LOCKS_H

#include "kernel/fs/file.h"

/* Linux's struct flock. */
struct flock_range {
    int16_t type;
    int16_t whence;
    int64_t start;
    int64_t len;
    int32_t pid;
};
#define F_RDLCK 0
#define F_WRLCK 1
#define F_UNLCK 2

/** locks_fcntl() - F_GETLK, F_SETLK, F_SETLKW and their OFD forms. @user: struct flock. */
long locks_fcntl(struct file *file, unsigned command, uint64_t user);
/** locks_flock() - flock(2). */
long locks_flock(struct file *file, unsigned operation);
/** locks_close() - a descriptor was closed: the table's owner loses its range locks on the file. */
void locks_close(struct files *files, struct file *file);
/** locks_release() - the last descriptor of @file went: so do its flock and OFD locks. */
void locks_release(struct file *file);

#endif
