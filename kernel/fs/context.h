/*
 * context.h - working directory, root and umask of a process.
 */
#ifndef KERNEL_FS_CONTEXT_H
#define KERNEL_FS_CONTEXT_H

#include "kernel/fs/vfs.h"

struct fs_context {
    _Atomic uint32_t references;
    struct vli_spinlock lock; /* KRANK_FILES: the two pointers */
    _Atomic uint32_t umask;
    struct dentry *root; /* counted */
    struct dentry *cwd;  /* counted */
};

/** fs_cwd() - working directory of the running process, with a reference. */
struct dentry *fs_cwd(void);
/** fs_umask() - of the running process. */
uint32_t fs_umask(void);
/** fs_set_umask() - Returns the old one. */
uint32_t fs_set_umask(uint32_t mask);
/** fs_set_cwd() - chdir of the running process; consumes the reference. */
void fs_set_cwd(struct dentry *dentry);
/** fs_set_root() - chroot of the running process; consumes the reference. */
void fs_set_root(struct dentry *dentry);
/** fs_context_dir() - root or working directory of another process, with a reference. */
struct dentry *fs_context_dir(struct fs_context *context, bool want_root);

#endif
