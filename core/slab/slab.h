/*
 * slab.h - the contract of object caches (F2), and what the files of this floor share.
 *
 * A cache takes slabs, blocks of 1 << order frames, and cuts each into equal units. A unit holds
 * one object, `shift` bytes into it; shift is 0 unless the cache has a constructor (then the link
 * of free units stands before the object, so as not to spoil it) or the build is a debug one (then
 * struct vli_slab_mark stands there). A free unit's first word is the address of the next free one.
 *
 * A slab is in one of these states (W is the word in its head frame's descriptor):
 *
 *      current  W.frozen: it is some CPU's slot's. Free units are in two lists: the slot's, which
 *               that CPU alone uses, and W's, where all others put what they free.
 *      partial  not frozen, W.free > 0: in its node's list of partial slabs.
 *      full     not frozen, W.free == 0: in no list; the first unit freed makes it partial.
 *
 *      new ─────> current ─────────> full ──────> partial ──────> current
 *                    └─────────────────────────────┘  └─────────> given back, when all is free
 *
 * W changes by compare-and-exchange from anywhere; the changes that move a slab into or out of the
 * partial list are made under the node's lock, together with the list. So freeing a unit of another
 * CPU's slab takes no lock but at these transitions.
 *
 * This is the structure of SLUB (Lameter, linux-kernel 2007) with these departures: the list head
 * in W is an offset, so that list, counts and state fit one word of 8 bytes and need no 16-byte
 * locked operation; a slot names its slab by address and length, so that the freeing fast path
 * compares the address and reads nothing of the cache; the index of the cache stands in the
 * descriptor's flags, so that vl_kfree() reads one word of one descriptor.
 *
 * Descriptor of a slab's frames: flags: type SLAB, the slab's order, upper byte the cache's index
 * (in every frame of the slab); owner: the cache. Of the head frame: next and prev: links of the
 * partial list; mappings and index_low: W.
 */
#ifndef VLI_SLAB_H
#define VLI_SLAB_H

#include <vellum/slab.h>
#include "core/base/percpu.h"
#include "core/base/spinlock.h"
#include "core/frame/frame.h"

/* The host contract names no memory nodes; the lists are per node for the day when it does. */
#define VLI_SLAB_NODES 1u

/* Empty slabs that a node's partial list keeps while nobody asks for memory back. */
#define VLI_SLAB_KEPT 4u

/* (L): lock. */
struct vli_slab_node {
    struct vli_spinlock lock;
    uint32_t partial;       /* (L) head frame of the first partial slab, or LINK_NONE */
    uint32_t partial_last;  /* (L) */
    uint32_t partial_count; /* (L) */
    _Atomic uint64_t slabs; /* of this node, in any state; relaxed */
    _Atomic uint64_t units; /* in them */
    _Atomic uint64_t frames;
};

/* (C): the lock of the list of caches; the rest is fixed at creation. */
struct vl_cache {
    VLI_ALIGNED(VLI_CACHELINE) uint32_t index; /* of its slots, and in vli_caches */
    uint32_t shift;                            /* from a unit to its object */
    uint32_t object_bytes;                     /* what the user asked for */
    uint32_t unit_bytes;
    uint32_t order;     /* of a slab */
    uint32_t order_min; /* when memory is short: one unit fits */
    void (*constructor)(void *object);
    const char *name;
    uint32_t align;
    bool is_live; /* (C) */
    struct vli_slab_node node[VLI_SLAB_NODES];
};

extern struct vl_cache vli_caches[VLI_CACHES_MAX];
_Static_assert(VLI_CACHES_MAX <= 1u << (32u - VLI_FRAME_INDEX_SHIFT),
               "a cache's index stands in the upper byte of a descriptor's flags");

/* ---- W ---- */

/* bits 0…15 head: offset of the first free unit / 8, plus 1; 0: none. 16…31 free: how many.
 * 32…47 units of the slab. 48 frozen. */
#define VLI_SLAB_FROZEN ((uint64_t)1 << 48)

_Static_assert(offsetof(struct vl_frame, mappings) % 8 == 0 &&
                   offsetof(struct vl_frame, index_low) == offsetof(struct vl_frame, mappings) + 4,
               "one aligned word of 8 bytes");

static inline _Atomic uint64_t *vli_slab_word(struct vl_frame *head)
{
    return (_Atomic uint64_t *)(void *)&head->mappings;
}

static inline uint64_t vli_slab_word_make(uintptr_t head_offset, uint32_t free, uint32_t units,
                                          uint64_t frozen)
{
    return (uint64_t)(head_offset / 8u + 1u) | (uint64_t)free << 16 | (uint64_t)units << 32 |
           frozen;
}

static inline uint32_t vli_slab_word_free(uint64_t word)
{
    return (uint32_t)(word >> 16) & 0xffffu;
}

static inline uint32_t vli_slab_word_units(uint64_t word)
{
    return (uint32_t)(word >> 32) & 0xffffu;
}

/** vli_slab_word_list() - address of the first free unit, 0 for none. */
static inline uintptr_t vli_slab_word_list(uint64_t word, uintptr_t base)
{
    uintptr_t head = word & 0xffffu;

    return head == 0 ? 0 : base + (head - 1u) * 8u;
}

/* ---- the strategy's: SLAB ---- */

/*
 * slab_slot.h gives, for cache number @index on this CPU:
 *
 * vli_slot_pop(index)           take a unit off the slot's list; 0 when it is empty, or when an
 *                               interrupt came between.
 * vli_slot_push(index, unit)    put one on it; false when the unit is not of the slot's slab, or an
 *                               interrupt came between. Both: any context; the slow paths serve
 *                               all that they leave.
 * vli_slot_list(slot)           first unit of the list;
 * vli_slot_set_list(slot, list) change it (base and bytes are set before). Both: by the slot's CPU
 *                               with interrupts off.
 */
#include "slab_slot.h"

/* ---- slow paths (slab.c) ---- */

/** vli_slab_alloc_slow() - a unit by any means, or 0. Context: as @how says. */
uintptr_t vli_slab_alloc_slow(struct vl_cache *cache, vl_how_t how);

/** vli_slab_free_slow() - give back a unit of a slab that is not this CPU's current one.
 * @frame: any frame of the slab. Context: any. */
void vli_slab_free_slow(struct vl_frame *frame, uintptr_t unit);

/** vli_slab_flush() - every CPU gives up its current slab of @cache (of all caches: NULL).
 * Context: thread, no core lock held. */
void vli_slab_flush(struct vl_cache *cache);

/** vli_slab_release_empty() - the partial slabs of which every unit is free go back to frame.
 * Returns: frames. Context: any. */
size_t vli_slab_release_empty(struct vl_cache *cache);

/** vli_slab_head() - head frame of the slab that @frame is part of. */
static inline struct vl_frame *vli_slab_head(struct vl_frame *frame)
{
    uint32_t flags = atomic_load_explicit(&frame->flags, memory_order_relaxed);
    uint32_t order = (flags & VLI_FRAME_ORDER_MASK) >> VLI_FRAME_ORDER_SHIFT;

    return vli_frame_of((struct vl_pfn){vli_frame_pfn(frame).n & ~((1u << order) - 1u)});
}

/** vli_slab_cache() - cache whose frame this is. */
static inline struct vl_cache *vli_slab_cache(const struct vl_frame *frame)
{
    return &vli_caches[atomic_load_explicit(&frame->flags, memory_order_relaxed) >>
                       VLI_FRAME_INDEX_SHIFT];
}

/* ---- from an address to its frame (virt.c) ---- */

/* Where the descriptor of virtual page 0 would be: address >> 12 is the index from there. 0 when
 * the host's mapping is not one offset for all ranges. */
extern uintptr_t vli_virt_frames;

/** vli_virt_init() - learn how the host maps its ranges. vl_init() only. */
void vli_virt_init(void);

/** vli_virt_frame_slow() - the same where ranges have offsets of their own; NULL outside of all. */
struct vl_frame *vli_virt_frame_slow(uintptr_t address);

/** vli_virt_frame() - descriptor of the frame that holds an address which came from it. */
#if defined(VL_HOST_PHYS_LINEAR)
static inline struct vl_frame *vli_virt_frame(uintptr_t address)
{
    return (struct vl_frame *)(vli_virt_frames +
                               (address >> VL_PAGE_SHIFT) * sizeof(struct vl_frame));
}
#else
static inline struct vl_frame *vli_virt_frame(uintptr_t address)
{
    uintptr_t frames = vli_virt_frames;

    if (VLI_UNLIKELY(frames == 0)) {
        return vli_virt_frame_slow(address);
    }
    return (struct vl_frame *)(frames + (address >> VL_PAGE_SHIFT) * sizeof(struct vl_frame));
}
#endif

/** vli_frame_index8() - the upper byte of a descriptor's flags: of a slab's frames, the cache's
 * index; of others, anything. */
static inline size_t vli_frame_index8(struct vl_frame *frame)
{
    return atomic_load_explicit((_Atomic uint8_t *)(void *)&frame->flags +
                                    VLI_FRAME_INDEX_SHIFT / 8u,
                                memory_order_relaxed);
}

/* ---- debug builds (debug.c) ---- */

#ifdef VL_DEBUG
/* At the start of each unit; the object follows after `shift` bytes, a red zone after that. */
struct vli_slab_mark {
    uintptr_t link;  /* of free units */
    uintptr_t state; /* VLI_MARK_* */
    uintptr_t who;   /* return address of the last who allocated or freed it */
    uint32_t cpu;    /* where */
    uint32_t red;    /* VLI_MARK_RED */
};
#define VLI_MARK_HEAD ((uint32_t)sizeof(struct vli_slab_mark))
#define VLI_MARK_TAIL 8u

/** vli_debug_unit_init() - a unit of a new slab: marks, red zones, poison. */
void vli_debug_unit_init(const struct vl_cache *cache, uintptr_t unit);
/** vli_debug_alloc() - @unit leaves for the user: nothing wrote to it meanwhile. */
void vli_debug_alloc(const struct vl_cache *cache, uintptr_t unit, uintptr_t who);
/** vli_debug_free() - @object comes back: it is one of the cache's, in use and within its bounds;
 * poison it. Panics otherwise, with the last owner. */
void vli_debug_free(const struct vl_cache *cache, void *object, uintptr_t who);
/** vli_debug_find() - type-check an address from outside; panics when no frame is there. */
void vli_debug_find(const void *object, uintptr_t who);
/** vli_debug_how() - panics when @how may wait and a lock is held. */
void vli_debug_how(vl_how_t how);
#else
static inline void vli_debug_how(vl_how_t how)
{
    (void)how;
}
#define VLI_MARK_HEAD 0u
#define VLI_MARK_TAIL 0u
static inline void vli_debug_unit_init(const struct vl_cache *cache, uintptr_t unit)
{
    (void)cache;
    (void)unit;
}
static inline void vli_debug_alloc(const struct vl_cache *cache, uintptr_t unit, uintptr_t who)
{
    (void)cache;
    (void)unit;
    (void)who;
}
static inline void vli_debug_free(const struct vl_cache *cache, void *object, uintptr_t who)
{
    (void)cache;
    (void)object;
    (void)who;
}
static inline void vli_debug_find(const void *object, uintptr_t who)
{
    (void)object;
    (void)who;
}
#endif

/* ---- for the floors above ---- */

/** vli_slab_init() - kmalloc's caches; after frame. vl_init() only. */
VL_MUST_CHECK enum vl_status vli_slab_init(void);

/** vli_slab_drain() - what CPUs keep, then every empty slab, goes back to frame. Context: thread,
 * no core lock held. */
void vli_slab_drain(void);

/* What a cache holds, for report/. Units in CPUs' lists count as in use, as in Linux. */
struct vli_slab_info {
    const char *name;
    uint64_t units_active, units;
    uint64_t slabs_active, slabs;
    uint64_t frames;
    uint32_t object_bytes, unit_bytes, units_per_slab, frames_per_slab;
};

/** vli_slab_info() - false when there is no cache number @index (there may be later ones). */
VL_MUST_CHECK bool vli_slab_info(unsigned index, struct vli_slab_info *out);

/** vli_slab_validate() - walk all partial slabs and this machine's slots; panics when something is
 * wrong. Quiescent. */
void vli_slab_validate(void);

#endif
