/*
 * supply.c - slabs come from frame, for the home of the CPU that has need of one, and go back.
 */
#include "core/slab/sheaf/slab_bits.h"
#include "core/slab/partial.h"

/* -------------------------------------------------------------------------------------- a new one
 */

/* The frames become a slab's. */
static void mark_frames(const struct vl_cache *cache, struct vl_frame *head, uint32_t order)
{
    for (uint32_t i = 0; i < 1u << order; i++) {
        uint32_t flags =
            atomic_load_explicit(&head[i].flags, memory_order_relaxed) & VLI_FRAME_ZONE_MASK;

        flags |=
            VLI_FRAME_SLAB | order << VLI_FRAME_ORDER_SHIFT | cache->index << VLI_FRAME_INDEX_SHIFT;
        atomic_store_explicit(&head[i].flags, flags, memory_order_relaxed);
    }
    vli_slab_map_set(head, order, cache->index);
}

/* All units are free; constructors run, debug builds make their marks. */
static void fill_slab(struct vl_cache *cache, const struct vli_slab *slab)
{
    uint32_t units = slab->shape->units;
    uintptr_t unit = slab->base;

    for (uint32_t w = 0; w < (units + 63u) / 64u; w++) {
        uint32_t last = units - w * 64u;

        vli_bits_store(slab, w, last >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << last) - 1u);
    }
    vli_slab_set_word(slab->head, 0);
    vli_slab_set_free(slab->head, units);
    if (vli_slab_can_purge(slab, cache->unit_bytes)) {
        atomic_store_explicit(vli_slab_told(slab), 0, memory_order_relaxed);
    }
    if (VLI_MARK_HEAD == 0 && cache->constructor == NULL) {
        return;
    }
    for (uint32_t i = 0; i < units; i++, unit += cache->unit_bytes) {
        vli_debug_unit_init(cache, unit);
        if (cache->constructor != NULL) {
            cache->constructor((void *)(unit + cache->shift));
        }
    }
}

/* A block of the cache's order, or of the least that will do. */
static struct vl_frame *get_block(const struct vl_cache *cache, vl_how_t how, uint32_t *order)
{
    vl_how_t first_how = (how & ~(vl_how_t)(VL_ZEROED | VL_HOST_SLAB_TRIES_WITHOUT)) | VL_MAY_FAIL;
    struct vl_frame *head = NULL;

    *order = cache->order;
    if (cache->order > cache->order_min) {
        head = vli_frame_get(cache->order, first_how);
    }
    if (head == NULL) {
        *order = cache->order_min;
        head = vli_frame_get(cache->order_min, how & ~(vl_how_t)VL_ZEROED);
    }
    return head;
}

bool vli_slabs_new(struct vl_cache *cache, vl_how_t how)
{
    struct vli_slab_node *node = &cache->node[0];
    uint32_t order;
    struct vl_frame *head = get_block(cache, how, &order);
    uint32_t here = vli_home_here();
    struct vli_slab_home *home = vli_home_at(cache, here);
    struct vli_slab slab;
    unsigned long flags;

    if (head == NULL) {
        return false;
    }
    mark_frames(cache, head, order);
    slab = vli_slab_of(cache, head);
    fill_slab(cache, &slab);
    vli_slab_set_place(head, here);
    vli_home_use(cache, here);
    atomic_fetch_add_explicit(&node->slabs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&node->frames, (uint64_t)1 << order, memory_order_relaxed);
    atomic_fetch_add_explicit(&node->units, slab.shape->units, memory_order_relaxed);
    flags = vli_spin_lock_irq(&home->lock, VLI_RANK_SLAB_NODE);
    home->units += slab.shape->units;
    home->units_free += slab.shape->units;
    home->empty_count++;
    vli_partial_add(home, head, true);
    vli_spin_unlock_irq(&home->lock, VLI_RANK_SLAB_NODE, flags);
    vli_sheaf_resize(node);
    return true;
}

/* ------------------------------------------------------------------------------- and its way back
 */

void vli_slab_leave(struct vl_cache *cache, struct vli_slab_home *home, struct vl_frame *head,
                    struct vli_slabs_out *out)
{
    home->units -= vli_slab_free(head);
    home->units_free -= vli_slab_free(head);
    atomic_fetch_sub_explicit(&cache->node[0].units, vli_slab_free(head), memory_order_relaxed);
    vli_sheaf_resize(&cache->node[0]);
    head->next = out->first;
    out->first = vli_frame_pfn(head).n;
}

/* Nobody has the slab but the caller. Once it is not counted, the cache may end. Returns: frames.
 */
static size_t release(struct vl_cache *cache, struct vl_frame *head)
{
    struct vli_slab_node *node = &cache->node[0];
    struct vli_slab slab = vli_slab_of(cache, head);
    size_t frames = slab.bytes / VL_PAGE_SIZE;
    uint32_t order = frames == (size_t)1 << cache->order ? cache->order : cache->order_min;

    VL_ASSERT(vli_slab_free(head) == slab.shape->units);
    atomic_fetch_sub_explicit(&node->frames, frames, memory_order_relaxed);
    /* Release: pairs with the acquire in vl_cache_destroy(). */
    atomic_fetch_sub_explicit(&node->slabs, 1, memory_order_release);
    for (size_t i = 0; i < frames; i++) { /* what is not for frame to clear */
        vli_slab_set_free(&head[i], 0);
        atomic_store_explicit(&head[i].refs, 1, memory_order_relaxed); /* it may have gone back */
    }
    vli_slab_map_set(head, order, 0);
    vli_frame_put(head, order);
    return frames;
}

size_t vli_slabs_release(struct vl_cache *cache, struct vli_slabs_out *out)
{
    size_t frames = 0;

    while (out->first != VLI_FRAME_LINK_NONE) {
        struct vl_frame *head = vli_frame_of((struct vl_pfn){out->first});

        out->first = head->next;
        frames += release(cache, head);
    }
    return frames;
}

/* Of one home. They are the last ones of its list. */
static size_t release_empty(struct vl_cache *cache, struct vli_slab_home *home)
{
    struct vli_slabs_out out = {VLI_FRAME_LINK_NONE};
    unsigned long flags = vli_spin_lock_irq(&home->lock, VLI_RANK_SLAB_NODE);

    while (home->empty_count > 0) {
        struct vl_frame *head = vli_frame_of((struct vl_pfn){home->partial_last});

        vli_partial_remove(home, head);
        home->empty_count--;
        vli_slab_leave(cache, home, head, &out);
    }
    vli_spin_unlock_irq(&home->lock, VLI_RANK_SLAB_NODE, flags);
    return vli_slabs_release(cache, &out);
}

size_t vli_slab_release_empty(struct vl_cache *cache)
{
    size_t frames = 0;

    for (uint32_t i = 0; i <= vli_homes_mask; i++) {
        frames += release_empty(cache, vli_home_at(cache, i));
    }
    return frames;
}

/* ------------------------------------------------------------------------------- figures */

/* Of an order: bits in the descriptors if they have room for one for each unit. */
static struct vli_slab_shape shape_of(uint32_t unit_bytes, uint32_t order)
{
    uint32_t bytes = (uint32_t)VL_PAGE_SIZE << order;
    uint32_t words = 1u + VLI_BITS_EACH * ((1u << order) - 1u);
    uint32_t units = bytes / unit_bytes;

    if (units <= words * 64u) {
        return (struct vli_slab_shape){units, 0};
    }
    /* Each unit and its bit, but for the last word's unused bits. */
    units = (uint32_t)((uint64_t)bytes * 8u / (unit_bytes * 8u + 1u));
    while (units * unit_bytes + (units + 63u) / 64u * 8u > bytes) {
        units--;
    }
    return (struct vli_slab_shape){units, bytes - (units + 63u) / 64u * 8u};
}

void vli_slabs_layout(struct vl_cache *cache)
{
    struct vli_slab_node *node = &cache->node[0];
    uint32_t each = VL_HOST_SLABS_KEPT / (vli_homes_mask + 1u);

    if (node->home == NULL) { /* for ever: who shrinks all caches reads it at any time */
        node->home = &vli_slab_homes[0][cache->index];
    }
    atomic_store_explicit(&node->homes, 0, memory_order_relaxed);
    node->empty_max = each == 0 ? 1 : each;
    node->reciprocal = ((uint64_t)1 << 32) / cache->unit_bytes + 1u;
    node->shape[0] = shape_of(cache->unit_bytes, cache->order);
    node->shape[1] = shape_of(cache->unit_bytes, cache->order_min);
    atomic_store_explicit(&node->slabs, 0, memory_order_relaxed);
    atomic_store_explicit(&node->units, 0, memory_order_relaxed);
    atomic_store_explicit(&node->frames, 0, memory_order_relaxed);
}

uint32_t vli_slab_units(struct vl_frame *head)
{
    return vli_slab_of(vli_slab_cache(head), head).shape->units;
}

uint32_t vli_slab_units_in(uint32_t unit_bytes, uint32_t order)
{
    return shape_of(unit_bytes, order).units;
}

uint32_t vli_slab_units_each(const struct vl_cache *cache)
{
    return cache->node[0].shape[0].units;
}
