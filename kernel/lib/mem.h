/*
 * mem.h - memory and string functions of the kernel, with their usual meanings.
 */
#ifndef KERNEL_LIB_MEM_H
#define KERNEL_LIB_MEM_H

#include <vellum/types.h>

/** As in ISO C. Context: any. */
void *memcpy(void *restrict dst, const void *restrict src, size_t len);
void *memmove(void *dst, const void *src, size_t len);
void *memset(void *dst, int byte, size_t len);
int memcmp(const void *a, const void *b, size_t len);

/** As in ISO C and POSIX. Context: any. */
size_t strlen(const char *text);
size_t strnlen(const char *text, size_t max);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t max);
char *strchr(const char *text, int byte);
char *strrchr(const char *text, int byte);

/** strlcpy() - copy as much of @src as fits, always ended by 0 when @size > 0.
 * Returns: the length of @src. */
size_t strlcpy(char *dst, const char *src, size_t size);

#endif
