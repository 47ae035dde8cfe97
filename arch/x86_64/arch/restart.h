/*
 * arch/restart.h (x86-64) - per-CPU stacks of pointers, as restartable ranges.
 *
 * The word at byte @at + 8 * @index of struct vli_percpu points one beyond the top of a stack. The
 * stack is a block of 512 bytes, aligned to 512: it is full when the word is aligned to 512, and
 * empty when the pointer below the word is 0, which stands below the lowest one. So neither pop nor
 * push loads a bound.
 *
 * Each is a range (include/vellum/restart.h): it reads the word, acts on it, and its last
 * instruction changes the word. Why that is right, whichever instruction an interrupt comes after:
 *   - before the last: the range starts anew, from registers that it does not change (@index,
 *     @unit, @pinned) and with nothing else read before. What it read is forgotten, so it does not
 *     matter that the interrupt pushed, popped, exchanged the whole stack, or that the thread goes
 *     on at another CPU, whose %gs words it then reads. A push may have written @unit above the top
 *     already: nobody looks there, and the next push there writes over it.
 *   - after the last: all is done, and it was one store, which no interrupt divides. Until then the
 *     word was still the one that was read, for there was no interrupt between, and no other CPU
 *     changes it.
 *   - the jump that leaves (empty, full) goes out of the range and has changed nothing.
 * To add to the word in place would save one instruction each way, and costs more: a pair takes 2.9
 * cycles so, 2.1 with the plain store (rdtsc, best of 4,000 rounds, one after the other in one
 * run).
 *
 * Only this CPU, its interrupts included, may use the words and what they point to; to take
 * another's, have that CPU do it (vl_host_cpu_call()). With %gs (VL_HOST_PERCPU_GS) the CPU is
 * chosen anew by each instruction, and preemption may stay on; elsewhere @pinned is what
 * vli_percpu_pin() gave, and the thread stays on its CPU till unpin.
 *
 * The assembly is volatile and clobbers memory: it reads and writes blocks that C code fills. The
 * empty one behind it is for gcc before 12.4, which may lose outputs of `asm goto` on the way that
 * falls through (its bug 113921).
 *
 * ThreadSanitizer sees nothing of assembly, and a host may not define VL_HOST_RESTART: there the
 * same is done in C with interrupts off.
 */
#ifndef VLI_ARCH_RESTART_H
#define VLI_ARCH_RESTART_H

#include "core/base/percpu.h"

/* Bytes of a stack's block, and its alignment. */
#define VLI_STACK_BYTES 512u

#if defined(VL_HOST_RESTART) && !defined(VLI_TSAN)
#define VLI_IS_RESTARTABLE 1

#define VLI_RANGE_BEGIN "771:\n\t"
#define VLI_RANGE_END                                                                              \
    "\n772:\n\t"                                                                                   \
    ".pushsection vl_restart, \"a\", @progbits\n\t"                                                \
    ".balign 4\n\t"                                                                                \
    ".long 771b - ., 772b - 771b\n\t"                                                              \
    ".popsection"

/* The word, and the operands that it needs. */
#if defined(VL_HOST_PERCPU_GS)
#define VLI_STACK_WORD "%%gs:%c[at](,%[index],8)"
#define VLI_STACK_PLACE(pinned, offset, number)                                                    \
    [at] "i"(VL_HOST_PERCPU_GS + (offset)), [index] "r"(number)
#else
#define VLI_STACK_WORD "%c[at](%[cpu],%[index],8)"
#define VLI_STACK_PLACE(pinned, offset, number)                                                    \
    [at] "i"(offset), [index] "r"(number), [cpu] "r"(pinned)
#endif

/** vli_stack_pop() - take the top pointer. Returns: it, or 0 when the stack is empty. */
static VLI_ALWAYS_INLINE uintptr_t vli_stack_pop(struct vli_percpu *pinned, size_t at, size_t index)
{
    uintptr_t unit;
    uintptr_t top;

    (void)pinned;
    __asm__ goto volatile(VLI_RANGE_BEGIN "movq " VLI_STACK_WORD ", %[top]\n\t"
                                          "movq -8(%[top]), %[unit]\n\t"
                                          "testq %[unit], %[unit]\n\t"
                                          "jz %l[empty]\n\t"
                                          "subq $8, %[top]\n\t"
                                          "movq %[top], " VLI_STACK_WORD VLI_RANGE_END
                          : [unit] "=&r"(unit), [top] "=&r"(top)
                          : VLI_STACK_PLACE(pinned, at, index)
                          : "cc", "memory"
                          : empty);
    __asm__ volatile("");
    VLI_ASSUME(unit != 0);
    return unit;
empty:
    return 0;
}

/** vli_stack_push() - put a pointer on top. Returns: false when the stack is full. */
static VLI_ALWAYS_INLINE bool vli_stack_push(struct vli_percpu *pinned, size_t at, size_t index,
                                             uintptr_t unit)
{
    uintptr_t top;

    (void)pinned;
    __asm__ goto volatile(
        VLI_RANGE_BEGIN "movq " VLI_STACK_WORD ", %[top]\n\t"
                        "testl %[mask], %k[top]\n\t"
                        "jz %l[full]\n\t"
                        "movq %[unit], (%[top])\n\t"
                        "addq $8, %[top]\n\t"
                        "movq %[top], " VLI_STACK_WORD VLI_RANGE_END
        : [top] "=&r"(top)
        : VLI_STACK_PLACE(pinned, at, index), [unit] "r"(unit), [mask] "i"(VLI_STACK_BYTES - 1)
        : "cc", "memory"
        : full);
    __asm__ volatile("");
    return true;
full:
    return false;
}

/** vli_stack_swap() - exchange the stack: @fresh takes the place of the word. Returns: the old one.
 */
static VLI_ALWAYS_INLINE uintptr_t vli_stack_swap(struct vli_percpu *pinned, size_t at,
                                                  size_t index, uintptr_t fresh)
{
    uintptr_t old;

    (void)pinned;
    __asm__ volatile(VLI_RANGE_BEGIN "movq " VLI_STACK_WORD ", %[old]\n\t"
                                     "movq %[fresh], " VLI_STACK_WORD VLI_RANGE_END
                     : [old] "=&r"(old)
                     : VLI_STACK_PLACE(pinned, at, index), [fresh] "r"(fresh)
                     : "memory");
    return old;
}

#else
#define VLI_IS_RESTARTABLE 0

/* Interrupts are off. */
static VLI_ALWAYS_INLINE _Atomic uintptr_t *vli_stack_word(struct vli_percpu *pinned, size_t at,
                                                           size_t index)
{
    struct vli_percpu *cpu = vli_percpu_peek(pinned);

    return (_Atomic uintptr_t *)(void *)((char *)cpu + at + 8 * index);
}

static VLI_ALWAYS_INLINE uintptr_t vli_stack_pop(struct vli_percpu *pinned, size_t at, size_t index)
{
    unsigned long flags = vl_host_irq_save();
    _Atomic uintptr_t *word = vli_stack_word(pinned, at, index);
    uintptr_t top = atomic_load_explicit(word, memory_order_relaxed);
    uintptr_t unit = ((uintptr_t *)top)[-1];

    if (unit != 0) {
        atomic_store_explicit(word, top - 8, memory_order_relaxed);
    }
    vl_host_irq_restore(flags);
    return unit;
}

static VLI_ALWAYS_INLINE bool vli_stack_push(struct vli_percpu *pinned, size_t at, size_t index,
                                             uintptr_t unit)
{
    unsigned long flags = vl_host_irq_save();
    _Atomic uintptr_t *word = vli_stack_word(pinned, at, index);
    uintptr_t top = atomic_load_explicit(word, memory_order_relaxed);
    bool has_room = (top & (VLI_STACK_BYTES - 1)) != 0;

    if (has_room) {
        *(uintptr_t *)top = unit;
        atomic_store_explicit(word, top + 8, memory_order_relaxed);
    }
    vl_host_irq_restore(flags);
    return has_room;
}

static VLI_ALWAYS_INLINE uintptr_t vli_stack_swap(struct vli_percpu *pinned, size_t at,
                                                  size_t index, uintptr_t fresh)
{
    unsigned long flags = vl_host_irq_save();
    _Atomic uintptr_t *word = vli_stack_word(pinned, at, index);
    uintptr_t old = atomic_load_explicit(word, memory_order_relaxed);

    atomic_store_explicit(word, fresh, memory_order_relaxed);
    vl_host_irq_restore(flags);
    return old;
}
#endif

#endif
