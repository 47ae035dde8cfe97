/*
 * empty.c - a malloc that does nothing, to be preloaded: what the benchmark's loops and two calls
 * through the procedure linkage table cost by themselves, under the tests that do not look at what
 * they get. Every block is the same one; others get what is cut off one piece, never given back.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static _Alignas(64) unsigned char block[64];
static _Alignas(64) unsigned char piece[1 << 20];
static size_t used;

__attribute__((aligned(64))) void *malloc(size_t size)
{
    (void)size;
    return block;
}

__attribute__((aligned(64))) void free(void *p)
{
    (void)p;
}

void *calloc(size_t count, size_t size)
{
    size_t bytes = (count * size + 63u) & ~(size_t)63u;

    if (bytes > sizeof(piece) - used) {
        return NULL;
    }
    used += bytes;
    return piece + used - bytes;
}

void *realloc(void *p, size_t size)
{
    unsigned char *fresh = calloc(1, size);

    if (fresh != NULL && p != NULL && (uintptr_t)p - (uintptr_t)piece < sizeof(piece)) {
        memcpy(fresh, p,
               size < sizeof(piece) - (size_t)((unsigned char *)p - piece)
                   ? size
                   : sizeof(piece) - (size_t)((unsigned char *)p - piece));
    }
    return fresh;
}
