/*
 * whole.c - allocations by size above 16 KiB, or aligned to more than a page: whole frames.
 *
 * The head's descriptor has type KMALLOC, and in index_low the number of frames. A power of 2 of
 * them is a block, whose order stands in the flags; any other number is a run, of order 0 there,
 * whose frames count as taken one by one (vl_frame_alloc_run()). So no size takes more than it
 * fills, but for its last frame. A block that shrinks, and whatever was taken for its alignment
 * alone, gives its tail back as part of a run.
 *
 * The owner word of the head holds how many bytes were asked for, for debug builds (debug.c), which
 * keep who asked in the links.
 */
#include "core/slab/slab.h"
#include "core/base/bits.h"
#include "core/base/count.h"

static uint32_t order_of(const struct vl_frame *head)
{
    return (atomic_load_explicit(&head->flags, memory_order_relaxed) & VLI_FRAME_ORDER_MASK) >>
           VLI_FRAME_ORDER_SHIFT;
}

static uint32_t frames_of(const struct vl_frame *head)
{
    return head->index_low;
}

static size_t frames_for(size_t size)
{
    return size == 0 ? 1 : (size + VL_PAGE_MASK) >> VL_PAGE_SHIFT;
}

static void mark_head(struct vl_frame *head, size_t frames, unsigned order)
{
    uint32_t flags = atomic_load_explicit(&head->flags, memory_order_relaxed) & VLI_FRAME_ZONE_MASK;

    flags |= VLI_FRAME_KMALLOC | order << VLI_FRAME_ORDER_SHIFT;
    atomic_store_explicit(&head->flags, flags, memory_order_relaxed);
    head->index_low = (uint32_t)frames;
}

/* Nobody's any more: as its next user expects it. */
static void unmark_head(struct vl_frame *head)
{
    head->index_low = 0;
    vli_frame_set_type(head, VLI_FRAME_STOCK);
}

/* The frames of a block count as taken one by one from now on. */
static void block_to_run(struct vl_frame *head)
{
    uint32_t order = order_of(head);

    for (uint32_t o = order; o > 0; o--) {
        for (uint32_t i = 0; i < 1u << order; i += 1u << o) {
            vli_frame_split(head + i, o);
        }
    }
    mark_head(head, frames_of(head), 0);
}

/* @frames of them, aligned to @most, at least as many. Only what is all of a block is taken as one.
 * Returns: the head, marked, or NULL. */
static struct vl_frame *take(size_t frames, size_t most, vl_how_t how)
{
    struct vl_frame *head;
    struct vl_pfn pfn;

    if (frames == most && vli_is_power_of_2(frames)) {
        head = vli_frame_get(vli_log2_ceil(frames), how);
        if (head != NULL) {
            mark_head(head, frames, vli_log2_ceil(frames));
        }
        return head;
    }
    if (vl_frame_alloc_run(most, how, &pfn) != VL_OK) {
        return NULL;
    }
    if (most > frames) {
        vl_frame_free_run((struct vl_pfn){pfn.n + (uint32_t)frames}, most - frames);
    }
    mark_head(vli_frame_of(pfn), frames, 0);
    return vli_frame_of(pfn);
}

static void give(struct vl_frame *head)
{
    uint32_t order = order_of(head);
    uint32_t frames = frames_of(head);

    atomic_store_explicit(&head->owner, 0, memory_order_relaxed);
    unmark_head(head);
    if (frames == 1u << order) {
        vli_frame_put(head, order);
    } else {
        vl_frame_free_run(vli_frame_pfn(head), frames);
    }
}

void *vli_whole_alloc(size_t size, size_t align, vl_how_t how, uintptr_t who)
{
    size_t frames = frames_for(size);
    struct vl_frame *head;
    void *object;

    if (size > VL_KMALLOC_MAX) {
        return NULL;
    }
    head = take(frames, frames > align >> VL_PAGE_SHIFT ? frames : align >> VL_PAGE_SHIFT, how);
    if (head == NULL) {
        return NULL;
    }
    object = vli_frame_virt(vli_frame_pfn(head));
    if (((uintptr_t)object & (align - 1)) != 0) {
        give(head); /* the host's mapping does not keep the alignment */
        return NULL;
    }
    atomic_store_explicit(&head->owner, size, memory_order_relaxed);
    vli_debug_whole_alloc(head, size, who);
    vli_count_add(VLI_COUNT_KMALLOC, frames);
    return object;
}

void vli_whole_free(struct vl_frame *head, uintptr_t who)
{
    vli_debug_whole_free(head, who);
    vli_count_sub(VLI_COUNT_KMALLOC, frames_of(head));
    give(head);
}

size_t vli_whole_room(const struct vl_frame *head)
{
    return (size_t)frames_of(head) << VL_PAGE_SHIFT;
}

bool vli_whole_resize(struct vl_frame *head, size_t size)
{
    uint32_t have = frames_of(head);
    uint32_t frames = (uint32_t)frames_for(size);

    if (size > vli_whole_room(head)) {
        return false;
    }
    if (frames < have) {
        block_to_run(head);
        mark_head(head, frames, 0); /* first: the tail's frames are others' when they are back */
        vli_count_sub(VLI_COUNT_KMALLOC, have - frames);
        vl_frame_free_run((struct vl_pfn){vli_frame_pfn(head).n + frames}, have - frames);
    }
    atomic_store_explicit(&head->owner, size, memory_order_relaxed);
    vli_debug_whole_size(head, size);
    return true;
}
