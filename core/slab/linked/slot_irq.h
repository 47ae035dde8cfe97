/*
 * slot_irq.h - a slot whose list changes with interrupts off. The strategy `irq`, and what all
 * strategies come to under ThreadSanitizer, which cannot see into assembly.
 */
#ifndef VLI_SLOT_IRQ_H
#define VLI_SLOT_IRQ_H

#include "core/slab/linked/slot_common.h"

static VLI_ALWAYS_INLINE uintptr_t vli_slot_pop(size_t index)
{
    unsigned long flags = vl_host_irq_save();
    struct vli_slab_slot *slot = &vli_this_cpu()->slab.slot[index];
    uintptr_t unit = vli_slot_list(slot);

    if (VLI_LIKELY(unit != 0)) {
        vli_slot_set_list(slot, atomic_load_explicit(vli_unit_link(unit), memory_order_relaxed));
    }
    vl_host_irq_restore(flags);
    return unit;
}

VL_MUST_CHECK static VLI_ALWAYS_INLINE bool vli_slot_push(size_t index, uintptr_t unit)
{
    unsigned long flags = vl_host_irq_save();
    struct vli_slab_slot *slot = &vli_this_cpu()->slab.slot[index];
    bool is_ours = unit - vli_slot_base(slot) < vli_slot_bytes(slot);

    if (VLI_LIKELY(is_ours)) {
        atomic_store_explicit(vli_unit_link(unit), vli_slot_list(slot), memory_order_relaxed);
        vli_slot_set_list(slot, unit);
    }
    vl_host_irq_restore(flags);
    return is_ours;
}

#endif
