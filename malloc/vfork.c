/*
 * vfork.c - vfork(), whose child shares its parent's struct rseq: arch/vfork.h; and clone(), whose
 * child does so with CLONE_VM and CLONE_VFORK, but without CLONE_SETTLS, as programs and languages
 * write their own posix_spawn().
 *
 * POSIX allows a child of vfork() nothing but execve() and _exit(). But many programs allocate
 * there, for instance a list of arguments, and libc's malloc lets them.
 *
 * The child of clone() has a stack of its own, and so both sides are plain C: what it is to call
 * stands on the stack of its parent, which sleeps.
 */
#include "arch/vfork.h"
#include "arch/rseq_area.h"
#include <sched.h>
#include <stdarg.h>

VLI_VFORK_DEFINE;

#if defined(__GLIBC__)
#define SHARES (CLONE_VM | CLONE_VFORK)

/* libc's, under its other name. */
int __clone(int (*fn)(void *arg), void *stack, int flags, void *arg, ...);
__attribute__((visibility("default"))) int clone(int (*fn)(void *arg), void *stack, int flags,
                                                 void *arg, ...);

struct start {
    int (*fn)(void *arg);
    void *arg;
    int64_t offset;
};

static int start_child(void *arg)
{
    const struct start *start = arg;

    /* What libc has there when registration failed: all fast paths find the stopped area. */
    *(volatile int32_t *)&vli_rseq_at(start->offset)->cpu_id = -2;
    return start->fn(start->arg);
}

int clone(int (*fn)(void *arg), void *stack, int flags, void *arg, ...)
{
    struct start start = {fn, arg, 0};
    bool shares;
    int *parent_tid;
    int *child_tid;
    void *tls;
    va_list more;
    int child;

    va_start(more, arg);
    parent_tid = va_arg(more, int *);
    tls = va_arg(more, void *);
    child_tid = va_arg(more, int *);
    va_end(more);
    shares = fn != NULL && stack != NULL && (flags & (SHARES | CLONE_SETTLS)) == SHARES;
    start.offset = shares ? vli_vfork_offset() : 0;
    /* A child of a child finds a negative number and changes nothing. */
    if (start.offset == 0 || vli_rseq_at(start.offset)->cpu_id < 0) {
        return __clone(fn, stack, flags, arg, parent_tid, tls, child_tid);
    }
    child = __clone(start_child, stack, flags, &start, parent_tid, tls, child_tid);
    vli_vfork_put_right(start.offset);
    return child;
}
#endif
