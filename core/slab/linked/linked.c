/*
 * linked.c - the slow paths: a CPU's current slab, the partial lists, new slabs and their end.
 * slab_state.h holds the theory.
 *
 * Orders. W is changed by compare-and-exchange with release when units are put on its list (their
 * links were written before) and with acquire by whoever takes the list or gives the slab back
 * (what the freers wrote comes before). Each change below is both.
 */
#include "core/slab/slab.h"
#include "core/slab/partial.h"
#include "core/slab/linked/word.h"
#include "core/base/event.h"
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

static uintptr_t slab_bytes(const struct vl_frame *head)
{
    return VL_PAGE_SIZE << slab_order(head);
}

/* Cuts a fresh block into units, linked in ascending order. */
static uint32_t slab_cut(struct vl_cache *cache, uintptr_t base, uintptr_t bytes)
{
    uint32_t units = (uint32_t)(bytes / cache->unit_bytes);
    uintptr_t unit = base;

    for (uint32_t i = 0; i < units; i++, unit += cache->unit_bytes) {
        vli_debug_unit_init(cache, unit);
        atomic_store_explicit(vli_unit_link(unit), i + 1 < units ? unit + cache->unit_bytes : 0,
                              memory_order_relaxed);
        if (cache->constructor != NULL) {
            cache->constructor((void *)(unit + cache->shift));
        }
    }
    return units;
}

/* A new slab, frozen, in no list; NULL when there is no memory. Context: as @how says. */
static struct vl_frame *slab_new(struct vl_cache *cache, vl_how_t how)
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
    atomic_fetch_add_explicit(&node->units, units, memory_order_relaxed);
    atomic_fetch_add_explicit(&node->frames, (uint64_t)1 << order, memory_order_relaxed);
    return head;
}

/* The units of a slab that goes are not counted any more. */
static void leave(struct vli_slab_node *node, struct vl_frame *head)
{
    atomic_fetch_sub_explicit(&node->units, vli_slab_units(head), memory_order_relaxed);
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
    vli_frame_put(head, order); /* which clears the parts of a slab, too */
    return (size_t)1 << order;
}

/* ----------------------------------------------------------------- units go back to their slab */

/* Units that go back together: a list of @count through the links, and what else changes. */
struct give {
    uintptr_t first;
    uintptr_t last;
    uint32_t count;
    bool unfreezes; /* the giver's CPU leaves the slab */
};

/* The word after @give; links the last unit to what the word has now. */
static uint64_t give_word(const struct give *give, uint64_t old, uintptr_t base)
{
    uint64_t frozen = give->unfreezes ? 0 : old & VLI_SLAB_FROZEN;

    if (give->count == 0) {
        return (old & ~VLI_SLAB_FROZEN) | frozen;
    }
    if (VLI_UNLIKELY(vli_slab_word_free(old) + give->count > vli_slab_word_units(old))) {
        vli_panic("0x%lx freed twice", (unsigned long)give->first);
    }
    atomic_store_explicit(vli_unit_link(give->last), vli_slab_word_list(old, base),
                          memory_order_relaxed);
    return vli_slab_word_make(give->first - base, vli_slab_word_free(old) + give->count,
                              vli_slab_word_units(old), frozen);
}

/* Is the slab in its node's list, as this word has it? */
static bool is_listed(uint64_t word)
{
    return (word & VLI_SLAB_FROZEN) == 0 && vli_slab_word_free(word) != 0;
}

static bool is_empty(uint64_t word)
{
    return vli_slab_word_free(word) == vli_slab_word_units(word);
}

/* The giving that moves the slab into or out of the list. False: the word is another by now. */
static bool give_locked(struct vl_cache *cache, struct vl_frame *head, uint64_t old, uint64_t fresh)
{
    struct vli_slab_node *node = node_of(cache, head);
    unsigned long flags = vli_spin_lock_irq(&node->lock, VLI_RANK_SLAB_NODE);
    bool ends = false;
    bool done;

    done = atomic_compare_exchange_strong_explicit(vli_slab_word(head), &old, fresh,
                                                   memory_order_acq_rel, memory_order_relaxed);
    if (done) {
        if (is_listed(old)) {
            vli_partial_remove(node, head);
        }
        ends = is_empty(fresh) && node->partial_count >= VLI_SLAB_KEPT;
        if (ends) {
            leave(node, head);
        } else {
            vli_partial_add(node, head, is_empty(fresh));
        }
    }
    vli_spin_unlock_irq(&node->lock, VLI_RANK_SLAB_NODE, flags);
    if (ends) {
        (void)slab_release(cache, head);
    }
    return done;
}

static void slab_give(struct vl_cache *cache, struct vl_frame *head, const struct give *give)
{
    uintptr_t base = (uintptr_t)vli_frame_virt(vli_frame_pfn(head));
    uint64_t old = atomic_load_explicit(vli_slab_word(head), memory_order_relaxed);
    uint64_t fresh;
    bool done;

    do {
        fresh = give_word(give, old, base);
        if (is_listed(fresh) && (!is_listed(old) || is_empty(fresh))) {
            done = give_locked(cache, head, old, fresh);
            if (!done) {
                old = atomic_load_explicit(vli_slab_word(head), memory_order_relaxed);
            }
        } else {
            done = atomic_compare_exchange_weak_explicit(
                vli_slab_word(head), &old, fresh, memory_order_acq_rel, memory_order_relaxed);
        }
    } while (!done);
}

void vli_slab_free_slow(struct vl_frame *frame, uintptr_t unit)
{
    struct give give = {unit, unit, 1, false};

    slab_give(vli_slab_cache(frame), vli_slab_head(frame), &give);
}

/* ------------------------------------------------------------------------ a CPU's current slab */

static void slot_set(struct vli_slab_slot *slot, uintptr_t base, uintptr_t bytes, uintptr_t list)
{
    atomic_store_explicit(&slot->base, base, memory_order_relaxed);
    atomic_store_explicit(&slot->bytes, bytes, memory_order_relaxed);
    vli_slot_set_list(slot, list);
}

/* The CPU leaves its current slab. Interrupts are off. */
static void slot_leave(struct vl_cache *cache, struct vli_slab_slot *slot)
{
    struct give give = {.first = vli_slot_list(slot), .unfreezes = true};
    struct vl_frame *head;

    if (vli_slot_bytes(slot) == 0) {
        return;
    }
    head = vli_virt_frame(vli_slot_base(slot));
    for (uintptr_t unit = give.first; unit != 0;
         unit = atomic_load_explicit(vli_unit_link(unit), memory_order_relaxed)) {
        give.last = unit;
        if (VLI_UNLIKELY(++give.count > vli_slab_units(head))) {
            vli_panic("a unit of cache %s freed twice", cache->name); /* the list is a ring */
        }
    }
    slot_set(slot, 0, 0, 0);
    slab_give(cache, head, &give);
}

/* All of W's list, which becomes empty; the slab is frozen, or stands under the node's lock and is
 * frozen by this. */
static uintptr_t word_take(struct vl_frame *head)
{
    uintptr_t base = (uintptr_t)vli_frame_virt(vli_frame_pfn(head));
    uint64_t old = atomic_load_explicit(vli_slab_word(head), memory_order_relaxed);
    uint64_t fresh;

    do {
        fresh = (uint64_t)vli_slab_word_units(old) << 32 | VLI_SLAB_FROZEN;
    } while (!atomic_compare_exchange_weak_explicit(vli_slab_word(head), &old, fresh,
                                                    memory_order_acq_rel, memory_order_relaxed));
    return vli_slab_word_list(old, base);
}

/* Makes the first partial slab the slot's. False: there is none. Interrupts are off. */
static bool slot_from_partial(struct vl_cache *cache, struct vli_slab_slot *slot)
{
    struct vli_slab_node *node = &cache->node[0];
    struct vl_frame *head = NULL;
    uintptr_t list = 0;
    unsigned long flags;

    flags = vli_spin_lock_irq(&node->lock, VLI_RANK_SLAB_NODE);
    if (node->partial_count != 0) {
        head = vli_frame_of((struct vl_pfn){node->partial});
        vli_partial_remove(node, head);
        list = word_take(head);
    }
    vli_spin_unlock_irq(&node->lock, VLI_RANK_SLAB_NODE, flags);
    if (head == NULL) {
        return false;
    }
    slot_set(slot, (uintptr_t)vli_frame_virt(vli_frame_pfn(head)), slab_bytes(head), list);
    return true;
}

/* Takes a unit, from the slot, from what others freed into its slab, or from a partial slab.
 * 0: a new slab is needed. Interrupts are off. */
static uintptr_t slot_take(struct vl_cache *cache, struct vli_slab_slot *slot)
{
    uintptr_t unit = vli_slot_list(slot);

    if (unit == 0 && vli_slot_bytes(slot) != 0) {
        unit = word_take(vli_virt_frame(vli_slot_base(slot)));
        if (unit == 0) {
            slot_leave(cache, slot); /* full, unless somebody frees into it just now */
        }
    }
    if (unit == 0 && slot_from_partial(cache, slot)) {
        unit = vli_slot_list(slot);
        VL_ASSERT(unit != 0);
    }
    if (unit != 0) {
        vli_slot_set_list(slot, atomic_load_explicit(vli_unit_link(unit), memory_order_relaxed));
    }
    return unit;
}

/* A new slab becomes the slot's, which may have got another one while memory was asked for.
 * Interrupts are off. */
static void slot_install(struct vl_cache *cache, struct vli_slab_slot *slot, struct vl_frame *head)
{
    uintptr_t base = (uintptr_t)vli_frame_virt(vli_frame_pfn(head));

    slot_leave(cache, slot);
    slot_set(slot, base, slab_bytes(head), word_take(head));
}

uintptr_t vli_slab_alloc_slow(struct vl_cache *cache, vl_how_t how)
{
    unsigned long flags = vl_host_irq_save();
    struct vl_frame *head;
    uintptr_t unit;

    unit = slot_take(cache, &vli_this_cpu()->slab.slot[cache->index]);
    vl_host_irq_restore(flags);
    if (unit != 0) {
        return unit;
    }
    head = slab_new(cache, how); /* may sleep, and wake up on another CPU */
    if (head == NULL) {
        return 0;
    }
    flags = vl_host_irq_save();
    slot_install(cache, &vli_this_cpu()->slab.slot[cache->index], head);
    unit = slot_take(cache, &vli_this_cpu()->slab.slot[cache->index]);
    vl_host_irq_restore(flags);
    return unit;
}

/* ---------------------------------------------------------------------------- several at once */

/* Units that move while interrupts are off. */
#define BATCH_MAX 64u

size_t vli_slot_pop_batch(size_t index, size_t count, void **out)
{
    unsigned long flags = vl_host_irq_save();
    struct vli_slab_slot *slot = &vli_this_cpu()->slab.slot[index];
    uintptr_t unit = vli_slot_list(slot);
    size_t had = 0;

    count = count < BATCH_MAX ? count : BATCH_MAX;
    for (; had < count && unit != 0; had++) {
        out[had] = (void *)unit;
        unit = atomic_load_explicit(vli_unit_link(unit), memory_order_relaxed);
    }
    if (had != 0) {
        vli_slot_set_list(slot, unit);
    }
    vl_host_irq_restore(flags);
    return had;
}

size_t vli_slot_push_batch(size_t index, uint32_t shift, size_t count, void *const *objects)
{
    unsigned long flags = vl_host_irq_save();
    struct vli_slab_slot *slot = &vli_this_cpu()->slab.slot[index];
    uintptr_t list = vli_slot_list(slot);
    size_t kept = 0;

    count = count < BATCH_MAX ? count : BATCH_MAX;
    for (; kept < count; kept++) {
        uintptr_t unit = (uintptr_t)objects[kept] - shift;

        if (unit - vli_slot_base(slot) >= vli_slot_bytes(slot)) {
            break;
        }
        atomic_store_explicit(vli_unit_link(unit), list, memory_order_relaxed);
        list = unit;
    }
    if (kept != 0) {
        vli_slot_set_list(slot, list);
    }
    vl_host_irq_restore(flags);
    return kept;
}

/* Those of one slab go as one list, by one exchange of its word. */
size_t vli_slab_free_run(struct vl_frame *frame, uint32_t shift, size_t count, void *const *objects)
{
    struct vl_frame *head = vli_slab_head(frame);
    uintptr_t base = (uintptr_t)vli_frame_virt(vli_frame_pfn(head));
    uintptr_t unit = (uintptr_t)objects[0] - shift;
    struct give give = {unit, unit, 1, false};

    VL_ASSERT(vli_frame_type(frame) == VLI_FRAME_SLAB);
    count = count < BATCH_MAX ? count : BATCH_MAX;
    for (; give.count < count; give.count++) {
        unit = (uintptr_t)objects[give.count] - shift;
        if (unit - base >= slab_bytes(head)) {
            break;
        }
        atomic_store_explicit(vli_unit_link(give.last), unit, memory_order_relaxed);
        give.last = unit;
    }
    slab_give(vli_slab_cache(frame), head, &give);
    return give.count;
}

/* ------------------------------------------------------------------------------- giving it up */

/* Runs on each CPU, interrupts off. */
static void flush_cpu(void *arg, unsigned cpu)
{
    struct vli_percpu *area = vli_percpu_of(cpu);
    struct vl_cache *only = arg;

    if (only != NULL) {
        slot_leave(only, &area->slab.slot[only->index]);
        return;
    }
    for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
        slot_leave(&vli_caches[i], &area->slab.slot[i]);
    }
}

static void call_all(void (*fn)(void *arg, unsigned cpu), void *arg)
{
    struct vl_cpumask all = {{0}};
    unsigned count = vl_host_cpu_count();

    for (unsigned cpu = 0; cpu < count; cpu++) {
        all.word[cpu / 64] |= (uint64_t)1 << (cpu % 64);
    }
    vl_host_cpu_call(&all, fn, arg);
}

void vli_slab_flush(struct vl_cache *cache)
{
    call_all(flush_cpu, cache);
}

size_t vli_slab_release_empty(struct vl_cache *cache)
{
    struct vli_slab_node *node = &cache->node[0];
    struct vl_frame *head;
    uint32_t next;
    uint32_t chain = VLI_FRAME_LINK_NONE; /* taken off the list, linked by next */
    size_t frames = 0;
    unsigned long flags = vli_spin_lock_irq(&node->lock, VLI_RANK_SLAB_NODE);

    for (uint32_t at = node->partial; at != VLI_FRAME_LINK_NONE; at = next) {
        head = vli_frame_of((struct vl_pfn){at});
        next = head->next;
        /* Acquire: pairs with the release of whoever freed the last unit. */
        if (is_empty(atomic_load_explicit(vli_slab_word(head), memory_order_acquire))) {
            vli_partial_remove(node, head);
            leave(node, head);
            head->next = chain;
            chain = at;
        }
    }
    vli_spin_unlock_irq(&node->lock, VLI_RANK_SLAB_NODE, flags);
    for (; chain != VLI_FRAME_LINK_NONE; chain = next) {
        head = vli_frame_of((struct vl_pfn){chain});
        next = head->next;
        frames += slab_release(cache, head);
    }
    return frames;
}

/* --------------------------------------------------------------------- beginnings and figures */

enum vl_status vli_slab_start(void)
{
    unsigned count = vl_host_cpu_count();

    for (unsigned cpu = 0; cpu < count; cpu++) {
        for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
            atomic_store_explicit(&vli_percpu_of(cpu)->slab.slot[i].id, cpu, memory_order_relaxed);
        }
    }
    return VL_OK;
}

void vli_slab_layout(struct vl_cache *cache)
{
    for (unsigned i = 0; i < VLI_SLAB_NODES; i++) {
        struct vli_slab_node *node = &cache->node[i];

        unsigned long flags = vli_spin_lock_irq(&node->lock, VLI_RANK_SLAB_NODE);

        node->partial = VLI_FRAME_LINK_NONE;
        node->partial_last = VLI_FRAME_LINK_NONE;
        node->partial_count = 0;
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

/* Free units of the slabs in CPUs' slots. */
struct kept {
    struct vl_cache *cache;
    _Atomic uint64_t units;
};

/* Runs on each CPU, interrupts off: nobody changes its list meanwhile; others may free to the
 * slab. */
static void count_cpu(void *arg, unsigned cpu)
{
    struct kept *kept = arg;
    const struct vli_slab_slot *slot = &vli_percpu_of(cpu)->slab.slot[kept->cache->index];
    uint64_t units = 0;

    if (vli_slot_bytes(slot) == 0) {
        return;
    }
    for (uintptr_t unit = vli_slot_list(slot); unit != 0;
         unit = atomic_load_explicit(vli_unit_link(unit), memory_order_relaxed)) {
        units++;
    }
    units += vli_slab_word_free(atomic_load_explicit(
        vli_slab_word(vli_virt_frame(vli_slot_base(slot))), memory_order_relaxed));
    atomic_fetch_add_explicit(&kept->units, units, memory_order_relaxed);
}

uint64_t vli_slab_units_free(struct vl_cache *cache)
{
    struct vli_slab_node *node = &cache->node[0];
    struct kept kept = {.cache = cache};
    unsigned long flags;
    uint64_t free;

    call_all(count_cpu, &kept);
    free = atomic_load_explicit(&kept.units, memory_order_relaxed);
    flags = vli_spin_lock_irq(&node->lock, VLI_RANK_SLAB_NODE);
    for (uint32_t at = node->partial; at != VLI_FRAME_LINK_NONE;
         at = vli_frame_of((struct vl_pfn){at})->next) {
        free += vli_slab_word_free(atomic_load_explicit(
            vli_slab_word(vli_frame_of((struct vl_pfn){at})), memory_order_relaxed));
    }
    vli_spin_unlock_irq(&node->lock, VLI_RANK_SLAB_NODE, flags);
    return free;
}

/* A list of free units inside [base, base + bytes): its length, at most @max. */
static uint32_t list_validate(const struct vl_cache *cache, uintptr_t list, uintptr_t base,
                              uintptr_t bytes, uint32_t max)
{
    uint32_t count = 0;

    for (; list != 0; list = atomic_load_explicit(vli_unit_link(list), memory_order_relaxed)) {
        VL_ASSERT(list - base < bytes);
        VL_ASSERT((list - base) % cache->unit_bytes == 0);
        VL_ASSERT(count < max);
        count++;
    }
    return count;
}

static void slab_validate(const struct vl_cache *cache, struct vl_frame *head, bool frozen)
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
    VL_ASSERT(list_validate(cache, vli_slab_word_list(word, base), base, VL_PAGE_SIZE << order,
                            vli_slab_word_units(word)) == vli_slab_word_free(word));
    VL_ASSERT(frozen || vli_slab_word_free(word) > 0);
}

void vli_slab_validate(void)
{
    unsigned cpus = vl_host_cpu_count();

    for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
        struct vli_slab_node *node = &vli_caches[i].node[0];
        uint32_t previous = VLI_FRAME_LINK_NONE;
        uint32_t count = 0;

        for (uint32_t at = node->partial; at != VLI_FRAME_LINK_NONE;
             at = vli_frame_of((struct vl_pfn){at})->next) {
            VL_ASSERT(vli_frame_of((struct vl_pfn){at})->prev == previous);
            slab_validate(&vli_caches[i], vli_frame_of((struct vl_pfn){at}), false);
            previous = at;
            count++;
        }
        VL_ASSERT(count == node->partial_count);
        for (unsigned cpu = 0; cpu < cpus; cpu++) {
            struct vli_slab_slot *slot = &vli_percpu_of(cpu)->slab.slot[i];

            if (vli_slot_bytes(slot) != 0) {
                slab_validate(&vli_caches[i], vli_virt_frame(vli_slot_base(slot)), true);
                (void)list_validate(&vli_caches[i], vli_slot_list(slot), vli_slot_base(slot),
                                    vli_slot_bytes(slot),
                                    (uint32_t)(vli_slot_bytes(slot) / vli_caches[i].unit_bytes));
            }
        }
    }
}
