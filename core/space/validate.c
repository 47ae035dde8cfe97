/*
 * validate.c - does everything that a space keeps agree with its page tables?
 *
 * Walks the areas (order, gaps, counts, links of the reverse map) and every entry of every leaf
 * table page: it must lie in an area, hold a frame of the right kind with rights that the area
 * gives, and be met by a walk from its frame. Builds with VL_DEBUG or VL_EVENTS keep a list of all
 * spaces and count, for each frame met, the entries that hold it in all spaces: the number must
 * equal the frame's mappings and the number that the walk meets.
 */
#include "core/space/area.h"

#if defined(VL_DEBUG) || defined(VL_EVENTS)
static struct vli_spinlock all_lock = VLI_SPINLOCK_INIT;
static struct vli_list all_spaces = VLI_LIST_INIT(all_spaces);

void vli_space_register(struct vl_space *space)
{
    vli_spin_lock(&all_lock, VLI_RANK_COUNT_TREE);
    vli_list_insert_before(&all_spaces, &space->all);
    vli_spin_unlock(&all_lock, VLI_RANK_COUNT_TREE);
}

void vli_space_forget(struct vl_space *space)
{
    vli_spin_lock(&all_lock, VLI_RANK_COUNT_TREE);
    vli_list_remove(&space->all);
    vli_spin_unlock(&all_lock, VLI_RANK_COUNT_TREE);
}

/* Adds the entries of a space, whatever its areas say, to the counts of the frames that they hold.
 */
static void count_entries(struct vl_space *space, uint32_t *counts)
{
    struct vli_table_slot slot;
    vl_va va = 0;
    vl_va stop;

    while (vli_table_next(&space->table, &va, VLI_TABLE_USER_END, &slot)) {
        stop = vli_table_leaf_end(va, VLI_TABLE_USER_END);
        while ((va = vli_entry_skip_empty(&slot, va, stop)) < stop) {
            counts[vli_pte_pfn(vli_entry_load(&slot)).n - vli_frames_first]++;
            va += VL_PAGE_SIZE;
            slot.entry++;
        }
        vli_table_unlock(&slot);
    }
}

/* A counter for each frame, zeroed; NULL when there is no memory for so many: then the check is
 * left out. */
static uint32_t *counts_new(void)
{
    size_t frames = vli_frames_end - vli_frames_first;
    uint32_t *counts = vl_kmalloc(frames * sizeof(*counts), VL_ATOMIC | VL_MAY_FAIL);

    for (size_t i = 0; counts != NULL && i < frames; i++) {
        counts[i] = 0;
    }
    return counts;
}

/* A frame's mappings are exactly the entries of all spaces that hold it, for all that @space maps.
 */
static void check_all_spaces(struct vl_space *space)
{
    uint32_t *counts = counts_new();
    struct vli_table_slot slot;
    struct vli_list *node;
    struct vl_frame *frame;
    vl_va va = 0;
    vl_va stop;

    if (counts == NULL) {
        return;
    }
    vli_list_each (node, &all_spaces) {
        count_entries(vli_list_entry(node, struct vl_space, all), counts);
    }
    while (vli_table_next(&space->table, &va, VLI_TABLE_USER_END, &slot)) {
        stop = vli_table_leaf_end(va, VLI_TABLE_USER_END);
        while ((va = vli_entry_skip_empty(&slot, va, stop)) < stop) {
            frame = vli_frame_of(vli_pte_pfn(vli_entry_load(&slot)));
            VL_ASSERT(vli_frame_is_marked(frame, VLI_FRAME_PINNED) ||
                      counts[vli_frame_pfn(frame).n - vli_frames_first] ==
                          atomic_load_explicit(&frame->mappings, memory_order_relaxed));
            va += VL_PAGE_SIZE;
            slot.entry++;
        }
        vli_table_unlock(&slot);
    }
    vl_kfree(counts);
}
#else
void vli_space_register(struct vl_space *space)
{
    vli_list_init(&space->all);
}

void vli_space_forget(struct vl_space *space)
{
    vli_list_remove(&space->all);
}

static void check_all_spaces(struct vl_space *space)
{
    (void)space;
}
#endif

/* Resident pages counted on the way. */
struct counted {
    uint64_t anon;
    uint64_t file;
};

static void check_frame(const struct vli_area *area, vl_va va, struct vl_frame *frame,
                        struct counted *counted)
{
    struct vli_rmap_object *object = NULL;

    if (vli_frame_is_marked(frame, VLI_FRAME_PINNED)) {
        VL_ASSERT(vli_frame_pfn(frame).n == vli_zero_pfn.n);
        return;
    }
    VL_ASSERT(vli_frame_index(frame) == vli_area_index(area, va));
    if (vli_frame_type(frame) == VLI_FRAME_ANON) {
        VL_ASSERT(!vli_area_is_shared(area));
        counted->anon++;
    } else {
        VL_ASSERT(vli_frame_type(frame) == VLI_FRAME_FILE);
        VL_ASSERT(area->object != NULL && vli_object_of(frame) == area->object);
        object = &area->object->rmap;
        counted->file++;
    }
    VL_ASSERT(atomic_load_explicit(&frame->refs, memory_order_relaxed) >=
              atomic_load_explicit(&frame->mappings, memory_order_relaxed));
    vli_rmap_validate_entry(frame, object, &area->rmap, va);
}

static void check_entry(const struct vli_area *area, vl_va va, uint64_t entry,
                        struct counted *counted)
{
    struct vl_frame *frame = vli_frame_of(vli_pte_pfn(entry));
    uint32_t prot = area->attributes & VLI_AREA_PROT;

    VL_ASSERT(vli_pte_has_frame(entry));
    VL_ASSERT(vli_pte_is_present(entry) == (prot != 0));
    if (vli_pte_can_write(entry)) {
        VL_ASSERT((prot & VL_WRITE) != 0);
        /* A private page that can be written is nobody else's. */
        VL_ASSERT(vli_area_is_shared(area) ||
                  atomic_load_explicit(&frame->mappings, memory_order_relaxed) == 1);
    }
    VL_ASSERT(prot == 0 || vli_pte_can_exec(entry) == ((prot & VL_EXEC) != 0));
    check_frame(area, va, frame, counted);
}

/* Every entry lies in an area. Leaf pages are looked at without their locks: nobody else is here,
 * and the walks take the locks themselves. */
static void check_entries(struct vl_space *space, struct counted *counted)
{
    struct vli_table_slot slot;
    struct vli_area *area;
    vl_va va = 0;
    vl_va stop;
    uint64_t entry;

    while (vli_table_next(&space->table, &va, VLI_TABLE_USER_END, &slot)) {
        vli_table_unlock(&slot);
        stop = vli_table_leaf_end(va, VLI_TABLE_USER_END);
        for (; va < stop; va += VL_PAGE_SIZE, slot.entry++) {
            entry = vli_entry_load(&slot);
            if (entry == 0) {
                continue;
            }
            area = vli_area_find(space, va);
            VL_ASSERT(area != NULL && area->rmap.start <= va);
            check_entry(area, va, entry, counted);
        }
    }
}

/* Order, gaps and sums of the areas. */
static void check_areas(struct vl_space *space)
{
    struct vli_list *node;
    struct vli_area *area;
    struct vli_area *prev = NULL;
    uint64_t mapped = 0;
    uint64_t data = 0;
    uint64_t count = 0;
    uint64_t max;

    vli_list_each (node, &space->list) {
        area = vli_list_entry(node, struct vli_area, link);
        VL_ASSERT(area->rmap.start < area->rmap.end && area->rmap.end <= VL_USER_END);
        VL_ASSERT(prev == NULL || prev->rmap.end <= area->rmap.start);
        VL_ASSERT(area == vli_area_find(space, area->rmap.start));
        VL_ASSERT(area->object == NULL || area->rmap.object == &area->object->rmap);
        max = area->gap;
        max = area->node.left != NULL && vli_area_of(area->node.left)->gap_max > max
                  ? vli_area_of(area->node.left)->gap_max
                  : max;
        max = area->node.right != NULL && vli_area_of(area->node.right)->gap_max > max
                  ? vli_area_of(area->node.right)->gap_max
                  : max;
        VL_ASSERT(area->gap_max == max);
        VL_ASSERT(area->gap <= area->rmap.start - (prev != NULL ? prev->rmap.end : 0));
        vli_rmap_area_validate(&area->rmap);
        mapped += vli_area_pages(area);
        data += vli_attributes_are_data(area->attributes) ? vli_area_pages(area) : 0;
        count++;
        prev = area;
    }
    VL_ASSERT(count == space->area_count && count == vli_tree_validate(&space->areas));
    VL_ASSERT(mapped == space->mapped && data == space->data);
}

void vl_space_validate(struct vl_space *space)
{
    struct counted counted = {0, 0};

    check_areas(space);
    check_entries(space, &counted);
    check_all_spaces(space);
    VL_ASSERT(counted.anon == atomic_load_explicit(&space->table.anon_pages, memory_order_relaxed));
    VL_ASSERT(counted.file == atomic_load_explicit(&space->table.file_pages, memory_order_relaxed));
    vli_table_validate(&space->table);
}
