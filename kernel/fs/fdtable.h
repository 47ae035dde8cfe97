/*
 * fdtable.h - descriptors of the running process, for system calls.
 */
#ifndef KERNEL_FS_FDTABLE_H
#define KERNEL_FS_FDTABLE_H

#include "kernel/fs/file.h"

/* Most descriptors that a table can have: one kmalloc of pointers. */
#define FILES_MAX (1u << 18)

/* A file for the length of a system call. While one thread alone uses the table nobody else can
 * close the descriptor, so no reference is taken. */
struct fd_ref {
    struct file *file;
    bool is_counted;
};

enum fd_kind {
    FD_NORMAL, /* not one opened by O_PATH */
    FD_PATH_TOO
};

/** fd_ref_get() - the running process's descriptor. Returns: false: EBADF. */
bool fd_ref_get(int fd, enum fd_kind kind, struct fd_ref *out);

static inline void fd_ref_put(struct fd_ref *ref)
{
    if (ref->is_counted) {
        file_put(ref->file);
    }
}

/** files_reserve() - the lowest free descriptor ≥ @min, which files_fill() or files_unreserve()
 * follows. Returns: it; -EMFILE; -ENOMEM. */
long files_reserve(struct files *files, unsigned min, bool cloexec);
/** files_fill() - a reserved descriptor names @file, whose reference it takes over. */
void files_fill(struct files *files, int fd, struct file *file);
void files_unreserve(struct files *files, int fd);
/** files_close() - close(2). 0 or -EBADF. */
long files_close(struct files *files, int fd);
/** files_replace() - dup2: @fd names @file from now on, whose reference it takes over on success;
 * what it named is closed. Returns: @fd; -EBADF; -EMFILE; -EBUSY; -ENOMEM. */
long files_replace(struct files *files, int fd, struct file *file, bool cloexec);
/** files_cloexec() - F_GETFD, F_SETFD: @set < 0 only asks. Returns: 0 or 1; -EBADF. */
long files_cloexec(struct files *files, int fd, int set);
/** pair_install() - give the running process two descriptors and write their numbers to the user;
 * consumes both references, also on failure. 0 or an errno. */
long pair_install(struct file *first, struct file *second, bool cloexec, uint64_t user_pair);
/** files_next() - the lowest open descriptor ≥ @fd, or -1. */
int files_next(struct files *files, int fd);
/** files_capacity() - descriptors that the table has room for. */
unsigned files_capacity(struct files *files);

#endif
