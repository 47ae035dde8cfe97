/*
 * range.c - the reserved range that the core takes for physical memory: reserved once, grown into,
 * and given back.
 *
 *      base: | online: the core's frames ... | absent: addresses only ...      | side data | map |
 *                                            └ online_end
 *
 * Where free() can go by it (arch/rseq_entry.h), the map is a part of a larger one instead, with a
 * byte for each page that a program can have: 32 GiB of addresses, which read as 0 and cost nothing
 * until they are read, and then a page table.
 *
 * Addresses are reserved without memory (PROT_NONE), a great many of them: the core's range of kind
 * ABSENT. Where Linux limits addresses (ulimit -v), half of what is allowed, or less if that is not
 * to be had. When a zone runs low, the reclaim function brings the next blocks online: makes them
 * writable and tells the core. It takes an eighth of what there is, so that a large heap grows in
 * few steps; what is not touched costs nothing but descriptors, 1/128. Blocks that became absent
 * again, holes below online_end, come first. They and the map become
 * writable as the range grows, not at once: what is writable counts where Linux limits it (ulimit
 * -d, strict accounting), and mlockall() would fetch all of it. When there are no more, or
 * the option `limit` forbids it, what CPUs keep goes back to the slabs and empty slabs to frame;
 * then a request fails.
 *
 * Giving back: frame reports its free blocks (vl_frame_report_free), and each is taken from behind
 * by madvise(). malloc_trim() does that with all there is. Otherwise what was not needed for a
 * while goes: twice in a purge delay, whoever is on a slow path, or calls malloc() for the first
 * time since Linux ran somebody else (vli_rseq_was_away()), notes the time, and gives back as
 * many free frames as there were at every moment of the period (the least number seen), the
 * surplus. So memory that is freed and taken again within a delay stays, and after a peak it goes
 * within one. Of what has gone, whole blocks become absent again: their descriptors go, too, and
 * they no longer count for the option `limit`.
 *
 * Runs of whole frames serve sizes between the classes and VLI_RUN_MAX. The head's descriptor has
 * type KMALLOC, and in index_low the number of frames.
 *
 * Locks: grow_word is held while the range grows; purge_word is tried, and held by who purges.
 */
#include "malloc/face.h"
#include "malloc/calls.h"
#include "malloc/fast.h"
#include "core/base/bits.h"
#include "core/slab/process.h"
#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define BLOCK_FRAMES ((size_t)1 << VL_ORDER_MAX)
#define BLOCK_BYTES  (VL_PAGE_SIZE << VL_ORDER_MAX)
#define RESERVE_MIN  (4 * BLOCK_BYTES)
/* Frames have numbers of 32 bits, and side data is beside them. */
#define RESERVE_MAX ((size_t)8 << 40)
/* The range's descriptors, and its bytes of the map, become writable for so much of it at once. */
#define SIDE_STEP (64 * BLOCK_BYTES)

/* Slow paths between two looks at the clock. */
#define EVENTS_A_LOOK 32u

_Atomic(unsigned char *) vli_range_base;
_Atomic uint64_t vli_range_pages;
uint8_t *vli_slab_map; /* behind the side data, or a part of that */
uint8_t *vli_range_page_map;
static size_t range_bytes; /* but for side data */
static size_t side_bytes;

_Atomic uint32_t vli_grow_word;
static size_t online_end; /* (G) bytes from the base */
static size_t hole_bytes; /* (G) of these, those in blocks that are absent again */
static size_t side_end;   /* (G) bytes from the base with side data that is writable */

static _Atomic uint64_t taken; /* what counts for the option limit */
static _Atomic uint64_t run_frames;

/* -------------------------------------------------------------------------------- limit, advice */

bool vli_limit_take(size_t bytes)
{
    uint64_t before = atomic_load_explicit(&taken, memory_order_relaxed);
    uint64_t limit = vli_options.limit == 0 ? UINT64_MAX : vli_options.limit;

    /* What is refused is never counted: it would be refused to others meanwhile. */
    do {
        if (before > limit || bytes > limit - before) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&taken, &before, before + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

void vli_limit_give(size_t bytes)
{
    atomic_fetch_sub_explicit(&taken, bytes, memory_order_relaxed);
}

void vli_huge_advise(void *start, size_t bytes)
{
    if (vli_options.huge != VLI_HUGE_DEFAULT) {
        (void)madvise(start, bytes,
                      vli_options.huge == VLI_HUGE_NEVER ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    }
}

/* ----------------------------------------------------------------------------------- reserving */

/* Core dumps have it or have it not; if that is refused, nothing is lost. */
static void advise_dumps(void *start, size_t bytes, int advice)
{
    int saved = errno;

    (void)madvise(start, bytes, advice);
    errno = saved;
}

bool vli_range_open(void *start, size_t bytes)
{
    if (vli_call_open(start, bytes) != 0) {
        return false;
    }
    advise_dumps(start, bytes, MADV_DODUMP);
    return true;
}

void *vli_range_close(size_t bytes)
{
    void *start = vli_call_map(bytes, PROT_NONE, MAP_NORESERVE);

    if (start == MAP_FAILED) {
        return NULL;
    }
    advise_dumps(start, bytes, MADV_DONTDUMP);
    return start;
}

/* How many addresses to ask for at first. */
static size_t reserve_wanted(void)
{
    struct rlimit limit;
    size_t wanted = vli_options.reserve < RESERVE_MAX ? (size_t)vli_options.reserve : RESERVE_MAX;

    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur / 2 < wanted) {
        wanted = (size_t)limit.rlim_cur / 2;
    }
    wanted = (size_t)vli_round_down(wanted, BLOCK_BYTES);
    return wanted < RESERVE_MIN ? RESERVE_MIN : wanted;
}

#if defined(VLI_ENTRY_BY_MAP)
/* A map of all pages of user space, and a page before it. Read by 2 MiB at once where Linux may:
 * mlockall() reads all of it. */
static void page_map_reserve(void)
{
    size_t bytes = VL_PAGE_SIZE + VLI_MAP_PLACE + (size_t)VLI_MAP_BYTES;
    uint8_t *start;

    if (!vli_options.map || vli_options.secure || vli_range_page_map != NULL) {
        return;
    }
    start = vli_call_map(bytes, PROT_READ, MAP_NORESERVE);
    if (start == MAP_FAILED) {
        return;
    }
    if (vli_call_open(start, VL_PAGE_SIZE) != 0) {
        (void)munmap(start, bytes);
        return;
    }
    (void)madvise(start + VL_PAGE_SIZE, bytes - VL_PAGE_SIZE, MADV_HUGEPAGE);
    advise_dumps(start, bytes, MADV_DONTDUMP);
    vli_range_page_map = start + VL_PAGE_SIZE + VLI_MAP_PLACE;
}
#else
static void page_map_reserve(void)
{
}
#endif

static bool reserve(size_t bytes)
{
    size_t side = (size_t)vl_frame_side_bytes(bytes >> VL_PAGE_SHIFT);
    size_t more = side + (size_t)vli_round_up(bytes >> VL_PAGE_SHIFT, VL_PAGE_SIZE);
    size_t later =
        (size_t)vli_round_down((bytes >> VL_PAGE_SHIFT) * sizeof(struct vl_frame), VL_PAGE_SIZE);
    unsigned char *start;
    void *memory;

    memory = vli_range_close(bytes + more + BLOCK_BYTES);
    if (memory == NULL) {
        return false;
    }
    start = (unsigned char *)vli_round_up((uintptr_t)memory, BLOCK_BYTES);
    if (!vli_range_open(start + bytes + later, side - later)) {
        (void)munmap(memory, bytes + more + BLOCK_BYTES);
        return false;
    }
    atomic_store_explicit(&vli_range_base, start, memory_order_relaxed);
    vli_slab_map = vli_range_page_map != NULL
                       ? vli_range_page_map + ((uintptr_t)start >> VL_PAGE_SHIFT)
                       : start + bytes + side;
    range_bytes = bytes;
    side_bytes = side;
    return true;
}

bool vli_range_reserve(void)
{
    size_t bytes = reserve_wanted();
    int saved = errno;

    page_map_reserve();
    errno = saved;
    while (!reserve(bytes)) {
        bytes = (size_t)vli_round_down(bytes / 4, BLOCK_BYTES);
        if (bytes < RESERVE_MIN) {
            return false;
        }
    }
    return true;
}

size_t vl_host_memory_ranges(struct vl_range *out, size_t max)
{
    const struct vl_range all[] = {
        {.start = {0}, .end = {range_bytes}, .kind = VL_RANGE_ABSENT},
        {.start = {range_bytes}, .end = {range_bytes + side_bytes}, .kind = VL_RANGE_SIDE},
    };

    for (size_t i = 0; i < VLI_COUNT_OF(all) && i < max; i++) {
        out[i] = all[i];
    }
    return VLI_COUNT_OF(all);
}

/* ------------------------------------------------------------------------------------- growing */

/* The map's bytes for @count pages, from page @from of the range on. */
static bool map_open(size_t from, size_t count)
{
    uintptr_t start = vli_round_down((uintptr_t)(vli_slab_map + from), VL_PAGE_SIZE);
    uintptr_t end = vli_round_up((uintptr_t)(vli_slab_map + from + count), VL_PAGE_SIZE);

    if (vli_range_page_map != NULL) { /* what is written to shall not be 2 MiB */
        (void)madvise((void *)start, end - start, MADV_NOHUGEPAGE);
    }
    return vli_range_open((void *)start, end - start);
}

/* Makes what stands beside the first @end bytes of the range writable. The lock is held. */
static bool side_ready(size_t end)
{
    unsigned char *frames = vli_range_base + range_bytes;
    size_t from = side_end >> VL_PAGE_SHIFT;
    size_t to = (size_t)vli_round_up(end, SIDE_STEP);
    size_t count;

    if (end <= side_end) {
        return true;
    }
    to = to < range_bytes ? to : range_bytes;
    count = (to - side_end) >> VL_PAGE_SHIFT;
    if (!vli_range_open(frames + from * sizeof(struct vl_frame), count * sizeof(struct vl_frame)) ||
        !map_open(from, count)) {
        return false;
    }
    side_end = to;
    return true;
}

/* Pages from the base that may be looked at: before anybody can have one of the new ones. */
static void pages_set(uint64_t pages)
{
    atomic_store_explicit(&vli_range_pages, pages, memory_order_relaxed);
    if (atomic_load_explicit(&vli_fast_pages, memory_order_relaxed) != 0) { /* there are such */
        atomic_store_explicit(&vli_fast_pages, pages, memory_order_release);
    }
}

/* Brings @bytes more online, whole blocks. The lock is held. */
static bool grow_by(size_t bytes)
{
    unsigned char *start = vl_host_phys_to_virt((struct vl_pa){online_end});
    struct vl_pfn first = {(uint32_t)(online_end >> VL_PAGE_SHIFT)};
    struct vl_pfn end = {first.n + (uint32_t)(bytes >> VL_PAGE_SHIFT)};

    if (bytes > range_bytes - online_end || !vli_limit_take(bytes)) {
        return false;
    }
    if (!side_ready(online_end + bytes) || !vli_range_open(start, bytes)) {
        vli_limit_give(bytes);
        return false;
    }
    vli_huge_advise(start, bytes);
    pages_set((online_end + bytes) >> VL_PAGE_SHIFT);
    if (vl_frame_online(first, end) != VL_OK) {
        vli_die("vellum malloc: block at %p is online already", (void *)start);
    }
    online_end += bytes;
    return true;
}

/* First frame of the block at @at bytes from the base, or of the one behind it. */
static struct vl_pfn block_at(size_t at)
{
    return (struct vl_pfn){(uint32_t)(at >> VL_PAGE_SHIFT)};
}

/* Holes come online again, the first ones, up to @bytes of them. Returns: bytes. The lock is held.
 */
static size_t fill_holes(size_t bytes)
{
    size_t got = 0;

    for (size_t at = 0; at < online_end && got < bytes && hole_bytes > 0; at += BLOCK_BYTES) {
        if (!vli_frame_is_absent(vli_frame_of(block_at(at)))) {
            continue;
        }
        if (!vli_limit_take(BLOCK_BYTES)) {
            break;
        }
        if (vl_frame_online(block_at(at), block_at(at + BLOCK_BYTES)) != VL_OK) {
            vli_die("vellum malloc: block at %p is online already",
                    vl_host_phys_to_virt((struct vl_pa){at}));
        }
        hole_bytes -= BLOCK_BYTES;
        got += BLOCK_BYTES;
    }
    return got;
}

/* May the block at @at be wholly free? One of which only the first part is free bears a mark, where
 * the frame strategy marks heads. */
static bool looks_free(size_t at)
{
    const struct vl_frame *head = vli_frame_of(block_at(at));

    return vli_frame_type(head) == VLI_FRAME_STOCK && !vli_frame_is_absent(head) &&
           !vli_frame_is_marked(head, VLI_FRAME_BUDDY);
}

/* Blocks become holes. False: they are not wholly free, or Linux must keep what is behind them. The
 * lock is held. */
static bool make_hole(size_t at, size_t bytes)
{
    struct vl_frame *frames = vli_frame_of(block_at(at));
    void *start = vl_host_phys_to_virt((struct vl_pa){at});

    if (bytes == 0 || vl_frame_offline(block_at(at), block_at(at + bytes)) != VL_OK) {
        return false;
    }
    if (madvise(start, bytes, MADV_DONTNEED) != 0) {
        if (vl_frame_online(block_at(at), block_at(at + bytes)) != VL_OK) {
            vli_die("vellum malloc: block at %p is online already", start);
        }
        return false;
    }
    hole_bytes += bytes;
    vli_limit_give(bytes);
    (void)madvise(frames, (bytes >> VL_PAGE_SHIFT) * sizeof(*frames), MADV_DONTNEED);
    return true;
}

/* Blocks that are wholly free, the last ones, become holes: up to @frames frames. Neighbours at
 * once, if that can be: each offlining looks at all free blocks. */
static void make_holes(uint64_t frames)
{
    uint64_t most = frames & ~(uint64_t)(BLOCK_FRAMES - 1);
    size_t left = (size_t)most << VL_PAGE_SHIFT;
    size_t end;

    vl_host_lock(&vli_grow_word);
    for (size_t at = online_end; at > 0 && left > 0;) {
        end = at;
        while (at > 0 && end - at < left && looks_free(at - BLOCK_BYTES)) {
            at -= BLOCK_BYTES;
        }
        if (make_hole(at, end - at)) {
            left -= end - at;
        } else {
            for (; end > at; end -= BLOCK_BYTES) {
                left -= make_hole(end - BLOCK_BYTES, BLOCK_BYTES) ? BLOCK_BYTES : 0;
            }
        }
        at -= at > 0 && left > 0 ? BLOCK_BYTES : 0; /* what stands there is not free */
    }
    vl_host_unlock(&vli_grow_word);
}

/* Times that the range has grown. */
static _Atomic uint32_t growths;

/* Grows, unless somebody did since there were @seen growths: of a hundred threads that find no
 * memory at once, each would add its eighth otherwise. */
static size_t grow_since(uint32_t seen, size_t frames)
{
    size_t least = (size_t)vli_round_up(frames, BLOCK_FRAMES) << VL_PAGE_SHIFT;
    size_t wanted;
    size_t bytes;

    vl_host_lock(&vli_grow_word);
    if (atomic_load_explicit(&growths, memory_order_relaxed) != seen) {
        vl_host_unlock(&vli_grow_word);
        return frames;
    }
    wanted = (size_t)vli_round_down((online_end - hole_bytes) / 8, BLOCK_BYTES);
    wanted = wanted > least ? wanted : least;
    bytes = fill_holes(wanted);
    if (bytes < least || bytes == 0) {
        bytes += grow_by(wanted)                                 ? wanted
                 : least > 0 && wanted > least && grow_by(least) ? least
                                                                 : 0;
    }
    atomic_fetch_add_explicit(&growths, bytes != 0 ? 1u : 0u, memory_order_relaxed);
    vl_host_unlock(&vli_grow_word);
    return bytes >> VL_PAGE_SHIFT;
}

size_t vli_range_grow(size_t frames)
{
    return grow_since(atomic_load_explicit(&growths, memory_order_relaxed), frames);
}

static uint64_t frames_free(void)
{
    struct vl_frame_counts counts;

    vl_frame_counts(&counts);
    return counts.free_zones;
}

/* Before the range grows by an eighth, what classes keep that are not in use any more is used
 * again, where that is as much; else a program that goes from size to size would need the sum of
 * what it needs of each. */
size_t vli_range_reclaim(size_t wanted)
{
    uint32_t seen = atomic_load_explicit(&growths, memory_order_relaxed);
    struct vl_frame_counts counts;
    uint64_t before = frames_free();
    int saved = errno;
    size_t got = 0;

    vl_frame_counts(&counts);
    if (vli_slab_frames_kept() > wanted + counts.managed / 8) {
        vli_slab_drain();
        got = frames_free() > before ? (size_t)(frames_free() - before) : 0;
    }
    if (got < wanted || got == 0) {
        got += grow_since(seen, wanted);
    }
    if (got == 0 && vli_large_purge(0) != 0) {
        got = grow_since(seen, wanted);
    }
    if (got == 0) {
        vli_slab_drain();
        got = frames_free() > before ? (size_t)(frames_free() - before) : 0;
    }
    errno = saved;
    return got;
}

/* ----------------------------------------------------------------------------------- giving back
 */

/* Slow paths, counted where CPUs that are at work at once do not meet. */
#define COUNTS 8u
static struct {
    VLI_ALIGNED(VLI_CACHELINE) _Atomic uint32_t count;
} events[COUNTS];

static _Atomic uint64_t purge_at;   /* ns; 0: not yet set */
static _Atomic uint64_t least_free; /* frames, since the last time */
static _Atomic uint64_t given_back; /* bytes, since the start */
_Atomic uint32_t vli_purge_word;

/* What is still to be told, in frames. */
struct purge {
    uint64_t left;
};

static bool give_back(void *arg, struct vl_pfn pfn, unsigned order)
{
    struct purge *purge = arg;
    size_t bytes = VL_PAGE_SIZE << order;

    if (purge->left < (uint64_t)1 << order ||
        madvise(vl_frame_to_virt(pfn), bytes, MADV_DONTNEED) != 0) {
        return false;
    }
    purge->left -= (uint64_t)1 << order;
    atomic_fetch_add_explicit(&given_back, bytes, memory_order_relaxed);
    return true;
}

/* Gives back @frames free frames at most. Returns: how many. */
static uint64_t purge(uint64_t frames)
{
    struct purge purge = {frames};

    return vl_frame_report_free(0, give_back, &purge);
}

static void pages_back(uintptr_t start, size_t bytes)
{
    if (madvise((void *)start, bytes, MADV_DONTNEED) == 0) {
        atomic_fetch_add_explicit(&given_back, bytes, memory_order_relaxed);
    }
}

/* What CPUs keep goes back to the slabs, empty slabs to frame, and the pages of free units of the
 * others to Linux. Returns: bytes of these. */
static size_t drain_slabs(void)
{
    size_t bytes = 0;

    vli_slab_drain();
    for (size_t i = 0; i < VLI_CACHES_MAX; i++) {
        bytes += vli_slabs_purge(&vli_caches[i], pages_back);
    }
    return bytes;
}

size_t vli_range_trim(size_t pad)
{
    uint64_t keep = pad >> VL_PAGE_SHIFT;
    uint64_t free;
    uint64_t told;
    size_t bytes;

    vl_host_lock(&vli_purge_word);
    bytes = drain_slabs() + vli_large_purge(0);
    free = frames_free();
    free = free > keep ? free - keep : 0;
    told = purge(free);
    make_holes(free);
    vl_host_unlock(&vli_purge_word);
    return bytes + ((size_t)told << VL_PAGE_SHIFT);
}

uint64_t vli_range_given_back(void)
{
    return atomic_load_explicit(&given_back, memory_order_relaxed);
}

/* The period's surplus goes. */
static void purge_surplus(void)
{
    uint64_t least = atomic_exchange_explicit(&least_free, UINT64_MAX, memory_order_relaxed);
    uint64_t free;

    (void)drain_slabs();
    (void)vli_large_purge(2);
    free = frames_free();
    if (least != UINT64_MAX && least > 0) {
        least = least < free ? least : free;
        (void)purge(least);
        make_holes(least);
    }
}

/* Notes the free frames, and looks whether it is time. */
VLI_NOINLINE void vli_range_look(void)
{
    uint64_t now;
    uint64_t at = atomic_load_explicit(&purge_at, memory_order_relaxed);
    uint64_t free = frames_free();
    int saved = errno;

    if (vli_options.purge_ms < 0) {
        return;
    }
    now = vl_host_clock_ns();
    if (free < atomic_load_explicit(&least_free, memory_order_relaxed)) {
        atomic_store_explicit(&least_free, free, memory_order_relaxed);
    }
    if (now < at || !vl_host_try_lock(&vli_purge_word)) {
        return;
    }
    if (at != 0) {
        purge_surplus();
        now = vl_host_clock_ns(); /* a slow machine, or one stepped through, does other work, too */
    }
    atomic_store_explicit(&purge_at, now + (uint64_t)vli_options.purge_ms * 500000u,
                          memory_order_relaxed);
    vl_host_unlock(&vli_purge_word);
    errno = saved;
}

void vli_range_tick(void)
{
    _Atomic uint32_t *events_here = &events[vli_slot_number() % COUNTS].count;
    uint32_t count = atomic_load_explicit(events_here, memory_order_relaxed) + 1;

    /* Two that count at once are one: it does not matter. */
    atomic_store_explicit(events_here, count, memory_order_relaxed);
    if (VLI_UNLIKELY(count % EVENTS_A_LOOK == 0)) {
        vli_range_look();
    }
}

/* ----------------------------------------------------------------------------------------- runs */

void *vli_run_alloc(size_t bytes, size_t align)
{
    size_t frames = (bytes + VL_PAGE_MASK) >> VL_PAGE_SHIFT;
    size_t most = frames > align >> VL_PAGE_SHIFT ? frames : align >> VL_PAGE_SHIFT;
    struct vl_pfn pfn;
    struct vl_frame *head;

    if (frames == 0 || vl_frame_alloc_run(most, VL_WAIT, &pfn) != VL_OK) {
        return NULL;
    }
    if (most > frames) { /* a run is aligned by its length; what was for that alone goes back */
        vl_frame_free_run((struct vl_pfn){pfn.n + (uint32_t)frames}, most - frames);
    }
    head = vli_frame_of(pfn);
    vli_frame_set_type(head, VLI_FRAME_KMALLOC);
    head->index_low = (uint32_t)frames;
    atomic_fetch_add_explicit(&run_frames, frames, memory_order_relaxed);
    return vl_frame_to_virt(pfn);
}

void vli_run_free(struct vl_frame *head)
{
    size_t frames = head->index_low;

    atomic_fetch_sub_explicit(&run_frames, frames, memory_order_relaxed);
    head->index_low = 0;
    vli_frame_set_type(head, VLI_FRAME_STOCK);
    vl_frame_free_run(vli_frame_pfn(head), frames);
}

size_t vli_run_bytes(struct vl_frame *head)
{
    return (size_t)head->index_low << VL_PAGE_SHIFT;
}

void vli_run_shrink(struct vl_frame *head, size_t bytes)
{
    uint32_t frames = (uint32_t)((bytes + VL_PAGE_MASK) >> VL_PAGE_SHIFT);
    uint32_t have = head->index_low;

    if (frames == 0 || frames >= have) {
        return;
    }
    head->index_low = frames;
    atomic_fetch_sub_explicit(&run_frames, have - frames, memory_order_relaxed);
    vl_frame_free_run((struct vl_pfn){vli_frame_pfn(head).n + frames}, have - frames);
}

size_t vli_run_total(void)
{
    return (size_t)atomic_load_explicit(&run_frames, memory_order_relaxed) << VL_PAGE_SHIFT;
}
