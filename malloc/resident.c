/*
 * resident.c - where memory that is in RAM goes: for malloc_info().
 *
 * Linux says which pages are there (mincore()), the map and the descriptors whose they are. Others
 * go on meanwhile, so each page is told as it was at some moment.
 *
 * Pages that were read only are there as Linux sees it, though all of them are one page of zeros.
 */
#include "malloc/face.h"
#include <sys/mman.h>

/* Pages that are asked about at once. */
#define PAGES_EACH 1024u

/* Pages of @count from @start on that are in RAM, noted in @out one by one. Returns: how many. */
static size_t ask(const void *start, size_t count, unsigned char out[PAGES_EACH])
{
    size_t there = 0;

    if (mincore((void *)(uintptr_t)start, count << VL_PAGE_SHIFT, out) != 0) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        there += out[i] & 1u;
    }
    return there;
}

/* Bytes of the pages from @start on, of @bytes, that are in RAM. */
static size_t resident_of(const void *start, size_t bytes)
{
    unsigned char there[PAGES_EACH];
    size_t pages = (bytes + VL_PAGE_MASK) >> VL_PAGE_SHIFT;
    size_t count = 0;

    for (size_t i = 0; i < pages; i += PAGES_EACH) {
        size_t each = pages - i < PAGES_EACH ? pages - i : PAGES_EACH;

        count += ask((const char *)start + (i << VL_PAGE_SHIFT), each, there);
    }
    return count << VL_PAGE_SHIFT;
}

/* The pages of one stretch, from page @first of the range on. *@run_end: where the run ends that
 * the last stretch ended in, or a page before. */
static void classify(struct vli_resident *out, size_t first, size_t count, size_t *run_end,
                     const unsigned char *there)
{
    for (size_t i = 0; i < count; i++) {
        struct vl_frame *frame = vli_frame_of((struct vl_pfn){(uint32_t)(first + i)});
        size_t class = vli_slab_index(first + i);
        size_t bytes = there[i] & 1u ? VL_PAGE_SIZE : 0;

        if (class != 0) {
            out->slabs[class] += bytes;
            continue;
        }
        if (first + i >= *run_end && vli_frame_type(frame) == VLI_FRAME_KMALLOC) {
            *run_end = first + i + (vli_run_bytes(frame) >> VL_PAGE_SHIFT);
        }
        *(first + i < *run_end ? &out->runs : &out->free) += bytes;
    }
}

void vli_resident(struct vli_resident *out)
{
    const unsigned char *base = atomic_load_explicit(&vli_range_base, memory_order_relaxed);
    size_t pages = (size_t)atomic_load_explicit(&vli_range_pages, memory_order_relaxed);
    unsigned char there[PAGES_EACH];
    size_t run_end = 0;

    *out = (struct vli_resident){.runs = 0};
    for (size_t i = 0; i < pages; i += PAGES_EACH) {
        size_t each = pages - i < PAGES_EACH ? pages - i : PAGES_EACH;

        if (ask(base + (i << VL_PAGE_SHIFT), each, there) != 0) {
            classify(out, i, each, &run_end, there);
        }
    }
    out->descriptors =
        resident_of(vli_frame_of((struct vl_pfn){0}), pages * sizeof(struct vl_frame)) +
        resident_of(vli_slab_map, pages);
}
