/*
 * Goal: the tree finds what was put in, in order, stays balanced, and its summaries are right after
 * every change.
 * Method: random insertions, removals, replacements and changes of value against a plain array;
 * vli_tree_validate() and a recomputation of all summaries after each. The summary is that of
 * free-range search: the largest value below. A second test removes every node of trees of every
 * small size, so that each case of rebalancing is met.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "core/base/bits.h"
#include "core/base/tree.h"
#include "machine/sim/sim.h"

#define KEYS 512u

struct node {
    struct vli_tree_node link;
    unsigned key;
    uint64_t value;
    uint64_t largest; /* summary */
};

static struct vli_tree tree;
static struct node *present[KEYS];
static struct node pool[2 * KEYS];

static struct node *node_of(struct vli_tree_node *link)
{
    return link == NULL ? NULL : vli_container_of(link, struct node, link);
}

static uint64_t largest_of(struct vli_tree_node *link)
{
    return link == NULL ? 0 : node_of(link)->largest;
}

static uint64_t compute(struct node *node)
{
    uint64_t left = largest_of(node->link.left);
    uint64_t right = largest_of(node->link.right);
    uint64_t largest = left > right ? left : right;

    return node->value > largest ? node->value : largest;
}

static bool summarize(struct vli_tree_node *link)
{
    struct node *node = node_of(link);
    uint64_t before = node->largest;

    node->largest = compute(node);
    return node->largest != before;
}

static void insert(struct node *node)
{
    struct vli_tree_node **link = &tree.root;
    struct vli_tree_node *parent = NULL;

    while (*link != NULL) {
        parent = *link;
        link = node->key < node_of(parent)->key ? &parent->left : &parent->right;
    }
    vli_tree_insert(&tree, &node->link, parent, link, summarize);
    present[node->key] = node;
}

static void take_out(unsigned key)
{
    vli_tree_remove(&tree, &present[key]->link, summarize);
    present[key] = NULL;
}

static size_t depth_of(const struct vli_tree_node *node)
{
    size_t left = node == NULL ? 0 : depth_of(node->left);
    size_t right = node == NULL ? 0 : depth_of(node->right);

    return node == NULL ? 0 : 1 + (left > right ? left : right);
}

static void compare(void)
{
    struct vli_tree_node *at = vli_tree_first(&tree);
    struct vli_tree_node *before = NULL;
    size_t count = 0;

    for (unsigned key = 0; key < KEYS; key++) {
        if (present[key] == NULL) {
            continue;
        }
        assert_ptr_equal(node_of(at), present[key]);
        assert_true(present[key]->largest == compute(present[key]));
        assert_ptr_equal(vli_tree_prev(at), before);
        before = at;
        at = vli_tree_next(at);
        count++;
    }
    assert_null(at);
    assert_ptr_equal(vli_tree_last(&tree), before);
    assert_int_equal(vli_tree_validate(&tree), count);
    assert_true(depth_of(tree.root) <= 2 * (vli_bit_highest(count + 1) + 1));
}

static void empty(void)
{
    tree.root = NULL;
    memset(present, 0, sizeof(present));
    memset(pool, 0x5a, sizeof(pool)); /* summaries begin as rubbish */
    for (unsigned i = 0; i < 2 * KEYS; i++) {
        pool[i].key = i % KEYS;
    }
}

static void random_operations(void **state)
{
    uint64_t random = sim_seed(1972);
    uint64_t ops = sim_ops(100000) / 10;

    (void)state;
    empty();
    for (uint64_t i = 0; i < ops; i++) {
        uint64_t r = sim_random(&random);
        /* The range of keys in use grows and shrinks, so that trees of all sizes come about. */
        unsigned key = (unsigned)(r >> 32) % (1u + (unsigned)(i / 64) % KEYS);

        if (present[key] == NULL) {
            pool[key].value = r % 1000;
            insert(&pool[key]);
        } else if (r % 8 == 0) {
            struct node *old = present[key];
            struct node *fresh = old == &pool[key] ? &pool[key + KEYS] : &pool[key];

            *fresh = *old;
            vli_tree_replace(&tree, &old->link, &fresh->link);
            present[key] = fresh;
        } else if (r % 8 == 1) {
            present[key]->value = r % 1000;
            vli_tree_update(&present[key]->link, summarize);
        } else {
            take_out(key);
        }
        compare();
    }
}

static void each_removal_of_small_trees(void **state)
{
    (void)state;
    for (unsigned size = 1; size <= 40; size++) {
        for (unsigned victim = 0; victim < size; victim++) {
            empty();
            for (unsigned i = 0; i < size; i++) {
                /* 41 is prime and above every size: a permutation once the rest is passed over. */
                for (unsigned k = 0; k < 41; k++) {
                    unsigned key = (k * 17 + i) % 41;

                    if (key < size && present[key] == NULL) {
                        pool[key].value = i;
                        insert(&pool[key]);
                        break;
                    }
                }
            }
            take_out(victim);
            compare();
            for (unsigned i = 0; i < size; i++) {
                if (i != victim) {
                    take_out(i);
                    compare();
                }
            }
            assert_null(tree.root);
        }
    }
}

static void without_summaries(void **state)
{
    (void)state;
    empty();
    for (unsigned key = 0; key < KEYS; key++) {
        struct vli_tree_node *last = vli_tree_last(&tree);

        vli_tree_insert(&tree, &pool[key].link, last, last == NULL ? &tree.root : &last->right,
                        NULL);
        assert_int_equal(vli_tree_validate(&tree), key + 1);
    }
    for (unsigned key = 0; key < KEYS; key++) {
        vli_tree_remove(&tree, &pool[key].link, NULL);
        assert_int_equal(vli_tree_validate(&tree), KEYS - 1 - key);
    }
}

static void red_under_red(void *arg)
{
    (void)arg;
    empty();
    for (unsigned key = 0; key < 8; key++) {
        pool[key].value = 0;
        insert(&pool[key]);
    }
    for (unsigned key = 0; key < 8; key++) {
        pool[key].link.parent_color |= 1;
    }
    vli_tree_validate(&tree);
}

static void broken_trees_are_seen(void **state)
{
    (void)state;
    assert_true(sim_dies(red_under_red, NULL, "tree.c"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations),
        cmocka_unit_test(each_removal_of_small_trees),
        cmocka_unit_test(without_summaries),
        cmocka_unit_test(broken_trees_are_seen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
