/*
 * arch/pte.h (x86-64) - the format of page-table entries, four levels of 512 (Intel SDM vol. 3,
 * "4-level paging"; AMD APM vol. 2, "Long-mode page translation").
 *
 * Only what table/ and above need: making entries, asking them, indices, and TLB instructions.
 */
#ifndef VLI_ARCH_PTE_H
#define VLI_ARCH_PTE_H

#include <vellum/types.h>

#define VLI_TABLE_LEVELS  4u
#define VLI_TABLE_BITS    9u
#define VLI_TABLE_ENTRIES 512u
/* Root entries that belong to user addresses. */
#define VLI_ROOT_USER 256u

#define VLI_PTE_PRESENT  0x001ull
#define VLI_PTE_WRITE    0x002ull
#define VLI_PTE_USER     0x004ull
#define VLI_PTE_ACCESSED 0x020ull
#define VLI_PTE_DIRTY    0x040ull
#define VLI_PTE_LARGE    0x080ull
#define VLI_PTE_GLOBAL   0x100ull
#define VLI_PTE_HELD     0x200ull /* software: not present, yet it keeps its frame (no access) */
#define VLI_PTE_SOFT2    0x400ull
#define VLI_PTE_SOFT3    0x800ull
#define VLI_PTE_NX       0x8000000000000000ull
#define VLI_PTE_FRAME    0x000ffffffffff000ull

/** vli_pte_make() - a present leaf entry of a user page; @write, @exec as allowed now. */
static inline uint64_t vli_pte_make(struct vl_pfn pfn, bool write, bool exec)
{
    return vl_pfn_to_pa(pfn).a | VLI_PTE_PRESENT | VLI_PTE_USER | (write ? VLI_PTE_WRITE : 0) |
           (exec ? 0 : VLI_PTE_NX);
}

/** vli_pte_table() - an entry that points to a lower table page. */
static inline uint64_t vli_pte_table(struct vl_pfn pfn)
{
    return vl_pfn_to_pa(pfn).a | VLI_PTE_PRESENT | VLI_PTE_WRITE | VLI_PTE_USER | VLI_PTE_ACCESSED;
}

static inline bool vli_pte_is_present(uint64_t pte)
{
    return (pte & VLI_PTE_PRESENT) != 0;
}
/** vli_pte_hold() - what a present entry becomes when all access is taken away for a while. */
static inline uint64_t vli_pte_hold(uint64_t pte)
{
    return (pte & ~(VLI_PTE_PRESENT | VLI_PTE_WRITE)) | VLI_PTE_HELD;
}
/** vli_pte_has_frame() - does it keep a frame, present or held? */
static inline bool vli_pte_has_frame(uint64_t pte)
{
    return (pte & (VLI_PTE_PRESENT | VLI_PTE_HELD)) != 0;
}
static inline bool vli_pte_can_write(uint64_t pte)
{
    return (pte & VLI_PTE_WRITE) != 0;
}
static inline bool vli_pte_can_exec(uint64_t pte)
{
    return (pte & VLI_PTE_NX) == 0;
}
static inline bool vli_pte_is_dirty(uint64_t pte)
{
    return (pte & VLI_PTE_DIRTY) != 0;
}
static inline bool vli_pte_is_accessed(uint64_t pte)
{
    return (pte & VLI_PTE_ACCESSED) != 0;
}
static inline struct vl_pfn vli_pte_pfn(uint64_t pte)
{
    return (struct vl_pfn){(uint32_t)((pte & VLI_PTE_FRAME) >> VL_PAGE_SHIFT)};
}

/** vli_table_shift() - bits below the index of a level; level 0 is the leaf, 3 the root. */
static inline unsigned vli_table_shift(unsigned level)
{
    return VL_PAGE_SHIFT + VLI_TABLE_BITS * level;
}
/** vli_table_index() - which entry of a level's page covers @va. */
static inline unsigned vli_table_index(vl_va va, unsigned level)
{
    return (unsigned)(va >> vli_table_shift(level)) & (VLI_TABLE_ENTRIES - 1u);
}
/** vli_table_reach() - bytes that one entry of a level covers. */
static inline uint64_t vli_table_reach(unsigned level)
{
    return 1ull << vli_table_shift(level);
}

#if !defined(VL_SIM)
/** vli_tlb_flush_page() - drop this CPU's translation of one page. */
static inline void vli_tlb_flush_page(vl_va va)
{
    __asm__ volatile("invlpg (%0)" : : "r"(va) : "memory");
}
/** vli_tlb_flush_all() - drop everything of this CPU that is not global. */
static inline void vli_tlb_flush_all(void)
{
    uint64_t cr3;

    __asm__ volatile("movq %%cr3, %0\n\tmovq %0, %%cr3" : "=r"(cr3) : : "memory");
}
#else
/* The simulated MMU supplies these. */
void vli_tlb_flush_page(vl_va va);
void vli_tlb_flush_all(void);
#endif

#endif
