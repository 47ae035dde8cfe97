/* syscall_weak.c - until the files' calls are there. */
#include "kernel/proc/internal.h"
#include "kernel/proc/syscall_list.h"
#define WEAK(number, name)                                                                         \
    VLI_WEAK SYSCALL(name)                                                                         \
    {                                                                                              \
        return syscall_unknown(a, b, c, d, e, f);                                                  \
    }
SYSCALL_LIST_FS(WEAK)
