/*
 * slab.h - the contract of object caches (F2), and what the files of this floor share.
 *
 * A cache takes slabs, blocks of 1 << order frames, and cuts each into equal units. A unit holds
 * one object, `shift` bytes into it; shift is 0 unless the strategy needs a word of a free unit and
 * the cache has a constructor, whose work that word would spoil, or the build is a debug one (then
 * struct vli_slab_mark stands there).
 *
 * The files here are what all strategies share: caches and their list (cache.c), the fast paths and
 * allocation by size (kmalloc.c), the marks of debug builds (debug.c), the way from an address to
 * its frame (virt.c). What a CPU keeps for itself, and how slabs know their free units, is the
 * strategy's, which comes in two families:
 *
 *      sheaf/   per-CPU arrays of units, slabs with bits; the default
 *      linked/  per-CPU lists through the units of one slab; local/, local1/, irq/ and locked/ are
 *               its fast paths
 *
 * Descriptor of a slab's frames, in both: flags: type SLAB, the slab's order, upper byte the
 * cache's index, in every frame of the slab. So vl_kfree() reads one byte of one descriptor.
 */
#ifndef VLI_SLAB_H
#define VLI_SLAB_H

#include <vellum/slab.h>
#include "core/base/percpu.h"
#include "core/base/spinlock.h"
#include "core/frame/frame.h"
#include "slab_state.h"

/* Room for a cache's name and its ending 0. */
#define VLI_CACHE_NAME 32u

/* (C): the lock of the list of caches; the rest is fixed at creation. */
struct vl_cache {
    VLI_ALIGNED(VLI_CACHELINE) uint32_t index; /* of its slots, and in vli_caches */
    uint32_t shift;                            /* from a unit to its object */
    uint32_t object_bytes;                     /* what the user asked for */
    uint32_t unit_bytes;
    uint32_t order;     /* of a slab */
    uint32_t order_min; /* when memory is short: one unit fits */
    void (*constructor)(void *object);
    uint32_t align;
    uint32_t flags;            /* (C) VL_CACHE_* */
    uint32_t users;            /* (C) creations that it serves */
    bool is_live;              /* (C) */
    char name[VLI_CACHE_NAME]; /* the first creation's */
    struct vli_slab_node node[VLI_SLAB_NODES];
};

extern struct vl_cache vli_caches[VLI_CACHES_MAX];
_Static_assert(VLI_CACHES_MAX <= 1u << (32u - VLI_FRAME_INDEX_SHIFT),
               "a cache's index stands in the upper byte of a descriptor's flags");

/* ---- the strategy's: SLAB ---- */

/*
 * slab_percpu_state.h gives struct vli_slab_percpu, what a CPU keeps. slab_state.h gives struct
 * vli_slab_node (with _Atomic uint64_t slabs, units, frames: of the node, in any state), and
 * VLI_SLAB_LINK_BYTES, what a free unit needs before an object that must not be spoilt. slab_slot.h
 * gives, for cache number @index on this CPU:
 *
 * vli_slot_pop(index)        take a unit of those that the CPU keeps; 0 when there is none, or when
 *                            an interrupt came between.
 * vli_slot_push(index, unit) keep one; false when there is no room, it is not of the kind that is
 *                            kept, or an interrupt came between. Both: any context; the slow paths
 *                            serve all that they leave.
 */
#include "slab_slot.h"

/** vli_slab_start() - what CPUs keep is nothing yet; caches of the strategy's own. vli_slab_init()
 * only. */
VL_MUST_CHECK enum vl_status vli_slab_start(void);

/** vli_slab_layout() - the strategy's part of a new cache, whose unit_bytes and orders are set. */
void vli_slab_layout(struct vl_cache *cache);

/** vli_slab_alloc_slow() - a unit by any means, or 0. Context: as @how says. */
uintptr_t vli_slab_alloc_slow(struct vl_cache *cache, vl_how_t how);

/** vli_slab_free_slow() - give back a unit that vli_slot_push() did not keep.
 * @frame: any frame of the slab. Context: any. */
void vli_slab_free_slow(struct vl_frame *frame, uintptr_t unit);

/**
 * vli_slot_pop_batch() - units of those that this CPU keeps of cache number @index.
 * @out: room for @count addresses of units.
 * Returns: how many were had, up to @count; the slow path has more. Context: any.
 */
size_t vli_slot_pop_batch(size_t index, size_t count, void **out);

/**
 * vli_slot_push_batch() - have this CPU keep the units of @objects, in their order.
 * @shift: from a unit to its object.
 * Returns: how many it keeps, up to @count; the slow path takes the next one. Context: any.
 */
size_t vli_slot_push_batch(size_t index, uint32_t shift, size_t count, void *const *objects);

/** vli_slab_free_run() - as vli_slab_free_slow() for the first of @objects, and for those after it
 * that it costs less to give back with it. @frame: of the first. Returns: how many went, at least
 * one. Context: any. */
size_t vli_slab_free_run(struct vl_frame *frame, uint32_t shift, size_t count,
                         void *const *objects);

/** vli_slab_flush() - all that CPUs keep of @cache (of all caches: NULL) goes back to the slabs.
 * Context: thread, no core lock held. */
void vli_slab_flush(struct vl_cache *cache);

/** vli_slab_release_empty() - slabs of which every unit is free go back to frame.
 * Returns: frames. Context: any. */
size_t vli_slab_release_empty(struct vl_cache *cache);

/** vli_slab_units_free() - units that nobody has, what CPUs keep among them. As of no one moment
 * while others allocate. Context: thread, no core lock held but one that sleeps. */
uint64_t vli_slab_units_free(struct vl_cache *cache);

/** vli_slab_units() - units of the slab whose head frame is @head. */
uint32_t vli_slab_units(struct vl_frame *head);

/** vli_slab_units_in() - units of @unit_bytes that a slab of @order holds. */
uint32_t vli_slab_units_in(uint32_t unit_bytes, uint32_t order);

/** vli_slab_units_each() - units of a slab of the cache's order. */
uint32_t vli_slab_units_each(const struct vl_cache *cache);

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
extern uintptr_t vli_virt_frames VLI_HIDDEN;

/** vli_virt_init() - learn how the host maps its ranges. vl_init() only. */
void vli_virt_init(void);

/** vli_virt_frame_slow() - the same where ranges have offsets of their own; NULL outside of all. */
struct vl_frame *vli_virt_frame_slow(uintptr_t address);

#if defined(VL_HOST_SLAB_MAP)
/* The host gives a byte for each frame, zeroed, in which the index of the cache stands as well: who
 * frees objects at random looks at a byte then, where a descriptor would be half a cache line. */
extern uint8_t *vli_slab_map VLI_HIDDEN;
#endif

/** vli_virt_frame() - descriptor of the frame that holds an address which came from it; of a slab,
 * any of its frames'. */
#if defined(VL_HOST_SLAB_MAP)
/* The head's: the others' may have gone back (vli_slabs_purge()), and then read as 0, now or at the
 * next look. */
static inline struct vl_frame *vli_virt_frame(uintptr_t address)
{
    struct vl_frame *frame =
        (struct vl_frame *)(vli_virt_frames + (address >> VL_PAGE_SHIFT) * sizeof(struct vl_frame));
    uint32_t pfn = vli_frame_pfn(frame).n;
    uint32_t flags = atomic_load_explicit(&frame->flags, memory_order_relaxed);
    uint32_t order = (flags & VLI_FRAME_ORDER_MASK) >> VLI_FRAME_ORDER_SHIFT;

    if (vli_slab_map[pfn] == 0) {
        return frame;
    }
    order = flags == 0 ? vli_caches[vli_slab_map[pfn]].order : order;
    return vli_frame_of((struct vl_pfn){pfn & ~((1u << order) - 1u)});
}
#elif defined(VL_HOST_PHYS_LINEAR)
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

#if defined(VL_HOST_SLAB_MAP)
/** vli_slab_map_set() - a slab's frames are cache @index's, or nobody's (0). */
static inline void vli_slab_map_set(const struct vl_frame *head, uint32_t order, uint32_t index)
{
    for (uint32_t i = 0; i < 1u << order; i++) {
        vli_slab_map[vli_frame_pfn(head).n + i] = (uint8_t)index;
    }
}

/** vli_slab_index() - the cache of frame number @pfn, 0 when it is none's. */
static inline size_t vli_slab_index(size_t pfn)
{
    return vli_slab_map[pfn];
}
#else
static inline void vli_slab_map_set(const struct vl_frame *head, uint32_t order, uint32_t index)
{
    (void)head;
    (void)order;
    (void)index;
}

static inline size_t vli_slab_index(size_t pfn)
{
    return vli_frame_index8(&vli_frames[pfn]);
}
#endif

#include "core/slab/debug.h"

/* ---- whole frames (whole.c) ---- */

/** vli_whole_alloc() - @size bytes in whole frames, aligned to @align, a power of 2 from a page up.
 * @who: return address of who asks. Returns: NULL when there are none, or when the host's mapping
 * does not keep the alignment of physical addresses. Context: as @how says. */
void *vli_whole_alloc(size_t size, size_t align, vl_how_t how, uintptr_t who);

/** vli_whole_free() - give it back, by the descriptor of its first frame. Context: any. */
void vli_whole_free(struct vl_frame *head, uintptr_t who);

/** vli_whole_room() - bytes of its frames. Context: any. */
size_t vli_whole_room(const struct vl_frame *head);

/** vli_whole_resize() - give @size bytes of it to the user, where it lies; what is too much goes
 * back. Returns: false when it has less. Context: any. */
VL_MUST_CHECK bool vli_whole_resize(struct vl_frame *head, size_t size);

/* ---- for the floors above ---- */

/** vli_slab_init() - kmalloc's caches; after frame. vl_init() only. */
VL_MUST_CHECK enum vl_status vli_slab_init(void);

/** vli_slab_shrinker_init() - memory that is short is asked for here, too. vli_slab_init() only. */
void vli_slab_shrinker_init(void);

/** vli_slab_drain() - what CPUs keep, then every empty slab, goes back to frame. Context: thread,
 * no core lock held. */
void vli_slab_drain(void);

/* What a cache holds, for report/. */
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
