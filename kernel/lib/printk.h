/*
 * printk.h - the kernel's log: to the serial console, and kept in a ring for dmesg.
 */
#ifndef KERNEL_LIB_PRINTK_H
#define KERNEL_LIB_PRINTK_H

#include <stdarg.h>
#include <vellum/host.h>

/**
 * printk() - one line; the newline is added. Formats as in core/base/log.h.
 * VL_LOG_INFO and VL_LOG_DEBUG lines stay off the console with `quiet`. Context: any.
 */
void printk(enum vl_log_level level, const char *format, ...) VL_PRINTF(2, 3);

/** panic() - message, CPU, registers, symbolised back trace; then as panic= says. Context: any. */
_Noreturn void panic(const char *format, ...) VL_PRINTF(1, 2);

/** printk_break_lock() - for panics: the lock's holder may never release it. */
void printk_break_lock(void);

/** printk_set_quiet() - keep info lines off the console from now on. */
void printk_set_quiet(bool quiet);

/** printk_read() - copy of the ring's text from @offset on (syslog(2), /dev/kmsg).
 * Returns: bytes copied. */
size_t printk_read(char *out, size_t size, uint64_t offset);

/** ksym_name() - name of the function that holds @address, and the distance from its start;
 * "?" when unknown. */
const char *ksym_name(uintptr_t address, uintptr_t *out_offset);

#endif
