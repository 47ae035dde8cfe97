/*
 * cache.c - caches come and go, are counted and shrunk.
 *
 * All caches stand in one array; a cache's place in it is its index, which its slots, its frames
 * and kmalloc's classes use. The array's entries are taken and given back under caches_lock; who
 * uses a cache keeps it alive, so nobody else needs the lock.
 */
#include "core/slab/slab.h"
#include "core/base/bits.h"
#include "core/base/log.h"
#include "core/base/rwlock.h"

/* A slab holds this many units, if its order stays within the largest. */
#define UNITS_WANTED 16u
#define ORDER_MAX    3u
#define ALIGN_MIN    8u

struct vl_cache vli_caches[VLI_CACHES_MAX];
static struct vli_rwlock caches_lock;

static const char *const kmalloc_names[VL_KMALLOC_CLASSES] = {
    "kmalloc-8",   "kmalloc-16",  "kmalloc-24",   "kmalloc-32",  "kmalloc-48",  "kmalloc-64",
    "kmalloc-96",  "kmalloc-128", "kmalloc-192",  "kmalloc-256", "kmalloc-384", "kmalloc-512",
    "kmalloc-768", "kmalloc-1k",  "kmalloc-1536", "kmalloc-2k",  "kmalloc-3k",  "kmalloc-4k",
    "kmalloc-6k",  "kmalloc-8k",  "kmalloc-12k",  "kmalloc-16k"};

/* Smallest order whose slab holds @count units. */
static uint32_t order_for(uint32_t unit_bytes, uint32_t count)
{
    uint64_t frames = ((uint64_t)unit_bytes * count + VL_PAGE_MASK) >> VL_PAGE_SHIFT;

    return vli_log2_ceil(frames);
}

/* Lays out the units of a cache whose spec was checked. */
static void layout(struct vl_cache *cache, const struct vl_cache_spec *spec)
{
    uint32_t align = spec->align > ALIGN_MIN ? (uint32_t)spec->align : ALIGN_MIN;
    uint32_t head = VLI_MARK_HEAD;
    uint32_t unit;

    if (head == 0 && spec->constructor != NULL) {
        head = sizeof(uintptr_t); /* the link must not spoil the object */
    }
    cache->name = spec->name;
    cache->constructor = spec->constructor;
    cache->object_bytes = (uint32_t)spec->size;
    cache->align = align;
    cache->shift = (uint32_t)vli_round_up(head, align);
    unit = cache->shift + (uint32_t)vli_round_up(spec->size, ALIGN_MIN) + VLI_MARK_TAIL;
    cache->unit_bytes = (uint32_t)vli_round_up(unit, align);
    cache->order_min = order_for(cache->unit_bytes, 1);
    cache->order = order_for(cache->unit_bytes, UNITS_WANTED);
    if (cache->order > ORDER_MAX) {
        cache->order = cache->order_min > ORDER_MAX ? cache->order_min : ORDER_MAX;
    }
    for (unsigned i = 0; i < VLI_SLAB_NODES; i++) {
        struct vli_slab_node *node = &cache->node[i];

        vli_spin_init(&node->lock);
        node->partial = VLI_FRAME_LINK_NONE;
        node->partial_last = VLI_FRAME_LINK_NONE;
        node->partial_count = 0;
        atomic_store_explicit(&node->slabs, 0, memory_order_relaxed);
        atomic_store_explicit(&node->units, 0, memory_order_relaxed);
        atomic_store_explicit(&node->frames, 0, memory_order_relaxed);
    }
}

static bool spec_is_good(const struct vl_cache_spec *spec)
{
    return spec->name != NULL && spec->size >= 1 && spec->size <= VL_KMALLOC_CACHED_MAX &&
           (spec->align == 0 || vli_is_power_of_2(spec->align)) && spec->align <= VL_PAGE_SIZE;
}

enum vl_status vl_cache_create(const struct vl_cache_spec *spec, struct vl_cache **out)
{
    enum vl_status status = VL_ENOMEM;

    if (!spec_is_good(spec)) {
        return VL_EINVAL;
    }
    vli_rw_write_lock(&caches_lock);
    for (unsigned i = VL_KMALLOC_CLASSES; i < VLI_CACHES_MAX; i++) {
        if (!vli_caches[i].is_live) {
            layout(&vli_caches[i], spec);
            vli_caches[i].is_live = true;
            *out = &vli_caches[i];
            status = VL_OK;
            break;
        }
    }
    vli_rw_write_unlock(&caches_lock);
    return status;
}

/* Units of all slabs that are not free; when nothing is in a CPU's slot, users have them. */
static uint64_t units_out(struct vl_cache *cache, uint64_t *out_units)
{
    struct vli_slab_node *node = &cache->node[0];
    unsigned long flags = vli_spin_lock_irq(&node->lock, VLI_RANK_SLAB_NODE);
    uint64_t free = 0;

    *out_units = atomic_load_explicit(&node->units, memory_order_relaxed);
    for (uint32_t at = node->partial; at != VLI_FRAME_LINK_NONE;
         at = vli_frame_of((struct vl_pfn){at})->next) {
        free += vli_slab_word_free(atomic_load_explicit(
            vli_slab_word(vli_frame_of((struct vl_pfn){at})), memory_order_relaxed));
    }
    vli_spin_unlock_irq(&node->lock, VLI_RANK_SLAB_NODE, flags);
    return *out_units > free ? *out_units - free : 0;
}

enum vl_status vl_cache_destroy(struct vl_cache *cache)
{
    uint64_t units;
    uint64_t out;

    VL_ASSERT(cache->is_live);
    VL_ASSERT(cache->index >= VL_KMALLOC_CLASSES);
    (void)vl_cache_shrink(cache);
    if (atomic_load_explicit(&cache->node[0].slabs, memory_order_relaxed) != 0) {
        out = units_out(cache, &units);
        vli_log(VL_LOG_WARNING, "cache %s is not destroyed: %lu objects are out", cache->name,
                (unsigned long)out);
        return VL_EBUSY;
    }
    vli_rw_write_lock(&caches_lock);
    cache->is_live = false;
    vli_rw_write_unlock(&caches_lock);
    return VL_OK;
}

size_t vl_cache_shrink(struct vl_cache *cache)
{
    vli_rank_assert_none();
    vli_slab_flush(cache);
    return vli_slab_release_empty(cache);
}

void vli_slab_drain(void)
{
    vli_rank_assert_none();
    vli_slab_flush(NULL);
    for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
        (void)vli_slab_release_empty(&vli_caches[i]);
    }
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
    out->units_per_slab = (uint32_t)((VL_PAGE_SIZE << cache->order) / cache->unit_bytes);
    out->frames_per_slab = 1u << cache->order;
    vli_rw_read_unlock(&caches_lock);
    return true;
}

enum vl_status vli_slab_init(void)
{
    struct vl_cache_spec spec;
    unsigned count = vl_host_cpu_count();

    vli_virt_init();
    vli_rw_init(&caches_lock, VLI_RANK_CACHES);
    for (unsigned cpu = 0; cpu < count; cpu++) {
        for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
            atomic_store_explicit(&vli_percpu_of(cpu)->slab.slot[i].id, cpu, memory_order_relaxed);
        }
    }
    for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
        vli_caches[i] = (struct vl_cache){.index = i};
        vli_caches[i].node[0].partial = VLI_FRAME_LINK_NONE;
    }
    for (unsigned i = 0; i < VL_KMALLOC_CLASSES; i++) {
        size_t size =
            i < 2 ? (size_t)8 << i : ((i & 1u) == 0 ? (size_t)24 : (size_t)32) << (i / 2 - 1);
        size_t align = vli_is_power_of_2(size) ? size : ALIGN_MIN;

        spec = (struct vl_cache_spec){.name = kmalloc_names[i],
                                      .size = size,
                                      .align = align < VL_PAGE_SIZE ? align : VL_PAGE_SIZE};
        layout(&vli_caches[i], &spec);
        vli_caches[i].is_live = true;
    }
    return VL_OK;
}

/* A list of free units inside [base, base + bytes): its length, at most @max. */
static uint32_t list_validate(const struct vl_cache *cache, uintptr_t list, uintptr_t base,
                              uintptr_t bytes, uint32_t max)
{
    uint32_t count = 0;

    for (; list != 0; list = atomic_load_explicit(vli_unit_link(list), memory_order_relaxed)) {
        VL_ASSERT(list - base < bytes);
        VL_ASSERT((list - base) % cache->unit_bytes == 0);
        VL_ASSERT(count < max);
        count++;
    }
    return count;
}

static void slab_validate(const struct vl_cache *cache, struct vl_frame *head, bool frozen)
{
    uintptr_t base = (uintptr_t)vli_frame_virt(vli_frame_pfn(head));
    uint64_t word = atomic_load_explicit(vli_slab_word(head), memory_order_relaxed);
    uint32_t order =
        (atomic_load_explicit(&head->flags, memory_order_relaxed) & VLI_FRAME_ORDER_MASK) >>
        VLI_FRAME_ORDER_SHIFT;

    VL_ASSERT(vli_frame_type(head) == VLI_FRAME_SLAB);
    VL_ASSERT(vli_slab_cache(head) == cache);
    VL_ASSERT(vli_slab_head(head) == head);
    VL_ASSERT(((word & VLI_SLAB_FROZEN) != 0) == frozen);
    VL_ASSERT(vli_slab_word_units(word) == (VL_PAGE_SIZE << order) / cache->unit_bytes);
    VL_ASSERT(list_validate(cache, vli_slab_word_list(word, base), base, VL_PAGE_SIZE << order,
                            vli_slab_word_units(word)) == vli_slab_word_free(word));
    VL_ASSERT(frozen || vli_slab_word_free(word) > 0);
}

void vli_slab_validate(void)
{
    unsigned cpus = vl_host_cpu_count();

    for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
        struct vli_slab_node *node = &vli_caches[i].node[0];
        uint32_t previous = VLI_FRAME_LINK_NONE;
        uint32_t count = 0;

        for (uint32_t at = node->partial; at != VLI_FRAME_LINK_NONE;
             at = vli_frame_of((struct vl_pfn){at})->next) {
            VL_ASSERT(vli_frame_of((struct vl_pfn){at})->prev == previous);
            slab_validate(&vli_caches[i], vli_frame_of((struct vl_pfn){at}), false);
            previous = at;
            count++;
        }
        VL_ASSERT(count == node->partial_count);
        for (unsigned cpu = 0; cpu < cpus; cpu++) {
            struct vli_slab_slot *slot = &vli_percpu_of(cpu)->slab.slot[i];

            if (vli_slot_bytes(slot) != 0) {
                slab_validate(&vli_caches[i], vli_virt_frame(vli_slot_base(slot)), true);
                (void)list_validate(&vli_caches[i], vli_slot_list(slot), vli_slot_base(slot),
                                    vli_slot_bytes(slot),
                                    (uint32_t)(vli_slot_bytes(slot) / vli_caches[i].unit_bytes));
            }
        }
    }
}
