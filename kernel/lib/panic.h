/*
 * panic.h - the end; printk.h has panic() itself.
 */
#ifndef KERNEL_LIB_PANIC_H
#define KERNEL_LIB_PANIC_H

#include "kernel/cpu/trap.h"
#include "kernel/lib/printk.h"

/** panic_frame() - panic() about what @frame was doing: its registers, its back trace. */
_Noreturn void panic_frame(const struct trap_frame *frame, const char *format, ...) VL_PRINTF(2, 3);

#endif
