/*
 * protect.c - changing the rights of a range.
 *
 * First the range is looked through: how far can it be done, and what is the answer (Linux changes
 * what lies before a hole or before a forbidden area, and then says so). Then the areas at both
 * ends are split; these are the steps that may fail, and a failure joins again what was split. The
 * rest cannot fail.
 *
 * Entries. Rights that go are taken away at once and flushed; a private page that somebody else may
 * see gets the right to write by a fault only. Without any right the entry keeps its
 * frame but is not present (VLI_PTE_HELD): neither the user nor the kernel on his behalf reads it.
 */
#include "core/space/area.h"

struct protecting {
    struct vl_space *space;
    vl_va start, end; /* what can be changed */
    uint32_t prot;
    struct vli_area *fresh[2]; /* for the splits */
    struct vli_list dead;
};

/* How far the change can go: sets end. Returns the status of the whole. */
static enum vl_status look_through(struct protecting *change)
{
    struct vli_area *area = vli_area_find(change->space, change->start);
    vl_va at = change->start;
    uint64_t pages = 0;
    uint64_t data = 0;

    for (; at < change->end; area = vli_area_next(change->space, area)) {
        if (area == NULL || area->rmap.start > at) {
            change->end = at;
            return VL_ENOMEM;
        }
        if ((change->prot & ~(area->attributes >> VLI_AREA_MAX_SHIFT & VLI_AREA_PROT)) != 0) {
            change->end = at;
            return VL_EACCES;
        }
        pages =
            ((area->rmap.end < change->end ? area->rmap.end : change->end) - at) >> VL_PAGE_SHIFT;
        if (!vli_attributes_are_data(area->attributes) &&
            vli_attributes_are_data((area->attributes & ~VLI_AREA_PROT) | change->prot)) {
            data += pages;
            if (!vli_data_fits(change->space, data)) {
                change->end = at;
                return VL_ENOMEM;
            }
        }
        at = area->rmap.end;
    }
    return VL_OK;
}

/* Split at @at if an area that must change lies across it. */
static enum vl_status split_at(struct protecting *change, vl_va at, struct vli_area **fresh)
{
    struct vli_area *area = vli_area_find(change->space, at);

    if (area == NULL || area->rmap.start >= at ||
        (area->attributes & VLI_AREA_PROT) == change->prot) {
        return VL_OK;
    }
    if (change->space->area_count >= VLI_AREAS_MAX) {
        return VL_ENOMEM;
    }
    if (*fresh == NULL) {
        *fresh = vli_area_alloc(VL_ATOMIC);
    }
    if (*fresh == NULL || vli_area_split(change->space, area, at, *fresh) != VL_OK) {
        return VL_EAGAIN;
    }
    *fresh = NULL;
    return VL_OK;
}

/* Is the page of a private area this entry's alone, so that it may be written at once? The leaf
 * page is locked. */
static bool is_exclusive(uint64_t entry)
{
    struct vl_frame *frame = vli_frame_of(vli_pte_pfn(entry));

    /* Acquire: pairs with the release of the last other user. */
    return vli_frame_type(frame) == VLI_FRAME_ANON &&
           atomic_load_explicit(&frame->refs, memory_order_acquire) == 1;
}

/* What the entry becomes in an area of these attributes. */
static uint64_t new_entry(uint64_t entry, uint32_t attributes)
{
    bool write = (attributes & VL_WRITE) != 0 && ((attributes & VLI_AREA_SHARED) != 0 ||
                                                  vli_pte_can_write(entry) || is_exclusive(entry));
    uint64_t fresh = vli_pte_make(vli_pte_pfn(entry), write, (attributes & VL_EXEC) != 0);

    fresh |= entry & (VLI_PTE_ACCESSED | VLI_PTE_DIRTY);
    return (attributes & VLI_AREA_PROT) == 0 ? vli_pte_hold(fresh) : fresh;
}

static void change_entry(struct vli_gather *gather, struct vli_table_slot *slot, vl_va va,
                         uint32_t attributes)
{
    uint64_t entry = vli_entry_load(slot);
    uint64_t fresh = new_entry(entry, attributes);
    uint64_t lost = entry & ~fresh & VLI_PTE_WRITE;
    uint64_t barred = ~entry & fresh & VLI_PTE_NX;

    if (!vli_pte_is_present(entry)) {
        if (vli_pte_is_present(fresh)) {
            vli_entry_set(slot, va, fresh); /* was held: nobody has it in a TLB */
        }
    } else if (!vli_pte_is_present(fresh)) {
        /* Bit by bit: the MMU may set the dirty bit until the last moment. */
        vli_entry_narrow(gather, slot, va, entry & ~fresh, fresh & ~entry);
    } else if (lost != 0 || barred != 0) {
        vli_entry_narrow(gather, slot, va, lost | (entry & ~fresh & VLI_PTE_NX),
                         barred | (fresh & ~entry & VLI_PTE_WRITE));
    } else if (fresh != entry) {
        vli_entry_set(slot, va, fresh);
    }
}

static void change_entries(struct protecting *change, struct vli_gather *gather,
                           struct vli_area *area)
{
    struct vli_table_slot slot;
    vl_va va = area->rmap.start;
    vl_va stop;

    while (vli_table_next(&change->space->table, &va, area->rmap.end, &slot)) {
        stop = vli_table_leaf_end(va, area->rmap.end);
        for (; va < stop; va += VL_PAGE_SIZE, slot.entry++) {
            if (vli_entry_load(&slot) != 0) {
                change_entry(gather, &slot, va, area->attributes);
            }
        }
        vli_table_unlock(&slot);
    }
}

static void commit(struct protecting *change)
{
    struct vl_space *space = change->space;
    struct vli_area *area = vli_area_find(space, change->start);
    struct vli_gather gather;

    vli_gather_begin(&gather, &space->table, false);
    for (; area != NULL && area->rmap.start < change->end; area = vli_area_next(space, area)) {
        if ((area->attributes & VLI_AREA_PROT) == change->prot) {
            continue;
        }
        VL_ASSERT(area->rmap.start >= change->start && area->rmap.end <= change->end);
        vli_area_set_attributes(space, area, (area->attributes & ~VLI_AREA_PROT) | change->prot);
        change_entries(change, &gather, area);
    }
    vli_gather_end(&gather);
}

static enum vl_status protect_locked(struct protecting *change)
{
    vl_va end = change->end;
    enum vl_status answer = look_through(change);
    enum vl_status status = VL_OK;

    if (change->start < change->end) {
        status = split_at(change, change->start, &change->fresh[0]);
        if (status == VL_OK) {
            status = split_at(change, change->end, &change->fresh[1]);
        }
        if (status == VL_OK) {
            commit(change);
        }
        vli_area_merge_range(change->space, change->start, change->end, &change->dead);
    }
    if (status == VL_EAGAIN) {
        change->end = end;
        return VL_EAGAIN;
    }
    return status != VL_OK ? status : answer;
}

enum vl_status vl_space_protect(struct vl_space *space, vl_va start, size_t len, uint32_t prot)
{
    struct protecting change = {.space = space, .start = start, .prot = prot};
    enum vl_status status;

    if ((prot & ~VLI_AREA_PROT) != 0 || (start & VL_PAGE_MASK) != 0) {
        return VL_EINVAL;
    }
    if (vli_range_check(start, len, &change.end) != VL_OK) {
        return VL_ENOMEM;
    }
    if (len == 0) {
        return VL_OK;
    }
    vli_list_init(&change.dead);
    for (unsigned i = 0; i < VLI_TRIES_MAX; i++) {
        vli_rw_write_lock(&space->lock);
        status = protect_locked(&change);
        vli_rw_write_unlock(&space->lock);
        if (status != VL_EAGAIN || vli_refill() != VL_OK) {
            break;
        }
    }
    vli_area_free(change.fresh[0]);
    vli_area_free(change.fresh[1]);
    vli_area_free_dead(&change.dead);
    return status == VL_EAGAIN ? VL_ENOMEM : status;
}
