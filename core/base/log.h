/*
 * log.h - formatted lines for vl_host_log() and for the texts of report/; a subset of printf.
 *
 * Understood: %s %c %d %u %x %lu %lx %ld %llu %llx %zu %p %%, with width, 0 and - flags.
 */
#ifndef VLI_LOG_H
#define VLI_LOG_H

#include <stdarg.h>
#include <vellum/host.h>

/** vli_format() - as vsnprintf(): writes at most @size bytes with the ending 0; returns the length
 * that the whole text has. Context: any. */
size_t vli_format(char *out, size_t size, const char *format, va_list args) VL_PRINTF(3, 0);

/** vli_print() - vli_format() with its arguments in place. */
size_t vli_print(char *out, size_t size, const char *format, ...) VL_PRINTF(3, 4);

/** vli_log() - one line of at most 159 characters for the host's log. Context: any. */
void vli_log(enum vl_log_level level, const char *format, ...) VL_PRINTF(2, 3);

/** vli_panic() - formatted vl_host_panic(). */
_Noreturn void vli_panic(const char *format, ...) VL_PRINTF(1, 2);

#endif
