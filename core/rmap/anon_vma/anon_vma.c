/*
 * anon_vma.c - reverse mapping by anon_vmas (the design of Linux since 2.6.34: van Riel 2010; the
 * object half is McCracken's of 2003).
 *
 * An anonymous page names an anon_vma. An area hangs on every anon_vma that its pages may name, by
 * one chain each; an anon_vma keeps its chains ordered by page index. Fork hangs the child's area
 * on all that the parent's hangs on, and the child's first own page makes a further anon_vma, a
 * child of the last of them, so that a walk of the child's pages never meets the parent:
 *
 *      anon_vma A  <--- chain --- parent's area          pages before the fork name A
 *          ^   \______ chain ____ child's area ____
 *        parent                                    \
 *      anon_vma B  <--- chain -----------------------    pages that the child writes name B
 *
 * What departs from Linux: an anon_vma is made at the first write, not at fork, so that a child
 * that executes another program at once costs one chain an area and nothing else. A frame that the
 * last sharer reuses may go on naming an ancestor: a walk of it meets more areas than need be,
 * never fewer.
 *
 * Bound on growth. An area whose anon_vma is missing takes over an ancestor's that no area calls
 * its own any more and that has one child at most; so a line of forks whose parents end keeps two
 * generations, not all of them.
 *
 * Locks. All anon_vmas of a family of forks share the lock of their root, rank RMAP_ANON; an
 * object's areas have the object's lock, rank RMAP; who changes an area's range holds both, so that
 * a walk by either sees a whole range. The list of an area's chains belongs to the space's lock;
 * prepare, which holds that for reading only, adds to it under the area's own spin lock.
 *
 * Lifetime. An anon_vma is counted by its chains, by walkers, and a root by its family. Nobody
 * holds a page's anon_vma alive for the page, so a walker that starts from a page takes one of a
 * few spin locks, chosen by address, and looks again: while the page names A and is mapped, A has a
 * chain; whoever frees A passes through the same lock after the last chain went.
 */
#include <vellum/slab.h>
#include "core/rmap/anon_vma/anon_vma.h"

#define FREE_LOCKS 64u

struct vl_cache *vli_anon_cache;
struct vl_cache *vli_chain_cache;
/* Passed through by whoever frees an anon_vma; see Lifetime. */
static struct vli_spinlock free_locks[FREE_LOCKS];

enum vl_status vli_rmap_init(void)
{
    /* Of their own: vli_rmap_memory() counts what is in them. */
    const struct vl_cache_spec anons = {
        .name = "anon_vma", .size = sizeof(struct vli_anon_vma), .flags = VL_CACHE_NO_MERGE};
    const struct vl_cache_spec chains = {.name = "anon_vma_chain",
                                         .size = sizeof(struct vli_anon_chain),
                                         .flags = VL_CACHE_NO_MERGE};
    enum vl_status status;

    for (size_t i = 0; i < FREE_LOCKS; i++) {
        vli_spin_init(&free_locks[i]);
    }
    status = vl_cache_create(&anons, &vli_anon_cache);
    if (status == VL_OK) {
        status = vl_cache_create(&chains, &vli_chain_cache);
    }
    return status;
}

/* ---------------------------------------------------------------------------- anon_vmas */

static struct vli_spinlock *free_lock_of(const struct vli_anon_vma *anon)
{
    return &free_locks[((uintptr_t)anon >> 7) % FREE_LOCKS];
}

/* A new one with one reference: a child of @parent, or a root. */
static struct vli_anon_vma *anon_new(struct vli_anon_vma *parent, vl_how_t how)
{
    struct vli_anon_vma *anon = vl_cache_alloc(vli_anon_cache, how);

    if (anon == NULL) {
        return NULL;
    }
    anon->chains.root = NULL;
    anon->parent = parent;
    anon->root = parent != NULL ? parent->root : anon;
    vli_rw_init(&anon->lock, VLI_RANK_RMAP_ANON);
    atomic_store_explicit(&anon->refs, 1, memory_order_relaxed);
    anon->chain_count = 0;
    anon->child_count = 0;
    anon->owner_count = 0;
    if (parent != NULL) {
        /* The lock that this one uses must stay. */
        atomic_fetch_add_explicit(&anon->root->refs, 1, memory_order_relaxed);
    }
    return anon;
}

void vli_anon_put(struct vli_anon_vma *anon)
{
    struct vli_anon_vma *root;

    /* Two rounds at most: a root has no further root. Release and acquire: all that was done to it
     * comes before it is freed. */
    while (atomic_fetch_sub_explicit(&anon->refs, 1, memory_order_acq_rel) == 1) {
        root = anon->root;
        VL_ASSERT(anon->chain_count == 0);
        vli_spin_lock(free_lock_of(anon), VLI_RANK_COUNT_TREE);
        vli_spin_unlock(free_lock_of(anon), VLI_RANK_COUNT_TREE);
        vl_cache_free(vli_anon_cache, anon);
        if (root == anon) {
            return;
        }
        anon = root;
    }
}

/* One more reference, unless the last one is gone already. */
static bool anon_try_get(struct vli_anon_vma *anon)
{
    uint32_t refs = atomic_load_explicit(&anon->refs, memory_order_relaxed);

    while (refs != 0) {
        if (atomic_compare_exchange_weak_explicit(&anon->refs, &refs, refs + 1,
                                                  memory_order_relaxed, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

struct vli_anon_vma *vli_anon_of_frame(struct vl_frame *frame)
{
    uintptr_t owner = atomic_load_explicit(&frame->owner, memory_order_acquire);
    struct vli_anon_vma *anon;
    bool is_alive;

    for (;;) {
        anon = (struct vli_anon_vma *)owner;
        if (anon == NULL) {
            return NULL;
        }
        vli_spin_lock(free_lock_of(anon), VLI_RANK_COUNT_TREE);
        owner = atomic_load_explicit(&frame->owner, memory_order_acquire);
        is_alive = owner == (uintptr_t)anon &&
                   atomic_load_explicit(&frame->mappings, memory_order_acquire) != 0 &&
                   anon_try_get(anon);
        vli_spin_unlock(free_lock_of(anon), VLI_RANK_COUNT_TREE);
        if (is_alive) {
            return anon;
        }
        if (owner == (uintptr_t)anon) {
            return NULL;
        }
    }
}

/* ------------------------------------------------------------------------------- chains */

static struct vli_anon_chain *first_chain(const struct vli_rmap_area *area)
{
    return vli_chain_of(area->chains.next);
}

/* The root whose lock covers the area's chains; there is one at least. */
static struct vli_anon_vma *root_of(const struct vli_rmap_area *area)
{
    return first_chain(area)->anon->root;
}

/* @chain hangs @area on @anon from now on; the tree is the caller's. */
static void chain_count_in(struct vli_anon_chain *chain, struct vli_rmap_area *area,
                           struct vli_anon_vma *anon)
{
    chain->area = area;
    chain->anon = anon;
    vli_list_insert_before(&area->chains, &chain->same_area);
    if (anon->chain_count++ == 0) {
        if (anon->parent != NULL) {
            anon->parent->child_count++;
        }
        return; /* the reference of its making is the first chain's */
    }
    atomic_fetch_add_explicit(&anon->refs, 1, memory_order_relaxed);
}

/* Hang @area on @anon by @chain. The group's lock is held, or @anon is not known to others. */
static void chain_link(struct vli_anon_chain *chain, struct vli_rmap_area *area,
                       struct vli_anon_vma *anon)
{
    vli_interval_insert(&anon->chains, &chain->same_anon, area->first_index, vli_last_index(area));
    chain_count_in(chain, area, anon);
}

/* Undo chain_link(); the caller still puts the reference and frees the chain, without the lock. */
static void chain_unlink(struct vli_anon_chain *chain)
{
    struct vli_anon_vma *anon = chain->anon;

    vli_list_remove(&chain->same_area);
    vli_interval_remove(&anon->chains, &chain->same_anon);
    if (--anon->chain_count == 0 && anon->parent != NULL) {
        /* Every area on a child is on the parent too, and leaves the child first. */
        anon->parent->child_count--;
    }
}

static void chains_free(struct vli_list *list)
{
    struct vli_list *node;
    struct vli_list *tmp;

    vli_list_each_safe (node, tmp, list) {
        vl_cache_free(vli_chain_cache, vli_chain_of(node));
    }
}

/* As many chains as @area has, not linked to anything, on @out. */
static enum vl_status chains_alloc(const struct vli_rmap_area *area, struct vli_list *out,
                                   vl_how_t how)
{
    struct vli_list *node;
    struct vli_anon_chain *chain;

    vli_list_init(out);
    vli_list_each (node, &area->chains) {
        chain = vl_cache_alloc(vli_chain_cache, how);
        if (chain == NULL) {
            chains_free(out);
            return VL_ENOMEM;
        }
        vli_list_insert_after(out, &chain->same_area);
    }
    return VL_OK;
}

/* Hang @fresh on all that @area hangs on, by the chains on @list. Group's lock held. After a fork
 * the ranges are the same, and no tree is searched. */
static void chains_copy(struct vli_rmap_area *fresh, struct vli_rmap_area *area,
                        struct vli_list *list)
{
    bool are_twins =
        fresh->first_index == area->first_index && vli_last_index(fresh) == vli_last_index(area);
    struct vli_list *node;
    struct vli_anon_chain *chain;
    struct vli_anon_chain *old;

    vli_list_each (node, &area->chains) {
        old = vli_chain_of(node);
        chain = vli_chain_of(list->next);
        vli_list_remove(&chain->same_area);
        if (are_twins) {
            vli_interval_insert_twin(&chain->same_anon, &old->same_anon);
            chain_count_in(chain, fresh, old->anon);
        } else {
            chain_link(chain, fresh, old->anon);
        }
    }
}

/* The area's range changed, or is about to: put its chains where they belong now. */
static void chains_move(struct vli_rmap_area *area, uint64_t first, uint64_t last)
{
    struct vli_list *node;
    struct vli_anon_chain *chain;

    vli_list_each (node, &area->chains) {
        chain = vli_chain_of(node);
        vli_interval_remove(&chain->anon->chains, &chain->same_anon);
        vli_interval_insert(&chain->anon->chains, &chain->same_anon, first, last);
    }
}

/* -------------------------------------------------------------------- both locks of an area */

static void links_lock(struct vli_rmap_area *area) VL_NO_LOCK_CHECK
{
    if (area->object != NULL) {
        vli_rw_write_lock(&area->object->lock);
    }
    if (!vli_list_is_empty(&area->chains)) {
        vli_rw_write_lock(&root_of(area)->lock);
    }
}

static void links_unlock(struct vli_rmap_area *area) VL_NO_LOCK_CHECK
{
    if (!vli_list_is_empty(&area->chains)) {
        vli_rw_write_unlock(&root_of(area)->lock);
    }
    if (area->object != NULL) {
        vli_rw_write_unlock(&area->object->lock);
    }
}

void vli_rmap_move_begin(struct vli_rmap_area *area)
{
    links_lock(area);
}

void vli_rmap_move_end(struct vli_rmap_area *area)
{
    links_unlock(area);
}

/* --------------------------------------------------------------------------------- areas */

void vli_rmap_object_init(struct vli_rmap_object *object)
{
    vli_rw_init(&object->lock, VLI_RANK_RMAP);
    object->areas.root = NULL;
}

void vli_rmap_space_init(struct vli_rmap_space *space, struct vli_table *table)
{
    space->table = table;
}

enum vl_status vli_rmap_space_fork(struct vli_rmap_space *child, struct vli_rmap_space *parent)
{
    VL_ASSERT(child->table != parent->table);
    return VL_OK;
}

void vli_rmap_space_exit(struct vli_rmap_space *space)
{
    VL_ASSERT(space->table != NULL);
}

void vli_rmap_area_init(struct vli_rmap_area *area, struct vli_rmap_space *space)
{
    area->space = space;
    area->object = NULL;
    vli_list_init(&area->chains);
    atomic_store_explicit(&area->anon, NULL, memory_order_relaxed);
    vli_spin_init(&area->prepare_lock);
}

static void object_insert(struct vli_rmap_area *area)
{
    vli_interval_insert(&area->object->areas, &area->in_object, area->first_index,
                        vli_last_index(area));
}

void vli_rmap_area_link(struct vli_rmap_area *area, struct vli_rmap_object *object)
{
    VL_ASSERT(area->object == NULL);
    area->object = object;
    vli_rw_write_lock(&object->lock);
    object_insert(area);
    vli_rw_write_unlock(&object->lock);
}

/* @fresh maps what @area maps, if that is an object. */
static void object_copy(struct vli_rmap_area *fresh, struct vli_rmap_area *area)
{
    struct vli_rmap_object *object = area->object;

    if (object == NULL) {
        return;
    }
    if (fresh->first_index != area->first_index || vli_last_index(fresh) != vli_last_index(area)) {
        vli_rmap_area_link(fresh, object);
        return;
    }
    fresh->object = object;
    vli_rw_write_lock(&object->lock);
    vli_interval_insert_twin(&fresh->in_object, &area->in_object);
    vli_rw_write_unlock(&object->lock);
}

/* Hang @fresh on what @area hangs on. */
static enum vl_status area_copy(struct vli_rmap_area *fresh, struct vli_rmap_area *area,
                                bool is_same_space, vl_how_t how)
{
    struct vli_anon_vma *anon;
    struct vli_list chains;

    if (vli_list_is_empty(&area->chains)) {
        object_copy(fresh, area);
        return VL_OK;
    }
    if (chains_alloc(area, &chains, how) != VL_OK) {
        return VL_ENOMEM;
    }
    object_copy(fresh, area);
    vli_rw_write_lock(&root_of(area)->lock);
    chains_copy(fresh, area, &chains);
    anon = atomic_load_explicit(&area->anon, memory_order_relaxed);
    if (is_same_space && anon != NULL) {
        anon->owner_count++;
        atomic_store_explicit(&fresh->anon, anon, memory_order_relaxed);
    }
    vli_rw_write_unlock(&root_of(area)->lock);
    return VL_OK;
}

enum vl_status vli_rmap_area_fork(struct vli_rmap_area *child, struct vli_rmap_area *parent,
                                  vl_how_t how)
{
    return area_copy(child, parent, false, how);
}

enum vl_status vli_rmap_area_clone(struct vli_rmap_area *fresh, struct vli_rmap_area *area,
                                   vl_how_t how)
{
    return area_copy(fresh, area, true, how);
}

/* Change a range whose links are locked. */
static void area_set_range(struct vli_rmap_area *area, vl_va start, vl_va end, uint64_t first_index)
{
    if (area->object != NULL) {
        vli_interval_remove(&area->object->areas, &area->in_object);
    }
    area->start = start;
    area->end = end;
    area->first_index = first_index;
    if (area->object != NULL) {
        object_insert(area);
    }
    chains_move(area, first_index, vli_last_index(area));
}

enum vl_status vli_rmap_area_split(struct vli_rmap_area *fresh, struct vli_rmap_area *area,
                                   vl_how_t how)
{
    struct vli_anon_vma *anon = atomic_load_explicit(&area->anon, memory_order_relaxed);
    struct vli_list chains;

    VL_ASSERT(fresh->start > area->start && fresh->end == area->end);
    if (chains_alloc(area, &chains, how) != VL_OK) {
        return VL_ENOMEM;
    }
    links_lock(area);
    area_set_range(area, area->start, fresh->start, area->first_index);
    if (area->object != NULL) {
        fresh->object = area->object;
        object_insert(fresh);
    }
    chains_copy(fresh, area, &chains);
    if (anon != NULL) {
        anon->owner_count++;
        atomic_store_explicit(&fresh->anon, anon, memory_order_relaxed);
    }
    links_unlock(area);
    return VL_OK;
}

void vli_rmap_area_resize(struct vli_rmap_area *area, vl_va start, vl_va end, uint64_t first_index)
{
    VL_ASSERT(start < end);
    links_lock(area);
    area_set_range(area, start, end, first_index);
    links_unlock(area);
}

/* Is @area on every anon_vma, in the same order, that @other is on, and perhaps on more? */
static bool hangs_on_all(const struct vli_rmap_area *area, const struct vli_rmap_area *other)
{
    struct vli_list *have = area->chains.next;
    struct vli_list *want;

    vli_list_each (want, &other->chains) {
        while (have != &area->chains && vli_chain_of(have)->anon != vli_chain_of(want)->anon) {
            have = have->next;
        }
        if (have == &area->chains) {
            return false;
        }
    }
    return true;
}

bool vli_rmap_area_can_merge(const struct vli_rmap_area *a, const struct vli_rmap_area *b)
{
    return hangs_on_all(a, b) || hangs_on_all(b, a);
}

/* Take all chains of @area off their anon_vmas, newest first, and put them on @list. */
static void chains_take(struct vli_rmap_area *area, struct vli_list *list)
{
    struct vli_anon_vma *anon = atomic_load_explicit(&area->anon, memory_order_relaxed);
    struct vli_anon_chain *chain;

    if (anon != NULL) {
        anon->owner_count--;
        atomic_store_explicit(&area->anon, NULL, memory_order_relaxed);
    }
    while (!vli_list_is_empty(&area->chains)) {
        chain = vli_chain_of(area->chains.prev);
        chain_unlink(chain);
        vli_list_insert_before(list, &chain->same_area);
    }
}

/* After the locks: give up what chains_take() took. */
static void chains_drop(struct vli_list *list)
{
    struct vli_list *node;
    struct vli_list *tmp;

    vli_list_each_safe (node, tmp, list) {
        vli_anon_put(vli_chain_of(node)->anon);
        vl_cache_free(vli_chain_cache, vli_chain_of(node));
    }
}

/* @gone hangs on more than @area: its chains become @area's, and @area's become @gone's. */
static void chains_swap(struct vli_rmap_area *area, struct vli_rmap_area *gone)
{
    struct vli_anon_vma *anon = atomic_load_explicit(&area->anon, memory_order_relaxed);
    struct vli_list *node;
    struct vli_list tmp;

    vli_list_init(&tmp);
    vli_list_splice(&area->chains, &tmp);
    vli_list_splice(&gone->chains, &area->chains);
    vli_list_splice(&tmp, &gone->chains);
    vli_list_each (node, &area->chains) {
        vli_chain_of(node)->area = area;
    }
    vli_list_each (node, &gone->chains) {
        vli_chain_of(node)->area = gone;
    }
    atomic_store_explicit(&area->anon, atomic_load_explicit(&gone->anon, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(&gone->anon, anon, memory_order_relaxed);
}

void vli_rmap_area_merge(struct vli_rmap_area *area, struct vli_rmap_area *gone)
{
    struct vli_rmap_area *locked = vli_list_is_empty(&area->chains) ? gone : area;
    struct vli_anon_vma *anon;
    struct vli_list list;

    VL_ASSERT(area->end == gone->start);
    VL_ASSERT(area->object == gone->object);
    vli_list_init(&list);
    links_lock(locked);
    if (!hangs_on_all(area, gone)) {
        chains_swap(area, gone);
    }
    if (gone->object != NULL) {
        vli_interval_remove(&gone->object->areas, &gone->in_object);
    }
    anon = atomic_load_explicit(&gone->anon, memory_order_relaxed);
    if (anon != NULL && atomic_load_explicit(&area->anon, memory_order_relaxed) == NULL) {
        atomic_store_explicit(&area->anon, anon, memory_order_relaxed);
        atomic_store_explicit(&gone->anon, NULL, memory_order_relaxed);
    }
    chains_take(gone, &list);
    area_set_range(area, area->start, gone->end, area->first_index);
    /* Whatever was locked, its chains are area's now; the object is both's. */
    links_unlock(area);
    gone->object = NULL;
    chains_drop(&list);
}

void vli_rmap_area_unlink(struct vli_rmap_area *area)
{
    struct vli_list list;

    if (area->object == NULL && vli_list_is_empty(&area->chains)) {
        return;
    }
    if (area->object != NULL) {
        vli_rw_write_lock(&area->object->lock);
        vli_interval_remove(&area->object->areas, &area->in_object);
        vli_rw_write_unlock(&area->object->lock);
        area->object = NULL;
    }
    if (!vli_list_is_empty(&area->chains)) {
        struct vli_anon_vma *root = root_of(area);

        vli_list_init(&list);
        vli_rw_write_lock(&root->lock);
        chains_take(area, &list);
        vli_rw_write_unlock(&root->lock);
        chains_drop(&list);
    }
}

/* ------------------------------------------------------------------------------- prepare */

/* Make @anon the area's own, by @chain unless it hangs on it already. */
static void area_own(struct vli_rmap_area *area, struct vli_anon_vma *anon,
                     struct vli_anon_chain *chain)
{
    if (chain != NULL) {
        chain_link(chain, area, anon);
    }
    anon->owner_count++;
    /* Release: pairs with the acquire in vli_rmap_area_is_prepared(). */
    atomic_store_explicit(&area->anon, anon, memory_order_release);
}

/* An anon_vma that the area hangs on already and may call its own; see Bound on growth. */
static struct vli_anon_vma *find_reusable(const struct vli_rmap_area *area)
{
    struct vli_list *node;
    struct vli_anon_vma *anon;

    vli_list_each (node, &area->chains) {
        anon = vli_chain_of(node)->anon;
        if (anon->owner_count == 0 && anon->child_count < 2) {
            return anon;
        }
    }
    return NULL;
}

/* The area hangs on ancestors. Returns whether @anon and @chain were used. */
static bool prepare_child(struct vli_rmap_area *area, struct vli_anon_vma *anon,
                          struct vli_anon_chain *chain)
{
    struct vli_anon_vma *root = anon->root;
    struct vli_anon_vma *reusable;
    bool is_used = false;

    vli_rw_write_lock(&root->lock);
    if (!vli_rmap_area_is_prepared(area)) {
        reusable = find_reusable(area);
        is_used = reusable == NULL;
        vli_spin_lock(&area->prepare_lock, VLI_RANK_COUNT_TREE);
        if (is_used) {
            area_own(area, anon, chain);
        } else {
            area_own(area, reusable, NULL);
        }
        vli_spin_unlock(&area->prepare_lock, VLI_RANK_COUNT_TREE);
    }
    vli_rw_write_unlock(&root->lock);
    return is_used;
}

/* The area hangs on nothing yet. Returns whether @anon and @chain were used. */
static bool prepare_root(struct vli_rmap_area *area, struct vli_anon_vma *anon,
                         struct vli_anon_chain *chain)
{
    bool is_used = false;

    vli_spin_lock(&area->prepare_lock, VLI_RANK_COUNT_TREE);
    if (!vli_rmap_area_is_prepared(area)) {
        area_own(area, anon, chain);
        is_used = true;
    }
    vli_spin_unlock(&area->prepare_lock, VLI_RANK_COUNT_TREE);
    return is_used;
}

/* The area hangs on nothing yet, and @anon is what its neighbour alone hangs on. */
static bool prepare_beside(struct vli_rmap_area *area, struct vli_anon_vma *anon,
                           struct vli_anon_chain *chain)
{
    bool is_used = false;

    vli_rw_write_lock(&anon->root->lock);
    vli_spin_lock(&area->prepare_lock, VLI_RANK_COUNT_TREE);
    if (!vli_rmap_area_is_prepared(area)) {
        area_own(area, anon, chain);
        is_used = true;
    }
    vli_spin_unlock(&area->prepare_lock, VLI_RANK_COUNT_TREE);
    vli_rw_write_unlock(&anon->root->lock);
    return is_used;
}

/* The newest anon_vma that the area hangs on, or NULL. What it hangs on only grows while the
 * space's lock is held, so the answer stays alive; *@out_single: it is the only one. */
static struct vli_anon_vma *newest_anon(struct vli_rmap_area *area, bool *out_single)
{
    struct vli_anon_vma *anon = NULL;

    vli_spin_lock(&area->prepare_lock, VLI_RANK_COUNT_TREE);
    if (!vli_list_is_empty(&area->chains)) {
        anon = vli_chain_of(area->chains.prev)->anon;
    }
    *out_single = anon != NULL && area->chains.next == area->chains.prev;
    vli_spin_unlock(&area->prepare_lock, VLI_RANK_COUNT_TREE);
    return anon;
}

enum vl_status vli_rmap_area_prepare(struct vli_rmap_area *area, struct vli_rmap_area *beside,
                                     vl_how_t how)
{
    bool is_single;
    struct vli_anon_vma *parent = newest_anon(area, &is_single);
    struct vli_anon_vma *anon = NULL;
    struct vli_anon_chain *chain = vl_cache_alloc(vli_chain_cache, how);
    bool is_used;

    if (chain == NULL) {
        return VL_ENOMEM;
    }
    if (parent == NULL && beside != NULL) {
        anon = newest_anon(beside, &is_single);
        if (is_single && vli_rmap_area_is_prepared(beside)) {
            if (!prepare_beside(area, anon, chain)) {
                vl_cache_free(vli_chain_cache, chain);
            }
            return VL_OK;
        }
    }
    anon = anon_new(parent, how);
    if (anon == NULL) {
        vl_cache_free(vli_chain_cache, chain);
        return VL_ENOMEM;
    }
    is_used = parent != NULL ? prepare_child(area, anon, chain) : prepare_root(area, anon, chain);
    if (!is_used) {
        vl_cache_free(vli_chain_cache, chain);
        vli_anon_put(anon);
    }
    return VL_OK;
}
