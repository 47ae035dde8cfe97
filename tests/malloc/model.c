/*
 * Goal: whatever sequence of calls a program makes, each block is its own: aligned, as large as
 * asked, beside all others, and with the contents that were written, also after realloc().
 * Method: random sequences against a plain model that knows address, length and contents of each
 * block that is out. An interval is in the model's sorted array once; contents follow from a
 * block's number. Seeds are fixed and printed; VL_TEST_OPS sets the number of operations.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/malloc/child.h"

#define BLOCKS 3000u

struct block {
    unsigned char *start;
    size_t size;
    unsigned char mark;
};

static struct block blocks[BLOCKS];
static unsigned long seed;
static size_t size_max;

static size_t random_below(size_t n)
{
    return random_next(&seed) % n;
}

/* Small ones more often than large ones. */
static size_t random_size(void)
{
    size_t top = (size_t)1 << random_below(64 - (size_t)__builtin_clzl(size_max));

    return random_below(top + 1);
}

/* A pattern in which a block that is moved by a few bytes does not look right. */
static unsigned char byte_at(const struct block *block, size_t i)
{
    return (unsigned char)(block->mark + i * 7 + (i >> 8));
}

/* Short blocks wholly; of long ones the ends, and some bytes of each page. */
static size_t step_at(const struct block *block, size_t i)
{
    return i < 300 || block->size - i < 300 ? 1 : 251;
}

static void fill(const struct block *block)
{
    for (size_t i = 0; i < block->size; i += step_at(block, i)) {
        block->start[i] = byte_at(block, i);
    }
}

static void check(const struct block *block, size_t size)
{
    for (size_t i = 0; i < size; i += step_at(block, i)) {
        if (block->start[i] != byte_at(block, i)) {
            fail_msg("block of %zu at %p: byte %zu is %u", block->size, (void *)block->start, i,
                     block->start[i]);
        }
    }
}

static int by_start(const void *a, const void *b)
{
    const struct block *x = *(struct block *const *)a;
    const struct block *y = *(struct block *const *)b;

    return x->start < y->start ? -1 : x->start > y->start;
}

/* No two blocks have a byte in common, by what malloc_usable_size() says they have. */
static void check_apart(void)
{
    static struct block *sorted[BLOCKS];
    size_t count = 0;

    for (size_t i = 0; i < BLOCKS; i++) {
        if (blocks[i].start != NULL) {
            sorted[count++] = &blocks[i];
        }
    }
    qsort(sorted, count, sizeof(sorted[0]), by_start);
    for (size_t i = 0; i + 1 < count; i++) {
        assert_true(sorted[i]->start + malloc_usable_size(sorted[i]->start) <=
                    sorted[i + 1]->start);
    }
}

static void allocate(struct block *block)
{
    size_t align = 16;

    block->size = random_size();
    block->mark = (unsigned char)random_below(256);
    switch (random_below(5)) {
    case 0:
        block->start = calloc(1, block->size);
        assert_non_null(block->start);
        for (size_t i = 0; i < block->size; i += step_at(block, i)) {
            assert_int_equal(block->start[i], 0);
        }
        break;
    case 1:
        align = (size_t)1 << random_below(15);
        block->start = memalign(align, block->size);
        break;
    default:
        block->start = malloc(block->size);
    }
    assert_non_null(block->start);
    assert_true((uintptr_t)block->start % (block->size > 24 ? align : 8) == 0);
    assert_true(malloc_usable_size(block->start) >= block->size);
    fill(block);
}

static void resize(struct block *block)
{
    size_t size = random_size() + 1;
    size_t common = size < block->size ? size : block->size;
    struct block before = *block;

    block->start = realloc(block->start, size);
    assert_non_null(block->start);
    /* The pattern's steps follow from the size, so the bytes of the shorter one are looked at. */
    before.start = block->start;
    for (size_t i = 0; i < common; i += step_at(&before, i)) {
        assert_int_equal(block->start[i], byte_at(&before, i));
    }
    block->size = size;
    fill(block);
}

static void run(unsigned long first_seed, size_t most, size_t ops)
{
    const char *given = getenv("VL_TEST_OPS");

    seed = first_seed;
    size_max = most;
    ops = given != NULL ? strtoul(given, NULL, 10) : ops;
    print_message("seed %lu, sizes to %zu, %zu operations\n", seed, most, ops);
    for (size_t i = 0; i < ops; i++) {
        struct block *block = &blocks[random_below(BLOCKS)];

        if (block->start == NULL) {
            allocate(block);
        } else if (random_below(4) == 0) {
            resize(block);
        } else {
            check(block, block->size);
            free(block->start);
            block->start = NULL;
        }
        if (i % (ops / 10 + 1) == 0) {
            check_apart();
        }
        if (i % (ops / 5 + 1) == 7) {
            (void)malloc_trim(0);
        }
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        if (blocks[i].start != NULL) {
            check(&blocks[i], blocks[i].size);
            free(blocks[i].start);
            blocks[i].start = NULL;
        }
    }
}

static void tiny(void **state)
{
    (void)state;
    run(1, 128, 1000000);
}

static void classes(void **state)
{
    (void)state;
    run(2, 32768, 300000);
}

static void runs_and_mappings(void **state)
{
    (void)state;
    run(3, 4u << 20, 30000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny),
        cmocka_unit_test(classes),
        cmocka_unit_test(runs_and_mappings),
    };

    return cmocka_run_group_tests_name("malloc: against a model", tests, NULL, NULL);
}
