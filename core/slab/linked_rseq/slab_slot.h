/*
 * slab_slot.h (linked_rseq) - the linked family in a process: a slot is one word, which restartable
 * sequences change (arch/rseq_list.h).
 */
#ifndef VLI_SLAB_SLOT_H
#define VLI_SLAB_SLOT_H

#include "core/base/percpu.h"
#include "arch/rseq_list.h"

/* Cache 0, nobody's, finds nothing and keeps nothing. */
#define VLI_AREA_INITIAL                                                                           \
    {                                                                                              \
        .list = { VLI_LIST_NONE }                                                                  \
    }

/** vli_unit_link() - the word of a free unit that holds the rest of its list. */
static inline _Atomic uintptr_t *vli_unit_link(uintptr_t unit)
{
    return (_Atomic uintptr_t *)unit;
}

/** vli_list_end() - what stands for no unit in a list of the slab at @base. */
static inline uintptr_t vli_list_end(uintptr_t base)
{
    return base | 1u;
}

/** vli_list_is_end() - is it no unit? */
static inline bool vli_list_is_end(uintptr_t list)
{
    return (list & 1u) != 0;
}

#endif
