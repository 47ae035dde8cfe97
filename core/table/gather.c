/*
 * gather.c - batches of removals, TLB flushes, freeing of table pages, and which CPU uses what.
 *
 * Why no CPU is missed. A CPU that activates a table first sets its bit in table->cpus, then loads
 * the root, and only then can fill its TLB from it. One who removes an entry first writes the
 * entry, then looks at table->cpus; both steps of both are sequentially consistent. So either the
 * remover sees the bit, and sends a flush, or the activator's walks see the entry gone. A CPU that
 * leaves a table clears its bit only after the new root's load, which on x86 without PCIDs drops
 * everything that is not global. A CPU without its bit set therefore holds nothing.
 *
 * A CPU may stay on a table that no thread of it uses (lazily: a kernel thread runs). It still
 * has its bit and is flushed as others are, since a speculative walk may go through any entry and
 * any table page. Only the end of a table throws it out: vli_gather_begin(whole) marks the table
 * as ending, and the flush that it sends makes such a CPU go over to the kernel's root. After that
 * no bit is set and no entry of the table needs a flush one by one.
 *
 * Order in a flush: entries were emptied; this CPU's TLB, the others'; then the frames and the
 * table pages go back. (Linux mmu_gather has the same order; it batches in chained pages, this one
 * in one array on the stack that is flushed when full, so that it cannot fail.)
 */
#include <vellum/space.h>
#include "core/table/mutant.h"
#include "core/table/table_page.h"

/* Beyond so many pages everything is flushed: a page costs about 100 cycles, refilling a TLB of
 * 64 hot entries some thousands. */
#define FLUSH_PAGES_MAX 33u

#if defined(VLI_MUTANTS)
unsigned vli_mutant;
#endif

static struct vl_pa kernel_root;

void vli_table_set_kernel(struct vl_pa root)
{
    kernel_root = root;
    vli_table_set_kernel_half(root);
}

void vli_table_activate(struct vli_table *table)
{
    unsigned long flags = vl_host_irq_save();
    struct vli_percpu *cpu = vli_this_cpu();
    struct vli_table *old = cpu->table.active;
    uint64_t bit = 1ull << (cpu->cpu % 64u);
    unsigned word = cpu->cpu / 64u;

    if (old != table) {
        if (table != NULL) {
            VL_ASSERT(!atomic_load_explicit(&table->ending, memory_order_relaxed));
            /* Sequentially consistent: before the root is loaded; see the file's comment. */
            atomic_fetch_or_explicit(&table->cpus.word[word], bit, memory_order_seq_cst);
        }
        cpu->table.active = table;
        vl_host_table_switch(table != NULL ? table->root : kernel_root);
        if (old != NULL) {
            /* Release: pairs with the acquire in vli_table_destroy(). */
            atomic_fetch_and_explicit(&old->cpus.word[word], ~bit, memory_order_release);
        }
    }
    vl_host_irq_restore(flags);
}

void vl_tlb_flush_local(const struct vl_flush_range *ranges, size_t count)
{
    struct vli_table *active = vli_this_cpu()->table.active;
    size_t pages = 0;

    /* Acquire: pairs with the release in leave_everywhere(). */
    if (active != NULL && atomic_load_explicit(&active->ending, memory_order_acquire)) {
        vli_table_activate(NULL);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        pages += (ranges[i].end - ranges[i].start) >> VL_PAGE_SHIFT;
    }
    if (count == 0 || pages > FLUSH_PAGES_MAX) {
        vli_tlb_flush_all();
        return;
    }
    for (size_t i = 0; i < count; i++) {
        for (vl_va va = ranges[i].start; va < ranges[i].end; va += VL_PAGE_SIZE) {
            vli_tlb_flush_page(va);
        }
    }
}

/* The CPUs that may hold something of @table; true if others than this one, whose bit is left out.
 * *@out_here: this CPU is one. Preemption off. */
static bool users(struct vli_table *table, struct vl_cpumask *out, bool *out_here)
{
    unsigned cpu = vli_this_cpu()->cpu;
    uint64_t others = 0;

    for (unsigned i = 0; i < VLI_COUNT_OF(out->word); i++) {
        /* Sequentially consistent: after the entries were changed; see the file's comment. */
        out->word[i] = atomic_load_explicit(&table->cpus.word[i], memory_order_seq_cst);
    }
    *out_here = (out->word[cpu / 64u] >> (cpu % 64u) & 1u) != 0;
    out->word[cpu / 64u] &= ~(1ull << (cpu % 64u));
    for (unsigned i = 0; i < VLI_COUNT_OF(out->word); i++) {
        others |= out->word[i];
    }
    return others != 0;
}

/* Flushes everywhere; @count as in vl_host_flush_remote(). No spin lock held. */
static void flush(struct vli_table *table, const struct vl_flush_range *range, size_t count)
{
    struct vl_cpumask others;
    bool remote, here;

    vli_rank_assert_no_spin();
    vl_host_preempt_off();
    remote = vli_mutant_mask(users(table, &others, &here), &others);
    if (here) {
        vl_tlb_flush_local(range, count);
    }
    if (remote) {
        vl_host_flush_remote(&others, table->root, range, count);
    }
    vl_host_preempt_on();
}

/* Makes every CPU that has @table active leave it: nobody needs it any more. */
static VLI_COLD void leave_everywhere(struct vli_table *table)
{
    /* Release: pairs with the acquire in vl_tlb_flush_local(). */
    atomic_store_explicit(&table->ending, true, memory_order_release);
    flush(table, NULL, 0);
    for (unsigned i = 0; i < VLI_COUNT_OF(table->cpus.word); i++) {
        VL_ASSERT(atomic_load_explicit(&table->cpus.word[i], memory_order_acquire) == 0);
    }
}

void vli_gather_begin(struct vli_gather *gather, struct vli_table *table, bool whole)
{
    uint64_t used = 0;

    gather->table = table;
    gather->start = ~(vl_va)0;
    gather->end = 0;
    gather->whole = whole;
    gather->frame_count = 0;
    gather->table_first = VLI_FRAME_LINK_NONE;
    gather->release = NULL;
    gather->leaf = NULL;
    if (!whole) {
        return;
    }
    for (unsigned i = 0; i < VLI_COUNT_OF(table->cpus.word); i++) {
        used |= atomic_load_explicit(&table->cpus.word[i], memory_order_seq_cst);
    }
    if (used != 0) {
        leave_everywhere(table);
    }
}

/* Drops the references of the batch. Who alone holds the last reference on an unmapped frame
 * needs no atomic subtraction: nobody can find it to take another. */
static void drop_frames(struct vli_gather *gather)
{
    uint32_t last = 0;

    for (uint32_t i = 0; i < gather->frame_count; i++) {
        struct vl_frame *frame = gather->frames[i];

        /* Acquire: pairs with the releases of those who dropped theirs. */
        if (atomic_load_explicit(&frame->refs, memory_order_acquire) != 1 &&
            !vli_frame_ref_drop(frame)) {
            continue;
        }
        if (gather->release != NULL) {
            gather->release(frame);
        } else {
            gather->frames[last++] = frame;
        }
    }
    if (last != 0) {
        vli_frame_put_bulk(gather->frames, last);
    }
    gather->frame_count = 0;
}

static void drop_tables(struct vli_gather *gather)
{
    if (gather->table_first != VLI_FRAME_LINK_NONE) {
        vli_table_pages_put(gather->table_first);
        gather->table_first = VLI_FRAME_LINK_NONE;
    }
}

void vli_gather_flush(struct vli_gather *gather)
{
    struct vl_flush_range range = {gather->start, gather->end};

    if (vli_mutant_frees_first()) {
        drop_frames(gather);
    }
    if (range.start < range.end) {
        range.end = vli_mutant_end(range.start, range.end);
        if (vli_mutant_flushes()) {
            flush(gather->table, &range, 1);
        }
        VLI_EVENT(VL_EVENT_FLUSH, gather->table->root.a, gather->start);
        gather->start = ~(vl_va)0;
        gather->end = 0;
    }
    drop_frames(gather);
    drop_tables(gather);
}

void vli_gather_end(struct vli_gather *gather)
{
    vli_gather_flush(gather);
}

void vli_table_unlink(struct vli_gather *gather, _Atomic uint64_t *link)
{
    uint64_t old = atomic_load_explicit(link, memory_order_relaxed);
    struct vl_frame *page = vli_frame_of(vli_pte_pfn(old));

    VL_ASSERT_SLOW(vli_pte_is_present(old));
    atomic_store_explicit(link, 0, memory_order_seq_cst);
    VLI_EVENT(VL_EVENT_PTE_CLEAR, (uintptr_t)link, old);
    gather->leaf = NULL;
    page->next = gather->table_first;
    gather->table_first = vli_frame_pfn(page).n;
}

/* Frees under one table page of level @level + 1, whose entries cover from @base on, what the span
 * allows. Returns the number of table pages freed. Depth: at most VLI_TABLE_LEVELS - 1. */
static uint64_t free_level(struct vli_gather *gather, uint64_t up, unsigned level, vl_va base,
                           const struct vli_table_span *span)
{
    uint64_t reach = vli_table_reach(level);
    vl_va start = base > span->start ? base : (vl_va)vli_round_down(span->start, reach);
    _Atomic uint64_t *entry = &vli_table_entries(up)[vli_table_index(start, level)];
    vl_va last = base + (vl_va)(reach * VLI_TABLE_ENTRIES);
    uint64_t count = 0;

    last = last < span->end ? last : span->end;
    for (vl_va va = start; va < last; va += (vl_va)reach, entry++) {
        uint64_t link = atomic_load_explicit(entry, memory_order_relaxed);

        if (!vli_pte_is_present(link)) {
            continue;
        }
        if (level > 1) {
            count += free_level(gather, link, level - 1, va, span);
        }
        if (va >= span->floor && va + (vl_va)reach <= span->ceiling) {
            vli_table_unlink(gather, entry);
            count++;
        }
    }
    return count;
}

void vli_table_free_range(struct vli_gather *gather, const struct vli_table_span *span)
{
    struct vli_table *table = gather->table;
    uint64_t count = free_level(gather, table->root.a, VLI_TABLE_LEVELS - 1, 0, span);

    if (count == 0) {
        return;
    }
    atomic_fetch_sub_explicit(&table->table_pages, count, memory_order_relaxed);
    if (!gather->whole) {
        /* Any flush of one page drops what the CPU keeps of upper levels too (Intel SDM vol. 3,
         * 4.10.4.1: INVLPG invalidates all paging-structure caches of the current PCID). */
        vli_gather_range(gather, span->start, span->end);
    }
}
