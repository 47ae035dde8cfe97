/*
 * memory.h - physical memory before the core manages it: the loader's map, a bump allocator for
 * tables and per-CPU areas, and the ranges handed to the core.
 */
#ifndef KERNEL_BOOT_MEMORY_H
#define KERNEL_BOOT_MEMORY_H

#include <vellum/host.h>

#define BOOT_LOW_END 0x100000ull /* what the firmware and the PC's devices use lies below */

/** boot_memory_init() - take over what the loader says; copies all that is kept.
 * Context: once, first thing; the first GiB is mapped at DIRECT_MAP_BASE. */
void boot_memory_init(uint64_t start_info_pa);

/** boot_memory_rsdp() - ACPI's root pointer as the loader gave it, 0 when it did not. */
uint64_t boot_memory_rsdp(void);

/** boot_memory_is_ram() - is the whole of [@start, @end) RAM by the loader's map? */
bool boot_memory_is_ram(uint64_t start, uint64_t end);

/** boot_memory_ram() - the @index-th range of RAM; false beyond the last. */
bool boot_memory_ram(unsigned index, uint64_t *out_start, uint64_t *out_end);

/** boot_alloc() - zeroed pages right behind the image, never freed; panics when there are none.
 * Context: before vl_init(). Returns: where they stand in the direct map. */
void *boot_alloc(size_t pages);

/** boot_memory_ranges() - for vl_host_memory_ranges(); ends boot_alloc(). */
size_t boot_memory_ranges(struct vl_range *out, size_t max);

/** boot_memory_release_low() - give the RAM below 1 MiB to the core: start info and trampoline are
 * no longer needed. Page 0 stays. Context: thread, once, when all CPUs run. */
void boot_memory_release_low(void);

/** boot_memory_log() - how much there is and what is kept from the core. */
void boot_memory_log(void);

#endif
