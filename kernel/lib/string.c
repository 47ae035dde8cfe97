/*
 * string.c - the few string functions that the kernel uses; short strings, so short code.
 */
#include "kernel/lib/mem.h"

size_t strlen(const char *text)
{
    const char *end = text;

    while (*end != 0) {
        end++;
    }
    return (size_t)(end - text);
}

size_t strnlen(const char *text, size_t max)
{
    size_t len = 0;

    while (len < max && text[len] != 0) {
        len++;
    }
    return len;
}

int strncmp(const char *a, const char *b, size_t max)
{
    for (size_t i = 0; i < max; i++) {
        unsigned char x = (unsigned char)a[i];
        unsigned char y = (unsigned char)b[i];

        if (x != y) {
            return x < y ? -1 : 1;
        }
        if (x == 0) {
            break;
        }
    }
    return 0;
}

int strcmp(const char *a, const char *b)
{
    return strncmp(a, b, SIZE_MAX);
}

char *strchr(const char *text, int byte)
{
    for (;; text++) {
        if (*text == (char)byte) {
            return (char *)(uintptr_t)text;
        }
        if (*text == 0) {
            return NULL;
        }
    }
}

char *strrchr(const char *text, int byte)
{
    const char *found = NULL;

    for (;; text++) {
        if (*text == (char)byte) {
            found = text;
        }
        if (*text == 0) {
            return (char *)(uintptr_t)found;
        }
    }
}

size_t strlcpy(char *dst, const char *src, size_t size)
{
    size_t len = strlen(src);

    if (size > 0) {
        size_t part = len < size ? len : size - 1;

        memcpy(dst, src, part);
        dst[part] = 0;
    }
    return len;
}
