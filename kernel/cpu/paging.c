/*
 * paging.c - the kernel's half of every address space; layout in paging.h.
 *
 * Before vl_init() tables come from boot_alloc(), afterwards from the core's frames; none is ever
 * given back. Changes after start-up (stacks) are serialised by a spin lock; a table page, once
 * linked, stays.
 *
 * The direct map is writable, so the image's own frames would be writable through it: the pieces
 * that hold code and constants are mapped by 4 KiB pages there, read-only.
 */
#include "kernel/cpu/paging.h"
#include <vellum/vellum.h>
#include "core/base/bits.h"
#include "kernel/boot/memory.h"
#include "kernel/cpu/features.h"
#include "kernel/cpu/io.h"
#include "kernel/lib/mem.h"
#include "kernel/lib/printk.h"
#include "kernel/sched/lock.h"

#define ENTRIES       512u
#define CR4_PGE       0x80ull
#define SIZE_2M       0x200000ull
#define SIZE_1G       0x40000000ull
#define ROOT_SLOT(va) (((va) >> 39) & 511u)

extern char image_start[], text_end[], rodata_start[], data_start[], image_end[], ksyms_start[];
extern char boot_stack_guard[];

static uint64_t *root;
static bool core_is_up;
static vl_va io_next = KERNEL_IO_BASE;
static struct vli_spinlock table_lock = VLI_SPINLOCK_INIT;

static uint64_t *table_at(uint64_t entry)
{
    return vl_host_phys_to_virt((struct vl_pa){entry & PAGE_FRAME});
}

static uint64_t table_pa(const uint64_t *table)
{
    return (uint64_t)(uintptr_t)table - DIRECT_MAP_BASE;
}

/* A zeroed table page, or NULL. */
static uint64_t *table_alloc(void)
{
    struct vl_pfn pfn;

    if (!core_is_up) {
        return boot_alloc(1);
    }
    if (vl_frame_alloc(0, VL_ATOMIC | VL_ZEROED, &pfn) != VL_OK) {
        return NULL;
    }
    return vl_frame_to_virt(pfn);
}

/* The entry for @va at @level (0: 4 KiB), with the tables above it made; NULL without memory. */
static uint64_t *entry_of(vl_va va, unsigned level)
{
    uint64_t *table = root;

    for (unsigned at = 3; at > level; at--) {
        uint64_t *entry = &table[(va >> (12 + 9 * at)) & (ENTRIES - 1)];

        if ((*entry & PAGE_PRESENT) == 0) {
            uint64_t *lower = table_alloc();

            if (lower == NULL) {
                return NULL;
            }
            *entry = table_pa(lower) | PAGE_PRESENT | PAGE_WRITE;
        }
        table = table_at(*entry);
    }
    return &table[(va >> (12 + 9 * level)) & (ENTRIES - 1)];
}

enum vl_status paging_map_page(vl_va va, struct vl_pa pa, uint64_t flags)
{
    unsigned long irq = vli_spin_lock_irq(&table_lock, KRANK_OUTER_4);
    uint64_t *entry = entry_of(va, 0);

    if (entry != NULL) {
        *entry = pa.a | flags | PAGE_PRESENT | PAGE_GLOBAL;
    }
    vli_spin_unlock_irq(&table_lock, KRANK_OUTER_4, irq);
    return entry != NULL ? VL_OK : VL_ENOMEM;
}

void paging_unmap_page(vl_va va)
{
    unsigned long irq = vli_spin_lock_irq(&table_lock, KRANK_OUTER_4);

    *entry_of(va, 0) = 0;
    vli_spin_unlock_irq(&table_lock, KRANK_OUTER_4, irq);
}

static void map_boot_page(vl_va va, uint64_t pa, uint64_t flags)
{
    if (paging_map_page(va, (struct vl_pa){pa}, flags) != VL_OK) {
        panic("paging: no memory for tables");
    }
}

/* Protection of one page of the image; 0 for the guard below the boot stack. */
static uint64_t image_flags(vl_va va)
{
    if (va < (vl_va)rodata_start) {
        return PAGE_PRESENT;
    }
    if (va < (vl_va)data_start || va >= (vl_va)ksyms_start) {
        return PAGE_PRESENT | PAGE_NX;
    }
    return va == (vl_va)boot_stack_guard ? 0 : PAGE_PRESENT | PAGE_WRITE | PAGE_NX;
}

static void map_image(void)
{
    for (vl_va va = (vl_va)image_start; va < (vl_va)image_end; va += VL_PAGE_SIZE) {
        uint64_t flags = image_flags(va);

        if (flags != 0) {
            map_boot_page(va, paging_image_pa((void *)va), flags & ~PAGE_PRESENT);
        }
    }
}

/* One 2 MiB piece of the direct map that holds a part of the image. */
static void map_direct_split(uint64_t pa)
{
    for (uint64_t at = pa; at < pa + SIZE_2M; at += VL_PAGE_SIZE) {
        vl_va alias = at + KERNEL_VMA;
        bool in_image = alias >= (vl_va)image_start && alias < (vl_va)image_end;
        bool write = !in_image || (image_flags(alias) & PAGE_WRITE) != 0;

        /* The stack's guard may stay visible here: nothing runs over into the direct map. */
        if (alias == (vl_va)boot_stack_guard) {
            write = true;
        }
        map_boot_page(DIRECT_MAP_BASE + at, at, (write ? PAGE_WRITE : 0) | PAGE_NX);
    }
}

static bool holds_image(uint64_t pa, uint64_t len)
{
    return pa < paging_image_pa(image_end) && paging_image_pa(image_start) < pa + len;
}

/* RAM is mapped by whole large pages: what else lies in the first or last one of a range (firmware
 * tables at the end of RAM) is seen too. */
static void map_direct(uint64_t start, uint64_t end)
{
    uint64_t flags = PAGE_PRESENT | PAGE_WRITE | PAGE_LARGE | PAGE_GLOBAL | PAGE_NX;
    uint64_t at = vli_round_down(start, SIZE_2M);

    while (at < end) {
        if (cpu_features()->pages_1g && at % SIZE_1G == 0 && at + SIZE_1G <= end &&
            !holds_image(at, SIZE_1G)) {
            *entry_of(DIRECT_MAP_BASE + at, 2) = at | flags;
            at += SIZE_1G;
            continue;
        }
        if (holds_image(at, SIZE_2M)) {
            map_direct_split(at);
        } else {
            *entry_of(DIRECT_MAP_BASE + at, 1) = at | flags;
        }
        at += SIZE_2M;
    }
}

void paging_init(void)
{
    uint64_t start;
    uint64_t end;

    root = boot_alloc(1);
    for (unsigned i = 0; boot_memory_ram(i, &start, &end); i++) {
        map_direct(start, end);
    }
    map_image();
    /* Root entries that later mappings hang below. */
    (void)entry_of(KERNEL_IO_BASE, 2);
    (void)entry_of(KERNEL_STACK_BASE, 2);
    cr3_write(table_pa(root));
}

void paging_core_is_up(void)
{
    core_is_up = true;
}

struct vl_pa paging_root(void)
{
    return (struct vl_pa){table_pa(root)};
}

/* Does the direct map show all of it? */
static bool is_direct(uint64_t pa, size_t len)
{
    unsigned level;

    for (uint64_t at = vli_round_down(pa, VL_PAGE_SIZE); at < pa + len; at += VL_PAGE_SIZE) {
        if (paging_lookup(DIRECT_MAP_BASE + at, &level) == 0) {
            return false;
        }
    }
    return true;
}

void *paging_map_io(uint64_t pa, size_t len, bool cached)
{
    uint64_t first = vli_round_down(pa, VL_PAGE_SIZE);
    vl_va va = io_next;

    if (cached && is_direct(pa, len)) {
        return vl_host_phys_to_virt((struct vl_pa){pa});
    }
    for (uint64_t at = first; at < pa + len; at += VL_PAGE_SIZE) {
        map_boot_page(io_next, at, PAGE_WRITE | PAGE_NX | (cached ? 0 : PAGE_UNCACHED));
        io_next += VL_PAGE_SIZE;
    }
    return (void *)(va + (pa - first));
}

void paging_flush_global(void)
{
    unsigned long irq = vl_host_irq_save();
    uint64_t cr4 = cr4_read();

    /* A change of PGE flushes everything. */
    cr4_write(cr4 ^ CR4_PGE);
    cr4_write(cr4);
    vl_host_irq_restore(irq);
}

uint64_t paging_lookup(vl_va va, unsigned *out_level)
{
    uint64_t *table = table_at(cr3_read());

    for (unsigned level = 3;; level--) {
        uint64_t entry = table[(va >> (12 + 9 * level)) & (ENTRIES - 1)];

        *out_level = level;
        if ((entry & PAGE_PRESENT) == 0) {
            return 0;
        }
        if (level == 0 || (entry & PAGE_LARGE) != 0) {
            return entry;
        }
        table = table_at(entry);
    }
}

uint64_t paging_trampoline_root(uint64_t pa)
{
    static VLI_ALIGNED(4096) uint64_t tables[4][ENTRIES];
    uint64_t *kernel = root;
    uint64_t flags = PAGE_PRESENT | PAGE_WRITE;

    memcpy(tables[0] + 256, kernel + 256, 256 * sizeof(uint64_t));
    tables[0][0] = paging_image_pa(tables[1]) | flags;
    tables[1][0] = paging_image_pa(tables[2]) | flags;
    tables[2][0] = paging_image_pa(tables[3]) | flags;
    tables[3][(pa >> 12) & (ENTRIES - 1)] = pa | PAGE_PRESENT;
    return paging_image_pa(tables[0]);
}

static size_t check_table(const uint64_t *table, unsigned level, unsigned first)
{
    size_t leaves = 0;

    for (unsigned i = first; i < ENTRIES; i++) {
        uint64_t entry = table[i];

        if ((entry & PAGE_PRESENT) == 0) {
            continue;
        }
        if (level == 0 || (entry & PAGE_LARGE) != 0) {
            if ((entry & PAGE_WRITE) != 0 && (entry & PAGE_NX) == 0) {
                panic("paging: entry %lx is writable and executable", (unsigned long)entry);
            }
            leaves++;
        } else {
            leaves += check_table(table_at(entry), level - 1, 0);
        }
    }
    return leaves;
}

size_t paging_check(void)
{
    for (unsigned i = 0; i < ENTRIES / 2; i++) {
        if (root[i] != 0) {
            panic("paging: the kernel's root maps user address slot %u", i);
        }
    }
    return check_table(root, 3, ENTRIES / 2);
}
