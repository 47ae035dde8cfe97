/*
 * word.h (linked) - W, the word of a slab in its head frame's descriptor: how many units are free,
 * which is the first, and whether the slab is some CPU's current one (slab_state.h).
 */
#ifndef VLI_SLAB_WORD_H
#define VLI_SLAB_WORD_H

#include "core/frame/frame.h"

/* bits 0…15 head: offset of the first free unit / 8, plus 1; 0: none. 16…31 free: how many.
 * 32…47 units of the slab. 48 frozen. */
#define VLI_SLAB_FROZEN ((uint64_t)1 << 48)

_Static_assert(offsetof(struct vl_frame, mappings) % 8 == 0 &&
                   offsetof(struct vl_frame, index_low) == offsetof(struct vl_frame, mappings) + 4,
               "one aligned word of 8 bytes");

static inline _Atomic uint64_t *vli_slab_word(struct vl_frame *head)
{
    return (_Atomic uint64_t *)(void *)&head->mappings;
}

static inline uint64_t vli_slab_word_make(uintptr_t head_offset, uint32_t free, uint32_t units,
                                          uint64_t frozen)
{
    return (uint64_t)(head_offset / 8u + 1u) | (uint64_t)free << 16 | (uint64_t)units << 32 |
           frozen;
}

static inline uint32_t vli_slab_word_free(uint64_t word)
{
    return (uint32_t)(word >> 16) & 0xffffu;
}

static inline uint32_t vli_slab_word_units(uint64_t word)
{
    return (uint32_t)(word >> 32) & 0xffffu;
}

/** vli_slab_word_list() - address of the first free unit, 0 for none. */
static inline uintptr_t vli_slab_word_list(uint64_t word, uintptr_t base)
{
    uintptr_t head = word & 0xffffu;

    return head == 0 ? 0 : base + (head - 1u) * 8u;
}

#endif
