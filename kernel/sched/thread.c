/*
 * thread.c - making, ending and marking threads.
 *
 * A thread's struct and its FPU area are one object of one cache: the struct, rounded up to 64
 * bytes, then the area. Two references at first: the creator's, and the running thread's own, which
 * the CPU drops when it has left the stack for the last time.
 */
#include "kernel/sched/thread_life.h"
#include <vellum/vellum.h>
#include "core/base/assert.h"
#include "core/base/rank.h"
#include "kernel/cpu/entry.h"
#include "kernel/cpu/fpu.h"
#include "kernel/cpu/fpu_switch.h"
#include "kernel/cpu/io.h"
#include "kernel/cpu/smp.h"
#include "kernel/lib/mem.h"
#include "kernel/lib/printk.h"
#include "kernel/sched/sched.h"
#include "kernel/sched/stack.h"
#include "kernel/sched/timer.h"
#include "kernel/sched/wait.h"

#define AREA_OFFSET   ((sizeof(struct thread) + 63) & ~(size_t)63)
#define DRAIN_WAIT_NS 1000000000u
#define DRAIN_STEP_NS 1000000u
/* What switch_stacks() pops: six registers, then the address to go on at. */
#define SWITCH_WORDS 7u
#define SWITCH_R13   2u
#define SWITCH_R12   3u
#define SWITCH_RIP   6u

static struct vl_cache *cache;
static struct thread boot_thread;
extern char boot_stack_top[];

void *thread_fpu_area(struct thread *thread)
{
    return (char *)thread + AREA_OFFSET;
}

void threads_boot(struct cpu *cpu)
{
    strlcpy(boot_thread.name, "idle", sizeof(boot_thread.name));
    boot_thread.stack_top = (uintptr_t)boot_stack_top;
    boot_thread.fpu_cpu = UINT32_MAX;
    boot_thread.base_cpu = UINT32_MAX;
    atomic_init(&boot_thread.state, THREAD_RUNNING);
    cpu->current = &boot_thread;
    cpu->kernel_stack = boot_thread.stack_top;
    cpu->tss.rsp0 = boot_thread.stack_top;
}

void threads_init(void)
{
    struct vl_cache_spec spec = {
        .name = "thread", .size = AREA_OFFSET + fpu_area_bytes(), .align = 64};

    if (vl_cache_create(&spec, &cache) != VL_OK) {
        panic("thread: no memory for the cache");
    }
}

struct thread *thread_alloc(const char *name)
{
    struct thread *thread = vl_cache_alloc(cache, VL_WAIT);

    if (thread == NULL) {
        return NULL;
    }
    memset(thread, 0, sizeof(*thread));
    thread->stack_top = stack_alloc();
    if (thread->stack_top == 0) {
        vl_cache_free(cache, thread);
        return NULL;
    }
    thread->fpu_cpu = UINT32_MAX;
    thread->base_cpu = UINT32_MAX;
    atomic_init(&thread->state, THREAD_NEW);
    atomic_init(&thread->references, 2);
    vli_list_init(&thread->run_link);
    vli_list_init(&thread->proc_link);
    memset(&thread->affinity, 0xff, sizeof(thread->affinity));
    strlcpy(thread->name, name, sizeof(thread->name));
    return thread;
}

/* The first switch to @thread continues at @start, with %rsp at @sp. */
static void prepare_stack(struct thread *thread, uintptr_t sp, void (*start)(void))
{
    uintptr_t *words = (uintptr_t *)sp - SWITCH_WORDS;

    memset(words, 0, SWITCH_WORDS * sizeof(*words));
    words[SWITCH_RIP] = (uintptr_t)start;
    thread->sp = (uintptr_t)words;
}

enum vl_status thread_create(struct thread **out, void (*entry)(void *arg), void *arg,
                             const char *name)
{
    struct thread *thread = thread_alloc(name);
    uintptr_t *words;

    if (thread == NULL) {
        return VL_ENOMEM;
    }
    /* Below the place of a frame, so that the thread may become a user thread. */
    prepare_stack(thread, thread->stack_top - sizeof(struct trap_frame) - 8, thread_start_kernel);
    words = (uintptr_t *)thread->sp;
    words[SWITCH_R12] = (uintptr_t)entry;
    words[SWITCH_R13] = (uintptr_t)arg;
    *out = thread;
    return VL_OK;
}

struct trap_frame *thread_frame(struct thread *thread)
{
    return (struct trap_frame *)(thread->stack_top - sizeof(struct trap_frame));
}

enum vl_status thread_create_user(struct thread **out, const struct trap_frame *frame)
{
    struct thread *self = current();
    struct thread *thread = thread_alloc(self->name);

    if (thread == NULL) {
        return VL_ENOMEM;
    }
    memcpy(thread_frame(thread), frame, sizeof(*frame));
    prepare_stack(thread, (uintptr_t)thread_frame(thread) - 8, thread_start_user);
    thread->fs_base = self->fs_base;
    thread->gs_base = self->gs_base;
    thread->policy = self->policy & ~THREAD_POLICY_RESET;
    thread->nice = thread->policy != self->policy && self->nice < 0 ? 0 : self->nice;
    thread->affinity = self->affinity;
    fpu_copy_to(thread);
    *out = thread;
    return VL_OK;
}

void thread_get(struct thread *thread)
{
    atomic_fetch_add_explicit(&thread->references, 1, memory_order_relaxed);
}

VLI_WEAK void proc_thread_free(struct thread *thread)
{
    (void)thread;
}

void thread_put(struct thread *thread)
{
    /* Acquire and release: the last one sees what all others did to it. */
    if (atomic_fetch_sub_explicit(&thread->references, 1, memory_order_acq_rel) == 1) {
        proc_thread_free(thread);
        vl_cache_free(cache, thread);
    }
}

void thread_bury(struct thread *thread)
{
    stack_free(thread->stack_top);
    thread_put(thread);
    cpu_this()->exits_done++;
}

void thread_discard(struct thread *thread)
{
    VL_ASSERT(atomic_load_explicit(&thread->state, memory_order_relaxed) == THREAD_NEW);
    stack_free(thread->stack_top);
    thread_put(thread);
    thread_put(thread);
}

void thread_exit_begin(void)
{
    struct thread *thread = current();

    if (thread->exit_begun == 0) {
        thread->exit_begun = 1;
        vl_host_preempt_off();
        cpu_this()->exits_begun++;
        vl_host_preempt_on();
    }
}

_Noreturn void thread_exit(void)
{
    struct thread *thread = current();
    struct cpu *cpu;

    thread_exit_begin();

    VL_ASSERT(thread->space == NULL);
    vli_rank_assert_none();
    /* From here on it must not be preempted: a dead thread that is switched from is buried. */
    cpu_irq_off();
    cpu = cpu_this();
    /* Its FPU state is of no more use, and its address may be another thread's soon. */
    thread->fpu = NULL;
    if (cpu->fpu_owner == thread) {
        cpu->fpu_owner = NULL;
    }
    if (cpu->user_thread == thread) {
        cpu->user_thread = NULL;
    }
    atomic_store_explicit(&thread->state, THREAD_DEAD, memory_order_relaxed);
    sched_end();
}

/* ---------------------------------------------------------------------------- user state */

void thread_use_space(struct vl_space *space)
{
    struct thread *thread = current();
    unsigned long flags;
    struct cpu *cpu;

    if (thread->fpu == NULL && space != NULL) {
        fpu_first_use(thread);
    }
    /* Interrupts off: a flush for another CPU may switch the space, too. */
    flags = vl_host_irq_save();
    cpu = cpu_this();
    thread->space = space;
    if (cpu->space != space) {
        vl_space_switch(space);
        cpu->space = space;
    }
    if (space != NULL && (cpu->user_thread != thread || thread->base_cpu != cpu->id)) {
        cpu->user_thread = thread;
        thread->base_cpu = cpu->id;
        msr_write(MSR_FS_BASE, thread->fs_base);
        msr_write(MSR_KERNEL_GS_BASE, thread->gs_base);
    }
    vl_host_irq_restore(flags);
}

void thread_set_fs_base(uint64_t base)
{
    vl_host_preempt_off();
    current()->fs_base = base;
    msr_write(MSR_FS_BASE, base);
    vl_host_preempt_on();
}

void thread_set_gs_base(uint64_t base)
{
    vl_host_preempt_off();
    current()->gs_base = base;
    msr_write(MSR_KERNEL_GS_BASE, base);
    vl_host_preempt_on();
}

uint64_t thread_fs_base(void)
{
    return current()->fs_base;
}

uint64_t thread_gs_base(void)
{
    return current()->gs_base;
}

/* ---------------------------------------------------------------------------- marks, stopping */

void thread_signal(struct thread *thread)
{
    /* The mark first: a thread about to sleep looks at it after it set its state. */
    atomic_fetch_or_explicit(&thread->work, WORK_SIGNAL, memory_order_seq_cst);
    if (!sched_wake(thread, 1u << THREAD_SLEEPING) && thread != current()) {
        uint32_t cpu = thread->cpu;

        if (cpu_of(cpu)->current == thread && cpu != vl_host_cpu_id()) {
            smp_resched(cpu); /* any interrupt makes it look at its work */
        }
    }
}

void thread_kill_mark(struct thread *thread)
{
    /* Atomic, since the thread itself may be changing its other flags right now. */
    atomic_fetch_or_explicit(&thread->vl.flags, VL_THREAD_KILLED, memory_order_relaxed);
    thread_signal(thread);
    thread_wake_stopped(thread);
}

void thread_stop_self(bool (*may_stop)(void *arg), void *arg)
{
    struct thread *thread = current();

    atomic_store_explicit(&thread->state, THREAD_STOPPED, memory_order_seq_cst);
    if (may_stop(arg)) {
        schedule();
    }
    atomic_store_explicit(&thread->state, THREAD_RUNNING, memory_order_relaxed);
}

void thread_wake_stopped(struct thread *thread)
{
    (void)sched_wake(thread, 1u << THREAD_STOPPED);
}

/* ------------------------------------------------------------------------------- odds and ends */

enum vl_status thread_set_affinity(struct thread *thread, const struct vl_cpumask *mask)
{
    bool any = false;

    for (unsigned cpu = 0; cpu < cpu_count(); cpu++) {
        any |= (mask->word[cpu / 64] >> (cpu % 64) & 1) != 0;
    }
    if (!any) {
        return VL_EINVAL;
    }
    thread->affinity = *mask;
    if (thread == current()) {
        sched_move_if_needed();
    }
    return VL_OK;
}

uint64_t thread_cpu_ns(struct thread *thread)
{
    uint64_t ns = thread->run_ns;
    uint64_t start = thread->run_start_ns;

    if (thread == current()) {
        ns += clock_ns() - start;
    }
    return ns;
}

/* Threads that have begun to end and have not done so: a sum over CPUs, right when it is 0 since
 * each thread counts up before it counts down, and downs are summed first. */
static bool any_ending(void)
{
    uint64_t begun = 0;
    uint64_t done = 0;

    for (unsigned id = 0; id < cpu_count(); id++) {
        done += *(volatile uint64_t *)&cpu_of(id)->exits_done;
    }
    for (unsigned id = 0; id < cpu_count(); id++) {
        begun += *(volatile uint64_t *)&cpu_of(id)->exits_begun;
    }
    return begun != done;
}

void threads_drain(void)
{
    uint64_t deadline = clock_ns() + DRAIN_WAIT_NS;

    while (any_ending() && clock_ns() < deadline) {
        (void)(sleep_until_ns(clock_ns() + DRAIN_STEP_NS, WAIT_UNINTERRUPTIBLE) == VL_OK);
    }
    stacks_drain();
}
