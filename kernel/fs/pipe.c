/*
 * pipe.c - pipes: a ring of bytes in page frames.
 *
 * head and tail count the bytes written and read; byte n lies in frame n / 4096 % pages. A frame
 * is had when the first byte goes into it and given back when the last was read; one spare is
 * kept, and an emptied pipe starts again at the frame that it has, so that a pipe that carries
 * little at a time stays in one page.
 *
 * Lock: pipe->mutex, a sleeping lock, for everything but the two wait queues: user memory is
 * copied under it. For a FIFO inode->mutex guards inode->u.pipe and the count of its files.
 *
 * A write of at most PIPE_BUF bytes waits until it fits at once, so it is never mixed with others.
 * Waiting writers are woken when PIPE_BUF bytes are free: nobody waits for more.
 */
#include "kernel/fs/pipe.h"
#include "kernel/fs/inode_types.h"
#include "kernel/fs/poll.h"
#include "kernel/cpu/uaccess.h"
#include "kernel/lib/mem.h"
#include "kernel/proc/process.h"

#define PAGES_FIRST 16u
#define FIONREAD    0x541bu

struct pipe {
    struct mutex mutex;
    struct wait_queue readers_wait;
    struct wait_queue writers_wait;
    uint64_t head;       /* bytes written */
    uint64_t tail;       /* bytes read */
    uint32_t page_count; /* a power of 2 */
    uint32_t readers;    /* open files that read */
    uint32_t writers;
    uint32_t reader_opens; /* ever: a waiting open sees one that came and went */
    uint32_t writer_opens;
    uint32_t files; /* that hold the pipe; FIFO: inode->mutex */
    struct vl_pfn spare;
    struct vl_pfn *frames;
    struct vl_pfn first_frames[PAGES_FIRST];
};

static struct vl_cache *pipe_cache;

void pipe_init(void)
{
    static const struct vl_cache_spec spec = {
        .name = "pipe", .size = sizeof(struct pipe), .align = 64};

    if (vl_cache_create(&spec, &pipe_cache) != VL_OK) {
        vli_panic("no memory for the cache of pipes");
    }
}

static struct pipe *pipe_alloc(void)
{
    struct pipe *pipe = vl_cache_alloc(pipe_cache, VL_WAIT | VL_ZEROED);

    if (pipe == NULL) {
        return NULL;
    }
    mutex_init(&pipe->mutex);
    wait_queue_init(&pipe->readers_wait);
    wait_queue_init(&pipe->writers_wait);
    pipe->page_count = PAGES_FIRST;
    pipe->frames = pipe->first_frames;
    pipe->spare = VL_PFN_NONE;
    for (unsigned i = 0; i < PAGES_FIRST; i++) {
        pipe->frames[i] = VL_PFN_NONE;
    }
    return pipe;
}

static void frame_drop(struct vl_pfn pfn)
{
    if (!vl_pfn_is_none(pfn)) {
        vl_frame_free(pfn, 0);
    }
}

static void pipe_free(struct pipe *pipe)
{
    for (unsigned i = 0; i < pipe->page_count; i++) {
        frame_drop(pipe->frames[i]);
    }
    frame_drop(pipe->spare);
    if (pipe->frames != pipe->first_frames) {
        vl_kfree(pipe->frames);
    }
    vl_cache_free(pipe_cache, pipe);
}

static size_t bytes_held(const struct pipe *pipe)
{
    return (size_t)(pipe->head - pipe->tail);
}

/* Room is counted from the start of tail's frame: head never comes around into that frame, which
 * is given back as a whole. */
static size_t bytes_free(const struct pipe *pipe)
{
    return pipe->page_count * VL_PAGE_SIZE -
           (size_t)(pipe->head - (pipe->tail & ~(uint64_t)VL_PAGE_MASK));
}

static struct vl_pfn *frame_at(struct pipe *pipe, uint64_t position)
{
    return &pipe->frames[(position >> VL_PAGE_SHIFT) & (pipe->page_count - 1)];
}

/* --------------------------------------------------------------------------- the data path */

/* The bytes up to tail were read: give their frame back, or start afresh. The mutex is held. */
static void recycle(struct pipe *pipe, uint64_t old_tail)
{
    struct vl_pfn *slot = frame_at(pipe, old_tail);

    if (pipe->head == pipe->tail) {
        struct vl_pfn frame = *slot;

        *slot = VL_PFN_NONE;
        pipe->head = 0;
        pipe->tail = 0;
        pipe->frames[0] = frame;
    } else if ((pipe->tail & VL_PAGE_MASK) == 0) {
        if (vl_pfn_is_none(pipe->spare)) {
            pipe->spare = *slot;
        } else {
            vl_frame_free(*slot, 0);
        }
        *slot = VL_PFN_NONE;
    }
}

/* Copy what is there, up to what is wanted. Returns: bytes or -EFAULT. The mutex is held. */
static long take_bytes(struct pipe *pipe, struct user_iter *to)
{
    long done = 0;

    while (to->left != 0 && pipe->head != pipe->tail) {
        size_t within = (size_t)(pipe->tail & VL_PAGE_MASK);
        size_t piece = VL_PAGE_SIZE - within;
        uint64_t old_tail = pipe->tail;
        size_t copied;

        piece = piece < bytes_held(pipe) ? piece : bytes_held(pipe);
        piece = piece < to->left ? piece : to->left;
        copied = iter_out(to, (char *)vl_frame_to_virt(*frame_at(pipe, old_tail)) + within, piece);
        if (copied != 0) {
            pipe->tail += copied;
            done += (long)copied;
            recycle(pipe, old_tail);
        }
        if (copied < piece) {
            return done != 0 ? done : -EFAULT;
        }
    }
    return done;
}

/* The frame that the byte at head goes into; had if it is not there. false: no memory. */
static bool frame_for_head(struct pipe *pipe)
{
    struct vl_pfn *slot = frame_at(pipe, pipe->head);

    if (!vl_pfn_is_none(*slot)) {
        return true;
    }
    if (!vl_pfn_is_none(pipe->spare)) {
        *slot = pipe->spare;
        pipe->spare = VL_PFN_NONE;
        return true;
    }
    return vl_frame_alloc(0, VL_WAIT, slot) == VL_OK;
}

/* Copy as much as fits. Returns: bytes or an errno. The mutex is held. */
static long give_bytes(struct pipe *pipe, struct user_iter *from)
{
    long done = 0;

    while (from->left != 0 && bytes_free(pipe) != 0) {
        size_t within = (size_t)(pipe->head & VL_PAGE_MASK);
        size_t piece = VL_PAGE_SIZE - within;
        size_t copied;

        piece = piece < bytes_free(pipe) ? piece : bytes_free(pipe);
        piece = piece < from->left ? piece : from->left;
        if (!frame_for_head(pipe)) {
            return done != 0 ? done : -ENOMEM;
        }
        copied =
            iter_in(from, (char *)vl_frame_to_virt(*frame_at(pipe, pipe->head)) + within, piece);
        pipe->head += copied;
        done += (long)copied;
        if (copied < piece) {
            return done != 0 ? done : -EFAULT;
        }
    }
    return done;
}

static void wake_if_any(struct wait_queue *queue)
{
    if (!wait_queue_is_empty(queue)) {
        wake_all(queue);
    }
}

static bool is_nonblocking(struct file *file)
{
    return (atomic_load_explicit(&file->flags, memory_order_relaxed) & O_NONBLOCK) != 0;
}

static long pipe_read(struct file *file, struct user_iter *to, uint64_t *pos)
{
    struct pipe *pipe = file->private_data;
    long result = 0;
    bool wake;

    (void)pos;
    if (to->left == 0) {
        return 0;
    }
    mutex_lock(&pipe->mutex);
    while (bytes_held(pipe) == 0 && pipe->writers != 0) {
        if (is_nonblocking(file)) {
            result = -EAGAIN;
        } else if (wait_on_mutex(&pipe->readers_wait, &pipe->mutex, WAIT_INTERRUPTIBLE,
                                 WAIT_FOREVER) == VL_EINTR) {
            result = -ERESTARTSYS;
        }
        if (result != 0) {
            mutex_unlock(&pipe->mutex);
            return result;
        }
    }
    result = take_bytes(pipe, to);
    wake = result > 0 && bytes_free(pipe) >= PIPE_BUF_BYTES;
    mutex_unlock(&pipe->mutex);
    if (wake) {
        wake_if_any(&pipe->writers_wait);
    }
    return result;
}

/* May a write that has @left bytes to go put some in now? The mutex is held. */
static bool has_room_for(struct pipe *pipe, struct file *file, size_t left)
{
    size_t want = left < PIPE_BUF_BYTES ? left : PIPE_BUF_BYTES;

    /* Without blocking, a long write takes what there is. */
    if (left > PIPE_BUF_BYTES && is_nonblocking(file)) {
        want = 1;
    }
    return bytes_free(pipe) >= want;
}

/* One turn of a write. Returns: bytes; an errno; 0: try again. The mutex is held. */
static long write_turn(struct pipe *pipe, struct file *file, struct user_iter *from)
    VL_REQUIRES(pipe->mutex)
{
    if (pipe->readers == 0) {
        signal_send_thread(current(), SIGPIPE);
        return -EPIPE;
    }
    if (has_room_for(pipe, file, from->left)) {
        long done = give_bytes(pipe, from);

        wake_if_any(&pipe->readers_wait);
        return done;
    }
    if (is_nonblocking(file)) {
        return -EAGAIN;
    }
    return wait_on_mutex(&pipe->writers_wait, &pipe->mutex, WAIT_INTERRUPTIBLE, WAIT_FOREVER) ==
                   VL_EINTR
               ? -ERESTARTSYS
               : 0;
}

static long pipe_write(struct file *file, struct user_iter *from, uint64_t *pos)
{
    struct pipe *pipe = file->private_data;
    long done = 0;
    long result = 0;

    (void)pos;
    mutex_lock(&pipe->mutex);
    while (from->left != 0) {
        size_t left = from->left;

        result = write_turn(pipe, file, from);
        if (result < 0) {
            break;
        }
        done += result;
        if (result != 0 && from->left != 0 && (size_t)result < left && bytes_free(pipe) != 0) {
            break; /* a bad address, or no memory, after some bytes */
        }
    }
    mutex_unlock(&pipe->mutex);
    return done != 0 ? done : result;
}

/* ---------------------------------------------------------------------------------- splice */

/* Wait until there is something to read. 1; 0: nothing will come; an errno. The mutex is held. */
static long drain_wait(struct pipe *pipe, enum pipe_wait how) VL_REQUIRES(pipe->mutex)
{
    while (bytes_held(pipe) == 0) {
        if (pipe->writers == 0) {
            return 0;
        }
        if (how == PIPE_NO_WAIT) {
            return -EAGAIN;
        }
        if (wait_on_mutex(&pipe->readers_wait, &pipe->mutex, WAIT_INTERRUPTIBLE, WAIT_FOREVER) ==
            VL_EINTR) {
            return -ERESTARTSYS;
        }
    }
    return 1;
}

/* Wait until something fits. 1 or an errno. The mutex is held. */
static long fill_wait(struct pipe *pipe, enum pipe_wait how) VL_REQUIRES(pipe->mutex)
{
    for (;;) {
        if (pipe->readers == 0) {
            signal_send_thread(current(), SIGPIPE);
            return -EPIPE;
        }
        if (bytes_free(pipe) != 0) {
            return 1;
        }
        if (how == PIPE_NO_WAIT) {
            return -EAGAIN;
        }
        if (wait_on_mutex(&pipe->writers_wait, &pipe->mutex, WAIT_INTERRUPTIBLE, WAIT_FOREVER) ==
            VL_EINTR) {
            return -ERESTARTSYS;
        }
    }
}

static size_t smallest(size_t one, size_t two, size_t three)
{
    size_t least = one < two ? one : two;

    return least < three ? least : three;
}

long pipe_drain(struct pipe *pipe, enum pipe_wait how, size_t len, pipe_mover *mover, void *arg)
{
    size_t done = 0;
    long result;

    mutex_lock(&pipe->mutex);
    result = drain_wait(pipe, how);
    while (result > 0 && done < len && bytes_held(pipe) != 0) {
        uint64_t old_tail = pipe->tail;
        size_t within = (size_t)(old_tail & VL_PAGE_MASK);
        size_t piece = smallest(len - done, VL_PAGE_SIZE - within, bytes_held(pipe));

        result = mover(arg, (char *)vl_frame_to_virt(*frame_at(pipe, old_tail)) + within, piece);
        if (result > 0) {
            pipe->tail += (size_t)result;
            done += (size_t)result;
            recycle(pipe, old_tail);
        }
        if (result != (long)piece) {
            break;
        }
    }
    mutex_unlock(&pipe->mutex);
    if (done != 0) {
        wake_if_any(&pipe->writers_wait);
    }
    return done != 0 ? (long)done : result;
}

long pipe_fill(struct pipe *pipe, enum pipe_wait how, size_t len, pipe_mover *mover, void *arg)
{
    size_t done = 0;
    long result;

    mutex_lock(&pipe->mutex);
    result = fill_wait(pipe, how);
    while (result > 0 && done < len && bytes_free(pipe) != 0) {
        size_t within = (size_t)(pipe->head & VL_PAGE_MASK);
        size_t piece = smallest(len - done, VL_PAGE_SIZE - within, bytes_free(pipe));

        if (!frame_for_head(pipe)) {
            result = -ENOMEM;
            break;
        }
        result = mover(arg, (char *)vl_frame_to_virt(*frame_at(pipe, pipe->head)) + within, piece);
        if (result > 0) {
            pipe->head += (size_t)result;
            done += (size_t)result;
        }
        if (result != (long)piece) {
            break;
        }
    }
    mutex_unlock(&pipe->mutex);
    if (done != 0) {
        wake_if_any(&pipe->readers_wait);
    }
    return done != 0 ? (long)done : result;
}

/* Both mutexes are held. */
static long copy_locked(struct pipe *from, struct pipe *to, size_t len, enum pipe_copy_how what)
{
    uint64_t position = from->tail;
    size_t done = 0;

    while (done < len && position != from->head && bytes_free(to) != 0) {
        uint64_t old = position;
        size_t within = (size_t)(old & VL_PAGE_MASK);
        size_t piece = smallest(len - done, VL_PAGE_SIZE - within, (size_t)(from->head - old));
        struct user_iter iter;
        long copied;

        iter_kernel(&iter, (char *)vl_frame_to_virt(*frame_at(from, old)) + within, piece);
        copied = give_bytes(to, &iter);
        if (copied <= 0) {
            return done != 0 ? (long)done : copied;
        }
        done += (size_t)copied;
        position += (size_t)copied;
        if (what == PIPE_TAKE) {
            from->tail = position;
            recycle(from, old);
            position = from->tail;
        }
    }
    return (long)done;
}

/* One of the two is waited for at a time; then both are locked, by address, to look again. */
long pipe_copy(struct pipe *from, struct pipe *to, enum pipe_wait how, size_t len,
               enum pipe_copy_how what)
{
    struct pipe *first = from < to ? from : to;
    struct pipe *second = from < to ? to : from;
    long result;

    do {
        mutex_lock(&from->mutex);
        result = drain_wait(from, how);
        mutex_unlock(&from->mutex);
        if (result <= 0) {
            return result;
        }
        mutex_lock(&to->mutex);
        result = fill_wait(to, how);
        mutex_unlock(&to->mutex);
        if (result <= 0) {
            return result;
        }
        mutex_lock(&first->mutex);
        mutex_lock(&second->mutex);
        result = copy_locked(from, to, len, what);
        mutex_unlock(&second->mutex);
        mutex_unlock(&first->mutex);
    } while (result == 0);
    if (result > 0) {
        wake_if_any(&to->readers_wait);
        wake_if_any(&from->writers_wait);
    }
    return result;
}

static unsigned pipe_poll(struct file *file, struct poll_wait *wait)
{
    struct pipe *pipe = file->private_data;
    unsigned access = file->flags & O_ACCMODE;
    unsigned ready = 0;

    if (access != O_WRONLY) {
        poll_wait_on(wait, &pipe->readers_wait);
    }
    if (access != O_RDONLY) {
        poll_wait_on(wait, &pipe->writers_wait);
    }
    mutex_lock(&pipe->mutex);
    if (access != O_WRONLY) {
        ready |= bytes_held(pipe) != 0 ? POLLIN | POLLRDNORM : 0;
        ready |= pipe->writers == 0 && pipe->writer_opens != (uint32_t)file->pos ? POLLHUP : 0;
    }
    if (access != O_RDONLY) {
        ready |= bytes_free(pipe) >= PIPE_BUF_BYTES ? POLLOUT | POLLWRNORM : 0;
        ready |= pipe->readers == 0 ? POLLERR : 0;
    }
    mutex_unlock(&pipe->mutex);
    return ready;
}

static long pipe_ioctl(struct file *file, unsigned command, uint64_t arg)
{
    struct pipe *pipe = file->private_data;
    uint32_t held;

    if (command != FIONREAD) {
        return -ENOTTY;
    }
    mutex_lock(&pipe->mutex);
    held = (uint32_t)bytes_held(pipe);
    mutex_unlock(&pipe->mutex);
    return put_user32(arg, held) == VL_OK ? 0 : -EFAULT;
}

/* --------------------------------------------------------------------- opening and closing */

/* @file is one more of its kind. The mutex is held, or nobody else sees the pipe yet. */
static void add_end(struct pipe *pipe, unsigned access)
{
    if (access != O_WRONLY) {
        pipe->readers++;
        pipe->reader_opens++;
    }
    if (access != O_RDONLY) {
        pipe->writers++;
        pipe->writer_opens++;
    }
}

/* One fewer; those who wait on the other side are told when it was the last. */
static void remove_end(struct pipe *pipe, unsigned access)
{
    mutex_lock(&pipe->mutex);
    if (access != O_WRONLY) {
        pipe->readers--;
    }
    if (access != O_RDONLY) {
        pipe->writers--;
    }
    wake_if_any(&pipe->readers_wait);
    wake_if_any(&pipe->writers_wait);
    mutex_unlock(&pipe->mutex);
}

/* Drop a file's hold of the pipe; the last one frees it. */
static void pipe_leave(struct inode *inode, struct pipe *pipe)
{
    bool is_last;

    mutex_lock(&inode->mutex);
    is_last = --pipe->files == 0;
    if (is_last) {
        inode->u.pipe = NULL;
    }
    mutex_unlock(&inode->mutex);
    if (is_last) {
        pipe_free(pipe);
    }
}

static void pipe_release(struct file *file)
{
    struct pipe *pipe = file->private_data;

    remove_end(pipe, file->flags & O_ACCMODE);
    pipe_leave(file->inode, pipe);
}

const struct file_ops file_ops_fifo = {.name = "pipe",
                                       .is_stream = true,
                                       .read = pipe_read,
                                       .write = pipe_write,
                                       .poll = pipe_poll,
                                       .ioctl = pipe_ioctl,
                                       .release = pipe_release};

long pipe_make(unsigned flags, struct file **out_read, struct file **out_write)
{
    static const struct inode_ops no_ops = {NULL, NULL, NULL, NULL, NULL, NULL, NULL};
    struct pipe *pipe = pipe_alloc();
    struct inode *inode;

    if (pipe == NULL) {
        return -ENOMEM;
    }
    inode = inode_make(super_internal(), S_IFIFO | 0600, &no_ops, &file_ops_fifo);
    if (inode == NULL) {
        goto free_pipe;
    }
    *out_read = file_make(inode, &file_ops_fifo, O_RDONLY | flags, pipe);
    if (*out_read == NULL) {
        goto put_inode;
    }
    add_end(pipe, O_RDONLY);
    pipe->files = 1;
    inode->u.pipe = pipe;
    *out_write = file_make(inode, &file_ops_fifo, O_WRONLY | flags, pipe);
    if (*out_write == NULL) {
        file_put(*out_read); /* frees the pipe */
        inode_put(inode);
        return -ENOMEM;
    }
    add_end(pipe, O_WRONLY);
    pipe->files = 2;
    inode_put(inode); /* the files have theirs */
    return 0;

put_inode:
    inode_put(inode);
free_pipe:
    pipe_free(pipe);
    return -ENOMEM;
}

/* The pipe of a FIFO that is being opened; made by the first. NULL: no memory. */
static struct pipe *fifo_enter(struct inode *inode)
{
    struct pipe *pipe;

    mutex_lock(&inode->mutex);
    if (inode->u.pipe == NULL) {
        inode->u.pipe = pipe_alloc();
    }
    pipe = inode->u.pipe;
    if (pipe != NULL) {
        pipe->files++;
    }
    mutex_unlock(&inode->mutex);
    return pipe;
}

/* Wait until the other side was opened once. 0 or -ERESTARTSYS. The mutex is held. */
static long fifo_wait(struct pipe *pipe, bool for_writer) VL_REQUIRES(pipe->mutex)
{
    const uint32_t *opens = for_writer ? &pipe->writer_opens : &pipe->reader_opens;
    const uint32_t *there = for_writer ? &pipe->writers : &pipe->readers;
    uint32_t before = *opens;

    while (*there == 0 && *opens == before) {
        if (wait_on_mutex(for_writer ? &pipe->readers_wait : &pipe->writers_wait, &pipe->mutex,
                          WAIT_INTERRUPTIBLE, WAIT_FOREVER) == VL_EINTR) {
            return -ERESTARTSYS;
        }
    }
    return 0;
}

long fifo_open(struct inode *inode, struct file *file)
{
    struct pipe *pipe = fifo_enter(inode);
    unsigned access = file->flags & O_ACCMODE;
    long result = 0;

    if (pipe == NULL) {
        return -ENOMEM;
    }
    file->private_data = pipe;
    mutex_lock(&pipe->mutex);
    if (access == O_WRONLY && is_nonblocking(file) && pipe->readers == 0) {
        mutex_unlock(&pipe->mutex);
        pipe_leave(inode, pipe);
        return -ENXIO;
    }
    add_end(pipe, access);
    wake_if_any(&pipe->readers_wait);
    wake_if_any(&pipe->writers_wait);
    if (access == O_WRONLY) {
        result = fifo_wait(pipe, false);
    } else if (access == O_RDONLY && !is_nonblocking(file)) {
        result = fifo_wait(pipe, true);
    } else if (access == O_RDONLY && pipe->writers == 0) {
        file->pos = pipe->writer_opens; /* no hang-up before the first writer came */
    }
    mutex_unlock(&pipe->mutex);
    if (result != 0) {
        remove_end(pipe, access);
        pipe_leave(inode, pipe);
    }
    return result;
}

/* ------------------------------------------------------------------------------- capacity */

struct pipe *pipe_of(struct file *file)
{
    return file->ops == &file_ops_fifo ? file->private_data : NULL;
}

long pipe_capacity(struct pipe *pipe)
{
    long bytes;

    mutex_lock(&pipe->mutex);
    bytes = (long)(pipe->page_count * VL_PAGE_SIZE);
    mutex_unlock(&pipe->mutex);
    return bytes;
}

/* Move the frames into an array of @count. The mutex is held. */
static void move_frames(struct pipe *pipe, struct vl_pfn *frames, unsigned count)
{
    struct vl_pfn *old = pipe->frames;
    uint64_t first = pipe->tail >> VL_PAGE_SHIFT;

    for (unsigned i = 0; i < count; i++) {
        frames[i] = VL_PFN_NONE;
    }
    for (unsigned i = 0; i < pipe->page_count; i++) {
        uint64_t page = first + i;
        struct vl_pfn frame = old[page & (pipe->page_count - 1)];

        if (i < count) {
            frames[page & (count - 1)] = frame;
        } else {
            frame_drop(frame);
        }
    }
    if (old != pipe->first_frames) {
        vl_kfree(old);
    }
    pipe->frames = frames;
    pipe->page_count = count;
}

long pipe_set_capacity(struct pipe *pipe, uint64_t bytes)
{
    unsigned count = 1;
    struct vl_pfn *frames;
    uint64_t used;

    if (bytes > PIPE_BYTES_MAX) {
        return bytes > INT32_MAX ? -EINVAL : -EPERM;
    }
    while (count * VL_PAGE_SIZE < bytes) {
        count *= 2;
    }
    frames = vl_kmalloc(count * sizeof(*frames), VL_WAIT);
    if (frames == NULL) {
        return -ENOMEM;
    }
    mutex_lock(&pipe->mutex);
    used = bytes_held(pipe) == 0
               ? 1 /* head's own frame may be there */
               : ((pipe->head - 1) >> VL_PAGE_SHIFT) - (pipe->tail >> VL_PAGE_SHIFT) + 1;
    if (used > count || bytes_held(pipe) > count * VL_PAGE_SIZE) {
        mutex_unlock(&pipe->mutex);
        vl_kfree(frames);
        return -EBUSY;
    }
    move_frames(pipe, frames, count);
    wake_if_any(&pipe->writers_wait);
    mutex_unlock(&pipe->mutex);
    return (long)(count * VL_PAGE_SIZE);
}
