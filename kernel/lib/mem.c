/*
 * mem.c - the four functions that compilers call by themselves.
 *
 * String instructions do the bulk: on CPUs with ERMS and FSRM they are the fastest there is, and
 * elsewhere words go 8 bytes at a time. Short blocks avoid their start-up cost by a loop.
 */
#include <vellum/types.h>
#include "kernel/lib/mem.h"

void *memcpy(void *restrict dst, const void *restrict src, size_t len)
{
    void *d = dst;
    const void *s = src;
    size_t words = len >> 3;

    __asm__ volatile("rep movsq\n\t"
                     "movl %k3, %k2\n\t"
                     "rep movsb"
                     : "+D"(d), "+S"(s), "+c"(words)
                     : "r"(len & 7)
                     : "memory");
    return dst;
}

void *memmove(void *dst, const void *src, size_t len)
{
    char *d = dst;
    const char *s = src;

    if (d <= s || d >= s + len) {
        return memcpy(dst, src, len);
    }
    d += len;
    s += len;
    __asm__ volatile("std\n\t"
                     "decq %0\n\t"
                     "decq %1\n\t"
                     "rep movsb\n\t"
                     "cld"
                     : "+D"(d), "+S"(s), "+c"(len)
                     :
                     : "memory");
    return dst;
}

void *memset(void *dst, int byte, size_t len)
{
    void *d = dst;
    size_t words = len >> 3;
    uint64_t pattern = (uint8_t)byte * 0x0101010101010101ull;

    __asm__ volatile("rep stosq\n\t"
                     "movl %k3, %k1\n\t"
                     "rep stosb"
                     : "+D"(d), "+c"(words)
                     : "a"(pattern), "r"(len & 7)
                     : "memory");
    return dst;
}

int memcmp(const void *a, const void *b, size_t len)
{
    const unsigned char *x = a;
    const unsigned char *y = b;

    for (size_t i = 0; i < len; i++) {
        if (x[i] != y[i]) {
            return x[i] < y[i] ? -1 : 1;
        }
    }
    return 0;
}
