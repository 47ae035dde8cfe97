/*
 * face.h - what the files of the malloc face share.
 *
 *      entry.c    the C functions: fast paths, and their slow sides
 *      cxx.c      C++ operators new and delete
 *      fast.h     which of malloc() and free() is in assembly
 *      class.c    size classes: caches of the core
 *      range.c    the reserved range: reserving, growing, giving back
 *      large.c    what is mapped by itself, above VLI_RUN_MAX
 *      start.c    options, start, what needs a libc that is up
 *      host.c     the host contract of the core inside a process
 *      thread.c   per-CPU or per-thread areas
 *      describe.c what inlined sequences need
 *      fork.c     handlers around fork
 *      info.c     statistics
 *      resident.c which of the heap is in RAM
 *      heap.c     heaps confined to a region
 *
 * An address belongs to exactly one of: a slab of the range, a run of whole frames of the range, a
 * mapping of its own (large.c knows them all), or somebody else (the dynamic loader allocates
 * before it has found us). Which one is decided by arithmetic and tables of ours, never by what is
 * written near the address.
 */
#ifndef MALLOC_FACE_H
#define MALLOC_FACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/base/compiler.h"
#include "core/frame/frame.h"
#include "core/slab/slab.h"

#define VLI_EXPORT __attribute__((visibility("default")))

/* ---- options (start.c) ---- */

enum vli_huge { VLI_HUGE_DEFAULT, VLI_HUGE_NEVER, VLI_HUGE_ALWAYS };

struct vli_options {
    bool stats;         /* print statistics at exit */
    bool secure;        /* check every free, fill what is freed */
    bool percpu;        /* restartable sequences where there are any */
    bool map;           /* free() by a map of all addresses, where it can */
    bool align16;       /* no 24-byte class: every block of 16 bytes or more is aligned to 16 */
    enum vli_huge huge; /* transparent huge pages */
    int64_t purge_ms;   /* free memory goes back to Linux after so long; -1: never */
    uint64_t limit;     /* most bytes to take from Linux; 0: no limit */
    uint64_t reserve;   /* addresses to reserve */
};
extern struct vli_options vli_options;

/** vli_malloc_ready() - start the heap if it has not been; false when there is no memory for it.
 * Context: any call that found nothing on the fast path. */
VL_MUST_CHECK bool vli_malloc_ready(void);

/* ---- size classes (class.c) ---- */

#define VLI_CLASS_MAX  VL_HOST_CACHE_BYTES /* largest size that a class serves */
#define VLI_TABLE_FINE 1024u /* up to here each size has an entry, above every 128th */
#define VLI_NO_CLASS   0xffu

/* Cache number of a size (0 is none's, so that an empty table leads to slow paths): fine[size], a
 * byte a size, so that its index needs no arithmetic; coarse[(size + 127) / 128]. */
extern uint8_t vli_class_fine[VLI_TABLE_FINE + 1u] VLI_HIDDEN;
extern uint8_t vli_class_coarse[VLI_CLASS_MAX / 128u + 1u] VLI_HIDDEN;
/* Bytes that an object of cache number n has; 0 when it is none of ours. */
extern uint32_t vli_class_bytes[VLI_CACHES_MAX];

/** vli_class_of() - cache number for a size of at most VLI_CLASS_MAX. */
static VLI_ALWAYS_INLINE size_t vli_class_of(size_t size)
{
    if (VLI_LIKELY(size <= VLI_TABLE_FINE)) {
        return vli_class_fine[size];
    }
    return vli_class_coarse[(size + 127u) / 128u];
}

/** vli_class_aligned() - cache number for @size bytes aligned to @align (a power of 2), or
 * 0 when there is none. */
size_t vli_class_aligned(size_t size, size_t align);

/** vli_class_init() - make the caches. */
VL_MUST_CHECK bool vli_class_init(void);

/* ---- the range (range.c) ---- */

/* Pages of the range that are online; of no other address there is a descriptor, or a byte in the
 * map. It grows while others read it: who has a block read the number after it was stored. */
extern _Atomic uint64_t vli_range_pages VLI_HIDDEN;

/* Runs of whole frames serve what is above the classes up to this. */
#define VLI_RUN_MAX ((size_t)1 << 20)

/** vli_range_close() - addresses without memory, which no core dump has in it: a debugger would
 * write all of them. NULL: there are none. */
void *vli_range_close(size_t bytes);
/** vli_range_open() - some of these become writable; false when Linux refuses it. */
VL_MUST_CHECK bool vli_range_open(void *start, size_t bytes);
/* A byte for each page of user space, of which vli_slab_map is a part; NULL where nobody would go
 * by it, or it was not to be had. Set by vli_range_reserve(). */
extern uint8_t *vli_range_page_map;
/** vli_range_reserve() - reserve addresses; false when not even the smallest range is to be had. */
VL_MUST_CHECK bool vli_range_reserve(void);

/** vli_limit_take() - may @bytes more be taken from Linux? They count until vli_limit_give(). */
VL_MUST_CHECK bool vli_limit_take(size_t bytes);
void vli_limit_give(size_t bytes);

/** vli_huge_advise() - what the option `huge` says about a mapping. */
void vli_huge_advise(void *start, size_t bytes);

/* Sizes below these take the fast path of malloc(), by the fine table or by the coarse one: none
 * before the heap has started, and none in secure mode. */
extern _Atomic size_t vli_fast_limit VLI_HIDDEN;
extern _Atomic size_t vli_coarse_limit VLI_HIDDEN;
/* Pages for which free() takes the fast path: those of the range, or none in secure mode. */
extern _Atomic uint64_t vli_fast_pages VLI_HIDDEN;

/** vli_run_alloc() - whole frames, at least @bytes, aligned to @align; NULL. */
void *vli_run_alloc(size_t bytes, size_t align);
/** vli_run_free() - what vli_run_alloc() gave, by its first frame. */
void vli_run_free(struct vl_frame *head);
/** vli_run_bytes() - how long it is. */
size_t vli_run_bytes(struct vl_frame *head);
/** vli_run_shrink() - the frames behind the first @bytes go back. */
void vli_run_shrink(struct vl_frame *head, size_t bytes);

/** vli_range_page() - number of the page of an address from the range's start on; any number when
 * it is outside. */
static VLI_ALWAYS_INLINE uintptr_t vli_range_page(const void *p)
{
    return ((uintptr_t)p -
            (uintptr_t)atomic_load_explicit(&vli_range_base, memory_order_relaxed)) >>
           VL_PAGE_SHIFT;
}

/** vli_range_has() - does an address lie in the range, where it is online? */
static VLI_ALWAYS_INLINE bool vli_range_has(const void *p)
{
    return vli_range_page(p) < atomic_load_explicit(&vli_range_pages, memory_order_relaxed);
}

/** vli_run_total() - bytes in runs now. */
size_t vli_run_total(void);

/** vli_range_trim() - everything that is free goes back to Linux, but @pad bytes. Returns: bytes.
 */
size_t vli_range_trim(size_t pad);
/** vli_range_given_back() - bytes, since the start. */
uint64_t vli_range_given_back(void);
/** vli_range_tick() - a slow path: from time to time what is not needed goes back. No lock held. */
void vli_range_tick(void);
/** vli_range_look() - the same, now. */
void vli_range_look(void);
/** vli_range_grow() - @frames more at least. Returns: how many, 0 when there are none. */
size_t vli_range_grow(size_t frames);
/** vli_range_reclaim() - for vl_frame_set_reclaim(). */
size_t vli_range_reclaim(size_t wanted);
extern _Atomic uint32_t vli_grow_word;
extern _Atomic uint32_t vli_purge_word;

/* ---- what is in RAM (resident.c) ---- */

/* Bytes of whole pages. */
struct vli_resident {
    size_t slabs[VLI_CACHES_MAX];
    size_t runs;
    size_t free;        /* of the range, neither */
    size_t descriptors; /* and the map */
};

/** vli_resident() - ask Linux; a system call for each 4 MiB of the heap. */
void vli_resident(struct vli_resident *out);

/* ---- mappings of their own (large.c) ---- */

enum vli_large_zero { VLI_LARGE_ANY, VLI_LARGE_ZEROED };

/** vli_large_alloc() - NULL when Linux has none or the limit is reached. */
void *vli_large_alloc(size_t bytes, size_t align, enum vli_large_zero zero);
/** vli_large_purge() - free mappings that were looked at @looks times by this go back. Returns:
 * bytes. */
size_t vli_large_purge(uint32_t looks);
/** vli_large_kept() - bytes in free mappings. */
size_t vli_large_kept(void);
/** vli_large_bytes() - length of the mapping that begins at @p, 0 when there is none. */
size_t vli_large_bytes(const void *p);
/** vli_large_free() - false when there is no such mapping. */
VL_MUST_CHECK bool vli_large_free(void *p);
/** vli_large_resize() - the mapping, perhaps moved; NULL leaves it as it is. */
void *vli_large_resize(void *p, size_t bytes);
/** vli_large_total() - bytes mapped now. */
size_t vli_large_total(void);
/** vli_large_count() - mappings now. */
size_t vli_large_count(void);

/* Its lock, for fork. */
extern _Atomic uint32_t vli_large_word;

/* ---- areas (thread.c) ---- */

/** vli_area_start() - choose the mode. */
VL_MUST_CHECK bool vli_area_start(void);
/** vli_area_late() - libc is up. */
void vli_area_late(void);
/** vli_area_make() - see that this CPU or thread has an area; false when it must have none. Before
 * any slow path of slab. */
bool vli_area_make(void);
bool vli_area_is_percpu(void);
/** vli_area_count() - how many there are. */
size_t vli_area_count(void);
/** vli_area_end() - numbers are below this. */
size_t vli_area_end(void);
/** vli_area_at() - the area of a number, NULL when there is none. */
const struct vli_slab_percpu *vli_area_at(size_t number);
struct vl_malloc_cache;
/** vli_area_describe() - what inlined sequences need (describe.c). */
void vli_area_describe(struct vl_malloc_cache *out);
/** vli_area_fork_child() - the other threads are not there any more. */
void vli_area_fork_child(void);
extern _Atomic uint32_t vli_area_word;

/** vli_cpus_possible() - CPUs that this machine can ever have (start.c). */
size_t vli_cpus_possible(void);
/** vli_cpus_usable() - CPUs that this process may run on, at its start (start.c). */
size_t vli_cpus_usable(void);

/* ---- entry.c, for cxx.c ---- */

/** vli_malloc_slow() - what the fast path could not serve. Sets errno. */
void *vli_malloc_slow(size_t size);
/** vli_free_slow() - NULL, runs, mappings, and what is not ours. */
void vli_free_slow(void *p);
/** vli_aligned() - @align a power of 2. Sets errno. */
void *vli_aligned(size_t align, size_t size);

/* ---- messages (host.c) ---- */

/** vli_say() - one line on standard error, without allocation. */
void vli_say(const char *format, ...) VL_PRINTF(1, 2);
/** vli_say_at_exit() - what is said then shall be seen though the program closes standard error. */
void vli_say_at_exit(void);
/** vli_die() - the same, then abort. */
_Noreturn void vli_die(const char *format, ...) VL_PRINTF(1, 2);

/* ---- fork (fork.c), and locks that it takes ---- */

extern _Atomic uint32_t vli_start_word;
extern _Atomic uint32_t vli_api_word; /* cache.c */

/** vli_heap_fork_prepare() - take the locks of all heaps. */
void vli_heap_fork_prepare(void);
/** vli_heap_fork_release() - and release them. */
void vli_heap_fork_release(void);

/* A lock that is held around fork() (vli_mutex_fork_take()) is as if it were free for who holds all
 * of them, once it has said so; vli_mutex_fork_give() releases it. */
void vli_mutex_fork_take(_Atomic uint32_t *word);
void vli_mutex_fork_all(bool has_all);
void vli_mutex_fork_give(_Atomic uint32_t *word);

/** vli_fork_init() - install the handlers, once. */
void vli_fork_init(void);

#endif
