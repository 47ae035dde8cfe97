/*
 * host_default.c - what the host need not supply: every function above tier 0, for one CPU without
 * interrupts, threads or an MMU.
 *
 * Each is weak, and steps aside where the embedder defines its own or names an inline one by
 * VL_HOST_INLINE. The embedder's must reach the linker as an object, or in an archive that stands
 * before libvellum.a: an archive that comes later is not searched for a name that a weak definition
 * has already answered.
 */
#include <vellum/host.h>
#include "core/base/compiler.h"

#ifndef vl_host_cpu_id
VLI_WEAK unsigned vl_host_cpu_id(void)
{
    return 0;
}
#endif

VLI_WEAK unsigned vl_host_cpu_count(void)
{
    return 1;
}

VLI_WEAK unsigned vl_host_cpu_node(unsigned cpu)
{
    (void)cpu;
    return 0;
}

VLI_WEAK unsigned vl_host_zone_node(unsigned zone)
{
    (void)zone;
    return 0;
}

VLI_WEAK unsigned vl_host_node_distance(unsigned from, unsigned to)
{
    return from == to ? 10 : 20;
}

#ifndef vl_host_percpu_area
VLI_WEAK void *vl_host_percpu_area(unsigned cpu)
{
    static VLI_ALIGNED(VLI_CACHELINE) unsigned char area[VL_PERCPU_BYTES];

    (void)cpu;
    return area;
}
#endif

VLI_WEAK void vl_host_cpu_call(const struct vl_cpumask *mask, void (*fn)(void *arg, unsigned cpu),
                               void *arg)
{
    unsigned long flags = vl_host_irq_save();
    unsigned cpu = vl_host_cpu_id();

    if ((mask->word[cpu / 64] >> (cpu % 64) & 1u) != 0) {
        fn(arg, cpu);
    }
    vl_host_irq_restore(flags);
}

#ifndef vl_host_irq_save
VLI_WEAK unsigned long vl_host_irq_save(void)
{
    return 0;
}
#endif

#ifndef vl_host_irq_restore
VLI_WEAK void vl_host_irq_restore(unsigned long flags)
{
    (void)flags;
}
#endif

#ifndef vl_host_preempt_off
VLI_WEAK void vl_host_preempt_off(void)
{
}
#endif

#ifndef vl_host_preempt_on
VLI_WEAK void vl_host_preempt_on(void)
{
}
#endif

#ifndef vl_host_cpu_relax
VLI_WEAK void vl_host_cpu_relax(void)
{
}
#endif

#ifndef vl_host_clock_ns
VLI_WEAK uint64_t vl_host_clock_ns(void)
{
    return 0;
}
#endif

VLI_WEAK enum vl_status vl_host_wait(const _Atomic uint32_t *word, uint32_t expected,
                                     uint64_t timeout_ns)
{
    (void)word;
    (void)expected;
    (void)timeout_ns;
    return VL_OK;
}

VLI_WEAK void vl_host_wake(const _Atomic uint32_t *word, unsigned count)
{
    (void)word;
    (void)count;
}

#ifndef vl_host_thread
VLI_WEAK struct vl_thread *vl_host_thread(void)
{
    static struct vl_thread only;

    return &only;
}
#endif

VLI_WEAK bool vl_host_may_sleep(void)
{
    return true;
}

VLI_WEAK void vl_host_defer(struct vl_work *work)
{
    work->run(work);
}

#ifndef vl_host_table_switch
VLI_WEAK void vl_host_table_switch(struct vl_pa root)
{
    (void)root;
}
#endif

VLI_WEAK void vl_host_flush_remote(const struct vl_cpumask *mask, struct vl_pa root,
                                   const struct vl_flush_range *ranges, size_t count)
{
    (void)mask;
    (void)root;
    (void)ranges;
    (void)count;
}

VLI_WEAK bool vl_host_out_of_memory(uint64_t frames)
{
    (void)frames;
    return false;
}

VLI_WEAK void vl_host_event(enum vl_event event, uint64_t a, uint64_t b)
{
    (void)event;
    (void)a;
    (void)b;
}

VLI_WEAK bool vl_host_alloc_fails(void)
{
    return false;
}
