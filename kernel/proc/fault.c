/*
 * fault.c - exceptions of user code as signals, with Linux's codes and addresses.
 */
#include "kernel/proc/internal.h"

/* Where the x87 status and MXCSR stand in an FXSAVE image. */
#define FXSAVE_CONTROL 0u
#define FXSAVE_STATUS  2u
#define FXSAVE_MXCSR   24u

struct fault_signal {
    int32_t signo;
    int32_t code;
    bool has_rip; /* si_addr is the instruction */
};

static const struct fault_signal fault_signals[32] = {
    [TRAP_DIVIDE] = {SIGFPE, FPE_INTDIV, true},
    [TRAP_DEBUG] = {SIGTRAP, TRAP_TRACE, true},
    [TRAP_BREAKPOINT] = {SIGTRAP, SI_KERNEL, false},
    [TRAP_OVERFLOW] = {SIGSEGV, SI_KERNEL, false},
    [TRAP_BOUND] = {SIGSEGV, SI_KERNEL, false},
    [TRAP_INVALID_OPCODE] = {SIGILL, ILL_ILLOPN, true},
    [TRAP_INVALID_TSS] = {SIGSEGV, SI_KERNEL, false},
    [TRAP_NO_SEGMENT] = {SIGBUS, SI_KERNEL, false},
    [TRAP_STACK] = {SIGBUS, SI_KERNEL, false},
    [TRAP_PROTECTION] = {SIGSEGV, SI_KERNEL, false},
    [TRAP_ALIGNMENT] = {SIGBUS, BUS_ADRALN, false},
};

/* Exceptions flagged and not masked, as an FPE code; the order is Linux's. */
static int32_t fpe_code(uint32_t raised)
{
    if ((raised & 0x01u) != 0) {
        return FPE_FLTINV;
    }
    if ((raised & 0x04u) != 0) {
        return FPE_FLTDIV;
    }
    if ((raised & 0x08u) != 0) {
        return FPE_FLTOVF;
    }
    if ((raised & 0x12u) != 0) {
        return FPE_FLTUND;
    }
    return (raised & 0x20u) != 0 ? FPE_FLTRES : 0;
}

/* The running thread's x87 words and MXCSR, from the registers if they still hold its state. */
static void fpu_words(uint16_t *control, uint16_t *status, uint32_t *mxcsr)
{
    const unsigned char *image = current()->fpu;

    vl_host_preempt_off();
    if (cpu_this()->fpu_owner == current()) {
        __asm__ volatile("fnstcw %0\n\tfnstsw %1\n\tstmxcsr %2"
                         : "=m"(*control), "=m"(*status), "=m"(*mxcsr));
    } else {
        memcpy(control, image + FXSAVE_CONTROL, sizeof(*control));
        memcpy(status, image + FXSAVE_STATUS, sizeof(*status));
        memcpy(mxcsr, image + FXSAVE_MXCSR, sizeof(*mxcsr));
    }
    vl_host_preempt_on();
}

static int32_t fpu_fault_code(enum trap_vector vector)
{
    uint16_t control;
    uint16_t status;
    uint32_t mxcsr;

    fpu_words(&control, &status, &mxcsr);
    if (vector == TRAP_FPU) {
        return fpe_code((uint32_t)status & ~(uint32_t)control & 0x3fu);
    }
    return fpe_code(mxcsr & ~(mxcsr >> 7) & 0x3fu);
}

static void page_fault_info(const struct user_fault *fault, struct signal_info *info)
{
    info->u.fault.address = fault->address;
    switch (fault->status) {
    case VL_EBUSERROR:
        info->signo = SIGBUS;
        info->code = BUS_ADRERR;
        break;
    case VL_EACCES:
        info->signo = SIGSEGV;
        info->code = SEGV_ACCERR;
        break;
    default:
        info->signo = SIGSEGV;
        info->code = SEGV_MAPERR;
        break;
    }
}

static void log_unhandled(const struct trap_frame *frame, const struct user_fault *fault,
                          const struct signal_info *info)
{
    const struct process *process = current_process();

    if ((process->actions->caught & SIGNAL_BIT(info->signo)) != 0) {
        return;
    }
    printk(VL_LOG_INFO, "%s[%u]: signal %d at %llx ip %llx sp %llx error %llx", current()->name,
           current()->tid, info->signo, (unsigned long long)fault->address,
           (unsigned long long)frame->rip, (unsigned long long)frame->rsp,
           (unsigned long long)fault->error);
}

void proc_user_fault(struct trap_frame *frame, const struct user_fault *fault)
{
    struct task *task = current_task();
    struct signal_info info = {0};

    task->fault_vector = fault->vector;
    task->fault_error = fault->error;
    /* Linux leaves the last page fault's address in cr2 for the other exceptions. */
    if (fault->vector == TRAP_PAGE_FAULT) {
        task->fault_address = fault->address;
    }
    frame->error = UINT64_MAX; /* no call to restart */
    if (fault->vector == TRAP_PAGE_FAULT) {
        if (fault->status == VL_ENOMEM) {
            /* Nothing left, even after the out-of-memory policy. */
            if (!signal_is_fatal_pending(task)) {
                printk(VL_LOG_WARNING, "%s[%u]: out of memory in a page fault", current()->name,
                       current()->tid);
            }
            signal_force_fatal(SIGKILL);
            return;
        }
        page_fault_info(fault, &info);
    } else if (fault->vector == TRAP_FPU || fault->vector == TRAP_SIMD) {
        info.signo = SIGFPE;
        info.code = fpu_fault_code(fault->vector);
        info.u.fault.address = frame->rip;
    } else {
        const struct fault_signal *kind = &fault_signals[(unsigned)fault->vector % 32u];

        info.signo = kind->signo != 0 ? kind->signo : SIGSEGV;
        info.code = kind->signo != 0 ? kind->code : SI_KERNEL;
        info.u.fault.address = kind->has_rip ? frame->rip : 0;
    }
    log_unhandled(frame, fault, &info);
    signal_force(&info);
}
