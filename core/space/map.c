/*
 * map.c - map, unmap, brk.
 *
 * Each is: prepare what may fail (areas are allocated before the lock is taken), take the lock for
 * writing, check, commit. Unmapping in the middle of an area needs a second area for what remains
 * above; that split is the last step that may fail. Removed areas are collected and given up after
 * the lock, because the last reference on an object runs the embedder's code.
 */
#include "core/space/area.h"
#include "core/base/bits.h"

/* What a map request needs while it is carried out. */
struct mapping {
    const struct vl_map_request *request;
    struct vl_object *object; /* with a reference when it is not the request's */
    vl_va start;
    vl_va end;
    uint64_t index;
    uint32_t attributes;
    struct vli_area *area;  /* for the new range; NULL once used */
    struct vli_area *fresh; /* for a split; NULL once used */
    struct vli_list dead;
};

enum vl_status vli_range_check(vl_va start, size_t len, vl_va *out_end)
{
    if ((start & VL_PAGE_MASK) != 0 || start > VL_USER_END || len > VL_USER_END) {
        return VL_EINVAL;
    }
    len = (size_t)vli_round_up(len, VL_PAGE_SIZE);
    if (len > VL_USER_END - start) {
        return VL_EINVAL;
    }
    *out_end = start + len;
    return VL_OK;
}

bool vli_space_fits(const struct vl_space *space, uint64_t pages, uint64_t data)
{
    uint64_t limit = space->limits.address_space >> VL_PAGE_SHIFT;

    return pages <= limit && space->mapped <= limit - pages && vli_data_fits(space, data);
}

bool vli_data_fits(const struct vl_space *space, uint64_t data)
{
    uint64_t limit = space->limits.data >> VL_PAGE_SHIFT;

    return data == 0 || (data <= limit && space->data <= limit - data);
}

enum vl_status vli_space_find_place(struct vl_space *space, size_t len, vl_va *out)
{
    /* Room for the stack to grow is kept free at the top, as Linux does: its limit, but at least
     * 128 MiB and at most five sixths of all. */
    vl_va room = VL_USER_END / 6 * 5;
    vl_va least = (vl_va)128 << 20;

    room = space->limits.stack < room ? (vl_va)space->limits.stack : room;
    room = room > least ? room : least;
    room = (vl_va)vli_round_up(room + VLI_STACK_GUARD, VL_PAGE_SIZE);
    if (vli_area_find_free(space, len, VL_USER_MIN, VL_USER_END - room, out) == VL_OK) {
        return VL_OK;
    }
    return vli_area_find_free(space, len, VL_USER_MIN, VL_USER_END, out);
}

/* -------------------------------------------------------------------------------- unmap */

/* The removed ranges, ascending: the end of the first area, whole areas, the start of the last. */
struct unmap_spans {
    struct vli_list *dead;
    struct vli_list *next; /* in dead */
    vl_va head_start, head_end;
    vl_va tail_start, tail_end;
    vl_va floor, ceiling;
};

static bool next_piece(struct unmap_spans *spans, vl_va *start, vl_va *end)
{
    struct vli_area *area;

    if (spans->head_start < spans->head_end) {
        *start = spans->head_start;
        *end = spans->head_end;
        spans->head_start = spans->head_end;
        return true;
    }
    if (spans->next != spans->dead) {
        area = vli_list_entry(spans->next, struct vli_area, link);
        spans->next = spans->next->next;
        *start = area->rmap.start;
        *end = area->rmap.end;
        return true;
    }
    *start = spans->tail_start;
    *end = spans->tail_end;
    spans->tail_start = spans->tail_end;
    return *start < *end;
}

static bool next_span(void *ctx, struct vli_table_span *out)
{
    struct unmap_spans *spans = ctx;

    out->floor = spans->floor;
    out->ceiling = spans->ceiling;
    return next_piece(spans, &out->start, &out->end);
}

enum vl_status vli_unmap_prepare(struct vl_space *space, vl_va start, vl_va end,
                                 struct vli_area **fresh)
{
    struct vli_area *area = vli_area_find(space, start);
    enum vl_status status;

    if (area == NULL || area->rmap.start >= start || area->rmap.end <= end) {
        return VL_OK;
    }
    if (space->area_count >= VLI_AREAS_MAX) {
        return VL_ENOMEM;
    }
    if (*fresh == NULL) {
        *fresh = vli_area_alloc(VL_ATOMIC);
        if (*fresh == NULL) {
            return VL_EAGAIN;
        }
    }
    status = vli_area_split(space, area, end, *fresh);
    if (status != VL_OK) {
        return VL_EAGAIN;
    }
    *fresh = NULL;
    return VL_OK;
}

/* @area, all of whose entries in the range are empty, loses the range. */
static void cut(struct vl_space *space, struct vli_area *area, vl_va start, vl_va end,
                struct unmap_spans *spans)
{
    if (area->rmap.start < start) {
        VL_ASSERT(area->rmap.end <= end);
        spans->head_start = start;
        spans->head_end = area->rmap.end;
        vli_area_resize(space, area, area->rmap.start, start);
    } else if (area->rmap.end > end) {
        spans->tail_start = area->rmap.start;
        spans->tail_end = end;
        vli_area_resize(space, area, end, area->rmap.end);
    } else {
        vli_area_remove(space, area);
        vli_rmap_area_unlink(&area->rmap);
        vli_list_insert_before(spans->dead, &area->link);
    }
}

void vli_unmap_commit(struct vl_space *space, vl_va start, vl_va end, enum vli_unmap_tables tables,
                      struct vli_list *dead)
{
    struct unmap_spans spans = {.dead = dead, .floor = 0, .ceiling = VL_USER_END};
    struct vli_area *area = vli_area_find(space, start);
    struct vli_area *next;
    struct vli_gather gather;

    VL_ASSERT(vli_list_is_empty(dead));
    if (area == NULL || area->rmap.start >= end) {
        return;
    }
    vli_space_note_peak(space);
    next = vli_area_prev(space, area);
    spans.floor = next != NULL ? next->rmap.end : 0;
    spans.floor = area->rmap.start < start ? start : spans.floor;
    vli_gather_begin(&gather, &space->table, false);
    for (; area != NULL && area->rmap.start < end; area = next) {
        next = vli_area_next(space, area);
        vli_rmap_unmap_range(&gather, &area->rmap,
                             area->rmap.start > start ? area->rmap.start : start,
                             area->rmap.end < end ? area->rmap.end : end);
        spans.ceiling = area->rmap.end > end ? end : VL_USER_END;
        cut(space, area, start, end, &spans);
    }
    if (spans.ceiling == VL_USER_END && area != NULL) {
        spans.ceiling = area->rmap.start;
    }
    spans.next = dead->next;
    if (tables == VLI_UNMAP_FREE_TABLES) {
        vli_space_free_tables(space, &gather, next_span, &spans);
    }
    vli_gather_end(&gather);
}

enum vl_status vl_space_unmap(struct vl_space *space, vl_va start, size_t len)
{
    struct vli_area *fresh = NULL;
    struct vli_list dead;
    enum vl_status status;
    vl_va end;

    if (len == 0 || vli_range_check(start, len, &end) != VL_OK) {
        return VL_EINVAL;
    }
    vli_list_init(&dead);
    for (unsigned i = 0; i < VLI_TRIES_MAX; i++) {
        vli_rw_write_lock(&space->lock);
        status = vli_unmap_prepare(space, start, end, &fresh);
        if (status == VL_OK) {
            vli_unmap_commit(space, start, end, VLI_UNMAP_FREE_TABLES, &dead);
        }
        vli_rw_write_unlock(&space->lock);
        if (status != VL_EAGAIN || vli_refill() != VL_OK) {
            break;
        }
    }
    vli_area_free(fresh);
    vli_area_free_dead(&dead);
    return status == VL_EAGAIN ? VL_ENOMEM : status;
}

/* ---------------------------------------------------------------------------------- map */

static uint32_t attributes_of(const struct vl_map_request *request)
{
    uint32_t max = request->prot_max != 0 ? request->prot_max : VLI_AREA_PROT;

    return request->prot | max << VLI_AREA_MAX_SHIFT |
           (request->kind == VL_MAP_SHARED ? VLI_AREA_SHARED : 0) |
           (request->grows_down ? VLI_AREA_GROWS : 0);
}

/* Everything that can be said about a request without looking at the space. */
static enum vl_status request_check(const struct vl_map_request *request, size_t *out_len)
{
    uint64_t end;

    if (request->len == 0 || (request->offset & VL_PAGE_MASK) != 0 ||
        (request->prot & ~VLI_AREA_PROT) != 0 || (request->prot_max & ~VLI_AREA_PROT) != 0 ||
        (request->grows_down && (request->object != NULL || request->kind == VL_MAP_SHARED))) {
        return VL_EINVAL;
    }
    if (request->place != VL_MAP_ANYWHERE && (request->hint & VL_PAGE_MASK) != 0) {
        return VL_EINVAL;
    }
    if (request->prot_max != 0 && (request->prot & ~request->prot_max) != 0) {
        return VL_EACCES;
    }
    if (request->len > VL_USER_END - VL_USER_MIN) {
        return VL_ENOMEM;
    }
    *out_len = (size_t)vli_round_up(request->len, VL_PAGE_SIZE);
    end = request->offset + *out_len;
    if (request->object != NULL && (end < *out_len || end > VLI_PAGES_INDEX_END << VL_PAGE_SHIFT)) {
        return VL_EOVERFLOW;
    }
    if (request->place != VL_MAP_ANYWHERE) {
        if (request->hint > VL_USER_END || *out_len > VL_USER_END - request->hint) {
            return VL_ENOMEM;
        }
        if (request->hint < VL_USER_MIN) {
            return VL_EPERM;
        }
    }
    return VL_OK;
}

bool vli_range_is_free(struct vl_space *space, vl_va start, size_t len)
{
    struct vli_area *area;
    vl_va end = start + len;

    if (start < VL_USER_MIN || start > VL_USER_END || len > VL_USER_END - start) {
        return false;
    }
    area = vli_area_find(space, start);
    if (area == NULL) {
        return true;
    }
    return area->rmap.start >= end &&
           (!vli_area_grows(area) || area->rmap.start - end >= VLI_STACK_GUARD);
}

static enum vl_status choose_place(struct vl_space *space, struct mapping *map, size_t len)
{
    const struct vl_map_request *request = map->request;
    vl_va hint = request->hint;

    if (request->place == VL_MAP_ANYWHERE && hint != 0) {
        hint = hint < VL_USER_END ? (vl_va)vli_round_up(hint, VL_PAGE_SIZE) : 0;
        hint = hint != 0 && hint < VL_USER_MIN ? VL_USER_MIN : hint;
    }
    map->start = hint;
    switch (request->place) {
    case VL_MAP_FIXED:
        break;
    case VL_MAP_FIXED_NOREPLACE:
        if (vli_area_overlaps(space, hint, hint + len)) {
            return VL_EEXIST;
        }
        break;
    case VL_MAP_ANYWHERE:
        if ((hint == 0 || !vli_range_is_free(space, hint, len)) &&
            vli_space_find_place(space, len, &map->start) != VL_OK) {
            return VL_ENOMEM;
        }
        break;
    }
    map->end = map->start + len;
    map->index =
        map->object != NULL ? request->offset >> VL_PAGE_SHIFT : map->start >> VL_PAGE_SHIFT;
    return VL_OK;
}

/* Pages of [start, end) that are mapped now, and how many of them are data. */
static void count_overlap(struct vl_space *space, vl_va start, vl_va end, uint64_t *out_pages,
                          uint64_t *out_data)
{
    struct vli_area *area = vli_area_find(space, start);
    uint64_t pages;
    vl_va from;
    vl_va to;

    *out_pages = 0;
    *out_data = 0;
    for (; area != NULL && area->rmap.start < end; area = vli_area_next(space, area)) {
        from = area->rmap.start > start ? area->rmap.start : start;
        to = area->rmap.end < end ? area->rmap.end : end;
        pages = (to - from) >> VL_PAGE_SHIFT;
        *out_pages += pages;
        *out_data += vli_attributes_are_data(area->attributes) ? pages : 0;
    }
}

static enum vl_status limits_check(struct vl_space *space, const struct mapping *map)
{
    uint64_t pages = (map->end - map->start) >> VL_PAGE_SHIFT;
    bool is_data = vli_attributes_are_data(map->attributes);
    uint64_t gone = 0;
    uint64_t gone_data = 0;

    if (space->area_count >= VLI_AREAS_MAX) {
        return VL_ENOMEM;
    }
    if (map->request->place == VL_MAP_FIXED) {
        count_overlap(space, map->start, map->end, &gone, &gone_data);
    }
    /* What is replaced is given back first. */
    if (!vli_space_fits(space, pages - gone,
                        is_data && pages > gone_data ? pages - gone_data : 0)) {
        return VL_ENOMEM;
    }
    return VL_OK;
}

/* Would an area of these properties continue @area upwards, or downwards into @area? */
static bool continues(const struct vli_area *area, const struct mapping *map, bool upwards)
{
    uint64_t pages = (map->end - map->start) >> VL_PAGE_SHIFT;

    if (area == NULL || area->attributes != map->attributes || area->object != map->object ||
        vli_area_grows(area)) {
        return false;
    }
    return upwards ? area->rmap.end == map->start && vli_area_index(area, map->start) == map->index
                   : area->rmap.start == map->end && map->index + pages == area->rmap.first_index;
}

/* Put the new range in: grown from a neighbour, or an area of its own. Cannot fail. */
static void place(struct vl_space *space, struct mapping *map)
{
    struct vli_area *next = vli_area_find(space, map->start);
    struct vli_area *prev;

    VL_ASSERT(next == NULL || next->rmap.start >= map->end);
    if (next != NULL) {
        prev = vli_area_prev(space, next);
    } else {
        prev = vli_list_is_empty(&space->list) ? NULL
                                               : vli_list_last(&space->list, struct vli_area, link);
    }
    if (continues(prev, map, true)) {
        vli_area_resize(space, prev, prev->rmap.start, map->end);
        vli_area_merge_next(space, prev, &map->dead);
        return;
    }
    if (continues(next, map, false)) {
        vli_area_resize(space, next, map->start, next->rmap.end);
        return;
    }
    vli_area_set(map->area, space, map->start, map->end, map->index, map->attributes, map->object);
    if (map->object != NULL) {
        vl_object_get(map->object);
        vli_rmap_area_link(&map->area->rmap, &map->object->rmap);
    }
    vli_area_insert(space, map->area);
    map->area = NULL;
}

static enum vl_status map_locked(struct vl_space *space, struct mapping *map, size_t len)
{
    enum vl_status status = choose_place(space, map, len);
    struct vli_list replaced;

    if (status == VL_OK) {
        status = limits_check(space, map);
    }
    if (status == VL_OK && map->request->place == VL_MAP_FIXED) {
        status = vli_unmap_prepare(space, map->start, map->end, &map->fresh);
        if (status == VL_OK) {
            vli_list_init(&replaced);
            vli_unmap_commit(space, map->start, map->end, VLI_UNMAP_KEEP_TABLES, &replaced);
            vli_list_splice(&replaced, &map->dead);
        }
    }
    if (status == VL_OK) {
        place(space, map);
    }
    return status;
}

/* The object behind the request: anonymous shared memory gets one of its own. */
static enum vl_status object_make(struct mapping *map, size_t len)
{
    enum vl_status status = VL_OK;

    map->object = map->request->object;
    if (map->object == NULL && map->request->kind == VL_MAP_SHARED) {
        do {
            status = vli_object_create_shared(len, &map->object);
        } while (status == VL_ENOMEM && vli_refill() == VL_OK);
    }
    return status;
}

enum vl_status vl_space_map(struct vl_space *space, const struct vl_map_request *request,
                            vl_va *out_va)
{
    struct mapping map = {.request = request};
    enum vl_status status;
    size_t len;

    status = request_check(request, &len);
    if (status != VL_OK) {
        return status;
    }
    map.attributes = attributes_of(request);
    vli_list_init(&map.dead);
    status = object_make(&map, len);
    if (status != VL_OK) {
        return status;
    }
    for (unsigned i = 0; i < VLI_TRIES_MAX; i++) {
        status = VL_EAGAIN;
        map.area = map.area != NULL ? map.area : vli_area_alloc(VL_WAIT);
        if (map.area != NULL) {
            vli_rw_write_lock(&space->lock);
            status = map_locked(space, &map, len);
            vli_rw_write_unlock(&space->lock);
        }
        if (status != VL_EAGAIN || vli_refill() != VL_OK) {
            break;
        }
    }
    vli_area_free(map.area);
    vli_area_free(map.fresh);
    vli_area_free_dead(&map.dead);
    if (map.object != request->object) {
        vl_object_put(map.object);
    }
    if (status == VL_OK) {
        *out_va = map.start;
        if (request->populate && request->prot != 0) {
            vli_populate(space, map.start, map.end, request->prot);
        }
    }
    return status == VL_EAGAIN ? VL_ENOMEM : status;
}

/* ---------------------------------------------------------------------------------- brk */

void vl_space_set_brk(struct vl_space *space, vl_va start)
{
    vli_rw_write_lock(&space->lock);
    space->brk_start = start;
    space->brk_end = start;
    vli_rw_write_unlock(&space->lock);
}

/* Move the end to @want under the lock. VL_ENOMEM: impossible; VL_EAGAIN: come back. */
static enum vl_status brk_locked(struct vl_space *space, vl_va want, struct mapping *map,
                                 const struct vl_map_request *request)
{
    vl_va old_end = (vl_va)vli_round_up(space->brk_end, VL_PAGE_SIZE);
    vl_va new_end = (vl_va)vli_round_up(want, VL_PAGE_SIZE);
    enum vl_status status;

    if (want < space->brk_start || want > VL_USER_END - VL_PAGE_SIZE ||
        (space->limits.data != UINT64_MAX && want - space->brk_start > space->limits.data)) {
        return VL_ENOMEM;
    }
    if (new_end < old_end) {
        status = vli_unmap_prepare(space, new_end, old_end, &map->fresh);
        if (status != VL_OK) {
            return status;
        }
        vli_unmap_commit(space, new_end, old_end, VLI_UNMAP_FREE_TABLES, &map->dead);
    } else if (new_end > old_end) {
        *map = (struct mapping){.request = request, .area = map->area, .fresh = map->fresh};
        vli_list_init(&map->dead);
        map->start = old_end;
        map->end = new_end;
        map->index = old_end >> VL_PAGE_SHIFT;
        map->attributes = attributes_of(request);
        if (!vli_range_is_free(space, old_end, new_end - old_end) ||
            limits_check(space, map) != VL_OK) {
            return VL_ENOMEM;
        }
        place(space, map);
    }
    space->brk_end = want;
    return VL_OK;
}

vl_va vl_space_brk(struct vl_space *space, vl_va want)
{
    const struct vl_map_request request = {.prot = VL_READ | VL_WRITE,
                                           .place = VL_MAP_FIXED_NOREPLACE};
    struct mapping map = {.request = &request};
    enum vl_status status;
    vl_va end;

    vli_list_init(&map.dead);
    for (unsigned i = 0; i < VLI_TRIES_MAX; i++) {
        map.area = map.area != NULL ? map.area : vli_area_alloc(VL_WAIT);
        vli_rw_write_lock(&space->lock);
        status = map.area == NULL ? VL_EAGAIN : brk_locked(space, want, &map, &request);
        end = space->brk_end;
        vli_rw_write_unlock(&space->lock);
        if (status != VL_EAGAIN || vli_refill() != VL_OK) {
            break;
        }
    }
    vli_area_free(map.area);
    vli_area_free(map.fresh);
    vli_area_free_dead(&map.dead);
    return end;
}
