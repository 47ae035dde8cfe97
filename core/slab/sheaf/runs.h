/*
 * runs.h (sheaf) - addresses at equal distances: written, and recognised, several at once.
 *
 * Most units that leave a slab, or come back to it, stand side by side. Two addresses go into one
 * vector of 16 bytes, where the machine has them; a kernel that keeps its vector registers for its
 * programs gets the same from plain words.
 */
#ifndef VLI_RUNS_H
#define VLI_RUNS_H

#include "core/base/compiler.h"

#if defined(VLI_VECTORS)

/* Writes 8 addresses, each @step above the one before, to @end[-1] … @end[-8]. */
static inline void vli_run_put8(uintptr_t *end, uintptr_t unit, uintptr_t step)
{
    vli_words2 *pairs = (vli_words2 *)(void *)(end - 8);
    vli_words2 pair = {unit + step, unit};
    vli_words2 two = {2 * step, 2 * step};

    pairs[3] = pair;
    pairs[2] = pair + two;
    pairs[1] = pair + two + two;
    pairs[0] = pair + two + two + two;
}

/* Are @units[0] … @units[7] each @step above the one before, the first being @next? */
static inline bool vli_run_is8(const uintptr_t *units, uintptr_t next, uintptr_t step)
{
    const vli_words2 *pairs = (const vli_words2 *)(const void *)units;
    vli_words2 pair = {next, next + step};
    vli_words2 two = {2 * step, 2 * step};
    vli_words2 difference = pairs[0] ^ pair;

    difference |= pairs[1] ^ (pair + two);
    difference |= pairs[2] ^ (pair + two + two);
    difference |= pairs[3] ^ (pair + two + two + two);
    return (difference[0] | difference[1]) == 0;
}

#else

static inline void vli_run_put8(uintptr_t *end, uintptr_t unit, uintptr_t step)
{
    uintptr_t fifth = unit + 4 * step;

    end[-1] = unit;
    end[-2] = unit + step;
    end[-3] = unit + 2 * step;
    end[-4] = fifth - step;
    end[-5] = fifth;
    end[-6] = fifth + step;
    end[-7] = fifth + 2 * step;
    end[-8] = fifth + 3 * step;
}

static inline bool vli_run_is8(const uintptr_t *units, uintptr_t next, uintptr_t step)
{
    uintptr_t fifth = next + 4 * step;
    uintptr_t difference = units[0] ^ next;

    difference |= units[1] ^ (next + step);
    difference |= units[2] ^ (next + 2 * step);
    difference |= units[3] ^ (fifth - step);
    difference |= units[4] ^ fifth;
    difference |= units[5] ^ (fifth + step);
    difference |= units[6] ^ (fifth + 2 * step);
    difference |= units[7] ^ (fifth + 3 * step);
    return difference == 0;
}

#endif

/* Writes @run addresses, each @step above the one before, to @end[-1], @end[-2] … Returns: the last
 * place written. */
static inline uintptr_t *vli_run_put(uintptr_t *end, uintptr_t unit, uint32_t run, uintptr_t step)
{
    for (; run >= 8; run -= 8, unit += 8 * step, end -= 8) {
        vli_run_put8(end, unit, step);
    }
    for (; run > 0; run--, unit += step) {
        *--end = unit;
    }
    return end;
}

/* How many of @units follow each other at a distance of @step from the first one, @max at most. */
static inline uint32_t vli_run_length(const uintptr_t *units, uint32_t max, uintptr_t step)
{
    uintptr_t next = units[0] + step;
    uint32_t length = 1;

    if (max < 2 || units[1] != next) { /* most of what was freed in no order */
        return 1;
    }
    for (; length + 8 <= max && vli_run_is8(units + length, next, step); length += 8) {
        next += 8 * step;
    }
    for (; length < max && units[length] == next; length++) {
        next += step;
    }
    return length;
}

#endif
