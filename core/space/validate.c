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

/* Frames whose entries are counted in one look at all spaces; by frame number, as far as no two
 * meet. Quiescent, so one for all. */
#define TALLY 16384u
static struct {
    uint32_t pfn[TALLY]; /* 0: none; frame 0 is never mapped */
    uint32_t count[TALLY];
    uint32_t used;
} tally;

/* Counts the entries of one space: all leaf pages are searched, whatever the areas say. */
static void tally_space(struct vl_space *space)
{
    struct vli_table_slot slot;
    vl_va va = 0;
    vl_va stop;

    while (vli_table_next(&space->table, &va, VLI_TABLE_USER_END, &slot)) {
        stop = vli_table_leaf_end(va, VLI_TABLE_USER_END);
        for (; va < stop; va += VL_PAGE_SIZE, slot.entry++) {
            uint64_t entry = vli_entry_load(&slot);
            uint32_t pfn = vli_pte_pfn(entry).n;

            tally.count[pfn % TALLY] += vli_pte_has_frame(entry) && tally.pfn[pfn % TALLY] == pfn;
        }
        vli_table_unlock(&slot);
    }
}

/* The mappings of each frame noted are exactly the entries of all spaces that hold it. */
static void check_noted(void)
{
    struct vli_list *node;

    if (tally.used == 0) {
        return;
    }
    vli_list_each (node, &all_spaces) {
        tally_space(vli_list_entry(node, struct vl_space, all));
    }
    for (uint32_t i = 0; i < TALLY; i++) {
        VL_ASSERT(tally.pfn[i] == 0 ||
                  tally.count[i] ==
                      atomic_load_explicit(&vli_frame_of((struct vl_pfn){tally.pfn[i]})->mappings,
                                           memory_order_relaxed));
        tally.pfn[i] = 0;
        tally.count[i] = 0;
    }
    tally.used = 0;
}

static void note_frame(struct vl_frame *frame)
{
    uint32_t pfn = vli_frame_pfn(frame).n;

    if (tally.pfn[pfn % TALLY] == pfn) {
        return;
    }
    if (tally.pfn[pfn % TALLY] != 0) {
        check_noted();
    }
    tally.pfn[pfn % TALLY] = pfn;
    tally.used++;
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

static void note_frame(struct vl_frame *frame)
{
    (void)frame;
}

static void check_noted(void)
{
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
    vli_rmap_validate(frame, object, &area->rmap, va);
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

/* Each frame of the space is looked for in all spaces. */
static void check_mappings(struct vl_space *space)
{
    struct vli_table_slot slot;
    vl_va va = 0;
    vl_va stop;

    while (vli_table_next(&space->table, &va, VLI_TABLE_USER_END, &slot)) {
        vli_table_unlock(&slot);
        stop = vli_table_leaf_end(va, VLI_TABLE_USER_END);
        for (; va < stop; va += VL_PAGE_SIZE, slot.entry++) {
            uint64_t entry = vli_entry_load(&slot);

            if (entry != 0 &&
                !vli_frame_is_marked(vli_frame_of(vli_pte_pfn(entry)), VLI_FRAME_PINNED)) {
                note_frame(vli_frame_of(vli_pte_pfn(entry)));
            }
        }
    }
    check_noted();
}

void vl_space_validate(struct vl_space *space)
{
    struct counted counted = {0, 0};

    check_areas(space);
    check_entries(space, &counted);
    check_mappings(space);
    VL_ASSERT(counted.anon == atomic_load_explicit(&space->table.anon_pages, memory_order_relaxed));
    VL_ASSERT(counted.file == atomic_load_explicit(&space->table.file_pages, memory_order_relaxed));
    vli_table_validate(&space->table);
}
