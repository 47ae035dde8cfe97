/*
 * remap.c - grow, shrink or move what is mapped, as Linux's mremap().
 *
 * A move makes a second area on the same anon_vmas and object, with the same page indices, carries
 * the entries over, and unmaps the old range. Table pages of the new range are made before the
 * first entry moves, so that the move itself cannot fail. While entries are on their way walks of
 * the reverse map are kept out: a page that left its old place is at its new one for whoever comes
 * later. What lies at a fixed new address is unmapped when nothing can fail any more (in Linux it
 * is gone even if the move then fails); for that moment the new area is on the reverse map while
 * the old ones of its range still are: walks look at each entry, so they meet one perhaps twice,
 * never a wrong one.
 */
#include "core/space/area.h"
#include "core/base/bits.h"

#define REMAP_MAY_MOVE   1u
#define REMAP_FIXED      2u
#define REMAP_DONT_UNMAP 4u
/* Entries carried over at once. */
#define MOVE_BATCH 64u

struct remapping {
    struct vl_space *space;
    vl_va old_va;
    size_t old_len;
    size_t new_len;
    size_t kept_len; /* of the old range, what goes on */
    uint32_t flags;
    vl_va new_va;
    struct vli_area *area;  /* where old_va is */
    struct vli_area *moved; /* for the new range; NULL once used */
    struct vli_area *fresh; /* for a split; NULL once used */
    struct vli_list dead;
};

static enum vl_status arguments_check(struct remapping *remap)
{
    uint32_t flags = remap->flags;
    vl_va end;

    if ((flags & ~(REMAP_MAY_MOVE | REMAP_FIXED | REMAP_DONT_UNMAP)) != 0 ||
        ((flags & (REMAP_FIXED | REMAP_DONT_UNMAP)) != 0 && (flags & REMAP_MAY_MOVE) == 0) ||
        vli_range_check(remap->old_va, remap->old_len, &end) != VL_OK || remap->new_len == 0 ||
        remap->new_len > VL_USER_END) {
        return VL_EINVAL;
    }
    remap->old_len = end - remap->old_va;
    remap->new_len = (size_t)vli_round_up(remap->new_len, VL_PAGE_SIZE);
    if ((flags & REMAP_DONT_UNMAP) != 0 && remap->old_len != remap->new_len) {
        return VL_EINVAL;
    }
    if ((flags & REMAP_FIXED) != 0) {
        if (vli_range_check(remap->new_va, remap->new_len, &end) != VL_OK ||
            (remap->new_va < remap->old_va + remap->old_len && remap->old_va < end)) {
            return VL_EINVAL;
        }
        if (remap->new_va < VL_USER_MIN) {
            return VL_EPERM;
        }
    }
    return VL_OK;
}

/* Unmap a range that was prepared; its areas go to dead. */
static void unmap_part(struct remapping *remap, vl_va start, vl_va end,
                       enum vli_unmap_tables tables)
{
    struct vli_list dead;

    vli_list_init(&dead);
    vli_unmap_commit(remap->space, start, end, tables, &dead);
    vli_list_splice(&dead, &remap->dead);
}

/* May the range grow, and is the area such that it can? */
static enum vl_status growth_check(struct remapping *remap)
{
    bool keeps_old = (remap->flags & REMAP_DONT_UNMAP) != 0;
    uint64_t old_pages = keeps_old ? 0 : remap->old_len >> VL_PAGE_SHIFT;
    uint64_t new_pages = remap->new_len >> VL_PAGE_SHIFT;
    uint64_t more = new_pages > old_pages ? new_pages - old_pages : 0;
    uint64_t index = vli_area_index(remap->area, remap->old_va);

    if (remap->old_len == 0 && !vli_area_is_shared(remap->area)) {
        return VL_EINVAL;
    }
    if (remap->kept_len > remap->area->rmap.end - remap->old_va) {
        return VL_EFAULT;
    }
    if (remap->area->object != NULL && index + new_pages > VLI_PAGES_INDEX_END) {
        return VL_EINVAL;
    }
    if (!vli_space_fits(remap->space, more,
                        vli_attributes_are_data(remap->area->attributes) ? more : 0)) {
        return VL_ENOMEM;
    }
    return VL_OK;
}

/* The table pages that the entries of the old range need at the new one. */
static enum vl_status tables_make(struct remapping *remap)
{
    vl_va end = remap->old_va + remap->kept_len;
    struct vli_table_slot slot;
    vl_va va = remap->old_va;
    vl_va stop;
    vl_va to;

    while (vli_table_next(&remap->space->table, &va, end, &slot)) {
        vli_table_unlock(&slot);
        stop = vli_table_leaf_end(va, end);
        while (va < stop) {
            to = remap->new_va + (va - remap->old_va);
            if (vli_table_find_alloc(&remap->space->table, to, VL_ATOMIC, &slot) != VL_OK) {
                return VL_EAGAIN;
            }
            va += vli_table_leaf_end(to, to + (stop - va)) - to;
        }
    }
    return VL_OK;
}

static bool one_span(void *ctx, struct vli_table_span *out)
{
    struct vli_table_span *span = ctx;

    *out = *span;
    span->start = span->end;
    return out->start < out->end;
}

/* One hole of the new range, below @next, has no use for table pages after all. */
static void hole_drop(struct remapping *remap, vl_va start, vl_va end, struct vli_area *next)
{
    struct vli_table_span span = {start, end, 0, VL_USER_END};
    struct vli_area *prev;
    struct vli_gather gather;

    if (next != NULL) {
        span.ceiling = next->rmap.start;
        prev = vli_area_prev(remap->space, next);
    } else {
        prev = vli_list_last(&remap->space->list, struct vli_area, link);
    }
    span.floor = prev != NULL ? prev->rmap.end : 0;
    vli_gather_begin(&gather, &remap->space->table, false);
    vli_space_free_tables(remap->space, &gather, one_span, &span);
    vli_gather_end(&gather);
}

/* The new range is not used after all: table pages that no area needs go. */
static void tables_drop(struct remapping *remap)
{
    vl_va end = remap->new_va + remap->new_len;
    vl_va at = remap->new_va;
    struct vli_area *next;
    vl_va stop;

    while (at < end) {
        next = vli_area_find(remap->space, at);
        stop = next != NULL && next->rmap.start < end ? next->rmap.start : end;
        if (at < stop) {
            hole_drop(remap, at, stop, next);
        }
        at = next != NULL ? next->rmap.end : end;
    }
}

/* Empties up to MOVE_BATCH entries of one leaf page from @va on. Returns how many were looked at.
 */
static size_t lift(struct remapping *remap, struct vli_gather *gather, vl_va va,
                   struct vli_table_slot *slot, uint64_t *values)
{
    vl_va stop = vli_table_leaf_end(va, remap->old_va + remap->kept_len);
    size_t count = (stop - va) >> VL_PAGE_SHIFT;

    count = count < MOVE_BATCH ? count : MOVE_BATCH;
    for (size_t i = 0; i < count; i++, slot->entry++) {
        values[i] = vli_entry_clear(gather, slot, va + (i << VL_PAGE_SHIFT));
    }
    return count;
}

/* Puts lifted entries down from @va on, in @to. */
static void put_down(struct remapping *remap, struct vli_area *to, vl_va va, const uint64_t *values,
                     size_t count)
{
    struct vli_table_slot slot;
    enum vl_status status;

    for (size_t i = 0; i < count; i++, va += VL_PAGE_SIZE) {
        if (values[i] != 0) {
            status = vli_table_lock_alloc(&remap->space->table, va, VL_ATOMIC, &slot);
            VL_ASSERT(status == VL_OK); /* the table page is there: tables_make() */
            vli_entry_set(&slot, va, values[i]);
            vli_rmap_moved(vli_frame_of(vli_pte_pfn(values[i])), &to->rmap, va, &slot);
            vli_table_unlock(&slot);
        }
    }
}

static void entries_move(struct remapping *remap, struct vli_area *to)
{
    uint64_t values[MOVE_BATCH];
    struct vli_table_slot slot;
    struct vli_gather gather;
    vl_va va = remap->old_va;
    size_t count;

    VL_ASSERT(to->rmap.start == remap->new_va);
    vli_gather_begin(&gather, &remap->space->table, false);
    vli_rmap_move_begin(&remap->area->rmap);
    while (vli_table_next(&remap->space->table, &va, remap->old_va + remap->kept_len, &slot)) {
        count = lift(remap, &gather, va, &slot, values);
        vli_table_unlock(&slot);
        put_down(remap, to, remap->new_va + (va - remap->old_va), values, count);
        va += count << VL_PAGE_SHIFT;
    }
    vli_rmap_move_end(&remap->area->rmap);
    vli_gather_end(&gather);
}

/* What the new area needs but its place in the tree; VL_EAGAIN with nothing changed. */
static enum vl_status area_make(struct remapping *remap)
{
    struct vli_area *area = remap->area;
    uint64_t index = vli_area_index(area, remap->old_va);

    /* Nothing names an index yet: the usual one lets it merge with its new neighbours. */
    if (area->object == NULL && !vli_rmap_area_has_anon(&area->rmap)) {
        index = remap->new_va >> VL_PAGE_SHIFT;
    }
    vli_area_set(remap->moved, remap->space, remap->new_va, remap->new_va + remap->new_len, index,
                 area->attributes, area->object);
    if (vli_rmap_area_clone(&remap->moved->rmap, &area->rmap, VL_ATOMIC) != VL_OK) {
        return VL_EAGAIN;
    }
    if (tables_make(remap) != VL_OK) {
        vli_rmap_area_unlink(&remap->moved->rmap);
        tables_drop(remap);
        return VL_EAGAIN;
    }
    return VL_OK;
}

/* All that may fail of a move: the splits around both ranges, the new area, its table pages. */
static enum vl_status move_prepare(struct remapping *remap, bool keeps_old)
{
    vl_va old_end = remap->old_va + remap->old_len;
    enum vl_status status = VL_OK;

    /* The new area, what the splits leave, as Linux has it. */
    if (remap->space->area_count >= VLI_AREAS_MAX - 3) {
        return VL_ENOMEM;
    }
    if ((remap->flags & REMAP_FIXED) != 0) {
        status = vli_unmap_prepare(remap->space, remap->new_va, remap->new_va + remap->new_len,
                                   &remap->fresh);
    } else if (vli_space_find_place(remap->space, remap->new_len, &remap->new_va) != VL_OK) {
        return VL_ENOMEM;
    }
    if (status == VL_OK && !keeps_old) {
        status = vli_unmap_prepare(remap->space, remap->old_va, old_end, &remap->fresh);
    }
    if (status == VL_OK) {
        remap->area = vli_area_find(remap->space, remap->old_va);
        status = area_make(remap);
    }
    return status;
}

/* The rest of a move, which cannot fail. */
static void move_commit(struct remapping *remap, bool keeps_old)
{
    struct vli_area *to = remap->moved;

    remap->moved = NULL;
    unmap_part(remap, to->rmap.start, to->rmap.end, VLI_UNMAP_KEEP_TABLES);
    if (to->object != NULL) {
        vl_object_get(to->object);
    }
    vli_area_insert(remap->space, to);
    if (remap->kept_len != 0) {
        /* Another part of the same area may just have been unmapped. */
        remap->area = vli_area_find(remap->space, remap->old_va);
        entries_move(remap, to);
    }
    if (!keeps_old) {
        unmap_part(remap, remap->old_va, remap->old_va + remap->old_len, VLI_UNMAP_FREE_TABLES);
    }
}

static enum vl_status move(struct remapping *remap)
{
    bool keeps_old = (remap->flags & REMAP_DONT_UNMAP) != 0 || remap->old_len == 0;
    enum vl_status status = move_prepare(remap, keeps_old);

    if (status == VL_OK) {
        move_commit(remap, keeps_old);
    }
    vli_area_merge_range(remap->space, remap->old_va, remap->old_va + remap->old_len, &remap->dead);
    vli_area_merge_range(remap->space, remap->new_va, remap->new_va + remap->new_len, &remap->dead);
    return status;
}

/* Shrink to the new length where it is. */
static enum vl_status shrink(struct remapping *remap)
{
    vl_va start = remap->old_va + remap->new_len;
    vl_va end = remap->old_va + remap->old_len;
    enum vl_status status = vli_unmap_prepare(remap->space, start, end, &remap->fresh);

    if (status == VL_OK) {
        unmap_part(remap, start, end, VLI_UNMAP_FREE_TABLES);
    }
    return status;
}

static bool try_grow_in_place(struct remapping *remap)
{
    struct vli_area *area = remap->area;
    vl_va end = area->rmap.end;
    size_t more = remap->new_len - remap->old_len;

    /* The guard of a stack above does not count, as in Linux. */
    if (remap->old_va + remap->old_len != end || more > VL_USER_END - end ||
        vli_area_overlaps(remap->space, end, end + more)) {
        return false;
    }
    vli_area_resize(remap->space, area, area->rmap.start, end + more);
    vli_area_merge_next(remap->space, area, &remap->dead);
    return true;
}

static enum vl_status remap_locked(struct remapping *remap)
{
    bool must_move = (remap->flags & (REMAP_FIXED | REMAP_DONT_UNMAP)) != 0;
    enum vl_status status;

    remap->area = vli_area_find(remap->space, remap->old_va);
    if (remap->area == NULL || remap->area->rmap.start > remap->old_va) {
        return VL_EFAULT;
    }
    remap->kept_len = remap->old_len < remap->new_len ? remap->old_len : remap->new_len;
    if (remap->old_len > remap->new_len && !must_move) {
        return shrink(remap);
    }
    status = growth_check(remap);
    if (status != VL_OK) {
        return status;
    }
    if (!must_move && remap->old_len != 0 &&
        (remap->old_len == remap->new_len || try_grow_in_place(remap))) {
        return VL_OK;
    }
    return (remap->flags & REMAP_MAY_MOVE) != 0 ? move(remap) : VL_ENOMEM;
}

enum vl_status vl_space_remap(struct vl_space *space, vl_va old_va, size_t old_len, size_t new_len,
                              uint32_t flags, vl_va new_va, vl_va *out_va)
{
    struct remapping remap = {.space = space,
                              .old_va = old_va,
                              .old_len = old_len,
                              .new_len = new_len,
                              .flags = flags,
                              .new_va = (flags & REMAP_FIXED) != 0 ? new_va : old_va};
    enum vl_status status = arguments_check(&remap);
    bool has_moved = false;

    if (status != VL_OK) {
        return status;
    }
    vli_list_init(&remap.dead);
    for (unsigned i = 0; i < VLI_TRIES_MAX; i++) {
        status = VL_EAGAIN;
        remap.moved = remap.moved != NULL ? remap.moved : vli_area_alloc(VL_WAIT);
        if (remap.moved != NULL) {
            vli_rw_write_lock(&space->lock);
            status = remap_locked(&remap);
            has_moved = remap.moved == NULL;
            vli_rw_write_unlock(&space->lock);
        }
        if (status != VL_EAGAIN || vli_refill() != VL_OK) {
            break;
        }
    }
    vli_area_free(remap.moved);
    vli_area_free(remap.fresh);
    vli_area_free_dead(&remap.dead);
    if (status == VL_OK) {
        *out_va = has_moved ? remap.new_va : old_va;
    }
    return status == VL_EAGAIN ? VL_ENOMEM : status;
}
