/*
 * thread.h - threads: what is scheduled, of the kernel and of user programs alike.
 *
 * Life: thread_create() or thread_create_user() makes one that does not run yet and has one
 * reference, the creator's; thread_start() makes it runnable (running counts as a second
 * reference); thread_exit() ends it; the last thread_put() frees the struct. The kernel stack goes
 * back as soon as the CPU has left it.
 *
 * Sleeping: wait.h. A thread in an interruptible sleep is woken by thread_signal().
 */
#ifndef KERNEL_SCHED_THREAD_H
#define KERNEL_SCHED_THREAD_H

#include <stdatomic.h>
#include <vellum/host.h>
#include "core/base/list.h"
#include "kernel/cpu/cpu.h"
#include "kernel/cpu/trap.h"

struct process; /* kernel/proc's own */
struct vl_space;

#define KERNEL_STACK_BYTES 16384u

enum thread_state {
    THREAD_RUNNING,         /* runs or waits for a CPU */
    THREAD_SLEEPING,        /* until woken or signalled */
    THREAD_UNINTERRUPTIBLE, /* until woken */
    THREAD_STOPPED,         /* job control; thread_wake_stopped() or a kill */
    THREAD_WAKING,          /* between the two, owned by the waker */
    THREAD_NEW,
    THREAD_DEAD
};

/* What is to be done before the thread goes back to user mode: thread.work. */
#define WORK_RESCHED 1u /* give up the CPU */
#define WORK_SIGNAL  2u /* call proc_return_work() */
#define WORK_FPU     4u /* load the FPU registers */

/* In policy: SCHED_RESET_ON_FORK. */
#define THREAD_POLICY_RESET 0x40000000u

struct thread {
    struct vl_thread vl;    /* first: vl_host_thread() */
    _Atomic uint32_t work;  /* WORK_* */
    _Atomic uint32_t state; /* enum thread_state */
    uintptr_t sp;           /* saved stack pointer while it does not run */
    uintptr_t stack_top;
    struct vl_space *space; /* NULL: kernel thread; change by thread_use_space() */
    struct process *proc;   /* kernel/proc's, NULL for kernel threads */
    void *fpu;              /* 64-aligned area, NULL: never was in user mode */
    uint64_t fs_base;       /* user's; change by thread_set_fs_base() */
    uint64_t gs_base;
    uint32_t fpu_cpu;  /* CPU whose registers hold this state last, or UINT32_MAX */
    uint32_t base_cpu; /* CPU that loaded fs_base and gs_base last, or UINT32_MAX */
    uint32_t cpu;      /* run queue that it belongs to */
    uint32_t on_queue; /* runs or is queued there */
    int32_t nice;
    uint32_t policy; /* SCHED_*, with the bit to reset it on fork: told, without effect */
    uint64_t vruntime;
    uint64_t run_start_ns; /* when it got the CPU */
    uint64_t run_ns;       /* CPU time used so far, without the current stretch */
    uint64_t user_ticks;   /* ticks that found it in user mode */
    uint64_t kernel_ticks;
    uint64_t switches;    /* times it gave up the CPU by sleeping */
    uint64_t preemptions; /* times it was made to */
    struct vl_cpumask affinity;
    struct vli_list run_link; /* run queue */
    _Atomic uint32_t references;
    uint32_t exit_begun;
    uint32_t tid;              /* for messages; kernel/proc sets it */
    char name[16];             /* comm */
    struct vli_list proc_link; /* kernel/proc: threads of one process */
    void *proc_private;        /* kernel/proc: anything */
};

/** current() - the running thread. */
static inline struct thread *current(void)
{
    struct thread *thread;

    __asm__("movq %%gs:%c1, %0" : "=r"(thread) : "i"(GS_CURRENT));
    return thread;
}

/**
 * thread_create() - a kernel thread, not yet started.
 * @entry: runs in thread context with interrupts on; returning from it is thread_exit().
 * Context: may sleep. Returns: VL_OK; VL_ENOMEM.
 */
VL_MUST_CHECK enum vl_status thread_create(struct thread **out, void (*entry)(void *arg), void *arg,
                                           const char *name);

/**
 * thread_create_user() - a thread that starts in user mode with a copy of @frame and of the running
 * thread's FPU state, bases, affinity and name; proc, space and the rest are for the caller to set
 * before thread_start().
 * Context: may sleep. Returns: VL_OK; VL_ENOMEM.
 */
VL_MUST_CHECK enum vl_status thread_create_user(struct thread **out,
                                                const struct trap_frame *frame);

/** thread_frame() - user registers of a thread that does not run (a child before its start). */
struct trap_frame *thread_frame(struct thread *thread);

/** thread_start() - make a new thread runnable. Context: any but under run-queue locks. */
void thread_start(struct thread *thread);

/** thread_discard() - free one that was never started. */
void thread_discard(struct thread *thread);

/** thread_exit_begin() - the running thread is about to end: threads_drain() waits until it has.
 * To be called before anybody can be told of its end; thread_exit() does it otherwise. */
void thread_exit_begin(void);

/** thread_exit() - end the running thread. thread.space must have been left by
 * thread_use_space(NULL). Context: thread, no locks. Does not return. */
_Noreturn void thread_exit(void);

void thread_get(struct thread *thread);
void thread_put(struct thread *thread);

/** proc_thread_free() - weak: called right before a struct thread is freed. Context: any. */
void proc_thread_free(struct thread *thread);

/** proc_tick() - kernel/proc's: one tick (TICK_NS) found @thread running, in user mode or not; for
 * ITIMER_VIRTUAL and limits. Context: interrupt, no locks held. */
void proc_tick(struct thread *thread, bool user);
#define TICK_NS 4000000u

/** thread_use_space() - the running thread lives in @space from now on (NULL: in the kernel only).
 * No reference is taken or dropped. Context: thread. */
void thread_use_space(struct vl_space *space);

/** thread_set_fs_base() - the running thread's FS base (arch_prctl). @base is canonical. */
void thread_set_fs_base(uint64_t base);
/** thread_set_gs_base() - the running thread's user GS base. */
void thread_set_gs_base(uint64_t base);
/** thread_fs_base() - the running thread's FS base as it is now. */
uint64_t thread_fs_base(void);
/** thread_gs_base() - the running thread's user GS base as it is now. */
uint64_t thread_gs_base(void);

/**
 * thread_signal() - @thread has something to do in proc_return_work(): mark it, end its
 * interruptible sleep, and if it runs in user mode on another CPU, interrupt it.
 * Context: any; spin locks of ranks below KRANK_WAIT may be held.
 */
void thread_signal(struct thread *thread);

/** thread_kill_mark() - as thread_signal(), and let it use the reserve of memory to exit; also ends
 * THREAD_STOPPED. */
void thread_kill_mark(struct thread *thread);

/** thread_signal_pending() - was thread_signal() called since the last proc_return_work()? */
static inline bool thread_signal_pending(const struct thread *thread)
{
    return (atomic_load_explicit(&thread->work, memory_order_relaxed) & WORK_SIGNAL) != 0;
}

/** thread_clear_signal() - kernel/proc found nothing left to deliver: take the mark away, under its
 * own signal lock. */
static inline void thread_clear_signal(struct thread *thread)
{
    atomic_fetch_and_explicit(&thread->work, ~WORK_SIGNAL, memory_order_relaxed);
}

/** thread_stop_self() - sleep as THREAD_STOPPED until thread_wake_stopped() or
 * thread_kill_mark(). The caller re-checks why it stopped. The check of "may I stop?" and the
 * setting of the state are made safe by @may_stop, asked after the state is set. */
void thread_stop_self(bool (*may_stop)(void *arg), void *arg);
void thread_wake_stopped(struct thread *thread);

/** thread_yield() - let others run first (sched_yield). Context: thread, preemption on. */
void thread_yield(void);

/** thread_set_affinity() - Returns: VL_OK; VL_EINVAL when no running CPU is in @mask. The thread
 * moves at its next switch; the running thread at once. */
VL_MUST_CHECK enum vl_status thread_set_affinity(struct thread *thread,
                                                 const struct vl_cpumask *mask);

/** thread_cpu_ns() - CPU time of a thread so far, including its current stretch. */
uint64_t thread_cpu_ns(struct thread *thread);

/** threads_drain() - wait until the threads that are ending have ended (a second at most), then
 * unmap and free cached kernel stacks; part of what vl_drain_all() means to the whole kernel.
 * Context: thread, may sleep. */
void threads_drain(void);

/** sched_runnable_count() - threads running or ready, for the load average. */
unsigned sched_runnable_count(void);

/** schedule() - let another thread run; the state set before decides whether the caller stays
 * runnable. Most code wants wait.h. Context: thread, preemption on. */
void schedule(void);

#endif
