/*
 * slot_pair.h - a slot whose {list, id} change by one compare-and-exchange of 16 bytes. The
 * strategy that includes it defines vli_slot_exchange(): without the lock prefix (`local`) or with
 * it (`locked`).
 *
 * Interrupts and moves to another CPU may come anywhere; then the exchange fails, and the slow path
 * does the work. Taking: if the exchange finds {list, id} as read, then they are of the CPU it runs
 * on, and that CPU's slot has not changed since the id was read; so the list was its list then, and
 * the link that was read of its first unit is the right one. (A unit is in one list at a time, so
 * the list cannot have been read of another CPU.) Giving reads the slab's bounds too, which could
 * be another CPU's while the lists of both are empty; so there everything is read through one
 * pointer.
 */
#ifndef VLI_SLOT_PAIR_H
#define VLI_SLOT_PAIR_H

#include "core/slab/slab.h" /* which includes this, by the strategy */

#if defined(VLI_TSAN)
#include "core/slab/linked/slot_irq.h"
#else
#include "core/slab/linked/slot_common.h"

#define VLI_SLOT_LIST                                                                              \
    (offsetof(struct vli_percpu, slab.slot) + offsetof(struct vli_slab_slot, list))
#define VLI_SLOT_ID (offsetof(struct vli_percpu, slab.slot) + offsetof(struct vli_slab_slot, id))

static VLI_ALWAYS_INLINE uintptr_t vli_slot_pop(size_t index)
{
    size_t offset = index * sizeof(struct vli_slab_slot);
    struct vli_percpu *pinned = vli_percpu_pin();
    struct vli_pair old;
    struct vli_pair fresh;

    old.hi = vli_percpu_load(pinned, VLI_SLOT_ID, offset);
    old.lo = vli_percpu_load(pinned, VLI_SLOT_LIST, offset);
    if (VLI_UNLIKELY(old.lo == 0)) {
        vli_percpu_unpin();
        return 0;
    }
    fresh.lo = atomic_load_explicit(vli_unit_link(old.lo), memory_order_relaxed);
    fresh.hi = old.hi + VL_CPUS_MAX;
    if (VLI_UNLIKELY(!vli_slot_exchange(pinned, VLI_SLOT_LIST, offset, &old, fresh))) {
        vli_percpu_unpin();
        return 0;
    }
    VLI_ASSUME(old.lo != 0); /* as it was: the exchange found it */
    vli_percpu_unpin();
    return old.lo;
}

VL_MUST_CHECK static VLI_ALWAYS_INLINE bool vli_slot_push(size_t index, uintptr_t unit)
{
    size_t offset = index * sizeof(struct vli_slab_slot);
    struct vli_percpu *pinned = vli_percpu_pin();
    const struct vli_slab_slot *slot = &vli_percpu_peek(pinned)->slab.slot[index];
    struct vli_pair old;
    bool done = false;

    old.hi = vli_slot_id(slot);
    atomic_signal_fence(memory_order_acquire); /* the id first */
    if (VLI_LIKELY(unit - vli_slot_base(slot) < vli_slot_bytes(slot))) {
        old.lo = vli_slot_list(slot);
        atomic_store_explicit(vli_unit_link(unit), old.lo, memory_order_relaxed);
        done = vli_slot_exchange(pinned, VLI_SLOT_LIST, offset, &old,
                                 (struct vli_pair){unit, old.hi + VL_CPUS_MAX});
    }
    vli_percpu_unpin();
    return done;
}
#endif

#endif
