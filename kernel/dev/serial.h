/*
 * serial.h - COM1: output for the log and the console, input for the tty.
 */
#ifndef KERNEL_DEV_SERIAL_H
#define KERNEL_DEV_SERIAL_H

#include <vellum/types.h>

/** serial_write() - put bytes out, waiting for the device; '\n' goes out as it is. Context: any;
 * lines of several CPUs do not mix within one call. */
void serial_write(const char *text, size_t len);

/** serial_early_init() - program COM1: 115200 8N1, FIFO on, no interrupts. */
void serial_early_init(void);

/**
 * serial_set_input() - from now on each received byte goes to @input, in interrupt context with
 * interrupts off. NULL drops input.
 */
void serial_set_input(void (*input)(unsigned char byte));

/** serial_break_lock() - for panics: the lock's holder may never release it. */
void serial_break_lock(void);

#endif
