/*
 * init.c - the first program: process 1, in the kernel thread that has started everything.
 *
 * As Linux with an initial file system: rdinit= (default /init) is tried first; if there is none,
 * init=, then /sbin/init, /etc/init, /bin/init, /bin/sh. Its arguments and environment are what the
 * command line had left over.
 */
#include "kernel/boot/boot.h"
#include "kernel/proc/internal.h"

#define STRINGS_MAX (BOOT_INIT_ARGS_MAX + 3u)

static void process_one_create(void)
{
    struct process *process = process_create();
    struct process_group *group = group_create(1, GROUP_SESSION_FRESH);
    struct task *task;
    unsigned long flags;

    if (process == NULL || group == NULL) {
        panic("no memory for the first process");
    }
    process->files = files_create();
    process->fs = fs_context_create();
    if (process->files == NULL || process->fs == NULL) {
        printk(VL_LOG_ERROR, "no files in this build: power off");
        machine_poweroff();
    }
    task = &process->main_task;
    task_init(task, process, current());
    process->cred.cap_permitted = CAPABILITIES_ALL;
    process->cred.cap_effective = CAPABILITIES_ALL;
    process->flags = PROCESS_UNKILLABLE;
    process->exit_signal = SIGCHLD;
    process->start_ns = clock_ns();
    vli_list_insert_before(&process->tasks, &task->link);
    process->task_count = 1;
    process_get(process); /* the tree's */
    init_process = process;
    flags = proc_lock();
    process->pid = pid_alloc();
    task->tid = process->pid;
    current()->tid = process->pid;
    group_publish(group, group->session);
    group->session->leader = NULL; /* Linux: process 1 starts in session 0 */
    group_join(process, group);
    vli_list_init(&process->sibling);
    tid_hash(task);
    proc_unlock(flags);
    VL_ASSERT(process->pid == 1);
}

/* Runs @path with the boot options' arguments. Returns only on failure. */
static long run(const char *path)
{
    const struct boot_options *options = boot_options();
    const char *argv[STRINGS_MAX];
    const char *envp[STRINGS_MAX];
    unsigned i;
    long result;

    argv[0] = path;
    for (i = 0; i < options->init_arg_count; i++) {
        argv[i + 1] = options->init_args[i];
    }
    argv[i + 1] = NULL;
    envp[0] = "HOME=/";
    envp[1] = "TERM=linux";
    for (i = 0; i < options->init_env_count; i++) {
        envp[i + 2] = options->init_env[i];
    }
    envp[i + 2] = NULL;
    result = exec_kernel(path, argv, envp);
    if (result == 0) {
        printk(VL_LOG_INFO, "Run %s as init process", path);
        trap_return_to_user();
    }
    return result;
}

void proc_run_init(void)
{
    static const char *const fallback[] = {"/sbin/init", "/etc/init", "/bin/init", "/bin/sh"};
    const struct boot_options *options = boot_options();
    long result;
    unsigned i;

    process_one_create();
    if (vfs_open_console(current_files()) != 0) {
        printk(VL_LOG_WARNING, "Warning: unable to open an initial console.");
    }
    result = run(options->rdinit);
    if (result != -ENOENT) {
        printk(VL_LOG_ERROR, "Failed to execute %s (error %ld)", options->rdinit, result);
    }
    if (options->init != NULL) {
        result = run(options->init);
        panic("Requested init %s failed (error %ld).", options->init, result);
    }
    for (i = 0; i < VLI_COUNT_OF(fallback); i++) {
        result = run(fallback[i]);
        if (result != -ENOENT) {
            printk(VL_LOG_ERROR, "Starting init: %s exists but couldn't execute it (error %ld)",
                   fallback[i], result);
        }
    }
    panic("No working init found.");
}
