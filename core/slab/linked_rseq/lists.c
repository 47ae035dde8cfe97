/*
 * lists.c (linked_rseq) - the slow paths of the linked family in a process, where nobody can turn
 * interrupts off.
 *
 * A slow path swaps the CPU's slot out, by a sequence: from then on the list and the slab, which
 * stays frozen, are the thread's alone, wherever it runs. It puts the same slab back, or another
 * one, by a second swap. Between the two the CPU has none, with which every operation comes here;
 * what another thread may have put there meanwhile comes out of the second swap, and that slab is
 * left, as in the kernel the one that an interrupt installed is. A free needs no slot: it goes to
 * the word of the unit's slab.
 *
 *      pop, push ──> slot: list, slab ──swap──> a thread's alone ──> full, or partial: its node's
 *                        ^                        │  ^
 *                        └────────── swap ────────┘  └── partial, or new
 *
 * Departures from the kernel's: slabs of a cache are of one length (arch/rseq_list.h), so that when
 * memory is short there are none of a smaller order; and where nothing must be kept (an area is
 * being drained, or is none) a unit is taken of a slab in the node's list, under the node's lock.
 */
#include "core/slab/linked/slabs.h"
#include "core/slab/linked/word.h"
#include "core/slab/process.h"
#include "core/base/bits.h"
#include "core/base/log.h"

uintptr_t vli_list_slab_bytes[VLI_CACHES_MAX];

static uintptr_t link_of(uintptr_t unit)
{
    return atomic_load_explicit(vli_unit_link(unit), memory_order_relaxed);
}

static struct vl_frame *head_of(uintptr_t list)
{
    return vli_slab_head(vli_virt_frame(list));
}

/* The slab of a list that is a thread's alone is left, with what is in the list. */
static void leave(struct vl_cache *cache, uintptr_t list)
{
    struct vli_slabs_give give = {.first = list, .unfreezes = true};
    uintptr_t bytes = vli_list_slab_bytes[cache->index];
    struct vl_frame *head;
    uintptr_t unit = list;

    if (list == VLI_LIST_NONE) {
        return;
    }
    head = head_of(list);
    for (; !vli_list_is_end(unit) && (unit ^ list) < bytes; unit = link_of(unit)) {
        give.last = unit;
        if (VLI_UNLIKELY(++give.count > vli_slab_units(head))) {
            vli_panic("a unit of cache %s freed twice", cache->name); /* the list is a ring */
        }
    }
    if (VLI_UNLIKELY(unit != vli_list_end((uintptr_t)vli_frame_virt(vli_frame_pfn(head))))) {
        vli_panic("0x%lx was written to after it was freed", (unsigned long)give.last);
    }
    (void)vli_slabs_give(cache, head, &give);
}

/* ------------------------------------------------------------------------------------ allocation
 */

/* A list with a unit of the slab that @list names, of a partial one or a new one; the end of a list
 * or NONE: there is no memory. The slabs are the caller's alone. */
static uintptr_t refill(struct vl_cache *cache, uintptr_t list, vl_how_t how)
{
    struct vl_frame *head;

    if (list != VLI_LIST_NONE && vli_list_is_end(list)) {
        list = vli_slabs_take(head_of(list)); /* what others freed into it */
        if (vli_list_is_end(list)) {
            leave(cache, list); /* full, unless somebody frees into it just now */
            list = VLI_LIST_NONE;
        }
    }
    if (list != VLI_LIST_NONE || vli_slabs_take_partial(cache, &list) != NULL) {
        return list;
    }
    head = vli_slabs_new(cache, how);
    return head != NULL ? vli_slabs_take(head) : VLI_LIST_NONE;
}

/* The slot gets a list that is the caller's alone. */
static void put(struct vl_cache *cache, uintptr_t list)
{
    uintptr_t old = vli_list_swap(cache->index, list);

    leave(cache, old == VLI_LIST_STOPPED ? list : old);
}

/* A unit where nothing must be kept. */
static uintptr_t take_one(struct vl_cache *cache, vl_how_t how)
{
    uintptr_t unit = vli_slabs_take_one(cache);
    struct vl_frame *head;

    while (unit == 0 && (head = vli_slabs_new(cache, how)) != NULL) {
        leave(cache, vli_list_end((uintptr_t)vli_frame_virt(vli_frame_pfn(head))));
        unit = vli_slabs_take_one(cache);
    }
    return unit;
}

uintptr_t vli_slab_alloc_slow(struct vl_cache *cache, vl_how_t how)
{
    uintptr_t list = vli_list_swap(cache->index, VLI_LIST_NONE);

    if (list == VLI_LIST_STOPPED) {
        return take_one(cache, how);
    }
    list = refill(cache, list, how);
    if (list == VLI_LIST_NONE) {
        return 0;
    }
    put(cache, link_of(list));
    return list;
}

/* ------------------------------------------------------------------------------- several at once
 */

size_t vli_slot_pop_batch(size_t index, size_t count, void **out)
{
    uintptr_t unit;
    size_t had = 0;

    while (had < count && (unit = vli_slot_pop(index)) != 0) {
        out[had++] = (void *)unit;
    }
    return had;
}

size_t vli_slot_push_batch(size_t index, uint32_t shift, size_t count, void *const *objects)
{
    size_t kept = 0;

    while (kept < count && vli_slot_push(index, (uintptr_t)objects[kept] - shift)) {
        kept++;
    }
    return kept;
}

/* ---------------------------------------------------------------------------------- giving it up
 */

static void drain_slot(struct vli_slab_percpu *area, struct vl_cache *cache)
{
    _Atomic uintptr_t *word = &area->list[cache->index];
    uintptr_t list = atomic_load_explicit(word, memory_order_relaxed);

    atomic_store_explicit(word, VLI_LIST_NONE, memory_order_relaxed);
    leave(cache, list);
}

void vli_slab_area_drain(struct vli_slab_percpu *area, struct vl_cache *cache)
{
    for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
        if (cache == NULL || cache->index == i) {
            drain_slot(area, &vli_caches[i]);
        }
    }
}

static void flush_area(struct vli_slab_percpu *area, void *arg)
{
    vli_slab_area_drain(area, arg);
}

void vli_slab_flush(struct vl_cache *cache)
{
    vli_slab_areas(flush_area, cache);
}

/* ------------------------------------------------------------------- beginnings, figures, checks
 */

void vli_slab_area_init(struct vli_slab_percpu *area)
{
    for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
        atomic_store_explicit(&area->list[i], VLI_LIST_NONE, memory_order_relaxed);
    }
}

enum vl_status vli_slab_start(void)
{
    return VL_OK; /* the host makes areas */
}

/* No slot has anything of a cache that comes, or of one that its number was before. */
void vli_slab_layout(struct vl_cache *cache)
{
    cache->order_min = cache->order;
    vli_list_slab_bytes[cache->index] = VL_PAGE_SIZE << cache->order;
    vli_slabs_layout(cache);
}

uint64_t vli_slab_area_units(const struct vli_slab_percpu *area, struct vl_cache *cache)
{
    (void)area;
    (void)cache;
    return 0;
}

/* Free units of the slabs in areas. */
struct kept {
    struct vl_cache *cache;
    uint64_t units;
};

static void count_area(struct vli_slab_percpu *area, void *arg)
{
    struct kept *kept = arg;
    uintptr_t list = atomic_load_explicit(&area->list[kept->cache->index], memory_order_relaxed);
    uint32_t most;

    if (list == VLI_LIST_NONE) {
        return;
    }
    most = vli_slab_units(head_of(list)); /* a list that is a ring ends somewhere, too */
    kept->units += vli_slabs_free_of(head_of(list));
    for (uint32_t n = 0; !vli_list_is_end(list) && n < most; n++) {
        kept->units++;
        list = link_of(list);
    }
}

struct vli_slab_held vli_slab_held(struct vl_cache *cache)
{
    struct kept kept = {cache, 0};

    if (atomic_load_explicit(&cache->node[0].slabs, memory_order_relaxed) != 0) {
        vli_slab_areas(count_area, &kept);
    }
    return (struct vli_slab_held){.kept = kept.units, .free = vli_slabs_units_free(cache)};
}

uint64_t vli_slab_units_free(struct vl_cache *cache)
{
    struct vli_slab_held held = vli_slab_held(cache);

    return held.kept + held.free;
}

uint64_t vli_slab_frames_kept(void)
{
    uint64_t frames = 0;

    for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
        struct vli_slab_node *node = &vli_caches[i].node[0];
        unsigned long flags = vli_spin_lock_irq(&node->lock, VLI_RANK_SLAB_NODE);

        frames += (uint64_t)node->empty_count << vli_caches[i].order;
        vli_spin_unlock_irq(&node->lock, VLI_RANK_SLAB_NODE, flags);
    }
    return frames;
}

void vli_slab_locks(void (*fn)(_Atomic uint32_t *word))
{
    for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
        fn(&vli_caches[i].node[0].lock.word.both);
    }
}

/* Tells the pages of a list's units behind those with their links. */
static size_t purge_list(const struct vl_cache *cache, uintptr_t list,
                         void (*give_back)(uintptr_t start, size_t bytes))
{
    size_t bytes = 0;

    for (uintptr_t unit = list; !vli_list_is_end(unit); unit = link_of(unit)) {
        uintptr_t start = vli_round_up(unit + VLI_SLAB_LINK_BYTES, VL_PAGE_SIZE);
        uintptr_t end = vli_round_down(unit + cache->unit_bytes, VL_PAGE_SIZE);

        if (end > start) {
            give_back(start, end - start);
            bytes += end - start;
        }
    }
    return bytes;
}

/* What was told is not remembered: nobody is told when the unit is taken, and used, again. */
size_t vli_slabs_purge(struct vl_cache *cache, void (*give_back)(uintptr_t start, size_t bytes))
{
    uint32_t next;
    uint32_t at;
    size_t bytes = 0;

    if (cache->unit_bytes <= VL_PAGE_SIZE) {
        return 0;
    }
    for (at = vli_slabs_freeze_partial(cache); at != VLI_FRAME_LINK_NONE; at = next) {
        const struct vli_slabs_give thawed = {.unfreezes = true};
        struct vl_frame *head = vli_frame_of((struct vl_pfn){at});

        next = head->next;
        /* Its list stays its own, and may grow meanwhile: a unit that is freed twice is found. */
        bytes += purge_list(cache, vli_slabs_list(head), give_back);
        (void)vli_slabs_give(cache, head, &thawed);
    }
    return bytes;
}

bool vli_slab_is_free(struct vl_cache *cache, uintptr_t unit)
{
    struct vli_slab_node *node = &cache->node[0];
    unsigned long flags = vli_spin_lock_irq(&node->lock, VLI_RANK_SLAB_NODE);
    bool is_free = vli_slabs_has(head_of(unit), unit);

    vli_spin_unlock_irq(&node->lock, VLI_RANK_SLAB_NODE, flags);
    return is_free;
}

void vli_slab_free_checked(struct vl_frame *frame, uintptr_t unit)
{
    vli_slabs_give_checked(vli_slab_cache(frame), vli_slab_head(frame), unit);
}

static void area_validate(struct vli_slab_percpu *area, void *arg)
{
    struct vl_cache *cache = arg;
    uintptr_t list = atomic_load_explicit(&area->list[cache->index], memory_order_relaxed);
    struct vl_frame *head;

    if (list != VLI_LIST_NONE) {
        head = head_of(list);
        vli_slab_validate_one(cache, head, true);
        (void)vli_list_validate(cache, list, (uintptr_t)vli_frame_virt(vli_frame_pfn(head)),
                                vli_slabs_bytes(head), vli_slab_units(head));
    }
}

void vli_slab_validate(void)
{
    for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
        vli_slabs_validate(&vli_caches[i]);
        vli_slab_areas(area_validate, &vli_caches[i]);
    }
}
