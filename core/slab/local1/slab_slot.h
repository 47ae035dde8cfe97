/*
 * slab_slot.h (local1) - the list alone changes, by an unlocked compare-and-exchange of one word,
 * as published in 2007.
 *
 * An address alone would not do: an interrupt that takes the first unit and the second, and gives
 * the first back, leaves the same address before another list. So the word holds the unit's offset
 * in the slab (low half) and a count of changes (high half): an interrupt would have to make
 * exactly 2^32 changes to go unseen. Preemption is off meanwhile, so that no other thread runs in
 * between and the CPU stays the same, whose number need not be in the word.
 *
 * The offset counts from a base that stands in another word, and an interrupt may take the CPU's
 * slab away between the two. What the two name then is no unit, and perhaps no memory. So who takes
 * reads the word once more before he reads the unit's link. (tests/spin/local.pml, LOCAL1.)
 */
#ifndef VLI_SLAB_SLOT_H
#define VLI_SLAB_SLOT_H

#define VLI_SLOT_OWN_LIST 1
#include "core/slab/linked/slot_common.h"

#define VLI_SLOT_COUNT_ONE ((uintptr_t)1 << 32)

/** vli_slot_offset_of() - the low half for @unit (0: none) of the slab at @base: its offset plus 1.
 */
static inline uintptr_t vli_slot_offset_of(uintptr_t unit, uintptr_t base)
{
    return unit == 0 ? 0 : unit - base + 1u;
}

/** vli_slot_unit_of() - the unit that a word names, 0 for none. */
static inline uintptr_t vli_slot_unit_of(uintptr_t word, uintptr_t base)
{
    return (uint32_t)word == 0 ? 0 : base + ((uint32_t)word - 1u);
}

static inline uintptr_t vli_slot_list(const struct vli_slab_slot *slot)
{
    return vli_slot_unit_of(atomic_load_explicit(&slot->list, memory_order_relaxed),
                            vli_slot_base(slot));
}

static inline void vli_slot_set_list(struct vli_slab_slot *slot, uintptr_t list)
{
    uintptr_t word = atomic_load_explicit(&slot->list, memory_order_relaxed);

    word = ((word >> 32) + 1u) << 32 | vli_slot_offset_of(list, vli_slot_base(slot));
    atomic_store_explicit(&slot->list, word, memory_order_relaxed);
}

#if defined(VLI_TSAN)
#include "core/slab/linked/slot_irq.h"
#else
#define VLI_SLOT_LIST                                                                              \
    (offsetof(struct vli_percpu, slab.slot) + offsetof(struct vli_slab_slot, list))

static VLI_ALWAYS_INLINE uintptr_t vli_slot_pop(size_t index)
{
    size_t offset = index * sizeof(struct vli_slab_slot);
    const struct vli_slab_slot *slot;
    struct vli_percpu *cpu;
    uintptr_t base;
    uintptr_t old;
    uintptr_t unit;
    uintptr_t fresh;

    vl_host_preempt_off();
    cpu = vli_this_cpu();
    slot = &cpu->slab.slot[index];
    old = atomic_load_explicit(&slot->list, memory_order_relaxed);
    atomic_signal_fence(memory_order_acquire); /* the word first */
    base = vli_slot_base(slot);
    atomic_signal_fence(memory_order_acquire); /* and once more after the base */
    unit = vli_slot_unit_of(old, base);
    if (VLI_UNLIKELY(atomic_load_explicit(&slot->list, memory_order_relaxed) != old)) {
        unit = 0;
    }
    if (VLI_LIKELY(unit != 0)) {
        fresh = atomic_load_explicit(vli_unit_link(unit), memory_order_relaxed);
        fresh = (uint32_t)vli_slot_offset_of(fresh, base) | ((old >> 32) + 1u) << 32;
        if (VLI_UNLIKELY(!vli_percpu_cas8_local(cpu, VLI_SLOT_LIST, offset, old, fresh))) {
            unit = 0;
        }
    }
    vl_host_preempt_on();
    return unit;
}

VL_MUST_CHECK static VLI_ALWAYS_INLINE bool vli_slot_push(size_t index, uintptr_t unit)
{
    size_t offset = index * sizeof(struct vli_slab_slot);
    const struct vli_slab_slot *slot;
    struct vli_percpu *cpu;
    uintptr_t base;
    uintptr_t old;
    bool done = false;

    vl_host_preempt_off();
    cpu = vli_this_cpu();
    slot = &cpu->slab.slot[index];
    old = atomic_load_explicit(&slot->list, memory_order_relaxed);
    atomic_signal_fence(memory_order_acquire); /* the word first */
    base = vli_slot_base(slot);
    if (VLI_LIKELY(unit - base < vli_slot_bytes(slot))) {
        atomic_store_explicit(vli_unit_link(unit), vli_slot_unit_of(old, base),
                              memory_order_relaxed);
        done = vli_percpu_cas8_local(cpu, VLI_SLOT_LIST, offset, old,
                                     vli_slot_offset_of(unit, base) | ((old >> 32) + 1u) << 32);
    }
    vl_host_preempt_on();
    return done;
}
#endif

#endif
