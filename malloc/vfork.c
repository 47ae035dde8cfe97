/*
 * vfork.c - vfork(), whose child shares its parent's struct rseq: arch/vfork.h.
 *
 * POSIX allows such a child nothing but execve() and _exit(). But many programs allocate there, for
 * instance a list of arguments, and libc's malloc lets them.
 */
#include "arch/vfork.h"

VLI_VFORK_DEFINE;
