/*
 * pages.h - the pages of an object by index: a radix tree, 64 ways, at most seven levels for the
 * 40 bits of an index. A tree of height 0 is the frame of index 0 itself: small files have no node.
 *
 * Locks: the object's pages lock covers every call. Nodes come from a cache, VL_ATOMIC; who cannot
 * have one leaves the lock and comes back with a reserve.
 */
#ifndef VLI_PAGES_H
#define VLI_PAGES_H

#include <vellum/slab.h>
#include "core/frame/frame.h"

#define VLI_PAGES_INDEX_BITS 40u
#define VLI_PAGES_INDEX_END  ((uint64_t)1 << VLI_PAGES_INDEX_BITS)
#define VLI_PAGES_NODE_BITS  6u
#define VLI_PAGES_HEIGHT_MAX 7u

struct vli_pages_node;

struct vli_pages {
    void *root;      /* a node, at height 0 a frame; NULL: empty */
    uint32_t height; /* levels of nodes */
    uint64_t count;  /* frames */
};

/* Nodes allocated while no lock was held. */
struct vli_pages_reserve {
    struct vli_pages_node *node[VLI_PAGES_HEIGHT_MAX];
    uint32_t count;
};

/** vli_pages_init() - the cache of nodes. VL_OK or VL_ENOMEM. */
VL_MUST_CHECK enum vl_status vli_pages_init(void);

/** vli_pages_find() - the frame at @index, or NULL. */
struct vl_frame *vli_pages_find(const struct vli_pages *pages, uint64_t index);
/** vli_pages_find_run() - the frames at @first … @first + @count - 1, NULL for holes. */
void vli_pages_find_run(const struct vli_pages *pages, uint64_t first, unsigned count,
                        struct vl_frame **out);
/** vli_pages_next() - the first frame at or after *@index and below @end, and its index; or NULL.
 */
struct vl_frame *vli_pages_next(const struct vli_pages *pages, uint64_t *index, uint64_t end);
/** vli_pages_insert() - put @frame at @index. Uses @reserve's nodes first.
 * Returns: VL_OK; VL_EEXIST; VL_ENOMEM (nothing changed that can be seen). */
VL_MUST_CHECK enum vl_status vli_pages_insert(struct vli_pages *pages, uint64_t index,
                                              struct vl_frame *frame,
                                              struct vli_pages_reserve *reserve);
/** vli_pages_remove() - take the frame at @index out; there is one. Empty nodes are freed. */
struct vl_frame *vli_pages_remove(struct vli_pages *pages, uint64_t index);

/** vli_pages_reserve_fill() - one more insertion cannot fail. Context: as @how says. */
VL_MUST_CHECK enum vl_status vli_pages_reserve_fill(struct vli_pages_reserve *reserve,
                                                    vl_how_t how);
/** vli_pages_reserve_drop() - give back what is left. Context: any. */
void vli_pages_reserve_drop(struct vli_pages_reserve *reserve);

/** vli_pages_validate() - counts and shape; panics. */
void vli_pages_validate(const struct vli_pages *pages);

#endif
