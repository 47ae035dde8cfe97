/*
 * mutant.h - four faults that can be built in on purpose, to prove that the simulated machine sees
 * them. A build with MUTANTS=1 chooses one by a variable (tests/sim/mutants.sh); in every other
 * build the choice is a constant and nothing of them is left.
 */
#ifndef VLI_TABLE_MUTANT_H
#define VLI_TABLE_MUTANT_H

#include <vellum/types.h>

#if defined(VLI_MUTANTS)
/* Set by the test before the machine starts. */
extern unsigned vli_mutant;
#define VLI_MUTANT vli_mutant
#else
#define VLI_MUTANT 0u
#endif

enum vli_mutant {
    VLI_MUTANT_NO_FLUSH = 1,   /* the flush is skipped */
    VLI_MUTANT_FREE_FIRST = 2, /* the frames go back before the flush */
    VLI_MUTANT_WRONG_MASK = 3, /* the lowest of the other CPUs is forgotten */
    VLI_MUTANT_SHORT_RANGE = 4 /* the last page of the range is forgotten */
};

/** vli_mutant_flushes() - are flushes done? */
static inline bool vli_mutant_flushes(void)
{
    return VLI_MUTANT != VLI_MUTANT_NO_FLUSH;
}

/** vli_mutant_frees_first() - are frames given back before the flush? */
static inline bool vli_mutant_frees_first(void)
{
    return VLI_MUTANT == VLI_MUTANT_FREE_FIRST;
}

/** vli_mutant_mask() - @any: does @mask name any CPU? Returns the same of what it leaves of it. */
static inline bool vli_mutant_mask(bool any, struct vl_cpumask *mask)
{
    uint64_t left = 0;

    if (VLI_MUTANT != VLI_MUTANT_WRONG_MASK) {
        return any;
    }
    for (unsigned i = 0; i < sizeof(mask->word) / sizeof(mask->word[0]); i++) {
        mask->word[i] &= mask->word[i] - 1;
        left |= mask->word[i];
    }
    return left != 0;
}

/** vli_mutant_end() - the end of the range that is flushed. */
static inline vl_va vli_mutant_end(vl_va start, vl_va end)
{
    return VLI_MUTANT == VLI_MUTANT_SHORT_RANGE && end - start > VL_PAGE_SIZE ? end - VL_PAGE_SIZE
                                                                              : end;
}

#endif
