/*
 * table.h - the contract of page tables (F3): walk, map, unmap, protect, gather, freeing.
 *
 * The format is arch/'s (arch/pte.h); this floor knows levels, locks and TLBs, and no areas.
 *
 * Locks. Each table page has a spin lock in its own descriptor (index_low as vli_spinlock); a
 * leaf entry is changed under its page's lock. A missing upper entry is filled under the upper
 * page's lock; upper entries are removed only by vli_table_free_range(), whose caller excludes all
 * walkers of that range (space lock held for writing, or the last user). So a walker that holds
 * the space's lock for reading never meets a freed table page.
 *
 * TLB. Whoever removes or narrows an entry does so through a gather: the frame and the table page
 * are given back only after every CPU in table->cpus has flushed. Setting an entry that was empty
 * needs no flush; x86 does not cache absent entries.
 */
#ifndef VLI_TABLE_H
#define VLI_TABLE_H

#include "core/base/spinlock.h"
#include "core/frame/frame.h"
#include "core/table/table_state.h"
#include "arch/pte.h"

/** vli_table_init() - a fresh root (kernel half shared), no CPU uses it. Context: may fail. */
VL_MUST_CHECK enum vl_status vli_table_init(struct vli_table *table, vl_how_t how);
/** vli_table_destroy() - give the root back; all user entries are gone, no CPU uses it: asserted. */
void vli_table_destroy(struct vli_table *table);

/* A leaf table page, held locked: the entry asked for and its neighbours up to the page's end. */
struct vli_table_slot {
    _Atomic uint64_t *entry;   /* entry of the address asked for */
    struct vl_frame *page;     /* its table page, whose lock is held */
};

/**
 * vli_table_lock() - find the leaf table page of @va and lock it.
 * Returns: false (nothing held) when no leaf table page is there.
 * Locks: caller keeps table pages alive (see above); takes the page's lock, rank TABLE.
 */
VL_MUST_CHECK bool vli_table_lock(struct vli_table *table, vl_va va, struct vli_table_slot *out);

/**
 * vli_table_lock_alloc() - the same, making what is missing.
 * Returns: VL_OK or VL_ENOMEM. With VL_ATOMIC it may run under the space's lock.
 */
VL_MUST_CHECK enum vl_status vli_table_lock_alloc(struct vli_table *table, vl_va va, vl_how_t how,
                                                  struct vli_table_slot *out);
/** vli_table_unlock() - ends either. */
void vli_table_unlock(struct vli_table_slot *slot);

/** vli_table_peek() - the leaf entry's value at this moment, 0 when there is none. No lock. */
uint64_t vli_table_peek(struct vli_table *table, vl_va va);

/* ---- entries: all under the page's lock; counting resident pages is the caller's ---- */
/** vli_entry_set() - fill an empty entry, or widen one (same frame, more rights). */
void vli_entry_set(struct vli_table_slot *slot, vl_va va, uint64_t value);

/* ---- gather ---- */
#define VLI_GATHER_FRAMES 128u
#define VLI_GATHER_RANGES 8u

/* One batch of removals; lives on the stack of the one who unmaps. Frames and table pages wait in
 * it until the flush. What overflows is flushed early, so it never fails. */
struct vli_gather {
    struct vli_table *table;
    vl_va start, end;      /* hull of what must be flushed; empty when start >= end */
    bool whole;            /* everything of the table: it is going away */
    uint32_t frame_count;
    uint32_t table_first;  /* list of freed table pages by next, or LINK_NONE */
    struct vl_frame *frames[VLI_GATHER_FRAMES]; /* references to drop after the flush */
    /* Called for each frame when its reference was the last one; default vli_frame_put(f, 0). */
    void (*release)(struct vl_frame *frame);
};

/** vli_gather_begin() - @whole: the space is ending, nobody will use the table again. */
void vli_gather_begin(struct vli_gather *gather, struct vli_table *table, bool whole);

/**
 * vli_entry_clear() - empty an entry and return its old value; the range is added to the gather.
 * Accessed and dirty bits in the value are exact: the exchange is atomic against the MMU.
 */
uint64_t vli_entry_clear(struct vli_gather *gather, struct vli_table_slot *slot, vl_va va);
/** vli_entry_change() - replace a present entry (narrower rights, another frame); gathered. */
uint64_t vli_entry_change(struct vli_gather *gather, struct vli_table_slot *slot, vl_va va,
                          uint64_t value);
/** vli_gather_frame() - drop one reference on @frame after the flush. Returns true when the batch
 * is full: the caller leaves its spin locks and calls vli_gather_flush() before adding more. */
VL_MUST_CHECK bool vli_gather_frame(struct vli_gather *gather, struct vl_frame *frame);
/** vli_gather_flush() - flush now, then drop the frames. No spin lock held; may not be skipped. */
void vli_gather_flush(struct vli_gather *gather);
/** vli_gather_end() - the last flush. No spin lock held. */
void vli_gather_end(struct vli_gather *gather);

/* ---- freeing of table pages: strategy TABLES ---- */

/* One used range of the space: [start, end) was unmapped; table pages between @floor and @ceiling
 * that hold nothing else may go. floor: end of the area before; ceiling: start of the one after. */
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

/* ---- iteration for validation and fork ---- */
/** vli_table_next() - first present leaf table page at or after *@va and below @end: sets *@va to
 * the first address it covers (or keeps it, inside) and locks it. false: none. */
VL_MUST_CHECK bool vli_table_next(struct vli_table *table, vl_va *va, vl_va end,
                                  struct vli_table_slot *out);

/* ---- activation ---- */
/** vli_table_activate() - make @table (or the kernel's, NULL) active on this CPU; preemption off. */
void vli_table_activate(struct vli_table *table);
/** vli_table_set_kernel() - whose upper half new roots share. */
void vli_table_set_kernel(struct vl_pa root);
/** vli_table_drain() - the stocks of zeroed table pages of all CPUs go back to frame. */
void vli_table_drain(void);
/** vli_table_validate() - counts of table pages against a walk; panics. Quiescent. */
void vli_table_validate(struct vli_table *table);

#endif
