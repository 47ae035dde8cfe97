/*
 * bits.h - bit arithmetic on words and small arrays of words.
 */
#ifndef VLI_BITS_H
#define VLI_BITS_H

#include "core/base/compiler.h"

/** vli_bit_lowest() - index of the lowest set bit of a nonzero word. */
static inline unsigned vli_bit_lowest(uint64_t word)
{
    return VLI_ZEROS_BELOW(word);
}

/** vli_bit_highest() - index of the highest set bit of a nonzero word: floor(log2). */
static inline unsigned vli_bit_highest(uint64_t word)
{
    return 63u - VLI_ZEROS_ABOVE(word);
}

/** vli_log2_ceil() - least k with 1 << k >= @n; @n > 0. */
static inline unsigned vli_log2_ceil(uint64_t n)
{
    return n <= 1 ? 0 : vli_bit_highest(n - 1) + 1;
}

/** vli_is_power_of_2() - is exactly one bit set? */
static inline bool vli_is_power_of_2(uint64_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

/** vli_round_down() - largest multiple of @unit (a power of 2) that is ≤ @n. */
static inline uint64_t vli_round_down(uint64_t n, uint64_t unit)
{
    return n & ~(unit - 1);
}

/** vli_round_up() - least multiple of @unit (a power of 2) that is ≥ @n; wraps on overflow. */
static inline uint64_t vli_round_up(uint64_t n, uint64_t unit)
{
    return (n + unit - 1) & ~(unit - 1);
}

#endif
