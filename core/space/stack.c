/*
 * stack.c - stacks grow downwards by themselves.
 *
 * A fault below an area that grows extends it to the page touched, as long as the area stays within
 * the stack limit, and a guard of 1 MiB (as Linux's stack_guard_gap) stays free below it, unless
 * what lies there is itself a stack or cannot be accessed anyway. How far the stack pointer is from
 * the address does not matter, as in Linux since 4.19.
 */
#include "core/space/area.h"

static bool has_room(struct vl_space *space, struct vli_area *area, vl_va start)
{
    struct vli_area *prev = vli_area_prev(space, area);

    if (prev == NULL || vli_area_grows(prev) || (prev->attributes & VLI_AREA_PROT) == 0) {
        return true;
    }
    return start >= prev->rmap.end && start - prev->rmap.end >= VLI_STACK_GUARD;
}

enum vl_status vli_stack_grow(struct vl_space *space, vl_va va)
{
    struct vli_area *area = vli_area_find(space, va);
    uint64_t pages;

    if (area == NULL) {
        return VL_EFAULT;
    }
    if (area->rmap.start <= va) {
        return VL_OK; /* somebody else was here first */
    }
    pages = (area->rmap.start - va) >> VL_PAGE_SHIFT;
    if (!vli_area_grows(area) || va < VL_USER_MIN || area->rmap.end - va > space->limits.stack ||
        pages > area->rmap.first_index || !vli_space_fits(space, pages, 0) ||
        !has_room(space, area, va)) {
        return VL_EFAULT;
    }
    vli_area_resize(space, area, va, area->rmap.end);
    return VL_OK;
}
