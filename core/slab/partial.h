/*
 * partial.h - a node's list of slabs that have a free unit, linked through their head frames'
 * descriptors by frame numbers; both families of strategies keep it.
 */
#ifndef VLI_SLAB_PARTIAL_H
#define VLI_SLAB_PARTIAL_H

#include "core/slab/slab.h"

/* The struct that has the list, its count and their lock; a strategy may name another. */
#if !defined(VLI_PARTIAL_OWNER)
#define VLI_PARTIAL_OWNER vli_slab_node
#endif

/** vli_partial_add() - in front, to be used soon; at the end when all its units are free. */
static inline void vli_partial_add(struct VLI_PARTIAL_OWNER *node, struct vl_frame *head,
                                   bool is_empty) VL_REQUIRES(&node->lock)
{
    uint32_t pfn = vli_frame_pfn(head).n;
    uint32_t *end = is_empty ? &node->partial_last : &node->partial;

    if (node->partial_count == 0) {
        head->next = VLI_FRAME_LINK_NONE;
        head->prev = VLI_FRAME_LINK_NONE;
        node->partial = pfn;
        node->partial_last = pfn;
    } else {
        struct vl_frame *beside = vli_frame_of((struct vl_pfn){*end});

        head->next = is_empty ? VLI_FRAME_LINK_NONE : node->partial;
        head->prev = is_empty ? node->partial_last : VLI_FRAME_LINK_NONE;
        *(is_empty ? &beside->next : &beside->prev) = pfn;
        *end = pfn;
    }
    node->partial_count++;
}

/** vli_partial_remove() - the slab is in the list. */
static inline void vli_partial_remove(struct VLI_PARTIAL_OWNER *node, struct vl_frame *head)
    VL_REQUIRES(&node->lock)
{
    VL_ASSERT(node->partial_count > 0);
    if (head->prev == VLI_FRAME_LINK_NONE) {
        node->partial = head->next;
    } else {
        vli_frame_of((struct vl_pfn){head->prev})->next = head->next;
    }
    if (head->next == VLI_FRAME_LINK_NONE) {
        node->partial_last = head->prev;
    } else {
        vli_frame_of((struct vl_pfn){head->next})->prev = head->prev;
    }
    node->partial_count--;
}

#endif
