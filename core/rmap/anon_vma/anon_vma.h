/*
 * anon_vma.h - what the two files of the strategy share; the theory is in anon_vma.c.
 */
#ifndef VLI_ANON_VMA_H
#define VLI_ANON_VMA_H

#include "core/rmap/interval.h"
#include "core/rmap/rmap.h"

struct vli_anon_vma {
    struct vli_tree chains; /* (G) of struct vli_interval in chains, by page index */
    struct vli_anon_vma *root;
    struct vli_anon_vma *parent; /* valid while there are chains; NULL in a root */
    struct vli_rwlock lock;      /* (G), of a root */
    _Atomic uint32_t refs;
    uint32_t chain_count; /* (G) */
    uint32_t child_count; /* (G) with chains */
    uint32_t owner_count; /* (G) areas that call it their own */
};

/* One area on one anon_vma. */
struct vli_anon_chain {
    struct vli_list same_area;
    struct vli_interval same_anon; /* (G) */
    struct vli_rmap_area *area;
    struct vli_anon_vma *anon;
};

extern struct vl_cache *vli_anon_cache;
extern struct vl_cache *vli_chain_cache;

/** vli_anon_of_frame() - the anon_vma that @frame names, with a reference; NULL when it is not
 * mapped any more. */
struct vli_anon_vma *vli_anon_of_frame(struct vl_frame *frame);
/** vli_anon_put() - drop one. Context: thread. */
void vli_anon_put(struct vli_anon_vma *anon);

/** vli_chain_of() - the chain that a node of an area's list is. */
static inline struct vli_anon_chain *vli_chain_of(const struct vli_list *node)
{
    return vli_list_entry(node, struct vli_anon_chain, same_area);
}

/** vli_last_index() - page index of the area's last page. */
static inline uint64_t vli_last_index(const struct vli_rmap_area *area)
{
    return area->first_index + ((area->end - area->start) >> VL_PAGE_SHIFT) - 1;
}

#endif
