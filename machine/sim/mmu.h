/*
 * mmu.h - the simulated MMU as tests see it: programs' loads, stores and fetches.
 *
 *     sim_space_switch(space);            on each CPU that runs the space's program
 *     status = sim_store(va, 42);         as an instruction of that program would
 *     sim_space_switch(NULL);
 *
 * A CPU walks the real page-table format from the root that the core made active, and keeps what it
 * found in a TLB of its own. What a walk refuses becomes a page fault: vl_space_fault() is called
 * as a kernel would, and the instruction is tried again.
 */
#ifndef SIM_MMU_H
#define SIM_MMU_H

#include <vellum/vellum.h>

/** sim_space_switch() - this CPU runs a program of @space from now on; NULL: none. */
void sim_space_switch(struct vl_space *space);

/** sim_fault_set() - who resolves page faults of all CPUs; NULL: vl_space_fault() on the space of
 * the CPU. Returns what the instruction ends with, VL_OK to try it again. */
void sim_fault_set(enum vl_status (*fault)(vl_va va, uint32_t access));

/** sim_load() / sim_store() / sim_fetch() - one instruction of a user program on this CPU; @va is
 * aligned to 8. Returns: VL_OK or what the fault handler said. Context: CPU thread, outside of the
 * core. */
VL_MUST_CHECK enum vl_status sim_load(vl_va va, uint64_t *out);
VL_MUST_CHECK enum vl_status sim_store(vl_va va, uint64_t value);
VL_MUST_CHECK enum vl_status sim_fetch(vl_va va);
/** sim_add() - a locked read-modify-write: *@va += @value in one step. */
VL_MUST_CHECK enum vl_status sim_add(vl_va va, uint64_t value);

/** sim_probe() - may this CPU access @va in this way at this moment? Fills the TLB as an access
 * would; no fault is taken. @access: VL_READ, VL_WRITE or VL_EXEC; @user: false for the kernel,
 * which never touches user pages this way (SMAP) nor executes them (SMEP). */
bool sim_probe(vl_va va, uint32_t access, bool user);

/** sim_peek() - a load that takes no fault: false when the MMU would refuse it now. */
bool sim_peek(vl_va va, uint64_t *out);

/** sim_tlb_holds() - is a translation of @va in the TLB of @cpu, whatever its rights? Quiescent. */
bool sim_tlb_holds(unsigned cpu, vl_va va);

/** sim_mmu_validate() - every TLB of every CPU against the page tables: an entry that says more
 * than the table does is a fault of the core. Quiescent, no gather open. */
void sim_mmu_validate(void);

/* What the MMU of all CPUs did since sim_start(). */
struct sim_mmu_counts {
    uint64_t walks;
    uint64_t faults;
    uint64_t flushes_page;   /* local flushes of one page */
    uint64_t flushes_all;    /* local flushes of everything */
    uint64_t flushes_remote; /* calls of vl_host_flush_remote() */
};
void sim_mmu_counts(struct sim_mmu_counts *out);

#endif
