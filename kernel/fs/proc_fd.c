/*
 * proc_fd.c - /proc/PID/fd, fdinfo and task: directories whose entries come and go.
 */
#include "kernel/fs/fdtable.h"
#include "kernel/fs/proc.h"
#include "kernel/proc/process.h"

/* The descriptors of process @pid, if the caller may see them. 0 and a reference, or an errno. */
static long files_of(uint32_t pid, struct files **out)
{
    struct process *process = process_find(pid);

    if (process == NULL) {
        return -ENOENT;
    }
    *out = proc_is_allowed(pid) ? process_files_get(process) : NULL;
    process_put(process);
    if (*out == NULL) {
        return proc_is_allowed(pid) ? -ENOENT : -EACCES;
    }
    return 0;
}

/* The open file of descriptor key.part. 0 and a reference, or an errno. */
static long file_of(struct proc_key key, struct file **out)
{
    struct files *files;
    long result = files_of(key.pid, &files);

    if (result == 0) {
        *out = files_file_get(files, (int)key.part);
        files_put(files);
        result = *out != NULL ? 0 : -ENOENT;
    }
    return result;
}

static long follow_fd(struct dentry **out, struct proc_key key)
{
    struct file *file;
    long result = file_of(key, &file);

    if (result == 0) {
        result = dentry_of_file(file, out);
        file_put(file);
    }
    return result;
}

static long show_fdinfo(struct proc_text *text, struct proc_key key)
{
    struct file *file;
    long result = file_of(key, &file);

    if (result == 0) {
        proc_print(text, "pos:\t%lu\nflags:\t0%o\nmnt_id:\t%u\nino:\t%lu\n",
                   file->ops != NULL && file->ops->is_stream ? 0ul : (unsigned long)file->pos,
                   (unsigned)file->flags, file->inode->super->device,
                   (unsigned long)file->inode->number);
        file_put(file);
    }
    return result;
}

/* A descriptor that is open, named @name. 0 or an errno. */
static long fd_lookup(const char *name, size_t len, struct proc_key key, struct proc_key *out_key,
                      unsigned *out_flags)
{
    struct file *file;
    uint32_t fd;
    long result;

    *out_flags = 0;
    if (!proc_number(name, len, &fd)) {
        return -ENOENT;
    }
    *out_key = (struct proc_key){key.pid, fd};
    result = file_of(*out_key, &file);
    if (result == 0) {
        *out_flags = atomic_load_explicit(&file->flags, memory_order_relaxed);
        file_put(file);
    }
    return result;
}

long proc_fd_lookup(const char *name, size_t len, struct proc_key key,
                    const struct proc_entry **out_entry, struct proc_key *out_key)
{
    /* By access mode: the owner's bits say what the descriptor was opened for. */
    static const struct proc_entry entries[4] = {
        {.mode = S_IFLNK | 0500, .follow = follow_fd, .size = 64},
        {.mode = S_IFLNK | 0300, .follow = follow_fd, .size = 64},
        {.mode = S_IFLNK | 0700, .follow = follow_fd, .size = 64},
        {.mode = S_IFLNK | 0700, .follow = follow_fd, .size = 64}};
    unsigned flags;
    long result = fd_lookup(name, len, key, out_key, &flags);

    *out_entry = &entries[flags & O_ACCMODE];
    return result;
}

long proc_fdinfo_lookup(const char *name, size_t len, struct proc_key key,
                        const struct proc_entry **out_entry, struct proc_key *out_key)
{
    static const struct proc_entry entry = {.mode = S_IFREG | 0444, .show = show_fdinfo};

    unsigned flags;

    *out_entry = &entry;
    return fd_lookup(name, len, key, out_key, &flags);
}

long proc_fd_list(struct file *file, struct dir_sink *sink, struct proc_key key)
{
    struct files *files;
    long result = files_of(key.pid, &files);
    int fd;

    if (result != 0) {
        return result;
    }
    while ((fd = files_next(files, (int)(file->pos - PROC_POS_DYNAMIC))) >= 0) {
        if (!proc_list_number(file, sink, (uint32_t)fd, S_IFLNK,
                              PROC_POS_DYNAMIC + (uint64_t)fd + 1)) {
            break;
        }
    }
    files_put(files);
    return 0;
}

/* ------------------------------------------------------------------------------------ task */

#define TIDS_MAX 1024u

/* The tids of a process: kfree'd by the caller. Returns: how many, or an errno. */
static long tids_of(uint32_t pid, uint32_t **out)
{
    struct process *process = process_find(pid);
    size_t count;

    if (process == NULL) {
        return -ENOENT;
    }
    *out = vl_kmalloc(TIDS_MAX * sizeof(uint32_t), VL_WAIT);
    if (*out == NULL) {
        process_put(process);
        return -ENOMEM;
    }
    count = process_tids(process, *out, TIDS_MAX);
    process_put(process);
    return (long)(count < TIDS_MAX ? count : TIDS_MAX);
}

long proc_task_lookup(const char *name, size_t len, struct proc_key key,
                      const struct proc_entry **out_entry, struct proc_key *out_key)
{
    static const struct proc_entry entry = {.mode = S_IFDIR | 0555, .children = proc_task_files};
    uint32_t *tids;
    uint32_t tid;
    long count;
    long result = -ENOENT;

    if (!proc_number(name, len, &tid)) {
        return -ENOENT;
    }
    count = tids_of(key.pid, &tids);
    if (count < 0) {
        return count;
    }
    for (long i = 0; i < count; i++) {
        if (tids[i] == tid) {
            *out_entry = &entry;
            *out_key = (struct proc_key){key.pid, tid};
            result = 0;
        }
    }
    vl_kfree(tids);
    return result;
}

long proc_task_list(struct file *file, struct dir_sink *sink, struct proc_key key)
{
    uint32_t *tids;
    long count = tids_of(key.pid, &tids);

    if (count < 0) {
        return count;
    }
    for (long i = (long)(file->pos - PROC_POS_DYNAMIC); i < count; i++) {
        if (!proc_list_number(file, sink, tids[i], S_IFDIR, PROC_POS_DYNAMIC + (uint64_t)i + 1)) {
            break;
        }
    }
    vl_kfree(tids);
    return 0;
}
