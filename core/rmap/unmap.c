/*
 * unmap.c - see unmap.h. One lock a leaf table page, and one change of each counter.
 */
#include "core/rmap/unmap.h"
#include "core/base/bits.h"

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

/* As vli_table_next(). Neighbouring areas often share a leaf page: the one met last is locked again
 * without a walk. The table pages stay as long as ranges are emptied into one gather. */
static bool next_leaf(struct vli_gather *gather, vl_va *va, vl_va end, struct vli_table_slot *slot)
{
    vl_va start = (vl_va)vli_round_down(*va, vli_table_reach(1));

    if (gather->leaf != NULL && gather->leaf_start == start && *va < end) {
        slot->page = gather->leaf;
        slot->entry =
            &vli_table_entries(vl_pfn_to_pa(vli_frame_pfn(slot->page)).a)[vli_table_index(*va, 0)];
        vli_table_relock(slot);
        return true;
    }
    if (!vli_table_next(gather->table, va, end, slot)) {
        return false;
    }
    gather->leaf = slot->page;
    gather->leaf_start = (vl_va)vli_round_down(*va, vli_table_reach(1));
    return true;
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
    while (next_leaf(gather, &va, end, &slot)) {
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
