/*
 * signal.h - Linux's signals as a user sees them, and how the kernel sends one.
 */
#ifndef KERNEL_PROC_SIGNAL_H
#define KERNEL_PROC_SIGNAL_H

#include <vellum/types.h>

struct thread;
struct process;

enum signal_number {
    SIGHUP = 1,
    SIGINT,
    SIGQUIT,
    SIGILL,
    SIGTRAP,
    SIGABRT,
    SIGBUS,
    SIGFPE,
    SIGKILL,
    SIGUSR1,
    SIGSEGV,
    SIGUSR2,
    SIGPIPE,
    SIGALRM,
    SIGTERM,
    SIGSTKFLT,
    SIGCHLD,
    SIGCONT,
    SIGSTOP,
    SIGTSTP,
    SIGTTIN,
    SIGTTOU,
    SIGURG,
    SIGXCPU,
    SIGXFSZ,
    SIGVTALRM,
    SIGPROF,
    SIGWINCH,
    SIGIO,
    SIGPWR,
    SIGSYS,
    SIGRTMIN,
    SIGNAL_MAX = 64
};

/* si_code */
enum signal_code {
    SI_USER = 0,
    SI_KERNEL = 128,
    SI_QUEUE = -1,
    SI_TIMER = -2,
    SI_TKILL = -6,
    ILL_ILLOPN = 2,
    FPE_INTDIV = 1,
    FPE_FLTDIV = 3,
    FPE_FLTOVF = 4,
    FPE_FLTUND = 5,
    FPE_FLTRES = 6,
    FPE_FLTINV = 7,
    SEGV_MAPERR = 1,
    SEGV_ACCERR = 2,
    BUS_ADRALN = 1,
    BUS_ADRERR = 2,
    TRAP_BRKPT = 1,
    TRAP_TRACE = 2,
    CLD_EXITED = 1,
    CLD_KILLED = 2,
    CLD_DUMPED = 3,
    CLD_STOPPED = 5,
    CLD_CONTINUED = 6
};

/* siginfo_t, 128 bytes in the user's memory. The kernel keeps the first 48: nothing that it makes
 * itself has more, and what rt_sigqueueinfo hands in is cut there only if the rest is zero. */
struct signal_info {
    int32_t signo;
    int32_t error;
    int32_t code;
    int32_t pad;
    union {
        struct {
            int32_t pid;
            uint32_t uid;
            uint64_t value; /* sigqueue */
        } sender;
        struct {
            int32_t pid;
            uint32_t uid;
            int32_t status;
            int32_t pad;
            int64_t utime;
            int64_t stime;
        } child;
        struct {
            uint64_t address;
        } fault;
        uint8_t raw[112];
    } u;
};
_Static_assert(sizeof(struct signal_info) == 128, "siginfo_t");

/* A set of signals: signal n is bit n - 1. */
typedef uint64_t signal_set;
#define SIGNAL_BIT(n)       ((signal_set)1 << ((n)-1))
#define SIGNALS_UNBLOCKABLE (SIGNAL_BIT(SIGKILL) | SIGNAL_BIT(SIGSTOP))

/**
 * signal_send_process() - send @signo from the kernel (SI_KERNEL) to a process.
 * The caller keeps @process alive (process_find(), or a running thread's own).
 * Context: any, interrupts too; locks of ranks below KRANK_SIGNAL may be held.
 */
void signal_send_process(struct process *process, int signo);

/**
 * signal_send_group() - the same to each process of group @pgid.
 * Context: any, interrupts too; no lock of rank KRANK_PROC or above: a tty leaves its lock first.
 * Returns: how many there were.
 */
unsigned signal_send_group(uint32_t pgid, int signo);

/** signal_send_thread() - to one thread: SIGPIPE, SIGXFSZ go to current(). Context: as
 * signal_send_process(). */
void signal_send_thread(struct thread *thread, int signo);

/** signal_is_ignored_or_blocked() - would @signo not reach the running thread? For SIGTTIN and
 * SIGTTOU. Context: thread. */
bool signal_is_ignored_or_blocked(int signo);

/** signal_set_blocked() - set the running thread's mask; returns the old one. Context: thread. */
signal_set signal_set_blocked(signal_set mask);

/**
 * signal_mask_for_call() - the temporary mask of ppoll, pselect and epoll_pwait: blocked is @mask
 * until the call's return work, which delivers under it and puts the old one back. If the call
 * ends with no signal pending, call signal_mask_restore() before returning. Context: thread.
 */
void signal_mask_for_call(signal_set mask);
void signal_mask_restore(void);

/** signal_take() - take one of @set that is pending for the running thread. Context: thread, no
 * locks. Returns: its number and *@out, or 0. */
int signal_take(signal_set set, struct signal_info *out);

/** signal_is_pending() - is one of @set pending for the running thread? Those who wait for it wait
 * on process->arrivals. Context: thread. */
bool signal_is_pending(signal_set set);

#endif
