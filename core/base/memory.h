/*
 * memory.h - the four functions of tier 0 that compilers call anyway, with their C names.
 */
#ifndef VLI_MEMORY_H
#define VLI_MEMORY_H

#include <stddef.h>

/** memcpy() - as in C; the host's or its libc's. */
void *memcpy(void *restrict to, const void *restrict from, size_t size);
/** memmove() - as in C. */
void *memmove(void *to, const void *from, size_t size);
/** memset() - as in C. */
void *memset(void *to, int byte, size_t size);
/** memcmp() - as in C. */
int memcmp(const void *a, const void *b, size_t size);

#endif
