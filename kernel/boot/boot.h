/*
 * boot.h - what the loader handed over: command line, initial file system, memory.
 */
#ifndef KERNEL_BOOT_BOOT_H
#define KERNEL_BOOT_BOOT_H

#include <vellum/types.h>

#define BOOT_INIT_ARGS_MAX 32

struct boot_options {
    const char *command_line; /* as given, for /proc/cmdline */
    const char *rdinit;       /* "/init" unless rdinit= */
    const char *init;         /* init=, or NULL */
    bool quiet;
    int panic_seconds; /* panic=: 0 halts, > 0 restarts after, < 0 restarts at once */
    /* What was not ours, as Linux does it: words with '=' become init's environment, others its
     * arguments (also all behind "--"). */
    const char *init_args[BOOT_INIT_ARGS_MAX];
    const char *init_env[BOOT_INIT_ARGS_MAX];
    unsigned init_arg_count;
    unsigned init_env_count;
    int crash; /* vellum.crash=: tests make the kernel panic */
};

/** boot_options() - never changes after start-up. */
const struct boot_options *boot_options(void);

/** boot_option_value() - value of vellum.@name= (or of any NAME=) on the command line, NULL when
 * absent; ended by a blank or 0: @out_len has its length. */
const char *boot_option_value(const char *name, size_t *out_len);

struct boot_initrd {
    struct vl_pa start;
    uint64_t len_bytes; /* 0: none was given */
};

/** boot_initrd() - the cpio image in physical memory; its frames are reserved. */
struct boot_initrd boot_initrd(void);

/** boot_initrd_release() - give back the frames [@start, @end) of the image, page-aligned. */
void boot_initrd_release(struct vl_pa start, struct vl_pa end);

/* ---------------------------------------- start of the upper parts; weak defaults do nothing */

/** fs_init() - kernel/fs: mount the root, fill it from the initrd. Context: thread, once. */
void fs_init(void);
/** dev_init() - kernel/dev: tty and other devices. Context: thread, once, before fs_init(). */
void dev_init(void);
/** proc_init() - kernel/proc: tables. Context: thread, once, after fs_init(). */
void proc_init(void);
/** proc_run_init() - exec the first program in this thread. Does not return; panics as Linux does
 * when there is none. */
void proc_run_init(void);

#endif
