/*
 * sheaf.c - the slow paths: exchanging sheaves between a CPU, the barn and the slabs.
 * slab_state.h holds the theory.
 *
 * No step needs interrupts off or the thread to stay on its CPU. A sheaf that was swapped out is
 * its taker's alone; between two swaps a CPU has VLI_SHEAF_NONE, with which every operation comes
 * here, and an interrupt or another thread may have put its own sheaf there meanwhile, which the
 * next swap takes out in turn. Whatever comes out finds a place: the spare's, the barn, or its
 * units go back to their slabs.
 */
#include "core/slab/sheaf/slabs.h"
#include "core/base/bits.h"
#include "core/base/memory.h"

/* What a sheaf may hold in bytes of units: something at least, where memory is not small; no more
 * than a share of all objects of the cache, so that what lies idle stays in proportion. */
#define BYTES_MAX      VL_HOST_SHEAF_BYTES
#define BYTES_MIN      VL_HOST_SHEAF_BYTES_MIN
#define BYTES_SHARE    2048u /* of all memory, divided by the CPUs */
#define CAPACITY_SHARE 64u
#define CAPACITY_MIN   4u
#define CAPACITY_MAX   (VLI_SHEAF_WORDS - 3u)

/* A sheaf is filled with this share of the cache's units at most, but for a few. */
#define FILL_SHARE 8u
#define FILL_MIN   4u

/* What a barn may hold: a share of the cache's units, in so many sheaves; and empty ones. */
#define BARN_SHARE    VL_HOST_BARN_SHARE
#define BARN_FULL_MAX VL_HOST_BARN_FULL
#define VACANT_MAX    VL_HOST_BARN_VACANT

/* After so many exchanges in which others were quicker a unit is taken or given alone. */
#define TRIES 4u

/* Cache of sheaves; itself without any. */
static struct vl_cache *sheaves;

#define NONES8  0, 0, 0, 0, 0, 0, 0, 0
#define NONES64 NONES8, NONES8, NONES8, NONES8, NONES8, NONES8, NONES8, NONES8
#if defined(VL_HOST_RSEQ)
#define NONES NONES64, NONES64, NONES64, NONES64, NONES64, NONES64, NONES64, NONES64
#else
#define NONES NONES64, NONES64
#endif
const VLI_ALIGNED(VLI_SHEAF_BYTES) uintptr_t vli_sheaf_none[2 * VLI_SHEAF_WORDS] = {NONES};

static bool has_sheaves(const struct vl_cache *cache)
{
    return cache->node[0].capacity_max != 0;
}

/* ------------------------------------------------------------------------------------ one sheaf */

/* Words at the start of a block, below the 0. */
enum { LINK, CAPACITY, FIRST_ZERO };
_Static_assert(CAPACITY_MAX == VLI_SHEAF_WORDS - 1 - FIRST_ZERO, "room for both, and for the 0");

static uintptr_t block_of(uintptr_t top)
{
    return (top - 1u) & ~(uintptr_t)(VLI_SHEAF_BYTES - 1u);
}

static uintptr_t *words_of(uintptr_t block)
{
    return (uintptr_t *)block;
}

static uint32_t capacity_of(uintptr_t top)
{
    return (uint32_t)words_of(block_of(top))[CAPACITY];
}

/* Top of the empty sheaf in a block. */
static uintptr_t empty_top(uintptr_t block)
{
    return block + VLI_SHEAF_BYTES - words_of(block)[CAPACITY] * sizeof(uintptr_t);
}

/* Units that a sheaf holds. */
static uint32_t fill_of(uintptr_t top)
{
    return (uint32_t)((top - empty_top(block_of(top))) / sizeof(uintptr_t));
}

static uintptr_t *lowest_of(uintptr_t top)
{
    return (uintptr_t *)empty_top(block_of(top));
}

static bool is_full(uintptr_t top)
{
    return top % VLI_SHEAF_BYTES == 0;
}

/* A block becomes an empty sheaf, with the capacity that the cache has use for now. */
static uintptr_t make_empty(const struct vli_slab_node *node, uintptr_t block)
{
    uintptr_t top;

    words_of(block)[CAPACITY] = atomic_load_explicit(&node->capacity, memory_order_relaxed);
    top = empty_top(block);
    *((uintptr_t *)top - 1) = 0;
    return top;
}

static uintptr_t take_one(struct vl_cache *cache, vl_how_t how);
static void give_one(struct vl_cache *cache, uintptr_t unit);

/* A new empty sheaf, or NONE when there is no memory. */
static uintptr_t sheaf_new(const struct vli_slab_node *node)
{
    uintptr_t block = take_one(sheaves, VL_ATOMIC | VL_MAY_FAIL);

    return block == 0 ? VLI_SHEAF_NONE : make_empty(node, block + sheaves->shift);
}

static void sheaf_end(uintptr_t block)
{
    give_one(sheaves, block - sheaves->shift);
}

/* --------------------------------------------------------------------------------- without one */

/* A unit straight from a slab. */
static uintptr_t take_one(struct vl_cache *cache, vl_how_t how)
{
    struct vli_slab_node *node = &cache->node[0];
    uintptr_t unit = 0;
    uint32_t had;

    do {
        unsigned long flags = vli_spin_lock_irq(&node->lock, VLI_RANK_SLAB_NODE);

        had = vli_slabs_take(node, 1, &unit + 1);
        vli_spin_unlock_irq(&node->lock, VLI_RANK_SLAB_NODE, flags);
    } while (had == 0 && vli_slabs_new(cache, how));
    return unit;
}

static void give_one(struct vl_cache *cache, uintptr_t unit)
{
    struct vli_slabs_out out = {VLI_FRAME_LINK_NONE};
    uintptr_t word = unit;
    unsigned long flags = vli_spin_lock_irq(&cache->node[0].lock, VLI_RANK_SLAB_NODE);

    vli_slabs_give(cache, &word, 1, &out);
    vli_spin_unlock_irq(&cache->node[0].lock, VLI_RANK_SLAB_NODE, flags);
    (void)vli_slabs_release(cache, &out);
}

/* ------------------------------------------------------------------------------------- the barn */

static void barn_add(uintptr_t *list, uint32_t *count, uintptr_t block)
{
    words_of(block)[LINK] = *list;
    *list = block;
    (*count)++;
}

/* Block of the first sheaf of a list that is not empty. */
static uintptr_t barn_remove(uintptr_t *list, uint32_t *count)
{
    uintptr_t block = *list;

    *list = words_of(block)[LINK];
    (*count)--;
    return block;
}

/* A full sheaf goes into the barn if there is room. */
static bool barn_keeps(struct vli_slab_node *node, uintptr_t top) VL_REQUIRES(&node->lock)
{
    if (!is_full(top) || node->full_count >= node->full_max) {
        return false;
    }
    barn_add(&node->full, &node->full_count, block_of(top));
    return true;
}

/* An empty sheaf of the barn, or NONE. */
static uintptr_t barn_vacant(struct vli_slab_node *node) VL_REQUIRES(&node->lock)
{
    if (node->vacant == 0) {
        return VLI_SHEAF_NONE;
    }
    return make_empty(node, barn_remove(&node->vacant, &node->vacant_count));
}

/* All units of a sheaf go back to their slabs. Returns: it, empty. */
static uintptr_t empty_out(struct vl_cache *cache, uintptr_t top, struct vli_slabs_out *out)
    VL_REQUIRES(&cache->node[0].lock)
{
    vli_slabs_give(cache, lowest_of(top), fill_of(top), out);
    return empty_top(block_of(top));
}

/* A sheaf that no CPU wants. */
static void barn_put(struct vl_cache *cache, uintptr_t top)
{
    struct vli_slab_node *node = &cache->node[0];
    struct vli_slabs_out out = {VLI_FRAME_LINK_NONE};
    unsigned long flags = vli_spin_lock_irq(&cache->node[0].lock, VLI_RANK_SLAB_NODE);
    bool is_kept = barn_keeps(&cache->node[0], top);

    if (!is_kept) {
        (void)empty_out(cache, top, &out);
        is_kept = node->vacant_count < VACANT_MAX;
        if (is_kept) {
            barn_add(&node->vacant, &node->vacant_count, block_of(top));
        }
    }
    vli_spin_unlock_irq(&cache->node[0].lock, VLI_RANK_SLAB_NODE, flags);
    (void)vli_slabs_release(cache, &out);
    if (!is_kept) {
        sheaf_end(block_of(top));
    }
}

/* --------------------------------------------------------------------------- a CPU's two sheaves
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
        barn_put(cache, old);
    }
}

/* @top comes into use. False: this CPU must keep none now. */
static bool use(struct vl_cache *cache, uintptr_t top)
{
    uintptr_t old = vli_slot_swap(cache->index, VLI_SHEAF_TOP, top);

    if (old == VLI_SHEAF_STOPPED) {
        barn_put(cache, top);
        return false;
    }
    park(cache, old);
    return true;
}

/* How many units a sheaf gets from the slabs: no more than a share of all that there are, so that
 * the few objects of a small cache do not come to lie in many slabs, one each. */
static uint32_t fill_wanted(const struct vli_slab_node *node, uint32_t capacity)
{
    uint64_t share = atomic_load_explicit(&node->units, memory_order_relaxed) / FILL_SHARE;

    share = share < FILL_MIN ? FILL_MIN : share;
    return share < capacity ? (uint32_t)share : capacity;
}

/* Fills an empty sheaf from the slabs, as far as they reach, so that addresses come out of it in
 * ascending order. */
static uintptr_t fill(struct vli_slab_node *node, uintptr_t top) VL_REQUIRES(&node->lock)
{
    uintptr_t *lowest = (uintptr_t *)top;
    uint32_t wanted = fill_wanted(node, capacity_of(top));

    if (node->units_free < wanted) {
        wanted = (uint32_t)node->units_free;
    }
    wanted = vli_slabs_take(node, wanted, lowest + wanted);
    return (uintptr_t)(lowest + wanted);
}

/* From the barn or the slabs: a sheaf that holds something; @top: an empty one, or NONE. Returns: a
 * sheaf, which is empty, or NONE, when neither has a unit. */
static uintptr_t find_full(struct vl_cache *cache, uintptr_t top)
{
    struct vli_slab_node *node = &cache->node[0];
    unsigned long flags = vli_spin_lock_irq(&node->lock, VLI_RANK_SLAB_NODE);
    uintptr_t surplus = 0;

    if (node->full != 0) {
        if (top != VLI_SHEAF_NONE) {
            surplus = block_of(top);
        }
        top = barn_remove(&node->full, &node->full_count) + VLI_SHEAF_BYTES;
    } else {
        top = top == VLI_SHEAF_NONE ? barn_vacant(node) : make_empty(node, block_of(top));
        if (top != VLI_SHEAF_NONE) {
            top = fill(node, top);
        }
    }
    if (surplus != 0 && node->vacant_count < VACANT_MAX) {
        barn_add(&node->vacant, &node->vacant_count, surplus);
        surplus = 0;
    }
    vli_spin_unlock_irq(&node->lock, VLI_RANK_SLAB_NODE, flags);
    if (surplus != 0) {
        sheaf_end(surplus);
    }
    return top;
}

/* A new slab; where many objects are, as many as a sheaf is to be filled from. False: no memory. */
static bool grow(struct vl_cache *cache, vl_how_t how, uint32_t capacity)
{
    uint32_t each = vli_slab_units_each(cache);
    uint32_t units = 0;

    while (vli_slabs_new(cache, units == 0 ? how : VL_ATOMIC | VL_MAY_FAIL)) {
        units += each;
        if (units + each > fill_wanted(&cache->node[0], capacity)) {
            break;
        }
    }
    return units > 0;
}

/* This CPU gets a sheaf with units. False: it must keep none, or there is no memory. Then @how
 * becomes one that takes what came back meanwhile, but does not have reclaim look for more again.
 */
static bool refill(struct vl_cache *cache, vl_how_t *how)
{
    struct vli_slab_node *node = &cache->node[0];
    uintptr_t top = vli_slot_swap(cache->index, VLI_SHEAF_SPARE, VLI_SHEAF_NONE);

    if (top == VLI_SHEAF_STOPPED) {
        return false;
    }
    if (top == VLI_SHEAF_NONE || fill_of(top) == 0) {
        top = find_full(cache, top);
    }
    if (top == VLI_SHEAF_NONE) {
        top = sheaf_new(node);
        if (top == VLI_SHEAF_NONE) {
            return false;
        }
        top = find_full(cache, top);
    }
    while (fill_of(top) == 0) {
        if (!grow(cache, *how, capacity_of(top))) {
            *how = (*how & ~(vl_how_t)VL_WAIT) | VL_MAY_FAIL;
            park(cache, top);
            return false;
        }
        top = find_full(cache, top);
    }
    return use(cache, top);
}

uintptr_t vli_slab_alloc_slow(struct vl_cache *cache, vl_how_t how)
{
    uintptr_t unit = 0;

    for (uint32_t i = 0; i < TRIES && has_sheaves(cache); i++) {
        if (!refill(cache, &how)) {
            break;
        }
        unit = vli_slot_pop(cache->index);
        if (unit != 0) {
            return unit;
        }
    }
    return take_one(cache, how);
}

/* From the barn: an empty sheaf, or NONE; @top: a full one, whose units go there, or NONE. */
static uintptr_t find_vacant(struct vl_cache *cache, uintptr_t top)
{
    struct vli_slabs_out out = {VLI_FRAME_LINK_NONE};
    unsigned long flags = vli_spin_lock_irq(&cache->node[0].lock, VLI_RANK_SLAB_NODE);

    if (top == VLI_SHEAF_NONE || barn_keeps(&cache->node[0], top)) {
        top = barn_vacant(&cache->node[0]);
    } else {
        top = empty_out(cache, top, &out);
    }
    vli_spin_unlock_irq(&cache->node[0].lock, VLI_RANK_SLAB_NODE, flags);
    (void)vli_slabs_release(cache, &out);
    return top;
}

/* This CPU gets a sheaf with room. False: it must keep none, or there is no memory. */
static bool make_room(struct vl_cache *cache)
{
    struct vli_slab_node *node = &cache->node[0];
    uintptr_t top = vli_slot_swap(cache->index, VLI_SHEAF_SPARE, VLI_SHEAF_NONE);

    if (top == VLI_SHEAF_STOPPED) {
        return false;
    }
    if (top == VLI_SHEAF_NONE || is_full(top)) {
        top = find_vacant(cache, top);
    }
    if (top == VLI_SHEAF_NONE) {
        top = sheaf_new(node);
    } else if (fill_of(top) == 0) {
        top = make_empty(node, block_of(top));
    }
    return top != VLI_SHEAF_NONE && use(cache, top);
}

void vli_slab_free_slow(struct vl_frame *frame, uintptr_t unit)
{
    struct vl_cache *cache = vli_slab_cache(frame);

    for (uint32_t i = 0; i < TRIES && has_sheaves(cache); i++) {
        if (!make_room(cache)) {
            break;
        }
        if (vli_slot_push(cache->index, unit)) {
            return;
        }
    }
    give_one(cache, unit);
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

    if (count < SWAPS_FROM || !has_sheaves(cache)) {
        return pop_few(index, count, out);
    }
    top = vli_slot_swap(index, VLI_SHEAF_TOP, VLI_SHEAF_NONE);
    if (top == VLI_SHEAF_NONE || top == VLI_SHEAF_STOPPED) {
        return 0;
    }
    had = fill_of(top) < count ? fill_of(top) : count;
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

    if (count < SWAPS_FROM || !has_sheaves(cache)) {
        return push_few(index, shift, count, objects);
    }
    top = vli_slot_swap(index, VLI_SHEAF_TOP, VLI_SHEAF_NONE);
    if (top == VLI_SHEAF_NONE || top == VLI_SHEAF_STOPPED) {
        return 0;
    }
    room = capacity_of(top) - fill_of(top);
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

/* --------------------------------------------------------------------------------- giving it up */

/* Empties one sheaf of an area that nobody uses meanwhile. */
static void drain_sheaf(struct vl_cache *cache, _Atomic uintptr_t *word)
{
    struct vli_slab_node *node = &cache->node[0];
    uintptr_t top = atomic_load_explicit(word, memory_order_relaxed);
    struct vli_slabs_out out = {VLI_FRAME_LINK_NONE};
    unsigned long flags;

    if (top == VLI_SHEAF_NONE) {
        return;
    }
    atomic_store_explicit(word, VLI_SHEAF_NONE, memory_order_relaxed);
    flags = vli_spin_lock_irq(&cache->node[0].lock, VLI_RANK_SLAB_NODE);
    (void)empty_out(cache, top, &out);
    barn_add(&node->vacant, &node->vacant_count, block_of(top));
    vli_spin_unlock_irq(&cache->node[0].lock, VLI_RANK_SLAB_NODE, flags);
    (void)vli_slabs_release(cache, &out);
}

void vli_sheaf_drain_area(struct vli_slab_percpu *area, struct vl_cache *cache)
{
    for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
        if (cache == NULL || cache->index == i) {
            drain_sheaf(&vli_caches[i], &area->sheaf[VLI_SHEAF_TOP][i]);
            drain_sheaf(&vli_caches[i], &area->sheaf[VLI_SHEAF_SPARE][i]);
        }
    }
}

/* The barn's full sheaves go back to the slabs, then all its sheaves end. */
static void barn_empty(struct vl_cache *cache)
{
    struct vli_slab_node *node = &cache->node[0];
    struct vli_slabs_out out = {VLI_FRAME_LINK_NONE};
    uintptr_t blocks = 0;
    uint32_t count = 0;
    unsigned long flags = vli_spin_lock_irq(&cache->node[0].lock, VLI_RANK_SLAB_NODE);

    while (node->full != 0) {
        uintptr_t block = barn_remove(&node->full, &node->full_count);

        (void)empty_out(cache, block + VLI_SHEAF_BYTES, &out);
        barn_add(&blocks, &count, block);
    }
    while (node->vacant != 0) {
        barn_add(&blocks, &count, barn_remove(&node->vacant, &node->vacant_count));
    }
    vli_spin_unlock_irq(&cache->node[0].lock, VLI_RANK_SLAB_NODE, flags);
    (void)vli_slabs_release(cache, &out);
    while (blocks != 0) {
        sheaf_end(barn_remove(&blocks, &count));
    }
}

#if defined(VL_HOST_RSEQ)
/* The host keeps the areas, each for a CPU or a thread, and sees that nobody uses one meanwhile. */
#define each_area vli_sheaf_areas

static void flush_area(struct vli_slab_percpu *area, void *arg)
{
    vli_sheaf_drain_area(area, arg);
}

static void flush_cpus(struct vl_cache *cache)
{
    each_area(flush_area, cache);
}
#else
/* Their CPUs go on using them. */
static void each_area(void (*fn)(struct vli_slab_percpu *area, void *arg), void *arg)
{
    for (unsigned cpu = 0; cpu < vl_host_cpu_count(); cpu++) {
        fn(&vli_percpu_of(cpu)->slab, arg);
    }
}

/* Runs on each CPU, interrupts off. */
static void flush_cpu(void *arg, unsigned cpu)
{
    vli_sheaf_drain_area(&vli_percpu_of(cpu)->slab, arg);
}

static void flush_cpus(struct vl_cache *cache)
{
    struct vl_cpumask all = {{0}};
    unsigned count = vl_host_cpu_count();

    for (unsigned cpu = 0; cpu < count; cpu++) {
        all.word[cpu / 64] |= (uint64_t)1 << (cpu % 64);
    }
    vl_host_cpu_call(&all, flush_cpu, cache);
}
#endif

void vli_slab_flush(struct vl_cache *cache)
{
    flush_cpus(cache);
    for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
        if (cache == NULL || cache->index == i) {
            barn_empty(&vli_caches[i]);
        }
    }
}

/* ------------------------------------------------------------------------------ beginnings, checks
 */

/* Bytes of units that a sheaf may hold. */
static uint64_t bytes_max(void)
{
    struct vl_frame_counts counts;
    uint64_t bytes;

    vl_frame_counts(&counts);
    bytes = counts.managed + counts.absent;
    bytes = (bytes << VL_PAGE_SHIFT) / BYTES_SHARE / vl_host_cpu_count();
    return bytes < BYTES_MAX ? bytes : BYTES_MAX;
}

static uint32_t clamp(uint64_t value, uint32_t low, uint32_t high)
{
    return value < low ? low : value > high ? high : (uint32_t)value;
}

void vli_sheaf_resize(struct vli_slab_node *node)
{
    uint64_t units = atomic_load_explicit(&node->units, memory_order_relaxed);
    uint32_t capacity;
    uint64_t most;

    if (node->capacity_max != 0) {
        capacity = clamp(units / CAPACITY_SHARE, node->capacity_min, node->capacity_max);
        atomic_store_explicit(&node->capacity, capacity, memory_order_relaxed);
        most = VL_HOST_BARN_BYTES / ((uint64_t)capacity * node->unit_bytes);
        most = most < BARN_FULL_MAX ? most : BARN_FULL_MAX;
        node->full_max = clamp(units / capacity / BARN_SHARE, 1, most > 1 ? (uint32_t)most : 1);
    }
}

void vli_slab_layout(struct vl_cache *cache)
{
    struct vli_slab_node *node = &cache->node[0];
    uint64_t most = bytes_max();
    uint64_t least = most < BYTES_MIN ? most : BYTES_MIN;
    unsigned long flags = vli_spin_lock_irq(&cache->node[0].lock, VLI_RANK_SLAB_NODE);

    vli_slabs_layout(cache);
    node->capacity_max = clamp(most / cache->unit_bytes, CAPACITY_MIN, CAPACITY_MAX);
    node->capacity_min = clamp(least / cache->unit_bytes, CAPACITY_MIN, CAPACITY_MAX);
    node->full = 0;
    node->vacant = 0;
    node->full_count = 0;
    node->vacant_count = 0;
    atomic_store_explicit(&node->capacity, node->capacity_min, memory_order_relaxed);
    node->full_max = 1;
    vli_spin_unlock_irq(&cache->node[0].lock, VLI_RANK_SLAB_NODE, flags);
}

void vli_sheaf_area_init(struct vli_slab_percpu *area)
{
    for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
        atomic_store_explicit(&area->sheaf[VLI_SHEAF_TOP][i], VLI_SHEAF_NONE, memory_order_relaxed);
        atomic_store_explicit(&area->sheaf[VLI_SHEAF_SPARE][i], VLI_SHEAF_NONE,
                              memory_order_relaxed);
    }
}

/* Units that CPUs keep of a cache. */
struct kept {
    const struct vl_cache *cache;
    uint64_t units;
};

VLI_RACY uint32_t vli_sheaf_fill(uintptr_t top)
{
    uint32_t capacity;
    uint32_t fill;

    if (top == VLI_SHEAF_NONE) {
        return 0;
    }
    capacity = *(volatile uint32_t *)&words_of(block_of(top))[CAPACITY];
    fill = capacity - (uint32_t)((block_of(top) + VLI_SHEAF_BYTES - top) / sizeof(uintptr_t));
    return capacity <= CAPACITY_MAX && fill <= capacity ? fill : 0;
}

uint64_t vli_sheaf_barn_units(struct vl_cache *cache)
{
    struct vli_slab_node *node = &cache->node[0];
    unsigned long flags = vli_spin_lock_irq(&node->lock, VLI_RANK_SLAB_NODE);
    uint64_t units = 0;

    for (uintptr_t block = node->full; block != 0; block = words_of(block)[LINK]) {
        units += words_of(block)[CAPACITY];
    }
    vli_spin_unlock_irq(&node->lock, VLI_RANK_SLAB_NODE, flags);
    return units;
}

static void count_area(struct vli_slab_percpu *area, void *arg)
{
    struct kept *kept = arg;

    for (unsigned which = 0; which < VLI_SHEAF_WHICH; which++) {
        kept->units += vli_sheaf_fill(
            atomic_load_explicit(&area->sheaf[which][kept->cache->index], memory_order_relaxed));
    }
}

uint64_t vli_slab_units_free(struct vl_cache *cache)
{
    struct vli_slab_node *node = &cache->node[0];
    struct kept kept = {cache, vli_sheaf_barn_units(cache)};
    unsigned long flags = vli_spin_lock_irq(&node->lock, VLI_RANK_SLAB_NODE);

    kept.units += node->units_free;
    vli_spin_unlock_irq(&node->lock, VLI_RANK_SLAB_NODE, flags);
    if (has_sheaves(cache)) {
        each_area(count_area, &kept);
    }
    return kept.units;
}

static void area_start(struct vli_slab_percpu *area, void *arg)
{
    (void)arg;
    vli_sheaf_area_init(area);
}

enum vl_status vli_slab_start(void)
{
    const struct vl_cache_spec spec = {.name = "sheaf",
                                       .size = VLI_SHEAF_BYTES,
                                       .align = VLI_SHEAF_BYTES,
                                       .flags = VL_CACHE_NO_MERGE};
    enum vl_status status;

    each_area(area_start, NULL);
    status = vl_cache_create(&spec, &sheaves);
    if (status == VL_OK) {
        sheaves->node[0].capacity_max = 0;
    }
    return status;
}

/* Each unit that a sheaf holds is one of the cache's that no slab has. */
static void sheaf_validate(struct vl_cache *cache, uintptr_t top)
{
    struct vli_slab_node *node = &cache->node[0];
    const uintptr_t *lowest;

    if (top == VLI_SHEAF_NONE) {
        return;
    }
    VL_ASSERT(capacity_of(top) <= node->capacity_max);
    VL_ASSERT(fill_of(top) <= capacity_of(top));
    VL_ASSERT(!vli_slabs_is_free(sheaves, block_of(top) - sheaves->shift));
    lowest = lowest_of(top);
    for (uint32_t i = 0; i < fill_of(top); i++) {
        VL_ASSERT(!vli_slabs_is_free(cache, lowest[i]));
    }
}

static void barn_validate(struct vl_cache *cache)
{
    struct vli_slab_node *node = &cache->node[0];
    uint32_t count = 0;

    for (uintptr_t block = node->full; block != 0; block = words_of(block)[LINK]) {
        sheaf_validate(cache, block + VLI_SHEAF_BYTES);
        count++;
    }
    VL_ASSERT(count == node->full_count);
    count = 0;
    for (uintptr_t block = node->vacant; block != 0; block = words_of(block)[LINK]) {
        count++;
    }
    VL_ASSERT(count == node->vacant_count);
}

static void area_validate(struct vli_slab_percpu *area, void *arg)
{
    struct vl_cache *cache = arg;

    for (unsigned which = 0; which < VLI_SHEAF_WHICH; which++) {
        sheaf_validate(
            cache, atomic_load_explicit(&area->sheaf[which][cache->index], memory_order_relaxed));
    }
}

void vli_slab_validate(void)
{
    for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
        vli_slabs_validate(&vli_caches[i]);
        barn_validate(&vli_caches[i]);
        each_area(area_validate, &vli_caches[i]);
    }
}
