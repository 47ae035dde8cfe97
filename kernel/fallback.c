/*
 * fallback.c - weak stand-ins for parts that other folders supply, so that the kernel links and
 * starts without them.
 */
#include <vellum/vellum.h>
#include "core/base/compiler.h"
#include "kernel/cpu/cpu.h"
#include "kernel/cpu/trap.h"
#include "kernel/lib/panic.h"

VLI_WEAK void vl_space_switch(struct vl_space *space)
{
    (void)space;
    vl_host_table_switch((struct vl_pa){0});
}

VLI_WEAK enum vl_status vl_selftest(const char **out_hook)
{
    *out_hook = NULL;
    return VL_OK;
}

VLI_WEAK void vl_space_tables_set_kernel(struct vl_pa root)
{
    (void)root;
}

VLI_WEAK enum vl_status vl_space_fault(struct vl_space *space, vl_va va, uint32_t access)
{
    (void)space;
    (void)va;
    (void)access;
    return VL_EFAULT;
}

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
