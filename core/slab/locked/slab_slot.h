/*
 * slab_slot.h (locked) - as `local`, with the lock prefix: what the fast path costs when it asks
 * for more than it needs.
 */
#ifndef VLI_SLAB_SLOT_H
#define VLI_SLAB_SLOT_H

#include "core/base/percpu.h"

#if !defined(VLI_TSAN)
static VLI_ALWAYS_INLINE bool vli_slot_exchange(struct vli_percpu *pinned, size_t at, size_t offset,
                                                struct vli_pair *old, struct vli_pair fresh)
{
    return vli_percpu_cas16_locked(pinned, at, offset, old, fresh);
}
#endif

#include "core/slab/linked/slot_pair.h"

#endif
