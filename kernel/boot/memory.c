/*
 * memory.c - physical memory before the core manages it.
 *
 * The loader's map is copied and sorted. Kept from the core: the image with what boot_alloc() took
 * behind it (never given back), the initial file system (a reserved range: its pages become files
 * in place or are released) and RAM below 1 MiB (reserved until boot_memory_release_low(): the
 * loader's start info and the other CPUs' trampoline live there). ACPI tables are in ranges that
 * the map does not call RAM. One CPU runs, without locks.
 */
#include "kernel/boot/memory.h"
#include <vellum/vellum.h>
#include "core/base/assert.h"
#include "core/base/bits.h"
#include "kernel/boot/boot.h"
#include "kernel/boot/options.h"
#include "kernel/boot/pvh.h"
#include "kernel/cpu/acpi.h"
#include "kernel/lib/mem.h"
#include "kernel/lib/printk.h"

#define REGIONS_MAX    64u
#define KERNEL_VMA     0xffffffff80000000ull
#define BOOT_MAPPED    0x40000000ull /* what start.S maps */
#define DMA32_END      0x100000000ull
#define LOW_FIRST_PAGE VL_PAGE_SIZE /* page 0: real-mode vectors and the BIOS's data */

struct region {
    uint64_t start;
    uint64_t end;
};

extern char image_start[], image_end[];

static struct region ram[REGIONS_MAX];
static unsigned ram_count;
static struct region initrd;
static uint64_t initrd_len;
static struct region alloc; /* start: next free byte; end: limit */
static uint64_t rsdp_pa;

static void *early_virt(uint64_t pa)
{
    return vl_host_phys_to_virt((struct vl_pa){pa});
}

static void ram_insert(uint64_t start, uint64_t end)
{
    unsigned i = ram_count;

    start = vli_round_up(start, VL_PAGE_SIZE);
    end = vli_round_down(end, VL_PAGE_SIZE);
    if (start >= end || ram_count == REGIONS_MAX) {
        return;
    }
    for (; i > 0 && ram[i - 1].start > start; i--) {
        ram[i] = ram[i - 1];
    }
    ram[i] = (struct region){start, end};
    ram_count++;
}

static void read_memory_map(const struct pvh_start_info *info)
{
    const struct pvh_memory *map = early_virt(info->memory_map_pa);

    for (uint32_t i = 0; i < info->memory_map_count; i++) {
        uint64_t end;

        if (map[i].type == PVH_MEMORY_RAM &&
            !__builtin_add_overflow(map[i].start_pa, map[i].len_bytes, &end)) {
            ram_insert(map[i].start_pa, end);
        }
    }
    /* A map with overlaps: the earlier region wins. */
    for (unsigned i = 1; i < ram_count; i++) {
        if (ram[i].start < ram[i - 1].end) {
            ram[i].start = ram[i - 1].end < ram[i].end ? ram[i - 1].end : ram[i].end;
        }
    }
}

void boot_memory_init(uint64_t start_info_pa)
{
    const struct pvh_start_info *info = early_virt(start_info_pa);

    if (info->magic != PVH_MAGIC || info->version < 1) {
        panic("boot: not started by PVH (magic %x, version %u)", info->magic, info->version);
    }
    boot_options_parse(info->command_line_pa != 0 ? early_virt(info->command_line_pa) : "");
    rsdp_pa = info->rsdp_pa;
    read_memory_map(info);
    if (info->module_count > 0) {
        const struct pvh_module *module = early_virt(info->modules_pa);

        initrd_len = module->len_bytes;
        initrd.start = vli_round_down(module->start_pa, VL_PAGE_SIZE);
        initrd.end = vli_round_up(module->start_pa + module->len_bytes, VL_PAGE_SIZE);
    }
    alloc.start = vli_round_up((uint64_t)(uintptr_t)image_end - KERNEL_VMA, VL_PAGE_SIZE);
    for (unsigned i = 0; i < ram_count; i++) {
        if (ram[i].start <= alloc.start && alloc.start < ram[i].end) {
            alloc.end = ram[i].end;
        }
    }
    if (alloc.start < initrd.end && initrd.start < alloc.end) {
        alloc.end = initrd.start > alloc.start ? initrd.start : alloc.start;
    }
    if (alloc.end > BOOT_MAPPED) {
        alloc.end = BOOT_MAPPED;
    }
}

uint64_t boot_memory_rsdp(void)
{
    return rsdp_pa;
}

bool boot_memory_is_ram(uint64_t start, uint64_t end)
{
    for (unsigned i = 0; i < ram_count; i++) {
        if (ram[i].start <= start && end <= ram[i].end) {
            return true;
        }
    }
    return false;
}

bool boot_memory_ram(unsigned index, uint64_t *out_start, uint64_t *out_end)
{
    if (index >= ram_count) {
        return false;
    }
    *out_start = ram[index].start;
    *out_end = ram[index].end;
    return true;
}

void *boot_alloc(size_t pages)
{
    void *page = early_virt(alloc.start);

    if (pages > (alloc.end - alloc.start) >> VL_PAGE_SHIFT) {
        panic("boot: no memory for %zu pages behind the image", pages);
    }
    alloc.start += pages << VL_PAGE_SHIFT;
    memset(page, 0, pages << VL_PAGE_SHIFT);
    return page;
}

struct boot_initrd boot_initrd(void)
{
    return (struct boot_initrd){{initrd.start}, initrd_len};
}

void boot_initrd_release(struct vl_pa start, struct vl_pa end)
{
    enum vl_status status = vl_frame_release_reserved(vl_pa_to_pfn(start), vl_pa_to_pfn(end));

    if (status != VL_OK) {
        panic("boot: frames %lx to %lx of the initrd are not reserved", (unsigned long)start.a,
              (unsigned long)end.a);
    }
}

/* One piece of RAM that no boundary below cuts: which zone, reserved or not, or not at all. */
static bool piece_range(uint64_t start, uint64_t end, struct vl_range *out)
{
    uint64_t image_pa = (uint64_t)(uintptr_t)image_start - KERNEL_VMA;

    if (start < LOW_FIRST_PAGE || (image_pa <= start && start < alloc.start)) {
        return false;
    }
    out->start.a = start;
    out->end.a = end;
    /* Of each node two zones, the lower ones of all nodes first. */
    out->zone = (start >= DMA32_END ? acpi_info()->node_count : 0) + acpi_memory_node(start);
    out->kind = start < BOOT_LOW_END || (initrd.start <= start && start < initrd.end)
                    ? VL_RANGE_RESERVED
                    : VL_RANGE_FREE;
    return true;
}

/* Least boundary above @from and below @end at which the treatment changes. */
static uint64_t next_cut(uint64_t from, uint64_t end)
{
    const uint64_t cuts[] = {
        LOW_FIRST_PAGE, BOOT_LOW_END, (uint64_t)(uintptr_t)image_start - KERNEL_VMA,
        alloc.start,    initrd.start, initrd.end,
        DMA32_END};

    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        if (from < cuts[i] && cuts[i] < end) {
            end = cuts[i];
        }
    }
    for (unsigned i = 0; i < acpi_info()->memory_count; i++) {
        const struct acpi_memory *memory = &acpi_info()->memory[i];

        end = from < memory->start && memory->start < end ? memory->start : end;
        end = from < memory->end && memory->end < end ? memory->end : end;
    }
    return end;
}

size_t boot_memory_ranges(struct vl_range *out, size_t max)
{
    size_t count = 0;

    alloc.end = alloc.start;
    for (unsigned i = 0; i < ram_count; i++) {
        for (uint64_t at = ram[i].start; at < ram[i].end;) {
            uint64_t end = next_cut(at, ram[i].end);
            struct vl_range range;

            if (piece_range(at, end, &range)) {
                if (count < max) {
                    out[count] = range;
                }
                count++;
            }
            at = end;
        }
    }
    return count;
}

/* RAM of the map below 1 MiB without page 0. */
static struct region low_ram(unsigned index)
{
    struct region low = ram[index];

    low.start = low.start < LOW_FIRST_PAGE ? LOW_FIRST_PAGE : low.start;
    low.end = low.end > BOOT_LOW_END ? BOOT_LOW_END : low.end;
    return low;
}

void boot_memory_release_low(void)
{
    for (unsigned i = 0; i < ram_count; i++) {
        struct region low = low_ram(i);

        if (low.start < low.end) {
            boot_initrd_release((struct vl_pa){low.start}, (struct vl_pa){low.end});
        }
    }
}

void boot_memory_log(void)
{
    uint64_t image_pa = (uint64_t)(uintptr_t)image_start - KERNEL_VMA;
    uint64_t image_end_pa = vli_round_up((uint64_t)(uintptr_t)image_end - KERNEL_VMA, VL_PAGE_SIZE);
    uint64_t total = 0;
    uint64_t low = 0;

    for (unsigned i = 0; i < ram_count; i++) {
        struct region below = low_ram(i);

        total += ram[i].end - ram[i].start;
        low += below.start < below.end ? below.end - below.start : 0;
    }
    printk(VL_LOG_INFO,
           "memory: %lu KiB RAM; kept: image %lu KiB, boot tables %lu KiB, initrd %lu KiB; below "
           "1 MiB %lu KiB until all CPUs run",
           (unsigned long)(total >> 10), (unsigned long)((image_end_pa - image_pa) >> 10),
           (unsigned long)((alloc.start - image_end_pa) >> 10),
           (unsigned long)((initrd.end - initrd.start) >> 10), (unsigned long)(low >> 10));
}
