/*
 * range.c - the reserved range that the core takes for physical memory.
 *
 * Addresses are reserved once, without memory. Linux's limits on addresses (ulimit -v) are honoured
 * by trying smaller ranges. What is outside the range, or does not fit any more, is mapped by
 * itself (large.c).
 *
 * Runs of whole frames serve sizes between the classes and VLI_RUN_MAX: the head's descriptor has
 * type KMALLOC and the number of frames in index_low.
 */
#include "malloc/face.h"
#include "core/base/bits.h"
#include <errno.h>
#include <sys/mman.h>

#define RESERVE_MIN ((size_t)32 << 20)

uint64_t vli_range_pages;
static size_t range_bytes;
static _Atomic uint64_t taken;

bool vli_limit_take(size_t bytes)
{
    uint64_t before = atomic_fetch_add_explicit(&taken, bytes, memory_order_relaxed);

    if (vli_options.limit == 0 ||
        (before <= vli_options.limit && bytes <= vli_options.limit - before)) {
        return true;
    }
    atomic_fetch_sub_explicit(&taken, bytes, memory_order_relaxed);
    return false;
}

void vli_limit_give(size_t bytes)
{
    atomic_fetch_sub_explicit(&taken, bytes, memory_order_relaxed);
}

void vli_huge_advise(void *start, size_t bytes)
{
    (void)madvise(start, bytes,
                  vli_options.huge == VLI_HUGE_NEVER ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
}

bool vli_range_reserve(void)
{
    size_t align = VL_PAGE_SIZE << VL_ORDER_MAX;
    unsigned char *start;
    void *memory;

    for (size_t bytes = vli_options.reserve; bytes >= RESERVE_MIN; bytes /= 4) {
        memory = mmap(NULL, bytes + align, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory != MAP_FAILED) {
            start = (unsigned char *)vli_round_up((uintptr_t)memory, align);
            vli_range_base = start;
            range_bytes = bytes;
            vli_range_pages = bytes >> VL_PAGE_SHIFT;
            return true;
        }
    }
    return false;
}

size_t vl_host_memory_ranges(struct vl_range *out, size_t max)
{
    if (max > 0) {
        out[0] =
            (struct vl_range){.start = {0}, .end = {range_bytes}, .zone = 0, .kind = VL_RANGE_FREE};
    }
    return 1;
}

/* ----------------------------------------------------------------------------------------- runs */

static _Atomic uint64_t run_frames;

void *vli_run_alloc(size_t bytes, size_t align)
{
    size_t frames = (bytes + VL_PAGE_MASK) >> VL_PAGE_SHIFT;
    size_t most = frames << VL_PAGE_SHIFT > align ? frames : align >> VL_PAGE_SHIFT;
    unsigned order = vli_log2_ceil(most);
    struct vl_pfn pfn;
    struct vl_frame *head;

    if (order > VL_ORDER_MAX || vl_frame_alloc(order, VL_WAIT, &pfn) != VL_OK) {
        return NULL;
    }
    head = vli_frame_of(pfn);
    vli_frame_set_type(head, VLI_FRAME_KMALLOC);
    head->index_low = (uint32_t)1 << order;
    atomic_fetch_add_explicit(&run_frames, (uint64_t)1 << order, memory_order_relaxed);
    return vl_frame_to_virt(pfn);
}

void vli_run_free(struct vl_frame *head)
{
    unsigned order = vli_log2_ceil(head->index_low);

    atomic_fetch_sub_explicit(&run_frames, head->index_low, memory_order_relaxed);
    head->index_low = 0;
    vli_frame_set_type(head, VLI_FRAME_STOCK);
    vl_frame_free(vli_frame_pfn(head), order);
}

size_t vli_run_bytes(struct vl_frame *head)
{
    return (size_t)head->index_low << VL_PAGE_SHIFT;
}

void vli_run_shrink(struct vl_frame *head, size_t bytes)
{
    (void)head;
    (void)bytes;
}

size_t vli_run_total(void)
{
    return (size_t)atomic_load_explicit(&run_frames, memory_order_relaxed) << VL_PAGE_SHIFT;
}

size_t vli_range_trim(size_t pad)
{
    (void)pad;
    vli_slab_drain();
    return 0;
}

size_t vli_range_given_back(void)
{
    return 0;
}
