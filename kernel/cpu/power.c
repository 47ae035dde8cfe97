/*
 * power.c - leaving: power off and restart, each by the surest way first.
 */
#include "kernel/cpu/acpi.h"
#include "kernel/cpu/cpu.h"
#include "kernel/cpu/io.h"
#include "kernel/cpu/smp.h"
#include "kernel/lib/printk.h"
#include "kernel/sched/timer.h"

#define SLEEP_ENABLE     (1u << 13)
#define SLEEP_TYPE_SHIFT 10u
#define OFF_WAIT_NS      1000000000u
#define KEYBOARD_STATUS  0x64u
#define KEYBOARD_RESET   0xfeu

_Noreturn void machine_halt(void)
{
    cpu_irq_off();
    smp_stop_others();
    for (;;) {
        __asm__ volatile("cli\n\thlt");
    }
}

_Noreturn void machine_poweroff(void)
{
    const struct acpi_info *acpi = acpi_info();

    cpu_irq_off();
    if (acpi->has_sleep && acpi->pm1a_control != 0) {
        io_out16(acpi->pm1a_control,
                 (uint16_t)((unsigned)acpi->sleep_type_a << SLEEP_TYPE_SHIFT | SLEEP_ENABLE));
        if (acpi->pm1b_control != 0) {
            io_out16(acpi->pm1b_control,
                     (uint16_t)((unsigned)acpi->sleep_type_b << SLEEP_TYPE_SHIFT | SLEEP_ENABLE));
        }
    }
    /* The machine may take a moment. */
    for (uint64_t until = clock_ns() + OFF_WAIT_NS; clock_ns() < until;) {
        vl_host_cpu_relax();
    }
    printk(VL_LOG_ERROR, "power: off did not work; halted");
    machine_halt();
}

/* An empty interrupt table and an exception: the CPU cannot go on and resets. */
static void triple_fault(void)
{
    static const struct {
        uint16_t limit;
        uint64_t base;
    } __attribute__((packed)) empty = {0, 0};

    __asm__ volatile("lidt %0\n\tint3" : : "m"(empty));
}

_Noreturn void machine_restart(void)
{
    const struct acpi_info *acpi = acpi_info();

    cpu_irq_off();
    if (acpi->reset_space == 1) {
        io_out8((uint16_t)acpi->reset_address, acpi->reset_value);
    }
    for (unsigned i = 0; i < 100000 && (io_in8(KEYBOARD_STATUS) & 2) != 0; i++) {
        vl_host_cpu_relax();
    }
    io_out8(KEYBOARD_STATUS, KEYBOARD_RESET);
    for (unsigned i = 0; i < 1000000; i++) {
        vl_host_cpu_relax();
    }
    triple_fault();
    machine_halt();
}
