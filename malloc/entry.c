/*
 * entry.c - the functions of <stdlib.h> and <malloc.h>.
 *
 * malloc() takes the class from a table and a unit from this CPU's sheaf of that class; free()
 * finds the class by the page and puts the unit there: by a map of all pages that there can be, in
 * one cache line of assembly (arch/rseq_free.h), or else by the range and its map. All else is in
 * the slow sides, out of line.
 *
 * What C and POSIX leave open is as in glibc, on which programs rely: malloc(0) and
 * realloc(NULL, 0) give a block of their own; realloc(p, 0) frees p and returns NULL; a failure
 * sets errno to ENOMEM, a success leaves errno alone; posix_memalign() returns its error and leaves
 * errno alone.
 */
#include "malloc/face.h"
#include "malloc/fast.h"
#include "core/base/bits.h"
#include "core/slab/process.h"
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* What freed memory is filled with in secure mode. */
#define FREED 0xdf

/* ------------------------------------------------------------------------------------ slow sides
 */

static void *out_of_memory(void)
{
    errno = ENOMEM;
    return NULL;
}

static void *unit_alloc(size_t class)
{
    (void)vli_area_make();
    vli_range_tick();
    return (void *)vli_slab_alloc_slow(&vli_caches[class], VL_WAIT);
}

/* Above the classes, or with no class for the alignment. */
static void *big_alloc(size_t size, size_t align)
{
    void *p = NULL;
    int saved = errno;

    vli_range_tick();
    if (size <= VLI_RUN_MAX && align <= VLI_RUN_MAX) {
        p = vli_run_alloc(size, align);
    }
    if (p == NULL) {
        p = vli_large_alloc(size, align, VLI_LARGE_ANY);
    }
    errno = saved;
    return p;
}

void *vli_malloc_slow(size_t size)
{
    void *p;

    if (!vli_malloc_ready()) {
        return out_of_memory();
    }
    if (size <= VLI_CLASS_MAX) {
        p = unit_alloc(vli_class_of(size));
    } else {
        p = big_alloc(size, 1);
    }
    return p != NULL ? p : out_of_memory();
}

void *vli_aligned(size_t align, size_t size)
{
    size_t class;
    void *p;

    if (!vli_malloc_ready()) {
        return out_of_memory();
    }
    size = size != 0 ? size : 1; /* a block of its own */
    class = size <= VLI_CLASS_MAX ? vli_class_aligned(size, align) : 0;
    p = class != 0 ? unit_alloc(class) : big_alloc(size, align);
    return p != NULL ? p : out_of_memory();
}

/* The frame of an address of the range that is the start of a block of whole frames, or NULL. */
static struct vl_frame *run_of(const void *p)
{
    struct vl_frame *frame;

    if (!vli_range_has(p) || ((uintptr_t)p & VL_PAGE_MASK) != 0) {
        return NULL;
    }
    frame = vli_virt_frame((uintptr_t)p);
    return vli_frame_type(frame) == VLI_FRAME_KMALLOC ? frame : NULL;
}

/* Cache number of an address in a slab, 0 when it is in none. */
static size_t class_of_address(const void *p)
{
    return vli_range_has(p) ? vli_slab_index(vli_range_page(p)) : 0;
}

/* Not in a slab. */
static VLI_NOINLINE void big_free(void *p)
{
    struct vl_frame *run = run_of(p);
    int saved = errno;

    if (!vli_malloc_ready()) { /* nothing was allocated yet, and options were not read */
        return;
    }
    if (run != NULL) {
        if (vli_options.secure) {
            memset(p, FREED, vli_run_bytes(run));
        }
        vli_run_free(run);
    } else if (vli_range_has(p)) {
        vli_die("vellum malloc: free(%p): nothing was allocated there", p);
    } else if (!vli_large_free(p) && vli_options.secure) {
        vli_die("vellum malloc: free(%p): this address was never given out", p);
    }
    errno = saved;
}

/* Is @p the start of a unit of its slab that is in use? */
static bool is_in_use(struct vl_cache *cache, const void *p)
{
    struct vl_frame *head = vli_slab_head(vli_virt_frame((uintptr_t)p));
    uintptr_t offset = (uintptr_t)p - (uintptr_t)vli_frame_virt(vli_frame_pfn(head));

    if (offset % cache->unit_bytes != 0 || offset / cache->unit_bytes >= vli_slab_units(head)) {
        return false;
    }
    return !vli_slab_is_free(cache, (uintptr_t)p);
}

/* In secure mode there are no areas: a unit is marked as free in its slab at once, and slab panics
 * at once over a unit that is free already, or something that is none. What is not in use is not
 * filled: it may be somebody else's by now. */
static VLI_NOINLINE void secure_free(void *p)
{
    struct vl_cache *cache = &vli_caches[class_of_address(p)];

    if (is_in_use(cache, p)) {
        memset(p, FREED, cache->unit_bytes);
    }
    vli_slab_free_checked(vli_virt_frame((uintptr_t)p), (uintptr_t)p);
}

void vli_free_slow(void *p)
{
    if (p == NULL) {
        return;
    }
    vli_range_tick();
    if (class_of_address(p) == 0) {
        big_free(p);
        return;
    }
    if (VLI_UNLIKELY(vli_options.secure)) {
        secure_free(p);
        return;
    }
    (void)vli_area_make();
    vli_slab_free_slow(vli_virt_frame((uintptr_t)p), (uintptr_t)p);
}

/* ------------------------------------------------------------------------------- malloc and free
 */

void *vli_malloc_otherwise(size_t size)
{
    uintptr_t unit;

    if (VLI_UNLIKELY(!vli_is_below(size, &vli_coarse_limit))) {
        return vli_malloc_slow(size);
    }
    unit = vli_slot_pop(vli_class_coarse[(size + 127u) / 128u]);
    if (VLI_UNLIKELY(unit == 0)) {
        return vli_malloc_slow(size);
    }
    return (void *)unit;
}

void *vli_malloc_empty_or_away(size_t size)
{
    uintptr_t unit;

    if (vli_rseq_was_away()) {
        vli_range_look();
        unit = vli_slot_pop(vli_class_fine[size]);
        if (unit != 0) {
            return (void *)unit;
        }
    }
    return vli_malloc_slow(size);
}

/* By the range: what free() is, or what it leaves. */
void vli_free_otherwise(void *p)
{
    uintptr_t page = vli_range_page(p);

    if (VLI_UNLIKELY(page >= atomic_load_explicit(&vli_fast_pages, memory_order_acquire))) {
        vli_free_slow(p);
        return;
    }
    /* The page's number in the range is the frame's. */
    if (VLI_UNLIKELY(!vli_slot_push(vli_slab_index(page), (uintptr_t)p))) {
        vli_free_slow(p);
    }
}

#if defined(VLI_ENTRY_BY_MAP)
VLI_MALLOC_DEFINE;
VLI_FREE_DEFINE;

void vli_fast_start(uint8_t *page_map)
{
    vli_fast_offset = vli_entry_offset();
    if (page_map != NULL) {
        *(int64_t *)(void *)(page_map - VLI_MAP_OFFSET) = vli_entry_offset();
        /* Release: pairs with the loads of free(), which depend on the address. */
        atomic_store_explicit(&vli_page_map, page_map, memory_order_release);
    }
}
#else
_Atomic size_t vli_fast_limit;
uint8_t vli_class_fine[VLI_TABLE_FINE + 1u];

void vli_fast_start(uint8_t *page_map)
{
    (void)page_map;
}

VLI_EXPORT void *malloc(size_t size)
{
    uintptr_t unit;

    /* Acquire: pairs with the release in start.c; here and in free() it costs nothing. */
    if (VLI_UNLIKELY(!vli_is_below(size, &vli_fast_limit))) {
        return vli_malloc_otherwise(size);
    }
    unit = vli_slot_pop_or_look(vli_class_fine[size]);
    if (VLI_UNLIKELY(unit == 0)) {
        return vli_malloc_empty_or_away(size);
    }
    return (void *)unit;
}

VLI_EXPORT void free(void *p)
{
    vli_free_otherwise(p);
}
#endif

/* From this size on calloc() takes a mapping of its own: Linux gives its pages zeroed, and only
 * those that are touched. Tables that stay empty for the most part are common, and to clear a run
 * would make all of it resident. */
#define ZERO_MAP ((size_t)128 << 10)
/* Not when there are so many mappings already: Linux allows 65,530 (vm.max_map_count). */
#define ZERO_MAPS_MAX 16384u

/* NULL: there is no such mapping to be had. */
static VLI_NOINLINE void *large_zeroed(size_t bytes)
{
    int saved = errno;
    void *p = NULL;

    if (vli_malloc_ready() && (bytes > VLI_RUN_MAX || vli_large_count() < ZERO_MAPS_MAX)) {
        vli_range_tick();
        p = vli_large_alloc(bytes, 1, VLI_LARGE_ZEROED);
    }
    errno = saved;
    return p;
}

/* Gives the pages of a run back, so that they come zeroed when they are touched. False: it is not
 * the pages' owner, or Linux must keep them. */
static VLI_NOINLINE bool pages_zeroed(void *p, size_t bytes)
{
    int saved = errno;
    bool good = run_of(p) != NULL && madvise(p, bytes, MADV_DONTNEED) == 0;

    errno = saved;
    return good;
}

VLI_EXPORT void *calloc(size_t count, size_t size)
{
    size_t bytes;
    void *p;

    if (__builtin_mul_overflow(count, size, &bytes)) {
        return out_of_memory();
    }
    if (bytes >= ZERO_MAP) {
        p = large_zeroed(bytes);
        if (p != NULL || bytes > VLI_RUN_MAX) {
            return p != NULL ? p : out_of_memory();
        }
    }
    p = malloc(bytes);
    if (p != NULL && (bytes < ZERO_MAP || !pages_zeroed(p, bytes))) {
        memset(p, 0, bytes);
    }
    return p;
}

/* ------------------------------------------------------------------------------------ usable size
 */

VLI_EXPORT size_t malloc_usable_size(void *p)
{
    size_t class = class_of_address(p);
    struct vl_frame *run;

    if (VLI_LIKELY(class != 0)) {
        return vli_class_bytes[class];
    }
    run = run_of(p);
    return run != NULL ? vli_run_bytes(run) : vli_large_bytes(p);
}

/* --------------------------------------------------------------------------------------- realloc
 */

/* Asks Linux to read there, by a call that changes nothing: EFAULT if it cannot, EINVAL if it can.
 */
static int ask_to_read(const void *from)
{
    return syscall(SYS_rt_sigprocmask, -1, from, NULL, 8) == 0 ? EFAULT : errno;
}

/* Copies what can be read. Where a filter of system calls refuses to do that, page by page; should
 * it refuse even to ask, the first page is taken to be there, or the pointer were wild. */
static void copy_readable(void *to, const void *from, size_t size)
{
    struct iovec there = {to, size};
    struct iovec here = {(void *)(uintptr_t)from, size};
    size_t done = 0;

    if (process_vm_readv(getpid(), &there, 1, &here, 1, 0) >= 0) {
        return;
    }
    while (done < size) {
        const char *at = (const char *)from + done;
        size_t bytes = VL_PAGE_SIZE - ((uintptr_t)at & VL_PAGE_MASK);
        int answer = ask_to_read(at);

        if (answer == EFAULT || (answer != EINVAL && done != 0)) {
            return;
        }
        bytes = bytes < size - done ? bytes : size - done;
        memcpy((char *)to + done, at, bytes);
        done += bytes;
    }
}

/* A block that is not ours: the dynamic loader's, from before it found us. Its length is not known;
 * as much as is asked for and can be read is copied, and the block is left. */
static void *adopt(const void *p, size_t size)
{
    void *fresh = malloc(size);
    int saved = errno;

    if (fresh != NULL) {
        copy_readable(fresh, p, size);
        errno = saved;
    }
    return fresh;
}

/* May a block of @have bytes stay as it is for @size? Not when more than half would be unused. */
static bool fits(size_t have, size_t size)
{
    return size <= have && (size >= have / 2 || have <= 64);
}

/* A block that grows will grow again: one that moves for it, and is copied, gets an eighth more
 * than was asked for, so that growing by small steps costs a copy each time it has grown by an
 * eighth. Up to VLI_CLASS_MAX classes do that by themselves. */
static void *malloc_to_grow(size_t size)
{
    void *p = NULL;

    if (size > VLI_CLASS_MAX && size <= VLI_RUN_MAX - size / 8) {
        p = malloc(size + size / 8);
    }
    return p != NULL ? p : malloc(size);
}

static void *move(void *p, size_t have, size_t size)
{
    void *fresh = size > have ? malloc_to_grow(size) : malloc(size);

    if (fresh != NULL) {
        memcpy(fresh, p, have < size ? have : size);
        free(p);
    } else if (size <= have) {
        return p; /* a shrink does not fail */
    }
    return fresh;
}

/* Whether there is such a block is known by its length. In secure mode freed ones are looked for.
 */
static void check_block(const void *p, size_t have)
{
    size_t class = class_of_address(p);

    if ((have == 0 && (vli_options.secure || vli_range_has(p))) ||
        (vli_options.secure && class != 0 && !is_in_use(&vli_caches[class], p))) {
        vli_die("vellum malloc: realloc(%p): there is no block in use", p);
    }
}

VLI_EXPORT void *realloc(void *p, size_t size)
{
    struct vl_frame *run;
    size_t have;

    if (p == NULL) {
        return malloc(size);
    }
    if (size == 0) {
        free(p);
        return NULL;
    }
    have = malloc_usable_size(p);
    if (VLI_UNLIKELY(have == 0 || vli_options.secure)) {
        check_block(p, have);
    }
    if (have == 0) {
        return adopt(p, size);
    }
    if (fits(have, size)) {
        return p;
    }
    if (!vli_range_has(p) && size >= ZERO_MAP) {
        p = vli_large_resize(p, size);
        return p != NULL ? p : out_of_memory();
    }
    run = run_of(p);
    if (run != NULL && size > VLI_CLASS_MAX && size < have) {
        vli_run_shrink(run, size);
        return p;
    }
    return move(p, have, size);
}

VLI_EXPORT void *reallocarray(void *p, size_t count, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes)) {
        return out_of_memory();
    }
    return realloc(p, bytes);
}

/* --------------------------------------------------------------------------------------- aligned
 */

VLI_EXPORT int posix_memalign(void **out, size_t align, size_t size)
{
    int saved = errno;
    void *p;

    if (align % sizeof(void *) != 0 || !vli_is_power_of_2(align)) {
        return EINVAL;
    }
    p = vli_aligned(align, size);
    errno = saved;
    if (p == NULL) {
        return ENOMEM;
    }
    *out = p;
    return 0;
}

/* As glibc's: an alignment that is no power of 2 is rounded up to one. */
VLI_EXPORT void *memalign(size_t align, size_t size)
{
    if (align > (SIZE_MAX >> 1) + 1u) {
        errno = EINVAL;
        return NULL;
    }
    return vli_aligned(align < 16 ? 16 : (size_t)1 << vli_log2_ceil(align), size);
}

VLI_EXPORT void *aligned_alloc(size_t align, size_t size)
{
    if (!vli_is_power_of_2(align)) {
        errno = EINVAL;
        return NULL;
    }
    return vli_aligned(align, size);
}

VLI_EXPORT void *valloc(size_t size)
{
    return vli_aligned(VL_PAGE_SIZE, size);
}

VLI_EXPORT void *pvalloc(size_t size); /* musl does not declare it */
VLI_EXPORT void *pvalloc(size_t size)
{
    size_t bytes = vli_round_up(size, VL_PAGE_SIZE);

    if (bytes < size) {
        return out_of_memory();
    }
    return vli_aligned(VL_PAGE_SIZE, bytes);
}
