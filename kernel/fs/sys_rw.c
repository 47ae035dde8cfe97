/*
 * sys_rw.c - the calls that move bytes: read, write and their relatives, lseek, sendfile.
 *
 * Order of checks as Linux: the descriptor (EBADF), its access mode (EBADF), what the file can do
 * (EINVAL, EISDIR, ESPIPE), the buffer (EFAULT), the length (EINVAL). What was moved before an
 * error is returned instead of the error.
 */
#include "kernel/fs/fdtable.h"
#include "kernel/fs/syscalls.h"
#include "kernel/fs/vfs.h"
#include "kernel/cpu/uaccess.h"
#include "kernel/proc/process.h"

#define SEEK_SET  0
#define SEEK_CUR  1
#define SEEK_END  2
#define SEEK_DATA 3
#define SEEK_HOLE 4

#define RWF_HIPRI  1u
#define RWF_DSYNC  2u
#define RWF_SYNC   4u
#define RWF_NOWAIT 8u

enum transfer { TRANSFER_READ, TRANSFER_WRITE };

/* May @file be used that way? 0; -EBADF; -EISDIR; -EINVAL. */
static long transfer_check(struct file *file, enum transfer way)
{
    unsigned access = file->flags & O_ACCMODE;

    if (access != O_RDWR && access != (way == TRANSFER_READ ? O_RDONLY : O_WRONLY)) {
        return -EBADF;
    }
    if (way == TRANSFER_READ ? file->ops->read == NULL : file->ops->write == NULL) {
        return inode_is(file->inode, S_IFDIR) ? -EISDIR : -EINVAL;
    }
    return 0;
}

static long transfer(struct file *file, struct user_iter *iter, uint64_t *pos, enum transfer way)
{
    if (!file->ops->is_stream && iter->left > (uint64_t)INT64_MAX - *pos) {
        return -EINVAL;
    }
    return way == TRANSFER_READ ? file->ops->read(file, iter, pos)
                                : file->ops->write(file, iter, pos);
}

/* At the file's own position, which two users of one open file change one after the other. */
static long transfer_at_own(struct file *file, struct user_iter *iter,
                            enum transfer way) VL_NO_LOCK_CHECK
{
    bool is_shared =
        !file->ops->is_stream && atomic_load_explicit(&file->references, memory_order_relaxed) > 1;
    uint64_t pos;
    long result;

    if (is_shared) {
        mutex_lock(&file->pos_mutex);
    }
    pos = file->pos;
    result = transfer(file, iter, &pos, way);
    if (!file->ops->is_stream) {
        file->pos = pos;
    }
    if (is_shared) {
        mutex_unlock(&file->pos_mutex);
    }
    return result;
}

static long simple_transfer(int fd, uint64_t buffer, uint64_t len, enum transfer way)
{
    struct user_iter iter;
    struct fd_ref ref;
    long result;

    if (!fd_ref_get(fd, FD_NORMAL, &ref)) {
        return -EBADF;
    }
    result = transfer_check(ref.file, way);
    if (result == 0 && !user_range_ok(buffer, len)) {
        result = -EFAULT;
    }
    if (result == 0) {
        iter_user(&iter, buffer, len < IO_BYTES_MAX ? len : IO_BYTES_MAX);
        result = transfer_at_own(ref.file, &iter, way);
    }
    fd_ref_put(&ref);
    return result;
}

SYSCALL(read)
{
    return simple_transfer((int)a, (uint64_t)b, (uint64_t)c, TRANSFER_READ);
}

SYSCALL(write)
{
    return simple_transfer((int)a, (uint64_t)b, (uint64_t)c, TRANSFER_WRITE);
}

/* At a given position; the file's own stays. */
static long transfer_at(struct file *file, struct user_iter *iter, int64_t offset,
                        enum transfer way)
{
    uint64_t pos = (uint64_t)offset;

    return transfer(file, iter, &pos, way);
}

static long positioned_transfer(int fd, uint64_t buffer, uint64_t len, int64_t offset,
                                enum transfer way)
{
    struct user_iter iter;
    struct fd_ref ref;
    long result;

    if (offset < 0) {
        return -EINVAL;
    }
    if (!fd_ref_get(fd, FD_NORMAL, &ref)) {
        return -EBADF;
    }
    result = ref.file->ops->is_stream ? -ESPIPE : transfer_check(ref.file, way);
    if (result == 0 && !user_range_ok(buffer, len)) {
        result = -EFAULT;
    }
    if (result == 0) {
        iter_user(&iter, buffer, len < IO_BYTES_MAX ? len : IO_BYTES_MAX);
        result = transfer_at(ref.file, &iter, offset, way);
    }
    fd_ref_put(&ref);
    return result;
}

SYSCALL(pread64)
{
    return positioned_transfer((int)a, (uint64_t)b, (uint64_t)c, d, TRANSFER_READ);
}

SYSCALL(pwrite64)
{
    return positioned_transfer((int)a, (uint64_t)b, (uint64_t)c, d, TRANSFER_WRITE);
}

/* @offset < 0: at the file's own position. */
static long vector_transfer(int fd, uint64_t vector, uint64_t count, int64_t offset,
                            enum transfer way)
{
    struct io_segment room[IO_SEGMENTS_FAST];
    struct io_segment *segments;
    struct user_iter iter;
    struct fd_ref ref;
    long result;

    if (!fd_ref_get(fd, FD_NORMAL, &ref)) {
        return -EBADF;
    }
    result = offset >= 0 && ref.file->ops->is_stream ? -ESPIPE : transfer_check(ref.file, way);
    if (result == 0) {
        result = iter_segments(&iter, vector, count, room, &segments);
        if (result == 0) {
            result = offset < 0 ? transfer_at_own(ref.file, &iter, way)
                                : transfer_at(ref.file, &iter, offset, way);
            if (segments != room) {
                vl_kfree(segments);
            }
        }
    }
    fd_ref_put(&ref);
    return result;
}

SYSCALL(readv)
{
    return vector_transfer((int)a, (uint64_t)b, (uint64_t)c, -1, TRANSFER_READ);
}

SYSCALL(writev)
{
    return vector_transfer((int)a, (uint64_t)b, (uint64_t)c, -1, TRANSFER_WRITE);
}

SYSCALL(preadv)
{
    return d < 0 ? -EINVAL : vector_transfer((int)a, (uint64_t)b, (uint64_t)c, d, TRANSFER_READ);
}

SYSCALL(pwritev)
{
    return d < 0 ? -EINVAL : vector_transfer((int)a, (uint64_t)b, (uint64_t)c, d, TRANSFER_WRITE);
}

/* The second generation: an offset of -1 means the file's own, and there are flags. Files in
 * memory never wait and are always as good as synced, so those flags hold by themselves. */
static long flagged_transfer(long fd, long vector, long count, long offset, long flags,
                             enum transfer way)
{
    if (((unsigned long)flags & ~(unsigned long)(RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_NOWAIT)) !=
        0) {
        return -EOPNOTSUPP;
    }
    if (offset < -1) {
        return -EINVAL;
    }
    return vector_transfer((int)fd, (uint64_t)vector, (uint64_t)count, offset, way);
}

SYSCALL(preadv2)
{
    return flagged_transfer(a, b, c, d, f, TRANSFER_READ);
}

SYSCALL(pwritev2)
{
    return flagged_transfer(a, b, c, d, f, TRANSFER_WRITE);
}

/* ---------------------------------------------------------------------------------- lseek */

/* SEEK_DATA and SEEK_HOLE of a regular file. Returns: the offset or -ENXIO. */
static long seek_content(struct file *file, int64_t offset, bool want_data)
{
    struct vl_object *object = inode_object(file->inode);
    uint64_t size = object != NULL ? vl_object_size(object) : inode_size(file->inode);
    uint64_t pos = (uint64_t)offset;

    if (offset < 0 || pos >= size) {
        return -ENXIO;
    }
    while (object != NULL && pos < size) {
        struct vl_pfn pfn;
        bool is_data =
            vl_object_page_get(object, pos >> VL_PAGE_SHIFT, VL_PAGE_FIND, &pfn) == VL_OK;

        if (is_data) {
            vl_object_page_put(pfn);
        }
        if (is_data == want_data) {
            return (long)pos;
        }
        pos = (pos | VL_PAGE_MASK) + 1;
    }
    if (object == NULL && want_data) {
        return offset;
    }
    return want_data ? -ENXIO : (long)size;
}

/* Where @whence starts. 0 or an errno. */
static long seek_base(struct file *file, unsigned whence, uint64_t *out)
{
    switch (whence) {
    case SEEK_SET:
        *out = 0;
        return 0;
    case SEEK_CUR:
        *out = file->pos;
        return 0;
    case SEEK_END:
        *out = inode_is(file->inode, S_IFREG) ? inode_size(file->inode) : 0;
        return 0;
    default:
        return -EINVAL;
    }
}

static long seek(struct file *file, int64_t offset, unsigned whence)
{
    uint64_t base;
    int64_t target;
    long result;

    if (file->ops->is_endless) {
        return 0;
    }
    if (file->ops->is_stream) {
        return -ESPIPE;
    }
    if (whence == SEEK_DATA || whence == SEEK_HOLE) {
        result = seek_content(file, offset, whence == SEEK_DATA);
    } else {
        result = seek_base(file, whence, &base);
        if (result != 0) {
            return result;
        }
        if (__builtin_add_overflow((int64_t)base, offset, &target) || target < 0) {
            return -EINVAL;
        }
        result = target;
    }
    if (result >= 0) {
        file->pos = (uint64_t)result;
    }
    return result;
}

SYSCALL(lseek)
{
    struct fd_ref ref;
    long result;

    if (!fd_ref_get((int)a, FD_NORMAL, &ref)) {
        return -EBADF;
    }
    mutex_lock(&ref.file->pos_mutex);
    result = seek(ref.file, b, (unsigned)c);
    mutex_unlock(&ref.file->pos_mutex);
    fd_ref_put(&ref);
    return result;
}

/* --------------------------------------------------------------------- from file to file */

#define BOUNCE_BYTES 16384u

/* Copy up to @len bytes from one open file to another through a buffer. Positions move by what was
 * written. Returns: bytes or an errno. */
static long copy_between(struct file *in, uint64_t *in_pos, struct file *out, uint64_t *out_pos,
                         size_t len)
{
    char *bounce = vl_kmalloc(BOUNCE_BYTES, VL_WAIT);
    long done = 0;
    long result = 0;

    if (bounce == NULL) {
        return -ENOMEM;
    }
    while ((size_t)done < len) {
        size_t piece = len - (size_t)done < BOUNCE_BYTES ? len - (size_t)done : BOUNCE_BYTES;
        struct user_iter iter;
        uint64_t from = *in_pos;
        long got;

        iter_kernel(&iter, bounce, piece);
        got = in->ops->read(in, &iter, &from);
        if (got <= 0) {
            result = got;
            break;
        }
        iter_kernel(&iter, bounce, (size_t)got);
        result = out->ops->write(out, &iter, out_pos);
        if (result <= 0) {
            break;
        }
        done += result;
        *in_pos += (uint64_t)result;
        if (result < got || thread_signal_pending(current())) {
            break;
        }
    }
    vl_kfree(bounce);
    return done != 0 ? done : result;
}

static long sendfile_files(struct file *out, struct file *in, uint64_t user_offset, size_t len)
{
    uint64_t pos = in->pos;
    long result = transfer_check(in, TRANSFER_READ);

    if (result == 0) {
        result = transfer_check(out, TRANSFER_WRITE);
    }
    if (result != 0) {
        return result == -EISDIR ? -EINVAL : result;
    }
    if (in->ops->is_stream || (out->flags & O_APPEND) != 0) {
        return -EINVAL;
    }
    if (user_offset != 0 && get_user64(&pos, user_offset) != VL_OK) {
        return -EFAULT;
    }
    if ((int64_t)pos < 0) {
        return -EINVAL;
    }
    result = copy_between(in, &pos, out, &out->pos, len);
    if (user_offset == 0) {
        in->pos = pos;
    } else if (put_user64(user_offset, pos) != VL_OK) {
        return -EFAULT;
    }
    return result;
}

SYSCALL(sendfile)
{
    struct fd_ref out;
    struct fd_ref in;
    size_t len = (size_t)d < IO_BYTES_MAX ? (size_t)d : IO_BYTES_MAX;
    long result = -EBADF;

    if (!fd_ref_get((int)b, FD_NORMAL, &in)) {
        return -EBADF;
    }
    if (fd_ref_get((int)a, FD_NORMAL, &out)) {
        result = sendfile_files(out.file, in.file, (uint64_t)c, len);
        fd_ref_put(&out);
    }
    fd_ref_put(&in);
    return result;
}

/* The position that an optional user pointer gives, or the file's own. 0 or an errno. */
static long range_position(struct file *file, uint64_t user_offset, uint64_t *out)
{
    *out = file->pos;
    if (user_offset != 0 && get_user64(out, user_offset) != VL_OK) {
        return -EFAULT;
    }
    return (int64_t)*out < 0 ? -EINVAL : 0;
}

static long range_position_set(struct file *file, uint64_t user_offset, uint64_t pos)
{
    if (user_offset == 0) {
        file->pos = pos;
        return 0;
    }
    return put_user64(user_offset, pos) == VL_OK ? 0 : -EFAULT;
}

static long copy_range(struct file *in, uint64_t user_in, struct file *out, uint64_t user_out,
                       size_t len)
{
    uint64_t in_pos;
    uint64_t out_pos;
    long result = transfer_check(in, TRANSFER_READ);

    result = result == 0 ? transfer_check(out, TRANSFER_WRITE) : result;
    if (result == 0 && (out->flags & O_APPEND) != 0) {
        result = -EBADF;
    }
    if (result == 0 && (!inode_is(in->inode, S_IFREG) || !inode_is(out->inode, S_IFREG))) {
        result = -EINVAL;
    }
    result = result == 0 ? range_position(in, user_in, &in_pos) : result;
    result = result == 0 ? range_position(out, user_out, &out_pos) : result;
    if (result != 0) {
        return result;
    }
    if (in->inode == out->inode && in_pos < out_pos + len && out_pos < in_pos + len) {
        return -EINVAL;
    }
    result = copy_between(in, &in_pos, out, &out_pos, len);
    if (result > 0 && (range_position_set(in, user_in, in_pos) != 0 ||
                       range_position_set(out, user_out, out_pos) != 0)) {
        return -EFAULT;
    }
    return result;
}

SYSCALL(copy_file_range)
{
    struct fd_ref in;
    struct fd_ref out;
    size_t len = (size_t)e < IO_BYTES_MAX ? (size_t)e : IO_BYTES_MAX;
    long result = -EBADF;

    if (!fd_ref_get((int)a, FD_NORMAL, &in)) {
        return -EBADF;
    }
    if (fd_ref_get((int)c, FD_NORMAL, &out)) {
        result = f != 0 ? -EINVAL : copy_range(in.file, (uint64_t)b, out.file, (uint64_t)d, len);
        fd_ref_put(&out);
    }
    fd_ref_put(&in);
    return result;
}
