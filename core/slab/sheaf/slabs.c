/*
 * slabs.c - slabs whose free units are bits (slab_bits.h): they give units, and take them back.
 *
 * Units come back in batches, in any order, of any home's slabs. Who gives a batch reads of each
 * unit's slab whose it is, takes that home's lock, and reads once more, since the slab may have
 * moved meanwhile; under the lock it stays. One turn through the batch gives all that is of one
 * home, so there are as many turns as homes, and most often one.
 */
#include "core/slab/sheaf/slab_bits.h"
#include "core/slab/sheaf/runs.h"
#include "core/slab/partial.h"
#include "core/base/log.h"

/* ------------------------------------------------------------------------------- units come out */

/* What is not free any more was not told. */
static void forget_told(const struct vli_slab *slab)
{
    uint64_t told = atomic_load_explicit(vli_slab_told(slab), memory_order_relaxed);

    atomic_store_explicit(vli_slab_told(slab), told & vli_bits_load(slab, 0), memory_order_relaxed);
}

/* Up to @count of one slab's. Neighbours come in runs, since most of a slab's are free or none. */
static uint32_t take_of(uint32_t unit_bytes, const struct vli_slab *slab, uint32_t count,
                        uintptr_t *end)
{
    uintptr_t step = unit_bytes;
    uint32_t free = vli_slab_free(slab->head);
    uint32_t wanted = count < free ? count : free;
    uint32_t left = wanted;
    uint32_t w = vli_slab_word(slab->head);

    while (left > 0) {
        uint64_t bits = vli_bits_load(slab, w);

        while (bits != 0 && left > 0) {
            uint32_t low = vli_bit_lowest(bits);
            uint32_t run = vli_bits_run(bits, low, left);
            uintptr_t unit = slab->base + (w * 64u + low) * step;

            bits &= ~vli_bits_mask(low, run);
            left -= run;
            end = vli_run_put(end, unit, run, step);
        }
        vli_bits_store(slab, w, bits);
        w += bits == 0 ? 1u : 0u;
    }
    vli_slab_set_word(slab->head, w);
    vli_slab_set_free(slab->head, free - wanted);
    if (vli_slab_can_purge(slab, unit_bytes)) {
        forget_told(slab);
    }
    return wanted;
}

uint32_t vli_slabs_take(struct vl_cache *cache, struct vli_slab_home *home, uint32_t count,
                        uintptr_t *lowest)
{
    uint32_t wanted = home->units_free < count ? (uint32_t)home->units_free : count;
    uintptr_t *end = lowest + wanted;
    uint32_t taken = 0;

    while (taken < wanted) {
        struct vl_frame *head = vli_frame_of((struct vl_pfn){home->partial});
        struct vli_slab slab = vli_slab_of(cache, head);
        uint32_t had = vli_slab_free(head);

        taken += take_of(cache->unit_bytes, &slab, wanted - taken, end - taken);
        if (had == slab.shape->units) {
            home->empty_count--;
        }
        if (vli_slab_free(head) == 0) {
            vli_partial_remove(home, head);
        }
    }
    home->units_free -= wanted;
    return wanted;
}

/* ---------------------------------------------------------------------------- units go back in */

/* The head of the slab that @unit is of. */
static inline struct vl_frame *head_of_unit(const struct vl_cache *cache, uintptr_t unit)
{
    struct vl_frame *frame = vli_virt_frame(unit);

    if (VLI_UNLIKELY(vli_frame_type(frame) != VLI_FRAME_SLAB || vli_slab_cache(frame) != cache)) {
        vli_panic("free of 0x%lx, which is not of cache %s", (unsigned long)unit, cache->name);
    }
    return vli_slab_head(frame);
}

uint32_t vli_home_of(const struct vl_cache *cache, uintptr_t unit)
{
    return vli_slab_place(head_of_unit(cache, unit)) & ~VLI_HOME_MOVES;
}

void vli_slab_bad_unit(const struct vl_cache *cache, uintptr_t unit, bool is_start)
{
    vli_panic("0x%lx of cache %s %s", (unsigned long)(unit + cache->shift), cache->name,
              is_start ? "freed twice" : "freed, which is inside an object");
}

void vli_slab_settle(struct vl_cache *cache, struct vli_slab_home *home,
                     const struct vli_slab *slab, uint32_t count, struct vli_slabs_out *out)
{
    uint32_t had = vli_slab_free(slab->head);
    uint32_t has = had + count;

    vli_slab_set_free(slab->head, has);
    home->units_free += count;
    if (has < slab->shape->units) {
        if (had == 0) {
            vli_partial_add(home, slab->head, false);
        }
        return;
    }
    if (had != 0) {
        vli_partial_remove(home, slab->head);
    }
    if (home->empty_count < cache->node[0].empty_max) {
        home->empty_count++;
        vli_partial_add(home, slab->head, true);
        return;
    }
    vli_slab_leave(cache, home, slab->head, out);
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Gives the first of @units, number @n of its slab, and those after it that go on from there up or
 * down, in the same word of bits. Returns: how many. */
static uint32_t give_run(const struct vl_cache *cache, const struct vli_slab *slab, uint32_t n,
                         const uintptr_t *units, uint32_t count)
{
    uint32_t up = least(64u - n % 64u, slab->shape->units - n);
    uint32_t length = vli_run_length(units, least(count, up), cache->unit_bytes);
    uint32_t first = n % 64u;
    uint64_t mask;
    uint64_t bits;

    if (length == 1) {
        length = vli_run_length(units, least(count, first + 1u), 0 - (uintptr_t)cache->unit_bytes);
        first -= length - 1u;
    }
    mask = vli_bits_mask(first, length);
    bits = vli_bits_load(slab, n / 64u);
    if (VLI_UNLIKELY((bits & mask) != 0)) {
        vli_slab_bad_unit(cache,
                          slab->base + (uintptr_t)(n - n % 64u + vli_bit_lowest(bits & mask)) *
                                           cache->unit_bytes,
                          true);
    }
    vli_bits_store(slab, n / 64u, bits | mask);
    return length;
}

/* As many of the units as are of the slab. Returns: how many. */
static uint32_t give_to(const struct vl_cache *cache, const struct vli_slab *slab,
                        const uintptr_t *units, uint32_t count)
{
    uint64_t reciprocal = cache->node[0].reciprocal;
    uint32_t lowest = vli_slab_word(slab->head);
    uint32_t given = 0;

    while (given < count) {
        uintptr_t unit = units[given];
        uintptr_t offset = unit - slab->base;
        uint32_t n = (uint32_t)(offset * reciprocal >> 32);

        if (offset >= slab->bytes) {
            break;
        }
        if (VLI_UNLIKELY((uintptr_t)n * cache->unit_bytes != offset || n >= slab->shape->units)) {
            vli_slab_bad_unit(cache, unit, false);
        }
        given += give_run(cache, slab, n, units + given, count - given);
        lowest = least(lowest, n / 64u);
    }
    vli_slab_set_word(slab->head, lowest);
    return given;
}

uint32_t vli_slabs_give_home(struct vl_cache *cache, struct vli_slab_home *home, uintptr_t *units,
                             uint32_t count, struct vli_slabs_out *out)
{
    uint32_t number = (uint32_t)(home - cache->node[0].home) / VLI_CACHES_MAX;
    uint32_t left = 0;
    uint32_t given;

    for (uint32_t at = 0; at < count; at += given) {
        struct vl_frame *head = head_of_unit(cache, units[at]);
        struct vli_slab slab = vli_slab_of(cache, head);
        uint32_t place = vli_slab_place(head);

        if ((place & ~VLI_HOME_MOVES) != number) {
            units[left++] = units[at];
            given = 1;
            continue;
        }
        given = give_to(cache, &slab, units + at, count - at);
        if (VLI_LIKELY(place == number)) {
            vli_slab_settle(cache, home, &slab, given, out);
        } else { /* it is on its way here: who brings it counts them */
            vli_slab_set_free(head, vli_slab_free(head) + given);
        }
    }
    return left;
}

void vli_slabs_give(struct vl_cache *cache, uintptr_t *units, uint32_t count,
                    struct vli_slabs_out *out)
{
    while (count > 0) {
        struct vli_slab_home *home = vli_home_at(cache, vli_home_of(cache, units[0]));
        unsigned long flags = vli_spin_lock_irq(&home->lock, VLI_RANK_SLAB_NODE);

        count = vli_slabs_give_home(cache, home, units, count, out);
        vli_spin_unlock_irq(&home->lock, VLI_RANK_SLAB_NODE, flags);
    }
}

/* --------------------------------------------------------------------------------------- checks */

bool vli_slabs_is_free(struct vl_cache *cache, uintptr_t unit)
{
    struct vli_slab slab = vli_slab_of(cache, head_of_unit(cache, unit));
    uint32_t n = (uint32_t)((unit - slab.base) / cache->unit_bytes);

    VL_ASSERT((unit - slab.base) % cache->unit_bytes == 0 && n < slab.shape->units);
    return (vli_bits_load(&slab, n / 64u) >> (n % 64u) & 1u) != 0;
}

/* Bits set, none of them beyond the units or below the word that the head names. */
static uint32_t count_bits(const struct vli_slab *slab)
{
    uint32_t count = 0;

    for (uint32_t w = 0; w < (slab->shape->units + 63u) / 64u; w++) {
        uint64_t bits = vli_bits_load(slab, w);

        VL_ASSERT(bits == 0 || w >= vli_slab_word(slab->head));
        for (; bits != 0; bits &= bits - 1) {
            VL_ASSERT(w * 64u + vli_bit_lowest(bits) < slab->shape->units);
            count++;
        }
    }
    return count;
}

static void home_validate(struct vl_cache *cache, uint32_t number)
{
    struct vli_slab_home *home = vli_home_at(cache, number);
    uint32_t previous = VLI_FRAME_LINK_NONE;
    uint32_t at = home->partial;
    uint32_t empty = 0;
    uint64_t units = 0;

    for (uint32_t i = 0; i < home->partial_count; i++) {
        struct vl_frame *head = vli_frame_of((struct vl_pfn){at});
        struct vli_slab slab = vli_slab_of(cache, head);

        VL_ASSERT(vli_frame_type(head) == VLI_FRAME_SLAB);
        VL_ASSERT(vli_slab_cache(head) == cache);
        VL_ASSERT(vli_slab_head(head) == head);
        VL_ASSERT(vli_slab_place(head) == number);
        VL_ASSERT(head->prev == previous);
        VL_ASSERT(vli_slab_free(head) > 0);
        VL_ASSERT(count_bits(&slab) == vli_slab_free(head));
        empty += vli_slab_free(head) == slab.shape->units ? 1u : 0u;
        units += vli_slab_free(head);
        previous = at;
        at = head->next;
    }
    VL_ASSERT(home->partial_count == 0 || at == VLI_FRAME_LINK_NONE);
    VL_ASSERT(home->partial_count == 0 || home->partial_last == previous);
    VL_ASSERT(empty == home->empty_count);
    VL_ASSERT(units == home->units_free);
}

void vli_slabs_validate(struct vl_cache *cache)
{
    uint64_t units = 0;

    for (uint32_t i = 0; i < VLI_SLAB_HOMES; i++) {
        home_validate(cache, i);
        units += vli_home_at(cache, i)->units;
    }
    VL_ASSERT(units == atomic_load_explicit(&cache->node[0].units, memory_order_relaxed));
}
