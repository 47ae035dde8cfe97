/*
 * exec.h - what exec.c, exec_args.c and elf.c share: one execve on its way.
 *
 * The new program is built in a space of its own, stack and all, before the old one is touched:
 * until exec_commit() any failure leaves the caller as it was. Only what Linux finds out too late
 * for that (a segment that cannot be mapped) ends the process by SIGSEGV, as it does there.
 */
#ifndef KERNEL_PROC_EXEC_H
#define KERNEL_PROC_EXEC_H

#include "kernel/proc/internal.h"

#define EXEC_HEAD_BYTES 1024u /* of the file, read at once: the ELF header and its segments */
/* A MiB below the end: programs that try the last page must not hit their own stack, which on Linux
 * is never there either. */
#define EXEC_STACK_TOP   ((vl_va)0x7ffffff00000)
#define EXEC_PIE_BASE    ((vl_va)0x555555554000)
#define EXEC_STACK_SLACK ((size_t)128 << 10) /* mapped below what is written, as Linux does */

/* Strings one after another, in a chain of pages. */
struct exec_page {
    struct exec_page *next;
    uint32_t used;
    uint32_t pad;
    char bytes[VL_PAGE_SIZE - 16];
};

struct exec_strings {
    struct exec_page *first;
    struct exec_page *last;
    size_t bytes;     /* sum, with the ending zeros */
    size_t arg_bytes; /* of which the arguments are */
    uint32_t args;
    uint32_t envs;
    uint32_t skip; /* bytes of argv[0], which a script replaces by its prefix */
    /* A script's interpreter, its argument and the script's path, put in front: built from the
     * end of the buffer downwards. */
    char *prefix;
    size_t prefix_start;
    uint32_t prefix_count;
};
#define EXEC_PREFIX_BYTES 8192u

struct exec {
    const char *path;  /* as named: AT_EXECFN */
    struct file *file; /* the program, or the interpreter of a script */
    struct vl_space *space;
    struct exec_strings strings;
    uint64_t head_len;
    unsigned char head[EXEC_HEAD_BYTES];
    /* What the loader found. */
    vl_va entry; /* where to start: the program's or its interpreter's */
    vl_va program_entry;
    vl_va program_headers;
    uint32_t program_header_count;
    vl_va interpreter_base;
    vl_va brk;
    uint32_t stack_prot;
    bool too_late; /* Linux would have given up the old program by now */
    /* What the stack holds. */
    vl_va sp;
    vl_va arg_start, arg_end, env_start, env_end;
};

/* ------------------------------------------------------------------------- exec_args.c */

/** exec_strings_user() - collect argv and envp, arrays of pointers in user memory (0: empty).
 * Returns: 0, -EFAULT, -E2BIG, -ENOMEM. */
long exec_strings_user(struct exec_strings *strings, uint64_t argv, uint64_t envp);
/** exec_strings_kernel() - the same from the kernel's memory; NULL-ended. */
long exec_strings_kernel(struct exec_strings *strings, const char *const *argv,
                         const char *const *envp);
/** exec_strings_script() - argv[0] becomes @interpreter, @argument (unless NULL), @script. */
long exec_strings_script(struct exec_strings *strings, const char *interpreter,
                         const char *argument, const char *script);
void exec_strings_free(struct exec_strings *strings);

/** exec_stack() - map the stack and lay out what a program starts with. Returns: 0, -ENOMEM,
 * -E2BIG. */
long exec_stack(struct exec *exec);

/** space_write() - write to a space that nobody runs in yet. Returns: 0 or a negated errno. */
long space_write(struct vl_space *space, vl_va at, const void *bytes, size_t len);
/** space_zero() - Returns: 0 or a negated errno. */
long space_zero(struct vl_space *space, vl_va at, size_t len);

/* ------------------------------------------------------------------------------- elf.c */

/** elf_load() - map exec->file, and its interpreter if it names one, into exec->space.
 * Returns: 0; -ENOEXEC not ours; others as Linux. exec->too_late says when the error kills. */
long elf_load(struct exec *exec);

#endif
