/*
 * table_state.h - one page table: its root, where it is active, what it counts.
 *
 * Embedded in a space; rmap/ and object/ unmap and flush through it without knowing spaces.
 */
#ifndef VLI_TABLE_STATE_H
#define VLI_TABLE_STATE_H

#include <stdatomic.h>
#include <vellum/types.h>

/* CPUs whose TLB may hold translations of the table; changed by atomic bit operations. */
struct vli_table_cpus {
    _Atomic uint64_t word[(VL_CPUS_MAX + 63) / 64];
};

struct vli_table {
    struct vl_pa root;
    _Atomic uint64_t anon_pages; /* resident, by entry */
    _Atomic uint64_t file_pages;
    _Atomic uint64_t table_pages; /* with the root */
    struct vli_table_cpus cpus;
    _Atomic bool ending; /* a CPU that is told to flush leaves the table instead */
};

#endif
