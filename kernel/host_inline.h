/*
 * host_inline.h - the hot part of the host contract, inline: each is one to three instructions on
 * %gs-relative memory. Included by <vellum/host.h>; nothing else needs to include it.
 */
#ifndef KERNEL_HOST_INLINE_H
#define KERNEL_HOST_INLINE_H

#include "kernel/cpu/gs.h"

#define VL_HOST_PERCPU_GS GS_CORE_AREA
#define VL_HOST_RESTART   1 /* irq_handle() does it */

/* All RAM is mapped here, read-write and not executable. */
#define DIRECT_MAP_BASE     0xffff800000000000ull
#define VL_HOST_PHYS_LINEAR 1 /* one offset for all of it */

static inline void *vl_host_phys_to_virt(struct vl_pa pa)
{
    return (void *)(uintptr_t)(pa.a + DIRECT_MAP_BASE);
}
#define vl_host_phys_to_virt vl_host_phys_to_virt

static inline unsigned vl_host_cpu_id(void)
{
    unsigned id;

    __asm__ volatile("movl %%gs:%c1, %0" : "=r"(id) : "i"(GS_ID));
    return id;
}
#define vl_host_cpu_id vl_host_cpu_id

static inline unsigned long vl_host_irq_save(void)
{
    unsigned long flags;

    __asm__ volatile("pushfq\n\tpopq %0\n\tcli" : "=r"(flags) : : "memory");
    return flags;
}
#define vl_host_irq_save vl_host_irq_save

static inline void vl_host_irq_restore(unsigned long flags)
{
    if ((flags & 0x200u) != 0) {
        __asm__ volatile("sti" : : : "memory");
    }
}
#define vl_host_irq_restore vl_host_irq_restore

static inline void vl_host_preempt_off(void)
{
    __asm__ volatile("incl %%gs:%c0" : : "i"(GS_PREEMPT) : "memory", "cc");
}
#define vl_host_preempt_off vl_host_preempt_off

/** preempt_on_slow() - depth reached zero and a switch is due: switch, if interrupts are on. */
void preempt_on_slow(void);

static inline void vl_host_preempt_on(void)
{
    unsigned char due;

    __asm__ volatile("decl %%gs:%c1\n\tsete %0" : "=r"(due) : "i"(GS_PREEMPT) : "memory", "cc");
    if (__builtin_expect(due, 0)) {
        preempt_on_slow();
    }
}
#define vl_host_preempt_on vl_host_preempt_on

static inline void vl_host_cpu_relax(void)
{
    __asm__ volatile("pause" : : : "memory");
}
#define vl_host_cpu_relax vl_host_cpu_relax

/* struct thread begins with its struct vl_thread. */
static inline struct vl_thread *vl_host_thread(void)
{
    struct vl_thread *thread;

    __asm__ volatile("movq %%gs:%c1, %0" : "=r"(thread) : "i"(GS_CURRENT));
    return thread;
}
#define vl_host_thread vl_host_thread

#endif
