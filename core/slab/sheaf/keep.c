/*
 * keep.c - how much CPUs keep: bounds, what is given up, counts and checks.
 */
#include "core/slab/sheaf/sheaf.h"

/* What a sheaf may hold in bytes of units: something at least, where memory is not small; no more
 * than a share of all objects of the cache, so that what lies idle stays in proportion. */
#define BYTES_MAX      VL_HOST_SHEAF_BYTES
#define BYTES_MIN      VL_HOST_SHEAF_BYTES_MIN
#define BYTES_SHARE    2048u /* of all memory, divided by the CPUs */
#define CAPACITY_SHARE 64u
#define CAPACITY_MIN   4u
/* Empty sheaves that a barn keeps at least. */
#define VACANT_MIN 2u

/* ---------------------------------------------------------------------------------- giving it up
 */

/* Empties one sheaf of an area that nobody uses meanwhile. */
static void drain_sheaf(struct vl_cache *cache, _Atomic uintptr_t *word)
{
    uintptr_t top = atomic_load_explicit(word, memory_order_relaxed);

    if (top != VLI_SHEAF_NONE) {
        atomic_store_explicit(word, VLI_SHEAF_NONE, memory_order_relaxed);
        vli_barn_put_empty(cache, top);
    }
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
            vli_barn_empty(&vli_caches[i]);
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

    if (node->capacity_max == 0) {
        return;
    }
    capacity = clamp(units / CAPACITY_SHARE, node->capacity_min, node->capacity_max);
    if (capacity != atomic_load_explicit(&node->capacity, memory_order_relaxed)) {
        atomic_store_explicit(&node->capacity, capacity, memory_order_relaxed);
    }
    /* No more than were full if all units were in sheaves. */
    atomic_store_explicit(&node->vacant_max,
                          clamp(units / capacity, VACANT_MIN, VL_HOST_BARN_VACANT),
                          memory_order_relaxed);
}

void vli_slab_layout(struct vl_cache *cache)
{
    struct vli_slab_node *node = &cache->node[0];
    uint64_t most = bytes_max();
    uint64_t least = most < BYTES_MIN ? most : BYTES_MIN;

    if (cache->index == 0) { /* nobody's, and the first that slab lays out when it starts */
        vli_homes_init();
    }
    vli_slabs_layout(cache);
    node->capacity_max = clamp(most / cache->unit_bytes, CAPACITY_MIN, VLI_SHEAF_CAPACITY_MAX);
    node->capacity_min = clamp(least / cache->unit_bytes, CAPACITY_MIN, VLI_SHEAF_CAPACITY_MAX);
    node->full_max = clamp(VL_HOST_BARN_BYTES / cache->unit_bytes, 1, UINT32_MAX);
    atomic_store_explicit(&node->capacity, node->capacity_min, memory_order_relaxed);
    atomic_store_explicit(&node->units_in_hand, 0, memory_order_relaxed);
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
    capacity = *(volatile uint32_t *)&vli_sheaf_words(vli_sheaf_block(top))[VLI_SHEAF_CAPACITY];
    fill =
        capacity - (uint32_t)((vli_sheaf_block(top) + VLI_SHEAF_BYTES - top) / sizeof(uintptr_t));
    return capacity <= VLI_SHEAF_CAPACITY_MAX && fill <= capacity ? fill : 0;
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
    struct kept kept = {cache, vli_sheaf_barn_units(cache)};

    kept.units += vli_slabs_units_free(cache);
    if (vli_has_sheaves(cache)) {
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
    status = vl_cache_create(&spec, &vli_sheaves);
    if (status == VL_OK) {
        vli_sheaves->node[0].capacity_max = 0;
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
    VL_ASSERT(vli_sheaf_capacity(top) <= node->capacity_max);
    VL_ASSERT(vli_sheaf_units(top) <= vli_sheaf_capacity(top));
    VL_ASSERT(!vli_slabs_is_free(vli_sheaves, vli_sheaf_block(top) - vli_sheaves->shift));
    lowest = vli_sheaf_lowest(top);
    for (uint32_t i = 0; i < vli_sheaf_units(top); i++) {
        VL_ASSERT(!vli_slabs_is_free(cache, lowest[i]));
    }
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
        vli_barn_validate(&vli_caches[i], sheaf_validate);
        each_area(area_validate, &vli_caches[i]);
    }
}
