/*
 * malloc.h - what libvellum-malloc offers beyond <stdlib.h>: its state, caches of equal objects
 * that are inlined, and heaps confined to a region.
 *
 * A program that uses these is linked with the library (-lvellum-malloc); one that does not needs
 * nothing: LD_PRELOAD=libvellum-malloc.so.
 */
#ifndef VELLUM_MALLOC_H
#define VELLUM_MALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------- its state
 */

/** vl_malloc_is_percpu() - are free objects kept by CPU (restartable sequences are registered), or
 * by thread? */
bool vl_malloc_is_percpu(void);

/* Bytes, at one moment as far as nothing runs meanwhile. */
struct vl_malloc_stats {
    size_t used;       /* in blocks that are given out, as large as their classes make them */
    size_t kept;       /* free, kept by CPUs or threads */
    size_t free;       /* free otherwise; Linux may have taken back what is behind it */
    size_t taken;      /* addresses in use: the sum of these and of what the heap needs itself */
    size_t large;      /* of used: blocks with a mapping of their own */
    size_t areas;      /* CPUs or threads that keep something: a number */
    size_t given_back; /* to Linux since the start, all together */
    size_t shared; /* free, in batches of which CPUs and threads take one when theirs is used up */
};

/** vl_malloc_stats() - how much of what. */
void vl_malloc_stats(struct vl_malloc_stats *out);

/* ------------------------------------------------------------------------------- inlined caches */

/*
 * Objects of one exact size, without rounding to a class: 520 bytes take 520. alloc and free inline
 * to a restartable sequence. Fields are the library's.
 */
struct vl_malloc_cache {
    void **areas; /* by CPU or thread */
    int64_t rseq; /* from the thread pointer to struct rseq */
    size_t index; /* of the cache; its word in an area is at 8 * index */
    size_t object_bytes;
};

/**
 * vl_malloc_cache_create() - a cache of objects of @size bytes, 1 … 32768.
 * @name:  kept, not copied.
 * @align: power of 2 up to 4096; 0: 8, or 16 if @size is a multiple of 16.
 * @out:   set on success only.
 * Returns: 0; EINVAL; ENOMEM (there are about 20 caches at most).
 */
int vl_malloc_cache_create(const char *name, size_t size, size_t align,
                           struct vl_malloc_cache *out);

/** vl_malloc_cache_destroy() - Returns: 0; EBUSY while objects are out: the cache stays. */
int vl_malloc_cache_destroy(struct vl_malloc_cache *cache);

/** vl_malloc_cache_alloc_slow() - what vl_malloc_cache_alloc() comes to when a CPU has no object.
 * By number, so that the struct's address stays in the program and its fields in registers.
 */
void *vl_malloc_cache_alloc_slow(size_t index);

/** vl_malloc_cache_free_slow() - the same of vl_malloc_cache_free(), when it has no room. */
void vl_malloc_cache_free_slow(size_t index, void *object);

/* An array of free objects ends at a multiple of this. */
#define VL_MALLOC_SHEAF_BYTES 2048

/* ThreadSanitizer sees nothing of assembly. */
#if defined(__SANITIZE_THREAD__)
#define VL_MALLOC_NO_INLINE
#endif
#if defined(__has_feature)
#if __has_feature(thread_sanitizer) && !defined(VL_MALLOC_NO_INLINE)
#define VL_MALLOC_NO_INLINE
#endif
#endif

#if defined(__x86_64__) && defined(__GNUC__) && !defined(VL_MALLOC_NO_INLINE)
/* The sequences of arch/x86_64/arch/rseq_area.h, which explains them. One that is interrupted ends
 * in the slow path. */
#define VL_MALLOC_SEQUENCE(work, slow)                                                             \
    "771:\n\t"                                                                                     \
    "leaq 774f(%%rip), %[area]\n\t"                                                                \
    "movq %[area], %%fs:8(%[rseq])\n"                                                              \
    "772:\n\t"                                                                                     \
    "movslq %%fs:4(%[rseq]), %[area]\n\t"                                                          \
    "movq (%[areas],%[area],8), %[area]\n\t" work "\n773:\n\t"                                     \
    ".pushsection __rseq_cs, \"aw\", @progbits\n\t"                                                \
    ".balign 32\n"                                                                                 \
    "774:\n\t"                                                                                     \
    ".long 0, 0\n\t"                                                                               \
    ".quad 772b, 773b - 772b, 775f\n\t"                                                            \
    ".popsection\n\t"                                                                              \
    ".pushsection .text.vl_malloc_abort, \"ax\", @progbits\n\t"                                    \
    ".byte 0x0f, 0xb9, 0x3d\n\t"                                                                   \
    ".long 0x53053053\n"                                                                           \
    "775:\n\t"                                                                                     \
    "jmp %l[" slow "]\n\t"                                                                         \
    ".popsection"

/** vl_malloc_cache_alloc() - one object, not cleared, or NULL. */
static inline void *vl_malloc_cache_alloc(const struct vl_malloc_cache *cache)
{
    void *object;
    void *temp;
    void *area;

    __asm__ goto volatile(
        VL_MALLOC_SEQUENCE("movq (%[area],%[index],8), %[temp]\n\t"
                           "movq -8(%[temp]), %[object]\n\t"
                           "testq %[object], %[object]\n\t"
                           "jz %l[empty]\n\t"
                           "subq $8, %[temp]\n\t"
                           "movq %[temp], (%[area],%[index],8)",
                           "empty")
        : [object] "=&r"(object), [temp] "=&r"(temp), [area] "=&r"(area)
        : [rseq] "r"(cache->rseq), [areas] "r"(cache->areas), [index] "r"(cache->index)
        : "cc", "memory"
        : empty);
    __asm__ volatile("");
    return object;
empty:
    return vl_malloc_cache_alloc_slow(cache->index);
}

/** vl_malloc_cache_free() - give one back, from any thread. Not NULL. */
static inline void vl_malloc_cache_free(const struct vl_malloc_cache *cache, void *object)
{
    void *temp;
    void *area;

    __asm__ goto volatile(
        VL_MALLOC_SEQUENCE("movq (%[area],%[index],8), %[temp]\n\t"
                           "testl %[mask], %k[temp]\n\t"
                           "jz %l[full]\n\t"
                           "movq %[object], (%[temp])\n\t"
                           "addq $8, %[temp]\n\t"
                           "movq %[temp], (%[area],%[index],8)",
                           "full")
        : [temp] "=&r"(temp), [area] "=&r"(area)
        : [rseq] "r"(cache->rseq), [areas] "r"(cache->areas), [index] "r"(cache->index),
          [object] "r"(object), [mask] "i"(VL_MALLOC_SHEAF_BYTES - 1)
        : "cc", "memory"
        : full);
    return;
full:
    vl_malloc_cache_free_slow(cache->index, object);
}
#else
static inline void *vl_malloc_cache_alloc(const struct vl_malloc_cache *cache)
{
    return vl_malloc_cache_alloc_slow(cache->index);
}

static inline void vl_malloc_cache_free(const struct vl_malloc_cache *cache, void *object)
{
    vl_malloc_cache_free_slow(cache->index, object);
}
#endif

/* ------------------------------------------------------------------- heaps confined to a region */

/*
 * A heap that lives in the memory it is given, wholly: blocks, and what it knows about them. It
 * never asks anybody for more. Any thread may use it.
 */
struct vl_heap;

struct vl_heap_stats {
    size_t bytes;   /* that blocks can have at most, when there is only one */
    size_t used;    /* in blocks given out, with their headers */
    size_t free;    /* in free blocks */
    size_t largest; /* the largest block that a call would get now */
    size_t blocks;  /* given out: a number */
};

/**
 * vl_heap_create() - a heap in @region.
 * @bytes: its length, 4096 at least.
 * Returns: it; NULL when @bytes is too small (errno is EINVAL).
 */
struct vl_heap *vl_heap_create(void *region, size_t bytes);

/** vl_heap_destroy() - end it. The region is the caller's again, with all blocks. */
void vl_heap_destroy(struct vl_heap *heap);

/** vl_heap_alloc() - @size bytes aligned to 16, or NULL when no free block is large enough. */
void *vl_heap_alloc(struct vl_heap *heap, size_t size);

/** vl_heap_alloc_aligned() - the same, aligned to @align, a power of 2. */
void *vl_heap_alloc_aligned(struct vl_heap *heap, size_t align, size_t size);

/** vl_heap_realloc() - as realloc(), within the heap: in place where the next block is free. */
void *vl_heap_realloc(struct vl_heap *heap, void *p, size_t size);

/** vl_heap_free() - give back a block of this heap, or NULL. A pointer that is not one of a block
 * that is out ends the program with a message. */
void vl_heap_free(struct vl_heap *heap, void *p);

/** vl_heap_usable_size() - what the block can hold. */
size_t vl_heap_usable_size(const struct vl_heap *heap, const void *p);

/** vl_heap_stats() - how full it is. */
void vl_heap_stats(struct vl_heap *heap, struct vl_heap_stats *out);

#ifdef __cplusplus
}
#endif

#endif
