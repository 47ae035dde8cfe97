/*
 * process.h - processes: what their threads share.
 *
 * A process is born by fork with one thread, lives while it has threads, is a zombie until its
 * parent waits, and is freed with the last reference. References are held by its threads, by its
 * place in the tree (born … reaped), and by whoever found it with process_find().
 *
 * Keys of fields: (P) proc_lock; (S) its own signal_lock; (T) its running threads only; (C) set
 * before it is published and constant; (A) atomic.
 */
#ifndef KERNEL_PROC_PROCESS_H
#define KERNEL_PROC_PROCESS_H

#include "kernel/proc/signal.h"
#include "kernel/sched/lock.h"
#include "kernel/sched/thread.h"
#include "kernel/sched/timer.h"
#include "kernel/sched/wait.h"

struct files;      /* kernel/fs: descriptors */
struct fs_context; /* kernel/fs: root, working directory, umask */
struct file;
struct tty;
struct vl_space;

#define PID_MAX     32768u
#define NOFILE_MOST 1048576u /* Linux: fs.nr_open */

/* Numbers of rlimits are Linux's. */
enum rlimit_number {
    RLIMIT_CPU,
    RLIMIT_FSIZE,
    RLIMIT_DATA,
    RLIMIT_STACK,
    RLIMIT_CORE,
    RLIMIT_RSS,
    RLIMIT_NPROC,
    RLIMIT_NOFILE,
    RLIMIT_MEMLOCK,
    RLIMIT_AS,
    RLIMIT_LOCKS,
    RLIMIT_SIGPENDING,
    RLIMIT_MSGQUEUE,
    RLIMIT_NICE,
    RLIMIT_RTPRIO,
    RLIMIT_RTTIME,
    RLIMIT_COUNT
};
#define RLIM_INFINITY UINT64_MAX

struct rlimit_pair {
    uint64_t soft;
    uint64_t hard;
};

/* Shared by all who never changed theirs; copied at the first change. */
struct rlimits {
    _Atomic uint32_t references;
    struct rlimit_pair limit[RLIMIT_COUNT];
};

struct credentials {
    uint32_t uid, euid, suid, fsuid;
    uint32_t gid, egid, sgid, fsgid;
    uint64_t cap_permitted, cap_effective, cap_inheritable;
    struct group_list *groups; /* shared, NULL: none */
};

#define CAPABILITIES_ALL ((uint64_t)0x1ffffffffff) /* 0 … CAP_CHECKPOINT_RESTORE */

#define GROUPS_MAX 64u
struct group_list {
    _Atomic uint32_t references;
    uint32_t count;
    uint32_t gid[GROUPS_MAX];
};

struct session {
    uint32_t id;
    uint32_t references;    /* (P) groups in it */
    struct process *leader; /* (P) NULL when it has exited */
    struct tty *tty;        /* (P) controlling terminal or NULL; tty code reads and sets it under
                             * proc_lock by session_set_tty() */
    struct vli_list link;   /* (P) */
};

struct process_group {
    uint32_t id;
    uint32_t references;     /* (P) members */
    struct session *session; /* (C) */
    struct vli_list members; /* (P) process.group_link */
    struct vli_list link;    /* (P) */
};

/* One queued signal. */
struct signal_pending {
    struct vli_list queue; /* struct signal_node */
    signal_set set;
};

struct signal_actions; /* signal.c */
struct sem_undo;       /* kernel/ipc */
struct posix_timer;

/* What kernel/proc keeps for each thread: thread.proc_private. */
struct task {
    struct thread *thread;
    struct process *process;
    uint32_t tid;
    uint32_t flags;                /* (T) TASK_* */
    struct task *tid_next;         /* (P) chain of the tid table */
    struct vli_list link;          /* (S) process.tasks */
    signal_set blocked;            /* (S) written by its own thread */
    signal_set awaited;            /* (S) by sigtimedwait */
    signal_set saved_blocked;      /* (T) with TASK_RESTORE_MASK */
    struct signal_pending pending; /* (S) */
    uint64_t altstack_base;        /* (T) */
    uint64_t altstack_size;
    uint32_t altstack_flags;
    uint32_t io_priority;     /* (S) ioprio_set()'s; 0: none */
    uint32_t exit_code;       /* wait status while the thread exits by itself */
    uint64_t clear_child_tid; /* (T) user address or 0 */
    uint64_t robust_list;     /* (T) */
    struct vfork_wait *vfork; /* (T) whom to wake at exec or exit */
    /* The last fault, for the signal frame. */
    uint64_t fault_vector;
    uint64_t fault_error;
    uint64_t fault_address;
    /* restart_syscall's work. */
    long (*restart)(struct task *task);
    uint64_t restart_arg[4];
};
#define TASK_RESTORE_MASK 1u

enum process_state { PROCESS_ALIVE, PROCESS_ZOMBIE, PROCESS_DEAD };

struct process {
    _Atomic uint32_t references;
    uint32_t pid;
    _Atomic uint32_t state;       /* (P) enum process_state */
    uint32_t exit_status;         /* as wait4 hands it out */
    struct process *parent;       /* (P) */
    struct vli_list children;     /* (P) */
    struct vli_list sibling;      /* (P) */
    struct process_group *group;  /* (P) */
    struct vli_list group_link;   /* (P) */
    struct wait_queue child_wait; /* wait4 sleeps here */
    uint32_t exit_signal;         /* to the parent; 0: none */
    uint32_t parent_death_signal; /* (T) PR_SET_PDEATHSIG */
    uint32_t is_subreaper;        /* (P) */
    uint32_t flags;               /* (S) PROCESS_* */

    struct vl_space *space; /* (C) but for exec; NULL from exit on */
    /* Read by its own threads without a lock, by others under (S). */
    struct files *files;     /* (S) to change; NULL from exit on */
    struct fs_context *fs;   /* (S) to change; NULL from exit on */
    struct file *exe;        /* (S) to change; what it runs, for /proc/PID/exe */
    struct rlimits *rlimits; /* (S) */
    struct credentials cred; /* (S) to change */

    struct vli_spinlock signal_lock; /* KRANK_SIGNAL, interrupts off */
    uint32_t task_count;             /* (S) threads that have not exited */
    struct vli_list tasks;           /* (S) */
    struct signal_actions *actions;  /* (S) shared until changed */
    struct signal_pending pending;   /* (S) */
    struct wait_queue arrivals;      /* a signal was queued: signalfd waits here */
    uint32_t stop_signal;            /* (S) stopping or stopped by this */
    uint32_t group_exit;             /* (S) all threads die with group_exit_code */
    uint32_t group_exit_code;
    uint32_t stopped_tasks;     /* (S) */
    uint32_t stop_round;        /* (S) counts the stops */
    uint32_t stop_dequeued;     /* (S) a stop signal was taken and not yet acted upon */
    uint32_t continued;         /* (S) the parent is to be told CLD_CONTINUED */
    struct vli_list dropped;    /* (S) signal_nodes to be freed without locks */
    uint32_t report;            /* (P) CLD_STOPPED or CLD_CONTINUED not yet waited for */
    uint32_t report_status;     /* (P) the signal */
    struct thread *exec_thread; /* (S) thread that waits for the others to die */

    uint64_t start_ns;
    uint64_t ended_user_ns, ended_system_ns; /* (S) threads that have exited */
    uint64_t child_user_ns, child_system_ns; /* (P) children waited for */
    uint64_t faults_ended, child_faults;
    uint64_t ended_switches, ended_preemptions;
    uint64_t child_switches, child_preemptions;
    uint64_t resident_peak_ended, child_resident_peak;

    struct timer real_timer;   /* ITIMER_REAL */
    uint64_t real_interval_ns; /* (S) */
    uint64_t real_expires_ns;
    uint32_t timer_used;                            /* the real timer was armed at least once */
    uint64_t virtual_ns[2], virtual_interval_ns[2]; /* (S) ITIMER_VIRTUAL, _PROF */
    _Atomic uint32_t ticking;                       /* proc_tick() has something to do */

    /* For /proc/PID: addresses of what exec laid on the stack. */
    vl_va arg_start, arg_end, env_start, env_end, stack_start;
    char last_name[16];               /* of its last thread, when none is left */
    struct posix_timer *posix_timers; /* (S) timer_create()'s, by number */
    struct sem_undo *sem_undo; /* kernel/ipc's, under its lock; NULL until SEM_UNDO was used */
    uint32_t personality;
    uint32_t dumpable;
    _Atomic int32_t oom_adjust; /* -1000 … 1000, thousandths of memory; -1000: never chosen */
    uint32_t memory_policy;     /* MPOL_*, for get_mempolicy() */
    uint32_t no_new_privs;
    uint32_t keep_caps;      /* PR_SET_KEEPCAPS */
    uint64_t timer_slack_ns; /* PR_SET_TIMERSLACK; 0: the usual one */
    uint32_t membarrier;     /* registered for the private expedited one */
    struct task main_task;   /* of the thread with tid == pid */
};
#define PROCESS_UNKILLABLE   1u /* process 1: signals without a handler do not touch it */
#define PROCESS_EXECED       2u /* has called execve: setpgid by its parent is refused */
#define PROCESS_SHARES_SPACE 4u /* vfork, CLONE_VM: another process has its space too */

/** current_process() - of the running thread; NULL in a kernel thread. */
static inline struct process *current_process(void)
{
    return current()->proc;
}

/** current_task() - of the running thread of a process. */
static inline struct task *current_task(void)
{
    return (struct task *)current()->proc_private;
}

/** current_files() - descriptors of the running process. */
static inline struct files *current_files(void)
{
    return current_process()->files;
}

static inline struct fs_context *current_fs(void)
{
    return current_process()->fs;
}

static inline const struct credentials *current_cred(void)
{
    return &current_process()->cred;
}

/** process_find() - the process with @pid, zombies too, with a reference; NULL: none.
 * Context: any but under proc_lock. End with process_put(). */
struct process *process_find(uint32_t pid);

/** process_next() - for listings: the process with the lowest pid ≥ @pid, with a reference. */
struct process *process_next(uint32_t pid);

void process_get(struct process *process);
/** process_put() - Context: any but under proc_lock. */
void process_put(struct process *process);

/** process_space_get() - its space with a reference (vl_space_put()), NULL when it has none any
 * more. Context: any but under its signal_lock. */
struct vl_space *process_space_get(struct process *process);

/** process_files_get() - its descriptor table with a reference (files_put()), or NULL.
 * Context: any but under its signal_lock. */
struct files *process_files_get(struct process *process);
/** process_fs_get() - its fs_context with a reference (fs_context_put()), or NULL. */
struct fs_context *process_fs_get(struct process *process);
/** process_exe_get() - the program that it runs, with a reference (file_put()), or NULL. */
struct file *process_exe_get(struct process *process);

/** process_badness() - how soon the out-of-memory policy chooses it: pages, adjusted; at most 0:
 * never. */
int64_t process_badness(struct process *process);

/** process_count() - processes that exist, zombies too; and threads. */
unsigned process_count(unsigned *out_threads);

/** process_last_pid() - the newest pid, for /proc/loadavg. */
uint32_t process_last_pid(void);

/** kernel_release() - uname -r. */
const char *kernel_release(void);

/** random_fill() - random bytes, as getrandom() gives. Context: any. */
void random_fill(void *out, size_t len);

/** rlimit_soft() - the running process's soft limit. */
uint64_t rlimit_soft(enum rlimit_number number);

/** process_rlimit() - one limit of any process. */
struct rlimit_pair process_rlimit(struct process *process, enum rlimit_number number);

/** capable_root() - may the running process do what only root may? */
static inline bool capable_root(void)
{
    return current_cred()->euid == 0;
}

/** cred_in_group() - is @gid the running process's file-system group or one of its groups? */
bool cred_in_group(uint32_t gid);

/* What /proc/PID/stat and status show; a snapshot. */
struct process_info {
    uint32_t pid, ppid, pgid, sid, threads;
    char name[16];
    char state; /* R S D T Z */
    int32_t nice;
    uint32_t exit_signal;
    uint32_t uid[4], gid[4]; /* real, effective, saved, file system */
    struct tty *tty;
    uint64_t start_ns, user_ns, system_ns, child_user_ns, child_system_ns;
    uint64_t faults, child_faults;
    uint64_t switches, preemptions;
    signal_set pending, shared_pending, blocked, ignored, caught;
    uint64_t cap_permitted, cap_effective, cap_inheritable;
    struct vl_cpumask affinity;
    uint32_t last_cpu;
};
/** process_info() - fill @out. Context: thread. */
void process_info(struct process *process, struct process_info *out);

/* The texts of uname(2), in its order. */
enum uname_field {
    UNAME_SYSTEM,
    UNAME_NODE,
    UNAME_RELEASE,
    UNAME_VERSION,
    UNAME_MACHINE,
    UNAME_DOMAIN
};
#define UNAME_BYTES 65u
/** uname_text() - copy one to @out, UNAME_BYTES long. */
void uname_text(enum uname_field field, char *out);
/** uname_set() - change one; cut to UNAME_BYTES - 1. */
void uname_set(enum uname_field field, const char *text, size_t len);

/** process_tids() - tids of its threads, ascending by age; returns how many there are, at most
 * @max are written. */
size_t process_tids(struct process *process, uint32_t *out, size_t max);

/* ------------------------------------------------------------------- sessions, for the tty */

/** process_session_id() - of the running process. */
uint32_t process_session_id(void);
uint32_t process_group_id(void);

/** process_is_session_leader() - is the running process one? */
bool process_is_session_leader(void);

/** session_tty() - controlling terminal of the running process, or NULL. */
struct tty *session_tty(void);

/**
 * session_set_tty() - the running process's session gets @tty as its controlling terminal (NULL:
 * gives it up). Context: thread, no spin locks.
 */
void session_set_tty(struct tty *tty);

/** process_group_in_session() - does group @pgid exist within session @sid? Context: any but under
 * proc_lock. */
bool process_group_in_session(uint32_t pgid, uint32_t sid);

/** process_group_is_orphaned() - is nobody left who could continue the running process's group?
 * Reads from the terminal then give EIO instead of SIGTTIN. */
bool process_group_is_orphaned(void);

/** tty_session_ended() - kernel/dev/tty's: the leader of session @sid, whose terminal @tty
 * was, has exited: forget the session (kernel/proc sends SIGHUP and SIGCONT to the foreground
 * group, whose id is returned; 0: none). Context: thread, no spin locks. */
uint32_t tty_session_ended(struct tty *tty, uint32_t sid);

#endif
