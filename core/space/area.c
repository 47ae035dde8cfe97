/*
 * area.c - areas in their tree.
 *
 * Ordered by address; each node knows the largest gap of its subtree. The gap of an area is the
 * free range just below it that a search may hand out: from the end of the area before (or
 * VL_USER_MIN) to its start, less the guard of a stack. The range above the last area belongs to no
 * node and is looked at first. A list threads the areas in the same order.
 */
#include "core/space/area.h"

struct vli_area *vli_area_alloc(vl_how_t how)
{
    return vl_cache_alloc(vli_area_cache, how);
}

void vli_area_free(struct vli_area *area)
{
    if (area != NULL) {
        vl_cache_free(vli_area_cache, area);
    }
}

void vli_area_set(struct vli_area *area, struct vl_space *space, vl_va start, vl_va end,
                  uint64_t first_index, uint32_t attributes, struct vl_object *object)
{
    VL_ASSERT(start < end);
    area->rmap.start = start;
    area->rmap.end = end;
    area->rmap.first_index = first_index;
    area->attributes = attributes;
    area->object = object;
    vli_rmap_area_init(&area->rmap, &space->rmap);
}

void vli_area_free_dead(struct vli_list *dead)
{
    struct vli_list *node;
    struct vli_list *tmp;
    struct vli_area *area;

    vli_list_each_safe (node, tmp, dead) {
        area = vli_list_entry(node, struct vli_area, link);
        if (area->object != NULL) {
            vl_object_put(area->object);
        }
        vli_area_free(area);
    }
    vli_list_init(dead);
}

/* ------------------------------------------------------------------------------- finding */

struct vli_area *vli_area_find(struct vl_space *space, vl_va va)
{
    struct vli_tree_node *node = space->areas.root;
    struct vli_area *best = NULL;

    while (node != NULL) {
        if (vli_area_of(node)->rmap.end > va) {
            best = vli_area_of(node);
            if (best->rmap.start <= va) {
                break;
            }
            node = node->left;
        } else {
            node = node->right;
        }
    }
    return best;
}

bool vli_area_overlaps(struct vl_space *space, vl_va start, vl_va end)
{
    struct vli_area *area = vli_area_find(space, start);

    return area != NULL && area->rmap.start < end;
}

static uint64_t gap_max_of(const struct vli_tree_node *node)
{
    return node != NULL ? vli_area_of(node)->gap_max : 0;
}

static bool summarize(struct vli_tree_node *node)
{
    struct vli_area *area = vli_area_of(node);
    uint64_t max = area->gap;
    bool changed;

    max = gap_max_of(node->left) > max ? gap_max_of(node->left) : max;
    max = gap_max_of(node->right) > max ? gap_max_of(node->right) : max;
    changed = area->gap_max != max;
    area->gap_max = max;
    return changed;
}

/* Where the free range below @area begins, and where a search must end in it. */
static vl_va gap_start(struct vl_space *space, const struct vli_area *area)
{
    struct vli_area *prev = vli_area_prev(space, area);

    return prev != NULL && prev->rmap.end > VL_USER_MIN ? prev->rmap.end : VL_USER_MIN;
}

static vl_va gap_end(const struct vli_area *area)
{
    if (!vli_area_grows(area)) {
        return area->rmap.start;
    }
    return area->rmap.start > VLI_STACK_GUARD ? area->rmap.start - VLI_STACK_GUARD : 0;
}

static uint64_t gap_of(struct vl_space *space, const struct vli_area *area)
{
    vl_va start = gap_start(space, area);
    vl_va end = gap_end(area);

    return end > start ? end - start : 0;
}

/* @area or the one below it changed: its gap, and the summaries above. */
static void gap_update(struct vl_space *space, struct vli_area *area)
{
    if (area != NULL && area->gap != gap_of(space, area)) {
        area->gap = gap_of(space, area);
        vli_tree_update(&area->node, summarize);
    }
}

/* The rightmost area of @node's subtree, which has one, whose gap holds @len. */
static struct vli_area *rightmost_gap(struct vli_tree_node *node, size_t len)
{
    for (;;) {
        if (gap_max_of(node->right) >= len) {
            node = node->right;
        } else if (vli_area_of(node)->gap >= len) {
            return vli_area_of(node);
        } else {
            node = node->left;
        }
    }
}

/* The next area below @area whose gap holds @len, or NULL. */
static struct vli_area *prev_gap(struct vli_area *area, size_t len)
{
    struct vli_tree_node *node = &area->node;
    struct vli_tree_node *below;

    for (;;) {
        if (gap_max_of(node->left) >= len) {
            return rightmost_gap(node->left, len);
        }
        do {
            below = node;
            node = vli_tree_parent(node);
            if (node == NULL) {
                return NULL;
            }
        } while (node->left == below);
        if (vli_area_of(node)->gap >= len) {
            return vli_area_of(node);
        }
    }
}

/* The highest place for @len in [@from, @to) and not below @floor, if it fits. */
static bool place_in(vl_va from, vl_va to, vl_va floor, size_t len, vl_va *out)
{
    from = from > floor ? from : floor;
    if (to < from || to - from < len) {
        return false;
    }
    *out = to - len;
    return true;
}

enum vl_status vli_area_find_free(struct vl_space *space, size_t len, vl_va floor, vl_va ceiling,
                                  vl_va *out)
{
    /* The gap that the ceiling cuts: below the first area that ends above it, or the one on top. */
    struct vli_area *area = vli_area_find(space, ceiling);
    vl_va from;

    if (area == NULL) {
        from = vli_list_is_empty(&space->list)
                   ? VL_USER_MIN
                   : vli_list_last(&space->list, struct vli_area, link)->rmap.end;
        if (place_in(from, ceiling, floor, len, out)) {
            return VL_OK;
        }
        area = gap_max_of(space->areas.root) >= len ? rightmost_gap(space->areas.root, len) : NULL;
    } else {
        from = gap_end(area) < ceiling ? gap_end(area) : ceiling;
        if (place_in(gap_start(space, area), from, floor, len, out)) {
            return VL_OK;
        }
        area = prev_gap(area, len);
    }
    for (; area != NULL && area->rmap.start > floor; area = prev_gap(area, len)) {
        if (place_in(gap_start(space, area), gap_end(area), floor, len, out)) {
            return VL_OK;
        }
    }
    return VL_ENOMEM;
}

/* -------------------------------------------------------------------------------- changes */

static void count_in(struct vl_space *space, const struct vli_area *area)
{
    space->area_count++;
    space->mapped += vli_area_pages(area);
    if (vli_attributes_are_data(area->attributes)) {
        space->data += vli_area_pages(area);
    }
    if (space->mapped > space->mapped_peak) {
        space->mapped_peak = space->mapped;
    }
}

static void count_out(struct vl_space *space, const struct vli_area *area)
{
    space->area_count--;
    space->mapped -= vli_area_pages(area);
    if (vli_attributes_are_data(area->attributes)) {
        space->data -= vli_area_pages(area);
    }
}

void vli_area_insert(struct vl_space *space, struct vli_area *area)
{
    struct vli_tree_node **link = &space->areas.root;
    struct vli_tree_node *parent = NULL;
    struct vli_list *after = &space->list;

    while (*link != NULL) {
        parent = *link;
        if (area->rmap.start < vli_area_of(parent)->rmap.start) {
            link = &parent->left;
        } else {
            after = &vli_area_of(parent)->link;
            link = &parent->right;
        }
    }
    vli_list_insert_after(after, &area->link);
    area->gap = gap_of(space, area);
    area->gap_max = area->gap;
    vli_tree_insert(&space->areas, &area->node, parent, link, summarize);
    count_in(space, area);
    gap_update(space, vli_area_next(space, area));
}

void vli_area_mirror(struct vl_space *child, struct vli_area *area, struct vli_area *parent)
{
    vli_list_insert_before(&child->list, &area->link);
    parent->mirror = area;
    area->mirror = parent;
    count_in(child, area);
}

/* The mirror of the area that a node of the parent's tree is. */
static struct vli_tree_node *mirror_of(const struct vli_tree_node *node)
{
    return node != NULL ? &vli_area_of(node)->mirror->node : NULL;
}

void vli_area_mirror_end(struct vl_space *child, struct vl_space *parent)
{
    struct vli_list *link;
    struct vli_area *area;

    child->areas.root = mirror_of(parent->areas.root);
    vli_list_each (link, &child->list) {
        area = vli_list_entry(link, struct vli_area, link);
        vli_tree_mirror(&area->node, &area->mirror->node, mirror_of(area->mirror->node.left),
                        mirror_of(area->mirror->node.right),
                        mirror_of(vli_tree_parent(&area->mirror->node)));
        area->gap = area->mirror->gap;
        area->gap_max = area->mirror->gap_max;
    }
}

/* No fault may meet it by the short way any more. */
static void hit_forget(struct vl_space *space, struct vli_area *area)
{
    if (atomic_load_explicit(&space->hit, memory_order_relaxed) == area) {
        atomic_store_explicit(&space->hit, NULL, memory_order_relaxed);
    }
}

void vli_area_remove(struct vl_space *space, struct vli_area *area)
{
    struct vli_area *next = vli_area_next(space, area);

    hit_forget(space, area);
    vli_tree_remove(&space->areas, &area->node, summarize);
    vli_list_remove(&area->link);
    count_out(space, area);
    gap_update(space, next);
}

void vli_area_resize(struct vl_space *space, struct vli_area *area, vl_va start, vl_va end)
{
    uint64_t index = area->rmap.first_index;

    index += start > area->rmap.start ? (start - area->rmap.start) >> VL_PAGE_SHIFT : 0;
    index -= start < area->rmap.start ? (area->rmap.start - start) >> VL_PAGE_SHIFT : 0;
    count_out(space, area);
    vli_rmap_area_resize(&area->rmap, start, end, index);
    count_in(space, area);
    gap_update(space, area);
    gap_update(space, vli_area_next(space, area));
}

void vli_area_set_attributes(struct vl_space *space, struct vli_area *area, uint32_t attributes)
{
    count_out(space, area);
    area->attributes = attributes;
    count_in(space, area);
    gap_update(space, area);
}

enum vl_status vli_area_split(struct vl_space *space, struct vli_area *area, vl_va at,
                              struct vli_area *fresh)
{
    enum vl_status status;

    VL_ASSERT(at > area->rmap.start && at < area->rmap.end);
    vli_area_set(fresh, space, at, area->rmap.end, vli_area_index(area, at), area->attributes,
                 area->object);
    count_out(space, area);
    status = vli_rmap_area_split(&fresh->rmap, &area->rmap, VL_ATOMIC);
    count_in(space, area);
    if (status != VL_OK) {
        return status;
    }
    if (fresh->object != NULL) {
        vl_object_get(fresh->object);
    }
    vli_area_insert(space, fresh);
    return VL_OK;
}

static bool can_merge(const struct vli_area *a, const struct vli_area *b)
{
    return a->rmap.end == b->rmap.start && a->attributes == b->attributes &&
           a->object == b->object &&
           a->rmap.first_index + vli_area_pages(a) == b->rmap.first_index &&
           vli_rmap_area_can_merge(&a->rmap, &b->rmap);
}

bool vli_area_merge_next(struct vl_space *space, struct vli_area *area, struct vli_list *dead)
{
    struct vli_area *next = vli_area_next(space, area);

    if (next == NULL || !can_merge(area, next)) {
        return false;
    }
    vli_area_remove(space, next);
    count_out(space, area);
    vli_rmap_area_merge(&area->rmap, &next->rmap);
    count_in(space, area);
    gap_update(space, vli_area_next(space, area));
    vli_list_insert_before(dead, &next->link);
    return true;
}

void vli_area_merge_range(struct vl_space *space, vl_va start, vl_va end, struct vli_list *dead)
{
    struct vli_area *area = vli_area_find(space, start > 0 ? start - 1 : 0);

    while (area != NULL && area->rmap.end <= end) {
        if (!vli_area_merge_next(space, area, dead)) {
            area = vli_area_next(space, area);
        }
    }
}
