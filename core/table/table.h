/*
 * table.h - the contract of page tables (F3): walk, map, unmap, protect, gather, freeing.
 *
 * The format is arch/'s (arch/pte.h); this floor knows levels, locks and TLBs, and no areas.
 *
 * Locks. Each table page has a spin lock in its own descriptor (index_low as vli_spinlock); a
 * leaf entry is changed under its page's lock. A missing upper entry is filled by one
 * compare-and-exchange, without a lock; upper entries are emptied only by vli_table_free_spans(),
 * whose caller excludes all walkers of that range: the space's lock is held for writing (or this
 * is the last user), and the areas that went are no longer found by the reverse map. So a walker
 * that holds the space's lock for reading, or rmap's lock of an area that is still linked, never
 * meets a freed table page.
 *
 * TLB. Whoever removes or narrows an entry does so through a gather: the frame and the table page
 * are given back only after every CPU in table->cpus has flushed. Setting an entry that was empty
 * needs no flush; x86 does not cache absent entries. Why no CPU is missed: gather.c.
 *
 * Table pages come back zero, because whoever frees one has emptied all its entries, and are kept
 * so in per-CPU stocks: a new one needs no zeroing. Debug builds check each.
 *
 * The usual loops:
 *
 *     for (va = start; vli_table_next(table, &va, end, &slot);) {         unmap, protect
 *         stop = vli_table_leaf_end(va, end);
 *         for (; va < stop && !full; va += VL_PAGE_SIZE, slot.entry++) {
 *             old = vli_entry_clear(&gather, &slot, va); ...
 *         }
 *         vli_table_unlock(&slot);
 *         if (full) vli_gather_flush(&gather);
 *     }
 *     for (va = start; (status = vli_table_next_pair(from, to, &va, end, &src, &dst)) == VL_OK;) {
 *         stop = vli_table_leaf_end(va, end); ...                          fork
 *         vli_table_unlock_pair(&src, &dst);
 *     }
 */
#ifndef VLI_TABLE_H
#define VLI_TABLE_H

#include "core/base/spinlock.h"
#include "core/frame/frame.h"
#include "core/table/table_state.h"
#include "arch/pte.h"

/* End of the addresses that a root's user half covers. */
#define VLI_TABLE_USER_END ((vl_va)VLI_ROOT_USER << (VL_PAGE_SHIFT + 3u * VLI_TABLE_BITS))

/** vli_table_init() - a fresh root (kernel half shared), no CPU uses it. Context: may fail. */
VL_MUST_CHECK enum vl_status vli_table_init(struct vli_table *table, vl_how_t how);
/** vli_table_destroy() - give the root back; all user entries are gone, no CPU uses it: asserted.
 */
void vli_table_destroy(struct vli_table *table);

/* A leaf table page, held locked: the entry asked for and its neighbours up to the page's end. */
struct vli_table_slot {
    _Atomic uint64_t *entry; /* entry of the address asked for */
    struct vl_frame *page;   /* its table page, whose lock is held */
};

/** vli_table_page_lock() - the lock of a table page, in its descriptor. */
static inline struct vli_spinlock *vli_table_page_lock(struct vl_frame *page)
{
    return (struct vli_spinlock *)(void *)&page->index_low;
}

/** vli_table_entries() - the entries of the table page that an upper entry points to. */
static inline _Atomic uint64_t *vli_table_entries(uint64_t link)
{
    return (_Atomic uint64_t *)vl_host_phys_to_virt((struct vl_pa){link & VLI_PTE_FRAME});
}

/**
 * vli_table_lock() - find the leaf table page of @va and lock it.
 * Returns: false (nothing held) when no leaf table page is there.
 * Locks: caller keeps table pages alive (see above); takes the page's lock, rank TABLE.
 */
VL_MUST_CHECK bool vli_table_lock(struct vli_table *table, vl_va va, struct vli_table_slot *out);

/**
 * vli_table_lock_alloc() - the same, making what is missing.
 * Returns: VL_OK or VL_ENOMEM. With VL_ATOMIC it may run under the space's lock; after VL_ENOMEM
 * leave the locks, call vli_table_reserve() and come back.
 */
VL_MUST_CHECK enum vl_status vli_table_lock_alloc(struct vli_table *table, vl_va va, vl_how_t how,
                                                  struct vli_table_slot *out);

/** vli_table_find_alloc() - vli_table_lock_alloc() without taking the lock: a fault looks at the
 * entry and prepares a frame before it calls vli_table_relock(). VL_OK or VL_ENOMEM. */
VL_MUST_CHECK enum vl_status vli_table_find_alloc(struct vli_table *table, vl_va va, vl_how_t how,
                                                  struct vli_table_slot *out);
/** vli_table_relock() - take the lock of a slot found before; the caller has kept table pages alive
 * since then. The entry may have changed. */
static inline void vli_table_relock(struct vli_table_slot *slot) VL_NO_LOCK_CHECK
{
    vli_spin_lock(vli_table_page_lock(slot->page), VLI_RANK_TABLE);
}

/** vli_table_unlock() - ends either. */
static inline void vli_table_unlock(struct vli_table_slot *slot) VL_NO_LOCK_CHECK
{
    vli_spin_unlock(vli_table_page_lock(slot->page), VLI_RANK_TABLE);
}

/** vli_table_reserve() - see that this CPU's stock has as many table pages as one walk can need.
 * Context: as @how says. Returns: VL_OK or VL_ENOMEM. */
VL_MUST_CHECK enum vl_status vli_table_reserve(vl_how_t how);

/** vli_table_peek() - the leaf entry's value at this moment, 0 when there is none. No lock; the
 * caller keeps table pages alive. */
uint64_t vli_table_peek(struct vli_table *table, vl_va va);

/** vli_table_leaf_end() - where the leaf table page of @va ends, but at most @end. */
static inline vl_va vli_table_leaf_end(vl_va va, vl_va end)
{
    vl_va stop = (va | (vl_va)(vli_table_reach(1) - 1)) + 1;

    return stop < end ? stop : end;
}

/* ---- entries: all under the page's lock; counting resident pages is the caller's ---- */

/** vli_entry_load() - the entry's value; only the MMU's accessed and dirty bits may change. */
static inline uint64_t vli_entry_load(const struct vli_table_slot *slot)
{
    return atomic_load_explicit(slot->entry, memory_order_relaxed);
}

/** vli_entry_skip_empty() - from @va on to the next entry that is not empty, or to @stop, which the
 * slot's page reaches. Moves the slot; returns the address. Four at a time: exits and forks look at
 * thousands of empty entries. */
static inline vl_va vli_entry_skip_empty(struct vli_table_slot *slot, vl_va va, vl_va stop)
{
    _Atomic uint64_t *entry = slot->entry;
    _Atomic uint64_t *end = entry + ((stop - va) >> VL_PAGE_SHIFT);

    while (end - entry >= 4 && (atomic_load_explicit(&entry[0], memory_order_relaxed) |
                                atomic_load_explicit(&entry[1], memory_order_relaxed) |
                                atomic_load_explicit(&entry[2], memory_order_relaxed) |
                                atomic_load_explicit(&entry[3], memory_order_relaxed)) == 0) {
        entry += 4;
    }
    while (entry < end && atomic_load_explicit(entry, memory_order_relaxed) == 0) {
        entry++;
    }
    va += (vl_va)(entry - slot->entry) << VL_PAGE_SHIFT;
    slot->entry = entry;
    return va;
}

/** vli_entry_widen() - out of line part of vli_entry_set(): a present entry gets more rights. */
void vli_entry_widen(struct vli_table_slot *slot, uint64_t value);

/** vli_entry_set() - fill an empty entry, or widen one (same frame, more rights; accessed and dirty
 * bits that the MMU set are kept). Neither needs a flush: an old translation faults once more. */
static inline void vli_entry_set(struct vli_table_slot *slot, vl_va va, uint64_t value)
{
    (void)va;
    if (VLI_UNLIKELY(vli_pte_is_present(vli_entry_load(slot)))) {
        vli_entry_widen(slot, value);
        return;
    }
    VLI_EVENT(VL_EVENT_PTE_SET, (uintptr_t)slot->entry, value);
    /* Release: the frame's contents come before the entry that shows them to the MMU. */
    atomic_store_explicit(slot->entry, value, memory_order_release);
}

/* ---- gather ---- */
#define VLI_GATHER_FRAMES 128u

/* One batch of removals; lives on the stack of the one who unmaps. Frames and table pages wait in
 * it until the flush. */
struct vli_gather {
    struct vli_table *table;
    vl_va start, end; /* hull of what must be flushed; empty when start >= end */
    bool whole;       /* everything of the table: it is going away and no CPU uses it */
    uint32_t frame_count;
    uint32_t table_first;                       /* freed table pages, by next, or LINK_NONE */
    vl_va leaf_start;                           /* what the last leaf page met covers from on */
    struct vl_frame *leaf;                      /* that page, while the gather frees no tables */
    struct vl_frame *frames[VLI_GATHER_FRAMES]; /* references to drop after the flush */
    /* Called for each frame when its reference was the last one; default: back to frame, in bulk.
     */
    void (*release)(struct vl_frame *frame);
};

/**
 * vli_gather_begin() - an empty batch.
 * @whole: the space is ending and nobody will use the table again. CPUs that still have it active
 *         without need leave it here and now; after that nothing of it needs a flush.
 * Context: thread, interrupts on, no spin lock held.
 */
void vli_gather_begin(struct vli_gather *gather, struct vli_table *table, bool whole);

/** vli_gather_range() - @start to @end must be flushed: something in it was removed or narrowed. */
static inline void vli_gather_range(struct vli_gather *gather, vl_va start, vl_va end)
{
    gather->start = start < gather->start ? start : gather->start;
    gather->end = end > gather->end ? end : gather->end;
}

/**
 * vli_entry_clear() - empty an entry and return its old value (0: it was empty already); the range
 * is added to the gather. Accessed and dirty bits in the value are exact: the exchange is atomic
 * against the MMU.
 */
static inline uint64_t vli_entry_clear(struct vli_gather *gather, struct vli_table_slot *slot,
                                       vl_va va)
{
    uint64_t old = vli_entry_load(slot);

    if (old == 0) {
        return 0;
    }
    if (gather->whole) {
        /* No CPU walks it, so there is no dirty bit to lose. */
        atomic_store_explicit(slot->entry, 0, memory_order_relaxed);
    } else {
        /* Sequentially consistent: comes before the look at table->cpus in the flush. */
        old = atomic_exchange_explicit(slot->entry, 0, memory_order_seq_cst);
        vli_gather_range(gather, va, va + VL_PAGE_SIZE);
    }
    VLI_EVENT(VL_EVENT_PTE_CLEAR, (uintptr_t)slot->entry, old);
    return old;
}

/** vli_entry_take() - vli_entry_clear() of an entry that is not empty, for loops: the caller adds
 * the range to the gather himself, before he leaves the page's lock. */
static inline uint64_t vli_entry_take(const struct vli_gather *gather, struct vli_table_slot *slot)
{
    uint64_t old;

    if (gather->whole) {
        old = vli_entry_load(slot);
        atomic_store_explicit(slot->entry, 0, memory_order_relaxed);
    } else {
        /* Sequentially consistent: as in vli_entry_clear(). */
        old = atomic_exchange_explicit(slot->entry, 0, memory_order_seq_cst);
    }
    VLI_EVENT(VL_EVENT_PTE_CLEAR, (uintptr_t)slot->entry, old);
    return old;
}

/** vli_entry_change() - replace a present entry (narrower rights, another frame); gathered. The old
 * value is returned with exact accessed and dirty bits; they are not carried over. */
uint64_t vli_entry_change(struct vli_gather *gather, struct vli_table_slot *slot, vl_va va,
                          uint64_t value);

/** vli_entry_narrow() - take the bits @clear out of a present entry and put the bits @set in (out:
 * VLI_PTE_WRITE; in: VLI_PTE_NX), keeping frame, accessed and dirty bits; gathered. Returns the old
 * value. */
uint64_t vli_entry_narrow(struct vli_gather *gather, struct vli_table_slot *slot, vl_va va,
                          uint64_t clear, uint64_t set);

/** vli_gather_frame() - drop one reference on @frame after the flush. Returns true when the batch
 * is full: the caller leaves its spin locks and calls vli_gather_flush() before adding more. */
VL_MUST_CHECK static inline bool vli_gather_frame(struct vli_gather *gather, struct vl_frame *frame)
{
    VL_ASSERT(gather->frame_count < VLI_GATHER_FRAMES);
    gather->frames[gather->frame_count++] = frame;
    return gather->frame_count == VLI_GATHER_FRAMES;
}

/** vli_gather_flush() - flush now, then drop the frames. Context: thread, interrupts on, no spin
 * lock held. May not be skipped when vli_gather_frame() said so. */
void vli_gather_flush(struct vli_gather *gather);
/** vli_gather_end() - the last flush. Context: as vli_gather_flush(). */
void vli_gather_end(struct vli_gather *gather);

/* ---- freeing of table pages: strategy TABLES ---- */

/*
 * One removed range of the space: [start, end) was unmapped, and no entry under it is left. Table
 * pages between @floor and @ceiling that hold nothing else may go. floor: end of the nearest area
 * below that stays (0: none); ceiling: start of the nearest area above (VL_USER_END or more:
 * none), be it one that stays or the next span. All spans of one call have the same floor: nothing
 * that stays lies between them.
 */
struct vli_table_span {
    vl_va start, end;
    vl_va floor, ceiling;
};

/* Gives the spans in ascending order; false at the end. */
typedef bool vli_table_span_fn(void *ctx, struct vli_table_span *out);

/**
 * vli_table_free_spans() - free the table pages under the spans through the gather. All leaf
 * entries in them are empty (asserted in debug builds). TABLES=areas follows the spans and joins
 * neighbours that share a table page; TABLES=scan clears the whole extent from the first span's
 * floor to the last one's ceiling.
 * Locks: the caller excludes walkers of the spans.
 */
void vli_table_free_spans(struct vli_gather *gather, vli_table_span_fn *next, void *ctx);

/* ---- iteration ---- */
/** vli_table_next() - first present leaf table page at or after *@va and below @end: sets *@va to
 * the first address it covers (or keeps it, inside) and locks it. false: none. */
VL_MUST_CHECK bool vli_table_next(struct vli_table *table, vl_va *va, vl_va end,
                                  struct vli_table_slot *out);

/**
 * vli_table_next_pair() - for fork: find the first entry of @from that is not empty at or after
 * *@va and below @end, set *@va to its address, and lock its leaf table page in @from and then the
 * one of the same address in @to, which is made if it is missing (VL_ATOMIC).
 * Returns: VL_OK; VL_ENOENT: nothing more (nothing held); VL_ENOMEM (nothing held; *@va is where to
 * go on).
 * Locks: rank TABLE for @from's page, TABLE_LOWER for @to's, inside the first.
 */
VL_MUST_CHECK enum vl_status vli_table_next_pair(struct vli_table *from, struct vli_table *to,
                                                 vl_va *va, vl_va end, struct vli_table_slot *src,
                                                 struct vli_table_slot *dst);
/** vli_table_unlock_pair() - ends it. */
static inline void vli_table_unlock_pair(struct vli_table_slot *src,
                                         struct vli_table_slot *dst) VL_NO_LOCK_CHECK
{
    vli_spin_unlock(vli_table_page_lock(dst->page), VLI_RANK_TABLE_LOWER);
    vli_spin_unlock(vli_table_page_lock(src->page), VLI_RANK_TABLE);
}

/* ---- activation ---- */
/** vli_table_activate() - make @table (or the kernel's, NULL) active on this CPU. Context:
 * preemption off; any. */
void vli_table_activate(struct vli_table *table);
/** vli_table_set_kernel() - whose upper half new roots share. Its non-empty upper root entries are
 * remembered now: the kernel fills those that it will ever need before. Address 0: there is none.
 */
void vli_table_set_kernel(struct vl_pa root);
/** vli_table_drain() - the stocks of zeroed table pages of all CPUs go back to frame. Returns how
 * many. Context: thread or interrupt-free; no lock of rank COUNT_TREE or below held. */
size_t vli_table_drain(void);
/** vli_table_validate() - counts of table pages against a walk; panics. Quiescent. */
void vli_table_validate(struct vli_table *table);

#endif
