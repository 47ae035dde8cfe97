/*
 * frame_state.h - the descriptor of a frame: 32 bytes, two to a cache line, buddies of order 0 in
 * the same line.
 *
 *      0        4        8                 16       20       24        28       32
 *      | flags  | refs   | owner (tagged)  | next   | prev   | mappings| index  |
 *
 * Who may write a field depends on the frame's type. A free frame's flags word is written by its
 * zone's lock holder only, by plain stores (BUDDY=flags); nobody does a read-modify-write on it.
 *
 * A frame that nobody uses has references 1, no owner, no mappings, and, unless it heads a free
 * block, the flags {STOCK, order 0, its zone}: all that its next user will find. So the frames of a
 * whole block can be handed out one by one without a look at their descriptors. It follows that a
 * reference may be taken only by who knows that the frame is in use.
 *
 * The order is that of a free block's head; in use, it is what the user wrote, or 0.
 *
 * flags:  bits 0…3 type, 4…7 order, 8…11 zone, 12…23 VLI_FRAME_* marks, 24…31 upper index bits.
 */
#ifndef VLI_FRAME_STATE_H
#define VLI_FRAME_STATE_H

#include <stdatomic.h>
#include <vellum/types.h>

enum vli_frame_type {
    VLI_FRAME_FREE,     /* head of a block in a buddy list (BUDDY=bitmap leaves it STOCK; so is one
                           of the highest order, which stands in no list) */
    VLI_FRAME_RESERVED, /* never handed out (yet); no memory at all when refs is 0 */
    VLI_FRAME_STOCK,    /* used by nobody, or handed out raw by vl_frame_alloc() */
    VLI_FRAME_ANON,     /* anonymous page; owner: rmap's */
    VLI_FRAME_FILE,     /* page of an object; owner: struct vl_object */
    VLI_FRAME_TABLE,    /* page-table page; next/prev/index: table's */
    VLI_FRAME_SLAB,     /* slab head or part; owner: struct vl_cache */
    VLI_FRAME_KMALLOC   /* head of a large kmalloc; a block's order in flags, index_low: frames */
};

#define VLI_FRAME_TYPE_MASK   0x0000000fu
#define VLI_FRAME_ORDER_SHIFT 4u
#define VLI_FRAME_ORDER_MASK  0x000000f0u
#define VLI_FRAME_ZONE_SHIFT  8u
#define VLI_FRAME_ZONE_MASK   0x00000f00u
#define VLI_FRAME_BUDDY       0x00001000u /* head of a free block of the order in flags */
#define VLI_FRAME_DIRTY       0x00002000u
#define VLI_FRAME_LRU         0x00004000u
#define VLI_FRAME_ACTIVE      0x00008000u
#define VLI_FRAME_REFERENCED  0x00010000u
#define VLI_FRAME_LOCKED      0x00020000u
#define VLI_FRAME_PINNED      0x00040000u /* e.g. the shared zero page */
#define VLI_FRAME_ADOPTED     0x00080000u
#define VLI_FRAME_INDEX_SHIFT 24u

#define VLI_FRAME_LINK_NONE UINT32_MAX

struct vl_frame {
    _Atomic uint32_t flags;
    _Atomic uint32_t refs;
    _Atomic uintptr_t owner;
    uint32_t next; /* frame numbers; VLI_FRAME_LINK_NONE ends */
    uint32_t prev;
    _Atomic uint32_t mappings; /* page-table entries that map it */
    uint32_t index_low;        /* page index in its owner; upper 8 bits in flags */
};
_Static_assert(sizeof(struct vl_frame) == 32, "two descriptors to a cache line");

#endif
