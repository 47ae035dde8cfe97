/*
 * area.h - the areas of a space and the space itself; shared by the files of space/ only.
 *
 * What the files do:
 *     space.c     life of a space, exit, switching
 *     area.c      areas in their tree: find, free ranges, insert, merge, split
 *     map.c       map, unmap, brk            fault.c     faults
 *     protect.c   protect                    fork.c      fork
 *     remap.c     move and resize            advise.c    advice, residency
 *     stack.c     growth of stacks           query.c     find, key, usage
 *     validate.c  checks
 */
#ifndef VLI_AREA_H
#define VLI_AREA_H

#include <vellum/space.h>
#include <vellum/slab.h>
#include "core/base/log.h"
#include "core/object/object.h"
#include "core/rmap/rmap.h"
#include "core/rmap/unmap.h"

/* Attributes of an area in one word; areas that differ in any cannot merge. */
#define VLI_AREA_PROT       0x007u /* VL_READ | VL_WRITE | VL_EXEC */
#define VLI_AREA_MAX_SHIFT  4u     /* most that protect may give, shifted */
#define VLI_AREA_SHARED     0x100u
#define VLI_AREA_GROWS      0x200u /* downwards */
#define VLI_AREA_RANDOM     0x400u
#define VLI_AREA_SEQUENTIAL 0x800u

/* As Linux's defaults. */
#define VLI_AREAS_MAX   65530u
#define VLI_STACK_GUARD ((vl_va)256 << VL_PAGE_SHIFT)

/* (S) space->lock for writing; readers hold it for reading. rmap's locks cover rmap too. */
struct vli_area {
    struct vli_rmap_area rmap; /* start, end, first index */
    struct vli_tree_node node; /* (S) by address */
    struct vli_list link;      /* (S) ascending */
    uint64_t gap;              /* (S) free bytes below that a search may use */
    uint64_t gap_max;          /* (S) largest of the subtree */
    struct vl_object *object;  /* (S) with a reference; NULL: anonymous */
    uint32_t attributes;       /* (S) */
    struct vli_area *mirror;   /* (S) its copy, or what it copies, while a fork runs */
};

struct vl_space {
    struct vli_rwlock lock; /* (S) */
    _Atomic uint64_t faults;
    _Atomic(struct vli_area *) hit; /* where the last fault was; cleared under (S) */
    _Atomic uint64_t leaf; /* leaf table page of the last fault, see fault.c; cleared under (S) */
    struct vli_table table;
    struct vli_tree areas; /* (S) */
    struct vli_list list;  /* (S) the same, ascending */
    uint32_t area_count;   /* (S) */
    _Atomic uint32_t refs;
    struct vli_rmap_space rmap;
    uint64_t mapped;               /* (S) pages */
    uint64_t data;                 /* (S) pages, private and writable */
    vl_va brk_start;               /* (S) */
    vl_va brk_end;                 /* (S) */
    struct vl_space_limits limits; /* (S) */
    _Atomic uint64_t resident_peak;
    uint64_t mapped_peak; /* (S) */
    struct vli_list all;  /* debug builds: every space, for the validator */
};

extern struct vl_cache *vli_area_cache;
extern struct vl_pfn vli_zero_pfn;

/** vli_area_of() - the area that a node of the tree is. */
static inline struct vli_area *vli_area_of(const struct vli_tree_node *node)
{
    return vli_container_of(node, struct vli_area, node);
}
/** vli_area_next() / vli_area_prev() - neighbours by address; NULL at the end. (S) */
static inline struct vli_area *vli_area_next(struct vl_space *space, const struct vli_area *area)
{
    return area->link.next == &space->list ? NULL
                                           : vli_list_entry(area->link.next, struct vli_area, link);
}
static inline struct vli_area *vli_area_prev(struct vl_space *space, const struct vli_area *area)
{
    return area->link.prev == &space->list ? NULL
                                           : vli_list_entry(area->link.prev, struct vli_area, link);
}
/** vli_area_first() - the lowest area, or NULL. (S) */
static inline struct vli_area *vli_area_first(struct vl_space *space)
{
    return vli_list_is_empty(&space->list) ? NULL
                                           : vli_list_first(&space->list, struct vli_area, link);
}
static inline bool vli_area_is_shared(const struct vli_area *area)
{
    return (area->attributes & VLI_AREA_SHARED) != 0;
}
static inline bool vli_area_grows(const struct vli_area *area)
{
    return (area->attributes & VLI_AREA_GROWS) != 0;
}
static inline uint64_t vli_area_pages(const struct vli_area *area)
{
    return (area->rmap.end - area->rmap.start) >> VL_PAGE_SHIFT;
}
/** vli_area_index() - page index of @va: in its object, or of anonymous memory. */
static inline uint64_t vli_area_index(const struct vli_area *area, vl_va va)
{
    return area->rmap.first_index + ((va - area->rmap.start) >> VL_PAGE_SHIFT);
}
/** vli_attributes_are_data() - does the data limit count such an area? */
static inline bool vli_attributes_are_data(uint32_t attributes)
{
    return (attributes & (VL_WRITE | VLI_AREA_SHARED | VLI_AREA_GROWS)) == VL_WRITE;
}

/* ---- area.c ---- */
/** vli_area_alloc() - an area in no space; NULL without memory. */
VL_MUST_CHECK struct vli_area *vli_area_alloc(vl_how_t how);
/** vli_area_free() - its memory; NULL is fine. */
void vli_area_free(struct vli_area *area);
/** vli_area_set() - range, index, attributes and object (no reference is taken) of a fresh area. */
void vli_area_set(struct vli_area *area, struct vl_space *space, vl_va start, vl_va end,
                  uint64_t first_index, uint32_t attributes, struct vl_object *object);
/** vli_area_find() - the lowest area that ends above @va, or NULL. (S) for reading. */
struct vli_area *vli_area_find(struct vl_space *space, vl_va va);
/** vli_area_overlaps() - does an area lie in [@start, @end)? (S) for reading. */
bool vli_area_overlaps(struct vl_space *space, vl_va start, vl_va end);
/** vli_area_find_free() - the highest free range of @len bytes in [@floor, @ceiling). (S)
 * VL_OK or VL_ENOMEM. */
VL_MUST_CHECK enum vl_status vli_area_find_free(struct vl_space *space, size_t len, vl_va floor,
                                                vl_va ceiling, vl_va *out);
/** vli_area_insert() - put it into the tree and the counts; rmap is the caller's. (S) */
void vli_area_insert(struct vl_space *space, struct vli_area *area);
/** vli_area_mirror() - at fork: @area, the copy of @parent, comes last in the child's list and
 * counts. The tree follows for all at once. (S) of the parent for writing. */
void vli_area_mirror(struct vl_space *child, struct vli_area *area, struct vli_area *parent);
/** vli_area_mirror_end() - every area of @parent has its mirror: the child's tree gets the shape of
 * the parent's, gaps and all. Cost: O(areas), without a comparison. */
void vli_area_mirror_end(struct vl_space *child, struct vl_space *parent);
/** vli_area_remove() - take it out of the tree and the counts. (S) */
void vli_area_remove(struct vl_space *space, struct vli_area *area);
/** vli_area_resize() - move an end of an area into free space or away from it. (S) */
void vli_area_resize(struct vl_space *space, struct vli_area *area, vl_va start, vl_va end);
/** vli_area_set_attributes() - with the counts that depend on them. (S) */
void vli_area_set_attributes(struct vl_space *space, struct vli_area *area, uint32_t attributes);
/** vli_area_split() - @fresh becomes the part from @at on. (S) VL_OK or VL_ENOMEM (@fresh is still
 * the caller's). */
VL_MUST_CHECK enum vl_status vli_area_split(struct vl_space *space, struct vli_area *area, vl_va at,
                                            struct vli_area *fresh);
/** vli_area_merge_next() - join @area with its upper neighbour if nothing tells them apart; the
 * neighbour goes to @dead. (S) Returns whether. */
bool vli_area_merge_next(struct vl_space *space, struct vli_area *area, struct vli_list *dead);
/** vli_area_merge_range() - the same for every pair that meets in [@start, @end]. (S) */
void vli_area_merge_range(struct vl_space *space, vl_va start, vl_va end, struct vli_list *dead);
/** vli_area_free_dead() - after the space's lock: give up areas taken out, by link. May sleep. */
void vli_area_free_dead(struct vli_list *dead);

/* ---- space.c ---- */
/** vli_space_new() - an empty space. VL_OK or VL_ENOMEM. */
VL_MUST_CHECK enum vl_status vli_space_new(struct vl_space **out);
/** vli_space_free_tables() - vli_table_free_spans() for table pages that no area needs any more;
 * faults forget the page that they remember. (S) */
void vli_space_free_tables(struct vl_space *space, struct vli_gather *gather,
                           vli_table_span_fn *next, void *ctx);
/** vli_space_note_peak() - resident pages are about to become fewer. */
void vli_space_note_peak(struct vl_space *space);
/* No leaf table page is remembered. */
#define VLI_LEAF_NONE UINT64_MAX
/* Tries of an operation whose memory is taken by others meanwhile. */
#define VLI_TRIES_MAX 64u

/* ---- map.c ---- */
/** vli_range_check() - is [@start, @start + @len) page-aligned and below VL_USER_END? @len is
 * rounded up; *@out_end is set. VL_OK or VL_EINVAL. */
VL_MUST_CHECK enum vl_status vli_range_check(vl_va start, size_t len, vl_va *out_end);
/** vli_unmap_prepare() - what may fail of unmapping [@start, @end): the split of an area around it.
 * @fresh: taken when needed, then NULL. (S) VL_OK, VL_ENOMEM. */
VL_MUST_CHECK enum vl_status vli_unmap_prepare(struct vl_space *space, vl_va start, vl_va end,
                                               struct vli_area **fresh);
/* What becomes of the table pages of an unmapped range. */
enum vli_unmap_tables {
    VLI_UNMAP_FREE_TABLES,
    VLI_UNMAP_KEEP_TABLES /* a new area takes the whole range at once */
};
/** vli_unmap_commit() - unmap; removed areas go to @dead, which is empty. (S) */
void vli_unmap_commit(struct vl_space *space, vl_va start, vl_va end, enum vli_unmap_tables tables,
                      struct vli_list *dead);
/** vli_space_fits() - may so many pages more be mapped (of which @data private and writable)? (S)
 */
bool vli_space_fits(const struct vl_space *space, uint64_t pages, uint64_t data);
/** vli_data_fits() - the same for pages that become private and writable. (S) */
bool vli_data_fits(const struct vl_space *space, uint64_t data);
/** vli_range_is_free() - is nothing mapped there, nor the guard of a stack? (S) for reading. */
bool vli_range_is_free(struct vl_space *space, vl_va start, size_t len);
/** vli_space_find_place() - a free range for @len bytes, near the top. (S) VL_OK or VL_ENOMEM. */
VL_MUST_CHECK enum vl_status vli_space_find_place(struct vl_space *space, size_t len, vl_va *out);
/** vli_populate() - make [@start, @end) resident as far as memory allows. No lock held. */
void vli_populate(struct vl_space *space, vl_va start, vl_va end, uint32_t access);

/* ---- fault.c ---- */
/** vli_area_allows() - may the area be accessed so? VL_OK or VL_EACCES. */
VL_MUST_CHECK enum vl_status vli_area_allows(const struct vli_area *area, uint32_t access);

/* ---- stack.c ---- */
/** vli_stack_grow() - extend the stack above @va down to it. (S) for writing. VL_OK or VL_EFAULT.
 */
VL_MUST_CHECK enum vl_status vli_stack_grow(struct vl_space *space, vl_va va);

/* ---- validate.c ---- */
/** vli_space_register() - debug and simulator builds keep all spaces in a list: one more. */
void vli_space_register(struct vl_space *space);
/** vli_space_forget() - one less. */
void vli_space_forget(struct vl_space *space);

#endif
