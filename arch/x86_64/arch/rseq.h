/*
 * arch/rseq.h (x86-64) - per-CPU sheaves in a Linux process, by restartable sequences
 * (rseq_area.h). The same contract as arch/restart.h gives the kernel.
 *
 * In the stopped area every sheaf is VLI_SHEAF_NONE, so that pop finds nothing and push no room;
 * swap alone looks for it.
 */
#ifndef VLI_ARCH_RSEQ_H
#define VLI_ARCH_RSEQ_H

#include "arch/rseq_area.h"

#if !defined(VLI_TSAN)
/* The sheaves in use are an area's first words, the spares come after them. */
_Static_assert(VLI_SHEAF_TOP == 0 && offsetof(struct vli_slab_percpu, sheaf) == 0, "no offset");

/* free() goes by a map of pages (rseq_free.h). */
#define VLI_SLOT_BY_MAP 1

/* What the last word below the top holds: 0 where the sheaf is empty. */
#define VLI_RSEQ_TAKE                                                                              \
    "movq " VLI_RSEQ_WORD ", %[temp]\n\t"                                                          \
    "movq -8(%[temp]), %[unit]\n\t"                                                                \
    "testq %[unit], %[unit]\n\t"                                                                   \
    "jz 776f\n\t"                                                                                  \
    "subq $8, " VLI_RSEQ_WORD

/* vli_slot_pop() - as slab.h has it; vli_slot_pop_or_look() - the same, but 0 also if
 * vli_rseq_was_away(). */
VLI_RSEQ_DEFINE_POP(vli_slot_pop, VLI_RSEQ_BEGIN, VLI_RSEQ_TAKE)
VLI_RSEQ_DEFINE_POP(vli_slot_pop_or_look, VLI_RSEQ_BEGIN_LOOKING, VLI_RSEQ_TAKE)

/** vli_slot_push() - as slab.h has it. */
VL_MUST_CHECK static VLI_ALWAYS_INLINE bool vli_slot_push(size_t index, uintptr_t unit)
{
    uintptr_t temp;
    uintptr_t area;

    __asm__ goto volatile(VLI_RSEQ_BEGIN "movq " VLI_RSEQ_WORD ", %[temp]\n\t"
                                         "testl %[mask], %k[temp]\n\t"
                                         "jz %l[full]\n\t"
                                         "movq %[unit], (%[temp])\n\t"
                                         "addq $8, " VLI_RSEQ_WORD VLI_RSEQ_END("", "%l[full]")
                          : [temp] "=&r"(temp), [area] "=&r"(area)
                          : [index] "r"(index), [unit] "r"(unit), [mask] "i"(VLI_SHEAF_BYTES - 1)
                          : "cc", "memory"
                          : full);
    __asm__ volatile("");
    return true;
full:
    return false;
}

/** vli_slot_swap() - as slab_slot.h has it. */
VL_MUST_CHECK static inline uintptr_t vli_slot_swap(size_t index, enum vli_sheaf_which which,
                                                    uintptr_t top)
{
    return vli_area_swap(index + which * VLI_CACHES_MAX, top, VLI_SHEAF_STOPPED);
}

#else
static VLI_ALWAYS_INLINE uintptr_t vli_slot_pop(size_t index)
{
    _Atomic uintptr_t *word = &vli_area_own->sheaf[VLI_SHEAF_TOP][index];
    uintptr_t top = atomic_load_explicit(word, memory_order_relaxed);
    uintptr_t unit = ((uintptr_t *)top)[-1];

    if (unit != 0) {
        atomic_store_explicit(word, top - 8, memory_order_relaxed);
    }
    return unit;
}

static VLI_ALWAYS_INLINE uintptr_t vli_slot_pop_or_look(size_t index)
{
    return vli_slot_pop(index);
}

VL_MUST_CHECK static VLI_ALWAYS_INLINE bool vli_slot_push(size_t index, uintptr_t unit)
{
    _Atomic uintptr_t *word = &vli_area_own->sheaf[VLI_SHEAF_TOP][index];
    uintptr_t top = atomic_load_explicit(word, memory_order_relaxed);

    if ((top & (VLI_SHEAF_BYTES - 1u)) == 0) {
        return false;
    }
    *(uintptr_t *)top = unit;
    atomic_store_explicit(word, top + 8, memory_order_relaxed);
    return true;
}

VL_MUST_CHECK static inline uintptr_t vli_slot_swap(size_t index, enum vli_sheaf_which which,
                                                    uintptr_t top)
{
    _Atomic uintptr_t *word = &vli_area_own->sheaf[which][index];
    uintptr_t old = atomic_load_explicit(word, memory_order_relaxed);

    if (vli_area_own == &vli_area_stopped) {
        return VLI_SHEAF_STOPPED;
    }
    atomic_store_explicit(word, top, memory_order_relaxed);
    return old;
}
#endif

#endif
