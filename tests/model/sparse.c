/*
 * Goal: spaces stay right, and quick, where ranges are huge and nearly empty: areas of up to some
 * TiB with a page here and there, cut, protected, moved and forked at any place, so that table
 * pages of all levels come and go by hundreds. Method: random operations from seeds on a space and
 * a child of it; the model is a short list of ranges and a list of the pages written to. Each page
 * holds a number that nobody else wrote. The time of one operation is bounded: none may walk what
 * is empty page by page.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "machine/sim/mmu.h"
#include "machine/sim/sim.h"

#define PAGE       VL_PAGE_SIZE
#define GIB        (1ull << 30)
#define RANGES_MAX 64u
#define PAGES_MAX  1500u
#define OPS        30000u
/* No operation takes longer, by far; walking 1 TiB of pages one by one takes minutes. */
#define SECONDS_MAX 20u

struct range {
    vl_va start, end;
    uint32_t prot;
};

struct page {
    vl_va va;
    uint64_t word;
};

struct side {
    struct vl_space *space;
    struct range range[RANGES_MAX]; /* in no order */
    unsigned range_count;
    struct page page[PAGES_MAX];
    unsigned page_count;
};

static struct side sides[2]; /* a parent, and a child when there is one */
static uint64_t random_state;
static uint64_t next_word;

static uint64_t below(uint64_t n)
{
    return sim_random(&random_state) % n;
}

/* ------------------------------------------------------------------------------------ model */

static struct range *range_at(struct side *side, vl_va va)
{
    for (unsigned i = 0; i < side->range_count; i++) {
        if (va >= side->range[i].start && va < side->range[i].end) {
            return &side->range[i];
        }
    }
    return NULL;
}

static struct page *page_at(struct side *side, vl_va va)
{
    for (unsigned i = 0; i < side->page_count; i++) {
        if (side->page[i].va == va) {
            return &side->page[i];
        }
    }
    return NULL;
}

static void add_range(struct side *side, vl_va start, vl_va end, uint32_t prot)
{
    assert_true(side->range_count < RANGES_MAX);
    side->range[side->range_count++] = (struct range){start, end, prot};
}

static void forget_pages(struct side *side, vl_va start, vl_va end)
{
    for (unsigned i = 0; i < side->page_count;) {
        if (side->page[i].va >= start && side->page[i].va < end) {
            side->page[i] = side->page[--side->page_count];
        } else {
            i++;
        }
    }
}

/* Takes [start, end) out of the ranges. */
static void cut(struct side *side, vl_va start, vl_va end)
{
    for (unsigned i = 0; i < side->range_count;) {
        struct range old = side->range[i];

        if (old.end <= start || old.start >= end) {
            i++;
            continue;
        }
        side->range[i] = side->range[--side->range_count];
        if (old.start < start) {
            add_range(side, old.start, start, old.prot);
        }
        if (old.end > end) {
            add_range(side, end, old.end, old.prot);
        }
    }
}

/* --------------------------------------------------------------------------------- operations */

/* Lengths of every size, mostly near where table pages end. */
static uint64_t any_length(void)
{
    static const uint64_t unit[] = {PAGE, 512 * PAGE, GIB, 512 * GIB};
    uint64_t length = unit[below(4)] * (1 + below(3)) + PAGE * below(3);

    return below(2) == 0 ? length : (length / PAGE + 1) / 2 * PAGE;
}

static vl_va any_place(void)
{
    static const uint64_t unit[] = {512 * PAGE, GIB, 512 * GIB};
    vl_va place = unit[below(3)] * (1 + below(6)) + PAGE * below(4) - 2 * PAGE;

    return place + (below(2) == 0 ? 512 * GIB * below(200) : 0);
}

/* A page of a range, often one that was written to. */
static vl_va any_page(struct side *side)
{
    const struct range *range;

    if (side->page_count != 0 && below(2) == 0) {
        return side->page[below(side->page_count)].va;
    }
    if (side->range_count == 0) {
        return any_place();
    }
    range = &side->range[below(side->range_count)];
    switch (below(3)) {
    case 0:
        return range->start;
    case 1:
        return range->end - PAGE;
    default:
        return range->start + below((range->end - range->start) / PAGE) * PAGE;
    }
}

static vl_va clipped(vl_va start, uint64_t length)
{
    return length > VL_USER_END - start ? VL_USER_END : start + length;
}

static void do_map(struct side *side)
{
    vl_va start = any_place(), end = clipped(start, any_length()), out = 0;
    const struct vl_map_request request = {
        .hint = start, .len = end - start, .prot = VL_READ | VL_WRITE, .place = VL_MAP_FIXED};

    if (side->range_count + 3 > RANGES_MAX) {
        return;
    }
    assert_int_equal(vl_space_map(side->space, &request, &out), VL_OK);
    cut(side, start, end);
    forget_pages(side, start, end);
    add_range(side, start, end, VL_READ | VL_WRITE);
}

static void do_unmap(struct side *side)
{
    vl_va start = any_page(side), end = clipped(start, any_length());

    if (side->range_count + 2 > RANGES_MAX) {
        start = 0x10000;
        end = VL_USER_END;
    }
    assert_int_equal(vl_space_unmap(side->space, start, end - start), VL_OK);
    cut(side, start, end);
    forget_pages(side, start, end);
}

static void do_protect(struct side *side)
{
    struct range *range = range_at(side, any_page(side)), old;
    uint32_t prot = below(2) == 0 ? VL_READ : VL_READ | VL_WRITE;

    if (range == NULL || side->range_count + 3 > RANGES_MAX) {
        return;
    }
    old = *range;
    old.start += below((old.end - old.start) / PAGE) * PAGE;
    old.end = old.start + any_length() < old.end ? old.start + any_length() : old.end;
    if (old.end > range->end) {
        old.end = range->end;
    }
    assert_int_equal(vl_space_protect(side->space, old.start, old.end - old.start, prot), VL_OK);
    cut(side, old.start, old.end);
    add_range(side, old.start, old.end, prot);
}

static void do_drop(struct side *side)
{
    const struct range *range = range_at(side, any_page(side));

    if (range != NULL) {
        assert_int_equal(vl_space_advise(side->space, range->start, range->end - range->start,
                                         VL_ADVISE_DONTNEED),
                         VL_OK);
        forget_pages(side, range->start, range->end);
    }
}

/* Moves a whole range to where nothing is. */
static void do_move(struct side *side)
{
    const struct range *at = range_at(side, any_page(side));
    struct range old;
    vl_va to = any_place() + 300 * 512 * GIB % VL_USER_END, out = 0;
    enum vl_status got;
    uint64_t length;

    if (at == NULL) {
        return;
    }
    old = *at;
    length = old.end - old.start;
    if (to > VL_USER_END || length > VL_USER_END - to ||
        (to < old.end && old.start < to + length) || side->range_count + 3 > RANGES_MAX) {
        return;
    }
    got = vl_space_remap(side->space, old.start, length, length, 3, to, &out);
    if (got == VL_EFAULT) {
        return; /* the range lies in two areas that could not merge */
    }
    assert_int_equal(got, VL_OK);
    assert_int_equal(out, to);
    cut(side, old.start, old.end);
    cut(side, to, to + length);
    forget_pages(side, to, to + length);
    add_range(side, to, to + length, old.prot);
    for (unsigned i = 0; i < side->page_count; i++) {
        if (side->page[i].va >= old.start && side->page[i].va < old.end) {
            side->page[i].va = side->page[i].va - old.start + to;
        }
    }
}

static void do_store(struct side *side)
{
    vl_va va = any_page(side);
    struct range *range = range_at(side, va);
    struct page *page = page_at(side, va);
    uint64_t word = ++next_word;

    sim_space_switch(side->space);
    assert_int_equal(sim_store(va, word), range == NULL                   ? VL_EFAULT
                                          : (range->prot & VL_WRITE) == 0 ? VL_EACCES
                                                                          : VL_OK);
    if (range == NULL || (range->prot & VL_WRITE) == 0) {
        return;
    }
    if (page == NULL && side->page_count == PAGES_MAX) {
        forget_pages(side, va, va + PAGE);
        assert_int_equal(vl_space_advise(side->space, va, PAGE, VL_ADVISE_DONTNEED), VL_OK);
        return;
    }
    page = page != NULL ? page : &side->page[side->page_count++];
    *page = (struct page){va, word};
}

static void do_load(struct side *side)
{
    vl_va va = any_page(side);
    const struct page *page = page_at(side, va);
    uint64_t word = 0;

    sim_space_switch(side->space);
    assert_int_equal(sim_load(va, &word), range_at(side, va) == NULL ? VL_EFAULT : VL_OK);
    assert_int_equal(word, page == NULL ? 0 : page->word);
}

static void do_fork_or_exit(void)
{
    struct vl_space *child = NULL;

    if (sides[1].space != NULL) {
        sim_space_switch(NULL);
        vl_space_put(sides[1].space);
        sides[1].space = NULL;
        return;
    }
    assert_int_equal(vl_space_fork(sides[0].space, &child), VL_OK);
    sides[1] = sides[0];
    sides[1].space = child;
}

static void one_step(void)
{
    struct side *side = &sides[sides[1].space != NULL ? below(2) : 0];
    uint64_t which = below(200);

    if (which < 90) {
        do_store(side);
    } else if (which < 150) {
        do_load(side);
    } else if (which < 165) {
        do_map(side);
    } else if (which < 173) {
        do_unmap(side);
    } else if (which < 185) {
        do_protect(side);
    } else if (which < 188) {
        do_drop(side);
    } else if (which < 196) {
        do_move(side);
    } else {
        do_fork_or_exit();
    }
}

static void check(struct side *side)
{
    if (side->space == NULL) {
        return;
    }
    vl_space_validate(side->space);
    sim_space_switch(side->space);
    for (unsigned i = 0; i < side->page_count; i++) {
        uint64_t word = 0;

        assert_int_equal(sim_load(side->page[i].va, &word), VL_OK);
        assert_int_equal(word, side->page[i].word);
    }
    sim_space_switch(NULL);
    sim_mmu_validate();
}

static uint64_t free_frames(void)
{
    struct vl_frame_counts counts;

    vl_drain_all();
    vl_frame_counts(&counts);
    return counts.free_zones + counts.free_stock;
}

static void run(uint64_t seed)
{
    struct sim_config config = {.ram_bytes = 128u << 20, .seed = sim_seed(seed), .quiet = true};
    uint64_t most = getenv("VL_TEST_QUICK") != NULL ? OPS / 4 : OPS;
    uint64_t ops = sim_ops(most) < most ? sim_ops(most) : most, before, longest = 0;

    sim_start(&config);
    random_state = config.seed;
    before = free_frames();
    memset(sides, 0, sizeof(sides));
    assert_int_equal(vl_space_create(&sides[0].space), VL_OK);
    for (uint64_t i = 0; i < ops; i++) {
        uint64_t start = vl_host_clock_ns(), took;

        one_step();
        took = vl_host_clock_ns() - start;
        longest = took > longest ? took : longest;
        if (i % 1000 == 0) {
            check(&sides[0]);
            check(&sides[1]);
        }
    }
    fprintf(stderr, "# longest operation: %llu us\n", (unsigned long long)longest / 1000);
    assert_true(longest < SECONDS_MAX * 1000000000ull);
    if (sides[1].space != NULL) {
        do_fork_or_exit();
    }
    sim_space_switch(NULL);
    vl_space_put(sides[0].space);
    assert_int_equal(free_frames(), before);
    sim_stop();
}

static void huge_ranges_match_the_model(void **state)
{
    (void)state;
    for (uint64_t seed = 41; seed < 44; seed++) {
        run(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(huge_ranges_match_the_model)};

    return cmocka_run_group_tests_name("sparse", tests, NULL, NULL);
}
