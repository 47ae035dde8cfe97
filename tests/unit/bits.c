/*
 * Goal: the bit functions agree with their definitions.
 * Method: each is compared with a loop that counts, at all powers of 2, beside them, and at random.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "core/base/bits.h"
#include "machine/sim/sim.h"

static unsigned slow_lowest(uint64_t n)
{
    unsigned i = 0;

    while ((n >> i & 1u) == 0) {
        i++;
    }
    return i;
}

static unsigned slow_highest(uint64_t n)
{
    unsigned i = 63;

    while ((n >> i & 1u) == 0) {
        i--;
    }
    return i;
}

static unsigned slow_ceil(uint64_t n)
{
    unsigned k = 0;

    while (k < 64 && (uint64_t)1 << k < n) {
        k++;
    }
    return k;
}

static void check(uint64_t n)
{
    unsigned ones = 0;

    if (n == 0) {
        return;
    }
    for (unsigned i = 0; i < 64; i++) {
        ones += (unsigned)(n >> i & 1u);
    }
    assert_int_equal(vli_bit_lowest(n), slow_lowest(n));
    assert_int_equal(vli_bit_highest(n), slow_highest(n));
    assert_int_equal(vli_is_power_of_2(n), ones == 1);
    if (n <= (uint64_t)1 << 63) {
        assert_int_equal(vli_log2_ceil(n), slow_ceil(n));
    }
    for (unsigned k = 0; k < 62 && n < (uint64_t)1 << 62; k++) {
        uint64_t unit = (uint64_t)1 << k;

        assert_true(vli_round_down(n, unit) == n / unit * unit);
        assert_true(vli_round_up(n, unit) == (n + unit - 1) / unit * unit);
    }
}

static void all_agree(void **state)
{
    uint64_t random = sim_seed(7);

    (void)state;
    for (unsigned i = 0; i < 64; i++) {
        check((uint64_t)1 << i);
        check(((uint64_t)1 << i) - 1);
        check(((uint64_t)1 << i) + 1);
    }
    for (unsigned i = 0; i < 10000; i++) {
        check(sim_random(&random) >> (i % 64));
    }
    check(UINT64_MAX);
    assert_false(vli_is_power_of_2(0));
    assert_int_equal(vli_log2_ceil(0), 0);
    assert_true(vli_round_up(UINT64_MAX, 4096) == 0); /* wraps, as documented */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_agree)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
