/*
 * signal_frame.c - what a handler finds on its stack, and the way back from it.
 *
 * Linux's x86-64 frame, from the stack pointer up:
 *
 *     +0    address that the handler returns to (SA_RESTORER)
 *     +8    struct ucontext: flags, link, stack, registers, mask
 *     +312  siginfo, 128 bytes
 *     ...   FPU state, 64-aligned; ucontext points to it
 *
 * below the red zone of the interrupted code, or at the top of the alternate stack. The frame is
 * 8 less than a multiple of 16, as a call would leave it.
 *
 * rt_sigreturn() takes it back and trusts none of it: only flags that a user may set are taken,
 * the code and stack segments are the user's whatever it says, and an address that is not the
 * user's is refused before it reaches iret.
 */
#include "kernel/proc/internal.h"

#define RED_ZONE_BYTES 128u

#define UC_FP_XSTATE         1u
#define UC_SIGCONTEXT_SS     2u
#define UC_STRICT_RESTORE_SS 4u

#define SS_ONSTACK    1u
#define SS_DISABLE    2u
#define SS_AUTODISARM 0x80000000u

struct user_stack {
    uint64_t base;
    int32_t flags;
    int32_t pad;
    uint64_t size;
};

struct user_registers {
    uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
    uint64_t rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, rflags;
    uint16_t cs, gs, fs, ss;
    uint64_t error, vector, old_mask, address;
    uint64_t fpu; /* address of the FPU state or 0 */
    uint64_t reserved[8];
};
_Static_assert(sizeof(struct user_registers) == 256, "struct sigcontext");

struct user_context {
    uint64_t flags;
    uint64_t link;
    struct user_stack stack;
    struct user_registers registers;
    uint64_t mask;
};
_Static_assert(sizeof(struct user_context) == 304, "struct ucontext");

struct user_frame {
    uint64_t return_address;
    struct user_context context;
    struct signal_info info;
};
_Static_assert(sizeof(struct user_frame) == 440, "struct rt_sigframe");

static bool on_altstack(const struct task *task, uint64_t sp)
{
    if ((task->altstack_flags & SS_AUTODISARM) != 0) {
        return false;
    }
    return task->altstack_size != 0 && sp > task->altstack_base &&
           sp - task->altstack_base <= task->altstack_size;
}

/* Where the frame goes, and the FPU state above it. Returns: false: the stack has no room. */
static bool frame_place(const struct trap_frame *frame, const struct task *task,
                        const struct signal_action *action, uint64_t *out_frame, uint64_t *out_fpu)
{
    uint64_t sp = frame->rsp;
    bool was_on = on_altstack(task, sp);
    bool entering = !was_on && (action->flags & SA_ONSTACK) != 0 && task->altstack_size != 0;

    if (entering) {
        sp = task->altstack_base + task->altstack_size;
    } else {
        sp -= RED_ZONE_BYTES;
    }
    if (sp >= USER_END || sp < fpu_user_bytes() + sizeof(struct user_frame) + 128u) {
        return false;
    }
    sp = vli_round_down(sp - fpu_user_bytes(), 64);
    *out_fpu = sp;
    *out_frame = vli_round_down(sp - sizeof(struct user_frame), 16) - 8;
    /* A handler that overflows the alternate stack would run on into what lies below it. */
    return !(was_on || entering) || on_altstack(task, *out_frame) ||
           (task->altstack_flags & SS_AUTODISARM) != 0;
}

static void registers_save(struct user_registers *out, const struct trap_frame *frame,
                           const struct task *task)
{
    *out = (struct user_registers){
        .r8 = frame->r8,
        .r9 = frame->r9,
        .r10 = frame->r10,
        .r11 = frame->r11,
        .r12 = frame->r12,
        .r13 = frame->r13,
        .r14 = frame->r14,
        .r15 = frame->r15,
        .rdi = frame->rdi,
        .rsi = frame->rsi,
        .rbp = frame->rbp,
        .rbx = frame->rbx,
        .rdx = frame->rdx,
        .rax = frame->rax,
        .rcx = frame->rcx,
        .rsp = frame->rsp,
        .rip = frame->rip,
        .rflags = frame->rflags,
        .cs = (uint16_t)frame->cs,
        .ss = (uint16_t)frame->ss,
        .error = task->fault_error,
        .vector = task->fault_vector,
        .address = task->fault_address,
    };
}

long signal_frame_push(struct trap_frame *frame, struct task *task, const struct signal_info *info,
                       const struct signal_action *action, signal_set mask)
{
    struct user_frame out;
    uint64_t at;
    uint64_t fpu;

    if ((action->flags & SA_RESTORER) == 0 || !frame_place(frame, task, action, &at, &fpu)) {
        return -EFAULT;
    }
    out.return_address = action->restorer;
    out.context.flags = UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS;
    out.context.link = 0;
    out.context.stack =
        (struct user_stack){.base = task->altstack_base,
                            .flags = (int32_t)(task->altstack_size == 0        ? SS_DISABLE
                                               : on_altstack(task, frame->rsp) ? SS_ONSTACK
                                                                               : 0) |
                                     (int32_t)(task->altstack_flags & SS_AUTODISARM),
                            .size = task->altstack_size};
    registers_save(&out.context.registers, frame, task);
    out.context.registers.fpu = fpu;
    out.context.registers.old_mask = mask;
    out.context.mask = mask;
    out.info = *info;
    if (fpu_save_to_user(fpu) != VL_OK || copy_to_user(at, &out, sizeof(out)) != VL_OK) {
        return -EFAULT;
    }
    if ((task->altstack_flags & SS_AUTODISARM) != 0) {
        task->altstack_base = 0;
        task->altstack_size = 0;
        task->altstack_flags = 0;
    }
    frame->rdi = (uint64_t)info->signo;
    frame->rsi = at + offsetof(struct user_frame, info);
    frame->rdx = at + offsetof(struct user_frame, context);
    frame->rax = 0;
    frame->rip = action->handler;
    frame->rsp = at;
    frame->rflags &= ~(uint64_t)(RFLAGS_DF | RFLAGS_RF | RFLAGS_TF);
    frame->cs = SEL_USER_CODE;
    frame->ss = SEL_USER_DATA;
    if (frame->rip >= USER_END) {
        /* The jump would fault on its own; an address that is not canonical must not reach it. */
        return -EFAULT;
    }
    return 0;
}

static void registers_restore(struct trap_frame *frame, const struct user_registers *in)
{
    frame->r8 = in->r8;
    frame->r9 = in->r9;
    frame->r10 = in->r10;
    frame->r11 = in->r11;
    frame->r12 = in->r12;
    frame->r13 = in->r13;
    frame->r14 = in->r14;
    frame->r15 = in->r15;
    frame->rdi = in->rdi;
    frame->rsi = in->rsi;
    frame->rbp = in->rbp;
    frame->rbx = in->rbx;
    frame->rdx = in->rdx;
    frame->rax = in->rax;
    frame->rcx = in->rcx;
    frame->rsp = in->rsp;
    frame->rip = in->rip;
    frame->rflags = (frame->rflags & ~(uint64_t)RFLAGS_USER) | (in->rflags & RFLAGS_USER) |
                    RFLAGS_IF | RFLAGS_ONE;
    frame->cs = SEL_USER_CODE;
    frame->ss = SEL_USER_DATA;
    frame->error = UINT64_MAX; /* no call to restart */
}

SYSCALL(rt_sigreturn)
{
    struct trap_frame *frame = current_frame();
    struct task *task = current_task();
    struct user_context context;
    uint64_t at = frame->rsp - 8; /* the handler's return took the return address */

    if (copy_from_user(&context, at + offsetof(struct user_frame, context), sizeof(context)) !=
            VL_OK ||
        context.registers.rip >= USER_END || context.registers.rsp >= USER_END ||
        fpu_load_from_user(context.registers.fpu) != VL_OK) {
        const struct signal_info info = {.signo = SIGSEGV, .code = SI_KERNEL};

        signal_force(&info);
        return 0;
    }
    registers_restore(frame, &context.registers);
    (void)signal_set_blocked(context.mask);
    if (task->altstack_size != 0 || (context.stack.flags & (int32_t)SS_DISABLE) == 0) {
        (void)signal_altstack_set(task, context.stack.base, (uint32_t)context.stack.flags,
                                  context.stack.size, frame->rsp);
    }
    return (long)frame->rax;
}

long signal_altstack_set(struct task *task, uint64_t base, uint32_t flags, uint64_t size,
                         uint64_t sp)
{
    uint32_t mode = flags & ~SS_AUTODISARM;

    if (on_altstack(task, sp)) {
        return -EPERM;
    }
    if (mode != SS_DISABLE && mode != SS_ONSTACK && mode != 0) {
        return -EINVAL;
    }
    if (mode == SS_DISABLE) {
        base = 0;
        size = 0;
        flags = 0;
    } else if (size < MINSIGSTKSZ) {
        return -ENOMEM;
    }
    task->altstack_base = base;
    task->altstack_size = size;
    task->altstack_flags = flags & SS_AUTODISARM;
    return 0;
}

SYSCALL(sigaltstack)
{
    struct task *task = current_task();
    uint64_t sp = current_frame()->rsp;
    struct user_stack old = {.base = task->altstack_base,
                             .flags = (int32_t)(task->altstack_size == 0 ? SS_DISABLE
                                                : on_altstack(task, sp)  ? SS_ONSTACK
                                                                         : 0) |
                                      (int32_t)(task->altstack_flags & SS_AUTODISARM),
                             .size = task->altstack_size};
    struct user_stack fresh;
    long result = 0;

    if (a != 0) {
        if (copy_from_user(&fresh, (uint64_t)a, sizeof(fresh)) != VL_OK) {
            return -EFAULT;
        }
        result = signal_altstack_set(task, fresh.base, (uint32_t)fresh.flags, fresh.size, sp);
    }
    if (result == 0 && b != 0 && copy_to_user((uint64_t)b, &old, sizeof(old)) != VL_OK) {
        return -EFAULT;
    }
    return result;
}
