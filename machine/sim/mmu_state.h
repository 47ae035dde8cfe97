/*
 * mmu_state.h - TLBs and counts, as the files of the simulated MMU share them.
 */
#ifndef SIM_MMU_STATE_H
#define SIM_MMU_STATE_H

#include "machine/sim/machine.h"
#include "machine/sim/mmu.h"

#define SIM_TLB_SETS 64u
#define SIM_TLB_WAYS 4u
#define SIM_PDES     16u

/*
 * One translation. Its CPU alone writes it, with interrupts off; others read it while they check,
 * so every field is atomic: @key goes to 0 before the others change, and comes back last.
 */
struct sim_tlb_entry {
    _Atomic uint64_t key;  /* virtual page address | 1; 0: empty */
    _Atomic uint64_t pte;  /* of the leaf, rights narrowed by the levels above */
    _Atomic uint64_t from; /* address of the leaf entry itself */
    _Atomic uint64_t time; /* when it was filled */
};

/* A cached walk down to a leaf table page (what Intel calls a paging-structure cache). */
struct sim_pde {
    _Atomic uint64_t key;  /* virtual address >> 21 << 1 | 1; 0: empty */
    _Atomic uint64_t link; /* the leaf table page, rights narrowed by the levels above */
};

struct sim_mmu {
    struct sim_tlb_entry tlb[SIM_TLB_SETS][SIM_TLB_WAYS];
    struct sim_pde pde[SIM_PDES];
    _Atomic uint64_t root; /* 0: none */
    uint64_t random;
    struct vl_space *space;
    bool is_used; /* something may be in the TLB */
};
extern struct sim_mmu sim_mmu[VL_CPUS_MAX];

/* What the checks know of each frame. */
struct sim_frame {
    _Atomic uint32_t cached; /* entries of all TLBs that name it, active roots included */
    _Atomic uint32_t mapped; /* page-table entries that name it */
    _Atomic uint32_t is_free;
};

/** sim_frame_of() - of a frame of RAM; panics for one that is none. */
struct sim_frame *sim_frame_of(uint64_t pfn);

/** sim_time() - a clock that ticks at each TLB fill and each cleared entry. */
uint64_t sim_time(void);

/** sim_mmu_start() / sim_mmu_stop() - with the machine. */
void sim_mmu_start(void);
void sim_mmu_stop(void);
void sim_check_start(void);
void sim_check_stop(void);
/** sim_check_event() - what the core reports, held against what the MMU knows. */
void sim_check_event(enum vl_event event, uint64_t a, uint64_t b);

/** sim_broken() - a fault of the core: panics with the text. */
_Noreturn void sim_broken(const char *format, ...) VL_PRINTF(1, 2);

#endif
