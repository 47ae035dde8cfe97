/*
 * proc.h - between the files of the /proc file system.
 *
 * /proc and /sys are trees of constant entries; directories whose content changes (processes,
 * their descriptors and threads) have functions instead. An inode of such a file system names its
 * entry (u.node) and, below a process, a key.
 */
#ifndef KERNEL_FS_PROC_H
#define KERNEL_FS_PROC_H

#include "core/base/log.h"
#include "kernel/fs/inode_types.h"

/* A text that grows as it is written; what does not fit is counted, and the text made again. */
struct proc_text {
    char *bytes;
    size_t size;
    size_t len; /* that the whole text has */
};

/** proc_print() - append. */
void proc_print(struct proc_text *text, const char *format, ...) VL_PRINTF(2, 3);
/** proc_append() - append @len bytes as they are. */
void proc_append(struct proc_text *text, const char *bytes, size_t len);
/** proc_report() - append what one of the core's reports writes. */
void proc_report(struct proc_text *text, size_t (*report)(char *out, size_t size));

/* Which process an entry below /proc/PID is about. */
struct proc_key {
    uint32_t pid;
    uint32_t part; /* tid below task/, descriptor below fd/ */
};

struct proc_entry {
    const char *name; /* NULL ends an array of them */
    uint32_t mode;
    /* S_IFREG. show returns 0 or an errno; store takes what was written and returns an errno or 0.
     */
    long (*show)(struct proc_text *text, struct proc_key key);
    long (*store)(const char *bytes, size_t len, struct proc_key key);
    /* S_IFLNK: a text, or what it leads to. */
    long (*link)(char *out, size_t size, struct proc_key key);
    long (*follow)(struct dentry **out, struct proc_key key);
    uint32_t size; /* that stat gives */
    /* S_IFDIR: constant entries, functions for further ones, or both. */
    const struct proc_entry *children;
    long (*lookup)(const char *name, size_t len, struct proc_key key,
                   const struct proc_entry **out_entry, struct proc_key *out_key);
    long (*list)(struct file *file, struct dir_sink *sink, struct proc_key key);
};

/* Where further entries of a directory start in readdir's positions. */
#define PROC_POS_DYNAMIC 0x10000u

extern const struct proc_entry proc_pid_entry; /* /proc/PID */
extern const struct proc_entry proc_root_files[];
extern const struct proc_entry proc_sys_entries[]; /* /proc/sys */

/** proc_number() - a decimal number. Returns: false when @name is none. */
bool proc_number(const char *name, size_t len, uint32_t *out);
/** proc_list_number() - an entry named @number. Returns: what the sink does. */
bool proc_list_number(struct file *file, struct dir_sink *sink, uint32_t number, uint32_t mode,
                      uint64_t next_pos);
/** proc_is_allowed() - may the running process look into the inside of process @pid? */
bool proc_is_allowed(uint32_t pid);
/** load_average_init() - start sampling. Once, at start-up. */
void load_average_init(void);
/** proc_mounts() - /proc/mounts. */
long proc_mounts(struct proc_text *text, struct proc_key key);

/* fd and task below a process: proc_fd.c */
long proc_fd_lookup(const char *name, size_t len, struct proc_key key,
                    const struct proc_entry **out_entry, struct proc_key *out_key);
long proc_fd_list(struct file *file, struct dir_sink *sink, struct proc_key key);
long proc_fdinfo_lookup(const char *name, size_t len, struct proc_key key,
                        const struct proc_entry **out_entry, struct proc_key *out_key);
long proc_task_lookup(const char *name, size_t len, struct proc_key key,
                      const struct proc_entry **out_entry, struct proc_key *out_key);
long proc_task_list(struct file *file, struct dir_sink *sink, struct proc_key key);
extern const struct proc_entry proc_task_files[];

#endif
