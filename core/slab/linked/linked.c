/*
 * linked.c - a CPU's current slab, which slow paths change with interrupts off. slab_state.h holds
 * the theory, slabs.c the slabs. (In a process: ../linked_rseq/.)
 */
#include "core/slab/linked/slabs.h"
#include "core/base/log.h"

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
    struct vli_slabs_give give = {.first = vli_slot_list(slot), .unfreezes = true};
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
    (void)vli_slabs_give(cache, head, &give);
}

/* Makes the first partial slab the slot's. False: there is none. Interrupts are off. */
static bool slot_from_partial(struct vl_cache *cache, struct vli_slab_slot *slot)
{
    uintptr_t list = 0;
    struct vl_frame *head = vli_slabs_take_partial(cache, &list);

    if (head == NULL) {
        return false;
    }
    slot_set(slot, (uintptr_t)vli_frame_virt(vli_frame_pfn(head)), vli_slabs_bytes(head), list);
    return true;
}

/* Makes the first of the CPU's own partial slabs the slot's. False: it has none. Interrupts are
 * off. */
static bool slot_from_spare(struct vl_cache *cache, struct vli_slab_percpu *area)
{
    struct vli_slab_spare *spare = &area->spare[cache->index];
    struct vl_frame *head;

    if (spare->count == 0) {
        return false;
    }
    head = vli_frame_of((struct vl_pfn){spare->first});
    spare->first = head->next;
    spare->count--;
    slot_set(&area->slot[cache->index], (uintptr_t)vli_frame_virt(vli_frame_pfn(head)),
             vli_slabs_bytes(head), vli_slabs_take(head));
    return true;
}

/* Takes a unit, from the slot, from what others freed into its slab, or from a partial slab.
 * 0: a new slab is needed. Interrupts are off. */
static uintptr_t slot_take(struct vl_cache *cache, struct vli_slab_percpu *area)
{
    struct vli_slab_slot *slot = &area->slot[cache->index];
    uintptr_t unit = vli_slot_list(slot);

    if (unit == 0 && vli_slot_bytes(slot) != 0) {
        unit = vli_slabs_take(vli_virt_frame(vli_slot_base(slot)));
        if (unit == 0) {
            slot_leave(cache, slot); /* full, unless somebody frees into it just now */
        }
    }
    if (unit == 0 && (slot_from_spare(cache, area) || slot_from_partial(cache, slot))) {
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
    slot_set(slot, base, vli_slabs_bytes(head), vli_slabs_take(head));
}

uintptr_t vli_slab_alloc_slow(struct vl_cache *cache, vl_how_t how)
{
    unsigned long flags = vl_host_irq_save();
    struct vl_frame *head;
    uintptr_t unit;

    unit = slot_take(cache, &vli_this_cpu()->slab);
    vl_host_irq_restore(flags);
    if (unit != 0) {
        return unit;
    }
    head = vli_slabs_new(cache, how); /* may sleep, and wake up on another CPU */
    if (head == NULL) {
        return 0;
    }
    flags = vl_host_irq_save();
    slot_install(cache, &vli_this_cpu()->slab.slot[cache->index], head);
    unit = slot_take(cache, &vli_this_cpu()->slab);
    vl_host_irq_restore(flags);
    return unit;
}

void vli_slabs_keep(struct vl_cache *cache, struct vl_frame *head, uint32_t most)
{
    unsigned long flags = vl_host_irq_save();
    struct vli_slab_spare *spare = &vli_this_cpu()->slab.spare[cache->index];
    struct vli_slab_spare out = {0, 0};

    if (spare->count >= most) {
        out = *spare;
        spare->count = 0;
    }
    head->next = spare->first;
    spare->first = vli_frame_pfn(head).n;
    spare->count++;
    vl_host_irq_restore(flags);
    if (out.count != 0) {
        vli_slabs_unfreeze(cache, out.first, out.count);
    }
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

/* ------------------------------------------------------------------------------- giving it up */

/* Interrupts are off on that CPU. */
static void flush_one(struct vl_cache *cache, struct vli_slab_percpu *area)
{
    struct vli_slab_spare *spare = &area->spare[cache->index];

    slot_leave(cache, &area->slot[cache->index]);
    if (spare->count != 0) {
        vli_slabs_unfreeze(cache, spare->first, spare->count);
        spare->count = 0;
    }
}

/* Runs on each CPU, interrupts off. */
static void flush_cpu(void *arg, unsigned cpu)
{
    struct vli_percpu *area = vli_percpu_of(cpu);
    struct vl_cache *only = arg;

    if (only != NULL) {
        flush_one(only, &area->slab);
        return;
    }
    for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
        flush_one(&vli_caches[i], &area->slab);
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
    vli_slabs_layout(cache);
}

/* Free units of the slabs in CPUs' slots, and of their own partial ones. */
struct kept {
    struct vl_cache *cache;
    _Atomic uint64_t units;
};

/* Runs on each CPU, interrupts off: nobody changes its lists meanwhile; others may free to the
 * slabs. */
static void count_cpu(void *arg, unsigned cpu)
{
    struct kept *kept = arg;
    const struct vli_slab_percpu *area = &vli_percpu_of(cpu)->slab;
    const struct vli_slab_slot *slot = &area->slot[kept->cache->index];
    struct vli_slab_spare spare = area->spare[kept->cache->index];
    uint64_t units = 0;

    if (vli_slot_bytes(slot) != 0) {
        units = vli_slabs_free_of(vli_virt_frame(vli_slot_base(slot)));
        for (uintptr_t unit = vli_slot_list(slot); unit != 0;
             unit = atomic_load_explicit(vli_unit_link(unit), memory_order_relaxed)) {
            units++;
        }
    }
    for (; spare.count > 0; spare.count--) {
        struct vl_frame *head = vli_frame_of((struct vl_pfn){spare.first});

        units += vli_slabs_free_of(head);
        spare.first = head->next;
    }
    atomic_fetch_add_explicit(&kept->units, units, memory_order_relaxed);
}

uint64_t vli_slab_units_free(struct vl_cache *cache)
{
    struct kept kept = {.cache = cache};

    call_all(count_cpu, &kept);
    return atomic_load_explicit(&kept.units, memory_order_relaxed) + vli_slabs_units_free(cache);
}

static void cpu_validate(const struct vl_cache *cache, const struct vli_slab_percpu *area)
{
    const struct vli_slab_slot *slot = &area->slot[cache->index];
    struct vli_slab_spare spare = area->spare[cache->index];

    if (vli_slot_bytes(slot) != 0) {
        vli_slab_validate_one(cache, vli_virt_frame(vli_slot_base(slot)), true);
        (void)vli_list_validate(cache, vli_slot_list(slot), vli_slot_base(slot),
                                vli_slot_bytes(slot),
                                (uint32_t)(vli_slot_bytes(slot) / cache->unit_bytes));
    }
    VL_ASSERT(spare.count <= VLI_SLAB_SPARE_MAX);
    for (; spare.count > 0; spare.count--) {
        struct vl_frame *head = vli_frame_of((struct vl_pfn){spare.first});

        vli_slab_validate_one(cache, head, true);
        VL_ASSERT(vli_slabs_free_of(head) > 0);
        spare.first = head->next;
    }
}

void vli_slab_validate(void)
{
    for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
        vli_slabs_validate(&vli_caches[i]);
        for (unsigned cpu = 0; cpu < vl_host_cpu_count(); cpu++) {
            cpu_validate(&vli_caches[i], &vli_percpu_of(cpu)->slab);
        }
    }
}
