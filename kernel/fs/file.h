/*
 * file.h - open files, descriptor tables, and what the rest of the kernel asks of the file systems.
 *
 * struct file is one open file description: position, status flags, what it was opened on.
 * Descriptors of several processes may name one. struct files is a table of descriptors, shared by
 * the threads of a process (CLONE_FILES). struct fs_context is the working directory, the root and
 * the umask, shared by CLONE_FS. The running thread's are current_files() and current_fs() of
 * kernel/proc/process.h.
 *
 * Functions that return long give a negated errno (kernel/lib/errno.h) on failure. None of the
 * functions here is for interrupts; all may sleep unless they say otherwise.
 */
#ifndef KERNEL_FS_FILE_H
#define KERNEL_FS_FILE_H

#include <stdatomic.h>
#include <vellum/object.h>
#include "kernel/lib/errno.h"
#include "kernel/sched/wait.h"

struct dentry;
struct file;
struct files;
struct fs_context;
struct inode;
struct user_iter;

#define PATH_MAX_BYTES 4096u
#define NAME_MAX_BYTES 255u

/* Open and status flags, Linux's numbers. */
#define O_ACCMODE   00000003u
#define O_RDONLY    00000000u
#define O_WRONLY    00000001u
#define O_RDWR      00000002u
#define O_CREAT     00000100u
#define O_EXCL      00000200u
#define O_NOCTTY    00000400u
#define O_TRUNC     00001000u
#define O_APPEND    00002000u
#define O_NONBLOCK  00004000u
#define O_DSYNC     00010000u
#define O_ASYNC     00020000u
#define O_DIRECT    00040000u
#define O_LARGEFILE 00100000u
#define O_DIRECTORY 00200000u
#define O_NOFOLLOW  00400000u
#define O_NOATIME   01000000u
#define O_CLOEXEC   02000000u
#define O_PATH      010000000u
#define O_TMPFILE   (020000000u | O_DIRECTORY)

#define AT_FDCWD            (-100)
#define AT_SYMLINK_NOFOLLOW 0x100u
#define AT_REMOVEDIR        0x200u
#define AT_EACCESS          0x200u
#define AT_SYMLINK_FOLLOW   0x400u
#define AT_NO_AUTOMOUNT     0x800u
#define AT_EMPTY_PATH       0x1000u

/* ------------------------------------------------------------------------ one open file */

/** file_get() - one more reference. Context: any. */
void file_get(struct file *file);
/** file_put() - drop one; the last closes the file. */
void file_put(struct file *file);

/**
 * file_read_kernel() - read into kernel memory at @pos, the file's own position untouched.
 * Returns: bytes read, fewer only at the end of the file; a negated errno.
 */
long file_read_kernel(struct file *file, void *out, size_t len, uint64_t pos);
/** file_write_kernel() - write from kernel memory at @pos. Returns: bytes written or an errno. */
long file_write_kernel(struct file *file, const void *bytes, size_t len, uint64_t pos);

/** file_size() - of the inode, in bytes. Context: any. */
uint64_t file_size(const struct file *file);
/** file_mode() - type and permission bits as stat gives them. Context: any. */
uint32_t file_mode(const struct file *file);
/** file_owner() - the inode's user and group, for set-id programs. Context: any. */
void file_owner(const struct file *file, uint32_t *out_uid, uint32_t *out_gid);
/** file_inode() - what the file was opened on. No reference is taken. Context: any. */
struct inode *file_inode(const struct file *file);
/** inode_object() - the object that holds a regular file's pages: map it, as exec does. NULL for
 * anything else. No reference is taken: the file's keeps it. Context: any. */
struct vl_object *inode_object(const struct inode *inode);

/**
 * file_map() - what mmap() of a descriptor maps, checked as Linux checks it.
 * @prot:         VL_READ | VL_WRITE | VL_EXEC wanted.
 * @shared:       MAP_SHARED.
 * @out_object:   the object, or NULL: anonymous memory (/dev/zero). No reference is taken.
 * @out_prot_max: most that mprotect may later give.
 * Returns: 0; -EACCES (not opened for that), -ENODEV (cannot be mapped).
 */
long file_map(struct file *file, uint32_t prot, bool shared, struct vl_object **out_object,
              uint32_t *out_prot_max);

/**
 * file_path() - the absolute path as the running thread's root sees it, " (deleted)" behind one
 * that is gone, "pipe:[7]" and the like for what never had one.
 * Returns: length without the ending 0; -ENAMETOOLONG.
 */
long file_path(struct file *file, char *out, size_t size);

/** file_sync() - msync and fsync: everything lives in memory, so there is nothing to wait for.
 * Returns: 0 or -EINVAL for what cannot be synced. */
long file_sync(struct file *file);

/* -------------------------------------------------------------------------------- opening */

/**
 * vfs_open_exec() - open a program: a regular file that may be executed.
 * @dirfd: AT_FDCWD or a descriptor, as execveat. @path: in kernel memory. @at_flags: AT_EMPTY_PATH,
 * AT_SYMLINK_NOFOLLOW.
 * Returns: 0 and *@out with a reference; -ENOENT, -ENOTDIR, -EACCES (not regular, no x bit), …
 */
long vfs_open_exec(int dirfd, const char *path, unsigned at_flags, struct file **out);

/** vfs_open() - open @path (kernel memory), relative to the working directory. @flags: O_*. */
long vfs_open(const char *path, unsigned flags, unsigned mode, struct file **out);

/** vfs_open_console() - give @files descriptors 0, 1, 2 on /dev/console, for the first program.
 * Returns: 0; an errno when there is no such device (Linux then warns and goes on). */
long vfs_open_console(struct files *files);

/**
 * user_path_get() - copy a path from user memory. End with user_path_put().
 * Returns: 0; -EFAULT; -ENAMETOOLONG; -ENOENT when empty (unless @may_be_empty); -ENOMEM.
 */
enum path_empty { PATH_EMPTY_REFUSED, PATH_EMPTY_ALLOWED };
long user_path_get(char **out, uint64_t user_path, enum path_empty empty);
void user_path_put(char *path);

/* ------------------------------------------------------------------ tables of descriptors */

/** files_create() - an empty table with one reference. NULL: no memory. */
struct files *files_create(void);
/** files_clone() - fork: a table that names the same files. NULL: no memory. */
struct files *files_clone(struct files *files);
/** files_get() - one more sharer (CLONE_FILES). Context: any. */
void files_get(struct files *files);
/** files_put() - drop one; the last closes all. */
void files_put(struct files *files);
/** files_close_on_exec() - close the descriptors marked so. The table is not shared. */
void files_close_on_exec(struct files *files);

/** files_file_get() - the file of @fd with a reference, NULL: none. */
struct file *files_file_get(struct files *files, int fd);

/** files_install() - a free descriptor ≥ @min for @file, whose reference it takes over on success.
 * @cloexec: FD_CLOEXEC set. Returns: the descriptor; -EMFILE; -ENOMEM. */
long files_install(struct files *files, struct file *file, unsigned min, bool cloexec);

/* --------------------------------------------------- working directory, root and umask */

/** fs_context_create() - at the root, umask 022: for the first program. NULL: no memory. */
struct fs_context *fs_context_create(void);
/** fs_context_clone() - a copy for a child. NULL: no memory. */
struct fs_context *fs_context_clone(struct fs_context *context);
void fs_context_get(struct fs_context *context);
void fs_context_put(struct fs_context *context);

#endif
