/*
 * splice.c - splice, tee and vmsplice: bytes between a pipe and a file, another pipe, memory.
 *
 * Linux moves pages by reference where it can. Here bytes are copied, which no program can tell
 * apart but by the time it takes: a pipe's frames belong to it alone, and a page that a file or a
 * program may still change must not be seen through a pipe later. SPLICE_F_MOVE and _GIFT are
 * hints, then, and do nothing.
 *
 * While bytes move between a pipe and a file, the pipe's mutex is held (pipe_drain()), as on Linux:
 * what the file refuses stays in the pipe, in its place.
 */
#include "kernel/cpu/uaccess.h"
#include "kernel/fs/fdtable.h"
#include "kernel/fs/pipe.h"
#include "kernel/fs/syscalls.h"
#include "kernel/proc/process.h"

#define SPLICE_F_NONBLOCK 2u
#define SPLICE_F_ALL      15u /* MOVE, NONBLOCK, MORE, GIFT */

struct splice {
    struct file *file;
    uint64_t pos;
};

static long splice_to_file(void *arg, void *bytes, size_t len)
{
    struct splice *splice = arg;
    struct user_iter iter;

    iter_kernel(&iter, bytes, len);
    return splice->file->ops->write(splice->file, &iter, &splice->pos);
}

static long splice_from_file(void *arg, void *bytes, size_t len)
{
    struct splice *splice = arg;
    struct user_iter iter;

    iter_kernel(&iter, bytes, len);
    return splice->file->ops->read(splice->file, &iter, &splice->pos);
}

static long move_from_user(void *arg, void *bytes, size_t len)
{
    struct user_iter *iter = arg;
    size_t part = len < iter->left ? len : iter->left;
    size_t done = iter_in(iter, bytes, part);

    return done == 0 && part != 0 ? -EFAULT : (long)done;
}

static long move_to_user(void *arg, void *bytes, size_t len)
{
    struct user_iter *iter = arg;
    size_t part = len < iter->left ? len : iter->left;
    size_t done = iter_out(iter, bytes, part);

    return done == 0 && part != 0 ? -EFAULT : (long)done;
}

static bool may_read(const struct file *file)
{
    return (file->flags & O_ACCMODE) != O_WRONLY;
}

static bool may_write(const struct file *file)
{
    return (file->flags & O_ACCMODE) != O_RDONLY;
}

static enum pipe_wait wait_of(unsigned flags, const struct file *one, const struct file *other)
{
    bool waits = (flags & SPLICE_F_NONBLOCK) == 0 && (one->flags & O_NONBLOCK) == 0 &&
                 (other->flags & O_NONBLOCK) == 0;

    return waits ? PIPE_MAY_WAIT : PIPE_NO_WAIT;
}

/* The position of the side that is no pipe: the user's, or its own. 0 or an errno. */
static long splice_begin(struct splice *splice, struct file *file, uint64_t user_pos)
{
    *splice = (struct splice){file, file->pos};
    if (user_pos == 0) {
        return 0;
    }
    if (file->ops->is_stream) {
        return -EINVAL;
    }
    if (get_user64(&splice->pos, user_pos) != VL_OK) {
        return -EFAULT;
    }
    return (int64_t)splice->pos < 0 ? -EINVAL : 0;
}

static long splice_end(const struct splice *splice, uint64_t user_pos)
{
    if (user_pos != 0) {
        return put_user64(user_pos, splice->pos) == VL_OK ? 0 : -EFAULT;
    }
    if (!splice->file->ops->is_stream) {
        splice->file->pos = splice->pos;
    }
    return 0;
}

static long splice_in(struct file *in, uint64_t user_pos, struct file *out, size_t len,
                      unsigned flags)
{
    struct splice splice;
    long result;
    long ended;

    if (in->ops->read == NULL) {
        return -EINVAL;
    }
    result = splice_begin(&splice, in, user_pos);
    if (result != 0) {
        return result;
    }
    result = pipe_fill(pipe_of(out), wait_of(flags, out, out), len, splice_from_file, &splice);
    ended = splice_end(&splice, user_pos);
    return ended != 0 ? ended : result;
}

static long splice_out(struct file *in, struct file *out, uint64_t user_pos, size_t len,
                       unsigned flags)
{
    struct splice splice;
    long result;
    long ended;

    if (out->ops->write == NULL || (out->flags & O_APPEND) != 0) {
        return -EINVAL;
    }
    result = splice_begin(&splice, out, user_pos);
    if (result != 0) {
        return result;
    }
    result = pipe_drain(pipe_of(in), wait_of(flags, in, in), len, splice_to_file, &splice);
    ended = splice_end(&splice, user_pos);
    return ended != 0 ? ended : result;
}

static long splice_files(struct file *in, uint64_t in_pos, struct file *out, uint64_t out_pos,
                         size_t len, unsigned flags)
{
    struct pipe *from = pipe_of(in);
    struct pipe *to = pipe_of(out);

    if (!may_read(in) || !may_write(out)) {
        return -EBADF;
    }
    if ((from != NULL && in_pos != 0) || (to != NULL && out_pos != 0)) {
        return -ESPIPE;
    }
    if (from == to) {
        return -EINVAL; /* the same pipe, or none at all */
    }
    if (from != NULL && to != NULL) {
        return pipe_copy(from, to, wait_of(flags, in, out), len, PIPE_TAKE);
    }
    return from != NULL ? splice_out(in, out, out_pos, len, flags)
                        : splice_in(in, in_pos, out, len, flags);
}

static size_t len_capped(long len)
{
    return (size_t)len < IO_BYTES_MAX ? (size_t)len : IO_BYTES_MAX;
}

SYSCALL(splice)
{
    struct fd_ref in;
    struct fd_ref out;
    long result = -EBADF;

    if (e == 0) {
        return 0;
    }
    if (((unsigned)f & ~SPLICE_F_ALL) != 0) {
        return -EINVAL;
    }
    if (!fd_ref_get((int)a, FD_NORMAL, &in)) {
        return -EBADF;
    }
    if (fd_ref_get((int)c, FD_NORMAL, &out)) {
        result =
            splice_files(in.file, (uint64_t)b, out.file, (uint64_t)d, len_capped(e), (unsigned)f);
        fd_ref_put(&out);
    }
    fd_ref_put(&in);
    return result;
}

static long tee_files(struct file *in, struct file *out, size_t len, unsigned flags)
{
    struct pipe *from = pipe_of(in);
    struct pipe *to = pipe_of(out);

    if (!may_read(in) || !may_write(out)) {
        return -EBADF;
    }
    if (from == NULL || to == NULL || from == to) {
        return -EINVAL;
    }
    return pipe_copy(from, to, wait_of(flags, in, out), len, PIPE_LEAVE);
}

SYSCALL(tee)
{
    struct fd_ref in;
    struct fd_ref out;
    long result = -EBADF;

    if (((unsigned)d & ~SPLICE_F_ALL) != 0) {
        return -EINVAL;
    }
    if (c == 0) {
        return 0;
    }
    if (!fd_ref_get((int)a, FD_NORMAL, &in)) {
        return -EBADF;
    }
    if (fd_ref_get((int)b, FD_NORMAL, &out)) {
        result = tee_files(in.file, out.file, len_capped(c), (unsigned)d);
        fd_ref_put(&out);
    }
    fd_ref_put(&in);
    return result;
}

/* Into the pipe it goes on until all is in, as write() does; out of it once. */
static long vmsplice_move(struct file *file, struct user_iter *iter, unsigned flags)
{
    struct pipe *pipe = pipe_of(file);
    long done = 0;
    long result;

    if (!may_write(file)) {
        return pipe_drain(pipe, wait_of(flags, file, file), iter->left, move_to_user, iter);
    }
    while (iter->left != 0) {
        result = pipe_fill(pipe, wait_of(flags, file, file), iter->left, move_from_user, iter);
        if (result <= 0) {
            return done != 0 ? done : result;
        }
        done += result;
    }
    return done;
}

SYSCALL(vmsplice)
{
    struct io_segment room[IO_SEGMENTS_FAST];
    struct io_segment *segments = room;
    struct user_iter iter;
    struct fd_ref ref;
    long result;

    if (((unsigned)d & ~SPLICE_F_ALL) != 0) {
        return -EINVAL;
    }
    if (!fd_ref_get((int)a, FD_NORMAL, &ref)) {
        return -EBADF;
    }
    result = pipe_of(ref.file) == NULL
                 ? -EBADF
                 : iter_segments(&iter, (uint64_t)b, (uint64_t)c, room, &segments);
    if (result == 0 && iter.left != 0) {
        result = vmsplice_move(ref.file, &iter, (unsigned)d);
    }
    if (segments != room) {
        vl_kfree(segments);
    }
    fd_ref_put(&ref);
    return result;
}
