/*
 * rmap.h - the contract of reverse mapping (F4): from a frame to the entries that map it.
 *
 * A strategy is a folder with rmap_state.h (struct vli_rmap_area, _object and _space, embedded by
 * areas, objects and spaces), rmap_inline.h (what runs once a page) and one .c file. It uses a
 * frame's owner (anonymous frames), index and mappings. The mapping count goes up and down here
 * only, under the lock of the leaf table page concerned.
 *
 * What every struct vli_rmap_area begins with (the strategy adds its links):
 *     vl_va start, end;              the area's range
 *     uint64_t first_index;          page index of start: in its object; without one it is
 *                                    start >> 12 until pages are there, and stays when they move
 *     struct vli_rmap_space *space;  whose it is
 * and every struct vli_rmap_space with
 *     struct vli_table *table;
 * A frame's index is the area's first one plus its distance from the area's start: 40 bits.
 *
 * Order of work. An area is linked before the first entry is set through it, and unlinked after
 * its last entry was cleared and before its table pages are freed: a walk that holds rmap's lock of
 * a linked area may therefore use its table pages without the space's lock.
 *
 * Locks: fork, split, merge, resize and unlink run under the space's lock held for writing (or as
 * the last user); prepare under it held for reading, and may race with itself. All of them may
 * sleep on rmap's own locks, ranks RMAP and RMAP_ANON.
 */
#ifndef VLI_RMAP_H
#define VLI_RMAP_H

#include "core/frame/frame.h"
#include "core/table/table.h"
#include "rmap_state.h"

/** vli_rmap_init() - the strategy's caches. vl_init() only. VL_OK or VL_ENOMEM. */
VL_MUST_CHECK enum vl_status vli_rmap_init(void);

/** vli_rmap_object_init() - no area maps the object yet. */
void vli_rmap_object_init(struct vli_rmap_object *object);

/** vli_rmap_space_init() - a space with nothing mapped. @table: its page table. */
void vli_rmap_space_init(struct vli_rmap_space *space, struct vli_table *table);
/** vli_rmap_space_fork() - @child begins as a copy of @parent. VL_OK or VL_ENOMEM. */
VL_MUST_CHECK enum vl_status vli_rmap_space_fork(struct vli_rmap_space *child,
                                                 struct vli_rmap_space *parent);
/** vli_rmap_space_exit() - all areas are gone. */
void vli_rmap_space_exit(struct vli_rmap_space *space);

/** vli_rmap_area_init() - start, end and first_index are set; nothing is linked. */
void vli_rmap_area_init(struct vli_rmap_area *area, struct vli_rmap_space *space);
/** vli_rmap_area_link() - the area now maps @object: its pages are found through it. */
void vli_rmap_area_link(struct vli_rmap_area *area, struct vli_rmap_object *object);
/** vli_rmap_area_fork() - @child is to copy the pages of @parent, another space's area of the same
 * range. Returns: VL_OK; VL_ENOMEM (nothing is linked). */
VL_MUST_CHECK enum vl_status vli_rmap_area_fork(struct vli_rmap_area *child,
                                                struct vli_rmap_area *parent, vl_how_t how);
/**
 * vli_rmap_area_prepare() - before the first anonymous page is made in @area.
 * @beside: an area of the same space next to it that could become one with it if only their rights
 *          were equal, or NULL. Both may then name their pages alike, so that they can merge.
 * Returns: VL_OK or VL_ENOMEM. Locks: the space's lock held for reading; may race with itself.
 */
VL_MUST_CHECK enum vl_status vli_rmap_area_prepare(struct vli_rmap_area *area,
                                                   struct vli_rmap_area *beside, vl_how_t how);
/** vli_rmap_area_clone() - pages of @area are to move to @fresh, of the same space and the same
 * first index (or an inner one). Links @fresh as @area is. VL_OK; VL_ENOMEM (nothing is linked). */
VL_MUST_CHECK enum vl_status vli_rmap_area_clone(struct vli_rmap_area *fresh,
                                                 struct vli_rmap_area *area, vl_how_t how);
/** vli_rmap_area_split() - @fresh, whose range is the upper part of @area's, takes it over; no walk
 * misses an entry meanwhile. VL_OK; VL_ENOMEM (nothing is changed). */
VL_MUST_CHECK enum vl_status vli_rmap_area_split(struct vli_rmap_area *fresh,
                                                 struct vli_rmap_area *area, vl_how_t how);
/** vli_rmap_area_can_merge() - would pages of both still be found after joining them? The caller
 * has compared objects and indices. */
bool vli_rmap_area_can_merge(const struct vli_rmap_area *a, const struct vli_rmap_area *b);
/** vli_rmap_area_merge() - @area takes over the range of @gone, its upper neighbour, which is
 * unlinked.
 * vli_rmap_area_can_merge() has agreed. Cannot fail. */
void vli_rmap_area_merge(struct vli_rmap_area *area, struct vli_rmap_area *gone);
/** vli_rmap_area_resize() - change start, end and first_index of an area. Cannot fail. */
void vli_rmap_area_resize(struct vli_rmap_area *area, vl_va start, vl_va end, uint64_t first_index);
/** vli_rmap_area_unlink() - the area is going; no entry maps anything through it. */
void vli_rmap_area_unlink(struct vli_rmap_area *area);
/** vli_rmap_move_begin() - keep walks out while entries move from @area to its clone. */
void vli_rmap_move_begin(struct vli_rmap_area *area);
/** vli_rmap_move_end() - ends it. */
void vli_rmap_move_end(struct vli_rmap_area *area);

/*
 * Once a page; static inline functions of the strategy's rmap_inline.h:
 *
 * bool vli_rmap_area_has_anon(const struct vli_rmap_area *area)
 *     may there be anonymous pages in the area? If not, fork need not look.
 * bool vli_rmap_area_is_prepared(struct vli_rmap_area *area)
 *     may an anonymous page be made in the area? If not, vli_rmap_area_prepare() comes first.
 * enum vl_status vli_rmap_reserve(struct vli_rmap_space *space, uint32_t entries, vl_how_t how)
 *     so many entries may be added now without an allocation. VL_OK or VL_ENOMEM.
 * void vli_rmap_anon_new(frame, area, va, slot)
 *     @frame, fresh and not yet mapped, becomes @area's anonymous page at @va with one mapping.
 * void vli_rmap_anon_reuse(frame, area, va)
 *     the last sharer writes: the page becomes this area's alone.
 * void vli_rmap_dup(frame, area, va, slot)
 *     one more entry maps @frame (fork, an object's page).
 * void vli_rmap_moved(frame, area, va, slot)
 *     an entry that was taken from another place of the space, with its mapping, stands here now.
 * uint32_t vli_rmap_unmap(frame, area, va, slot)
 *     one entry less. Returns the mappings left.
 *
 * The last five under the leaf page's lock.
 */
#include "rmap_inline.h"

/** A visit of vli_rmap_walk(): @slot is locked, its entry holds @frame at @va. Return false to end
 * the walk. */
typedef bool vli_rmap_visit_fn(void *ctx, struct vl_frame *frame, struct vli_rmap_area *area,
                               vl_va va, struct vli_table_slot *slot);
/**
 * vli_rmap_walk() - visit every entry that holds @frame, which the caller has a reference on.
 * @object: rmap part of the frame's object, NULL for an anonymous frame.
 * Locks: takes rmap's own for reading (may sleep), then each leaf page's lock.
 */
void vli_rmap_walk(struct vl_frame *frame, struct vli_rmap_object *object, vli_rmap_visit_fn *visit,
                   void *ctx);

/** A part of an area that maps the asked range of its object. No leaf page is locked. */
typedef void vli_rmap_range_fn(void *ctx, struct vli_rmap_area *area, vl_va start, vl_va end);
/** vli_rmap_walk_range() - visit every part of every area that maps a page index of @object in
 * [@first, @end), whatever is resident; for truncation. Locks: as vli_rmap_walk(), held over the
 * visit, which may flush TLBs. */
void vli_rmap_walk_range(struct vli_rmap_object *object, uint64_t first, uint64_t end,
                         vli_rmap_range_fn *visit, void *ctx);

/* Bytes of state at this moment, for the report of experiment 2. */
struct vli_rmap_memory {
    uint64_t frame_bytes; /* beyond the descriptors */
    uint64_t area_bytes;  /* beyond struct vli_rmap_area */
    uint64_t space_bytes; /* beyond struct vli_rmap_space */
};
/** vli_rmap_memory() - a snapshot, not atomic. Context: thread. */
void vli_rmap_memory(struct vli_rmap_memory *out);

/** vli_rmap_area_validate() - the area's links are whole; panics. Quiescent. */
void vli_rmap_area_validate(struct vli_rmap_area *area);

/** vli_rmap_validate() - panics unless a walk from @frame meets the entry of @area at @va,
 * and exactly as many entries as the frame counts mappings. Quiescent; no lock held. */
void vli_rmap_validate(struct vl_frame *frame, struct vli_rmap_object *object,
                       const struct vli_rmap_area *area, vl_va va);

#endif
