/*
 * internal.h - what the files of kernel/proc share.
 *
 * Locks, outermost first: proc_lock (the tree, groups, sessions, tids), a process's signal_lock.
 * Two signal_locks are never held at once. Both are taken with interrupts off, since a tty's or a
 * timer's interrupt sends signals; nothing is allocated or freed under them.
 */
#ifndef KERNEL_PROC_INTERNAL_H
#define KERNEL_PROC_INTERNAL_H

#include <vellum/vellum.h>
#include "core/base/bits.h"
#include "kernel/cpu/fpu.h"
#include "kernel/cpu/uaccess.h"
#include "kernel/fs/file.h"
#include "kernel/lib/mem.h"
#include "kernel/lib/printk.h"
#include "kernel/proc/process.h"
#include "kernel/proc/syscall.h"
#include "kernel/proc/syscall_list.h"

#define NS_PER_SECOND 1000000000ull
#define NS_PER_US     1000ull

/* ------------------------------------------------------------------------------- oom.c */

/** memory_again() - a call found no memory, @tries times before, and changed nothing: is it worth
 * another try? The out-of-memory policy was asked, or memory was found to be there.
 * Context: thread, no locks; waits for a victim. */
bool memory_again(unsigned tries);

/* ------------------------------------------------------------------------------- pid.c */

extern struct vli_spinlock proc_lock_word;

/** unfair_lock_slow() - take @lock, which somebody holds; interrupts are off before and after, and
 * as @flags says between. */
void unfair_lock_slow(struct vli_spinlock *lock, unsigned long flags);

/*
 * Both locks are taken by trying, not by drawing a ticket: in a virtual machine with more CPUs than
 * its host has, the next in a first-come order is mostly one that the host is not running, and each
 * handing over waits for a time slice of the host (measured: 30 ms at -smp 8 on two cores).
 */
static inline unsigned long unfair_lock(struct vli_spinlock *lock,
                                        enum vli_rank rank) VL_NO_LOCK_CHECK
{
    unsigned long flags = vl_host_irq_save();

    if (VLI_UNLIKELY(!vli_spin_raw_try_lock(lock))) {
        unfair_lock_slow(lock, flags);
    }
    vli_rank_push(rank);
    return flags;
}

static inline unsigned long proc_lock(void)
{
    return unfair_lock(&proc_lock_word, KRANK_PROC);
}

static inline void proc_unlock(unsigned long flags) VL_NO_LOCK_CHECK
{
    vli_spin_unlock_irq(&proc_lock_word, KRANK_PROC, flags);
}

static inline unsigned long signal_lock(struct process *process)
{
    return unfair_lock(&process->signal_lock, KRANK_SIGNAL);
}

static inline void signal_unlock(struct process *process, unsigned long flags) VL_NO_LOCK_CHECK
{
    vli_spin_unlock_irq(&process->signal_lock, KRANK_SIGNAL, flags);
}

extern struct process *init_process;

/** pid_alloc() - a number that no task, group or session bears. 0: none. Locks: proc_lock held. */
uint32_t pid_alloc(void);
/** pid_release() - @pid's task is gone: free the number unless a group or session bears it. Locks:
 * proc_lock held. */
void pid_release(uint32_t pid);
/** tid_hash() - make a task known by its tid. Locks: proc_lock held. */
void tid_hash(struct task *task);
/** tid_unhash() - Locks: proc_lock held. */
void tid_unhash(struct task *task);
/** tid_find() - Locks: proc_lock held. Returns: NULL: none. */
struct task *tid_find(uint32_t tid);
/** pid_find() - the process whose pid it is. Locks: proc_lock held. */
struct process *pid_find(uint32_t pid);

/** group_find() - Locks: proc_lock held. */
struct process_group *group_find(uint32_t pgid);
/** group_join() - Locks: proc_lock held. */
void group_join(struct process *process, struct process_group *group);
/** group_leave() - Locks: proc_lock held. Returns: the group when it was the last member: free it
 * by group_free() without locks. */
struct process_group *group_leave(struct process *process);
void group_free(struct process_group *group);
/** group_create() - an empty group, of a fresh session or of one that group_publish() gives; not
 * yet published. Context: may sleep, no locks. Returns: NULL: no memory. */
enum group_session { GROUP_SESSION_FRESH, GROUP_SESSION_GIVEN };
struct process_group *group_create(uint32_t id, enum group_session session);
/** group_publish() - Locks: proc_lock held. */
void group_publish(struct process_group *group, struct session *session);
/** group_is_orphaned() - without regard to @without (may be NULL). Locks: proc_lock held. */
bool group_is_orphaned(const struct process_group *group, const struct process *without);

/* --------------------------------------------------------------------------- process.c */

/** process_create() - a process with one reference, one hashed-to-be main task, no thread yet:
 * zeroed but for its lists, locks and number. Returns: NULL: no memory. */
struct process *process_create(void);
/** task_init() - fields of a new task of @process. */
void task_init(struct task *task, struct process *process, struct thread *thread);
struct task *task_alloc(void);
/** task_discard() - free what task_alloc() gave. */
void task_discard(struct task *task);
/** task_count_down() - undoes the counting of task_init(). */
void task_count_down(void);
/** process_unlink() - take a zombie out of the tree: it is reaped. Locks: proc_lock held. Returns:
 * its group when to be freed. Drop the tree's reference afterwards, without locks. */
struct process_group *process_unlink(struct process *process);

void rlimits_put(struct rlimits *limits);
/** rlimits_share() - @process's table with a reference. */
struct rlimits *rlimits_share(struct process *process);
/** rlimit_exchange() - read and, unless @fresh is NULL, set a limit. Returns: 0, -EPERM, -ENOMEM.
 */
long rlimit_exchange(struct process *process, unsigned number, const struct rlimit_pair *fresh,
                     struct rlimit_pair *out_old);
void groups_put(struct group_list *groups);
/** process_apply_limits() - tell the space the soft limits. */
void process_apply_limits(struct process *process, struct vl_space *space);

/* User and system time of the threads that live and of those that have ended. */
void process_times(struct process *process, uint64_t *out_user_ns, uint64_t *out_system_ns);
void thread_times(struct thread *thread, uint64_t *out_user_ns, uint64_t *out_system_ns);

/* ------------------------------------------------------------------------------ exit.c */

/** task_exit() - end the running thread with wait status @status (if it is the last one).
 * Context: thread, no locks. Does not return. */
_Noreturn void task_exit(uint32_t status);
/** group_exit_start() - all threads of the running process die with @status, unless that has begun
 * already. */
void group_exit_start(uint32_t status);
/** space_leave() - what a thread does before it leaves its space at exec or exit: robust futexes,
 * the clear_child_tid word, the parent that waits in vfork. */
void space_leave(struct task *task);

struct signal_node;
struct vfork_wait {
    struct wait_queue queue;
    _Atomic uint32_t done;
};

/* ------------------------------------------------------------------------------ wait.c */

struct wait_result {
    uint32_t pid;
    uint32_t uid;
    uint32_t status; /* as wait4() gives it */
    int32_t code;    /* CLD_* */
};

/** child_notify() - tell the parent that @process has ended, stopped or gone on (@code: CLD_*).
 * Context: no locks held. */
void child_notify(struct process *process, int code, uint32_t status);

/**
 * child_report_exit() - @process has become a zombie, or has got a new parent as one: tell it.
 * @node: room for the siginfo, taken (set to NULL) when used; may be NULL.
 * Locks: proc_lock held.
 * Returns: true when the parent does not want to know: it is to be reaped at once.
 */
bool child_report_exit(struct process *process, struct signal_node **node);

/* ---------------------------------------------------------------------------- signal.c */

struct signal_action {
    uint64_t handler; /* 0 SIG_DFL, 1 SIG_IGN, or an address */
    uint64_t flags;   /* SA_* */
    uint64_t restorer;
    signal_set mask;
};
#define SIG_DFL      0u
#define SIG_IGN      1u
#define SA_NOCLDSTOP 0x00000001u
#define SA_NOCLDWAIT 0x00000002u
#define SA_SIGINFO   0x00000004u
#define SA_RESTORER  0x04000000u
#define SA_ONSTACK   0x08000000u
#define SA_RESTART   0x10000000u
#define SA_NODEFER   0x40000000u
#define SA_RESETHAND 0x80000000u
#define SA_KNOWN                                                                                   \
    (SA_NOCLDSTOP | SA_NOCLDWAIT | SA_SIGINFO | SA_RESTORER | SA_ONSTACK | SA_RESTART |            \
     SA_NODEFER | SA_RESETHAND | 0x00000800u /* SA_EXPOSE_TAGBITS */)
#define MINSIGSTKSZ 2048u

struct signal_actions {
    _Atomic uint32_t references;
    uint32_t pad;
    signal_set ignored; /* explicitly SIG_IGN */
    signal_set caught;
    struct signal_action action[SIGNAL_MAX];
};

/* A siginfo that waits to be delivered. */
struct signal_node {
    struct vli_list link;
    struct signal_info info;
};

/* Default actions. */
#define SIGNALS_DEFAULT_IGNORE                                                                     \
    (SIGNAL_BIT(SIGCHLD) | SIGNAL_BIT(SIGCONT) | SIGNAL_BIT(SIGURG) | SIGNAL_BIT(SIGWINCH))
#define SIGNALS_DEFAULT_STOP                                                                       \
    (SIGNAL_BIT(SIGSTOP) | SIGNAL_BIT(SIGTSTP) | SIGNAL_BIT(SIGTTIN) | SIGNAL_BIT(SIGTTOU))
#define SIGNALS_FAULT                                                                              \
    (SIGNAL_BIT(SIGSEGV) | SIGNAL_BIT(SIGBUS) | SIGNAL_BIT(SIGILL) | SIGNAL_BIT(SIGTRAP) |         \
     SIGNAL_BIT(SIGFPE) | SIGNAL_BIT(SIGSYS))
#define SIGNALS_DEFAULT_CORE                                                                       \
    (SIGNAL_BIT(SIGQUIT) | SIGNAL_BIT(SIGILL) | SIGNAL_BIT(SIGTRAP) | SIGNAL_BIT(SIGABRT) |        \
     SIGNAL_BIT(SIGFPE) | SIGNAL_BIT(SIGSEGV) | SIGNAL_BIT(SIGBUS) | SIGNAL_BIT(SIGSYS) |          \
     SIGNAL_BIT(SIGXCPU) | SIGNAL_BIT(SIGXFSZ))

extern struct signal_actions signal_default_actions;

/** signal_actions_put() - Context: no locks. */
void signal_actions_put(struct signal_actions *actions);
/** signal_actions_exec() - what the actions become at execve: handlers go, ignoring stays.
 * Returns: 0 or -ENOMEM, nothing changed. */
long signal_actions_exec(struct process *process);

/** signal_init() - caches. */
void signal_init(void);
/** signal_action_store() - set one action. Context: may sleep. Returns: 0 or -ENOMEM. */
long signal_action_store(struct process *process, int signo, const struct signal_action *action);
/** signal_drop_locked() - forget what is pending of @set; nodes go to @out. Locks: signal_lock. */
void signal_drop_locked(struct process *process, signal_set set, struct vli_list *out);
struct signal_node *signal_node_alloc(void);
void signal_node_free(struct signal_node *node);
/** signal_nodes_free() - those on a private list. */
void signal_nodes_free(struct vli_list *nodes);
/** signal_queue_clear() - drop all that is pending. Context: no locks; nobody else sees it. */
void signal_queue_clear(struct signal_pending *pending);

enum signal_target { SIGNAL_TO_PROCESS, SIGNAL_TO_TASK };

/**
 * signal_post_locked() - queue @info for @task (SIGNAL_TO_TASK) or its process, and wake who takes
 * it. @node: for the info, or NULL (the info is then lost); consumed when the result says so.
 * Locks: signal_lock of the process held.
 * Returns: true when @node was used.
 */
bool signal_post_locked(struct process *process, struct task *task, const struct signal_info *info,
                        struct signal_node *node);

/** signal_post() - the same without the lock held; @task NULL: to the process. Context: any. */
void signal_post(struct process *process, struct task *task, const struct signal_info *info);

/** signal_send_info() - as kill(): may the running process, then post. 0 or -EPERM. */
long signal_send_info(struct process *process, const struct signal_info *info);
/** signal_info_for() - the siginfo that a user hands in at @user, or kill()'s own when that is 0.
 * Returns: 0; -EFAULT; -EINVAL (no such signal); -EPERM (pretends to be the kernel). */
long signal_info_for(int signo, uint64_t user, bool to_self, struct signal_info *out);

/** signal_send_bare() - send @signo from the kernel without a siginfo. Locks: proc_lock may be
 * held. */
void signal_send_bare(struct process *process, int signo);

/** signal_force() - a fault of the running thread: cannot be ignored or blocked. */
void signal_force(const struct signal_info *info);
/** signal_force_kill() - end the running process by @signo whatever it says (a broken frame, an
 * execve past return). */
void signal_force_fatal(int signo);

/** signal_mark_self() - if anything is pending that the running thread may take, have
 * proc_return_work() called; otherwise take the mark away. */
void signal_mark_self(struct task *task);
void signal_mark_self_locked(struct task *task);

/** signal_dequeue() - take one signal out of those in @allowed. Locks: signal_lock held. Returns:
 * its number and @out, or 0; *@out_node is to be freed without locks. */
int signal_dequeue_locked(struct task *task, signal_set allowed, struct signal_info *out,
                          struct signal_node **out_node);

/** signal_is_fatal_pending() - is the running thread to die? For waits that only SIGKILL ends. */
bool signal_is_fatal_pending(struct task *task);

/** signal_kill_locked() - SIGKILL from the kernel. Locks: signal_lock held. */
void signal_kill_locked(struct process *process);

/* ---------------------------------------------------------------------- signal_frame.c */

/** signal_frame_push() - have the thread run @action's handler next. Returns: 0; -EFAULT: the
 * stack cannot take the frame. */
long signal_frame_push(struct trap_frame *frame, struct task *task, const struct signal_info *info,
                       const struct signal_action *action, signal_set mask);

/** signal_altstack_set() - sigaltstack() with the stack pointer at @sp. Returns: 0, -EPERM,
 * -EINVAL, -ENOMEM. */
long signal_altstack_set(struct task *task, uint64_t base, uint32_t flags, uint64_t size,
                         uint64_t sp);

/* ----------------------------------------------------------------------------- futex.c */

void futex_init(void);
/** futex_wake_word() - wake waiters on a word of the running thread's space, shared and private
 * alike (the word of CLONE_CHILD_CLEARTID, a robust futex). */
void futex_wake_word(uint64_t word, unsigned count);
/** futex_robust_exit() - walk the thread's robust list. */
void futex_robust_exit(struct task *task);

/* ------------------------------------------------------------------------------ exec.c */

struct exec_source;
/** exec_kernel() - the running kernel thread's process becomes program @path with arguments from
 * the kernel's memory, NULL-ended. Returns: 0 or a negated errno. */
long exec_kernel(const char *path, const char *const *argv, const char *const *envp);

/* --------------------------------------------------------------------------- sys_time.c */

void itimers_init(struct process *process);
/** itimers_cancel() - at exit. Context: no locks. */
void itimers_cancel(struct process *process);

/* ------------------------------------------------------------------------------ calls */

/* A struct timespec or timeval in the user's memory: two 64-bit numbers. */
struct user_time {
    int64_t sec;
    int64_t sub; /* ns or us */
};

/** thread_policy_set() - what sched_getscheduler() tells of a thread (sys_sched.c). Returns: 0, or
 * -EPERM where only root may. */
long thread_policy_set(struct thread *thread, uint32_t policy);
/** user_timespec_get() - Returns: 0, -EFAULT, -EINVAL. */
long user_timespec_get(uint64_t user, uint64_t *out_ns);
long user_timespec_put(uint64_t user, uint64_t ns);

/** deadline_after() - now + @ns, saturating below WAIT_FOREVER. */
uint64_t deadline_after(uint64_t ns);

struct user_rusage {
    struct user_time user, system;
    int64_t maxrss_kib, ixrss, idrss, isrss, minflt, majflt, nswap, inblock, oublock, msgsnd,
        msgrcv, nsignals, nvcsw, nivcsw;
};
_Static_assert(sizeof(struct user_rusage) == 144, "struct rusage");

#define SYSCALL_RESTART_NUMBER 219u

#endif
