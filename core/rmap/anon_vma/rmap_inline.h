/*
 * rmap_inline.h (anon_vma) - what runs once a page; explained in rmap.h.
 */
#ifndef VLI_RMAP_INLINE_H
#define VLI_RMAP_INLINE_H

#include "core/frame/frame.h"
#include "core/table/table.h"
#include "rmap_state.h"

/** vli_rmap_area_has_anon() - may there be anonymous pages in the area? Space's lock held. */
static inline bool vli_rmap_area_has_anon(const struct vli_rmap_area *area)
{
    return !vli_list_is_empty(&area->chains);
}

/** vli_rmap_area_is_prepared() - may an anonymous page be made in the area? Space's lock held. */
static inline bool vli_rmap_area_is_prepared(struct vli_rmap_area *area)
{
    /* Acquire: pairs with the release in vli_rmap_area_prepare(). */
    return atomic_load_explicit(&area->anon, memory_order_acquire) != NULL;
}

/** vli_rmap_reserve() - entries cost nothing here. */
VL_MUST_CHECK static inline enum vl_status vli_rmap_reserve(struct vli_rmap_space *space,
                                                            uint32_t entries, vl_how_t how)
{
    (void)space;
    (void)entries;
    (void)how;
    return VL_OK;
}

/** vli_rmap_anon_new() - a fresh frame becomes the area's anonymous page at @va, mapped once. */
static inline void vli_rmap_anon_new(struct vl_frame *frame, struct vli_rmap_area *area, vl_va va,
                                     struct vli_table_slot *slot)
{
    struct vli_anon_vma *anon = atomic_load_explicit(&area->anon, memory_order_relaxed);
    uint64_t index = area->first_index + ((va - area->start) >> VL_PAGE_SHIFT);
    uint32_t flags = atomic_load_explicit(&frame->flags, memory_order_relaxed);

    (void)slot;
    VL_ASSERT(anon != NULL);
    flags &= VLI_FRAME_ZONE_MASK | VLI_FRAME_ORDER_MASK;
    flags |= (uint32_t)VLI_FRAME_ANON | (uint32_t)(index >> 32) << VLI_FRAME_INDEX_SHIFT;
    atomic_store_explicit(&frame->flags, flags, memory_order_relaxed);
    frame->index_low = (uint32_t)index;
    atomic_store_explicit(&frame->mappings, 1, memory_order_relaxed);
    /* Release: a walker that reads the owner finds the index. */
    atomic_store_explicit(&frame->owner, (uintptr_t)anon, memory_order_release);
}

/** vli_rmap_anon_reuse() - the last sharer writes: the page becomes this area's alone. An area
 * without an anon_vma of its own leaves it to the ancestor, whose walk finds the area too. */
static inline void vli_rmap_anon_reuse(struct vl_frame *frame, struct vli_rmap_area *area, vl_va va)
{
    struct vli_anon_vma *anon = atomic_load_explicit(&area->anon, memory_order_acquire);

    (void)va;
    if (anon != NULL &&
        atomic_load_explicit(&frame->owner, memory_order_relaxed) != (uintptr_t)anon) {
        atomic_store_explicit(&frame->owner, (uintptr_t)anon, memory_order_release);
    }
}

/** vli_rmap_dup() - one more entry maps @frame. */
static inline void vli_rmap_dup(struct vl_frame *frame, struct vli_rmap_area *area, vl_va va,
                                struct vli_table_slot *slot)
{
    (void)area;
    (void)va;
    (void)slot;
    atomic_fetch_add_explicit(&frame->mappings, 1, memory_order_relaxed);
}

/** vli_rmap_moved() - both areas hang on the same anon_vmas and the index is the same: nothing to
 * do. */
static inline void vli_rmap_moved(struct vl_frame *frame, struct vli_rmap_area *area, vl_va va,
                                  struct vli_table_slot *slot)
{
    (void)frame;
    (void)area;
    (void)va;
    (void)slot;
}

/** vli_rmap_unmap() - one entry less. Returns the mappings left. */
static inline uint32_t vli_rmap_unmap(struct vl_frame *frame, struct vli_rmap_area *area, vl_va va,
                                      struct vli_table_slot *slot)
{
    (void)area;
    (void)va;
    (void)slot;
    VL_ASSERT(atomic_load_explicit(&frame->mappings, memory_order_relaxed) != 0);
    /* A single reference, this entry's: nobody else can change the count. Acquire: pairs with the
     * release of whoever dropped the reference before. */
    if (atomic_load_explicit(&frame->refs, memory_order_acquire) == 1) {
        atomic_store_explicit(&frame->mappings, 0, memory_order_relaxed);
        return 0;
    }
    return atomic_fetch_sub_explicit(&frame->mappings, 1, memory_order_relaxed) - 1;
}

#endif
