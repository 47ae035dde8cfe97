/*
 * exec.c - execve: a process becomes another program.
 *
 * Order: open the file, collect the strings, build the new space with the program and its stack
 * (elf.c, exec_args.c), end the process's other threads, and only then commit: from there on
 * nothing can fail.
 */
#include "core/base/log.h"
#include "kernel/proc/exec.h"
#include "kernel/proc/posix_timer.h"

#define SCRIPT_LINE_BYTES 256u
#define SCRIPT_DEPTH_MAX  5

/* ------------------------------------------------------------------------------- scripts */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/*
 * Take the first line "#! interpreter [argument]" apart, in @line, which has room for one more
 * byte. As on Linux: one argument at most, with its inner blanks; a line that does not end within
 * the first 256 bytes is taken if the interpreter's name ends there.
 */
static long script_parse(char *line, size_t len, char **out_interpreter, char **out_argument)
{
    size_t end = 2;
    size_t at = 2;
    bool whole;

    while (end < len && line[end] != '\n' && line[end] != 0) {
        end++;
    }
    whole = end < len || len < SCRIPT_LINE_BYTES;
    while (at < end && is_blank(line[at])) {
        at++;
    }
    if (at == end) {
        return -ENOEXEC;
    }
    *out_interpreter = line + at;
    while (at < end && !is_blank(line[at])) {
        at++;
    }
    if (at == end && !whole) {
        return -ENOEXEC; /* the name was cut off */
    }
    while (end > at && is_blank(line[end - 1])) {
        end--;
    }
    line[end] = 0;
    *out_argument = NULL;
    if (at < end) {
        line[at++] = 0;
        while (is_blank(line[at])) {
            at++;
        }
        *out_argument = line + at;
    }
    return 0;
}

static long head_read(struct exec *exec)
{
    long len = file_read_kernel(exec->file, exec->head, EXEC_HEAD_BYTES, 0);

    if (len < 0) {
        return len;
    }
    exec->head_len = (uint64_t)len;
    return 0;
}

/* While the file is a script, go on to its interpreter. */
static long scripts_resolve(struct exec *exec)
{
    char line[SCRIPT_LINE_BYTES + 1];
    char script[SCRIPT_LINE_BYTES + 1]; /* name of an interpreter that is a script itself */
    const char *name = exec->path;
    char *interpreter;
    char *argument;
    struct file *file;
    long result;
    int depth;

    for (depth = 0; exec->head_len >= 2 && exec->head[0] == '#' && exec->head[1] == '!'; depth++) {
        size_t len =
            exec->head_len < SCRIPT_LINE_BYTES ? (size_t)exec->head_len : SCRIPT_LINE_BYTES;

        if (depth == SCRIPT_DEPTH_MAX) {
            return -ELOOP;
        }
        memcpy(line, exec->head, len);
        result = script_parse(line, len, &interpreter, &argument);
        if (result == 0) {
            result = exec_strings_script(&exec->strings, interpreter, argument, name);
        }
        if (result == 0) {
            result = vfs_open_exec(AT_FDCWD, interpreter, 0, &file);
        }
        if (result != 0) {
            return result;
        }
        file_put(exec->file);
        exec->file = file;
        result = head_read(exec);
        if (result != 0) {
            return result;
        }
        memcpy(script, interpreter, strlen(interpreter) + 1);
        name = script;
    }
    return 0;
}

/* ----------------------------------------------------------------------- the other threads */

/* The main thread's place, number and parent's knowledge of it pass to the thread that execs. */
static struct task *main_task_take_over(struct process *process, struct task *task)
{
    struct task *main_task = &process->main_task;
    unsigned long flags = proc_lock();
    unsigned long inner = signal_lock(process);
    struct task *next = main_task->tid_next;

    tid_unhash(task);
    pid_release(task->tid);
    *main_task = *task;
    main_task->tid = process->pid;
    main_task->tid_next = next;
    vli_list_init(&main_task->link);
    vli_list_remove(&task->link);
    vli_list_insert_before(&process->tasks, &main_task->link);
    vli_list_init(&main_task->pending.queue);
    vli_list_splice(&task->pending.queue, &main_task->pending.queue);
    main_task->thread->proc_private = main_task;
    main_task->thread->tid = process->pid;
    signal_unlock(process, inner);
    proc_unlock(flags);
    task_discard(task);
    return main_task;
}

/* Returns: 0 when the running thread is the only one left; -EAGAIN: the process is dying. */
static long other_threads_end(struct process *process)
{
    struct task *self = current_task();
    unsigned long flags = signal_lock(process);
    struct vli_list *pos;
    struct waiter waiter;
    long result = 0;

    if (process->group_exit != 0 || process->exec_thread != NULL) {
        signal_unlock(process, flags);
        return -EAGAIN;
    }
    process->exec_thread = current();
    vli_list_each (pos, &process->tasks) {
        struct task *task = vli_list_entry(pos, struct task, link);

        if (task != self) {
            thread_kill_mark(task->thread);
        }
    }
    signal_unlock(process, flags);
    waiter_init(&waiter);
    for (;;) {
        bool alone;

        wait_prepare(&process->child_wait, &waiter, WAIT_UNINTERRUPTIBLE);
        flags = signal_lock(process);
        alone = process->task_count == 1;
        signal_unlock(process, flags);
        if (alone) {
            break;
        }
        (void)!wait_sleep(WAIT_FOREVER);
    }
    wait_finish(&waiter);
    flags = signal_lock(process);
    process->exec_thread = NULL;
    if (process->group_exit != 0) {
        result = -EAGAIN;
    }
    signal_unlock(process, flags);
    return result;
}

/* -------------------------------------------------------------------------------- commit */

static void name_set(struct thread *thread, const char *path)
{
    const char *base = path;
    size_t len;

    for (; *path != 0; path++) {
        if (*path == '/') {
            base = path + 1;
        }
    }
    len = strlen(base);
    len = len < sizeof(thread->name) ? len : sizeof(thread->name) - 1;
    memset(thread->name, 0, sizeof(thread->name));
    memcpy(thread->name, base, len);
}

/* Set-id programs. */
static void cred_exec(struct process *process, const struct file *file)
{
    struct credentials *cred = &process->cred;
    uint32_t mode = file_mode(file);
    uint32_t uid;
    uint32_t gid;

    process->keep_caps = 0;
    if ((mode & 06000u) != 0 && process->no_new_privs == 0) {
        file_owner(file, &uid, &gid);
        if ((mode & 04000u) != 0) {
            cred->euid = uid;
        }
        if ((mode & 02010u) == 02010u) {
            cred->egid = gid;
        }
    }
    cred->suid = cred->euid;
    cred->fsuid = cred->euid;
    cred->sgid = cred->egid;
    cred->fsgid = cred->egid;
    cred->cap_permitted = cred->euid == 0 ? CAPABILITIES_ALL : 0;
    cred->cap_effective = cred->cap_permitted;
}

/* The old space and file go; the new ones are in place. */
static void exec_switch(struct exec *exec, struct process *process, struct task *task)
{
    struct vl_space *old_space = process->space;
    struct file *old_exe = process->exe;
    unsigned long flags;

    vl_space_set_brk(exec->space, exec->brk);
    process_apply_limits(process, exec->space);
    flags = signal_lock(process);
    process->space = exec->space;
    process->flags &= ~PROCESS_SHARES_SPACE;
    process->flags |= PROCESS_EXECED;
    process->exe = exec->file;
    signal_unlock(process, flags);
    thread_use_space(exec->space);
    exec->space = NULL;
    exec->file = NULL;
    process->arg_start = exec->arg_start;
    process->arg_end = exec->arg_end;
    process->env_start = exec->env_start;
    process->env_end = exec->env_end;
    process->stack_start = exec->sp;
    task->altstack_base = 0;
    task->altstack_size = 0;
    task->altstack_flags = 0;
    task->restart = NULL;
    if (old_space != NULL) {
        vl_space_put(old_space);
    }
    if (old_exe != NULL) {
        file_put(old_exe);
    }
}

static void exec_commit(struct exec *exec)
{
    struct process *process = current_process();
    struct task *task = current_task();
    struct trap_frame *frame = current_frame();
    vl_va entry = exec->entry;
    vl_va sp = exec->sp;

    if (process->space != NULL) {
        space_leave(task);
    }
    if (task != &process->main_task) {
        task = main_task_take_over(process, task);
    }
    posix_timers_end(process);
    cred_exec(process, exec->file);
    process->exit_signal = SIGCHLD;
    exec_switch(exec, process, task);
    files_close_on_exec(process->files);
    name_set(current(), exec->path);
    fpu_reset();
    thread_set_fs_base(0);
    thread_set_gs_base(0);
    trap_frame_user_init(frame, entry, sp);
    frame->error = UINT64_MAX;
}

/* ----------------------------------------------------------------------------- the whole */

/* exec->file is open, exec->strings are collected. On failure the process is as before, unless it
 * has been told to die. */
static long exec_run(struct exec *exec)
{
    struct process *process = current_process();
    long result = head_read(exec);

    if (result == 0) {
        result = scripts_resolve(exec);
    }
    if (result != 0) {
        return result;
    }
    result = (long)vl_space_create(&exec->space);
    if (result != 0) {
        return result;
    }
    result = elf_load(exec);
    if (result == 0) {
        result = exec_stack(exec);
    }
    if (result == 0 && process->task_count > 1) {
        result = other_threads_end(process);
        exec->too_late = exec->too_late && result == 0;
    }
    if (result == 0) {
        result = signal_actions_exec(process);
    }
    if (result != 0) {
        if (exec->too_late && result != -EAGAIN && process->space != NULL) {
            signal_force_fatal(SIGSEGV);
        }
        return result;
    }
    exec_commit(exec);
    return 0;
}

/* All but the head, which is large and written before it is read. */
static void exec_init(struct exec *exec, const char *path)
{
    exec->path = path;
    exec->file = NULL;
    exec->space = NULL;
    exec->strings = (struct exec_strings){0};
    exec->head_len = 0;
    exec->interpreter_base = 0;
    exec->too_late = false;
}

static void exec_free(struct exec *exec)
{
    if (exec->space != NULL) {
        vl_space_put(exec->space);
    }
    if (exec->file != NULL) {
        file_put(exec->file);
    }
    exec_strings_free(&exec->strings);
}

/* The name that a program opened beside a descriptor goes by, as on Linux: /dev/fd/N[/path]. */
static char *fd_path(int dirfd, const char *path)
{
    size_t size = strlen(path) + 24;
    char *name = vl_kmalloc(size, VL_WAIT);

    if (name != NULL) {
        (void)vli_print(name, size, path[0] != 0 ? "/dev/fd/%d/%s" : "/dev/fd/%d%s", dirfd, path);
    }
    return name;
}

static long exec_path(int dirfd, const char *path, uint64_t argv, uint64_t envp, unsigned at_flags)
{
    struct exec *exec = vl_kmalloc(sizeof(*exec), VL_WAIT);
    char *name = NULL;
    long result = -ENOMEM;

    if (exec == NULL) {
        return -ENOMEM;
    }
    exec_init(exec, path);
    if (dirfd != AT_FDCWD && path[0] != '/') {
        name = fd_path(dirfd, path);
        exec->path = name;
    }
    if (exec->path != NULL) {
        result = vfs_open_exec(dirfd, path, at_flags, &exec->file);
    }
    if (result == 0) {
        result = exec_strings_user(&exec->strings, argv, envp);
    }
    if (result == 0) {
        result = exec_run(exec);
    }
    exec_free(exec);
    vl_kfree(exec);
    vl_kfree(name);
    return result;
}

static long exec_user(int dirfd, uint64_t user_path, uint64_t argv, uint64_t envp,
                      unsigned at_flags)
{
    char *path;
    long result =
        user_path_get(&path, user_path,
                      (at_flags & AT_EMPTY_PATH) != 0 ? PATH_EMPTY_ALLOWED : PATH_EMPTY_REFUSED);

    if (result != 0) {
        return result;
    }
    result = -EINVAL;
    if ((at_flags & ~(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW)) == 0) {
        unsigned tries = 0;

        do {
            result = exec_path(dirfd, path, argv, envp, at_flags);
        } while (result == -ENOMEM && memory_again(tries++));
    }
    user_path_put(path);
    return result;
}

long exec_kernel(const char *path, const char *const *argv, const char *const *envp)
{
    struct exec *exec = vl_kmalloc(sizeof(*exec), VL_WAIT);
    long result;

    if (exec == NULL) {
        return -ENOMEM;
    }
    exec_init(exec, path);
    result = vfs_open_exec(AT_FDCWD, path, 0, &exec->file);
    if (result == 0) {
        result = exec_strings_kernel(&exec->strings, argv, envp);
    }
    if (result == 0) {
        result = exec_run(exec);
    }
    exec_free(exec);
    vl_kfree(exec);
    return result;
}

SYSCALL(execve)
{
    return exec_user(AT_FDCWD, (uint64_t)a, (uint64_t)b, (uint64_t)c, 0);
}

SYSCALL(execveat)
{
    return exec_user((int)a, (uint64_t)b, (uint64_t)c, (uint64_t)d, (unsigned)e);
}
