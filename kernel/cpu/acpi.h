/*
 * acpi.h - the few ACPI tables that a PC needs to start its CPUs and to stop.
 */
#ifndef KERNEL_CPU_ACPI_H
#define KERNEL_CPU_ACPI_H

#include <vellum/types.h>

#define ACPI_OVERRIDES_MAX 16u
#define ACPI_IO_APICS_MAX  4u
#define ACPI_NODES_MAX     8u /* each has two zones, of which the core knows sixteen */
#define ACPI_MEMORY_MAX    32u

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

/* Memory of a node; end is exclusive. */
struct acpi_memory {
    uint64_t start;
    uint64_t end;
    uint32_t node;
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
    struct acpi_memory memory[ACPI_MEMORY_MAX]; /* SRAT: as it stands there, any order */
    unsigned memory_count;
    uint32_t node_apic_ids[VL_CPUS_MAX]; /* SRAT: CPUs, and the node of each */
    uint8_t node_of_apic[VL_CPUS_MAX];
    unsigned node_cpu_count;
    uint32_t domains[ACPI_NODES_MAX];                  /* what the tables call each node */
    unsigned node_count;                               /* 1 where there is no SRAT */
    uint8_t distances[ACPI_NODES_MAX][ACPI_NODES_MAX]; /* SLIT, by node; 0: not said */
};

/** acpi_init() - find and read RSDP, XSDT or RSDT, FADT, DSDT's _S5, MADT, SRAT, SLIT. Context:
 * once. */
void acpi_init(void);

/** acpi_info() - what was found; zeroes where nothing was. */
const struct acpi_info *acpi_info(void);

/** acpi_cpu_node() - memory node of the CPU with this APIC id; 0 where nothing is said. */
unsigned acpi_cpu_node(uint32_t apic_id);

/** acpi_memory_node() - memory node of an address; 0 where nothing is said. */
unsigned acpi_memory_node(uint64_t pa);

/** acpi_log_nodes() - one line, if there are several. */
void acpi_log_nodes(void);

#endif
