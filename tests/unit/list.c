/*
 * Goal: the lists keep their order and their links through every operation.
 * Method: random operations on a list and on an array that models it; all links are walked both
 * ways after each.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "core/base/list.h"
#include "machine/sim/sim.h"

#define ITEMS 24u

struct item {
    struct vli_list link;
    unsigned number;
    int where; /* which of the two lists, or -1 */
};

static struct vli_list heads[2] = {VLI_LIST_INIT(heads[0]), VLI_LIST_INIT(heads[1])};
static struct item items[ITEMS];
static unsigned model[2][ITEMS];
static size_t counts[2];

static void compare(void)
{
    for (unsigned l = 0; l < 2; l++) {
        struct vli_list *at;
        size_t i = 0;

        vli_list_each (at, &heads[l]) {
            assert_int_equal(vli_list_entry(at, struct item, link)->number, model[l][i]);
            assert_ptr_equal(at->next->prev, at);
            i++;
        }
        assert_int_equal(i, counts[l]);
        assert_int_equal(vli_list_is_empty(&heads[l]), counts[l] == 0);
        if (counts[l] != 0) {
            assert_int_equal(vli_list_first(&heads[l], struct item, link)->number, model[l][0]);
            assert_int_equal(vli_list_last(&heads[l], struct item, link)->number,
                             model[l][counts[l] - 1]);
        }
    }
}

static void model_insert(unsigned l, size_t at, unsigned number)
{
    memmove(&model[l][at + 1], &model[l][at], (counts[l] - at) * sizeof(model[l][0]));
    model[l][at] = number;
    counts[l]++;
    items[number].where = (int)l;
}

static size_t model_find(unsigned number)
{
    unsigned l = (unsigned)items[number].where;
    size_t at = 0;

    while (model[l][at] != number) {
        at++;
    }
    return at;
}

static void model_remove(unsigned number)
{
    unsigned l = (unsigned)items[number].where;
    size_t at = model_find(number);

    memmove(&model[l][at], &model[l][at + 1], (counts[l] - at - 1) * sizeof(model[l][0]));
    counts[l]--;
    items[number].where = -1;
}

static void insert(unsigned number, unsigned l, uint64_t random)
{
    unsigned beside = (unsigned)(random >> 8) % ITEMS;

    switch (random % 4) {
    case 0:
        vli_list_insert_after(&heads[l], &items[number].link);
        model_insert(l, 0, number);
        break;
    case 1:
        vli_list_insert_before(&heads[l], &items[number].link);
        model_insert(l, counts[l], number);
        break;
    default:
        if (items[beside].where < 0) {
            return;
        }
        l = (unsigned)items[beside].where;
        if (random % 4 == 2) {
            vli_list_insert_after(&items[beside].link, &items[number].link);
            model_insert(l, model_find(beside) + 1, number);
        } else {
            vli_list_insert_before(&items[beside].link, &items[number].link);
            model_insert(l, model_find(beside), number);
        }
        break;
    }
}

static void splice(unsigned from)
{
    unsigned to = 1 - from;

    vli_list_splice(&heads[from], &heads[to]);
    memmove(&model[to][counts[from]], &model[to][0], counts[to] * sizeof(model[to][0]));
    memcpy(&model[to][0], &model[from][0], counts[from] * sizeof(model[from][0]));
    for (size_t i = 0; i < counts[from]; i++) {
        items[model[from][i]].where = (int)to;
    }
    counts[to] += counts[from];
    counts[from] = 0;
}

static void random_operations(void **state)
{
    uint64_t random = sim_seed(20240901);

    (void)state;
    for (unsigned i = 0; i < ITEMS; i++) {
        items[i] = (struct item){.number = i, .where = -1};
        vli_list_init(&items[i].link);
    }
    for (unsigned i = 0; i < 20000; i++) {
        uint64_t r = sim_random(&random);
        unsigned number = (unsigned)(r >> 32) % ITEMS;

        if (r % 64 == 0) {
            splice((unsigned)(r >> 20) % 2);
        } else if (items[number].where < 0) {
            insert(number, (unsigned)(r >> 20) % 2, sim_random(&random));
        } else {
            vli_list_remove(&items[number].link);
            model_remove(number);
            vli_list_remove(&items[number].link); /* twice does no harm */
        }
        compare();
    }
}

static void removal_while_walking(void **state)
{
    struct vli_list head = VLI_LIST_INIT(head);
    struct vli_list *at;
    struct vli_list *next;
    unsigned seen = 0;

    (void)state;
    for (unsigned i = 0; i < ITEMS; i++) {
        vli_list_insert_before(&head, &items[i].link);
    }
    vli_list_each_safe (at, next, &head) {
        assert_ptr_equal(at, &items[seen].link);
        vli_list_remove(at);
        seen++;
    }
    assert_int_equal(seen, ITEMS);
    assert_true(vli_list_is_empty(&head));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations),
        cmocka_unit_test(removal_while_walking),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
