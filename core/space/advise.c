/*
 * advise.c - advice about a range, and what of it is resident.
 *
 * Dropping pages holds the space's lock for reading: it changes entries, not areas, and each under
 * its leaf page's lock, as faults do. VL_ADVISE_FREE frees at once, which Linux may do too.
 * Patterns of access are attributes of an area and so split and merge areas.
 */
#include "core/space/area.h"

static vl_va max_va(vl_va a, vl_va b)
{
    return a > b ? a : b;
}

static vl_va min_va(vl_va a, vl_va b)
{
    return a < b ? a : b;
}

/* Does every page of the range belong to an area? */
static bool is_covered(struct vl_space *space, vl_va start, vl_va end)
{
    struct vli_area *area = vli_area_find(space, start);

    for (; start < end; area = vli_area_next(space, area)) {
        if (area == NULL || area->rmap.start > start) {
            return false;
        }
        start = area->rmap.end;
    }
    return true;
}

static enum vl_status drop_pages(struct vl_space *space, vl_va start, vl_va end, bool anon_only)
{
    enum vl_status status = VL_OK;
    struct vli_gather gather;
    struct vli_area *area;

    vli_rw_read_lock(&space->lock);
    vli_space_note_peak(space);
    if (!is_covered(space, start, end)) {
        status = VL_ENOMEM;
    }
    vli_gather_begin(&gather, &space->table, false);
    area = vli_area_find(space, start);
    for (; area != NULL && area->rmap.start < end; area = vli_area_next(space, area)) {
        if (anon_only && (area->object != NULL || vli_area_is_shared(area))) {
            status = VL_EINVAL;
            break;
        }
        vli_rmap_unmap_range(&gather, &area->rmap, max_va(area->rmap.start, start),
                             min_va(area->rmap.end, end));
    }
    vli_gather_end(&gather);
    vli_rw_read_unlock(&space->lock);
    return status;
}

/* ---------------------------------------------------------------------------- patterns */

static uint32_t with_pattern(uint32_t attributes, enum vl_advice advice)
{
    attributes &= ~(VLI_AREA_RANDOM | VLI_AREA_SEQUENTIAL);
    if (advice == VL_ADVISE_RANDOM) {
        return attributes | VLI_AREA_RANDOM;
    }
    return advice == VL_ADVISE_SEQUENTIAL ? attributes | VLI_AREA_SEQUENTIAL : attributes;
}

/* Split at @at if an area that must change lies across it. */
static enum vl_status split_at(struct vl_space *space, vl_va at, enum vl_advice advice)
{
    struct vli_area *area = vli_area_find(space, at);
    struct vli_area *fresh;

    if (area == NULL || area->rmap.start >= at ||
        with_pattern(area->attributes, advice) == area->attributes) {
        return VL_OK;
    }
    if (space->area_count >= VLI_AREAS_MAX) {
        return VL_ENOMEM;
    }
    fresh = vli_area_alloc(VL_ATOMIC);
    if (fresh == NULL || vli_area_split(space, area, at, fresh) != VL_OK) {
        vli_area_free(fresh);
        return VL_EAGAIN;
    }
    return VL_OK;
}

static enum vl_status set_pattern(struct vl_space *space, vl_va start, vl_va end,
                                  enum vl_advice advice, struct vli_list *dead)
{
    struct vli_area *area;
    enum vl_status status = split_at(space, start, advice);

    if (status == VL_OK) {
        status = split_at(space, end, advice);
    }
    area = vli_area_find(space, start);
    for (; status == VL_OK && area != NULL && area->rmap.start < end;
         area = vli_area_next(space, area)) {
        /* One that lies across an end has the pattern already. */
        vli_area_set_attributes(space, area, with_pattern(area->attributes, advice));
    }
    vli_area_merge_range(space, start, end, dead);
    if (status == VL_OK && !is_covered(space, start, end)) {
        status = VL_ENOMEM;
    }
    return status;
}

static enum vl_status advise_pattern(struct vl_space *space, vl_va start, vl_va end,
                                     enum vl_advice advice)
{
    struct vli_list dead;
    enum vl_status status = VL_EAGAIN;

    vli_list_init(&dead);
    for (unsigned i = 0; i < VLI_TRIES_MAX; i++) {
        vli_rw_write_lock(&space->lock);
        status = set_pattern(space, start, end, advice, &dead);
        vli_rw_write_unlock(&space->lock);
        if (status != VL_EAGAIN || vli_refill() != VL_OK) {
            break;
        }
    }
    vli_area_free_dead(&dead);
    return status == VL_EAGAIN ? VL_ENOMEM : status;
}

enum vl_status vl_space_advise(struct vl_space *space, vl_va start, size_t len,
                               enum vl_advice advice)
{
    enum vl_status status = VL_OK;
    vl_va end;

    if (vli_range_check(start, len, &end) != VL_OK) {
        return VL_EINVAL;
    }
    if (start == end) {
        return VL_OK;
    }
    switch (advice) {
    case VL_ADVISE_DONTNEED:
        return drop_pages(space, start, end, false);
    case VL_ADVISE_FREE:
        return drop_pages(space, start, end, true);
    case VL_ADVISE_WILLNEED:
        /* All that is to be had is in memory already. */
        vli_rw_read_lock(&space->lock);
        status = is_covered(space, start, end) ? VL_OK : VL_ENOMEM;
        vli_rw_read_unlock(&space->lock);
        return status;
    case VL_ADVISE_NORMAL:
    case VL_ADVISE_RANDOM:
    case VL_ADVISE_SEQUENTIAL:
        return advise_pattern(space, start, end, advice);
    }
    return VL_EINVAL;
}

/* --------------------------------------------------------------------------- residency */

/* One page of @area: mapped, or in the object's memory. */
static bool is_resident(struct vl_space *space, struct vli_area *area, vl_va va)
{
    struct vl_frame *frame;

    if (vli_pte_has_frame(vli_table_peek(&space->table, va))) {
        return true;
    }
    if (area->object == NULL ||
        vli_object_find(area->object, vli_area_index(area, va), 1, &frame) == 0) {
        return false;
    }
    vli_rmap_frame_put(frame);
    return true;
}

enum vl_status vl_space_resident(struct vl_space *space, vl_va start, size_t len, uint8_t *out)
{
    enum vl_status status = VL_OK;
    struct vli_area *area;
    vl_va end;

    if ((start & VL_PAGE_MASK) != 0) {
        return VL_EINVAL;
    }
    if (vli_range_check(start, len, &end) != VL_OK) {
        return VL_ENOMEM;
    }
    vli_rw_read_lock(&space->lock);
    if (!is_covered(space, start, end)) {
        status = VL_ENOMEM;
    }
    area = vli_area_find(space, start);
    for (vl_va va = start; status == VL_OK && va < end; va += VL_PAGE_SIZE) {
        if (va >= area->rmap.end) {
            area = vli_area_next(space, area);
        }
        out[(va - start) >> VL_PAGE_SHIFT] = is_resident(space, area, va) ? 1 : 0;
    }
    vli_rw_read_unlock(&space->lock);
    return status;
}
