/*
 * slot_common.h - the fields of a slot as most strategies keep them: the list is an address.
 *
 * A strategy of this family gives, besides vli_slot_pop() and vli_slot_push():
 *
 * vli_slot_list(slot)           first unit of the slot's list;
 * vli_slot_set_list(slot, list) change it (base and bytes are set before). Both: by the slot's CPU
 *                               with interrupts off.
 *
 * All accesses are relaxed: only the slot's own CPU writes, and what a fast path read in pieces is
 * confirmed by its compare-and-exchange.
 */
#ifndef VLI_SLOT_COMMON_H
#define VLI_SLOT_COMMON_H

#include "core/base/percpu.h"

/** vli_unit_link() - the word of a free unit that holds the next one's address. Atomic, since a
 * fast path may read it of a unit that was just taken by another; it then starts again. */
static inline _Atomic uintptr_t *vli_unit_link(uintptr_t unit)
{
    return (_Atomic uintptr_t *)unit;
}

/** vli_list_end() - what stands for no unit in a list of the slab at @base. */
static inline uintptr_t vli_list_end(uintptr_t base)
{
    (void)base;
    return 0;
}

/** vli_list_is_end() - is it no unit? */
static inline bool vli_list_is_end(uintptr_t list)
{
    return list == 0;
}

/** vli_slot_base() - first byte of the slot's slab. */
static inline uintptr_t vli_slot_base(const struct vli_slab_slot *slot)
{
    return atomic_load_explicit(&slot->base, memory_order_relaxed);
}

/** vli_slot_bytes() - length of the slot's slab, 0 when it has none. */
static inline uintptr_t vli_slot_bytes(const struct vli_slab_slot *slot)
{
    return atomic_load_explicit(&slot->bytes, memory_order_relaxed);
}

/** vli_slot_id() - changes with each change of the slot. */
static inline uint64_t vli_slot_id(const struct vli_slab_slot *slot)
{
    return atomic_load_explicit(&slot->id, memory_order_relaxed);
}

#if !defined(VLI_SLOT_OWN_LIST)
static inline uintptr_t vli_slot_list(const struct vli_slab_slot *slot)
{
    return atomic_load_explicit(&slot->list, memory_order_relaxed);
}

static inline void vli_slot_set_list(struct vli_slab_slot *slot, uintptr_t list)
{
    atomic_store_explicit(&slot->list, list, memory_order_relaxed);
    atomic_store_explicit(&slot->id, vli_slot_id(slot) + VL_CPUS_MAX, memory_order_relaxed);
}
#endif

#endif
