/*
 * sheaf.c - the slow paths: exchanging sheaves between a CPU and the barns. slab_state.h holds the
 * theory.
 *
 * No step needs interrupts off or the thread to stay on its CPU. A sheaf that was swapped out is
 * its taker's alone; between two swaps a CPU has VLI_SHEAF_NONE, with which every operation comes
 * here, and an interrupt or another thread may have put its own sheaf there meanwhile, which the
 * next swap takes out in turn. Whatever comes out finds a place: the spare's, the barn, or its
 * units go back to their slabs.
 */
#include "core/slab/sheaf/sheaf.h"

/* After so many exchanges in which others were quicker a unit is taken or given alone. */
#define TRIES 4u

#define NONES8  0, 0, 0, 0, 0, 0, 0, 0
#define NONES64 NONES8, NONES8, NONES8, NONES8, NONES8, NONES8, NONES8, NONES8
#if defined(VL_HOST_RSEQ)
#define NONES NONES64, NONES64, NONES64, NONES64, NONES64, NONES64, NONES64, NONES64
#else
#define NONES NONES64, NONES64
#endif
const VLI_ALIGNED(VLI_SHEAF_BYTES) uintptr_t vli_sheaf_none[2 * VLI_SHEAF_WORDS] = {NONES};

/* ---------------------------------------------------------------------------- a CPU's two sheaves
 */

/* A sheaf that was in use becomes the spare; what was the spare goes to the barn. */
static void park(struct vl_cache *cache, uintptr_t top)
{
    uintptr_t old;

    if (top == VLI_SHEAF_NONE) {
        return;
    }
    old = vli_slot_swap(cache->index, VLI_SHEAF_SPARE, top);
    if (old == VLI_SHEAF_STOPPED) {
        old = top;
    }
    if (old != VLI_SHEAF_NONE) {
        vli_barn_put(cache, old);
    }
}

/* @top comes into use. False: this CPU must keep none now. */
static bool use(struct vl_cache *cache, uintptr_t top)
{
    uintptr_t old = vli_slot_swap(cache->index, VLI_SHEAF_TOP, top);

    if (old == VLI_SHEAF_STOPPED) {
        vli_barn_put(cache, top);
        return false;
    }
    park(cache, old);
    return true;
}

/* A new slab; where many objects are, as many as a sheaf is to be filled from. False: no memory. */
static bool grow(struct vl_cache *cache, vl_how_t how, uint32_t capacity)
{
    uint32_t each = vli_slab_units_each(cache);
    uint32_t units = 0;

    while (vli_slabs_new(cache, units == 0 ? how : VL_ATOMIC | VL_MAY_FAIL)) {
        units += each;
        if (units + each > vli_sheaf_wanted(&cache->node[0], capacity)) {
            break;
        }
    }
    return units > 0;
}

/* A sheaf with units for who has the empty one @top, from wherever there are any. Returns: a sheaf,
 * which is empty when there is no memory. */
static uintptr_t find_units(struct vl_cache *cache, vl_how_t how, uintptr_t top)
{
    for (;;) {
        if (vli_homes_mask != 0) {
            top = vli_barn_of_others(cache, VLI_WAIT_NOT, top);
        }
        if (vli_sheaf_units(top) != 0) {
            return top;
        }
        if (!grow(cache, how, vli_sheaf_capacity(top))) {
            return vli_barn_of_others(cache, VLI_WAIT_LOCK, top);
        }
        top = vli_barn_full(cache, top);
        if (vli_sheaf_units(top) != 0) {
            return top;
        }
    }
}

/* This CPU gets a sheaf with units. False: it must keep none, or there is no memory. Then @how
 * becomes one that takes what came back meanwhile, but does not have reclaim look for more again.
 */
static bool refill(struct vl_cache *cache, vl_how_t *how)
{
    uintptr_t top = vli_slot_swap(cache->index, VLI_SHEAF_SPARE, VLI_SHEAF_NONE);

    if (top == VLI_SHEAF_STOPPED) {
        return false;
    }
    if (top == VLI_SHEAF_NONE || vli_sheaf_units(top) == 0) {
        top = vli_barn_full(cache, top);
    }
    if (top == VLI_SHEAF_NONE) {
        top = vli_sheaf_new(cache);
        if (top == VLI_SHEAF_NONE) {
            return false;
        }
        top = vli_barn_full(cache, top);
    }
    if (vli_sheaf_units(top) == 0) {
        top = find_units(cache, *how, top);
    }
    if (vli_sheaf_units(top) == 0) {
        *how = (*how & ~(vl_how_t)VL_WAIT) | VL_MAY_FAIL;
        park(cache, top);
        return false;
    }
    return use(cache, top);
}

uintptr_t vli_slab_alloc_slow(struct vl_cache *cache, vl_how_t how)
{
    uintptr_t unit = 0;

    for (uint32_t i = 0; i < TRIES && vli_has_sheaves(cache); i++) {
        if (!refill(cache, &how)) {
            break;
        }
        unit = vli_slot_pop(cache->index);
        if (unit != 0) {
            return unit;
        }
    }
    return vli_unit_take(cache, how);
}

/* This CPU gets a sheaf with room. False: it must keep none, or there is no memory. */
static bool make_room(struct vl_cache *cache)
{
    struct vli_slab_node *node = &cache->node[0];
    uintptr_t top = vli_slot_swap(cache->index, VLI_SHEAF_SPARE, VLI_SHEAF_NONE);

    if (top == VLI_SHEAF_STOPPED) {
        return false;
    }
    if (top == VLI_SHEAF_NONE || vli_sheaf_is_full(top)) {
        top = vli_barn_vacant(cache, top);
    }
    if (top == VLI_SHEAF_NONE) {
        top = vli_sheaf_new(cache);
    } else if (vli_sheaf_units(top) == 0) {
        top = vli_sheaf_make_empty(node, vli_sheaf_block(top));
    }
    return top != VLI_SHEAF_NONE && use(cache, top);
}

void vli_slab_free_slow(struct vl_frame *frame, uintptr_t unit)
{
    struct vl_cache *cache = vli_slab_cache(frame);

    for (uint32_t i = 0; i < TRIES && vli_has_sheaves(cache); i++) {
        if (!make_room(cache)) {
            break;
        }
        if (vli_slot_push(cache->index, unit)) {
            return;
        }
    }
    vli_unit_give(cache, unit);
}

/* ------------------------------------------------------------------------------- several at once
 */

/* The sheaf in use is taken out, and comes back as what it has become; meanwhile the CPU has none,
 * which every operation can live with. For a few units that costs more than one by one. */
#define SWAPS_FROM 6u

static size_t pop_few(size_t index, size_t count, void **out)
{
    size_t had = 0;
    uintptr_t unit;

    while (had < count && (unit = vli_slot_pop(index)) != 0) {
        out[had++] = (void *)unit;
    }
    return had;
}

static size_t push_few(size_t index, uint32_t shift, size_t count, void *const *objects)
{
    size_t kept = 0;

    while (kept < count && vli_slot_push(index, (uintptr_t)objects[kept] - shift)) {
        kept++;
    }
    return kept;
}

size_t vli_slot_pop_batch(size_t index, size_t count, void **out)
{
    struct vl_cache *cache = &vli_caches[index];
    uintptr_t top;
    size_t had;

    if (count < SWAPS_FROM || !vli_has_sheaves(cache)) {
        return pop_few(index, count, out);
    }
    top = vli_slot_swap(index, VLI_SHEAF_TOP, VLI_SHEAF_NONE);
    if (top == VLI_SHEAF_NONE || top == VLI_SHEAF_STOPPED) {
        return 0;
    }
    had = vli_sheaf_units(top) < count ? vli_sheaf_units(top) : count;
    for (size_t i = 0; i < had; i++) {
        top -= sizeof(uintptr_t);
        out[i] = (void *)*(uintptr_t *)top;
    }
    (void)use(cache, top);
    return had;
}

size_t vli_slot_push_batch(size_t index, uint32_t shift, size_t count, void *const *objects)
{
    struct vl_cache *cache = &vli_caches[index];
    uintptr_t top;
    size_t room;

    if (count < SWAPS_FROM || !vli_has_sheaves(cache)) {
        return push_few(index, shift, count, objects);
    }
    top = vli_slot_swap(index, VLI_SHEAF_TOP, VLI_SHEAF_NONE);
    if (top == VLI_SHEAF_NONE || top == VLI_SHEAF_STOPPED) {
        return 0;
    }
    room = vli_sheaf_capacity(top) - vli_sheaf_units(top);
    room = room < count ? room : count;
    for (size_t i = 0; i < room; i++, top += sizeof(uintptr_t)) {
        *(uintptr_t *)top = (uintptr_t)objects[i] - shift;
    }
    (void)use(cache, top);
    return room;
}

/* One makes room for the next. */
size_t vli_slab_free_run(struct vl_frame *frame, uint32_t shift, size_t count, void *const *objects)
{
    (void)count;
    vli_slab_free_slow(frame, (uintptr_t)objects[0] - shift);
    return 1;
}
