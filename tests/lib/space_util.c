/*
 * space_util.c - see space_util.h.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "machine/sim/mmu.h"
#include "machine/sim/sim.h"
#include "tests/lib/space_util.h"

static uint64_t free_before;

uint64_t free_frames(void)
{
    struct vl_frame_counts counts;

    vl_drain_all();
    vl_frame_counts(&counts);
    return counts.free_zones + counts.free_stock;
}

void machine_on(unsigned mib, unsigned cpus)
{
    struct sim_config config = {
        .ram_bytes = (uint64_t)mib << 20, .cpus = cpus, .seed = 1, .quiet = true};

    sim_start(&config);
    free_before = free_frames();
}

void machine_off(void)
{
    sim_mmu_validate();
    assert_int_equal(free_frames(), free_before);
    sim_stop();
}

struct vl_space *space_on(void)
{
    struct vl_space *space;

    machine_on(64, 1);
    assert_int_equal(vl_space_create(&space), VL_OK);
    sim_space_switch(space);
    return space;
}

void space_off(struct vl_space *space)
{
    vl_space_validate(space);
    sim_space_switch(NULL);
    vl_space_put(space);
    machine_off();
}

vl_va map_anon(struct vl_space *space, vl_va at, size_t len, uint32_t prot)
{
    const struct vl_map_request request = {
        .len = len, .prot = prot, .hint = at, .place = at != 0 ? VL_MAP_FIXED : VL_MAP_ANYWHERE};
    vl_va va;

    assert_int_equal(vl_space_map(space, &request, &va), VL_OK);
    return va;
}

vl_va map_object(struct vl_space *space, struct vl_object *object, uint64_t offset, size_t len,
                 uint32_t prot, enum vl_map_kind kind)
{
    const struct vl_map_request request = {
        .object = object, .offset = offset, .len = len, .prot = prot, .kind = kind};
    vl_va va;

    assert_int_equal(vl_space_map(space, &request, &va), VL_OK);
    return va;
}

struct vl_object *object_new(uint64_t pages)
{
    struct vl_object *object;
    struct vl_pfn pfn;
    uint64_t *words;

    assert_int_equal(vl_object_create(NULL, NULL, &object), VL_OK);
    for (uint64_t i = 0; i < pages; i++) {
        assert_int_equal(vl_object_page_get(object, i, VL_PAGE_CREATE, &pfn), VL_OK);
        words = vl_frame_to_virt(pfn);
        for (size_t k = 0; k < VL_PAGE_SIZE / sizeof(uint64_t); k++) {
            words[k] = i + 1;
        }
        vl_object_page_put(pfn);
    }
    assert_int_equal(vl_object_extend(object, pages * VL_PAGE_SIZE), VL_OK);
    return object;
}

uint64_t object_word(struct vl_object *object, uint64_t offset)
{
    struct vl_pfn pfn;
    uint64_t value;
    enum vl_status status = vl_object_page_get(object, offset / VL_PAGE_SIZE, VL_PAGE_FIND, &pfn);

    if (status == VL_ENOENT) {
        return 0;
    }
    assert_int_equal(status, VL_OK);
    value = ((uint64_t *)vl_frame_to_virt(pfn))[offset % VL_PAGE_SIZE / sizeof(uint64_t)];
    vl_object_page_put(pfn);
    return value;
}

void object_write(struct vl_object *object, uint64_t offset, uint64_t value)
{
    struct vl_pfn pfn;

    assert_int_equal(vl_object_page_get(object, offset / VL_PAGE_SIZE, VL_PAGE_CREATE, &pfn),
                     VL_OK);
    ((uint64_t *)vl_frame_to_virt(pfn))[offset % VL_PAGE_SIZE / sizeof(uint64_t)] = value;
    vl_object_page_put(pfn);
}

struct vl_space_usage usage(struct vl_space *space)
{
    struct vl_space_usage out;

    vl_space_usage(space, &out);
    return out;
}

void area_is(struct vl_space *space, vl_va va, vl_va start, vl_va end, uint32_t prot)
{
    struct vl_area_info info;

    assert_int_equal(vl_space_find(space, va, &info), VL_OK);
    assert_int_equal(info.start, start);
    assert_int_equal(info.end, end);
    assert_int_equal(info.prot, prot);
}
