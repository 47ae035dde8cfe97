/*
 * calls.h - the system calls by which the heap gets memory, past what others interpose.
 *
 * A library that is loaded beside ours may have an mmap() or mprotect() of its own, to count calls
 * or to print them, and may allocate there. The heap calls these inside its start and while it
 * holds the locks of its growth, so that such a call would wait for itself for ever. libc's malloc
 * calls them where nobody can come between, and so it is here.
 *
 * What takes memory away (munmap(), mremap(), madvise()) goes by the usual names: who keeps notes
 * of addresses, as libraries for fast networks do of what they have registered, must hear of that.
 *
 * Sanitizers have to see all of them: their builds use the usual names.
 */
#ifndef MALLOC_CALLS_H
#define MALLOC_CALLS_H

#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(MALLOC_RENAME_H)
#define VLI_CALL_MAP(bytes, rights, flags)     mmap(NULL, bytes, rights, flags, -1, 0)
#define VLI_CALL_PROTECT(start, bytes, rights) mprotect(start, bytes, rights)
#else
#define VLI_CALL_MAP(bytes, rights, flags)                                                         \
    (void *)syscall(SYS_mmap, NULL, bytes, rights, flags, -1, 0L)
#define VLI_CALL_PROTECT(start, bytes, rights) syscall(SYS_mprotect, start, bytes, rights)
#endif

/** vli_call_map() - private memory of its own; MAP_FAILED and errno on failure.
 * @flags: beside MAP_PRIVATE and MAP_ANONYMOUS. */
static inline void *vli_call_map(size_t bytes, int rights, int flags)
{
    return VLI_CALL_MAP(bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS | flags);
}

/** vli_call_open() - it may be read and written; 0, or -1 and errno. */
static inline int vli_call_open(void *start, size_t bytes)
{
    return (int)VLI_CALL_PROTECT(start, bytes, PROT_READ | PROT_WRITE);
}

#undef VLI_CALL_MAP
#undef VLI_CALL_PROTECT

#endif
