/*
 * fork.c - a copy of a space.
 *
 * Every area is copied; of the entries only anonymous pages are, since what belongs to an object is
 * found again by a fault (and sixteen at a time), as is the zero page. Parent and child share each
 * frame read-only until one of them writes. An area without anonymous pages costs nothing but
 * itself.
 *
 * The parent's lock is held for writing. The child is known to nobody but the reverse map, whose
 * walks may come through its areas as soon as they are linked; hence both leaf pages' locks. A walk
 * that runs at the same time meets the parent's area before the child's (interval.h), so a page
 * that is copied behind its back was still met in the parent.
 *
 * When memory runs out the child is thrown away, and the whole fork tried again after reclaim. What
 * became read-only in the parent stays so; its next write finds the frame unshared.
 */
#include "core/space/area.h"

/* One run through the areas. */
struct forking {
    struct vl_space *parent;
    struct vl_space *child;
    struct vli_gather gather; /* of the parent: rights that went */
};

/* Copies the anonymous entries of [va, stop), all in one leaf page of each. Returns how many. */
static uint64_t copy_leaf(struct forking *fork, struct vli_area *child, struct vli_table_slot *src,
                          struct vli_table_slot *dst, vl_va va, vl_va stop)
{
    _Atomic uint64_t *first = src->entry;
    struct vli_table_slot to = *dst;
    struct vl_frame *frame;
    uint64_t copied = 0;
    uint64_t entry;

    for (; (va = vli_entry_skip_empty(src, va, stop)) < stop; va += VL_PAGE_SIZE, src->entry++) {
        entry = vli_entry_load(src);
        frame = vli_frame_of(vli_pte_pfn(entry));
        if (vli_frame_type(frame) != VLI_FRAME_ANON) {
            continue;
        }
        if (vli_pte_can_write(entry)) {
            entry = vli_entry_narrow(&fork->gather, src, va, VLI_PTE_WRITE, 0);
        }
        to.entry = dst->entry + (src->entry - first);
        vli_frame_ref_get(frame);
        vli_rmap_dup(frame, &child->rmap, va, &to);
        vli_entry_set(&to, va, entry & ~(VLI_PTE_WRITE | VLI_PTE_ACCESSED));
        copied++;
    }
    return copied;
}

static enum vl_status copy_entries(struct forking *fork, struct vli_area *parent,
                                   struct vli_area *child)
{
    struct vli_table_slot src;
    struct vli_table_slot dst;
    enum vl_status status;
    uint64_t copied;
    vl_va va = parent->rmap.start;
    vl_va end = parent->rmap.end;
    vl_va stop;

    for (;;) {
        if (vli_rmap_reserve(&fork->child->rmap, VLI_TABLE_ENTRIES, VL_ATOMIC) != VL_OK) {
            return VL_ENOMEM;
        }
        status =
            vli_table_next_pair(&fork->parent->table, &fork->child->table, &va, end, &src, &dst);
        if (status != VL_OK) {
            return status == VL_ENOENT ? VL_OK : status;
        }
        stop = vli_table_leaf_end(va, end);
        copied = copy_leaf(fork, child, &src, &dst, va, stop);
        atomic_fetch_add_explicit(&fork->child->table.anon_pages, copied, memory_order_relaxed);
        vli_table_unlock_pair(&src, &dst);
        va = stop;
    }
}

static enum vl_status copy_area(struct forking *fork, struct vli_area *parent)
{
    struct vli_area *child = vli_area_alloc(VL_ATOMIC);

    if (child == NULL) {
        return VL_ENOMEM;
    }
    vli_area_set(child, fork->child, parent->rmap.start, parent->rmap.end, parent->rmap.first_index,
                 parent->attributes, parent->object);
    if (vli_rmap_area_fork(&child->rmap, &parent->rmap, VL_ATOMIC) != VL_OK) {
        vli_area_free(child);
        return VL_ENOMEM;
    }
    if (child->object != NULL) {
        vl_object_get(child->object);
    }
    vli_area_mirror(fork->child, child, parent);
    return vli_rmap_area_has_anon(&parent->rmap) ? copy_entries(fork, parent, child) : VL_OK;
}

static enum vl_status copy_space(struct forking *fork)
{
    struct vl_space *parent = fork->parent;
    struct vl_space *child = fork->child;
    enum vl_status status;
    struct vli_list *node;

    child->brk_start = parent->brk_start;
    child->brk_end = parent->brk_end;
    child->limits = parent->limits;
    status = vli_rmap_space_fork(&child->rmap, &parent->rmap);
    vli_list_each (node, &parent->list) {
        if (status != VL_OK) {
            break;
        }
        status = copy_area(fork, vli_list_entry(node, struct vli_area, link));
    }
    if (status == VL_OK) {
        vli_area_mirror_end(child, parent);
    }
    return status;
}

enum vl_status vl_space_fork(struct vl_space *parent, struct vl_space **out_child)
{
    struct forking fork = {.parent = parent};
    enum vl_status status;

    for (unsigned i = 0; i < VLI_TRIES_MAX; i++) {
        status = vl_space_create(&fork.child);
        if (status != VL_OK) {
            return status;
        }
        vli_gather_begin(&fork.gather, &parent->table, false);
        vli_rw_write_lock(&parent->lock);
        status = copy_space(&fork);
        vli_gather_end(&fork.gather);
        vli_rw_write_unlock(&parent->lock);
        if (status == VL_OK) {
            vli_space_note_peak(fork.child);
            *out_child = fork.child;
            return VL_OK;
        }
        vl_space_put(fork.child);
        if (vli_refill() != VL_OK) {
            break;
        }
    }
    return VL_ENOMEM;
}
