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
#define VLI_RSEQ_WORD "%c[at](%[area],%[index],8)"

/* Offset of the first word of the sheaves in use, or of the spares, in an area. */
#define VLI_RSEQ_AT(which) ((which)*VLI_CACHES_MAX * sizeof(uintptr_t))

/** vli_slot_pop() - as slab.h has it. The empty assembly: see arch/restart.h. */
static VLI_ALWAYS_INLINE uintptr_t vli_slot_pop(size_t index)
{
    uintptr_t unit;
    uintptr_t temp;
    uintptr_t area;

    __asm__ goto volatile(VLI_RSEQ_BEGIN
                          "movq " VLI_RSEQ_WORD ", %[temp]\n\t"
                          "movq -8(%[temp]), %[unit]\n\t"
                          "testq %[unit], %[unit]\n\t"
                          "jz %l[empty]\n\t"
                          "subq $8, " VLI_RSEQ_WORD VLI_RSEQ_END(VLI_RSEQ_NO_UNIT, "%l[empty]")
                          : [unit] "=&a"(unit), [temp] "=&r"(temp), [area] "=&r"(area)
                          : [at] "i"(VLI_RSEQ_AT(VLI_SHEAF_TOP)), [index] "r"(index)
                          : "cc", "memory"
                          : empty);
    __asm__ volatile("");
    VLI_ASSUME(unit != 0);
    return unit;
empty:
    return 0;
}

/** vli_slot_pop_or_look() - the same, but 0 also if vli_rseq_was_away(), which is found out by two
 * instructions here. */
static VLI_ALWAYS_INLINE uintptr_t vli_slot_pop_or_look(size_t index)
{
    uintptr_t unit;
    uintptr_t temp;
    uintptr_t area;

    __asm__ goto volatile(
        VLI_RSEQ_BEGIN_AFTER("cmpq $0, %%fs:8(%[temp])\n\t"
                             "je %l[empty]\n\t") "movq " VLI_RSEQ_WORD ", %[temp]\n\t"
                                                 "movq -8(%[temp]), %[unit]\n\t"
                                                 "testq %[unit], %[unit]\n\t"
                                                 "jz %l[empty]\n\t"
                                                 "subq $8, " VLI_RSEQ_WORD VLI_RSEQ_END(
                                                     VLI_RSEQ_NO_UNIT, "%l[empty]")
        : [unit] "=&a"(unit), [temp] "=&r"(temp), [area] "=&r"(area)
        : [at] "i"(VLI_RSEQ_AT(VLI_SHEAF_TOP)), [index] "r"(index)
        : "cc", "memory"
        : empty);
    __asm__ volatile("");
    VLI_ASSUME(unit != 0);
    return unit;
empty:
    return 0;
}

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
                          : [at] "i"(VLI_RSEQ_AT(VLI_SHEAF_TOP)), [index] "r"(index),
                            [unit] "r"(unit), [mask] "i"(VLI_SHEAF_BYTES - 1)
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
    size_t place = index + which * VLI_CACHES_MAX;
    uintptr_t old;
    uintptr_t temp;
    uintptr_t area;

    __asm__ volatile(VLI_RSEQ_BEGIN VLI_RSEQ_STOPPED
                     "leaq vli_area_stopped(%%rip), %[temp]\n\t"
                     "cmpq %[temp], %[area]\n\t"
                     "je 773f\n\t"
                     "movq " VLI_RSEQ_WORD ", %[old]\n\t"
                     "movq %[top], " VLI_RSEQ_WORD VLI_RSEQ_END(VLI_RSEQ_STOPPED, "773b")
                     : [old] "=&r"(old), [temp] "=&r"(temp), [area] "=&r"(area)
                     : [at] "i"(0), [index] "r"(place), [top] "r"(top), [no] "i"(VLI_SHEAF_STOPPED)
                     : "cc", "memory");
    return old;
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
