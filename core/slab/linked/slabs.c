/*
 * slabs.c (linked) - slabs and the partial lists: new ones, units that go back, and their end.
 * slab_state.h holds the theory.
 *
 * Orders. W is changed by compare-and-exchange with release when units are put on its list (their
 * links were written before) and with acquire by whoever takes the list or gives the slab back
 * (what the freers wrote comes before). Each change below is both.
 */
#include "core/slab/linked/slabs.h"
#include "core/slab/partial.h"
#include "core/slab/linked/word.h"
#include "core/base/log.h"

static struct vli_slab_node *node_of(struct vl_cache *cache, const struct vl_frame *head)
{
    (void)head; /* one node: see VLI_SLAB_NODES */
    return &cache->node[0];
}

/* ------------------------------------------------------------------------- slabs come and go */

static uint32_t slab_order(const struct vl_frame *head)
{
    return (atomic_load_explicit(&head->flags, memory_order_relaxed) & VLI_FRAME_ORDER_MASK) >>
           VLI_FRAME_ORDER_SHIFT;
}

uintptr_t vli_slabs_bytes(const struct vl_frame *head)
{
    return VL_PAGE_SIZE << slab_order(head);
}

/* There are @units now, @each in a slab: how many slabs a CPU keeps. */
static void spare_size(struct vli_slab_node *node, uint64_t units, uint32_t each)
{
    uint64_t most = units / VLI_SLAB_SPARE_SHARE / each;

    atomic_store_explicit(&node->spare_max,
                          most > VLI_SLAB_SPARE_MAX ? VLI_SLAB_SPARE_MAX : (uint32_t)most,
                          memory_order_relaxed);
}

/* Cuts a fresh block into units, linked in ascending order. */
static uint32_t slab_cut(struct vl_cache *cache, uintptr_t base, uintptr_t bytes)
{
    uint32_t units = (uint32_t)(bytes / cache->unit_bytes);
    uintptr_t unit = base;

    for (uint32_t i = 0; i < units; i++, unit += cache->unit_bytes) {
        vli_debug_unit_init(cache, unit);
        atomic_store_explicit(vli_unit_link(unit),
                              i + 1 < units ? unit + cache->unit_bytes : vli_list_end(base),
                              memory_order_relaxed);
        if (cache->constructor != NULL) {
            cache->constructor((void *)(unit + cache->shift));
        }
    }
    return units;
}

struct vl_frame *vli_slabs_new(struct vl_cache *cache, vl_how_t how)
{
    vl_how_t first_how = (how & ~(vl_how_t)VL_ZEROED) | VL_MAY_FAIL;
    uint32_t order = cache->order;
    struct vli_slab_node *node;
    struct vl_frame *head = NULL;
    uint32_t flags;
    uint32_t units;

    if (order > cache->order_min) {
        head = vli_frame_get(order, first_how & ~(vl_how_t)VL_WAIT);
    }
    if (head == NULL) {
        order = cache->order_min;
        head = vli_frame_get(order, how & ~(vl_how_t)VL_ZEROED);
    }
    if (head == NULL) {
        return NULL;
    }
    vli_slab_map_set(head, order, cache->index);
    for (uint32_t i = 0; i < 1u << order; i++) {
        flags = atomic_load_explicit(&head[i].flags, memory_order_relaxed) & VLI_FRAME_ZONE_MASK;
        flags |=
            VLI_FRAME_SLAB | order << VLI_FRAME_ORDER_SHIFT | cache->index << VLI_FRAME_INDEX_SHIFT;
        atomic_store_explicit(&head[i].flags, flags, memory_order_relaxed);
        atomic_store_explicit(&head[i].owner, (uintptr_t)cache, memory_order_relaxed);
    }
    units = slab_cut(cache, (uintptr_t)vli_frame_virt(vli_frame_pfn(head)), VL_PAGE_SIZE << order);
    atomic_store_explicit(vli_slab_word(head), vli_slab_word_make(0, units, units, VLI_SLAB_FROZEN),
                          memory_order_relaxed);
    node = node_of(cache, head);
    atomic_fetch_add_explicit(&node->slabs, 1, memory_order_relaxed);
    spare_size(node, atomic_fetch_add_explicit(&node->units, units, memory_order_relaxed) + units,
               units);
    atomic_fetch_add_explicit(&node->frames, (uint64_t)1 << order, memory_order_relaxed);
    return head;
}

/* The units of a slab that goes are not counted any more. */
static void leave(struct vli_slab_node *node, struct vl_frame *head)
{
    uint32_t units = vli_slab_units(head);

    spare_size(node, atomic_fetch_sub_explicit(&node->units, units, memory_order_relaxed) - units,
               units);
}

/* Gives a slab back that has left, is in no list and all of whose units are free. Returns: frames.
 */
static size_t slab_release(struct vl_cache *cache, struct vl_frame *head)
{
    uint32_t order = slab_order(head);
    uint64_t word = atomic_load_explicit(vli_slab_word(head), memory_order_relaxed);
    struct vli_slab_node *node = node_of(cache, head);

    VL_ASSERT(vli_slab_word_free(word) == vli_slab_word_units(word));
    atomic_fetch_sub_explicit(&node->frames, (uint64_t)1 << order, memory_order_relaxed);
    /* Release: pairs with the acquire in vl_cache_destroy(). */
    atomic_fetch_sub_explicit(&node->slabs, 1, memory_order_release);
    atomic_store_explicit(vli_slab_word(head), 0, memory_order_relaxed);
    vli_slab_map_set(head, order, 0);
    vli_frame_put(head, order); /* which clears the parts of a slab, too */
    return (size_t)1 << order;
}

/* The same of several, linked by next. */
static size_t release_chain(struct vl_cache *cache, uint32_t first)
{
    size_t frames = 0;
    uint32_t next;

    for (uint32_t at = first; at != VLI_FRAME_LINK_NONE; at = next) {
        struct vl_frame *head = vli_frame_of((struct vl_pfn){at});

        next = head->next;
        frames += slab_release(cache, head);
    }
    return frames;
}

/* ----------------------------------------------------------------- units go back to their slab */

/* The list that a word names. */
static uintptr_t list_of(uint64_t word, uintptr_t base)
{
    uintptr_t unit = vli_slab_word_list(word, base);

    return unit != 0 ? unit : vli_list_end(base);
}

/* @old with another list, of @free units. */
static uint64_t word_of(uintptr_t list, uintptr_t base, uint64_t old, uint32_t free)
{
    uint32_t units = vli_slab_word_units(old);
    uint64_t frozen = old & VLI_SLAB_FROZEN;

    return vli_list_is_end(list) ? vli_slab_word_empty(units, frozen)
                                 : vli_slab_word_make(list - base, free, units, frozen);
}

/* The word after @give; links the last unit to what the word has now. */
static VLI_ALWAYS_INLINE uint64_t give_word(const struct vli_slabs_give *give, uint64_t old,
                                            uintptr_t base)
{
    uint64_t frozen = give->unfreezes ? 0 : old & VLI_SLAB_FROZEN;

    if (give->count == 0) {
        return (old & ~VLI_SLAB_FROZEN) | frozen;
    }
    if (VLI_UNLIKELY(vli_slab_word_free(old) + give->count > vli_slab_word_units(old))) {
        vli_panic("0x%lx freed twice", (unsigned long)give->first);
    }
    atomic_store_explicit(vli_unit_link(give->last), list_of(old, base), memory_order_relaxed);
    return vli_slab_word_make(give->first - base, vli_slab_word_free(old) + give->count,
                              vli_slab_word_units(old), frozen);
}

/* Is the slab in its node's list, as this word has it? */
static bool is_listed(uint64_t word)
{
    return (word & VLI_SLAB_FROZEN) == 0 && vli_slab_word_free(word) != 0;
}

/* In no list and no CPU's. */
static bool is_full(uint64_t word)
{
    return (word & VLI_SLAB_FROZEN) == 0 && vli_slab_word_free(word) == 0;
}

static bool is_empty(uint64_t word)
{
    return vli_slab_word_free(word) == vli_slab_word_units(word);
}

static void list_add(struct vli_slab_node *node, struct vl_frame *head, bool empty)
    VL_REQUIRES(&node->lock)
{
    node->empty_count += empty ? 1u : 0u;
    vli_partial_add(node, head, empty);
}

static void list_remove(struct vli_slab_node *node, struct vl_frame *head, bool empty)
    VL_REQUIRES(&node->lock)
{
    node->empty_count -= empty ? 1u : 0u;
    vli_partial_remove(node, head);
}

/* The giving that moves the slab into or out of the list. False: the word is another by now.
 * @out_ends: the slab, whose units are not counted any more, is to be released. */
static bool give_locked(struct vli_slab_node *node, struct vl_frame *head, uint64_t old,
                        uint64_t fresh, bool *out_ends) VL_REQUIRES(&node->lock)
{
    if (!atomic_compare_exchange_strong_explicit(vli_slab_word(head), &old, fresh,
                                                 memory_order_acq_rel, memory_order_relaxed)) {
        return false;
    }
    if (is_listed(old)) {
        list_remove(node, head, is_empty(old));
    }
    *out_ends = is_empty(fresh) && node->partial_count >= VLI_SLAB_KEPT;
    if (*out_ends) {
        leave(node, head);
    } else {
        list_add(node, head, is_empty(fresh));
    }
    return true;
}

static bool give_with_lock(struct vl_cache *cache, struct vl_frame *head, uint64_t old,
                           uint64_t fresh)
{
    struct vli_slab_node *node = node_of(cache, head);
    unsigned long flags = vli_spin_lock_irq(&node->lock, VLI_RANK_SLAB_NODE);
    bool ends = false;
    bool done = give_locked(node, head, old, fresh, &ends);

    vli_spin_unlock_irq(&node->lock, VLI_RANK_SLAB_NODE, flags);
    if (ends) {
        (void)slab_release(cache, head);
    }
    return done;
}

static VLI_ALWAYS_INLINE bool give_all(struct vl_cache *cache, struct vl_frame *head,
                                       const struct vli_slabs_give *give)
{
    uintptr_t base = (uintptr_t)vli_frame_virt(vli_frame_pfn(head));
    uint64_t old = atomic_load_explicit(vli_slab_word(head), memory_order_relaxed);
    uint64_t fresh;
    bool kept = false;
    bool done;

    do {
        fresh = give_word(give, old, base);
        kept = give->keeps && is_full(old) && !is_empty(fresh);
        fresh |= kept ? VLI_SLAB_FROZEN : 0;
        if (is_listed(fresh) && (!is_listed(old) || is_empty(fresh))) {
            done = give_with_lock(cache, head, old, fresh);
            if (!done) {
                old = atomic_load_explicit(vli_slab_word(head), memory_order_relaxed);
            }
        } else {
            done = atomic_compare_exchange_weak_explicit(
                vli_slab_word(head), &old, fresh, memory_order_acq_rel, memory_order_relaxed);
        }
    } while (!done);
    return kept;
}

bool vli_slabs_give(struct vl_cache *cache, struct vl_frame *head,
                    const struct vli_slabs_give *give)
{
    return give_all(cache, head, give);
}

void vli_slab_free_slow(struct vl_frame *frame, uintptr_t unit)
{
    struct vl_cache *cache = vli_slab_cache(frame);
    struct vl_frame *head = vli_slab_head(frame);
    uint32_t most = atomic_load_explicit(&cache->node[0].spare_max, memory_order_relaxed);
    struct vli_slabs_give give = {.first = unit, .last = unit, .count = 1, .keeps = most != 0};

    if (give_all(cache, head, &give) && VLI_SLAB_SPARE_MAX != 0) {
        vli_slabs_keep(cache, head, most);
    }
}

void vli_slabs_unfreeze(struct vl_cache *cache, uint32_t first, uint32_t count)
{
    struct vli_slab_node *node = &cache->node[0];
    unsigned long flags = vli_spin_lock_irq(&node->lock, VLI_RANK_SLAB_NODE);
    uint32_t chain = VLI_FRAME_LINK_NONE;
    struct vl_frame *head;
    uint64_t old;
    bool ends;

    for (uint32_t at = first; count > 0; count--) {
        head = vli_frame_of((struct vl_pfn){at});
        at = head->next;
        ends = false;
        do {
            old = atomic_load_explicit(vli_slab_word(head), memory_order_relaxed);
        } while (!give_locked(node, head, old, old & ~VLI_SLAB_FROZEN, &ends));
        if (ends) {
            head->next = chain;
            chain = vli_frame_pfn(head).n;
        }
    }
    vli_spin_unlock_irq(&node->lock, VLI_RANK_SLAB_NODE, flags);
    (void)release_chain(cache, chain);
}

uintptr_t vli_slabs_take(struct vl_frame *head)
{
    uintptr_t base = (uintptr_t)vli_frame_virt(vli_frame_pfn(head));
    uint64_t old = atomic_load_explicit(vli_slab_word(head), memory_order_relaxed);
    uint64_t fresh;

    do {
        fresh = vli_slab_word_empty(vli_slab_word_units(old), VLI_SLAB_FROZEN);
    } while (!atomic_compare_exchange_weak_explicit(vli_slab_word(head), &old, fresh,
                                                    memory_order_acq_rel, memory_order_relaxed));
    return list_of(old, base);
}

struct vl_frame *vli_slabs_take_partial(struct vl_cache *cache, uintptr_t *out_list)
{
    struct vli_slab_node *node = &cache->node[0];
    struct vl_frame *head = NULL;
    unsigned long flags;

    flags = vli_spin_lock_irq(&node->lock, VLI_RANK_SLAB_NODE);
    if (node->partial_count != 0) {
        head = vli_frame_of((struct vl_pfn){node->partial});
        list_remove(node, head,
                    is_empty(atomic_load_explicit(vli_slab_word(head), memory_order_relaxed)));
        *out_list = vli_slabs_take(head);
    }
    vli_spin_unlock_irq(&node->lock, VLI_RANK_SLAB_NODE, flags);
    return head;
}

uint32_t vli_slabs_freeze_partial(struct vl_cache *cache)
{
    struct vli_slab_node *node = &cache->node[0];
    unsigned long flags = vli_spin_lock_irq(&node->lock, VLI_RANK_SLAB_NODE);
    uint32_t chain = VLI_FRAME_LINK_NONE;
    struct vl_frame *head;
    uint64_t old;

    while (node->partial_count > node->empty_count) {
        head = vli_frame_of((struct vl_pfn){node->partial});
        old = atomic_fetch_or_explicit(vli_slab_word(head), VLI_SLAB_FROZEN, memory_order_relaxed);
        list_remove(node, head, is_empty(old));
        head->next = chain;
        chain = vli_frame_pfn(head).n;
    }
    vli_spin_unlock_irq(&node->lock, VLI_RANK_SLAB_NODE, flags);
    return chain;
}

uintptr_t vli_slabs_take_one(struct vl_cache *cache)
{
    struct vli_slab_node *node = &cache->node[0];
    unsigned long flags = vli_spin_lock_irq(&node->lock, VLI_RANK_SLAB_NODE);
    struct vl_frame *head;
    uintptr_t base;
    uintptr_t unit = 0;
    uint64_t old;
    uint64_t fresh;

    if (node->partial_count != 0) {
        head = vli_frame_of((struct vl_pfn){node->partial});
        base = (uintptr_t)vli_frame_virt(vli_frame_pfn(head));
        old = atomic_load_explicit(vli_slab_word(head), memory_order_acquire);
        do { /* others free into it, nobody takes */
            unit = list_of(old, base);
            fresh = word_of(atomic_load_explicit(vli_unit_link(unit), memory_order_relaxed), base,
                            old, vli_slab_word_free(old) - 1);
        } while (!atomic_compare_exchange_weak_explicit(
            vli_slab_word(head), &old, fresh, memory_order_acq_rel, memory_order_acquire));
        if (!is_listed(fresh)) {
            list_remove(node, head, is_empty(old));
        } else {
            node->empty_count -= is_empty(old) ? 1u : 0u;
        }
    }
    vli_spin_unlock_irq(&node->lock, VLI_RANK_SLAB_NODE, flags);
    return unit;
}

uintptr_t vli_slabs_list(struct vl_frame *head)
{
    /* Acquire: pairs with the exchanges of those who freed. */
    return list_of(atomic_load_explicit(vli_slab_word(head), memory_order_acquire),
                   (uintptr_t)vli_frame_virt(vli_frame_pfn(head)));
}

bool vli_slabs_has(struct vl_frame *head, uintptr_t unit)
{
    uintptr_t at = vli_slabs_list(head);

    while (!vli_list_is_end(at) && at != unit) {
        at = atomic_load_explicit(vli_unit_link(at), memory_order_relaxed);
    }
    return at == unit;
}

void vli_slabs_give_checked(struct vl_cache *cache, struct vl_frame *head, uintptr_t unit)
{
    struct vli_slab_node *node = node_of(cache, head);
    uintptr_t base = (uintptr_t)vli_frame_virt(vli_frame_pfn(head));
    struct vli_slabs_give give = {.first = unit, .last = unit, .count = 1};
    unsigned long flags = vli_spin_lock_irq(&node->lock, VLI_RANK_SLAB_NODE);
    bool ends = false;
    bool done;
    uint64_t old;
    uint64_t fresh;

    if ((unit - base) % cache->unit_bytes != 0 ||
        (unit - base) / cache->unit_bytes >= vli_slab_units(head)) {
        vli_panic("free of 0x%lx, inside an object of cache %s", (unsigned long)unit, cache->name);
    }
    if (vli_slabs_has(head, unit)) {
        vli_panic("0x%lx freed twice", (unsigned long)unit);
    }
    do { /* one whose pages are being given back is frozen */
        old = atomic_load_explicit(vli_slab_word(head), memory_order_relaxed);
        fresh = give_word(&give, old, base);
        done = is_listed(fresh)
                   ? give_locked(node, head, old, fresh, &ends)
                   : atomic_compare_exchange_strong_explicit(vli_slab_word(head), &old, fresh,
                                                             memory_order_acq_rel,
                                                             memory_order_relaxed);
    } while (!done);
    vli_spin_unlock_irq(&node->lock, VLI_RANK_SLAB_NODE, flags);
    if (ends) {
        (void)slab_release(cache, head);
    }
}

/* Units that go back by one exchange. */
#define BATCH_MAX 64u

/* Those of one slab go as one list, by one exchange of its word. */
size_t vli_slab_free_run(struct vl_frame *frame, uint32_t shift, size_t count, void *const *objects)
{
    struct vl_frame *head = vli_slab_head(frame);
    uintptr_t base = (uintptr_t)vli_frame_virt(vli_frame_pfn(head));
    uintptr_t unit = (uintptr_t)objects[0] - shift;
    struct vli_slabs_give give = {.first = unit, .last = unit, .count = 1};

    VL_ASSERT(vli_frame_type(frame) == VLI_FRAME_SLAB);
    count = count < BATCH_MAX ? count : BATCH_MAX;
    for (; give.count < count; give.count++) {
        unit = (uintptr_t)objects[give.count] - shift;
        if (unit - base >= vli_slabs_bytes(head)) {
            break;
        }
        atomic_store_explicit(vli_unit_link(give.last), unit, memory_order_relaxed);
        give.last = unit;
    }
    (void)vli_slabs_give(vli_slab_cache(frame), head, &give);
    return give.count;
}

size_t vli_slab_release_empty(struct vl_cache *cache)
{
    struct vli_slab_node *node = &cache->node[0];
    struct vl_frame *head;
    uint32_t next;
    uint32_t chain = VLI_FRAME_LINK_NONE; /* taken off the list, linked by next */
    unsigned long flags = vli_spin_lock_irq(&node->lock, VLI_RANK_SLAB_NODE);

    for (uint32_t at = node->partial; at != VLI_FRAME_LINK_NONE; at = next) {
        head = vli_frame_of((struct vl_pfn){at});
        next = head->next;
        /* Acquire: pairs with the release of whoever freed the last unit. */
        if (is_empty(atomic_load_explicit(vli_slab_word(head), memory_order_acquire))) {
            list_remove(node, head, true);
            leave(node, head);
            head->next = chain;
            chain = at;
        }
    }
    vli_spin_unlock_irq(&node->lock, VLI_RANK_SLAB_NODE, flags);
    return release_chain(cache, chain);
}

void vli_slabs_layout(struct vl_cache *cache)
{
    for (unsigned i = 0; i < VLI_SLAB_NODES; i++) {
        struct vli_slab_node *node = &cache->node[i];

        unsigned long flags = vli_spin_lock_irq(&node->lock, VLI_RANK_SLAB_NODE);

        node->partial = VLI_FRAME_LINK_NONE;
        node->partial_last = VLI_FRAME_LINK_NONE;
        node->partial_count = 0;
        node->empty_count = 0;
        atomic_store_explicit(&node->spare_max, 0, memory_order_relaxed);
        atomic_store_explicit(&node->slabs, 0, memory_order_relaxed);
        atomic_store_explicit(&node->units, 0, memory_order_relaxed);
        atomic_store_explicit(&node->frames, 0, memory_order_relaxed);
        vli_spin_unlock_irq(&node->lock, VLI_RANK_SLAB_NODE, flags);
    }
}

uint32_t vli_slab_units(struct vl_frame *head)
{
    return vli_slab_word_units(atomic_load_explicit(vli_slab_word(head), memory_order_relaxed));
}

uint32_t vli_slab_units_in(uint32_t unit_bytes, uint32_t order)
{
    return (uint32_t)((VL_PAGE_SIZE << order) / unit_bytes);
}

uint32_t vli_slab_units_each(const struct vl_cache *cache)
{
    return vli_slab_units_in(cache->unit_bytes, cache->order);
}

uint32_t vli_slabs_free_of(struct vl_frame *head)
{
    return vli_slab_word_free(atomic_load_explicit(vli_slab_word(head), memory_order_relaxed));
}

uint64_t vli_slabs_units_free(struct vl_cache *cache)
{
    struct vli_slab_node *node = &cache->node[0];
    unsigned long flags = vli_spin_lock_irq(&node->lock, VLI_RANK_SLAB_NODE);
    uint64_t free = 0;

    for (uint32_t at = node->partial; at != VLI_FRAME_LINK_NONE;
         at = vli_frame_of((struct vl_pfn){at})->next) {
        free += vli_slabs_free_of(vli_frame_of((struct vl_pfn){at}));
    }
    vli_spin_unlock_irq(&node->lock, VLI_RANK_SLAB_NODE, flags);
    return free;
}

uint32_t vli_list_validate(const struct vl_cache *cache, uintptr_t list, uintptr_t base,
                           uintptr_t bytes, uint32_t max)
{
    uint32_t count = 0;

    for (; !vli_list_is_end(list);
         list = atomic_load_explicit(vli_unit_link(list), memory_order_relaxed)) {
        VL_ASSERT(list - base < bytes);
        VL_ASSERT((list - base) % cache->unit_bytes == 0);
        VL_ASSERT(count < max);
        count++;
    }
    return count;
}

void vli_slab_validate_one(const struct vl_cache *cache, struct vl_frame *head, bool frozen)
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
    VL_ASSERT(vli_list_validate(cache, list_of(word, base), base, VL_PAGE_SIZE << order,
                                vli_slab_word_units(word)) == vli_slab_word_free(word));
    VL_ASSERT(frozen || vli_slab_word_free(word) > 0);
}

void vli_slabs_validate(struct vl_cache *cache)
{
    struct vli_slab_node *node = &cache->node[0];
    uint32_t previous = VLI_FRAME_LINK_NONE;
    uint32_t count = 0;
    uint32_t empty = 0;

    for (uint32_t at = node->partial; at != VLI_FRAME_LINK_NONE;
         at = vli_frame_of((struct vl_pfn){at})->next) {
        struct vl_frame *head = vli_frame_of((struct vl_pfn){at});

        VL_ASSERT(head->prev == previous);
        vli_slab_validate_one(cache, head, false);
        empty += is_empty(atomic_load_explicit(vli_slab_word(head), memory_order_relaxed));
        previous = at;
        count++;
    }
    VL_ASSERT(count == node->partial_count);
    VL_ASSERT(empty == node->empty_count);
}
