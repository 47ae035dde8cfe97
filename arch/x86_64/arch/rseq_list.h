/*
 * arch/rseq_list.h (x86-64) - per-CPU lists through free units in a Linux process, by restartable
 * sequences (rseq_area.h): the contract of slab_slot.h for the linked family.
 *
 * A slot is one word, so that whatever changes it is one store:
 *
 *      a unit       the first of the list. Its first word is such a word again: the rest.
 *      base | 1     no unit; the slab at @base is the slot's
 *      1            no slab at all (VLI_LIST_NONE)
 *
 * So a list of any length names its slab: its units lie in it, and its end has the name. Slabs of
 * one cache have one length, a power of 2, and are aligned to it; what differs from the slot's word
 * in higher bits than those of an offset is of another slab.
 *
 * Reading the link of a unit is safe: who was interrupted since he read the slot's word does not
 * come to it.
 */
#ifndef VLI_ARCH_RSEQ_LIST_H
#define VLI_ARCH_RSEQ_LIST_H

#include "arch/rseq_area.h"

/* No list. */
#define VLI_LIST_NONE ((uintptr_t)1)
/* No word of a slot: what a swap returns where nothing must be kept now. */
#define VLI_LIST_STOPPED ((uintptr_t)3)

/* Length of the slabs of each cache; 0: there is no such cache, and no slot ever has anything. */
extern uintptr_t vli_list_slab_bytes[VLI_CACHES_MAX] VLI_HIDDEN;

#if !defined(VLI_TSAN)
/* The first unit, if there is one; its link becomes the word. */
#define VLI_RSEQ_TAKE                                                                              \
    "movq " VLI_RSEQ_WORD ", %[unit]\n\t"                                                          \
    "testb $1, %b[unit]\n\t"                                                                       \
    "jnz 776f\n\t"                                                                                 \
    "movq (%[unit]), %[temp]\n\t"                                                                  \
    "movq %[temp], " VLI_RSEQ_WORD

/* vli_slot_pop() - as slab.h has it; vli_slot_pop_or_look() - the same, but 0 also if
 * vli_rseq_was_away(). */
VLI_RSEQ_DEFINE_POP(vli_slot_pop, VLI_RSEQ_BEGIN, VLI_RSEQ_TAKE)
VLI_RSEQ_DEFINE_POP(vli_slot_pop_or_look, VLI_RSEQ_BEGIN_LOOKING, VLI_RSEQ_TAKE)

/** vli_slot_push() - as slab.h has it: units of the slot's slab only. */
VL_MUST_CHECK static VLI_ALWAYS_INLINE bool vli_slot_push(size_t index, uintptr_t unit)
{
    uintptr_t bytes = vli_list_slab_bytes[index];
    uintptr_t temp;
    uintptr_t area;
    uintptr_t apart;

    __asm__ goto volatile(VLI_RSEQ_BEGIN
                          "movq " VLI_RSEQ_WORD ", %[temp]\n\t"
                          "movq %[temp], %[apart]\n\t"
                          "xorq %[unit], %[apart]\n\t"
                          "cmpq %[bytes], %[apart]\n\t"
                          "jae %l[other]\n\t"
                          "movq %[temp], (%[unit])\n\t"
                          "movq %[unit], " VLI_RSEQ_WORD VLI_RSEQ_END("", "%l[other]")
                          : [temp] "=&r"(temp), [area] "=&r"(area), [apart] "=&r"(apart)
                          : [index] "r"(index), [unit] "r"(unit), [bytes] "r"(bytes)
                          : "cc", "memory"
                          : other);
    __asm__ volatile("");
    return true;
other:
    return false;
}

/** vli_list_swap() - this CPU's slot of cache @index becomes @list. Returns: what it was, which is
 * the caller's alone, or VLI_LIST_STOPPED when nothing must be kept now, and nothing changed. */
VL_MUST_CHECK static inline uintptr_t vli_list_swap(size_t index, uintptr_t list)
{
    return vli_area_swap(index, list, VLI_LIST_STOPPED);
}

#else
static VLI_ALWAYS_INLINE uintptr_t vli_slot_pop(size_t index)
{
    _Atomic uintptr_t *word = &vli_area_own->list[index];
    uintptr_t unit = atomic_load_explicit(word, memory_order_relaxed);

    if ((unit & 1u) != 0) {
        return 0;
    }
    atomic_store_explicit(word,
                          atomic_load_explicit((_Atomic uintptr_t *)unit, memory_order_relaxed),
                          memory_order_relaxed);
    return unit;
}

static VLI_ALWAYS_INLINE uintptr_t vli_slot_pop_or_look(size_t index)
{
    return vli_slot_pop(index);
}

VL_MUST_CHECK static VLI_ALWAYS_INLINE bool vli_slot_push(size_t index, uintptr_t unit)
{
    _Atomic uintptr_t *word = &vli_area_own->list[index];
    uintptr_t old = atomic_load_explicit(word, memory_order_relaxed);

    if ((old ^ unit) >= vli_list_slab_bytes[index]) {
        return false;
    }
    atomic_store_explicit((_Atomic uintptr_t *)unit, old, memory_order_relaxed);
    atomic_store_explicit(word, unit, memory_order_relaxed);
    return true;
}

VL_MUST_CHECK static inline uintptr_t vli_list_swap(size_t index, uintptr_t list)
{
    _Atomic uintptr_t *word = &vli_area_own->list[index];
    uintptr_t old = atomic_load_explicit(word, memory_order_relaxed);

    if (vli_area_own == &vli_area_stopped) {
        return VLI_LIST_STOPPED;
    }
    atomic_store_explicit(word, list, memory_order_relaxed);
    return old;
}
#endif

#endif
