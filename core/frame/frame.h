/*
 * frame.h - the contract of physical memory for the floors above (F1).
 *
 * Descriptors are one flat array over [first, end) of all ranges: number and descriptor convert by
 * a shift and an add. Holes inside have descriptors of type RESERVED; ranges so far apart that
 * hole descriptors would take more than 1/16 of the memory are refused with a log line.
 *
 * A frame taken by vli_frame_get() has refs == 1 and type STOCK; the taker sets type and owner. The
 * order of a block stands in its flags only if the taker writes it there.
 */
#ifndef VLI_FRAME_H
#define VLI_FRAME_H

#include <vellum/frame.h>
#include "core/base/assert.h"
#include "core/base/event.h"
#include "core/frame/frame_state.h"

/* Descriptor of frame number 0 (a virtual base: numbers below the first frame are never looked
 * up). Set once by vli_frame_init(). */
extern struct vl_frame *vli_frames VLI_HIDDEN;
extern uint32_t vli_frames_first;
extern uint32_t vli_frames_end;

/** vli_frame_init() - build zones and descriptors from the host's ranges. vl_init() only. */
VL_MUST_CHECK enum vl_status vli_frame_init(void);

/** vli_frame_of() - descriptor of a frame that has one. */
static inline struct vl_frame *vli_frame_of(struct vl_pfn pfn)
{
    return &vli_frames[pfn.n];
}

/** vli_frame_has() - has this number a descriptor? For numbers from outside. */
static inline bool vli_frame_has(struct vl_pfn pfn)
{
    return pfn.n >= vli_frames_first && pfn.n < vli_frames_end;
}

/** vli_frame_pfn() - number of a descriptor. */
static inline struct vl_pfn vli_frame_pfn(const struct vl_frame *frame)
{
    return (struct vl_pfn){(uint32_t)(frame - vli_frames)};
}

/** vli_frame_virt() - where the kernel sees the frame. */
static inline void *vli_frame_virt(struct vl_pfn pfn)
{
    return vl_host_phys_to_virt(vl_pfn_to_pa(pfn));
}

/** vli_frame_type() - relaxed read. */
static inline enum vli_frame_type vli_frame_type(const struct vl_frame *frame)
{
    return (enum vli_frame_type)(atomic_load_explicit(&frame->flags, memory_order_relaxed) &
                                 VLI_FRAME_TYPE_MASK);
}

/** vli_frame_is_absent() - is there no memory behind it, only room for some? Relaxed read. */
static inline bool vli_frame_is_absent(const struct vl_frame *frame)
{
    return atomic_load_explicit(&frame->flags, memory_order_relaxed) == 0;
}

/** vli_frame_set_type() - by the only user of a frame just taken; keeps zone and order, clears the
 * marks and the upper index bits. */
static inline void vli_frame_set_type(struct vl_frame *frame, enum vli_frame_type type)
{
    uint32_t flags = atomic_load_explicit(&frame->flags, memory_order_relaxed);

    flags &= VLI_FRAME_ZONE_MASK | VLI_FRAME_ORDER_MASK;
    atomic_store_explicit(&frame->flags, flags | (uint32_t)type, memory_order_relaxed);
}

/** vli_frame_mark() / _unmark() / _is_marked() - VLI_FRAME_* marks of a frame in use. Atomic. */
static inline void vli_frame_mark(struct vl_frame *frame, uint32_t marks)
{
    atomic_fetch_or_explicit(&frame->flags, marks, memory_order_relaxed);
}
static inline void vli_frame_unmark(struct vl_frame *frame, uint32_t marks)
{
    atomic_fetch_and_explicit(&frame->flags, ~marks, memory_order_relaxed);
}
static inline bool vli_frame_is_marked(const struct vl_frame *frame, uint32_t marks)
{
    return (atomic_load_explicit(&frame->flags, memory_order_relaxed) & marks) != 0;
}

/** vli_frame_index() / vli_frame_set_index() - 40-bit page index; set by the only user. */
static inline uint64_t vli_frame_index(const struct vl_frame *frame)
{
    uint32_t flags = atomic_load_explicit(&frame->flags, memory_order_relaxed);

    return ((uint64_t)(flags >> VLI_FRAME_INDEX_SHIFT) << 32) | frame->index_low;
}
static inline void vli_frame_set_index(struct vl_frame *frame, uint64_t index)
{
    uint32_t flags = atomic_load_explicit(&frame->flags, memory_order_relaxed);

    flags = (flags & 0x00ffffffu) | (uint32_t)(index >> 32) << VLI_FRAME_INDEX_SHIFT;
    atomic_store_explicit(&frame->flags, flags, memory_order_relaxed);
    frame->index_low = (uint32_t)index;
}

/**
 * vli_frame_get() - one block of @order, refs 1, type STOCK, or NULL.
 * Context, cost: as vl_frame_alloc(). With VL_WAIT no core lock is held (asserted in debug
 * builds): callers under a lock ask with VL_ATOMIC first, and on NULL leave their locks and come
 * back with VL_WAIT.
 */
VL_MUST_CHECK struct vl_frame *vli_frame_get(unsigned order, vl_how_t how);

/** vli_frame_put() - give a block back whose single reference the caller holds; any type. Sets
 * nothing before: type, owner and marks are the allocator's to clear. Context: any. */
void vli_frame_put(struct vl_frame *frame, unsigned order);

/** vli_frame_split() - a block of @order > 0 that the caller just got, or has set no field of but
 * its head's, counts as two of @order - 1 from now on, each given back by itself. Context: any. */
void vli_frame_split(struct vl_frame *frame, unsigned order);

/** vli_frame_put_bulk() - the same for @count single frames, by descriptor. Context: any. */
void vli_frame_put_bulk(struct vl_frame *const *frames, size_t count);

/** vli_frame_adopt() - a reserved frame is used where it lies (an image that the boot loader left):
 * refs 1, type STOCK, counted as managed from now on. Returns: false when it is not reserved (or
 * was taken by another CPU). Context: any but interrupts. */
VL_MUST_CHECK bool vli_frame_adopt(struct vl_frame *frame);

/** vli_frame_ref_get() - one more reference on a frame in use. Context: any. */
static inline void vli_frame_ref_get(struct vl_frame *frame)
{
    atomic_fetch_add_explicit(&frame->refs, 1, memory_order_relaxed);
}

/** vli_frame_ref_drop() - drop one; true when it was the last: the caller owns the frame then and
 * must give it back (refs reads 0; vli_frame_put() accepts 0 or 1). Context: any. */
VL_MUST_CHECK static inline bool vli_frame_ref_drop(struct vl_frame *frame)
{
    /* Release: what this user did comes before the free; acquire for the last one, which pairs
     * with the releases of the others. */
    if (atomic_fetch_sub_explicit(&frame->refs, 1, memory_order_acq_rel) == 1) {
        return true;
    }
    return false;
}

/** vli_frame_zero() / vli_frame_copy() - whole frames, by arch/'s fastest way. */
void vli_frame_zero(struct vl_pfn pfn);
void vli_frame_copy(struct vl_pfn to, struct vl_pfn from);

/** vli_frame_drain() - every CPU's stocks go back to their zones. Context: thread. */
void vli_frame_drain(void);

/** vli_frame_cpu_online() - a CPU comes up: what was set for stocks meanwhile holds for it too. */
void vli_frame_cpu_online(unsigned cpu);

/** vli_frame_validate() - walk all zones and stocks; panics when something is wrong. Quiescent. */
void vli_frame_validate(void);

/* What the buddy allocator did in a zone since it was made. */
struct vli_frame_work {
    uint64_t splits; /* blocks halved */
    uint64_t merges; /* pairs joined */
    uint64_t takes;  /* blocks taken from a list, to be handed out or split */
    uint64_t gives;  /* blocks given back, before any joining */
    uint64_t tops;   /* of these, those that became one of the highest order, or were */
    uint64_t locks;  /* takings of the zone's lock: one locked instruction each */
    uint64_t abroad; /* frames taken by CPUs of other nodes */
    /* The rest follows from these; vli_zone_info() fills it in. */
    uint64_t lookups; /* buddies asked about (flags: a descriptor read each) */
    uint64_t inserts; /* list insertions: two descriptors touched at most */
    uint64_t removes; /* list removals: three at most */
    uint64_t locked;  /* other locked instructions: marks of BUDDY=flags_atomic */
};

/* Statistics of a zone, for report/. */
struct vli_zone_info {
    const char *name;
    unsigned node;
    uint64_t managed;
    uint64_t free;
    uint64_t blocks[VL_ORDER_COUNT]; /* free blocks of each order */
    uint64_t watermark_min, watermark_low, watermark_high;
    struct vli_frame_work work;
};
/** vli_zone_info() - false beyond the last zone. */
VL_MUST_CHECK bool vli_zone_info(unsigned zone, struct vli_zone_info *out);

#endif
