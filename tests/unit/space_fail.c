/*
 * Goal: no failed allocation leaks, breaks or half-does anything in a space: each operation either
 * is done, or says VL_ENOMEM and leaves what can be seen as it was.
 * Method: each scenario runs once to count its allocations; then, for every k, on a fresh machine
 * with the k-th failing once, and again with all from the k-th on failing. After each the space is
 * validated, its contents are read, and all frames are counted. A failure that passes must be made
 * good: one failed request alone never surfaces, since memory is there.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "machine/sim/mmu.h"
#include "machine/sim/sim.h"
#include "tests/lib/space_util.h"

#define PAGE VL_PAGE_SIZE
#define BASE ((vl_va)0x10000000)
#define RW   (VL_READ | VL_WRITE)
/* Across two leaf table pages that nothing else uses, below everything. */
#define REMAP_TO (BASE - 0x201000)

/* What a scenario works on: prepared without failures. */
struct scene {
    struct vl_space *space;
    struct vl_object *object;
    struct vl_space *child;
};

struct scenario {
    const char *name;
    /* Fails or not; the only part under injection. */
    enum vl_status (*act)(struct scene *scene);
    /* Does the space show that it was done (VL_OK) or not at all (else)? */
    void (*check)(struct scene *scene, enum vl_status status);
};

static uint64_t word(struct vl_space *space, vl_va va)
{
    struct vl_pfn pfn;
    uint64_t value;

    assert_int_equal(vl_space_frame_get(space, va, VL_READ, &pfn), VL_OK);
    value = ((uint64_t *)vl_frame_to_virt(pfn))[0];
    vl_frame_ref_put(pfn);
    return value;
}

static void set_word(struct vl_space *space, vl_va va, uint64_t value)
{
    struct vl_pfn pfn;

    assert_int_equal(vl_space_frame_get(space, va, VL_WRITE, &pfn), VL_OK);
    ((uint64_t *)vl_frame_to_virt(pfn))[0] = value;
    vl_frame_ref_put(pfn);
}

/* 16 pages at BASE holding 100, 101 …; 8 pages of the object, private, at BASE + 64 pages, the
 * first two written; 8 shared ones at BASE + 128 pages. */
static void scene_make(struct scene *scene)
{
    struct vl_map_request r = {.len = 8 * PAGE, .prot = RW, .place = VL_MAP_FIXED};
    vl_va va;

    scene->child = NULL;
    scene->object = object_new(8);
    r.object = scene->object;
    assert_int_equal(vl_space_create(&scene->space), VL_OK);
    map_anon(scene->space, BASE, 16 * PAGE, RW);
    for (unsigned i = 0; i < 16; i++) {
        set_word(scene->space, BASE + i * PAGE, 100 + i);
    }
    r.hint = BASE + 64 * PAGE;
    assert_int_equal(vl_space_map(scene->space, &r, &va), VL_OK);
    set_word(scene->space, va, 50);
    set_word(scene->space, va + PAGE, 51);
    r.hint = BASE + 128 * PAGE;
    r.kind = VL_MAP_SHARED;
    assert_int_equal(vl_space_map(scene->space, &r, &va), VL_OK);
}

static void scene_is_whole(struct scene *scene, struct vl_space *space, unsigned from, unsigned to)
{
    for (unsigned i = 0; i < 16; i++) {
        if (i < from || i >= to) {
            assert_int_equal(word(space, BASE + i * PAGE), 100 + i);
        }
    }
    assert_int_equal(word(space, BASE + 64 * PAGE), 50);
    assert_int_equal(word(space, BASE + 65 * PAGE), 51);
    assert_int_equal(word(space, BASE + 66 * PAGE), 3);
    assert_int_equal(word(space, BASE + 130 * PAGE), 3);
    (void)scene;
}

static void scene_end(struct scene *scene)
{
    vl_space_validate(scene->space);
    if (scene->child != NULL) {
        vl_space_validate(scene->child);
        vl_space_put(scene->child);
    }
    vl_space_put(scene->space);
    vl_object_put(scene->object);
}

/* ------------------------------------------------------------------------------ scenarios */

static enum vl_status act_create(struct scene *scene)
{
    return vl_space_create(&scene->child);
}
static void check_create(struct scene *scene, enum vl_status status)
{
    assert_true((scene->child != NULL) == (status == VL_OK));
    scene_is_whole(scene, scene->space, 0, 0);
}

static enum vl_status act_map(struct scene *scene)
{
    struct vl_map_request r = {.len = 4 * PAGE, .prot = VL_READ, .kind = VL_MAP_SHARED};
    vl_va va;

    return vl_space_map(scene->space, &r, &va);
}
static void check_map(struct scene *scene, enum vl_status status)
{
    assert_int_equal(usage(scene->space).areas, status == VL_OK ? 4 : 3);
    scene_is_whole(scene, scene->space, 0, 0);
}

static enum vl_status act_map_over(struct scene *scene)
{
    struct vl_map_request r = {.len = 2 * PAGE,
                               .hint = BASE + 5 * PAGE,
                               .place = VL_MAP_FIXED,
                               .object = scene->object,
                               .prot = VL_READ};
    vl_va va;

    return vl_space_map(scene->space, &r, &va);
}
static void check_map_over(struct scene *scene, enum vl_status status)
{
    assert_int_equal(usage(scene->space).areas, status == VL_OK ? 5 : 3);
    scene_is_whole(scene, scene->space, 5, status == VL_OK ? 7 : 5);
    if (status == VL_OK) {
        assert_int_equal(word(scene->space, BASE + 6 * PAGE), 2);
    }
}

static enum vl_status act_unmap(struct scene *scene)
{
    return vl_space_unmap(scene->space, BASE + 5 * PAGE, 2 * PAGE);
}
static void check_unmap(struct scene *scene, enum vl_status status)
{
    assert_int_equal(usage(scene->space).areas, status == VL_OK ? 4 : 3);
    scene_is_whole(scene, scene->space, 5, status == VL_OK ? 7 : 5);
}

/* An area that hangs on two anon_vmas: a child's, written. */
static enum vl_status act_unmap_child(struct scene *scene)
{
    return vl_space_unmap(scene->child, BASE + 5 * PAGE, 2 * PAGE);
}
static void check_unmap_child(struct scene *scene, enum vl_status status)
{
    assert_int_equal(usage(scene->child).areas, status == VL_OK ? 4 : 3);
    scene_is_whole(scene, scene->space, 0, 0);
    scene_is_whole(scene, scene->child, 5, status == VL_OK ? 7 : 5);
}

static enum vl_status act_protect(struct scene *scene)
{
    return vl_space_protect(scene->space, BASE + 5 * PAGE, 2 * PAGE, VL_READ);
}
static void check_protect(struct scene *scene, enum vl_status status)
{
    assert_int_equal(usage(scene->space).areas, status == VL_OK ? 5 : 3);
    scene_is_whole(scene, scene->space, 0, 0);
}

static enum vl_status act_advise(struct scene *scene)
{
    return vl_space_advise(scene->space, BASE + 5 * PAGE, 2 * PAGE, VL_ADVISE_RANDOM);
}

static enum vl_status act_fork(struct scene *scene)
{
    return vl_space_fork(scene->space, &scene->child);
}
static void check_fork(struct scene *scene, enum vl_status status)
{
    assert_true((scene->child != NULL) == (status == VL_OK));
    scene_is_whole(scene, scene->space, 0, 0);
    if (status == VL_OK) {
        scene_is_whole(scene, scene->child, 0, 0);
        for (unsigned i = 0; i < 16; i++) {
            set_word(scene->child, BASE + i * PAGE, i);
        }
    } else {
        set_word(scene->space, BASE, 100); /* still writable */
    }
    scene_is_whole(scene, scene->space, 0, 0);
}

/* Writes after a fork: copies, a first own page of each area, table pages. */
static enum vl_status act_fork_write(struct scene *scene)
{
    enum vl_status status = vl_space_fork(scene->space, &scene->child);

    for (unsigned i = 0; i < 3 && status == VL_OK; i++) {
        status = vl_space_fault(scene->child, BASE + i * 64 * PAGE, VL_WRITE);
    }
    return status;
}
static void check_fork_write(struct scene *scene, enum vl_status status)
{
    (void)status;
    scene_is_whole(scene, scene->space, 0, 0);
    if (scene->child != NULL) {
        scene_is_whole(scene, scene->child, 0, 0);
    }
}

static enum vl_status act_faults(struct scene *scene)
{
    static const struct {
        vl_va va;
        uint32_t access;
    } faults[] = {
        {0x40000000, VL_WRITE},       {0x7f0000000000, VL_READ},     {BASE + 67 * PAGE, VL_WRITE},
        {BASE + 129 * PAGE, VL_READ}, {BASE + 133 * PAGE, VL_WRITE}, {0x7f0000001000, VL_WRITE},
        {0x500000000000, VL_WRITE},   {0x600000000000, VL_READ},     {0x600000001000, VL_WRITE}};
    enum vl_status status = VL_OK;

    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]) && status == VL_OK; i++) {
        status = vl_space_fault(scene->space, faults[i].va, faults[i].access);
    }
    return status;
}
static void check_whole(struct scene *scene, enum vl_status status)
{
    (void)status;
    scene_is_whole(scene, scene->space, 0, 0);
}

static enum vl_status act_remap(struct scene *scene)
{
    vl_va va;

    return vl_space_remap(scene->space, BASE + 2 * PAGE, 4 * PAGE, 6 * PAGE, 3, REMAP_TO, &va);
}
static void check_remap(struct scene *scene, enum vl_status status)
{
    scene_is_whole(scene, scene->space, 2, status == VL_OK ? 6 : 2);
    assert_int_equal(usage(scene->space).areas, status == VL_OK ? 5 : 3);
    if (status == VL_OK) {
        assert_int_equal(word(scene->space, REMAP_TO + PAGE), 103);
    }
}

static enum vl_status act_remap_over(struct scene *scene)
{
    vl_va va;

    return vl_space_remap(scene->space, BASE + 2 * PAGE, 6 * PAGE, 4 * PAGE, 3, BASE + 129 * PAGE,
                          &va);
}
static void check_remap_over(struct scene *scene, enum vl_status status)
{
    if (status != VL_OK) {
        assert_int_equal(usage(scene->space).areas, 3);
        scene_is_whole(scene, scene->space, 0, 0);
        return;
    }
    assert_int_equal(usage(scene->space).areas, 6);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(word(scene->space, BASE + (129 + i) * PAGE), 102 + i);
    }
    assert_int_equal(word(scene->space, BASE + 128 * PAGE), 1);
    assert_int_equal(word(scene->space, BASE + 133 * PAGE), 6);
    assert_int_equal(word(scene->space, BASE + 8 * PAGE), 108);
}

static enum vl_status act_remap_object(struct scene *scene)
{
    vl_va va;

    return vl_space_remap(scene->space, BASE + 64 * PAGE, 8 * PAGE, 8 * PAGE, 5, 0, &va);
}
static void check_remap_object(struct scene *scene, enum vl_status status)
{
    assert_int_equal(usage(scene->space).areas, status == VL_OK ? 4 : 3);
    for (unsigned i = 0; i < 16; i++) {
        assert_int_equal(word(scene->space, BASE + i * PAGE), 100 + i);
    }
}

static enum vl_status act_brk(struct scene *scene)
{
    vl_space_set_brk(scene->space, 0x700000);
    return vl_space_brk(scene->space, 0x710000) == 0x710000 ? VL_OK : VL_ENOMEM;
}
static void check_brk(struct scene *scene, enum vl_status status)
{
    assert_int_equal(usage(scene->space).areas, status == VL_OK ? 4 : 3);
}

static enum vl_status act_pages(struct scene *scene)
{
    enum vl_status status = VL_OK;
    struct vl_pfn pfn;

    for (unsigned i = 0; i < 4 && status == VL_OK; i++) {
        status = vl_object_page_get(scene->object, 1ull << 10 * i << 5, VL_PAGE_CREATE, &pfn);
        if (status == VL_OK) {
            vl_object_page_put(pfn);
        }
    }
    return status;
}

static const struct scenario scenarios[] = {
    {"create", act_create, check_create},
    {"map", act_map, check_map},
    {"map over", act_map_over, check_map_over},
    {"unmap", act_unmap, check_unmap},
    {"unmap in a child", act_unmap_child, check_unmap_child},
    {"protect", act_protect, check_protect},
    {"advise", act_advise, check_protect},
    {"fork", act_fork, check_fork},
    {"fork and write", act_fork_write, check_fork_write},
    {"faults", act_faults, check_whole},
    {"remap", act_remap, check_remap},
    {"remap over another", act_remap_over, check_remap_over},
    {"remap of an object", act_remap_object, check_remap_object},
    {"brk", act_brk, check_brk},
    {"pages", act_pages, check_whole},
};

/* Two holes of the object that need nodes of its tree. */
static void map_far_page(struct scene *scene)
{
    struct vl_map_request r = {.len = 2 * PAGE,
                               .hint = 0x600000000000,
                               .place = VL_MAP_FIXED,
                               .object = scene->object,
                               .offset = 1ull << 40,
                               .prot = RW,
                               .kind = VL_MAP_SHARED};
    vl_va va;

    assert_int_equal(vl_object_extend(scene->object, 1ull << 41), VL_OK);
    assert_int_equal(vl_space_map(scene->space, &r, &va), VL_OK);
}

/* One run; @k: which allocation fails, alone or with all later ones. Returns whether one did. */
static bool run(const struct scenario *scenario, uint64_t k, bool all_later)
{
    struct scene scene;
    enum vl_status status;
    uint64_t failed;

    machine_on(16, 1);
    scene_make(&scene);
    if (scenario->act == act_faults) {
        map_anon(scene.space, 0x40000000, PAGE, RW);
        map_anon(scene.space, 0x7f0000000000, 2 * PAGE, RW);
        map_anon(scene.space, 0x500000000000, PAGE, RW);
        map_far_page(&scene);
    }
    if (scenario->act == act_unmap_child) {
        assert_int_equal(vl_space_fork(scene.space, &scene.child), VL_OK);
        set_word(scene.child, BASE, 100);
    }
    vl_drain_all(); /* so that each request goes where it can fail */
    failed = sim_fail_count();
    if (all_later) {
        sim_fail_from(k);
    } else {
        sim_fail_after(k);
    }
    status = scenario->act(&scene);
    sim_fail_from(UINT64_MAX);
    sim_fail_after(UINT64_MAX);
    failed = sim_fail_count() - failed;
    if (status != VL_OK && (!all_later || failed == 0)) {
        print_message("%s, failure at %llu\n", scenario->name, (unsigned long long)k);
    }
    if (!all_later || failed == 0) {
        assert_int_equal(status, VL_OK);
    } else {
        assert_true(status == VL_OK || status == VL_ENOMEM);
    }
    vl_space_validate(scene.space);
    scenario->check(&scene, status);
    scene_end(&scene);
    machine_off();
    return failed != 0;
}

static void every_allocation_fails_in_turn(void **state)
{
    uint64_t points = 0;
    uint64_t k;

    (void)state;
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
        for (k = 0; run(&scenarios[i], k, false); k++) {
            (void)run(&scenarios[i], k, true);
        }
        assert_true(k != 0); /* the scenario does allocate */
        points += k;
    }
    print_message("%llu points of failure\n", (unsigned long long)points);
}

/* ---------------------------------------------------------------------------- no memory */

static struct vl_space *victim;
static unsigned asked;

static bool kill_victim(uint64_t frames)
{
    (void)frames;
    asked++;
    if (victim == NULL) {
        return false;
    }
    vl_space_put(victim);
    victim = NULL;
    return true;
}

static void the_policy_is_asked_and_obeyed(void **state)
{
    struct vl_space *space = space_on();
    size_t pages = (64u << 20) / PAGE;
    vl_va va = map_anon(space, 0, pages * PAGE, RW);
    enum vl_status status = VL_OK;
    uint64_t i;

    (void)state;
    asked = 0;
    assert_int_equal(vl_space_create(&victim), VL_OK);
    map_anon(victim, BASE, 1000 * PAGE, RW);
    for (i = 0; i < 1000; i++) {
        assert_int_equal(vl_space_fault(victim, BASE + i * PAGE, VL_WRITE), VL_OK);
    }
    sim_oom_set(kill_victim);
    for (i = 0; i < pages && status == VL_OK; i++) {
        status = vl_space_fault(space, va + i * PAGE, VL_WRITE);
    }
    assert_int_equal(status, VL_ENOMEM);
    assert_null(victim);
    assert_int_equal(asked, 2); /* one was killed, then there was nobody */
    vl_space_validate(space);
    assert_int_equal(vl_space_advise(space, va, 64 * PAGE, VL_ADVISE_DONTNEED), VL_OK);
    assert_int_equal(vl_space_fault(space, va, VL_WRITE), VL_OK);
    sim_oom_set(NULL);
    space_off(space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_fails_in_turn),
        cmocka_unit_test(the_policy_is_asked_and_obeyed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
