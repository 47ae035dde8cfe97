/*
 * tty.h - terminals, as the rest of the kernel sees them.
 */
#ifndef KERNEL_DEV_TTY_H
#define KERNEL_DEV_TTY_H

#include "kernel/fs/vfs.h"

struct tty;

/**
 * tty_open() - open(2) of a terminal's node: /dev/tty, /dev/console, /dev/ttyS0.
 * @is_plain: do not make it the controlling terminal.
 * Returns: 0 with file->ops set; -ENXIO: /dev/tty without a controlling terminal.
 */
long tty_open(struct file *file, uint32_t device, bool is_plain);

/** tty_device() - st_rdev of a terminal, for /proc/PID/stat. Context: any. */
uint32_t tty_device(const struct tty *tty);
/** tty_foreground() - its foreground group, 0: none. Context: any. */
uint32_t tty_foreground(struct tty *tty);

#endif
