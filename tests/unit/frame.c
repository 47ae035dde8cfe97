/*
 * Goal: each promise of frame.h, one at a time: what a request gets, when it fails, what is
 * counted, what is refused. Method: small machines, every case set up by hand; vli_frame_validate()
 * after each.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "core/frame/frame.h"
#include "machine/sim/sim.h"

#define MIB (1ull << 20)

static void machine_on(uint64_t bytes, unsigned cpus)
{
    struct sim_config config = {.ram_bytes = bytes, .cpus = cpus, .seed = 1, .quiet = true};

    sim_start(&config);
}

static uint64_t free_frames(void)
{
    struct vl_frame_counts counts;

    vl_frame_counts(&counts);
    return counts.free_zones + counts.free_stock;
}

static void machine_off(uint64_t free_at_start)
{
    assert_int_equal(free_frames(), free_at_start);
    vl_drain_all();
    vli_frame_validate();
    assert_int_equal(free_frames(), free_at_start);
    sim_stop();
}

static void every_order_is_aligned(void **state)
{
    uint64_t before;

    (void)state;
    machine_on(64 * MIB, 1);
    before = free_frames();
    for (unsigned order = 0; order <= VL_ORDER_MAX; order++) {
        struct vl_pfn pfn;

        assert_int_equal(vl_frame_alloc(order, VL_WAIT, &pfn), VL_OK);
        assert_int_equal(pfn.n % (1u << order), 0);
        assert_int_equal(free_frames(), before - (1u << order));
        memset(vl_frame_to_virt(pfn), 0xa5, VL_PAGE_SIZE << order);
        vl_frame_free(pfn, order);
        vli_frame_validate();
    }
    machine_off(before);
}

static void bad_order_is_refused(void **state)
{
    struct vl_pfn pfn = {77};

    (void)state;
    machine_on(64 * MIB, 1);
    assert_int_equal(vl_frame_alloc(VL_ORDER_MAX + 1, VL_WAIT, &pfn), VL_EINVAL);
    assert_int_equal(vl_frame_alloc(UINT32_MAX, VL_WAIT, &pfn), VL_EINVAL);
    assert_int_equal(pfn.n, 77);
    machine_off(free_frames());
}

static void a_fresh_frame_is_as_promised(void **state)
{
    struct vl_frame *frame;

    (void)state;
    machine_on(64 * MIB, 1);
    frame = vli_frame_get(0, VL_WAIT | VL_ZEROED);
    assert_non_null(frame);
    assert_int_equal(vli_frame_type(frame), VLI_FRAME_STOCK);
    assert_int_equal(frame->refs, 1);
    assert_int_equal(frame->mappings, 0);
    assert_int_equal(frame->owner, 0);
    vli_frame_set_type(frame, VLI_FRAME_ANON);
    vli_frame_set_index(frame, 0xab12345678ull);
    vli_frame_mark(frame, VLI_FRAME_DIRTY | VLI_FRAME_LRU);
    atomic_store(&frame->owner, 4096);
    vli_frame_ref_get(frame);
    assert_false(vli_frame_ref_drop(frame));
    assert_true(vli_frame_ref_drop(frame));
    memset(vli_frame_virt(vli_frame_pfn(frame)), 1, VL_PAGE_SIZE);
    vli_frame_put(frame, 0);
    assert_ptr_equal(vli_frame_get(0, VL_ATOMIC | VL_ZEROED), frame);
    assert_int_equal(vli_frame_type(frame), VLI_FRAME_STOCK);
    assert_int_equal(frame->refs, 1);
    assert_int_equal(frame->owner, 0);
    assert_false(vli_frame_is_marked(frame, VLI_FRAME_DIRTY | VLI_FRAME_LRU));
    for (size_t i = 0; i < VL_PAGE_SIZE; i++) {
        assert_int_equal(((unsigned char *)vli_frame_virt(vli_frame_pfn(frame)))[i], 0);
    }
    vli_frame_put(frame, 0);
    vli_frame_validate();
    sim_stop();
}

static void all_memory_in_bulk_and_back(void **state)
{
    static struct vl_pfn pfns[65536];
    uint64_t before;
    size_t had;

    (void)state;
    machine_on(64 * MIB, 1);
    before = free_frames();
    had = vl_frame_alloc_bulk(65536, VL_WAIT, pfns);
    assert_true(had < before);
    assert_true(had > before - before / 64);
    assert_int_equal(free_frames(), before - had);
    assert_int_equal(vl_frame_alloc_bulk(10, VL_WAIT, pfns + had), 0);
    /* Who may not wait may go below min. */
    assert_int_equal(vl_frame_alloc_bulk(10, VL_ATOMIC, pfns + had), 10);
    vl_frame_free_bulk(pfns, had + 10);
    machine_off(before);
}

static void frames_merge_back(void **state)
{
    static struct vl_pfn pfns[65536];
    struct vli_zone_info before;
    struct vli_zone_info after;
    size_t had = 0;

    (void)state;
    machine_on(64 * MIB, 1);
    vl_drain_all();
    assert_true(vli_zone_info(0, &before));
    assert_false(vli_zone_info(1, &after));
    while (vl_frame_alloc(0, VL_WAIT, &pfns[had]) == VL_OK) {
        had++;
    }
    for (size_t i = 0; i < had; i += 2) {
        vl_frame_free(pfns[i], 0);
    }
    for (size_t i = 1; i < had; i += 2) {
        vl_frame_free(pfns[i], 0);
    }
    vl_drain_all();
    vli_frame_validate();
    assert_true(vli_zone_info(0, &after));
    assert_memory_equal(before.blocks, after.blocks, sizeof(before.blocks));
    assert_true(after.work.merges > before.work.merges);
    sim_stop();
}

static void stock_can_be_off(void **state)
{
    struct vl_frame_counts counts;
    struct vl_pfn pfn;
    uint64_t before;

    (void)state;
    machine_on(256 * MIB, 2);
    before = free_frames();
    assert_int_equal(vl_frame_alloc(0, VL_WAIT, &pfn), VL_OK);
    vl_frame_counts(&counts);
    assert_true(counts.free_stock > 0);
    vl_frame_free(pfn, 0);
    vl_frame_set_stock(false);
    for (unsigned order = 0; order <= 9; order += 9) {
        assert_int_equal(vl_frame_alloc(order, VL_WAIT, &pfn), VL_OK);
        vl_frame_counts(&counts);
        assert_int_equal(counts.free_stock, 0);
        vl_frame_free(pfn, order);
        vl_frame_counts(&counts);
        assert_int_equal(counts.free_stock, 0);
    }
    vl_frame_set_stock(true);
    assert_int_equal(vl_frame_alloc(0, VL_WAIT, &pfn), VL_OK);
    vl_frame_free(pfn, 0);
    vl_frame_counts(&counts);
    assert_true(counts.free_stock > 0);
    machine_off(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_is_aligned),
        cmocka_unit_test(bad_order_is_refused),
        cmocka_unit_test(a_fresh_frame_is_as_promised),
        cmocka_unit_test(all_memory_in_bulk_and_back),
        cmocka_unit_test(frames_merge_back),
        cmocka_unit_test(stock_can_be_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
