/*
 * apic.c - the local APIC (Intel SDM vol. 3, chapter 11).
 *
 * x2APIC is used when the firmware left it on, since it cannot be left without a reset; otherwise
 * xAPIC, whose registers are in memory. The timer runs one-shot.
 */
#include "kernel/cpu/apic.h"
#include "kernel/cpu/acpi.h"
#include "kernel/cpu/cpu.h"
#include "kernel/cpu/features.h"
#include "kernel/cpu/io.h"
#include "kernel/cpu/irq.h"
#include "kernel/cpu/paging.h"
#include "kernel/lib/printk.h"
#include "kernel/sched/timer.h"

#define REG_ID            0x020u
#define REG_TPR           0x080u
#define REG_EOI           0x0b0u
#define REG_SPURIOUS      0x0f0u
#define REG_ICR           0x300u
#define REG_ICR_HIGH      0x310u
#define REG_LVT_TIMER     0x320u
#define REG_LVT_LINT0     0x350u
#define REG_LVT_LINT1     0x360u
#define REG_LVT_ERROR     0x370u
#define REG_TIMER_INITIAL 0x380u
#define REG_TIMER_CURRENT 0x390u
#define REG_TIMER_DIVIDE  0x3e0u

#define SPURIOUS_ENABLE 0x100u
#define LVT_MASKED      0x10000u
#define ICR_PENDING     0x1000u
#define ICR_ASSERT      0x4000u
#define ICR_NMI         0x400u
#define ICR_INIT        0x500u
#define ICR_STARTUP     0x600u
#define DIVIDE_BY_1     0xbu

#define BASE_ENABLE 0x800u
#define BASE_X2APIC 0x400u

#define CALIBRATE_NS 10000000u
#define ARM_NS_MAX   1000000000u /* the product below stays under 2^64 up to 4 ticks a ns */

static volatile uint32_t *registers; /* NULL: x2APIC */
static uint64_t timer_per_ns_32;     /* timer ticks a nanosecond, times 2^32 */

static uint32_t reg_read(unsigned reg)
{
    if (registers == NULL) {
        return (uint32_t)msr_read(MSR_X2APIC + (reg >> 4));
    }
    return registers[reg / 4];
}

static void reg_write(unsigned reg, uint32_t value)
{
    if (registers == NULL) {
        msr_write(MSR_X2APIC + (reg >> 4), value);
    } else {
        registers[reg / 4] = value;
    }
}

void apic_init(void)
{
    uint64_t base = msr_read(MSR_APIC_BASE);
    uint64_t pa = acpi_info()->local_apic_pa;

    if ((base & BASE_X2APIC) == 0) {
        registers = paging_map_io(pa != 0 ? pa : base & 0xffffff000ull, VL_PAGE_SIZE, false);
    }
}

void apic_enable(void)
{
    uint64_t base = msr_read(MSR_APIC_BASE);

    msr_write(MSR_APIC_BASE, base | BASE_ENABLE | (registers == NULL ? BASE_X2APIC : 0));
    reg_write(REG_TPR, 0);
    reg_write(REG_LVT_TIMER, LVT_MASKED);
    reg_write(REG_LVT_LINT0, LVT_MASKED);
    reg_write(REG_LVT_LINT1, ICR_NMI);
    reg_write(REG_LVT_ERROR, LVT_MASKED);
    reg_write(REG_SPURIOUS, SPURIOUS_ENABLE | VECTOR_SPURIOUS);
    reg_write(REG_TIMER_DIVIDE, DIVIDE_BY_1);
    reg_write(REG_LVT_TIMER, VECTOR_TIMER); /* one-shot */
}

uint32_t apic_id(void)
{
    return registers == NULL ? reg_read(REG_ID) : reg_read(REG_ID) >> 24;
}

void apic_end_of_interrupt(void)
{
    reg_write(REG_EOI, 0);
}

static void icr_write(uint32_t to, uint32_t command)
{
    unsigned long flags;

    if (registers == NULL) {
        __asm__ volatile("mfence" : : : "memory"); /* the MSR write does not wait for stores */
        msr_write(MSR_X2APIC + (REG_ICR >> 4), (uint64_t)to << 32 | command);
        return;
    }
    flags = vl_host_irq_save(); /* two writes that belong together */
    reg_write(REG_ICR_HIGH, to << 24);
    reg_write(REG_ICR, command);
    while ((reg_read(REG_ICR) & ICR_PENDING) != 0) {
        vl_host_cpu_relax();
    }
    vl_host_irq_restore(flags);
}

void apic_send(uint32_t to, unsigned vector)
{
    icr_write(to, ICR_ASSERT | vector);
}

void apic_send_nmi(uint32_t to)
{
    icr_write(to, ICR_ASSERT | ICR_NMI);
}

void apic_send_init(uint32_t to)
{
    icr_write(to, ICR_ASSERT | ICR_INIT);
}

void apic_send_startup(uint32_t to, uint64_t page_pa)
{
    icr_write(to, ICR_ASSERT | ICR_STARTUP | (uint32_t)(page_pa >> VL_PAGE_SHIFT));
}

void apic_timer_arm(uint64_t ns)
{
    uint64_t ticks = ns;

    if (ns != 0) {
        if (ns > ARM_NS_MAX) {
            ns = ARM_NS_MAX; /* it will be armed anew then */
        }
        ticks = ns * timer_per_ns_32 >> 32;
        ticks = ticks == 0 ? 1 : ticks > 0xffffffffu ? 0xffffffffu : ticks;
    }
    reg_write(REG_TIMER_INITIAL, (uint32_t)ticks);
}

void apic_timer_calibrate(void)
{
    uint64_t start;
    uint64_t end;
    uint32_t ticks;

    reg_write(REG_LVT_TIMER, LVT_MASKED | VECTOR_TIMER);
    reg_write(REG_TIMER_INITIAL, 0xffffffffu);
    start = clock_ns();
    do {
        end = clock_ns();
    } while (end - start < CALIBRATE_NS);
    ticks = 0xffffffffu - reg_read(REG_TIMER_CURRENT);
    reg_write(REG_TIMER_INITIAL, 0);
    reg_write(REG_LVT_TIMER, VECTOR_TIMER);
    timer_per_ns_32 = ((uint64_t)ticks << 32) / (end - start);
    if (timer_per_ns_32 == 0) {
        panic("apic: the timer does not count");
    }
}
