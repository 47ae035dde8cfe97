/*
 * iter.h - where read() puts bytes and write() takes them: user memory in one piece or several, or
 * kernel memory.
 *
 * An iterator only moves forward by what was really copied, so the partial counts that Linux
 * returns after a fault fall out of it.
 */
#ifndef KERNEL_FS_ITER_H
#define KERNEL_FS_ITER_H

#include <vellum/types.h>
#include "core/base/compiler.h"

/* Linux's struct iovec. */
struct io_segment {
    uint64_t base;
    uint64_t len;
};

#define IO_SEGMENTS_MAX 1024u
/* Most that one read or write moves, as on Linux. */
#define IO_BYTES_MAX 0x7ffff000u

struct user_iter {
    uint64_t base; /* rest of the current segment */
    size_t len;
    size_t left; /* bytes in all segments together */
    const struct io_segment *next;
    bool is_kernel;
};

/** iter_user() - over one range of user memory; a bad range is found when it is copied. */
static inline void iter_user(struct user_iter *iter, uint64_t base, size_t len)
{
    iter->base = base;
    iter->len = len;
    iter->left = len;
    iter->next = NULL;
    iter->is_kernel = false;
}

/** iter_kernel() - over kernel memory. */
static inline void iter_kernel(struct user_iter *iter, const void *base, size_t len)
{
    iter_user(iter, (uintptr_t)base, len);
    iter->is_kernel = true;
}

/** iter_out() - read's side: copy @len bytes at @bytes to where the iterator stands. No spin lock
 * may be held. Returns: bytes copied; fewer than @len only at a fault or at its end. */
size_t iter_out(struct user_iter *iter, const void *bytes, size_t len);
/** iter_in() - write's side: copy @len bytes from where the iterator stands. Returns: as above. */
size_t iter_in(struct user_iter *iter, void *bytes, size_t len);
/** iter_zero() - iter_out() of zeroes. */
size_t iter_zero(struct user_iter *iter, size_t len);

/**
 * iter_segments() - import a struct iovec array.
 * @room: IO_SEGMENTS_FAST of them to use when they are enough; *@out_segments is to be kfree'd when
 * it is not @room.
 * Returns: 0; -EINVAL (too many, or a length that is negative or overflows); -EFAULT; -ENOMEM.
 */
#define IO_SEGMENTS_FAST 8u
long iter_segments(struct user_iter *iter, uint64_t user_array, uint64_t count,
                   struct io_segment *room, struct io_segment **out_segments);

#endif
