/*
 * Goal: every strategy of RMAP finds, for each mapped frame, exactly the entries that hold it, in
 * whatever way areas were forked, written, split, merged, moved and unmapped; its memory is given
 * back, and does not grow with the number of generations.
 * Method: random operations on a family of spaces and two objects; vl_space_validate() compares the
 * walk from each frame with a scan of all tables. Then lines of forks whose parents end, and CPUs
 * that walk while others fork, unmap and end.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "core/rmap/rmap.h"
#include "core/slab/slab.h"
#include "machine/sim/mmu.h"
#include "machine/sim/sim.h"
#include "tests/lib/space_util.h"

#define PAGE   VL_PAGE_SIZE
#define BASE   ((vl_va)0x10000000)
#define PAGES  96u
#define SPACES 6u
#define RW     (VL_READ | VL_WRITE)
/* Without locks there is one CPU. */
#if VL_SMP
#define CPUS 4u
#else
#define CPUS 1u
#endif

static struct vl_space *spaces[SPACES];
static struct vl_object *objects[2];
static uint64_t random_state;

static uint64_t below(uint64_t n)
{
    return sim_random(&random_state) % n;
}

static void random_map(struct vl_space *space, vl_va va, size_t len)
{
    uint64_t kind = below(4);
    struct vl_map_request r = {.len = len,
                               .hint = va,
                               .place = VL_MAP_FIXED,
                               .prot = below(4) == 0 ? VL_READ : RW,
                               .kind = kind == 3 ? VL_MAP_SHARED : VL_MAP_PRIVATE,
                               .object = kind >= 2 ? objects[below(2)] : NULL,
                               .offset = kind >= 2 ? va - BASE : 0};
    vl_va got;

    assert_int_equal(vl_space_map(space, &r, &got), VL_OK);
}

static void random_fork(struct vl_space *space)
{
    struct vl_space **slot = &spaces[below(SPACES)];

    if (*slot == NULL) {
        assert_int_equal(vl_space_fork(space, slot), VL_OK);
    } else if (*slot != space) {
        vl_space_put(*slot);
        *slot = NULL;
    }
}

/* Any answer but a wrong one: what it is depends on what is mapped. */
static void random_op(struct vl_space *space)
{
    vl_va va = BASE + below(PAGES) * PAGE;
    size_t len = (1 + below(8)) * PAGE;
    vl_va to = BASE + below(PAGES) * PAGE;
    enum vl_status status = VL_OK;
    vl_va got;

    switch (below(16)) {
    case 0:
    case 1:
        random_map(space, va, len);
        break;
    case 2:
        status = vl_space_unmap(space, va, len);
        break;
    case 3:
        status = vl_space_protect(space, va, len, (uint32_t)below(4));
        break;
    case 4:
        random_fork(space);
        break;
    case 5:
        status = vl_space_remap(space, va, len, (1 + below(8)) * PAGE, 3, to, &got);
        break;
    case 6:
        status = vl_space_remap(space, va, len, len, 5, 0, &got);
        if (status == VL_OK) {
            status = vl_space_remap(space, got, len, len, 3, to, &got);
        }
        break;
    case 7:
        status = vl_space_advise(space, va, len, VL_ADVISE_DONTNEED);
        break;
    case 8:
        status = vl_object_truncate(objects[below(2)], below(PAGES) * PAGE + below(PAGE));
        break;
    case 9:
        status = vl_object_extend(objects[below(2)], PAGES * PAGE);
        break;
    default:
        for (size_t i = 0; i < len; i += PAGE) {
            status = vl_space_fault(space, va + i, below(3) == 0 ? VL_READ : VL_WRITE);
            assert_int_not_equal(status, VL_ENOMEM);
        }
        break;
    }
    assert_true(status <= 0);
}

static void validate_all(void)
{
    for (unsigned i = 0; i < SPACES; i++) {
        if (spaces[i] != NULL) {
            vl_space_validate(spaces[i]);
        }
    }
}

static void walks_and_tables_agree(void **state)
{
    uint64_t ops = sim_ops(20000);

    (void)state;
    random_state = sim_seed(2026);
    machine_on(64, 1);
    for (unsigned i = 0; i < 2; i++) {
        objects[i] = object_new(PAGES);
    }
    for (uint64_t op = 0; op < ops; op++) {
        unsigned i = (unsigned)below(SPACES);

        if (spaces[i] == NULL && below(20) == 0) {
            assert_int_equal(vl_space_create(&spaces[i]), VL_OK);
        }
        if (spaces[i] != NULL) {
            random_op(spaces[i]);
        }
        if (op % 500 == 0) {
            validate_all();
        }
    }
    validate_all();
    for (unsigned i = 0; i < SPACES; i++) {
        if (spaces[i] != NULL) {
            vl_space_put(spaces[i]);
            spaces[i] = NULL;
        }
        validate_all();
    }
    for (unsigned i = 0; i < 2; i++) {
        vl_object_put(objects[i]);
    }
    machine_off();
}

/* State in use beyond the areas, in bytes. */
static uint64_t memory(void)
{
    struct vli_rmap_memory now;

    vl_drain_all();
    vli_rmap_memory(&now);
    return now.frame_bytes + now.area_bytes + now.space_bytes;
}

static void lines_of_forks_do_not_grow(void **state)
{
    struct vl_space *space;
    struct vl_space *child;
    uint64_t after_ten = 0;

    (void)state;
    machine_on(64, 1);
    assert_int_equal(vl_space_create(&space), VL_OK);
    map_anon(space, BASE, 16 * PAGE, RW);
    for (unsigned i = 0; i < 16; i++) {
        assert_int_equal(vl_space_fault(space, BASE + i * PAGE, VL_WRITE), VL_OK);
    }
    for (unsigned generation = 0; generation < 200; generation++) {
        assert_int_equal(vl_space_fork(space, &child), VL_OK);
        assert_int_equal(vl_space_fault(child, BASE + generation % 16 * PAGE, VL_WRITE), VL_OK);
        vl_space_put(space);
        space = child;
        if (generation == 10) {
            after_ten = memory();
        }
    }
    assert_true(memory() <= after_ten);
    vl_space_validate(space);
    vl_space_put(space);
    assert_int_equal(memory(), 0);
    machine_off();
}

static bool count_visit(void *ctx, struct vl_frame *frame, struct vli_rmap_area *area, vl_va va,
                        struct vli_table_slot *slot)
{
    (void)frame;
    (void)area;
    (void)va;
    (void)slot;
    ++*(unsigned *)ctx;
    return true;
}

static void a_walk_ends_when_told_to(void **state)
{
    struct vl_space *space = space_on();
    struct vl_space *child;
    struct vl_pfn pfn;
    unsigned met = 0;

    (void)state;
    map_anon(space, BASE, PAGE, RW);
    assert_int_equal(vl_space_frame_get(space, BASE, VL_WRITE, &pfn), VL_OK);
    assert_int_equal(vl_space_fork(space, &child), VL_OK);
    vli_rmap_walk(vli_frame_of(pfn), NULL, count_visit, &met);
    assert_int_equal(met, 2);
    vl_space_put(child);
    met = 0;
    vli_rmap_walk(vli_frame_of(pfn), NULL, count_visit, &met);
    assert_int_equal(met, 1);
    assert_int_equal(vl_space_unmap(space, BASE, PAGE), VL_OK);
    met = 0;
    vli_rmap_walk(vli_frame_of(pfn), NULL, count_visit, &met); /* not mapped any more */
    assert_int_equal(met, 0);
    vl_frame_ref_put(pfn);
    space_off(space);
}

/* --------------------------------------------------------------------------- many CPUs */

static _Atomic bool is_over;

static void walker(struct vl_space *space, uint64_t *random)
{
    vl_va va = BASE + sim_random(random) % PAGES * PAGE;
    struct vl_frame *frame;
    struct vl_pfn pfn;
    unsigned met = 0;

    if (vl_space_frame_get(space, va, VL_WRITE, &pfn) == VL_OK) {
        frame = vli_frame_of(pfn);
        for (unsigned i = 0; i < 8; i++) {
            vli_rmap_walk(frame, NULL, count_visit, &met);
        }
        vl_frame_ref_put(pfn);
    }
}

static void changer(struct vl_space *space, unsigned rounds, uint64_t *random)
{
    struct vl_space *child;
    struct vl_space *grandchild;
    vl_va va;

    for (unsigned i = 0; i < rounds; i++) {
        va = BASE + sim_random(random) % PAGES * PAGE;
        assert_int_equal(vl_space_fork(space, &child), VL_OK);
        assert_int_equal(vl_space_fault(child, BASE, VL_WRITE), VL_OK);
        assert_int_equal(vl_space_fork(child, &grandchild), VL_OK);
        assert_int_equal(vl_space_unmap(space, va, 4 * PAGE), VL_OK);
        map_anon(space, va, 4 * PAGE, RW);
        if (va != BASE) {
            vl_space_put(child);
            assert_int_equal(vl_space_fault(grandchild, BASE, VL_WRITE), VL_OK);
        } else {
            vl_space_put(child);
        }
        vl_space_put(grandchild);
    }
}

static void on_cpu(void *arg, unsigned cpu)
{
    uint64_t random = 77 + cpu;

    if (cpu == 0) {
        changer(arg, 300, &random);
        atomic_store(&is_over, true);
        return;
    }
    while (!atomic_load(&is_over)) {
        walker(arg, &random);
    }
}

static void walks_race_with_forks_and_ends(void **state)
{
    struct vl_space *space;

    (void)state;
    machine_on(64, CPUS);
    atomic_store(&is_over, false);
    assert_int_equal(vl_space_create(&space), VL_OK);
    map_anon(space, BASE, (PAGES + 4) * PAGE, RW);
    sim_run_on_cpus(CPUS, on_cpu, space);
    vl_space_validate(space);
    vl_space_put(space);
    machine_off();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks_and_tables_agree),
        cmocka_unit_test(lines_of_forks_do_not_grow),
        cmocka_unit_test(a_walk_ends_when_told_to),
        cmocka_unit_test(walks_race_with_forks_and_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
