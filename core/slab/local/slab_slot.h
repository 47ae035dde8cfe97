/*
 * slab_slot.h (local) - {list, id} change by one unlocked compare-and-exchange of 16 bytes: atomic
 * against this CPU's interrupts, which is all that can touch the slot.
 */
#ifndef VLI_SLAB_SLOT_H
#define VLI_SLAB_SLOT_H

#include "core/base/percpu.h"

#if !defined(VLI_TSAN)
static VLI_ALWAYS_INLINE bool vli_slot_exchange(struct vli_percpu *pinned, size_t at, size_t offset,
                                                struct vli_pair *old, struct vli_pair fresh)
{
    return vli_percpu_cas16_local(pinned, at, offset, old, fresh);
}
#endif

#include "core/slab/linked/slot_pair.h"

#endif
