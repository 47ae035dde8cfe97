/*
 * pvh.h - the structures of a PVH start (Xen's public hvm/start_info.h, as documented in
 * xen/docs/misc/pvh.pandoc).
 */
#ifndef KERNEL_BOOT_PVH_H
#define KERNEL_BOOT_PVH_H

#include <vellum/types.h>

#define PVH_MAGIC 0x336ec578u

struct pvh_start_info {
    uint32_t magic;
    uint32_t version;
    uint32_t flags;
    uint32_t module_count;
    uint64_t modules_pa;
    uint64_t command_line_pa;
    uint64_t rsdp_pa;
    uint64_t memory_map_pa; /* version 1 and later */
    uint32_t memory_map_count;
    uint32_t reserved;
};

struct pvh_module {
    uint64_t start_pa;
    uint64_t len_bytes;
    uint64_t command_line_pa;
    uint64_t reserved;
};

struct pvh_memory {
    uint64_t start_pa;
    uint64_t len_bytes;
    uint32_t type; /* enum pvh_memory_type: the numbers of e820 */
    uint32_t reserved;
};

enum pvh_memory_type { PVH_MEMORY_RAM = 1, PVH_MEMORY_RESERVED, PVH_MEMORY_ACPI, PVH_MEMORY_NVS };

#endif
