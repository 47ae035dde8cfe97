/*
 * batch.h - several units at once, where a strategy has no better way than one after the other.
 *
 * A strategy that has one defines VLI_SLOT_OWN_BATCH and these two in its slab_slot.h.
 */
#ifndef VLI_SLAB_BATCH_H
#define VLI_SLAB_BATCH_H

#include "core/slab/slab.h"

#if !defined(VLI_SLOT_OWN_BATCH)
/**
 * vli_slot_pop_batch() - up to @count units of those that this CPU keeps of cache number @index.
 * @out: room for @count addresses of units.
 * Returns: how many were had; fewer when the CPU has no more, or an interrupt came between.
 * Context: any.
 */
static inline size_t vli_slot_pop_batch(size_t index, size_t count, void **out)
{
    size_t had = 0;
    uintptr_t unit;

    while (had < count && (unit = vli_slot_pop(index)) != 0) {
        out[had++] = (void *)unit;
    }
    return had;
}

/**
 * vli_slot_push_batch() - keep the units of @objects, in their order.
 * @shift: from a unit to its object.
 * Returns: how many were kept; the next one was not (see vli_slot_push()).
 * Context: any.
 */
static inline size_t vli_slot_push_batch(size_t index, uint32_t shift, size_t count,
                                         void *const *objects)
{
    size_t kept = 0;

    while (kept < count && vli_slot_push(index, (uintptr_t)objects[kept] - shift)) {
        kept++;
    }
    return kept;
}
#endif

#endif
