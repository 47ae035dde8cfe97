/*
 * report.c - telling somebody beneath which memory is free: as a hypervisor's guest reports its
 * free pages, or a program gives memory back to its kernel.
 *
 * A free block is marked once it was told. Blocks that are not marked stand before all that are, in
 * the lists and in the array of the highest order (buddy_one.h); so a look at the first block of an
 * order says whether there is anything new, and what is new is found without a walk.
 *
 * A few blocks at a time are taken from the zone, told with no lock held, and given back marked.
 * Meanwhile a request may find nothing though there is enough. One that may sleep looks here before
 * it fails: it waits until blocks came back.
 */
#include "core/frame/buddy_one.h"

/* Most blocks and frames that are away from their zone at once. */
#define BATCH_BLOCKS 32u
#define BATCH_FRAMES 4096u

/* Batches that came back; who waits sleeps on it. */
static _Atomic uint32_t batches;
/* Batches that are away. */
static _Atomic uint32_t away;
static _Atomic uint32_t waiters;

struct report {
    bool (*fn)(void *arg, struct vl_pfn pfn, unsigned order);
    void *arg;
    uint64_t told; /* frames */
};

uint32_t vli_report_seen(void)
{
    /* Pairs with put_back(): what came back before is there. */
    return atomic_load_explicit(&batches, memory_order_seq_cst);
}

bool vli_report_wait(uint32_t seen)
{
    /* In this order: a batch counts as back before it no longer counts as away. */
    uint32_t before = atomic_load_explicit(&away, memory_order_seq_cst);

    /* Sequentially consistent: either put_back() sees this waiter, or the wait sees its batch. */
    atomic_fetch_add_explicit(&waiters, 1, memory_order_seq_cst);
    while (before != 0 && vli_report_seen() == seen) {
        (void)vl_host_wait(&batches, seen, UINT64_MAX);
    }
    atomic_fetch_sub_explicit(&waiters, 1, memory_order_relaxed);
    return vli_report_seen() != seen;
}

/* Is the first free block of an order, if there is one, not told yet? */
static bool has_fresh(const struct vli_zone *zone, unsigned order)
{
    return (zone->nonempty >> order & 1u) != 0 && !vli_block_is_reported(zone, order);
}

/* Takes blocks that were not told, a batch at most; returns how many. */
static uint32_t take_batch(struct vli_zone *zone, unsigned order, uint32_t *out)
{
    unsigned long irq = vli_spin_lock_irq(&zone->lock, VLI_RANK_ZONE);
    uint64_t most = atomic_load_explicit(&zone->free, memory_order_relaxed) / 8;
    uint32_t count = 0;

    most = most < BATCH_FRAMES ? most : BATCH_FRAMES;
    most >>= order;
    most = most < BATCH_BLOCKS ? most : BATCH_BLOCKS;
    most = most > 0 ? most : 1;
    while (count < most && has_fresh(zone, order)) {
        out[count++] = vli_block_pop(zone, order);
    }
    zone->work.takes += count;
    vli_zone_add_free(zone, 0 - ((uint64_t)count << order));
    if (count > 0) {
        atomic_fetch_add_explicit(&away, 1, memory_order_seq_cst);
    }
    vli_spin_unlock_irq(&zone->lock, VLI_RANK_ZONE, irq);
    return count;
}

/* Gives a batch back, the first @told of it marked. */
static void put_back(struct vli_zone *zone, unsigned order, const uint32_t *pfns, uint32_t count,
                     uint32_t told)
{
    unsigned long irq = vli_spin_lock_irq(&zone->lock, VLI_RANK_ZONE);

    for (uint32_t i = 0; i < count; i++) {
        if (i < told) {
            vli_buddy_give_reported(zone, pfns[i], order);
        } else {
            vli_buddy_give_one(zone, pfns[i], order);
        }
    }
    vli_spin_unlock_irq(&zone->lock, VLI_RANK_ZONE, irq);
    /* Pairs with vli_report_seen(). */
    atomic_fetch_add_explicit(&batches, 1, memory_order_seq_cst);
    atomic_fetch_sub_explicit(&away, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&waiters, memory_order_seq_cst) != 0) {
        vl_host_wake(&batches, UINT32_MAX);
    }
}

/* Tells one batch; false when there was none, or no more of this order shall be told. */
static bool tell_batch(struct vli_zone *zone, unsigned order, struct report *report)
{
    uint32_t pfns[BATCH_BLOCKS];
    uint32_t count = take_batch(zone, order, pfns);
    uint32_t told = 0;

    if (count == 0) {
        return false;
    }
    while (told < count && report->fn(report->arg, (struct vl_pfn){pfns[told]}, order)) {
        told++;
    }
    put_back(zone, order, pfns, count, told);
    report->told += (uint64_t)told << order;
    return told == count;
}

/* Who reports counts as reclaiming: a request of his does not wait for what he holds himself.
 * Returns false when he did so already. */
static bool mark(struct vl_thread *thread)
{
    uint32_t had =
        atomic_fetch_or_explicit(&thread->flags, VL_THREAD_RECLAIM, memory_order_relaxed);

    return (had & VL_THREAD_RECLAIM) == 0;
}

uint64_t vl_frame_report_free(unsigned order_min,
                              bool (*report)(void *arg, struct vl_pfn pfn, unsigned order),
                              void *arg)
{
    struct report all = {report, arg, 0};
    struct vl_thread *thread = vl_host_thread();
    bool marks = thread != NULL && mark(thread);

    vli_rank_assert_none();
    for (unsigned i = 0; i < vli_zone_count; i++) {
        struct vli_zone *zone = &vli_zones[i];
        /* What is freed meanwhile may be told twice, but not for ever. */
        uint64_t most = all.told + atomic_load_explicit(&zone->managed, memory_order_relaxed);

        for (unsigned order = VL_ORDER_COUNT; order-- > order_min;) {
            while (all.told < most && tell_batch(zone, order, &all)) {
            }
        }
    }
    if (marks) {
        atomic_fetch_and_explicit(&thread->flags, ~VL_THREAD_RECLAIM, memory_order_relaxed);
    }
    return all.told;
}
