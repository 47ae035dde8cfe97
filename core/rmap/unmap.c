/*
 * unmap.c - see unmap.h. One lock a leaf table page, and one change of each counter.
 */
#include "core/rmap/unmap.h"

/* What left a leaf table page. */
struct unmapped {
    uint64_t emptied; /* entries */
    uint64_t anon;    /* pages that were counted and referenced */
    uint64_t all;
};

/* Empties entries from @va to @stop, all in the locked page. Returns where it stopped: sooner when
 * the gather is full. */
static vl_va unmap_leaf(struct vli_gather *gather, struct vli_rmap_area *area,
                        struct vli_table_slot *slot, vl_va va, vl_va stop, struct unmapped *count)
{
    struct vl_frame *frame;
    vl_va start = va;
    uint32_t flags;
    bool is_full = false;

    while (va < stop && !is_full) {
        if (vli_entry_load(slot) == 0) {
            va = vli_entry_skip_empty(slot, va, stop);
            continue;
        }
        frame = vli_frame_of(vli_pte_pfn(vli_entry_take(gather, slot)));
        flags = atomic_load_explicit(&frame->flags, memory_order_relaxed);
        /* The zero page is neither counted nor referenced. */
        if ((flags & VLI_FRAME_PINNED) == 0) {
            count->anon += (flags & VLI_FRAME_TYPE_MASK) == VLI_FRAME_ANON;
            count->all++;
            vli_rmap_unmap(frame, area, va, slot);
            is_full = vli_gather_frame(gather, frame);
        }
        va += VL_PAGE_SIZE;
        slot->entry++;
        count->emptied++;
    }
    if (!gather->whole && count->emptied != 0) {
        vli_gather_range(gather, start, va);
    }
    return va;
}

void vli_rmap_unmap_range(struct vli_gather *gather, struct vli_rmap_area *area, vl_va start,
                          vl_va end)
{
    struct vli_table *table = gather->table;
    struct vli_table_slot slot;
    struct unmapped count;
    vl_va va = start;
    vl_va stop;

    VL_ASSERT(start >= area->start && end <= area->end);
    while (vli_table_next(table, &va, end, &slot)) {
        count = (struct unmapped){0, 0, 0};
        stop = vli_table_leaf_end(va, end);
        va = unmap_leaf(gather, area, &slot, va, stop, &count);
        if (count.anon != 0) {
            atomic_fetch_sub_explicit(&table->anon_pages, count.anon, memory_order_relaxed);
        }
        if (count.all != count.anon) {
            atomic_fetch_sub_explicit(&table->file_pages, count.all - count.anon,
                                      memory_order_relaxed);
        }
        vli_table_unlock(&slot);
        if (gather->frame_count == VLI_GATHER_FRAMES) {
            vli_gather_flush(gather);
        }
    }
}
