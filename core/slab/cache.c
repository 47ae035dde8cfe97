/*
 * cache.c - caches come and go, are shared and counted.
 *
 * All caches stand in one array; a cache's place in it is its index, which its slots, its frames
 * and kmalloc's classes use. The array's entries are taken and given back under caches_lock; who
 * uses a cache keeps it alive, so nobody else needs the lock.
 *
 * Two creations whose objects take the same units are served by one cache, so that they share its
 * slabs and what CPUs keep: fewer frames held half used, fewer cache lines. Who has an object in
 * one cannot be told afterwards, so a cache that still has users ends without a look at its
 * objects; the last one reports what is out, whoever had it. kmalloc's caches are not shared: they
 * never end, and no leak would be seen; and what is freed too early there does not become
 * somebody's typed object. Debug builds share nothing: each object shall be of one owner.
 */
#include "core/slab/slab.h"
#include "core/base/bits.h"
#include "core/base/log.h"
#include "core/base/rwlock.h"

/* A slab holds this many units if that makes it no larger than ORDER_WANTED; ORDER_MAX is for what
 * would be wasted otherwise. */
#define UNITS_WANTED 16u
/* Where most of a large slab's descriptors can go back (vli_slabs_purge()), units of so many bytes
 * and more get slabs as large as one word of bits and ORDER_LARGE allow. */
#if defined(VL_HOST_SLAB_ORDER_LARGE)
#define LARGE_BYTES (4u * VL_PAGE_SIZE)
#define ORDER_LARGE VL_HOST_SLAB_ORDER_LARGE
#else
#define LARGE_BYTES UINT32_MAX
#define ORDER_LARGE ORDER_MAX
#endif
#if defined(VL_HOST_CACHE_BYTES)
#define SIZE_MAX_CACHED VL_HOST_CACHE_BYTES
#else
#define SIZE_MAX_CACHED VL_KMALLOC_CACHED_MAX
#endif
#if defined(VL_HOST_SLAB_ORDER) /* what a host has instead, in the header of VL_HOST_INLINE */
#define ORDER_WANTED VL_HOST_SLAB_ORDER
#define ORDER_MAX    VL_HOST_SLAB_ORDER
#else
#define ORDER_WANTED 3u
#define ORDER_MAX    4u
#endif
/* Waste of a slab that is not worth a larger one: 1/100 of it. */
#define WASTE_PARTS 100u
#define ALIGN_MIN   8u

/* How long slabs on their way back to frame are waited for, in turns of a pause each. */
#define WAIT_TURNS 10000000u

struct vl_cache vli_caches[VLI_CACHES_MAX];
static struct vli_rwlock caches_lock;

static const char *const kmalloc_names[VL_KMALLOC_CLASSES] = {"",
                                                              "kmalloc-8",
                                                              "kmalloc-16",
                                                              "kmalloc-24",
                                                              "kmalloc-32",
                                                              "kmalloc-48",
                                                              "kmalloc-64",
                                                              "kmalloc-96",
                                                              "kmalloc-128",
                                                              "kmalloc-192",
                                                              "kmalloc-256",
                                                              "kmalloc-384",
                                                              "kmalloc-512",
                                                              "kmalloc-768",
                                                              "kmalloc-1k",
                                                              "kmalloc-1536",
                                                              "kmalloc-2k",
                                                              "kmalloc-3k",
                                                              "kmalloc-4k",
                                                              "kmalloc-6k",
                                                              "kmalloc-8k",
                                                              "kmalloc-12k",
                                                              "kmalloc-16k"};

/* Smallest order whose slab holds @count units. */
static uint32_t order_for(uint32_t unit_bytes, uint32_t count)
{
    uint64_t frames = ((uint64_t)unit_bytes * count + VL_PAGE_MASK) >> VL_PAGE_SHIFT;

    return vli_log2_ceil(frames);
}

/* Bytes of a slab of @order that no unit has. */
static uint32_t waste_of(uint32_t unit_bytes, uint32_t order)
{
    return (uint32_t)(VL_PAGE_SIZE << order) - vli_slab_units_in(unit_bytes, order) * unit_bytes;
}

/* Units that have pages of their own stay in one word of bits for all (vli_slabs_purge()). */
static uint32_t order_most(uint32_t unit_bytes, uint32_t order_min)
{
    uint32_t order_max = unit_bytes >= LARGE_BYTES ? ORDER_LARGE : ORDER_MAX;

    order_max = order_max < order_min ? order_min : order_max;
    while (unit_bytes >= VL_PAGE_SIZE && order_max > order_min &&
           vli_slab_units_in(unit_bytes, order_max) > 64) {
        order_max--;
    }
    return order_max;
}

/* The order that wastes least, the smallest of them. */
static uint32_t order_densest(uint32_t unit_bytes, uint32_t order_min)
{
    uint32_t order_max = order_most(unit_bytes, order_min);
    uint32_t best = order_min;

    for (uint32_t order = order_min + 1; order <= order_max; order++) {
        if (waste_of(unit_bytes, order) < waste_of(unit_bytes, best) << (order - best)) {
            best = order;
        }
    }
    return best;
}

/*
 * The order of a slab: enough for UNITS_WANTED units, within bounds; larger, or else smaller, where
 * that brings the waste below 1/100 of the slab. No order does for some sizes: then the one
 * with the least waste by its own size, of equals the smallest. A slab of 64 KiB is the price of an
 * exact size above 1 KiB: 63 objects of 1,040 bytes fill one, and in 16 KiB the rest of the
 * division would be 4% of it.
 */
static uint32_t order_by_waste(uint32_t unit_bytes, uint32_t order_min)
{
    uint32_t order_max = order_most(unit_bytes, order_min);
    uint32_t wanted = order_for(unit_bytes, UNITS_WANTED);
    uint32_t order;

    if (unit_bytes >= LARGE_BYTES) {
        return order_max;
    }
    wanted = wanted > ORDER_WANTED ? ORDER_WANTED : wanted;
    wanted = wanted < order_min ? order_min : wanted;
    for (order = wanted; order <= order_max; order++) {
        if (waste_of(unit_bytes, order) <= (VL_PAGE_SIZE << order) / WASTE_PARTS) {
            return order;
        }
    }
    for (order = wanted; order-- > order_min;) {
        if (waste_of(unit_bytes, order) <= (VL_PAGE_SIZE << order) / WASTE_PARTS) {
            return order;
        }
    }
    return order_densest(unit_bytes, order_min);
}

/* Where in a unit the object stands, and how long both are, by a spec that was checked. */
static void shape_units(struct vl_cache *cache, const struct vl_cache_spec *spec)
{
    uint32_t align = spec->align > ALIGN_MIN ? (uint32_t)spec->align : ALIGN_MIN;
    uint32_t head = VLI_MARK_HEAD;
    uint32_t unit;

    if (head == 0 && spec->constructor != NULL) {
        head = VLI_SLAB_LINK_BYTES;
    }
    cache->constructor = spec->constructor;
    cache->align = align;
    cache->shift = (uint32_t)vli_round_up(head, align);
    unit = cache->shift + (uint32_t)vli_round_up(spec->size, ALIGN_MIN) + VLI_MARK_TAIL;
    cache->unit_bytes = (uint32_t)vli_round_up(unit, align);
}

/* Units of what is shared have nothing but their object in them, which gets all of it; since a
 * unit's size is a multiple of its alignment, and slabs are aligned to pages, the size alone says
 * whether two are alike. */
static bool can_share(const struct vl_cache *cache)
{
    return VLI_MARK_HEAD == 0 && cache->constructor == NULL && cache->flags == 0;
}

static void layout(struct vl_cache *cache, const struct vl_cache_spec *spec)
{
    shape_units(cache, spec);
    (void)vli_print(cache->name, sizeof(cache->name), "%s", spec->name);
    cache->flags = spec->flags;
    cache->users = 1;
    cache->object_bytes = can_share(cache) ? cache->unit_bytes : (uint32_t)spec->size;
    cache->order_min = order_for(cache->unit_bytes, 1);
    cache->order = (spec->flags & VL_CACHE_DENSE) != 0
                       ? order_densest(cache->unit_bytes, cache->order_min)
                       : order_by_waste(cache->unit_bytes, cache->order_min);
    vli_slab_layout(cache);
}

static bool spec_is_good(const struct vl_cache_spec *spec)
{
    return spec->name != NULL && spec->size >= 1 && spec->size <= SIZE_MAX_CACHED &&
           (spec->align == 0 || vli_is_power_of_2(spec->align)) && spec->align <= VL_PAGE_SIZE &&
           (spec->flags & ~(VL_CACHE_NO_MERGE | VL_CACHE_DENSE)) == 0;
}

/* A cache that serves a creation like @wanted; NULL: there is none. */
static struct vl_cache *find_alike(const struct vl_cache *wanted)
{
    for (unsigned i = VL_KMALLOC_CLASSES; i < VLI_CACHES_MAX; i++) {
        struct vl_cache *cache = &vli_caches[i];

        if (cache != wanted && cache->is_live && can_share(cache) &&
            cache->unit_bytes == wanted->unit_bytes) {
            return cache;
        }
    }
    return NULL;
}

static struct vl_cache *find_unused(void)
{
    for (unsigned i = VL_KMALLOC_CLASSES; i < VLI_CACHES_MAX; i++) {
        if (!vli_caches[i].is_live) {
            return &vli_caches[i];
        }
    }
    return NULL;
}

/* Lays a new cache out, unless one that is there will do. NULL: no room for one. */
static struct vl_cache *find_or_make(const struct vl_cache_spec *spec)
{
    struct vl_cache shape = {.flags = spec->flags};
    struct vl_cache *cache = NULL;

    shape_units(&shape, spec);
    if (can_share(&shape)) {
        cache = find_alike(&shape);
    }
    if (cache != NULL) {
        cache->users++;
        return cache;
    }
    cache = find_unused();
    if (cache != NULL) {
        layout(cache, spec);
        cache->is_live = true;
    }
    return cache;
}

enum vl_status vl_cache_create(const struct vl_cache_spec *spec, struct vl_cache **out)
{
    struct vl_cache *cache;

    if (!spec_is_good(spec)) {
        return VL_EINVAL;
    }
    vli_rw_write_lock(&caches_lock);
    cache = find_or_make(spec);
    vli_rw_write_unlock(&caches_lock);
    if (cache == NULL) {
        return VL_ENOMEM;
    }
    *out = cache;
    return VL_OK;
}

/* Units of all slabs that are not free; when no CPU keeps any, users have them. */
static uint64_t units_out(struct vl_cache *cache, uint64_t *out_units)
{
    uint64_t free = vli_slab_units_free(cache);

    *out_units = atomic_load_explicit(&cache->node[0].units, memory_order_relaxed);
    return *out_units > free ? *out_units - free : 0;
}

/* One user fewer. True: that was the last, and the cache gets no new ones. */
static bool drop_user(struct vl_cache *cache, uint32_t *out_flags)
{
    bool is_last;

    vli_rw_write_lock(&caches_lock);
    VL_ASSERT(cache->is_live);
    is_last = cache->users == 1;
    if (is_last) {
        *out_flags = cache->flags;
        cache->flags |= VL_CACHE_NO_MERGE;
    } else {
        cache->users--;
    }
    vli_rw_write_unlock(&caches_lock);
    return is_last;
}

static void report_leak(struct vl_cache *cache)
{
    uint64_t units;
    uint64_t out = units_out(cache, &units);

    vli_log(VL_LOG_WARNING, "cache %s is not destroyed: %lu objects are out", cache->name,
            (unsigned long)out);
    vli_debug_report(cache);
}

/* Somebody else who shrinks all caches may be giving the last slabs back, out of any lock; it reads
 * the cache until they are not counted any more. In the child of a fork() it may not be there. */
static bool slabs_end(struct vl_cache *cache)
{
    /* Acquire: pairs with the release of whoever gives a slab back. */
    for (uint32_t i = 0; i < WAIT_TURNS; i++) {
        if (atomic_load_explicit(&cache->node[0].slabs, memory_order_acquire) == 0) {
            return true;
        }
        vl_host_cpu_relax();
    }
    return false;
}

enum vl_status vl_cache_destroy(struct vl_cache *cache)
{
    enum vl_status status = VL_OK;
    uint64_t units;
    uint32_t flags;

    VL_ASSERT(cache->index >= VL_KMALLOC_CLASSES);
    if (!drop_user(cache, &flags)) {
        return VL_OK;
    }
    (void)vl_cache_shrink(cache);
    if (units_out(cache, &units) != 0) {
        report_leak(cache);
        status = VL_EBUSY;
    } else if (!slabs_end(cache)) {
        status = VL_EBUSY;
    }
    vli_rw_write_lock(&caches_lock);
    cache->flags = flags;
    cache->is_live = status != VL_OK;
    vli_rw_write_unlock(&caches_lock);
    return status;
}

bool vli_slab_info(unsigned index, struct vli_slab_info *out)
{
    struct vl_cache *cache = index < VLI_CACHES_MAX ? &vli_caches[index] : NULL;
    struct vli_slab_node *node;

    if (cache == NULL) {
        return false;
    }
    vli_rw_read_lock(&caches_lock);
    if (!cache->is_live) {
        vli_rw_read_unlock(&caches_lock);
        return false;
    }
    node = &cache->node[0];
    *out = (struct vli_slab_info){
        .name = cache->name, .object_bytes = cache->object_bytes, .unit_bytes = cache->unit_bytes};
    out->units_active = units_out(cache, &out->units);
    out->slabs = atomic_load_explicit(&node->slabs, memory_order_relaxed);
    out->slabs_active = out->slabs;
    out->frames = atomic_load_explicit(&node->frames, memory_order_relaxed);
    out->units_per_slab = vli_slab_units_each(cache);
    out->frames_per_slab = 1u << cache->order;
    vli_rw_read_unlock(&caches_lock);
    return true;
}

enum vl_status vli_slab_init(void)
{
    struct vl_cache_spec spec;

    vli_virt_init();
    vli_rw_init(&caches_lock, VLI_RANK_CACHES);
    for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
        vli_caches[i] = (struct vl_cache){.index = i, .unit_bytes = VL_PAGE_SIZE};
        vli_slab_layout(&vli_caches[i]);
    }
    for (unsigned i = 1; i < VL_KMALLOC_CLASSES; i++) {
        size_t size =
            i < 3 ? (size_t)4 << i : ((i & 1u) != 0 ? (size_t)24 : (size_t)32) << ((i - 1) / 2 - 1);
        size_t align = size & ~(size - 1); /* the largest power of 2 in it: see resize.c */

        spec = (struct vl_cache_spec){.name = kmalloc_names[i],
                                      .size = size,
                                      .align = align < VL_PAGE_SIZE ? align : VL_PAGE_SIZE};
        layout(&vli_caches[i], &spec);
        vli_caches[i].is_live = true;
    }
    vli_slab_shrinker_init();
    return vli_slab_start();
}
