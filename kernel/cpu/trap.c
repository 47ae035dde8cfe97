/*
 * trap.c - exceptions and interrupts, called by entry.S.
 *
 * Page faults: user addresses go to the core (vl_space_fault), from user mode and from the
 * kernel's user copies alike; what it cannot resolve becomes a signal (proc_user_fault) or, within
 * a copy, continues at the place that the exception table gives. Everything else in kernel mode is
 * a bug and panics.
 */
#include "kernel/cpu/trap.h"
#include <vellum/vellum.h>
#include "core/base/assert.h"
#include "kernel/cpu/apic.h"
#include "kernel/cpu/entry.h"
#include "kernel/cpu/io.h"
#include "kernel/cpu/irq.h"
#include "kernel/cpu/smp.h"
#include "kernel/cpu/uaccess.h"
#include "kernel/lib/panic.h"
#include "kernel/lib/printk.h"
#include "kernel/sched/sched.h"
#include "kernel/sched/thread.h"

_Static_assert(offsetof(struct trap_frame, r15) == TF_R15 &&
                   offsetof(struct trap_frame, rbx) == TF_RBX &&
                   offsetof(struct trap_frame, r11) == TF_R11 &&
                   offsetof(struct trap_frame, rax) == TF_RAX &&
                   offsetof(struct trap_frame, rdi) == TF_RDI &&
                   offsetof(struct trap_frame, error) == TF_ERROR &&
                   offsetof(struct trap_frame, rip) == TF_RIP &&
                   offsetof(struct trap_frame, ss) == TF_SS,
               "entry.S relies on it");

struct exception_entry {
    uintptr_t from;
    uintptr_t to;
};
extern const struct exception_entry extable_start[], extable_end[];

/* The place to go on at after a fault at @rip, or 0. */
static uintptr_t extable_find(uintptr_t rip)
{
    for (const struct exception_entry *entry = extable_start; entry < extable_end; entry++) {
        if (entry->from == rip) {
            return entry->to;
        }
    }
    return 0;
}

/*
 * The access that a page fault's error code tells, for vl_space_fault(). 0: one that no handling
 * resolves: reserved bits set in an entry, or, from user mode, an access of the CPU's own without
 * PF_USER, such as QEMU's iret to another ring.
 */
#define ACCESS_OF(error)                                                                           \
    (((error)&PF_USER) == 0 || ((error)&PF_RESERVED) != 0 ? 0                                      \
     : ((error)&PF_WRITE) != 0                            ? VL_WRITE                               \
     : ((error)&PF_FETCH) != 0                            ? VL_EXEC                                \
                                                          : VL_READ)
#define ACCESS_OF_4(error)                                                                         \
    ACCESS_OF(error), ACCESS_OF((error) + 1), ACCESS_OF((error) + 2), ACCESS_OF((error) + 3)
const uint8_t fault_access[32] = {ACCESS_OF_4(0),  ACCESS_OF_4(4),  ACCESS_OF_4(8),
                                  ACCESS_OF_4(12), ACCESS_OF_4(16), ACCESS_OF_4(20),
                                  ACCESS_OF_4(24), ACCESS_OF_4(28)};

void page_fault_unresolved(struct trap_frame *frame, uintptr_t address, enum vl_status status)
{
    struct user_fault fault = {TRAP_PAGE_FAULT, frame->error, address, status};

    if ((frame->error & PF_RESERVED) != 0) {
        panic_frame(frame, "page fault: reserved bits set in the entry for %lx",
                    (unsigned long)address);
    }
    proc_user_fault(frame, &fault);
}

void page_fault_kernel(struct trap_frame *frame, uintptr_t address)
{
    uintptr_t fixup = address < USER_END ? extable_find(frame->rip) : 0;
    enum vl_status status = VL_EFAULT;

    if (fixup == 0) {
        panic_frame(frame, "page fault in the kernel: %s at %lx",
                    (frame->error & PF_WRITE) != 0   ? "write"
                    : (frame->error & PF_FETCH) != 0 ? "execution"
                                                     : "read",
                    (unsigned long)address);
    }
    if ((frame->rflags & RFLAGS_IF) != 0 && cpu_preempt_depth() == 0 && current()->space != NULL) {
        cpu_irq_on();
        status = vl_space_fault(current()->space, address,
                                (frame->error & PF_WRITE) != 0 ? VL_WRITE : VL_READ);
        cpu_irq_off();
    }
    if (status != VL_OK) {
        frame->rip = fixup;
    }
}

void trap_user(unsigned vector, struct trap_frame *frame)
{
    struct user_fault fault = {(enum trap_vector)vector, 0, frame->rip, VL_EFAULT};

    fault.error = frame->error == UINT64_MAX ? 0 : frame->error;
    proc_user_fault(frame, &fault);
}

void trap_kernel(unsigned vector, struct trap_frame *frame)
{
    uintptr_t fixup = vector == TRAP_PROTECTION ? extable_find(frame->rip) : 0;

    if (fixup != 0) {
        frame->rip = fixup; /* a non-canonical user address, or a bad FPU image */
        return;
    }
    if (vector == TRAP_DEBUG) {
        frame->rflags &= ~(uint64_t)RFLAGS_TF;
        return;
    }
    panic_frame(frame, "exception %u in the kernel, error %lx", vector,
                (unsigned long)frame->error);
}

void trap_paranoid(unsigned vector, struct trap_frame *frame)
{
    if (vector == TRAP_NMI) {
        if (smp_is_stopping()) {
            smp_stop_this();
        }
        printk(VL_LOG_WARNING, "cpu %u: unknown NMI", vl_host_cpu_id());
        return;
    }
    if (vector == TRAP_DOUBLE_FAULT) {
        panic_frame(frame, "double fault; stack pointer %lx, last page fault at %lx",
                    (unsigned long)frame->rsp, (unsigned long)cr2_read());
    }
    panic_frame(frame, "machine check");
}

static bool is_canonical(uint64_t address)
{
    return (uint64_t)((int64_t)(address << 16) >> 16) == address;
}

/* Nothing that a signal handler or a debugger wrote into a frame may reach more than the user. */
static bool frame_make_safe(struct trap_frame *frame)
{
    frame->cs = SEL_USER_CODE;
    frame->ss = SEL_USER_DATA;
    frame->rflags = (frame->rflags & RFLAGS_USER) | RFLAGS_IF | RFLAGS_ONE;
    return is_canonical(frame->rip);
}

static void fault_bad_rip(struct trap_frame *frame)
{
    struct user_fault fault = {TRAP_PROTECTION, 0, frame->rip, VL_EFAULT};

    cpu_irq_on();
    proc_user_fault(frame, &fault);
    cpu_irq_off();
}

void trap_work(struct trap_frame *frame)
{
    struct thread *thread = current();

    for (;;) {
        uint32_t work = atomic_load_explicit(&thread->work, memory_order_relaxed);

        if ((work & WORK_RESCHED) != 0) {
            cpu_irq_on();
            schedule_preempt();
            cpu_irq_off();
        } else if ((work & WORK_SIGNAL) != 0) {
            thread_clear_signal(thread);
            cpu_irq_on();
            proc_return_work(frame);
            cpu_irq_off();
        } else if (frame_make_safe(frame)) {
            return;
        } else {
            fault_bad_rip(frame);
        }
    }
}

void trap_frame_user_init(struct trap_frame *frame, uint64_t rip, uint64_t rsp)
{
    *frame = (struct trap_frame){.rip = rip,
                                 .rsp = rsp,
                                 .cs = SEL_USER_CODE,
                                 .ss = SEL_USER_DATA,
                                 .rflags = RFLAGS_IF | RFLAGS_ONE,
                                 .error = UINT64_MAX};
}

/* ------------------------------------------------------------------------------ interrupts */

struct vector_handler {
    irq_handler_fn *run;
    void *arg;
};
static struct vector_handler handlers[256];

void irq_set_vector(unsigned vector, irq_handler_fn *handler, void *arg)
{
    handlers[vector].arg = arg;
    handlers[vector].run = handler;
}

void irq_handle(unsigned vector, struct trap_frame *frame)
{
    struct cpu *cpu = cpu_this();

    cpu->irq_depth++;
    cpu->irq_count++;
    cpu->irq_from_user = trap_is_user(frame);
    /* Before the handler, which may use the core, and before the switch that may follow. A user's
     * address is none of the kernel's. */
    frame->rip = vl_restart(frame->rip);
    if (VLI_UNLIKELY(handlers[vector].run == NULL)) {
        if (vector != VECTOR_SPURIOUS) {
            printk(VL_LOG_WARNING, "irq: vector %u has no handler", vector);
            apic_end_of_interrupt();
        }
    } else {
        handlers[vector].run(handlers[vector].arg);
        apic_end_of_interrupt();
    }
    cpu->irq_depth--;
}

bool irq_is_from_user(void)
{
    return cpu_this()->irq_from_user != 0;
}
