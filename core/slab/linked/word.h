/*
 * word.h (linked) - W, the word of a slab in its head frame's descriptor: how many units are free,
 * which is the first, and whether the slab is some CPU's current one (slab_state.h).
 */
#ifndef VLI_SLAB_WORD_H
#define VLI_SLAB_WORD_H

#include "core/frame/frame.h"

/* bits 0…19 head: offset of the first free unit / 8, plus 1; 0: none. 20…39 free: how many.
 * 40…59 units of the slab. 60 frozen. So slabs are up to 4 MiB long. */
#define VLI_SLAB_WORD_PART 20u
#define VLI_SLAB_WORD_MASK (((uint64_t)1 << VLI_SLAB_WORD_PART) - 1u)
#define VLI_SLAB_FROZEN    ((uint64_t)1 << 3u * VLI_SLAB_WORD_PART)

_Static_assert((VL_PAGE_SIZE << VL_ORDER_MAX) / 8u < VLI_SLAB_WORD_MASK,
               "any offset in any slab, and any count of units");

_Static_assert(offsetof(struct vl_frame, mappings) % 8 == 0 &&
                   offsetof(struct vl_frame, index_low) == offsetof(struct vl_frame, mappings) + 4,
               "one aligned word of 8 bytes");

static inline _Atomic uint64_t *vli_slab_word(struct vl_frame *head)
{
    return (_Atomic uint64_t *)(void *)&head->mappings;
}

/** vli_slab_word_empty() - W of a slab whose list is empty. @frozen: VLI_SLAB_FROZEN or 0. */
static inline uint64_t vli_slab_word_empty(uint32_t units, uint64_t frozen)
{
    return (uint64_t)units << 2u * VLI_SLAB_WORD_PART | frozen;
}

/** vli_slab_word_make() - W of a slab whose list begins with the unit at an offset. */
static inline uint64_t vli_slab_word_make(uintptr_t head_offset, uint32_t free, uint32_t units,
                                          uint64_t frozen)
{
    return (uint64_t)(head_offset / 8u + 1u) | (uint64_t)free << VLI_SLAB_WORD_PART |
           vli_slab_word_empty(units, frozen);
}

static inline uint32_t vli_slab_word_free(uint64_t word)
{
    return (uint32_t)(word >> VLI_SLAB_WORD_PART & VLI_SLAB_WORD_MASK);
}

static inline uint32_t vli_slab_word_units(uint64_t word)
{
    return (uint32_t)(word >> 2u * VLI_SLAB_WORD_PART & VLI_SLAB_WORD_MASK);
}

/** vli_slab_word_list() - address of the first free unit, 0 for none. */
static inline uintptr_t vli_slab_word_list(uint64_t word, uintptr_t base)
{
    uintptr_t head = word & VLI_SLAB_WORD_MASK;

    return head == 0 ? 0 : base + (head - 1u) * 8u;
}

#endif
