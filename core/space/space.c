/*
 * space.c - life of a space: made, shared by references, made active, ended.
 *
 * Memory under locks. Whoever holds the space's lock asks with VL_ATOMIC. When that fails the
 * operation leaves all locks, with everything as it was, calls vli_refill() and starts again
 * from the beginning: reclaim and the out-of-memory policy never run under a core lock.
 *
 * The end of a space: nobody else has a reference, so nothing faults or maps. Entries are emptied
 * in the gather's `whole` mode, without flushes: vli_gather_begin() made every CPU leave the table.
 * Areas are taken off the reverse map before their table pages go, since walks that come from a
 * frame do not take the space's lock.
 */
#include "core/space/area.h"
#include "core/space/space.h"

struct vl_cache *vli_area_cache;
struct vl_pfn vli_zero_pfn;
static struct vl_cache *space_cache;

enum vl_status vli_space_init(void)
{
    /* What a fault writes shares the first cache line. */
    const struct vl_cache_spec spaces = {
        .name = "space", .size = sizeof(struct vl_space), .align = VLI_CACHELINE};
    const struct vl_cache_spec areas = {.name = "area", .size = sizeof(struct vli_area)};
    struct vl_frame *zero;
    enum vl_status status;

    status = vl_cache_create(&spaces, &space_cache);
    if (status == VL_OK) {
        status = vl_cache_create(&areas, &vli_area_cache);
    }
    if (status != VL_OK) {
        return status;
    }
    zero = vli_frame_get(0, VL_ATOMIC | VL_ZEROED);
    if (zero == NULL) {
        return VL_ENOMEM;
    }
    vli_frame_mark(zero, VLI_FRAME_PINNED);
    vli_zero_pfn = vli_frame_pfn(zero);
    return VL_OK;
}

enum vl_status vli_space_new(struct vl_space **out)
{
    struct vl_space *space = vl_cache_alloc(space_cache, VL_WAIT);

    if (space == NULL) {
        return VL_ENOMEM;
    }
    *space = (struct vl_space){.area_count = 0};
    if (vli_table_init(&space->table, VL_WAIT) != VL_OK) {
        vl_cache_free(space_cache, space);
        return VL_ENOMEM;
    }
    vli_rw_init(&space->lock, VLI_RANK_SPACE);
    atomic_store_explicit(&space->leaf, VLI_LEAF_NONE, memory_order_relaxed);
    atomic_store_explicit(&space->refs, 1, memory_order_relaxed);
    vli_list_init(&space->list);
    vli_rmap_space_init(&space->rmap, &space->table);
    space->limits = (struct vl_space_limits){UINT64_MAX, UINT64_MAX, UINT64_MAX};
    space->limits.stack = 8u << 20;
    vli_space_register(space);
    *out = space;
    return VL_OK;
}

enum vl_status vl_space_create(struct vl_space **out)
{
    enum vl_status status = vli_space_new(out);

    for (unsigned i = 0; status == VL_ENOMEM && i < VLI_TRIES_MAX && vli_refill() == VL_OK; i++) {
        status = vli_space_new(out);
    }
    return status;
}

void vl_space_get(struct vl_space *space)
{
    VL_ASSERT(atomic_load_explicit(&space->refs, memory_order_relaxed) != 0);
    atomic_fetch_add_explicit(&space->refs, 1, memory_order_relaxed);
}

/* Every area in order, as spans of removed ranges. */
struct all_spans {
    struct vl_space *space;
    struct vli_area *next;
};

static bool next_span(void *ctx, struct vli_table_span *out)
{
    struct all_spans *spans = ctx;
    struct vli_area *area = spans->next;

    if (area == NULL) {
        return false;
    }
    spans->next = vli_area_next(spans->space, area);
    out->start = area->rmap.start;
    out->end = area->rmap.end;
    out->floor = 0;
    out->ceiling = spans->next != NULL ? spans->next->rmap.start : VL_USER_END;
    return true;
}

static void unmap_all(struct vl_space *space)
{
    struct all_spans spans = {space, vli_area_first(space)};
    struct vli_gather gather;
    struct vli_list *node;
    struct vli_area *area;

    vli_gather_begin(&gather, &space->table, true);
    vli_list_each (node, &space->list) {
        area = vli_list_entry(node, struct vli_area, link);
        vli_rmap_unmap_range(&gather, &area->rmap, area->rmap.start, area->rmap.end);
        vli_rmap_area_unlink(&area->rmap);
    }
    vli_table_free_spans(&gather, next_span, &spans);
    vli_gather_end(&gather);
}

void vl_space_put(struct vl_space *space)
{
    /* Release and acquire: what every user did comes before the end. */
    if (atomic_fetch_sub_explicit(&space->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    vli_space_forget(space);
    unmap_all(space);
    vli_area_free_dead(&space->list);
    VL_ASSERT(atomic_load_explicit(&space->table.anon_pages, memory_order_relaxed) == 0);
    VL_ASSERT(atomic_load_explicit(&space->table.file_pages, memory_order_relaxed) == 0);
    vli_rmap_space_exit(&space->rmap);
    vli_table_destroy(&space->table);
    vl_cache_free(space_cache, space);
}

void vl_space_switch(struct vl_space *space)
{
    vli_table_activate(space != NULL ? &space->table : NULL);
}

void vl_space_tables_set_kernel(struct vl_pa root)
{
    vli_table_set_kernel(root);
}

void vli_space_free_tables(struct vl_space *space, struct vli_gather *gather,
                           vli_table_span_fn *next, void *ctx)
{
    atomic_store_explicit(&space->leaf, VLI_LEAF_NONE, memory_order_relaxed);
    vli_table_free_spans(gather, next, ctx);
}

void vli_space_note_peak(struct vl_space *space)
{
    uint64_t now = atomic_load_explicit(&space->table.anon_pages, memory_order_relaxed) +
                   atomic_load_explicit(&space->table.file_pages, memory_order_relaxed);

    /* Two who race may leave the smaller value: both were true a moment ago. */
    if (now > atomic_load_explicit(&space->resident_peak, memory_order_relaxed)) {
        atomic_store_explicit(&space->resident_peak, now, memory_order_relaxed);
    }
}
