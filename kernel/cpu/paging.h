/*
 * paging.h - the kernel's half of every address space.
 *
 *   0xffff800000000000  direct map: all RAM, 1 GiB and 2 MiB pages, writable, not executable
 *   0xfffffe0000000000  devices' registers and firmware tables (paging_map_io)
 *   0xffffff0000000000  kernel stacks, each with an unmapped page below (sched/stack.c)
 *   0xffffffff80000000  the image: code r-x, constants r--, data rw-
 *
 * The four root entries are made once, before the first space exists, so that spaces copy them.
 */
#ifndef KERNEL_CPU_PAGING_H
#define KERNEL_CPU_PAGING_H

#include <vellum/types.h>

#define KERNEL_IO_BASE    0xfffffe0000000000ull
#define KERNEL_STACK_BASE 0xffffff0000000000ull
#define KERNEL_VMA        0xffffffff80000000ull

#define PAGE_PRESENT  0x001ull
#define PAGE_WRITE    0x002ull
#define PAGE_UNCACHED 0x018ull /* PWT and PCD */
#define PAGE_LARGE    0x080ull
#define PAGE_GLOBAL   0x100ull
#define PAGE_NX       0x8000000000000000ull
#define PAGE_FRAME    0x000ffffffffff000ull

/** paging_init() - build the final tables and switch to them. Context: once, first CPU, after
 * boot_memory_init(). */
void paging_init(void);

/** paging_core_is_up() - tables come from the core's frames from now on. */
void paging_core_is_up(void);

/** paging_root() - the kernel's own root, whose lower half is empty. */
struct vl_pa paging_root(void);

/** paging_image_pa() - physical address of something in the image. */
static inline uint64_t paging_image_pa(const void *at)
{
    return (uint64_t)(uintptr_t)at - KERNEL_VMA;
}

/**
 * paging_map_page() - map one kernel page; not present before.
 * @flags: PAGE_WRITE, PAGE_NX, PAGE_UNCACHED; present and global are added.
 * Context: thread (may allocate tables), or start-up. Returns: VL_OK; VL_ENOMEM.
 */
VL_MUST_CHECK enum vl_status paging_map_page(vl_va va, struct vl_pa pa, uint64_t flags);

/** paging_unmap_page() - take it away again. The caller flushes all CPUs before the frame or the
 * address is used anew. */
void paging_unmap_page(vl_va va);

/**
 * paging_map_io() - see @len bytes at @pa: in the direct map when they are RAM that it covers and
 * @cached is true, otherwise by new pages. Never unmapped.
 * Context: start-up. Panics without memory.
 */
void *paging_map_io(uint64_t pa, size_t len, bool cached);

/** paging_flush_global() - drop all of this CPU's translations, the global ones too. Context: any.
 */
void paging_flush_global(void);

/** paging_lookup() - the entry that maps @va in the active tables, 0 when none; for tests of the
 * protections and for panics. @out_level: 0 for 4 KiB. */
uint64_t paging_lookup(vl_va va, unsigned *out_level);

/** paging_trampoline_root() - a root below 4 GiB that also maps the page @pa at its own address,
 * executable and read-only; for starting CPUs. */
uint64_t paging_trampoline_root(uint64_t pa);

/** paging_check() - walk all kernel mappings; panics when one is writable and executable, or when
 * user space has any in the kernel's root. Context: thread. Returns: number of leaf entries. */
size_t paging_check(void);

#endif
