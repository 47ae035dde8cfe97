/*
 * rmap.h - the contract of reverse mapping (F4): from a frame to the entries that map it.
 *
 * What each strategy keeps stands in its rmap_state.h (struct vli_rmap_frame is nothing: it uses
 * frame->owner, index and mappings; struct vli_rmap_area, _object and _space are embedded by
 * area, object and space). The mapping count is rmap's: it goes up and down here only, under the
 * lock of the leaf table page concerned.
 *
 * Locks: fork, split, merge and removal run under the space's lock held for writing; prepare runs
 * under it held for reading and may race with itself (compare-and-exchange or an own lock).
 */
#ifndef VLI_RMAP_H
#define VLI_RMAP_H

#include "core/frame/frame.h"
#include "core/table/table.h"
#include "rmap_state.h"

/* What every strategy's struct vli_rmap_area begins with (the strategy adds its links):
 *     vl_va start, end;         the area's range
 *     uint64_t first_index;     page index of start: in its object, or start >> 12 when anonymous
 *     struct vli_table *table;  of its space
 */

VL_MUST_CHECK enum vl_status vli_rmap_init(void);

void vli_rmap_object_init(struct vli_rmap_object *object);
/** vli_rmap_area_init() - fields above are set; no links yet. @object: NULL when anonymous only. */
void vli_rmap_area_init(struct vli_rmap_area *area);
/** vli_rmap_area_link() - the area now maps @object (file pages are found through it). */
void vli_rmap_area_link(struct vli_rmap_area *area, struct vli_rmap_object *object);
/** vli_rmap_area_prepare() - before the first anonymous page of the area. VL_OK or VL_ENOMEM. */
VL_MUST_CHECK enum vl_status vli_rmap_area_prepare(struct vli_rmap_area *area, vl_how_t how);
/** vli_rmap_area_fork() - @child copies @parent at fork. VL_OK or VL_ENOMEM (nothing is linked). */
VL_MUST_CHECK enum vl_status vli_rmap_area_fork(struct vli_rmap_area *child,
                                                struct vli_rmap_area *parent, vl_how_t how);
/** vli_rmap_area_clone() - @fresh takes over a part of @area in the same space (split, move). */
VL_MUST_CHECK enum vl_status vli_rmap_area_clone(struct vli_rmap_area *fresh,
                                                 struct vli_rmap_area *area, vl_how_t how);
/** vli_rmap_area_resize() - change start, end and first_index of a linked area. Cannot fail. */
void vli_rmap_area_resize(struct vli_rmap_area *area, vl_va start, vl_va end,
                          uint64_t first_index);
/** vli_rmap_area_can_merge() - would pages of both still be found after joining them? */
bool vli_rmap_area_can_merge(const struct vli_rmap_area *a, const struct vli_rmap_area *b);
/** vli_rmap_area_unlink() - the area is going; no entry maps anything through it. */
void vli_rmap_area_unlink(struct vli_rmap_area *area);

/** vli_rmap_anon_new() - @frame (fresh, not yet mapped) becomes @area's anonymous page at @va with
 * one mapping. Locks: leaf page's. */
void vli_rmap_anon_new(struct vl_frame *frame, struct vli_rmap_area *area, vl_va va);
/** vli_rmap_anon_reuse() - the last sharer writes: the page becomes this area's alone. */
void vli_rmap_anon_reuse(struct vl_frame *frame, struct vli_rmap_area *area, vl_va va);
/** vli_rmap_dup() - one more entry maps @frame (fork, shared or file mapping). */
void vli_rmap_dup(struct vl_frame *frame);
/** vli_rmap_unmap() - one entry less. Returns the mappings left. */
uint32_t vli_rmap_unmap(struct vl_frame *frame);

/** A visit of vli_rmap_walk(): @slot is locked, its entry maps @frame at @va. Return false to end
 * the walk. */
typedef bool vli_rmap_visit_fn(void *ctx, struct vl_frame *frame, struct vli_rmap_area *area,
                               vl_va va, struct vli_table_slot *slot);
/**
 * vli_rmap_walk() - visit every entry that maps @frame, which the caller holds a reference on.
 * @object: rmap part of the frame's object, NULL for an anonymous frame.
 * Locks: takes rmap's own (may sleep), then each leaf page's lock.
 */
void vli_rmap_walk(struct vl_frame *frame, struct vli_rmap_object *object,
                   vli_rmap_visit_fn *visit, void *ctx);

/** vli_rmap_walk_range() - visit every entry of every area of @object that maps a page index in
 * [first, end), whatever the frame; for truncation. */
void vli_rmap_walk_range(struct vli_rmap_object *object, uint64_t first, uint64_t end,
                         void (*visit)(void *ctx, struct vli_rmap_area *area, vl_va start,
                                       vl_va end), void *ctx);

/* Bytes of state, for the report of experiment 2. */
struct vli_rmap_memory {
    uint64_t bytes_per_page_total, bytes_per_area_total, bytes_per_space_total;
};
void vli_rmap_memory(struct vli_rmap_memory *out);

#endif
