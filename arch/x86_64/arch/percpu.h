/*
 * arch/percpu.h (x86-64) - access to this CPU's data.
 *
 * vli_this_cpu() needs preemption or interrupts off to stay true; vli_this_cpu_addr_of() likewise.
 * Compare-and-exchange on a pair comes in two kinds: `local` is a plain cmpxchg16b, atomic against
 * interrupts of this CPU only; `locked` carries the lock prefix. Under ThreadSanitizer both are
 * replaced by annotated C in base/ (VLI_TSAN).
 */
#ifndef VLI_ARCH_PERCPU_H
#define VLI_ARCH_PERCPU_H

#if defined(VL_HOST_PERCPU_GS)
/** vli_this_cpu() - this CPU's data: one load. */
static inline struct vli_percpu *vli_this_cpu(void)
{
    struct vli_percpu *self;

    __asm__ volatile("movq %%gs:%c1, %0" : "=r"(self) : "i"(VL_HOST_PERCPU_GS));
    return self;
}
#else
static inline struct vli_percpu *vli_this_cpu(void)
{
    return (struct vli_percpu *)vl_host_percpu_area(vl_host_cpu_id());
}
#endif

#endif
