/*
 * proc_process.c - what /proc/PID says of a process.
 *
 * A process is looked up anew for each text: the entry of one that is gone gives ESRCH.
 */
#include "kernel/dev/tty.h"
#include "kernel/fs/context.h"
#include "kernel/fs/fdtable.h"
#include "kernel/fs/proc.h"
#include "kernel/lib/mem.h"
#include "kernel/proc/process.h"

#define NS_PER_TICK 10000000u

bool proc_is_allowed(uint32_t pid)
{
    struct process *self = current_process();
    struct process *process;
    bool allowed;

    if (self == NULL || self->pid == pid || self->cred.fsuid == 0) {
        return true;
    }
    process = process_find(pid);
    if (process == NULL) {
        return false;
    }
    allowed = process->cred.uid == self->cred.fsuid && process->cred.euid == self->cred.fsuid &&
              process->dumpable != 0;
    process_put(process);
    return allowed;
}

/* Its address space, if the caller may look into it. 0 and *@out (NULL: it has none), or an errno.
 */
static long space_of(uint32_t pid, struct vl_space **out)
{
    struct process *process = process_find(pid);

    if (process == NULL) {
        return -ESRCH;
    }
    if (!proc_is_allowed(pid)) {
        process_put(process);
        return -EACCES;
    }
    *out = process_space_get(process);
    process_put(process);
    return 0;
}

static long show_space(struct proc_text *text, struct proc_key key,
                       size_t (*report)(struct vl_space *space, char *out, size_t size))
{
    struct vl_space *space;
    long result = space_of(key.pid, &space);

    if (result == 0 && space != NULL) {
        size_t room = text->len < text->size ? text->size - text->len : 0;

        text->len += report(space, room != 0 ? text->bytes + text->len : NULL, room);
        vl_space_put(space);
    }
    return result;
}

static long show_maps(struct proc_text *text, struct proc_key key)
{
    return show_space(text, key, vl_report_maps);
}

static long show_smaps(struct proc_text *text, struct proc_key key)
{
    return show_space(text, key, vl_report_smaps);
}

/* ------------------------------------------------------------------------------------ stat */

/* What stat, statm and status need, gathered once. */
struct facts {
    struct process_info info;
    struct vl_space_usage usage;
};

static long facts_get(struct proc_key key, struct facts *out)
{
    struct process *process = process_find(key.pid);
    struct vl_space *space;

    if (process == NULL) {
        return -ESRCH;
    }
    memset(&out->usage, 0, sizeof(out->usage));
    process_info(process, &out->info);
    space = process_space_get(process);
    if (space != NULL) {
        vl_space_usage(space, &out->usage);
        vl_space_put(space);
    }
    process_put(process);
    return 0;
}

static unsigned long ticks(uint64_t ns)
{
    return (unsigned long)(ns / NS_PER_TICK);
}

/* stat's number of a terminal: the minor's upper bits above the major. */
static uint32_t tty_number(struct tty *tty)
{
    uint32_t device = tty != NULL ? tty_device(tty) : 0;

    return (device & 0xffu) | (device >> 20) << 8 | (device & 0xfff00u) << 12;
}

static long show_stat(struct proc_text *text, struct proc_key key)
{
    struct facts facts;
    const struct process_info *info = &facts.info;
    long result = facts_get(key, &facts);
    uint32_t id = key.part != 0 ? key.part : key.pid;

    if (result != 0) {
        return result;
    }
    proc_print(text, "%u (%s) %c %u %u %u %u %d 0 %lu %lu 0 0 %lu %lu %lu %lu %d %d %u 0 %lu ", id,
               info->name, info->state, info->ppid, info->pgid, info->sid, tty_number(info->tty),
               info->tty != NULL ? (int)tty_foreground(info->tty) : -1, (unsigned long)info->faults,
               (unsigned long)info->child_faults, ticks(info->user_ns), ticks(info->system_ns),
               ticks(info->child_user_ns), ticks(info->child_system_ns), 20 + info->nice,
               info->nice, info->threads, ticks(info->start_ns));
    proc_print(text,
               "%lu %lu 18446744073709551615 0 0 0 0 0 %lu %lu %lu %lu 0 0 0 %u %u 0 0 0 0 0 "
               "0 0 0 0 0 0 0 0\n",
               (unsigned long)(facts.usage.mapped * VL_PAGE_SIZE),
               (unsigned long)(facts.usage.anonymous + facts.usage.file),
               (unsigned long)info->pending, (unsigned long)info->blocked,
               (unsigned long)info->ignored, (unsigned long)info->caught, info->exit_signal,
               info->last_cpu);
    return 0;
}

static long show_statm(struct proc_text *text, struct proc_key key)
{
    struct facts facts;
    long result = facts_get(key, &facts);

    if (result == 0) {
        proc_print(text, "%lu %lu %lu 0 0 %lu 0\n", (unsigned long)facts.usage.mapped,
                   (unsigned long)(facts.usage.anonymous + facts.usage.file),
                   (unsigned long)facts.usage.file, (unsigned long)facts.usage.anonymous);
    }
    return result;
}

static const char *state_name(char state)
{
    return state == 'R'   ? "running"
           : state == 'S' ? "sleeping"
           : state == 'D' ? "disk sleep"
           : state == 'T' ? "stopped"
           : state == 'Z' ? "zombie"
                          : "dead";
}

static unsigned long kib(uint64_t pages)
{
    return (unsigned long)(pages * (VL_PAGE_SIZE / 1024));
}

static void print_memory(struct proc_text *text, const struct vl_space_usage *usage)
{
    proc_print(text, "VmPeak:\t%8lu kB\nVmSize:\t%8lu kB\nVmHWM:\t%8lu kB\nVmRSS:\t%8lu kB\n",
               kib(usage->mapped_peak), kib(usage->mapped), kib(usage->resident_peak),
               kib(usage->anonymous + usage->file));
    proc_print(text, "RssAnon:\t%8lu kB\nRssFile:\t%8lu kB\nVmPTE:\t%8lu kB\n",
               kib(usage->anonymous), kib(usage->file), kib(usage->tables));
}

static long show_status(struct proc_text *text, struct proc_key key)
{
    struct facts facts;
    const struct process_info *info = &facts.info;
    long result = facts_get(key, &facts);

    if (result != 0) {
        return result;
    }
    proc_print(text, "Name:\t%s\nState:\t%c (%s)\nTgid:\t%u\nPid:\t%u\nPPid:\t%u\nTracerPid:\t0\n",
               info->name, info->state, state_name(info->state), info->pid,
               key.part != 0 ? key.part : info->pid, info->ppid);
    proc_print(text, "Uid:\t%u\t%u\t%u\t%u\nGid:\t%u\t%u\t%u\t%u\n", info->uid[0], info->uid[1],
               info->uid[2], info->uid[3], info->gid[0], info->gid[1], info->gid[2], info->gid[3]);
    if (info->state != 'Z') {
        print_memory(text, &facts.usage);
    }
    proc_print(text,
               "Threads:\t%u\nSigPnd:\t%016lx\nShdPnd:\t%016lx\nSigBlk:\t%016lx\n"
               "SigIgn:\t%016lx\nSigCgt:\t%016lx\n",
               info->threads, (unsigned long)info->pending, (unsigned long)info->shared_pending,
               (unsigned long)info->blocked, (unsigned long)info->ignored,
               (unsigned long)info->caught);
    proc_print(text, "CapInh:\t%016lx\nCapPrm:\t%016lx\nCapEff:\t%016lx\n",
               (unsigned long)info->cap_inheritable, (unsigned long)info->cap_permitted,
               (unsigned long)info->cap_effective);
    proc_print(text,
               "Cpus_allowed:\t%lx\nvoluntary_ctxt_switches:\t%lu\n"
               "nonvoluntary_ctxt_switches:\t%lu\n",
               (unsigned long)info->affinity.word[0], (unsigned long)info->switches,
               (unsigned long)info->preemptions);
    return 0;
}

static long show_comm(struct proc_text *text, struct proc_key key)
{
    struct facts facts;
    long result = facts_get(key, &facts);

    if (result == 0) {
        proc_print(text, "%s\n", facts.info.name);
    }
    return result;
}

/* A thread names itself, as prctl(PR_SET_NAME) does. */
static long store_comm(const char *bytes, size_t len, struct proc_key key)
{
    struct process *self = current_process();
    struct thread *thread = current();

    if (self == NULL || self->pid != key.pid) {
        return -EPERM;
    }
    len = len != 0 && bytes[len - 1] == '\n' ? len - 1 : len;
    len = len < sizeof(thread->name) - 1 ? len : sizeof(thread->name) - 1;
    memset(thread->name, 0, sizeof(thread->name));
    memcpy(thread->name, bytes, len);
    return 0;
}

/* -------------------------------------------------------- arguments and environment: its memory */

/* Append [@start, @end) of a space, as far as it is there. */
static void append_memory(struct proc_text *text, struct vl_space *space, vl_va start, vl_va end)
{
    while (start < end) {
        size_t within = start & VL_PAGE_MASK;
        size_t piece = VL_PAGE_SIZE - within < end - start ? VL_PAGE_SIZE - within : end - start;
        struct vl_pfn pfn;

        if (vl_space_frame_get(space, start & ~(vl_va)VL_PAGE_MASK, VL_READ, &pfn) != VL_OK) {
            return;
        }
        proc_append(text, (const char *)vl_frame_to_virt(pfn) + within, piece);
        vl_frame_ref_put(pfn);
        start += piece;
    }
}

enum memory_part { PART_ARGUMENTS, PART_ENVIRONMENT };

static long show_memory(struct proc_text *text, struct proc_key key, enum memory_part part)
{
    struct process *process = process_find(key.pid);
    struct vl_space *space;
    vl_va start;
    vl_va end;

    if (process == NULL) {
        return -ESRCH;
    }
    space = process_space_get(process);
    start = part == PART_ARGUMENTS ? process->arg_start : process->env_start;
    end = part == PART_ARGUMENTS ? process->arg_end : process->env_end;
    if (space != NULL) {
        append_memory(text, space, start, end);
        vl_space_put(space);
    }
    process_put(process);
    return 0;
}

static long show_cmdline(struct proc_text *text, struct proc_key key)
{
    return show_memory(text, key, PART_ARGUMENTS);
}

static long show_environ(struct proc_text *text, struct proc_key key)
{
    return proc_is_allowed(key.pid) ? show_memory(text, key, PART_ENVIRONMENT) : -EACCES;
}

/* ---------------------------------------------------------------------------------- limits */

static void print_limit(struct proc_text *text, uint64_t value)
{
    char number[24];

    if (value == RLIM_INFINITY) {
        proc_print(text, "%-20s ", "unlimited");
    } else {
        (void)vli_print(number, sizeof(number), "%lu", (unsigned long)value);
        proc_print(text, "%-20s ", number);
    }
}

static long show_limits(struct proc_text *text, struct proc_key key)
{
    static const struct {
        const char *name;
        const char *unit;
    } names[RLIMIT_COUNT] = {{"Max cpu time", "seconds"},     {"Max file size", "bytes"},
                             {"Max data size", "bytes"},      {"Max stack size", "bytes"},
                             {"Max core file size", "bytes"}, {"Max resident set", "bytes"},
                             {"Max processes", "processes"},  {"Max open files", "files"},
                             {"Max locked memory", "bytes"},  {"Max address space", "bytes"},
                             {"Max file locks", "locks"},     {"Max pending signals", "signals"},
                             {"Max msgqueue size", "bytes"},  {"Max nice priority", NULL},
                             {"Max realtime priority", NULL}, {"Max realtime timeout", "us"}};
    struct process *process = process_find(key.pid);

    if (process == NULL) {
        return -ESRCH;
    }
    proc_print(text, "%-25s %-20s %-20s %-10s\n", "Limit", "Soft Limit", "Hard Limit", "Units");
    for (unsigned i = 0; i < RLIMIT_COUNT; i++) {
        struct rlimit_pair pair = process_rlimit(process, (enum rlimit_number)i);

        proc_print(text, "%-25s ", names[i].name);
        print_limit(text, pair.soft);
        print_limit(text, pair.hard);
        if (names[i].unit != NULL) {
            proc_print(text, "%-10s", names[i].unit);
        }
        proc_print(text, "\n");
    }
    process_put(process);
    return 0;
}

static long show_oom_score(struct proc_text *text, struct proc_key key)
{
    struct process *process = process_find(key.pid);
    struct vl_frame_counts counts;

    if (process == NULL) {
        return -ESRCH;
    }
    vl_frame_counts(&counts);
    proc_print(text, "%lu\n",
               (unsigned long)(process_badness(process) * 1000 / (int64_t)counts.managed));
    process_put(process);
    return 0;
}

static long show_oom_adjust(struct proc_text *text, struct proc_key key)
{
    struct process *process = process_find(key.pid);

    if (process == NULL) {
        return -ESRCH;
    }
    proc_print(text, "%d\n", atomic_load_explicit(&process->oom_adjust, memory_order_relaxed));
    process_put(process);
    return 0;
}

static long store_oom_adjust(const char *bytes, size_t len, struct proc_key key)
{
    bool is_negative = len != 0 && bytes[0] == '-';
    struct process *process;
    uint32_t value;
    int32_t adjust;

    while (len != 0 && (bytes[len - 1] == '\n' || bytes[len - 1] == 0)) {
        len--;
    }
    if (!proc_number(bytes + is_negative, len - is_negative, &value) || value > 1000) {
        return -EINVAL;
    }
    process = process_find(key.pid);
    if (process == NULL) {
        return -ESRCH;
    }
    adjust = is_negative ? -(int32_t)value : (int32_t)value;
    if (adjust < atomic_load_explicit(&process->oom_adjust, memory_order_relaxed) &&
        !capable_root()) {
        process_put(process);
        return -EACCES;
    }
    atomic_store_explicit(&process->oom_adjust, adjust, memory_order_relaxed);
    process_put(process);
    return 0;
}

/* ----------------------------------------------------------------------------------- links */

static long follow_exe(struct dentry **out, struct proc_key key)
{
    struct process *process = process_find(key.pid);
    struct file *exe;
    long result;

    if (process == NULL) {
        return -ENOENT;
    }
    exe = proc_is_allowed(key.pid) ? process_exe_get(process) : NULL;
    process_put(process);
    if (exe == NULL) {
        return proc_is_allowed(key.pid) ? -ENOENT : -EACCES;
    }
    result = dentry_of_file(exe, out);
    file_put(exe);
    return result;
}

static long follow_context(struct dentry **out, struct proc_key key, bool want_root)
{
    struct process *process = process_find(key.pid);
    struct fs_context *context;

    if (process == NULL) {
        return -ENOENT;
    }
    context = proc_is_allowed(key.pid) ? process_fs_get(process) : NULL;
    process_put(process);
    if (context == NULL) {
        return proc_is_allowed(key.pid) ? -ENOENT : -EACCES;
    }
    *out = fs_context_dir(context, want_root);
    fs_context_put(context);
    return 0;
}

static long follow_cwd(struct dentry **out, struct proc_key key)
{
    return follow_context(out, key, false);
}

static long follow_root(struct dentry **out, struct proc_key key)
{
    return follow_context(out, key, true);
}

/* What a process and each of its threads have. */
#define COMMON_FILES                                                                               \
    {.name = "cmdline", .mode = S_IFREG | 0444, .show = show_cmdline},                             \
        {.name = "comm", .mode = S_IFREG | 0644, .show = show_comm, .store = store_comm},          \
        {.name = "cwd", .mode = S_IFLNK | 0777, .follow = follow_cwd},                             \
        {.name = "environ", .mode = S_IFREG | 0400, .show = show_environ},                         \
        {.name = "exe", .mode = S_IFLNK | 0777, .follow = follow_exe},                             \
        {.name = "fd", .mode = S_IFDIR | 0500, .lookup = proc_fd_lookup, .list = proc_fd_list},    \
        {.name = "fdinfo",                                                                         \
         .mode = S_IFDIR | 0555,                                                                   \
         .lookup = proc_fdinfo_lookup,                                                             \
         .list = proc_fd_list},                                                                    \
        {.name = "limits", .mode = S_IFREG | 0444, .show = show_limits},                           \
        {.name = "maps", .mode = S_IFREG | 0444, .show = show_maps},                               \
        {.name = "mounts", .mode = S_IFREG | 0444, .show = proc_mounts},                           \
        {.name = "oom_score", .mode = S_IFREG | 0444, .show = show_oom_score},                     \
        {.name = "oom_score_adj",                                                                  \
         .mode = S_IFREG | 0644,                                                                   \
         .show = show_oom_adjust,                                                                  \
         .store = store_oom_adjust},                                                               \
        {.name = "root", .mode = S_IFLNK | 0777, .follow = follow_root},                           \
        {.name = "smaps", .mode = S_IFREG | 0444, .show = show_smaps},                             \
        {.name = "stat", .mode = S_IFREG | 0444, .show = show_stat},                               \
        {.name = "statm", .mode = S_IFREG | 0444, .show = show_statm},                             \
    {                                                                                              \
        .name = "status", .mode = S_IFREG | 0444, .show = show_status                              \
    }

const struct proc_entry proc_task_files[] = {COMMON_FILES, {.name = NULL}};

static const struct proc_entry pid_files[] = {
    COMMON_FILES,
    {.name = "task", .mode = S_IFDIR | 0555, .lookup = proc_task_lookup, .list = proc_task_list},
    {.name = NULL}};

const struct proc_entry proc_pid_entry = {.mode = S_IFDIR | 0555, .children = pid_files};
