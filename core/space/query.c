/*
 * query.c - what is mapped where; limits and usage.
 */
#include "core/space/area.h"

enum vl_status vl_space_find(struct vl_space *space, vl_va va, struct vl_area_info *out)
{
    struct vli_area *area;

    vli_rw_read_lock(&space->lock);
    area = vli_area_find(space, va);
    if (area != NULL) {
        out->start = area->rmap.start;
        out->end = area->rmap.end;
        out->prot = area->attributes & VLI_AREA_PROT;
        out->kind = vli_area_is_shared(area) ? VL_MAP_SHARED : VL_MAP_PRIVATE;
        out->grows_down = vli_area_grows(area);
        out->object = area->object;
        out->offset = area->object != NULL ? area->rmap.first_index << VL_PAGE_SHIFT : 0;
    }
    vli_rw_read_unlock(&space->lock);
    return area != NULL ? VL_OK : VL_ENOENT;
}

enum vl_status vl_space_key(struct vl_space *space, vl_va va, struct vl_memory_key *out)
{
    struct vli_area *area;
    enum vl_status status = VL_EFAULT;

    vli_rw_read_lock(&space->lock);
    area = vli_area_find(space, va);
    if (area != NULL && area->rmap.start <= va) {
        status = VL_OK;
        if (vli_area_is_shared(area)) {
            out->id = (uintptr_t)area->object;
            out->offset = (vli_area_index(area, va) << VL_PAGE_SHIFT) + (va & VL_PAGE_MASK);
        } else {
            out->id = (uintptr_t)space;
            out->offset = va;
        }
    }
    vli_rw_read_unlock(&space->lock);
    return status;
}

void vl_space_set_limits(struct vl_space *space, const struct vl_space_limits *limits)
{
    vli_rw_write_lock(&space->lock);
    space->limits = *limits;
    vli_rw_write_unlock(&space->lock);
}

void vl_space_usage(struct vl_space *space, struct vl_space_usage *out)
{
    vli_rw_read_lock(&space->lock);
    vli_space_note_peak(space);
    out->mapped = space->mapped;
    out->mapped_peak = space->mapped_peak;
    out->areas = space->area_count;
    out->anonymous = atomic_load_explicit(&space->table.anon_pages, memory_order_relaxed);
    out->file = atomic_load_explicit(&space->table.file_pages, memory_order_relaxed);
    out->tables = atomic_load_explicit(&space->table.table_pages, memory_order_relaxed);
    out->faults = atomic_load_explicit(&space->faults, memory_order_relaxed);
    out->resident_peak = atomic_load_explicit(&space->resident_peak, memory_order_relaxed);
    vli_rw_read_unlock(&space->lock);
}
