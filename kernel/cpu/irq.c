/*
 * irq.c - the I/O APICs, and who answers which line.
 *
 * Every line goes to the first CPU. ISA lines are edge-triggered and active high unless the MADT
 * says otherwise; PCI lines are level-triggered and active low, and may be shared: their handlers
 * are chained. The old 8259 pair is masked for good.
 */
#include "kernel/cpu/irq.h"
#include "kernel/cpu/acpi.h"
#include "kernel/cpu/cpu.h"
#include "kernel/cpu/io.h"
#include "kernel/cpu/paging.h"
#include "kernel/lib/printk.h"

#define LINES_MAX        64u
#define SHARERS_MAX      4u
#define VECTOR_LINES     0x30u
#define PIC_FIRST_DATA   0x21u
#define PIC_SECOND_DATA  0xa1u
#define IO_APIC_VERSION  1u
#define IO_APIC_REDIRECT 0x10u
#define REDIRECT_LOW     0x2000u
#define REDIRECT_LEVEL   0x8000u
#define REDIRECT_MASKED  0x10000u

struct line {
    irq_handler_fn *run[SHARERS_MAX];
    void *arg[SHARERS_MAX];
    unsigned count;
};
static struct line lines[LINES_MAX];
static volatile uint32_t *io_apics[ACPI_IO_APICS_MAX];

static uint32_t io_apic_read(unsigned which, unsigned reg)
{
    io_apics[which][0] = reg;
    return io_apics[which][4];
}

static void io_apic_write(unsigned which, unsigned reg, uint32_t value)
{
    io_apics[which][0] = reg;
    io_apics[which][4] = value;
}

static unsigned io_apic_lines(unsigned which)
{
    return (io_apic_read(which, IO_APIC_VERSION) >> 16 & 0xff) + 1;
}

void irq_init(void)
{
    const struct acpi_info *acpi = acpi_info();

    io_out8(PIC_FIRST_DATA, 0xff);
    io_out8(PIC_SECOND_DATA, 0xff);
    for (unsigned i = 0; i < acpi->io_apic_count; i++) {
        io_apics[i] = paging_map_io(acpi->io_apics[i].pa, VL_PAGE_SIZE, false);
        for (unsigned pin = 0; pin < io_apic_lines(i); pin++) {
            io_apic_write(i, IO_APIC_REDIRECT + 2 * pin, REDIRECT_MASKED);
        }
    }
}

static void line_interrupt(void *arg)
{
    struct line *line = arg;

    for (unsigned i = 0; i < line->count; i++) {
        line->run[i](line->arg[i]);
    }
}

/* Open @gsi at the I/O APIC that has it. */
static bool route(unsigned gsi, uint32_t flags)
{
    const struct acpi_info *acpi = acpi_info();

    for (unsigned i = 0; i < acpi->io_apic_count; i++) {
        uint32_t base = acpi->io_apics[i].gsi_base;

        if (gsi >= base && gsi < base + io_apic_lines(i)) {
            unsigned reg = IO_APIC_REDIRECT + 2 * (gsi - base);

            io_apic_write(i, reg + 1, cpu_of(0)->apic_id << 24);
            io_apic_write(i, reg, flags | (VECTOR_LINES + gsi));
            return true;
        }
    }
    return false;
}

static enum vl_status register_line(unsigned gsi, uint32_t flags, irq_handler_fn *handler,
                                    void *arg)
{
    struct line *line = &lines[gsi];
    unsigned long irq = vl_host_irq_save();

    line->arg[line->count] = arg;
    line->run[line->count] = handler;
    line->count++;
    irq_set_vector(VECTOR_LINES + gsi, line_interrupt, line);
    vl_host_irq_restore(irq);
    return route(gsi, flags) ? VL_OK : VL_EINVAL;
}

enum vl_status irq_register_isa(unsigned isa_line, irq_handler_fn *handler, void *arg)
{
    const struct acpi_info *acpi = acpi_info();
    unsigned gsi = isa_line;
    uint32_t flags = 0;

    for (unsigned i = 0; i < acpi->override_count; i++) {
        if (acpi->overrides[i].line == isa_line) {
            gsi = acpi->overrides[i].gsi;
            flags = (acpi->overrides[i].active_low ? REDIRECT_LOW : 0) |
                    (acpi->overrides[i].level ? REDIRECT_LEVEL : 0);
        }
    }
    if (gsi >= LINES_MAX) {
        return VL_EINVAL;
    }
    return lines[gsi].count != 0 ? VL_EBUSY : register_line(gsi, flags, handler, arg);
}

enum vl_status irq_register_pci(unsigned gsi, irq_handler_fn *handler, void *arg)
{
    if (gsi >= LINES_MAX) {
        return VL_EINVAL;
    }
    if (lines[gsi].count == SHARERS_MAX) {
        return VL_EBUSY;
    }
    return register_line(gsi, REDIRECT_LOW | REDIRECT_LEVEL, handler, arg);
}
