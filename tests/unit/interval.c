/*
 * Goal: sets of ranges find exactly what overlaps, each once, in order of their starts, and equal
 * ranges in the order in which they came, whatever was inserted, twinned and removed before.
 * Method: random operations on many ranges of which a good part are equal, against a list that is
 * searched whole.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "core/rmap/interval.h"
#include "machine/sim/sim.h"

#define RANGES 300u

struct range {
    struct vli_interval it;
    uint64_t first;
    uint64_t last;
    uint64_t age; /* later ones are greater */
    bool is_in;
};

static struct range ranges[RANGES];
static struct vli_tree tree;
static uint64_t random_state;

static uint64_t below(uint64_t n)
{
    return sim_random(&random_state) % n;
}

static bool overlaps(const struct range *range, uint64_t first, uint64_t last)
{
    return range->is_in && range->first <= last && range->last >= first;
}

static unsigned count_overlapping(uint64_t first, uint64_t last)
{
    unsigned count = 0;

    for (unsigned i = 0; i < RANGES; i++) {
        count += overlaps(&ranges[i], first, last);
    }
    return count;
}

static void search(uint64_t first, uint64_t last)
{
    struct vli_interval *it = vli_interval_first(&tree, first, last);
    const struct range *before = NULL;
    unsigned met = 0;

    for (; it != NULL; it = vli_interval_next(it, first, last)) {
        const struct range *range = (const struct range *)(const void *)it;

        assert_true(overlaps(range, first, last));
        if (before != NULL) {
            assert_true(before->first < range->first ||
                        (before->first == range->first && before->last < range->last) ||
                        (before->first == range->first && before->last == range->last &&
                         before->age < range->age));
        }
        before = range;
        met++;
    }
    assert_int_equal(met, count_overlapping(first, last));
}

static void insert(struct range *range, uint64_t age)
{
    /* Few starts and lengths, so that many are equal; some at the ends of what 64 bits hold. */
    range->first = below(16) == 0 ? below(2) * (UINT64_MAX - 3) : below(40) * 5;
    range->last = range->first + (below(16) == 0 ? 3 : below(4) * below(15));
    if (range->last < range->first) {
        range->last = UINT64_MAX;
    }
    range->age = age;
    range->is_in = true;
    vli_interval_insert(&tree, &range->it, range->first, range->last);
}

static void ranges_agree_with_a_list(void **state)
{
    uint64_t ops = sim_ops(60000);
    size_t count = 0;

    (void)state;
    random_state = sim_seed(17);
    tree.root = NULL;
    for (uint64_t op = 0; op < ops; op++) {
        struct range *range = &ranges[below(RANGES)];
        uint64_t first = below(8) == 0 ? UINT64_MAX - below(5) : below(210);

        if (!range->is_in) {
            insert(range, op);
            count++;
        } else if (below(2) == 0) {
            vli_interval_remove(&tree, &range->it);
            range->is_in = false;
            count--;
        }
        search(first, first + (first < 300 ? below(20) : 0));
        if (op % 500 == 0) {
            assert_int_equal(vli_interval_validate(&tree), count);
            search(0, UINT64_MAX);
        }
    }
    for (unsigned i = 0; i < RANGES; i++) {
        if (ranges[i].is_in) {
            vli_interval_remove(&tree, &ranges[i].it);
            ranges[i].is_in = false;
        }
    }
    assert_null(tree.root);
}

/* A fork puts the child's range right after the parent's, before those of older children. */
static void twins_stand_behind_their_model(void **state)
{
    struct range *parent = &ranges[0];
    struct range *old = &ranges[1];
    struct range *young = &ranges[2];
    struct vli_interval *it;

    (void)state;
    tree.root = NULL;
    vli_interval_insert(&tree, &parent->it, 5, 9);
    vli_interval_insert_twin(&old->it, &parent->it);
    vli_interval_insert_twin(&young->it, &parent->it);
    assert_int_equal(vli_interval_validate(&tree), 3);
    it = vli_interval_first(&tree, 7, 7);
    assert_ptr_equal(it, &parent->it);
    it = vli_interval_next(it, 7, 7);
    assert_ptr_equal(it, &young->it);
    it = vli_interval_next(it, 7, 7);
    assert_ptr_equal(it, &old->it);
    assert_null(vli_interval_next(it, 7, 7));
    vli_interval_remove(&tree, &parent->it); /* the node goes over to the next */
    assert_int_equal(vli_interval_validate(&tree), 2);
    assert_ptr_equal(vli_interval_first(&tree, 9, 20), &young->it);
    vli_interval_remove(&tree, &old->it);
    vli_interval_remove(&tree, &young->it);
    assert_null(tree.root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_agree_with_a_list),
        cmocka_unit_test(twins_stand_behind_their_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
