/*
 * fallback.c - weak stand-ins for parts that other folders supply, so that the kernel links and
 * starts without them.
 */
#include <vellum/vellum.h>
#include "core/base/compiler.h"
#include "kernel/cpu/cpu.h"
#include "kernel/cpu/trap.h"
#include "kernel/lib/panic.h"

VLI_WEAK void proc_user_fault(struct trap_frame *frame, const struct user_fault *fault)
{
    panic_frame(frame, "user fault %u at %lx", (unsigned)fault->vector,
                (unsigned long)fault->address);
}

VLI_WEAK void proc_return_work(struct trap_frame *frame)
{
    (void)frame;
}

VLI_WEAK long syscall_unknown(long a, long b, long c, long d, long e, long f)
{
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
    return VL_ENOSYS;
}

VLI_WEAK syscall_fn *const syscall_table[SYSCALL_COUNT] = {syscall_unknown};
