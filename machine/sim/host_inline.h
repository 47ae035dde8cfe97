/*
 * host_inline.h - the hot part of the host contract on the simulated machine. Included by
 * <vellum/host.h>; nothing else needs to include it.
 *
 * A CPU is a thread; what belongs to it is thread-local. Interrupts are signals, and disabling
 * them is a flag, never a signal mask (measured: 10 cycles a pair against 1,465). A signal that
 * finds the flag set leaves a mark, and the restore that clears the flag runs the interrupt. The
 * handler of the signal restarts ranges (irq.c), but not under ThreadSanitizer, which calls it
 * elsewhere than where the signal came.
 */
#ifndef SIM_HOST_INLINE_H
#define SIM_HOST_INLINE_H

#include <stdatomic.h>
#include <vellum/types.h>

#if !defined(VLI_TSAN)
#define VL_HOST_RESTART 1
#endif

/* What the running CPU thread and its own signal handler share: hence volatile, and signal
 * fences, but no atomics. */
struct sim_self {
    volatile uint32_t irq_off;
    volatile uint32_t irq_pending;
    volatile uint32_t in_irq;
    volatile uint32_t preempt_off;
    uint32_t cpu;
    struct vl_thread thread;
};
extern _Thread_local struct sim_self sim_self;

/* Where physical address 0 would be seen. */
extern unsigned char *sim_ram_base;
#define VL_HOST_PHYS_LINEAR 1 /* one offset for all of it */
extern unsigned char sim_percpu[VL_CPUS_MAX][16384];

/** sim_irq_run_pending() - interrupts are on again and a signal left its mark: run it. */
void sim_irq_run_pending(void);
/** sim_cpu_relax_slow() - lets other CPU threads run; the simulated CPUs may outnumber the real. */
void sim_cpu_relax_slow(void);

static inline void *vl_host_phys_to_virt(struct vl_pa pa)
{
    return sim_ram_base + pa.a;
}
#define vl_host_phys_to_virt vl_host_phys_to_virt

static inline unsigned vl_host_cpu_id(void)
{
    return sim_self.cpu;
}
#define vl_host_cpu_id vl_host_cpu_id

static inline void *vl_host_percpu_area(unsigned cpu)
{
    return sim_percpu[cpu];
}
#define vl_host_percpu_area vl_host_percpu_area

/* Once in so many times a CPU is held up where interrupts go off or on, where preemption comes on,
 * and at events; 0: never (sim_hold_up()). */
extern unsigned sim_hold_up_one_in;
/** sim_hold_up_slow() - perhaps let another CPU thread run for a while. */
void sim_hold_up_slow(void);

#ifdef VL_EVENTS
static inline void sim_hold_up_maybe(void)
{
    if (__builtin_expect(sim_hold_up_one_in != 0, 0)) {
        sim_hold_up_slow();
    }
}
#else
static inline void sim_hold_up_maybe(void)
{
}
#endif

static inline unsigned long vl_host_irq_save(void)
{
    unsigned long flags = sim_self.irq_off;

    sim_hold_up_maybe();
    sim_self.irq_off = 1;
    atomic_signal_fence(memory_order_seq_cst);
    sim_hold_up_maybe();
    return flags;
}
#define vl_host_irq_save vl_host_irq_save

static inline void vl_host_irq_restore(unsigned long flags)
{
    atomic_signal_fence(memory_order_seq_cst);
    sim_hold_up_maybe();
    if (flags == 0) {
        sim_self.irq_off = 0;
        atomic_signal_fence(memory_order_seq_cst);
        if (__builtin_expect(sim_self.irq_pending != 0, 0)) {
            sim_irq_run_pending();
        }
    }
}
#define vl_host_irq_restore vl_host_irq_restore

static inline void vl_host_preempt_off(void)
{
    sim_self.preempt_off = sim_self.preempt_off + 1;
    atomic_signal_fence(memory_order_seq_cst);
}
#define vl_host_preempt_off vl_host_preempt_off

static inline void vl_host_preempt_on(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    sim_self.preempt_off = sim_self.preempt_off - 1;
    sim_hold_up_maybe();
}
#define vl_host_preempt_on vl_host_preempt_on

static inline void vl_host_cpu_relax(void)
{
    sim_cpu_relax_slow();
}
#define vl_host_cpu_relax vl_host_cpu_relax

static inline struct vl_thread *vl_host_thread(void)
{
    return &sim_self.thread;
}
#define vl_host_thread vl_host_thread

#endif
