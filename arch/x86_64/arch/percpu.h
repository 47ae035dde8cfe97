/*
 * arch/percpu.h (x86-64) - access to this CPU's data. Included by core/base/percpu.h, whose struct
 * vli_percpu it addresses.
 *
 * With VL_HOST_PERCPU_GS one instruction both chooses the CPU and reads or changes its word, so
 * neither an interrupt nor a move to another CPU can come between; pin and unpin are nothing then.
 * Elsewhere the area's address is looked up first: pin keeps the thread on its CPU (preemption
 * off), and the single instruction still cannot be torn by an interrupt.
 *
 * A place is @at (a constant) plus @offset bytes into struct vli_percpu.
 *
 * Compare-and-exchange comes in two kinds. `local`: without the lock prefix, atomic against this
 * CPU's interrupts only, for words that no other CPU changes. `locked`: with it. ThreadSanitizer
 * cannot see into assembly: VLI_TSAN builds do without these (the callers use plain C with
 * interrupts off), and add through an atomic. So do hosts with VL_HOST_RSEQ, where all threads have
 * one CPU's data in common.
 */
#ifndef VLI_ARCH_PERCPU_H
#define VLI_ARCH_PERCPU_H

#include "core/base/percpu.h"

/* Two words that change together; lo is the one at the lower address. */
struct vli_pair {
    uint64_t lo;
    uint64_t hi;
};

#if defined(VL_HOST_PERCPU_GS)
/** vli_this_cpu() - this CPU's data: one load. True only with preemption or interrupts off. */
static inline struct vli_percpu *vli_this_cpu(void)
{
    struct vli_percpu *self;

    __asm__ volatile("movq %%gs:%c1, %0" : "=r"(self) : "i"(VL_HOST_PERCPU_GS));
    return self;
}

/** vli_percpu_pin() - begin accesses to this CPU's data; what it returns is handed to them. */
static VLI_ALWAYS_INLINE struct vli_percpu *vli_percpu_pin(void)
{
    return NULL;
}

/** vli_percpu_unpin() - ends them. */
static VLI_ALWAYS_INLINE void vli_percpu_unpin(void)
{
}

/** vli_percpu_peek() - some CPU's data: this one's at that moment. To read several words of one CPU
 * that a compare-and-exchange confirms later. */
static VLI_ALWAYS_INLINE struct vli_percpu *vli_percpu_peek(struct vli_percpu *pinned)
{
    (void)pinned;
    return vli_this_cpu();
}

/** vli_percpu_load() - one word of this CPU. In the order of the program. */
static VLI_ALWAYS_INLINE uint64_t vli_percpu_load(struct vli_percpu *pinned, size_t at,
                                                  size_t offset)
{
    uint64_t value;

    (void)pinned;
    __asm__ volatile("movq %%gs:%c[at](%[offset]), %[value]"
                     : [value] "=r"(value)
                     : [at] "i"(VL_HOST_PERCPU_GS + at), [offset] "r"(offset));
    return value;
}

/** vli_percpu_cas16_local() - exchange a pair of this CPU if it is *@old, which gets what was found
 * otherwise. */
static VLI_ALWAYS_INLINE bool vli_percpu_cas16_local(struct vli_percpu *pinned, size_t at,
                                                     size_t offset, struct vli_pair *old,
                                                     struct vli_pair fresh)
{
    bool done;

    (void)pinned;
    __asm__ volatile("cmpxchg16b %%gs:%c[at](%[offset])"
                     : "=@ccz"(done), "+a"(old->lo), "+d"(old->hi)
                     : [at] "i"(VL_HOST_PERCPU_GS + at), [offset] "r"(offset), "b"(fresh.lo),
                       "c"(fresh.hi)
                     : "memory");
    return done;
}

/** vli_percpu_cas16_locked() - the same, atomic against other CPUs too. */
static VLI_ALWAYS_INLINE bool vli_percpu_cas16_locked(struct vli_percpu *pinned, size_t at,
                                                      size_t offset, struct vli_pair *old,
                                                      struct vli_pair fresh)
{
    bool done;

    (void)pinned;
    __asm__ volatile("lock cmpxchg16b %%gs:%c[at](%[offset])"
                     : "=@ccz"(done), "+a"(old->lo), "+d"(old->hi)
                     : [at] "i"(VL_HOST_PERCPU_GS + at), [offset] "r"(offset), "b"(fresh.lo),
                       "c"(fresh.hi)
                     : "memory");
    return done;
}

/** vli_percpu_cas8_local() - exchange one word of this CPU, if it is @old. */
static VLI_ALWAYS_INLINE bool vli_percpu_cas8_local(struct vli_percpu *pinned, size_t at,
                                                    size_t offset, uint64_t old, uint64_t fresh)
{
    bool done;

    (void)pinned;
    __asm__ volatile("cmpxchgq %[fresh], %%gs:%c[at](%[offset])"
                     : "=@ccz"(done), "+a"(old)
                     : [at] "i"(VL_HOST_PERCPU_GS + at), [offset] "r"(offset), [fresh] "r"(fresh)
                     : "memory");
    return done;
}

/** vli_percpu_add() - add to the counter at byte @at of this CPU's data. One instruction, any
 * context, nothing pinned. */
static VLI_ALWAYS_INLINE void vli_percpu_add(size_t at, uint64_t n)
{
    __asm__ volatile("addq %1, %%gs:%c0" : : "i"(VL_HOST_PERCPU_GS + at), "er"(n) : "cc");
}

/** vli_percpu_add_here() - the same when @cpu is this CPU's data, preemption or interrupts off. */
static VLI_ALWAYS_INLINE void vli_percpu_add_here(struct vli_percpu *cpu, size_t at, uint64_t n)
{
    (void)cpu;
    vli_percpu_add(at, n);
}

#else
static inline struct vli_percpu *vli_this_cpu(void)
{
    return (struct vli_percpu *)vl_host_percpu_area(vl_host_cpu_id());
}

static VLI_ALWAYS_INLINE struct vli_percpu *vli_percpu_pin(void)
{
    vl_host_preempt_off();
    return vli_this_cpu();
}

static VLI_ALWAYS_INLINE void vli_percpu_unpin(void)
{
    vl_host_preempt_on();
}

static VLI_ALWAYS_INLINE struct vli_percpu *vli_percpu_peek(struct vli_percpu *pinned)
{
    return pinned;
}

#if !defined(VLI_TSAN) && !defined(VL_HOST_RSEQ)
static VLI_ALWAYS_INLINE uint64_t vli_percpu_load(struct vli_percpu *pinned, size_t at,
                                                  size_t offset)
{
    return *(volatile uint64_t *)(void *)((char *)pinned + at + offset);
}

static VLI_ALWAYS_INLINE bool vli_percpu_cas16_local(struct vli_percpu *pinned, size_t at,
                                                     size_t offset, struct vli_pair *old,
                                                     struct vli_pair fresh)
{
    bool done;

    __asm__ volatile("cmpxchg16b %c[at](%[cpu],%[offset])"
                     : "=@ccz"(done), "+a"(old->lo), "+d"(old->hi)
                     : [cpu] "r"(pinned), [at] "i"(at), [offset] "r"(offset), "b"(fresh.lo),
                       "c"(fresh.hi)
                     : "memory");
    return done;
}

static VLI_ALWAYS_INLINE bool vli_percpu_cas16_locked(struct vli_percpu *pinned, size_t at,
                                                      size_t offset, struct vli_pair *old,
                                                      struct vli_pair fresh)
{
    bool done;

    __asm__ volatile("lock cmpxchg16b %c[at](%[cpu],%[offset])"
                     : "=@ccz"(done), "+a"(old->lo), "+d"(old->hi)
                     : [cpu] "r"(pinned), [at] "i"(at), [offset] "r"(offset), "b"(fresh.lo),
                       "c"(fresh.hi)
                     : "memory");
    return done;
}

static VLI_ALWAYS_INLINE bool vli_percpu_cas8_local(struct vli_percpu *pinned, size_t at,
                                                    size_t offset, uint64_t old, uint64_t fresh)
{
    bool done;

    __asm__ volatile("cmpxchgq %[fresh], %c[at](%[cpu],%[offset])"
                     : "=@ccz"(done), "+a"(old)
                     : [cpu] "r"(pinned), [at] "i"(at), [offset] "r"(offset), [fresh] "r"(fresh)
                     : "memory");
    return done;
}

static VLI_ALWAYS_INLINE void vli_percpu_add_here(struct vli_percpu *cpu, size_t at, uint64_t n)
{
    __asm__ volatile("addq %[n], %c[at](%[cpu])"
                     :
                     : [cpu] "r"(cpu), [at] "i"(at), [n] "er"(n)
                     : "cc", "memory");
}
#else
static VLI_ALWAYS_INLINE void vli_percpu_add_here(struct vli_percpu *cpu, size_t at, uint64_t n)
{
    atomic_fetch_add_explicit((_Atomic uint64_t *)(void *)((char *)cpu + at), n,
                              memory_order_relaxed);
}
#endif

static VLI_ALWAYS_INLINE void vli_percpu_add(size_t at, uint64_t n)
{
    vli_percpu_add_here(vli_percpu_pin(), at, n);
    vli_percpu_unpin();
}
#endif

#endif
