/*
 * walk.c - from a frame, or a range of an object, to the entries that map it; and the checks.
 *
 * An area found by rmap's lock is linked, so its table pages stay while the lock is held (rmap.h).
 */
#include "core/rmap/anon_vma/anon_vma.h"
#include "core/slab/slab.h"

static struct vli_rmap_area *area_of_chain(struct vli_interval *it)
{
    return vli_container_of(it, struct vli_anon_chain, same_anon)->area;
}

static struct vli_rmap_area *area_of_object(struct vli_interval *it)
{
    return vli_container_of(it, struct vli_rmap_area, in_object);
}

/* Visit the entry of @area for page @index if it holds @frame. Returns false to end the walk. */
static bool visit_area(struct vl_frame *frame, struct vli_rmap_area *area, uint64_t index,
                       vli_rmap_visit_fn *visit, void *ctx)
{
    vl_va va = area->start + (vl_va)((index - area->first_index) << VL_PAGE_SHIFT);
    struct vli_table_slot slot;
    uint64_t entry;
    bool go_on = true;

    if (!vli_table_lock(area->space->table, va, &slot)) {
        return true;
    }
    entry = vli_entry_load(&slot);
    if (vli_pte_has_frame(entry) && vli_pte_pfn(entry).n == vli_frame_pfn(frame).n) {
        go_on = visit(ctx, frame, area, va, &slot);
    }
    vli_table_unlock(&slot);
    return go_on;
}

static void walk_anon(struct vl_frame *frame, vli_rmap_visit_fn *visit, void *ctx)
{
    struct vli_anon_vma *anon = vli_anon_of_frame(frame);
    uint64_t index = vli_frame_index(frame);
    struct vli_interval *it;

    if (anon == NULL) {
        return;
    }
    vli_rw_read_lock(&anon->root->lock);
    for (it = vli_interval_first(&anon->chains, index, index); it != NULL;
         it = vli_interval_next(it, index, index)) {
        if (!visit_area(frame, area_of_chain(it), index, visit, ctx)) {
            break;
        }
    }
    vli_rw_read_unlock(&anon->root->lock);
    vli_anon_put(anon);
}

void vli_rmap_walk(struct vl_frame *frame, struct vli_rmap_object *object, vli_rmap_visit_fn *visit,
                   void *ctx)
{
    uint64_t index = vli_frame_index(frame);
    struct vli_interval *it;

    if (object == NULL) {
        walk_anon(frame, visit, ctx);
        return;
    }
    vli_rw_read_lock(&object->lock);
    for (it = vli_interval_first(&object->areas, index, index); it != NULL;
         it = vli_interval_next(it, index, index)) {
        if (!visit_area(frame, area_of_object(it), index, visit, ctx)) {
            break;
        }
    }
    vli_rw_read_unlock(&object->lock);
}

void vli_rmap_walk_range(struct vli_rmap_object *object, uint64_t first, uint64_t end,
                         vli_rmap_range_fn *visit, void *ctx)
{
    struct vli_interval *it;
    struct vli_rmap_area *area;
    uint64_t from;
    uint64_t to;

    if (first >= end) {
        return;
    }
    vli_rw_read_lock(&object->lock);
    for (it = vli_interval_first(&object->areas, first, end - 1); it != NULL;
         it = vli_interval_next(it, first, end - 1)) {
        area = area_of_object(it);
        from = it->first > first ? it->first : first;
        to = it->last + 1 < end ? it->last + 1 : end;
        visit(ctx, area, area->start + (vl_va)((from - it->first) << VL_PAGE_SHIFT),
              area->start + (vl_va)((to - it->first) << VL_PAGE_SHIFT));
    }
    vli_rw_read_unlock(&object->lock);
}

/* ----------------------------------------------------------------------------- validation */

void vli_rmap_area_validate(struct vli_rmap_area *area)
{
    struct vli_anon_vma *anon = atomic_load_explicit(&area->anon, memory_order_acquire);
    struct vli_list *node;
    struct vli_anon_chain *chain;
    bool has_own = anon == NULL;

    vli_list_each (node, &area->chains) {
        chain = vli_chain_of(node);
        VL_ASSERT(chain->area == area);
        VL_ASSERT(chain->anon->root == vli_chain_of(area->chains.next)->anon->root);
        VL_ASSERT(chain->anon->chain_count != 0);
        VL_ASSERT(chain->same_anon.first == area->first_index);
        VL_ASSERT(chain->same_anon.last == vli_last_index(area));
        VL_ASSERT(vli_interval_validate(&chain->anon->chains) == chain->anon->chain_count);
        has_own = has_own || chain->anon == anon;
    }
    VL_ASSERT(has_own);
    if (area->object != NULL) {
        VL_ASSERT(area->in_object.first == area->first_index);
        VL_ASSERT(area->in_object.last == vli_last_index(area));
        vli_interval_validate(&area->object->areas);
    }
}

struct entry_search {
    const struct vli_rmap_area *area;
    vl_va va;
    uint32_t met;
    bool is_found;
};

static bool note_entry(void *ctx, struct vl_frame *frame, struct vli_rmap_area *area, vl_va va,
                       struct vli_table_slot *slot)
{
    struct entry_search *search = ctx;

    (void)frame;
    (void)slot;
    search->met++;
    search->is_found = search->is_found || (area == search->area && va == search->va);
    return true;
}

void vli_rmap_validate(struct vl_frame *frame, struct vli_rmap_object *object,
                       const struct vli_rmap_area *area, vl_va va)
{
    struct entry_search search = {.area = area, .va = va};

    vli_rmap_walk(frame, object, note_entry, &search);
    VL_ASSERT(search.is_found);
    VL_ASSERT(search.met == atomic_load_explicit(&frame->mappings, memory_order_relaxed));
}

void vli_rmap_memory(struct vli_rmap_memory *out)
{
    struct vli_slab_info info;

    *out = (struct vli_rmap_memory){0, 0, 0};
    for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
        if (&vli_caches[i] != vli_anon_cache && &vli_caches[i] != vli_chain_cache) {
            continue;
        }
        if (vli_slab_info(i, &info)) {
            out->area_bytes += info.units_active * info.object_bytes;
        }
    }
}
