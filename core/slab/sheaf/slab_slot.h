/*
 * slab_slot.h (sheaf) - a unit is taken off the sheaf of its cache, or put on it, by a restartable
 * range: a few plain instructions of which the last is the only store that counts, and which an
 * interrupt, or a move to another CPU, starts again (arch/restart.h). No compare-and-exchange, no
 * interrupts off, no word of the unit.
 */
#ifndef VLI_SLAB_SLOT_H
#define VLI_SLAB_SLOT_H

#include "core/base/percpu.h"

/* Empty for who takes, full for who gives: a CPU starts with it. */
extern const uintptr_t vli_sheaf_none[2 * VLI_SHEAF_WORDS];
#define VLI_SHEAF_NONE ((uintptr_t)&vli_sheaf_none[VLI_SHEAF_WORDS])

/* Cache 0, nobody's, finds nothing and keeps nothing. */
#define VLI_AREA_INITIAL                                                                           \
    {                                                                                              \
        .sheaf = { {VLI_SHEAF_NONE} }                                                              \
    }

#if defined(VL_HOST_RSEQ)
#include "arch/rseq.h"
#else
#include "arch/restart.h"

#define VLI_SHEAF_AT                                                                               \
    (offsetof(struct vli_percpu, slab.sheaf) + VLI_SHEAF_TOP * VLI_CACHES_MAX * sizeof(uintptr_t))
#define VLI_SHEAF_SPARE_AT                                                                         \
    (offsetof(struct vli_percpu, slab.sheaf) + VLI_SHEAF_SPARE * VLI_CACHES_MAX * sizeof(uintptr_t))

static VLI_ALWAYS_INLINE uintptr_t vli_slot_pop(size_t index)
{
    struct vli_percpu *pinned = vli_percpu_pin();
    uintptr_t unit = vli_stack_pop(pinned, VLI_SHEAF_AT, index);

    vli_percpu_unpin();
    return unit;
}

VL_MUST_CHECK static VLI_ALWAYS_INLINE bool vli_slot_push(size_t index, uintptr_t unit)
{
    struct vli_percpu *pinned = vli_percpu_pin();
    bool done = vli_stack_push(pinned, VLI_SHEAF_AT, index, unit);

    vli_percpu_unpin();
    return done;
}

/** vli_slot_swap() - this CPU's sheaf of cache @index becomes @top. Returns: the one before, or
 * VLI_SHEAF_STOPPED when this CPU must keep none now, and nothing was changed. */
VL_MUST_CHECK static inline uintptr_t vli_slot_swap(size_t index, enum vli_sheaf_which which,
                                                    uintptr_t top)
{
    struct vli_percpu *pinned = vli_percpu_pin();
    uintptr_t old = which == VLI_SHEAF_TOP ? vli_stack_swap(pinned, VLI_SHEAF_AT, index, top)
                                           : vli_stack_swap(pinned, VLI_SHEAF_SPARE_AT, index, top);

    vli_percpu_unpin();
    return old;
}

/** vli_slot_number() - this CPU's number; the thread may be elsewhere at once. */
static inline uint32_t vli_slot_number(void)
{
    return vl_host_cpu_id();
}

/** vli_slot_numbers() - how many numbers there may be. */
static inline uint32_t vli_slot_numbers(void)
{
    return vl_host_cpu_count();
}
#endif

struct vl_cache;

/** vli_sheaf_area_init() - an area that keeps nothing. */
void vli_sheaf_area_init(struct vli_slab_percpu *area);

/** vli_sheaf_drain_area() - what an area that nobody uses meanwhile keeps of @cache (of all caches:
 * NULL) goes back to the slabs. Context: any. */
void vli_sheaf_drain_area(struct vli_slab_percpu *area, struct vl_cache *cache);

/** vli_sheaf_fill() - units in the sheaf with this top, which another CPU may be using: then a
 * number that is or was about right, or 0. */
uint32_t vli_sheaf_fill(uintptr_t top);

/** vli_sheaf_barn_units() - units in a cache's full sheaves that no CPU has. Context: any. */
uint64_t vli_sheaf_barn_units(struct vl_cache *cache);

#if defined(VL_HOST_RSEQ)
/** vli_sheaf_areas() - the host calls @fn for each area that it keeps, in turn, nobody using it
 * meanwhile. */
void vli_sheaf_areas(void (*fn)(struct vli_slab_percpu *area, void *arg), void *arg);
#endif

#endif
