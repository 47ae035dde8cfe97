/*
 * step.c - the core one instruction at a time, by the CPU's own single-step trap (EFLAGS.TF).
 *
 * The trap comes after each instruction as a signal. What is not the core's (the machine, libc) is
 * passed over, for an interrupt there would wait anyway: when the core calls it, its return address
 * is exchanged for one that takes up stepping again. That the core called, or jumped to what
 * returns to it, shows in the stack pointer; at a return something else stands on top. The kernel
 * of the host clears TF while a handler runs, so that handlers are not stepped themselves.
 *
 * An interrupt restarts the range that it comes into (vellum/restart.h), so that one after every
 * instruction would keep it there for ever. Interrupts therefore come one instruction later each
 * time that the range begins anew: after its first, then after its second, until it is through. A
 * step without an interrupt restarts nothing.
 *
 * TF is set by a write to the flags; that instruction and those up to the call of @fn are not in
 * the core either.
 */
#include <signal.h>
#include <ucontext.h>
#include "machine/sim/machine.h"

#if defined(VLI_TSAN)
uint64_t sim_step(void (*fn)(void *arg), void *arg, uint64_t at)
{
    (void)at;
    fn(arg);
    return 0;
}
#else

#define TRAP_FLAG 0x100ll

static struct {
    uint64_t seen;
    uint64_t at;
    uintptr_t last;  /* in a range: where the last interrupt came; 0 elsewhere */
    uintptr_t stack; /* where its pointer was before this instruction, if that was of the core */
} step;

/* Where the core goes on after a call of something else. */
uintptr_t sim_step_back;
/* Sets TF and goes there; changes no other flag and no register. */
void sim_step_return(void);
__asm__(".text\n"
        ".type sim_step_return, @function\n"
        "sim_step_return:\n"
        "    pushfq\n"
        "    orq $0x100, (%rsp)\n"
        "    popfq\n"
        "    jmp *sim_step_back(%rip)\n"
        ".size sim_step_return, . - sim_step_return\n");

/* What the core calls runs without steps: they are slow, and some of it is long. */
static void pass_over(ucontext_t *context)
{
    uintptr_t *top = (uintptr_t *)context->uc_mcontext.gregs[REG_RSP];

    if ((uintptr_t)top <= step.stack && sim_irq_is_core_text(*top)) {
        sim_step_back = *top;
        *top = (uintptr_t)sim_step_return;
        context->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    }
}

/* The interrupt, and the restart that it means. @ip: of the next instruction. */
static void interrupt(ucontext_t *context, uintptr_t ip)
{
    uintptr_t on = vl_restart(ip);

    if (on == ip) {
        step.last = 0;
    } else if (ip <= step.last) {
        return;
    } else {
        step.last = ip;
        context->uc_mcontext.gregs[REG_RIP] = (greg_t)on;
    }
    sim_irq_here();
}

static void on_trap(int number, siginfo_t *info, void *arg)
{
    ucontext_t *context = arg;
    uintptr_t ip = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];

    (void)number;
    (void)info;
    if (!sim_irq_is_core_text(ip)) {
        step.last = 0;
        pass_over(context);
        step.stack = 0;
        return;
    }
    step.stack = (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
    step.seen++;
    if (step.at == SIM_STEP_ALL || step.seen == step.at) {
        interrupt(context, ip);
    }
    if (step.seen == step.at) {
        context->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    }
}

static void set_trap_flag(void)
{
    __asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" : : : "memory", "cc");
}

static void clear_trap_flag(void)
{
    __asm__ volatile("pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq" : : : "memory", "cc");
}

uint64_t sim_step(void (*fn)(void *arg), void *arg, uint64_t at)
{
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    struct sigaction before;

    sigemptyset(&action.sa_mask);
    sigaction(SIGTRAP, &action, &before);
    step.seen = 0;
    step.at = at;
    step.last = 0;
    step.stack = 0;
    set_trap_flag();
    fn(arg);
    clear_trap_flag();
    sigaction(SIGTRAP, &before, NULL);
    return step.seen;
}
#endif
