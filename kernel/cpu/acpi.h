/*
 * acpi.h - the few ACPI tables that a PC needs to start its CPUs and to stop.
 */
#ifndef KERNEL_CPU_ACPI_H
#define KERNEL_CPU_ACPI_H

#include <vellum/types.h>

#define ACPI_OVERRIDES_MAX 16u
#define ACPI_IO_APICS_MAX  4u

/* ISA line @line arrives as global interrupt @gsi. */
struct acpi_override {
    uint8_t line;
    uint8_t active_low;
    uint8_t level;
    uint32_t gsi;
};

struct acpi_io_apic {
    uint64_t pa;
    uint32_t gsi_base;
};

struct acpi_info {
    uint32_t apic_ids[VL_CPUS_MAX]; /* enabled CPUs; the first CPU is not necessarily first */
    unsigned cpu_count;
    uint64_t local_apic_pa;
    struct acpi_override overrides[ACPI_OVERRIDES_MAX];
    unsigned override_count;
    struct acpi_io_apic io_apics[ACPI_IO_APICS_MAX];
    unsigned io_apic_count;
    uint16_t pm1a_control; /* I/O port, 0: none */
    uint16_t pm1b_control;
    uint16_t pm_timer; /* I/O port of the 3.579545 MHz counter, 0: none */
    bool pm_timer_32_bits;
    uint8_t sleep_type_a; /* _S5 */
    uint8_t sleep_type_b;
    bool has_sleep;
    uint8_t reset_space; /* 0 memory, 1 I/O; 255: no reset register */
    uint8_t reset_value;
    uint64_t reset_address;
    uint64_t hpet_pa;
};

/** acpi_init() - find and read RSDP, XSDT or RSDT, FADT, DSDT's _S5, MADT. Context: once. */
void acpi_init(void);

/** acpi_info() - what was found; zeroes where nothing was. */
const struct acpi_info *acpi_info(void);

#endif
