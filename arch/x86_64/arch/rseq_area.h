/*
 * arch/rseq_area.h (x86-64) - restartable sequences (rseq(2)) on the areas of CPUs in a Linux
 * process: what all strategies have in common. Their sequences are in rseq.h (sheaf) and
 * rseq_list.h (lists).
 *
 * A thread that is preempted, moved to another CPU or sent a signal between a sequence's start and
 * its last instruction goes on at the sequence's abort handler, which begins anew. So what an area
 * keeps is taken or added to by plain loads and one plain store, by whatever thread runs there.
 *
 * Each thread has a struct rseq at a fixed offset from its thread pointer, in which the kernel
 * keeps the number of its CPU. Two of its fields are used (the ABI is fixed,
 * include/uapi/linux/rseq.h):
 *
 *      0           4           8                  16
 *      | (start)   | cpu_id    | rseq_cs          |          cpu_id -1, -2: not registered
 *
 * A sequence stores the address of its descriptor into rseq_cs, then reads cpu_id, finds the area
 * of that number and does its work. Descriptors: version, flags, start, length, abort address,
 * aligned to 32; the four bytes before an abort handler are the signature with which glibc
 * registers. Nobody clears rseq_cs afterwards: the kernel does when it finds the thread elsewhere.
 * For this the code must stay mapped (the library is linked with -z nodelete).
 *
 * Who is stopped at every instruction (a debugger's single steps, a breakpoint inside a sequence,
 * the trap flag) would begin anew for ever. So of the process's aborts every eighth gives up, as if
 * nothing were kept and there were no room; the slow paths do without.
 *
 * Where nothing is registered, the offset leads to a struct of the same form in thread-local memory
 * of ours, whose cpu_id is the number of the thread: the very same instructions then work on areas
 * that belong to threads.
 *
 * An area that must not be used (it does not exist yet, or is being drained) is replaced in the
 * table by the stopped one, in which nothing is kept and nothing finds room, so that most sequences
 * need not look for it.
 *
 * ThreadSanitizer does not see into assembly: VLI_TSAN builds have plain C on areas of threads.
 */
#ifndef VLI_ARCH_RSEQ_AREA_H
#define VLI_ARCH_RSEQ_AREA_H

#include "core/base/percpu.h"

/* Areas that there can be: numbers -2 (none, for ever), -1 (none yet), 0 ... */
#define VLI_AREAS_MAX 8192u

/* Form of struct rseq, as far as it is used. */
struct vli_rseq {
    VLI_ALIGNED(32) uint32_t cpu_id_start;
    int32_t cpu_id;
    uint64_t rseq_cs;
    uint32_t flags;
};

/* Every word says that nothing is kept. */
extern struct vli_slab_percpu vli_area_stopped VLI_HIDDEN;

/** vli_slot_numbers() - CPUs, of which so many threads at most are at work at once. */
uint32_t vli_slot_numbers(void);

#if !defined(VLI_TSAN)
/* Area number n is entry 2 + n. */
extern struct vli_slab_percpu *vli_areas[VLI_AREAS_MAX + 2u] VLI_HIDDEN;
/* Aborts; those that meet here at once may count as one. */
extern uint32_t vli_rseq_aborts VLI_HIDDEN;
/* From the thread pointer to the struct rseq in use. Set before any of the functions below. */
extern int64_t vli_rseq_offset VLI_HIDDEN;
/* The one of ours. */
extern _Thread_local struct vli_rseq vli_rseq_own VLI_HIDDEN;

/** vli_rseq_at() - this thread's struct rseq at an offset from the thread pointer. */
static inline struct vli_rseq *vli_rseq_at(int64_t offset)
{
    uintptr_t thread;

    __asm__("movq %%fs:0, %0" : "=r"(thread));
    return (struct vli_rseq *)(thread + (uintptr_t)offset);
}

/* 771: anew; 772: the sequence; 773: behind it; 774: descriptor; 775: abort handler. */
#define VLI_RSEQ_BEGIN VLI_RSEQ_BEGIN_AFTER("")

/* With a first instruction or two of its own; %[temp] leads to rseq. */
#define VLI_RSEQ_BEGIN_AFTER(first)                                                                \
    "771:\n\t"                                                                                     \
    "movq vli_rseq_offset(%%rip), %[temp]\n\t" first "leaq 774f(%%rip), %[area]\n\t"               \
    "movq %[area], %%fs:8(%[temp])\n"                                                              \
    "772:\n\t"                                                                                     \
    "movslq %%fs:4(%[temp]), %[area]\n\t"                                                          \
    "leaq vli_areas+16(%%rip), %[temp]\n\t"                                                        \
    "movq (%[temp],%[area],8), %[area]\n\t"

/* @nothing: instructions that say that nothing was done; @give_up: where to go then. */
#define VLI_RSEQ_END(nothing, give_up)                                                             \
    "\n773:\n\t"                                                                                   \
    ".pushsection __rseq_cs, \"aw\", @progbits\n\t"                                                \
    ".balign 32\n"                                                                                 \
    "774:\n\t"                                                                                     \
    ".long 0, 0\n\t"                                                                               \
    ".quad 772b, 773b - 772b, 775f\n\t"                                                            \
    ".popsection\n\t"                                                                              \
    ".pushsection .text.vli_rseq_abort, \"ax\", @progbits\n\t"                                     \
    ".byte 0x0f, 0xb9, 0x3d\n\t"                                                                   \
    ".long 0x53053053\n"                                                                           \
    "775:\n\t" nothing "incl vli_rseq_aborts(%%rip)\n\t"                                           \
    "testb $7, vli_rseq_aborts(%%rip)\n\t"                                                         \
    "jz " give_up "\n\t"                                                                           \
    "jmp 771b\n\t"                                                                                 \
    ".popsection"

/* gcc 12 confuses the value that an output has behind a label with the one that it has where the
 * assembly ends: so both are what the code behind the label takes instead, or there is no label. */
#define VLI_RSEQ_NO_UNIT "xorl %k[unit], %k[unit]\n\t"
#define VLI_RSEQ_STOPPED "movl %[no], %k[old]\n\t"

/* A word of the area: %[index] counts from the area's first. */
#define VLI_RSEQ_WORD "(%[area],%[index],8)"

/** vli_area_swap() - word @place of the area in use becomes @word. Returns: what it was, which is
 * the caller's alone, or @stopped (32 bits) when nothing must be kept now, and nothing changed. */
VL_MUST_CHECK static VLI_ALWAYS_INLINE uintptr_t vli_area_swap(size_t place, uintptr_t word,
                                                               const uintptr_t stopped)
{
    uintptr_t old;
    uintptr_t temp;
    uintptr_t area;

    __asm__ volatile(VLI_RSEQ_BEGIN VLI_RSEQ_STOPPED
                     "leaq vli_area_stopped(%%rip), %[temp]\n\t"
                     "cmpq %[temp], %[area]\n\t"
                     "je 773f\n\t"
                     "movq " VLI_RSEQ_WORD ", %[old]\n\t"
                     "movq %[word], " VLI_RSEQ_WORD VLI_RSEQ_END(VLI_RSEQ_STOPPED, "773b")
                     : [old] "=&r"(old), [temp] "=&r"(temp), [area] "=&r"(area)
                     : [index] "r"(place), [word] "r"(word), [no] "i"(stopped)
                     : "cc", "memory");
    return old;
}

/* The end of taking; 776: nothing was taken. */
#define VLI_RSEQ_POP_END                                                                           \
    VLI_RSEQ_END(VLI_RSEQ_NO_UNIT, "%l[empty]")                                                    \
    "\n\t"                                                                                         \
    ".pushsection .text.vli_rseq_abort, \"ax\", @progbits\n"                                       \
    "776:\n\t" VLI_RSEQ_NO_UNIT "jmp %l[empty]\n\t"                                                \
    ".popsection"

/* Defines a function that takes a unit of VLI_RSEQ_WORD by a strategy's own instructions, @take:
 * the unit to %[unit], by one store, which is the last of them; where there is none, to 776,
 * whatever %[unit] is then. %[temp] is free. @begin: VLI_RSEQ_BEGIN, or with more. The empty
 * assembly: see arch/restart.h. */
#define VLI_RSEQ_DEFINE_POP(name, begin, take)                                                     \
    static VLI_ALWAYS_INLINE uintptr_t name(size_t index)                                          \
    {                                                                                              \
        uintptr_t unit;                                                                            \
        uintptr_t temp;                                                                            \
        uintptr_t area;                                                                            \
                                                                                                   \
        __asm__ goto volatile(begin take VLI_RSEQ_POP_END                                          \
                              : [unit] "=&a"(unit), [temp] "=&r"(temp), [area] "=&r"(area)         \
                              : [index] "r"(index)                                                 \
                              : "cc", "memory"                                                     \
                              : empty);                                                            \
        __asm__ volatile("");                                                                      \
        VLI_ASSUME(unit != 0);                                                                     \
        return unit;                                                                               \
    empty:                                                                                         \
        return 0;                                                                                  \
    }

/* Looks first whether vli_rseq_was_away(), and takes nothing then: two instructions here. */
#define VLI_RSEQ_BEGIN_LOOKING                                                                     \
    VLI_RSEQ_BEGIN_AFTER("cmpq $0, %%fs:8(%[temp])\n\t"                                            \
                         "je 776f\n\t")

/** vli_is_below() - is @value below @limit? The limit is read with acquire order; compilers load it
 * into a register first, where one instruction compares with it in memory. */
static VLI_ALWAYS_INLINE bool vli_is_below(size_t value, const _Atomic size_t *limit)
{
    __asm__ goto("cmpq %[limit], %[value]\n\t"
                 "jae %l[no]"
                 :
                 : [value] "r"(value), [limit] "m"(*limit)
                 : "cc", "memory"
                 : no);
    return true;
no:
    return false;
}

/** vli_slot_number() - number of the area that this thread would use now; any while it has none. */
static inline uint32_t vli_slot_number(void)
{
    uint32_t number;

    __asm__ volatile("movl %%fs:4(%[offset]), %[number]"
                     : [number] "=r"(number)
                     : [offset] "r"(vli_rseq_offset));
    return number;
}

/** vli_rseq_was_away() - has Linux run something else since this thread's last sequence? It clears
 * rseq_cs of who comes back and is in none. (Where areas are threads', never.) */
static VLI_ALWAYS_INLINE bool vli_rseq_was_away(void)
{
    bool away;

    __asm__ volatile("cmpq $0, %%fs:8(%[offset])"
                     : "=@ccz"(away)
                     : [offset] "r"(vli_rseq_offset)
                     : "memory");
    return away;
}

#else
static VLI_ALWAYS_INLINE bool vli_is_below(size_t value, const _Atomic size_t *limit)
{
    return value < atomic_load_explicit(limit, memory_order_acquire);
}

static VLI_ALWAYS_INLINE bool vli_rseq_was_away(void)
{
    return false;
}

/* This thread's area. */
extern _Thread_local struct vli_slab_percpu *vli_area_own VLI_HIDDEN;
extern _Thread_local uint32_t vli_area_number VLI_HIDDEN;

static inline uint32_t vli_slot_number(void)
{
    return vli_area_number;
}
#endif

#endif
