/*
 * Goal: vli_format() is snprintf() for what it understands.
 * Method: the same format and arguments go to both; random widths and numbers; every size of
 * buffer; then the lines of vli_log() and the message of vli_panic().
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "core/base/assert.h"
#include "core/base/log.h"
#include "machine/sim/sim.h"

/* For formats that a compiler rightly complains about. */
static size_t (*volatile print_unchecked)(char *out, size_t size, const char *format,
                                          ...) = vli_print;

#define SAME(...)                                                                                  \
    do {                                                                                           \
        char ours[256];                                                                            \
        char theirs[256];                                                                          \
        int want = snprintf(theirs, sizeof(theirs), __VA_ARGS__);                                  \
        assert_int_equal(vli_print(ours, sizeof(ours), __VA_ARGS__), want);                        \
        assert_string_equal(ours, theirs);                                                         \
    } while (0)

static void as_snprintf(void **state)
{
    (void)state;
    SAME("plain");
    SAME("%%");
    SAME("%s|%8s|%-8s|%s", "a", "bc", "de", "");
    SAME("%.3s|%8.2s|%-8.1s|", "abcdef", "abc", "xyz");
    SAME("%c%c|%3c|%-3c|", 'a', 'b', 'c', 'd');
    SAME("%d %d %d", 0, -1, 2147483647);
    SAME("%d", (int)(-2147483647 - 1));
    SAME("%ld %lld", (long)INT64_MIN, (long long)INT64_MIN);
    SAME("%u %lu %llu %zu", 4294967295u, (unsigned long)UINT64_MAX, 1ull, sizeof(int));
    SAME("%x %lx %llx", 0xdeadbeefu, (unsigned long)UINT64_MAX, 0xabcull);
    SAME("%8d|%-8d|%08d|%08x|", -42, -42, -42, 0xffu);
    SAME("%2u|%1u|%20lu|%020lu|", 12345u, 12345u, (unsigned long)UINT64_MAX, 7ul);
    SAME("%p", (void *)0x1234);
}

static void random_numbers(void **state)
{
    uint64_t random = sim_seed(99);

    (void)state;
    for (unsigned i = 0; i < 5000; i++) {
        unsigned long n = sim_random(&random) >> (i % 64);

        SAME("%lu|%12lu|%-12lu|%016lx|%ld", n, n, n, n, (long)n);
        SAME("%u|%6d|%x", (unsigned)n, (int)n, (unsigned)n);
    }
}

static void every_size_of_buffer(void **state)
{
    const char *text = "value 12345 of 0xabc";
    char out[32];

    (void)state;
    for (size_t size = 0; size < sizeof(out); size++) {
        memset(out, '#', sizeof(out));
        assert_int_equal(vli_print(out, size, "value %u of 0x%x", 12345u, 0xabcu), strlen(text));
        if (size > 0) {
            size_t kept = size - 1 < strlen(text) ? size - 1 : strlen(text);

            assert_memory_equal(out, text, kept);
            assert_int_equal(out[kept], 0);
        }
        for (size_t i = size; i < sizeof(out); i++) {
            assert_int_equal(out[i], '#');
        }
    }
    assert_int_equal(vli_print(NULL, 0, "%s", "abc"), 3);
}

static void what_is_not_understood_is_copied(void **state)
{
    const char *format = "%q and %";
    char out[32];

    (void)state;
    assert_int_equal(print_unchecked(out, sizeof(out), format), strlen(format));
    assert_string_equal(out, format);
    assert_int_equal(print_unchecked(out, sizeof(out), "%s", (const char *)NULL), 6);
    assert_string_equal(out, "(null)");
}

static void huge_width_is_harmless(void **state)
{
    char out[8];
    const char *format = "%99999999999999999999d";

    (void)state;
    assert_true(print_unchecked(out, sizeof(out), format, 1) < 1000000);
    assert_int_equal(out[7], 0);
}

static void die(void *arg)
{
    vli_panic("number %d of %s", 7, (const char *)arg);
}

static void broken(void *arg)
{
    (void)arg;
    VL_ASSERT(1 + 1 == 3);
}

static void panic_says_it(void **state)
{
    (void)state;
    assert_true(sim_dies(die, (void *)"nine", "number 7 of nine"));
    assert_true(sim_dies(broken, NULL, "1 + 1 == 3"));
    assert_true(sim_dies(broken, NULL, "log.c"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_snprintf),
        cmocka_unit_test(random_numbers),
        cmocka_unit_test(every_size_of_buffer),
        cmocka_unit_test(what_is_not_understood_is_copied),
        cmocka_unit_test(huge_width_is_harmless),
        cmocka_unit_test(panic_says_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
