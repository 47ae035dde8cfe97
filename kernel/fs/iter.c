/*
 * iter.c - moving bytes between the kernel and where a call's caller wants them.
 *
 * The usual case, one piece of user memory, is one comparison and one user copy.
 */
#include "kernel/fs/iter.h"
#include <vellum/slab.h>
#include "core/base/assert.h"
#include "kernel/cpu/uaccess.h"
#include "kernel/lib/errno.h"
#include "kernel/lib/mem.h"

/* Leave empty segments behind. Returns: false at the end. */
static bool iter_has_room(struct user_iter *iter)
{
    while (iter->len == 0) {
        if (iter->left == 0) {
            return false;
        }
        iter->base = iter->next->base;
        iter->len = (size_t)iter->next->len;
        if (iter->len > iter->left) {
            iter->len = iter->left;
        }
        iter->next++;
    }
    return true;
}

static void iter_advance(struct user_iter *iter, size_t len)
{
    VL_ASSERT(len <= iter->len && len <= iter->left);
    iter->base += len;
    iter->len -= len;
    iter->left -= len;
}

enum direction { COPY_OUT, COPY_IN, COPY_ZERO };

/* One try between @bytes and user memory. Returns: bytes copied, perhaps a few too low after a
 * fault: user copies go by words. */
static size_t copy_user(uint64_t user, void *bytes, size_t len, enum direction direction)
{
    if (direction == COPY_OUT) {
        return len - copy_to_user_partial(user, bytes, len);
    }
    if (direction == COPY_IN) {
        return len - copy_from_user_partial(bytes, user, len);
    }
    return clear_user(user, len) == VL_OK ? len : 0;
}

/* Bytes of @len that were copied between @bytes and the iterator's current segment, to the byte. */
static size_t copy_piece(struct user_iter *iter, void *bytes, size_t len, enum direction direction)
{
    size_t done;

    if (iter->is_kernel) {
        void *there = (void *)(uintptr_t)iter->base;

        if (direction == COPY_OUT) {
            memcpy(there, bytes, len);
        } else if (direction == COPY_IN) {
            memcpy(bytes, there, len);
        } else {
            memset(there, 0, len);
        }
        return len;
    }
    done = copy_user(iter->base, bytes, len, direction);
    while (done < len) {
        size_t step =
            direction == COPY_ZERO ? VL_PAGE_SIZE - ((iter->base + done) & VL_PAGE_MASK) : 1;
        void *here = direction == COPY_ZERO ? NULL : (char *)bytes + done;

        step = step < len - done ? step : len - done;
        if (copy_user(iter->base + done, here, step, direction) != step) {
            break;
        }
        done += step;
    }
    return done;
}

static size_t iter_copy(struct user_iter *iter, void *bytes, size_t len, enum direction direction)
{
    size_t done = 0;

    while (done < len && iter_has_room(iter)) {
        size_t piece = len - done < iter->len ? len - done : iter->len;
        void *here = direction == COPY_ZERO ? NULL : (char *)bytes + done;
        size_t copied = copy_piece(iter, here, piece, direction);

        iter_advance(iter, copied);
        done += copied;
        if (copied < piece) {
            break;
        }
    }
    return done;
}

size_t iter_out(struct user_iter *iter, const void *bytes, size_t len)
{
    return iter_copy(iter, (void *)(uintptr_t)bytes, len, COPY_OUT);
}

size_t iter_in(struct user_iter *iter, void *bytes, size_t len)
{
    return iter_copy(iter, bytes, len, COPY_IN);
}

size_t iter_zero(struct user_iter *iter, size_t len)
{
    return iter_copy(iter, NULL, len, COPY_ZERO);
}

long iter_segments(struct user_iter *iter, uint64_t user_array, uint64_t count,
                   struct io_segment *room, struct io_segment **out_segments)
{
    struct io_segment *segments = room;
    uint64_t total = 0;

    *out_segments = room;
    if (count > IO_SEGMENTS_MAX) {
        return -EINVAL;
    }
    if (count > IO_SEGMENTS_FAST) {
        segments = vl_kmalloc(count * sizeof(*segments), VL_WAIT);
        if (segments == NULL) {
            return -ENOMEM;
        }
    }
    if (copy_from_user(segments, user_array, count * sizeof(*segments)) != VL_OK) {
        goto bad_address;
    }
    for (uint64_t i = 0; i < count; i++) {
        if ((int64_t)segments[i].len < 0) {
            goto bad_length;
        }
        if (segments[i].len != 0 && !user_range_ok(segments[i].base, segments[i].len)) {
            goto bad_address;
        }
        if (segments[i].len > IO_BYTES_MAX - total) {
            segments[i].len = IO_BYTES_MAX - total;
        }
        total += segments[i].len;
    }
    iter_user(iter, 0, 0);
    iter->left = (size_t)total;
    iter->next = segments;
    *out_segments = segments;
    return 0;

bad_length:
    if (segments != room) {
        vl_kfree(segments);
    }
    return -EINVAL;
bad_address:
    if (segments != room) {
        vl_kfree(segments);
    }
    return -EFAULT;
}
