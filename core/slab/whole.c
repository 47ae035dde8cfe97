/*
 * whole.c - allocations by size above 16 KiB, or aligned to more than a page: whole frames.
 *
 * A block of 1 << order frames, type KMALLOC, its order in the head's flags. A block that was taken
 * larger than it need be, for its alignment or before it shrank, gives the rest back in blocks: the
 * frames of a block look like frames that nobody uses (frame_state.h), so its halves can go back
 * one by one.
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

static unsigned order_for(size_t size)
{
    return vli_log2_ceil((size + VL_PAGE_MASK) >> VL_PAGE_SHIFT);
}

static void set_order(struct vl_frame *head, unsigned order)
{
    uint32_t flags = atomic_load_explicit(&head->flags, memory_order_relaxed) & VLI_FRAME_ZONE_MASK;

    flags |= VLI_FRAME_KMALLOC | order << VLI_FRAME_ORDER_SHIFT;
    atomic_store_explicit(&head->flags, flags, memory_order_relaxed);
}

/* Keeps 1 << @to frames of a block of order @from. */
static void give_tail(struct vl_frame *head, unsigned from, unsigned to)
{
    while (from-- > to) {
        vli_frame_split(head, from + 1);
        vli_frame_put(head + ((size_t)1 << from), from);
    }
}

void *vli_whole_alloc(size_t size, size_t align, vl_how_t how, uintptr_t who)
{
    struct vl_frame *head;
    unsigned order;
    unsigned taken;
    void *object;

    if (size > VL_KMALLOC_MAX) {
        return NULL;
    }
    order = order_for(size);
    taken = align > VL_PAGE_SIZE << order ? order_for(align) : order;
    head = vli_frame_get(taken, how);
    if (head == NULL) {
        return NULL;
    }
    object = vli_frame_virt(vli_frame_pfn(head));
    if (((uintptr_t)object & (align - 1)) != 0) {
        vli_frame_put(head, taken); /* the host's mapping does not keep the alignment */
        return NULL;
    }
    give_tail(head, taken, order);
    set_order(head, order);
    atomic_store_explicit(&head->owner, size, memory_order_relaxed);
    vli_debug_whole_alloc(head, size, who);
    vli_count_add(VLI_COUNT_KMALLOC, (uint64_t)1 << order);
    return object;
}

void vli_whole_free(struct vl_frame *head, uintptr_t who)
{
    uint32_t order = order_of(head);

    vli_debug_whole_free(head, who);
    vli_count_sub(VLI_COUNT_KMALLOC, (uint64_t)1 << order);
    vli_frame_set_type(head, VLI_FRAME_STOCK);
    vli_frame_put(head, order);
}

size_t vli_whole_room(const struct vl_frame *head)
{
    return VL_PAGE_SIZE << order_of(head);
}

bool vli_whole_resize(struct vl_frame *head, size_t size)
{
    uint32_t from = order_of(head);
    unsigned to = size == 0 ? 0 : order_for(size);

    if (to > from) {
        return false;
    }
    if (to < from) {
        set_order(head, to); /* first: the tail's frames are others' when they are back */
        vli_count_sub(VLI_COUNT_KMALLOC, ((uint64_t)1 << from) - ((uint64_t)1 << to));
        give_tail(head, from, to);
    }
    atomic_store_explicit(&head->owner, size, memory_order_relaxed);
    vli_debug_whole_size(head, size);
    return true;
}
