/*
 * acpi.c - reading ACPI tables (ACPI specification 6.4, chapters 5 and 4.8).
 *
 * No interpreter: the one AML object that is needed, _S5 (the sleep type of "off"), is found by
 * its bytes in the DSDT: NameOp? "_S5_" PackageOp PkgLength NumElements, then small integers.
 * Tables with a wrong checksum are passed over. Nothing here trusts a length: all reads stay
 * within the table that was mapped.
 */
#include "kernel/cpu/acpi.h"
#include "core/base/compiler.h"
#include "kernel/boot/memory.h"
#include "kernel/cpu/paging.h"
#include "kernel/lib/mem.h"
#include "kernel/lib/printk.h"

#define HEADER_BYTES    36u
#define TABLE_BYTES_MAX 0x100000u

#define FADT_DSDT        40u
#define FADT_PM1A        64u
#define FADT_PM1B        68u
#define FADT_PM_TIMER    76u
#define FADT_FLAGS       112u
#define FADT_RESET       116u
#define FADT_RESET_VALUE 128u
#define FADT_X_DSDT      140u
#define FADT_TIMER_32    (1u << 8)
#define FADT_HAS_RESET   (1u << 10)

static struct acpi_info info = {.reset_space = 255, .node_count = 1};

const struct acpi_info *acpi_info(void)
{
    return &info;
}

static uint16_t get16(const uint8_t *at)
{
    return (uint16_t)(at[0] | at[1] << 8);
}
static uint32_t get32(const uint8_t *at)
{
    return get16(at) | (uint32_t)get16(at + 2) << 16;
}
static uint64_t get64(const uint8_t *at)
{
    return get32(at) | (uint64_t)get32(at + 4) << 32;
}

static bool checksum_ok(const uint8_t *at, size_t len)
{
    uint8_t sum = 0;

    for (size_t i = 0; i < len; i++) {
        sum = (uint8_t)(sum + at[i]);
    }
    return sum == 0;
}

/* Map a table; NULL when it is not one. */
static const uint8_t *table_map(uint64_t pa, uint32_t *out_len)
{
    const uint8_t *table;

    if (pa == 0) {
        return NULL;
    }
    table = paging_map_io(pa, HEADER_BYTES, true);
    *out_len = get32(table + 4);
    if (*out_len < HEADER_BYTES || *out_len > TABLE_BYTES_MAX) {
        return NULL;
    }
    table = paging_map_io(pa, *out_len, true);
    return checksum_ok(table, *out_len) ? table : NULL;
}

static const uint8_t *rsdp_at(uint64_t pa)
{
    const uint8_t *at = vl_host_phys_to_virt((struct vl_pa){pa});

    return memcmp(at, "RSD PTR ", 8) == 0 && checksum_ok(at, 20) ? at : NULL;
}

/* The loader's word, or the BIOS's places: the first KiB of the extended BIOS data area and
 * 0xe0000 to 0xfffff. */
static const uint8_t *find_rsdp(void)
{
    uint64_t ebda = (uint64_t)get16(vl_host_phys_to_virt((struct vl_pa){0x40e})) << 4;
    const uint8_t *found;

    if (boot_memory_rsdp() != 0) {
        const uint8_t *at = paging_map_io(boot_memory_rsdp(), 36, true);

        if (memcmp(at, "RSD PTR ", 8) == 0) {
            return at;
        }
    }
    for (uint64_t pa = ebda; ebda >= 0x80000 && pa < ebda + 1024; pa += 16) {
        if ((found = rsdp_at(pa)) != NULL) {
            return found;
        }
    }
    for (uint64_t pa = 0xe0000; pa < 0x100000; pa += 16) {
        if ((found = rsdp_at(pa)) != NULL) {
            return found;
        }
    }
    return NULL;
}

/* Value of a small AML integer at @at; advances it. */
static uint8_t aml_byte(const uint8_t **at)
{
    uint8_t op = *(*at)++;

    if (op == 0x0a) { /* BytePrefix */
        return *(*at)++;
    }
    return op == 1 ? 1 : 0; /* OneOp, ZeroOp */
}

static void read_dsdt(uint64_t pa)
{
    uint32_t len = 0;
    const uint8_t *table = table_map(pa, &len);

    for (uint32_t i = HEADER_BYTES; table != NULL && i + 16 <= len; i++) {
        const uint8_t *at = table + i;

        if (memcmp(at, "_S5_", 4) == 0 && at[4] == 0x12) {
            at += 5;
            at += 1 + (*at >> 6); /* PkgLength: its top bits say how many bytes follow */
            at += 1;              /* NumElements */
            info.sleep_type_a = aml_byte(&at) & 7;
            info.sleep_type_b = aml_byte(&at) & 7;
            info.has_sleep = true;
            return;
        }
    }
}

static void read_fadt(const uint8_t *fadt, uint32_t len)
{
    uint64_t dsdt = get32(fadt + FADT_DSDT);

    if (len < FADT_RESET) {
        return;
    }
    info.pm1a_control = (uint16_t)get32(fadt + FADT_PM1A);
    info.pm1b_control = (uint16_t)get32(fadt + FADT_PM1B);
    info.pm_timer = (uint16_t)get32(fadt + FADT_PM_TIMER);
    info.pm_timer_32_bits = (get32(fadt + FADT_FLAGS) & FADT_TIMER_32) != 0;
    if (len > FADT_RESET_VALUE && (get32(fadt + FADT_FLAGS) & FADT_HAS_RESET) != 0) {
        info.reset_space = fadt[FADT_RESET];
        info.reset_address = get64(fadt + FADT_RESET + 4);
        info.reset_value = fadt[FADT_RESET_VALUE];
    }
    if (len >= FADT_X_DSDT + 8 && get64(fadt + FADT_X_DSDT) != 0) {
        dsdt = get64(fadt + FADT_X_DSDT);
    }
    read_dsdt(dsdt);
}

static void add_cpu(uint32_t apic_id, uint32_t flags)
{
    if ((flags & 1) != 0 && info.cpu_count < VL_CPUS_MAX) {
        info.apic_ids[info.cpu_count++] = apic_id;
    }
}

static void add_override(const uint8_t *at)
{
    uint16_t flags = get16(at + 8);
    struct acpi_override *override = &info.overrides[info.override_count];

    if (info.override_count == ACPI_OVERRIDES_MAX) {
        return;
    }
    info.override_count++;
    override->line = at[3];
    override->gsi = get32(at + 4);
    override->active_low = (flags & 3) == 3;
    override->level = (flags >> 2 & 3) == 3;
}

static void read_madt(const uint8_t *madt, uint32_t len)
{
    info.local_apic_pa = get32(madt + HEADER_BYTES);
    for (uint32_t i = HEADER_BYTES + 8; i + 2 <= len && madt[i + 1] >= 2 && i + madt[i + 1] <= len;
         i += madt[i + 1]) {
        const uint8_t *at = madt + i;
        uint8_t size = at[1];

        if (at[0] == 0 && size >= 8) {
            add_cpu(at[3], get32(at + 4));
        } else if (at[0] == 9 && size >= 16) {
            add_cpu(get32(at + 4), get32(at + 8));
        } else if (at[0] == 1 && size >= 12 && info.io_apic_count < ACPI_IO_APICS_MAX) {
            info.io_apics[info.io_apic_count].pa = get32(at + 4);
            info.io_apics[info.io_apic_count++].gsi_base = get32(at + 8);
        } else if (at[0] == 2 && size >= 10) {
            add_override(at);
        } else if (at[0] == 5 && size >= 12) {
            info.local_apic_pa = get64(at + 4);
        }
    }
}

/* ------------------------------------------------------------- memory nodes: SRAT, SLIT
 * (5.2.16-17)
 */

/* Nodes of the SRAT, numbered as they appear; more than there may be are an error. */
static unsigned nodes_seen;
static bool nodes_bad;

static unsigned node_of_domain(uint32_t domain)
{
    for (unsigned i = 0; i < nodes_seen; i++) {
        if (info.domains[i] == domain) {
            return i;
        }
    }
    if (nodes_seen == ACPI_NODES_MAX) {
        nodes_bad = true;
        return 0;
    }
    info.domains[nodes_seen] = domain;
    return nodes_seen++;
}

static void add_node_cpu(uint32_t apic_id, uint32_t domain)
{
    if (info.node_cpu_count < VL_CPUS_MAX) {
        info.node_apic_ids[info.node_cpu_count] = apic_id;
        info.node_of_apic[info.node_cpu_count++] = (uint8_t)node_of_domain(domain);
    }
}

static void add_node_memory(uint64_t start, uint64_t bytes, uint32_t domain)
{
    uint64_t end;

    if (bytes == 0) {
        return;
    }
    if (info.memory_count == ACPI_MEMORY_MAX || __builtin_add_overflow(start, bytes, &end) ||
        start % VL_PAGE_SIZE != 0 || bytes % VL_PAGE_SIZE != 0) {
        nodes_bad = true;
        return;
    }
    info.memory[info.memory_count++] = (struct acpi_memory){start, end, node_of_domain(domain)};
}

static void read_srat(const uint8_t *srat, uint32_t len)
{
    for (uint32_t i = HEADER_BYTES + 12; i + 2 <= len && srat[i + 1] >= 2 && i + srat[i + 1] <= len;
         i += srat[i + 1]) {
        const uint8_t *at = srat + i;

        if (at[0] == 0 && at[1] >= 16 && (get32(at + 4) & 1) != 0) {
            add_node_cpu(at[3], at[2] | (get32(at + 8) & 0xffffff00u));
        } else if (at[0] == 1 && at[1] >= 40 && (get32(at + 28) & 1) != 0) {
            add_node_memory(get64(at + 8), get64(at + 16), get32(at + 2));
        } else if (at[0] == 2 && at[1] >= 24 && (get32(at + 12) & 1) != 0) {
            add_node_cpu(get32(at + 8), get32(at + 4));
        }
    }
    info.node_count = nodes_seen > 0 ? nodes_seen : 1;
    if (nodes_bad) {
        printk(VL_LOG_WARNING, "acpi: the SRAT has more nodes or ranges than can be used, or odd "
                               "ones: all memory is of one node");
        info.node_count = 1;
        info.memory_count = 0;
        info.node_cpu_count = 0;
    }
}

/* Read last: its rows and columns are what the SRAT calls the nodes. */
static void read_slit(const uint8_t *slit, uint32_t len)
{
    uint64_t count = get64(slit + HEADER_BYTES);

    if (count > 256 || HEADER_BYTES + 8 + count * count > len) {
        return;
    }
    for (unsigned from = 0; from < info.node_count; from++) {
        for (unsigned to = 0; to < info.node_count; to++) {
            if (info.domains[from] < count && info.domains[to] < count) {
                info.distances[from][to] =
                    slit[HEADER_BYTES + 8 + info.domains[from] * count + info.domains[to]];
            }
        }
    }
}

unsigned acpi_cpu_node(uint32_t apic_id)
{
    for (unsigned i = 0; i < info.node_cpu_count; i++) {
        if (info.node_apic_ids[i] == apic_id) {
            return info.node_of_apic[i];
        }
    }
    return 0;
}

unsigned acpi_memory_node(uint64_t pa)
{
    for (unsigned i = 0; i < info.memory_count; i++) {
        if (info.memory[i].start <= pa && pa < info.memory[i].end) {
            return info.memory[i].node;
        }
    }
    return 0;
}

void acpi_log_nodes(void)
{
    if (info.node_count > 1) {
        printk(VL_LOG_INFO, "memory: %u nodes, by %u ranges and %u CPUs of the SRAT; %s",
               info.node_count, info.memory_count, info.node_cpu_count,
               info.distances[0][0] != 0 ? "distances by the SLIT" : "all as far from each other");
    }
}

static void read_table(uint64_t pa, bool is_slit)
{
    uint32_t len = 0;
    const uint8_t *table = table_map(pa, &len);

    if (table == NULL || is_slit != (memcmp(table, "SLIT", 4) == 0)) {
        return;
    }
    if (is_slit && len >= HEADER_BYTES + 8) {
        read_slit(table, len);
    } else if (memcmp(table, "FACP", 4) == 0) {
        read_fadt(table, len);
    } else if (memcmp(table, "APIC", 4) == 0 && len >= HEADER_BYTES + 8) {
        read_madt(table, len);
    } else if (memcmp(table, "HPET", 4) == 0 && len >= 56) {
        info.hpet_pa = get64(table + 44);
    } else if (memcmp(table, "SRAT", 4) == 0) {
        read_srat(table, len);
    }
}

static void read_tables(const uint8_t *list, uint32_t len, unsigned entry_bytes, bool is_slit)
{
    for (uint32_t i = HEADER_BYTES; list != NULL && i + entry_bytes <= len; i += entry_bytes) {
        read_table(entry_bytes == 8 ? get64(list + i) : get32(list + i), is_slit);
    }
}

void acpi_init(void)
{
    const uint8_t *rsdp = find_rsdp();
    const uint8_t *list;
    unsigned entry_bytes = 4;
    uint32_t len = 0;

    if (rsdp == NULL) {
        printk(VL_LOG_WARNING, "acpi: no RSDP; one CPU, no power off");
        return;
    }
    if (rsdp[15] >= 2 && get64(rsdp + 24) != 0) {
        entry_bytes = 8;
        list = table_map(get64(rsdp + 24), &len);
    } else {
        list = table_map(get32(rsdp + 16), &len);
    }
    read_tables(list, len, entry_bytes, false);
    if (info.node_count > 1) {
        read_tables(list, len, entry_bytes, true);
    }
}
