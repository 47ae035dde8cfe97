/*
 * smp.c - starting the other CPUs, and interrupting them.
 *
 * Each CPU is started by INIT and start-up interrupts (Intel SDM vol. 3, 8.4) at a page below 1 MiB
 * that holds a copy of trampoline.S; it walks through real and protected mode with a root of page
 * tables that also maps that page, arrives in smp_cpu_entry() on its own stack, and from then on
 * uses the kernel's root. One CPU starts at a time.
 *
 * Calls of functions: one at a time, serialised by a word; every CPU that is meant runs the
 * function in its interrupt and counts itself off.
 */
#include "kernel/cpu/smp.h"
#include <vellum/vellum.h>
#include "core/base/assert.h"
#include "kernel/boot/memory.h"
#include "kernel/cpu/acpi.h"
#include "kernel/cpu/apic.h"
#include "kernel/cpu/cpu.h"
#include "kernel/cpu/features.h"
#include "kernel/cpu/io.h"
#include "kernel/cpu/irq.h"
#include "kernel/cpu/paging.h"
#include "kernel/lib/mem.h"
#include "kernel/lib/printk.h"
#include "kernel/sched/sched.h"
#include "kernel/sched/thread.h"
#include "kernel/sched/timer.h"

#define START_WAIT_NS 1000000000u
#define CPU_PAGES     ((sizeof(struct cpu) + VL_PAGE_SIZE - 1) / VL_PAGE_SIZE)
#define IST_PAGES     ((IST_COUNT - 1) * IST_STACK_BYTES / VL_PAGE_SIZE)

/* What trampoline.S is told, at the end of its page. */
struct trampoline_data {
    uint64_t root;
    uint64_t entry;
    uint64_t stack_top;
    uint64_t cpu;
};

extern const char trampoline_start[], trampoline_end[], trampoline_data[];

static struct cpu *cpus[VL_CPUS_MAX];
static void *ist_stacks[VL_CPUS_MAX];
static unsigned known_count; /* found in the tables */
static _Atomic unsigned running_count;
static _Atomic uint32_t stopping;

struct cpu *cpu_of(unsigned id)
{
    return cpus[id];
}

unsigned cpu_count(void)
{
    return atomic_load_explicit(&running_count, memory_order_relaxed);
}

unsigned smp_known_count(void)
{
    return known_count;
}

/* Debug builds of the core keep the ranks of locks there, even before vl_init(), which sets the
 * same word. */
static void prepare_core_area(struct cpu *cpu)
{
    *(void **)(void *)cpu->core_area = cpu->core_area;
}

void smp_boot_cpu(void)
{
    static struct cpu first;

    cpus[0] = &first;
    first.self = &first;
    first.preempt = PREEMPT_NO_RESCHED;
    prepare_core_area(&first);
    msr_write(MSR_GS_BASE, (uint64_t)(uintptr_t)&first);
}

static void make_cpu(unsigned id, uint32_t apic)
{
    struct cpu *cpu = id == 0 ? cpus[0] : boot_alloc(CPU_PAGES);

    cpu->self = cpu;
    cpu->id = id;
    cpu->apic_id = apic;
    cpu->preempt = PREEMPT_NO_RESCHED;
    ist_stacks[id] = boot_alloc(IST_PAGES);
    prepare_core_area(cpu);
    cpus[id] = cpu;
}

void smp_prepare(void)
{
    const struct acpi_info *acpi = acpi_info();
    uint32_t self = apic_id();

    make_cpu(0, self);
    known_count = 1;
    /* A build without locks is for one CPU. */
    for (unsigned i = 0; VL_SMP && i < acpi->cpu_count && known_count < VL_CPUS_MAX; i++) {
        if (acpi->apic_ids[i] != self) {
            make_cpu(known_count++, acpi->apic_ids[i]);
        }
    }
    atomic_store_explicit(&running_count, 1, memory_order_relaxed);
    tables_init(cpus[0], ist_stacks[0]);
}

/* First C code of a started CPU, on its idle thread's stack, interrupts off. */
_Noreturn void smp_cpu_entry(struct cpu *cpu)
{
    cr3_write(paging_root().a);
    cpu->active_root = paging_root().a;
    tables_init(cpu, ist_stacks[cpu->id]);
    cpu_features_enable();
    apic_enable();
    vl_cpu_online(cpu->id);
    sched_cpu_online(cpu);
    /* Release: pairs with the acquire in start_one(). */
    atomic_store_explicit(&cpu->online, 1, memory_order_release);
    sched_idle_loop();
}

static bool wait_online(struct cpu *cpu, uint64_t wait_ns)
{
    uint64_t until = clock_ns() + wait_ns;

    do {
        /* Acquire: pairs with the release in smp_cpu_entry(). */
        if (atomic_load_explicit(&cpu->online, memory_order_acquire) != 0) {
            return true;
        }
        vl_host_cpu_relax();
    } while (clock_ns() < until);
    return false;
}

static bool start_one(struct cpu *cpu, volatile struct trampoline_data *data, uint64_t page_pa)
{
    uint64_t pause_until;

    data->stack_top = cpu->idle->stack_top;
    data->cpu = (uint64_t)(uintptr_t)cpu;
    apic_send_init(cpu->apic_id);
    for (pause_until = clock_ns() + 10000000; clock_ns() < pause_until;) {
        vl_host_cpu_relax();
    }
    apic_send_startup(cpu->apic_id, page_pa);
    if (wait_online(cpu, 20000000)) {
        return true;
    }
    apic_send_startup(cpu->apic_id, page_pa);
    return wait_online(cpu, START_WAIT_NS);
}

/* A page of RAM below 640 KiB, still reserved. */
static uint64_t trampoline_page(void)
{
    for (uint64_t pa = 0x8000; pa < 0x90000; pa += VL_PAGE_SIZE) {
        if (boot_memory_is_ram(pa, pa + VL_PAGE_SIZE)) {
            return pa;
        }
    }
    return 0;
}

void smp_start_others(void)
{
    uint64_t pa = trampoline_page();
    char *page = vl_host_phys_to_virt((struct vl_pa){pa});
    volatile struct trampoline_data *data =
        (volatile struct trampoline_data *)(void *)(page + (trampoline_data - trampoline_start));

    if (known_count == 1 || pa == 0) {
        return;
    }
    memcpy(page, trampoline_start, (size_t)(trampoline_end - trampoline_start));
    data->root = paging_trampoline_root(pa);
    data->entry = (uint64_t)(uintptr_t)smp_cpu_entry;
    for (unsigned id = 1; id < known_count; id++) {
        if (!sched_prepare_cpu(cpus[id])) {
            printk(VL_LOG_WARNING, "smp: no memory for CPU %u", id);
            break;
        }
        if (!start_one(cpus[id], data, pa)) {
            /* Numbers must stay without gaps: those behind it are left out. */
            printk(VL_LOG_WARNING, "smp: CPU %u (APIC %u) does not start", id, cpus[id]->apic_id);
            break;
        }
        atomic_store_explicit(&running_count, id + 1, memory_order_relaxed);
    }
}

/* ------------------------------------------------------------------------------- interrupting */

static struct {
    void (*function)(void *arg, unsigned cpu);
    void *arg;
    _Atomic uint32_t left;
    _Atomic uint32_t busy;
} call;

static void call_interrupt(void *arg)
{
    (void)arg;
    call.function(call.arg, vl_host_cpu_id());
    /* Release: what the function did is seen by the caller's acquire. */
    atomic_fetch_sub_explicit(&call.left, 1, memory_order_release);
}

static bool is_member(const struct vl_cpumask *mask, unsigned cpu)
{
    return (mask->word[cpu / 64] >> (cpu % 64) & 1) != 0;
}

void vl_host_cpu_call(const struct vl_cpumask *mask, void (*fn)(void *arg, unsigned cpu), void *arg)
{
    unsigned long flags;
    unsigned self;

    vl_host_preempt_off();
    self = vl_host_cpu_id();
    while (atomic_exchange_explicit(&call.busy, 1, memory_order_acquire) != 0) {
        vl_host_cpu_relax(); /* interrupts are on: this CPU answers the other's call meanwhile */
    }
    call.function = fn;
    call.arg = arg;
    /* One for this loop, so that it cannot become 0 before all are asked. */
    atomic_store_explicit(&call.left, 1, memory_order_release);
    for (unsigned id = 0; id < cpu_count(); id++) {
        if (id != self && is_member(mask, id)) {
            atomic_fetch_add_explicit(&call.left, 1, memory_order_release);
            apic_send(cpus[id]->apic_id, VECTOR_CALL);
        }
    }
    flags = vl_host_irq_save();
    /* For itself, and for those that the tables name and that do not run. */
    for (unsigned id = 0; id < known_count; id++) {
        if (is_member(mask, id) && (id == self || id >= cpu_count())) {
            fn(arg, id);
        }
    }
    vl_host_irq_restore(flags);
    while (atomic_load_explicit(&call.left, memory_order_acquire) != 1) {
        vl_host_cpu_relax();
    }
    atomic_store_explicit(&call.busy, 0, memory_order_release);
    vl_host_preempt_on();
}

void smp_init_vectors(void)
{
    irq_set_vector(VECTOR_CALL, call_interrupt, NULL);
}

void smp_resched(unsigned id)
{
    apic_send(cpus[id]->apic_id, VECTOR_RESCHED);
}

/* --------------------------------------------------------------------------------- stopping */

bool smp_is_stopping(void)
{
    return atomic_load_explicit(&stopping, memory_order_relaxed) != 0;
}

_Noreturn void smp_stop_this(void)
{
    for (;;) {
        __asm__ volatile("cli\n\thlt");
    }
}

void smp_stop_others(void)
{
    unsigned self;

    if (known_count == 0 || atomic_exchange_explicit(&stopping, 1, memory_order_relaxed) != 0) {
        return;
    }
    self = vl_host_cpu_id();
    for (unsigned id = 0; id < cpu_count(); id++) {
        if (id != self) {
            apic_send_nmi(cpus[id]->apic_id);
        }
    }
}
