/*
 * fdtable.c - tables of descriptors.
 *
 * A table has an array of files and two bit maps, "in use" and "close on exec", in one allocation;
 * the first 64 descriptors need none. A descriptor in use whose slot is NULL is reserved: a call
 * is about to fill it.
 *
 * Lock: files->lock (spin, for readers or a writer, KRANK_FILES) for everything. Allocations and
 * puts of files happen outside of it.
 */
#include "kernel/fs/fdtable.h"
#include "kernel/fs/locks.h"
#include "kernel/fs/inode_types.h"
#include "core/base/bits.h"
#include "kernel/lib/mem.h"
#include "kernel/proc/process.h"

#define SLOTS_FIRST 64u

struct files {
    _Atomic uint32_t references;
    struct name_lock lock;
    uint32_t capacity;   /* a multiple of 64 */
    uint32_t first_free; /* nothing below it is free */
    struct file **slots;
    uint64_t *used;
    uint64_t *cloexec;
    struct file *first_slots[SLOTS_FIRST];
    uint64_t first_bits[2];
};

static struct vl_cache *files_cache;

void fdtable_init(void)
{
    static const struct vl_cache_spec spec = {
        .name = "files", .size = sizeof(struct files), .align = 64};

    if (vl_cache_create(&spec, &files_cache) != VL_OK) {
        vli_panic("no memory for the cache of descriptor tables");
    }
}

static bool bit_get(const uint64_t *map, unsigned bit)
{
    return (map[bit / 64] >> bit % 64 & 1u) != 0;
}

static void bit_set(uint64_t *map, unsigned bit, bool value)
{
    if (value) {
        map[bit / 64] |= (uint64_t)1 << bit % 64;
    } else {
        map[bit / 64] &= ~((uint64_t)1 << bit % 64);
    }
}

static void lock_files(struct files *files) VL_ACQUIRE(files->lock) VL_NO_LOCK_CHECK
{
    name_write_lock(&files->lock, KRANK_FILES);
}

static void unlock_files(struct files *files) VL_RELEASE(files->lock) VL_NO_LOCK_CHECK
{
    name_write_unlock(&files->lock, KRANK_FILES);
}

struct files *files_create(void)
{
    struct files *files = vl_cache_alloc(files_cache, VL_WAIT);

    if (files == NULL) {
        return NULL;
    }
    atomic_init(&files->references, 1);
    name_lock_init(&files->lock);
    files->capacity = SLOTS_FIRST;
    files->first_free = 0;
    files->slots = files->first_slots;
    files->used = &files->first_bits[0];
    files->cloexec = &files->first_bits[1];
    files->first_bits[0] = 0;
    files->first_bits[1] = 0;
    return files;
}

/* One allocation with room for @capacity slots and both maps. */
static struct file **slots_alloc(unsigned capacity)
{
    return vl_kmalloc(capacity * sizeof(struct file *) + capacity / 4, VL_WAIT);
}

static void slots_free(struct files *files, struct file **slots)
{
    if (slots != files->first_slots) {
        vl_kfree(slots);
    }
}

/* Move into a bigger array; the lock is held. Slots whose bit is clear are never read. */
static struct file **slots_move(struct files *files, struct file **slots, unsigned capacity)
{
    struct file **old = files->slots;
    uint64_t *used = (uint64_t *)(void *)(slots + capacity);
    uint64_t *cloexec = used + capacity / 64;
    unsigned words = files->capacity / 64;

    memcpy(slots, old, files->capacity * sizeof(*slots));
    memset(used, 0, capacity / 4);
    memcpy(used, files->used, words * sizeof(uint64_t));
    memcpy(cloexec, files->cloexec, words * sizeof(uint64_t));
    files->slots = slots;
    files->used = used;
    files->cloexec = cloexec;
    files->capacity = capacity;
    return old;
}

/* Make the capacity more than @fd. 0 or an errno; the lock is not held. */
static long files_grow(struct files *files, unsigned fd)
{
    unsigned capacity = SLOTS_FIRST;
    struct file **slots;

    if (fd >= FILES_MAX) {
        return -EMFILE;
    }
    while (capacity <= fd) {
        capacity *= 2;
    }
    slots = slots_alloc(capacity);
    if (slots == NULL) {
        return -ENOMEM;
    }
    lock_files(files);
    if (files->capacity < capacity) {
        slots = slots_move(files, slots, capacity);
    }
    unlock_files(files);
    slots_free(files, slots);
    return 0;
}

/* The lowest clear bit of the map from @from on, or the capacity. The lock is held. */
static unsigned free_from(struct files *files, unsigned from)
{
    unsigned words = files->capacity / 64;
    unsigned word = from / 64;
    uint64_t mask = ~(uint64_t)0 << from % 64;

    for (; word < words; word++) {
        uint64_t open = ~files->used[word] & mask;

        if (open != 0) {
            return word * 64 + vli_bit_lowest(open);
        }
        mask = ~(uint64_t)0;
    }
    return files->capacity;
}

/* How many descriptors the running process may have. */
static uint64_t fd_limit(void)
{
    return current_process() != NULL ? rlimit_soft(RLIMIT_NOFILE) : FILES_MAX;
}

long files_reserve(struct files *files, unsigned min, bool cloexec)
{
    uint64_t limit = fd_limit();

    for (;;) {
        unsigned fd = 0;
        bool fits;
        long result;

        lock_files(files);
        fits = min < files->capacity;
        if (fits) {
            fd = free_from(files, min > files->first_free ? min : files->first_free);
            fits = fd < files->capacity;
        } else {
            fd = min;
        }
        if (fd >= limit) {
            unlock_files(files);
            return -EMFILE;
        }
        if (fits) {
            bit_set(files->used, fd, true);
            bit_set(files->cloexec, fd, cloexec);
            files->slots[fd] = NULL;
            if (min <= files->first_free) {
                files->first_free = fd + 1;
            }
        }
        unlock_files(files);
        if (fits) {
            return (long)fd;
        }
        result = files_grow(files, fd);
        if (result != 0) {
            return result;
        }
    }
}

void files_fill(struct files *files, int fd, struct file *file)
{
    lock_files(files);
    VL_ASSERT(files->slots[fd] == NULL);
    files->slots[fd] = file;
    unlock_files(files);
}

/* Take @fd out; the lock is held. */
static void clear_fd(struct files *files, unsigned fd)
{
    files->slots[fd] = NULL;
    bit_set(files->used, fd, false);
    bit_set(files->cloexec, fd, false);
    if (fd < files->first_free) {
        files->first_free = fd;
    }
}

void files_unreserve(struct files *files, int fd)
{
    lock_files(files);
    clear_fd(files, (unsigned)fd);
    unlock_files(files);
}

long files_install(struct files *files, struct file *file, unsigned min, bool cloexec)
{
    long fd = files_reserve(files, min, cloexec);

    if (fd >= 0) {
        files_fill(files, (int)fd, file);
    }
    return fd;
}

/* The file of @fd, no reference; the lock is held. */
static struct file *slot_of(struct files *files, int fd)
{
    if (fd < 0 || (unsigned)fd >= files->capacity || !bit_get(files->used, (unsigned)fd)) {
        return NULL;
    }
    return files->slots[fd];
}

struct file *files_file_get(struct files *files, int fd)
{
    struct file *file;

    name_read_lock(&files->lock, KRANK_FILES);
    file = slot_of(files, fd);
    if (file != NULL) {
        file_get(file);
    }
    name_read_unlock(&files->lock, KRANK_FILES);
    return file;
}

bool fd_ref_get(int fd, enum fd_kind kind, struct fd_ref *out)
{
    struct process *process = current_process();
    struct files *files = process->files;

    /* One process and one thread: nobody else changes the table, and nobody else can come to share
     * it but by our doing. The count is read without its lock: only we could raise it from 1. */
    if (*(volatile uint32_t *)&process->task_count == 1 &&
        atomic_load_explicit(&files->references, memory_order_relaxed) == 1) {
        out->file = slot_of(files, fd);
        out->is_counted = false;
    } else {
        out->file = files_file_get(files, fd);
        out->is_counted = true;
    }
    if (out->file == NULL) {
        return false;
    }
    if (kind == FD_NORMAL &&
        (atomic_load_explicit(&out->file->flags, memory_order_relaxed) & O_PATH) != 0) {
        fd_ref_put(out);
        return false;
    }
    return true;
}

/* A descriptor of @file was closed. */
static void close_file(struct files *files, struct file *file)
{
    locks_close(files, file);
    file_put(file);
}

long files_close(struct files *files, int fd)
{
    struct file *file;

    lock_files(files);
    file = slot_of(files, fd);
    if (file != NULL) {
        clear_fd(files, (unsigned)fd);
    }
    unlock_files(files);
    if (file == NULL) {
        return -EBADF;
    }
    close_file(files, file);
    return 0;
}

long files_replace(struct files *files, int fd, struct file *file, bool cloexec)
{
    struct file *old = NULL;

    if (fd < 0 || (uint64_t)fd >= fd_limit()) {
        return -EBADF;
    }
    if ((unsigned)fd >= files_capacity(files)) {
        long result = files_grow(files, (unsigned)fd);

        if (result != 0) {
            return result;
        }
    }
    lock_files(files);
    if (bit_get(files->used, (unsigned)fd)) {
        old = files->slots[fd];
        if (old == NULL) { /* another thread is about to fill it */
            unlock_files(files);
            return -EBUSY;
        }
    }
    bit_set(files->used, (unsigned)fd, true);
    bit_set(files->cloexec, (unsigned)fd, cloexec);
    files->slots[fd] = file;
    unlock_files(files);
    if (old != NULL) {
        close_file(files, old);
    }
    return fd;
}

long files_cloexec(struct files *files, int fd, int set)
{
    long result = -EBADF;

    lock_files(files);
    if (slot_of(files, fd) != NULL) {
        if (set >= 0) {
            bit_set(files->cloexec, (unsigned)fd, set != 0);
        }
        result = bit_get(files->cloexec, (unsigned)fd) ? 1 : 0;
    }
    unlock_files(files);
    return result;
}

unsigned files_capacity(struct files *files)
{
    unsigned capacity;

    name_read_lock(&files->lock, KRANK_FILES);
    capacity = files->capacity;
    name_read_unlock(&files->lock, KRANK_FILES);
    return capacity;
}

int files_next(struct files *files, int fd)
{
    int found = -1;

    name_read_lock(&files->lock, KRANK_FILES);
    for (unsigned i = fd < 0 ? 0 : (unsigned)fd; i < files->capacity; i++) {
        if (bit_get(files->used, i) && files->slots[i] != NULL) {
            found = (int)i;
            break;
        }
    }
    name_read_unlock(&files->lock, KRANK_FILES);
    return found;
}

/* Copy what is open in @from into @to, which has the room. The lock of @from is held. */
static void files_copy_locked(struct files *to, struct files *from)
{
    unsigned words = from->capacity / 64;

    memcpy(to->cloexec, from->cloexec, words * sizeof(uint64_t));
    for (unsigned word = 0; word < words; word++) {
        uint64_t bits = from->used[word];

        while (bits != 0) {
            unsigned fd = word * 64 + vli_bit_lowest(bits);
            struct file *file = from->slots[fd];

            bits &= bits - 1;
            if (file == NULL) {
                bit_set(to->cloexec, fd, false);
                continue;
            }
            file_get(file);
            to->slots[fd] = file;
            to->used[word] |= (uint64_t)1 << fd % 64;
        }
    }
    to->first_free = free_from(to, 0);
}

struct files *files_clone(struct files *files)
{
    struct files *clone = files_create();

    if (clone == NULL) {
        return NULL;
    }
    for (;;) {
        unsigned capacity;

        lock_files(files);
        capacity = files->capacity;
        if (clone->capacity >= capacity) {
            files_copy_locked(clone, files);
            unlock_files(files);
            return clone;
        }
        unlock_files(files);
        if (files_grow(clone, capacity - 1) != 0) {
            vl_cache_free(files_cache, clone);
            return NULL;
        }
    }
}

void files_get(struct files *files)
{
    atomic_fetch_add_explicit(&files->references, 1, memory_order_relaxed);
}

/* Close each descriptor of @map. Nobody else uses the table. */
static void close_all_of(struct files *files, const uint64_t *map)
{
    unsigned words = files->capacity / 64;

    for (unsigned word = 0; word < words; word++) {
        uint64_t bits = map[word];

        while (bits != 0) {
            (void)files_close(files, (int)(word * 64 + vli_bit_lowest(bits)));
            bits &= bits - 1;
        }
    }
}

void files_put(struct files *files)
{
    /* Acquire and release: the last one sees what all others did. */
    if (atomic_fetch_sub_explicit(&files->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    close_all_of(files, files->used);
    slots_free(files, files->slots);
    vl_cache_free(files_cache, files);
}

void files_close_on_exec(struct files *files)
{
    close_all_of(files, files->cloexec);
}
