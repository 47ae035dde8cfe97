/*
 * stack.c - kernel stacks.
 *
 * The region at KERNEL_STACK_BASE is cut into slots of 32 KiB: the upper half is the stack, the
 * lower half stays unmapped for ever, so that an overflow faults (and, since the fault cannot push
 * its frame, becomes a double fault, which has its own stack).
 *
 * Freed stacks stay mapped and linked, each through the word at its top, because making one costs
 * four frames and a change of tables, and unmapping one would cost a flush of all CPUs. The drain
 * does that, once for all. A slot is either handed out or kept (mapped),
 * or its bit in `unmapped` says that it was drained; slots from `slots_used` on were never used.
 */
#include "kernel/sched/stack.h"
#include <vellum/vellum.h>
#include "core/base/assert.h"
#include "core/base/bits.h"
#include "core/base/spinlock.h"
#include "kernel/cpu/paging.h"
#include "kernel/lib/mem.h"
#include "kernel/sched/lock.h"
#include "kernel/sched/thread.h"

#define SLOT_BYTES  (2 * KERNEL_STACK_BYTES)
#define SLOTS_MAX   32768u
#define STACK_PAGES (KERNEL_STACK_BYTES / VL_PAGE_SIZE)

static struct vli_spinlock lock = VLI_SPINLOCK_INIT;
static uintptr_t kept;                    /* top of the first kept stack, 0 when none */
static unsigned slots_used;               /* under lock, as all below */
static uint64_t unmapped[SLOTS_MAX / 64]; /* drained slots below slots_used */

static uintptr_t *link_of(uintptr_t top)
{
    return (uintptr_t *)(top - sizeof(uintptr_t));
}

static uintptr_t slot_top(unsigned slot)
{
    return (uintptr_t)KERNEL_STACK_BASE + (uintptr_t)(slot + 1) * SLOT_BYTES;
}

static uintptr_t take_kept(void)
{
    unsigned long flags = vli_spin_lock_irq(&lock, KRANK_STACKS);
    uintptr_t top = kept;

    if (top != 0) {
        kept = *link_of(top);
    }
    vli_spin_unlock_irq(&lock, KRANK_STACKS, flags);
    return top;
}

/* A slot without mapping, or SLOTS_MAX. */
static unsigned take_slot(void)
{
    unsigned long flags = vli_spin_lock_irq(&lock, KRANK_STACKS);
    unsigned slot = SLOTS_MAX;

    for (unsigned word = 0; word * 64 < slots_used && slot == SLOTS_MAX; word++) {
        if (unmapped[word] != 0) {
            slot = word * 64 + vli_bit_lowest(unmapped[word]);
            unmapped[word] &= unmapped[word] - 1;
        }
    }
    if (slot == SLOTS_MAX && slots_used < SLOTS_MAX) {
        slot = slots_used++;
    }
    vli_spin_unlock_irq(&lock, KRANK_STACKS, flags);
    return slot;
}

static void give_slot(unsigned slot)
{
    unsigned long flags = vli_spin_lock_irq(&lock, KRANK_STACKS);

    unmapped[slot / 64] |= 1ull << (slot % 64);
    vli_spin_unlock_irq(&lock, KRANK_STACKS, flags);
}

/* Unmap @pages pages from @bottom on; their frames to @out. */
static void unmap(uintptr_t bottom, size_t pages, struct vl_pfn *out)
{
    for (size_t i = 0; i < pages; i++) {
        unsigned level;
        uintptr_t va = bottom + (i << VL_PAGE_SHIFT);
        uint64_t entry = paging_lookup(va, &level);

        out[i] = vl_pa_to_pfn((struct vl_pa){entry & PAGE_FRAME});
        paging_unmap_page(va);
    }
}

static bool map(uintptr_t bottom)
{
    struct vl_pfn frames[STACK_PAGES];
    struct vl_pfn mapped[STACK_PAGES];
    size_t count = vl_frame_alloc_bulk(STACK_PAGES, VL_WAIT, frames);
    size_t i = 0;

    if (count == STACK_PAGES) {
        for (; i < STACK_PAGES; i++) {
            uintptr_t va = bottom + (i << VL_PAGE_SHIFT);

            if (paging_map_page(va, vl_pfn_to_pa(frames[i]), PAGE_WRITE | PAGE_NX) != VL_OK) {
                break;
            }
        }
    }
    if (i == STACK_PAGES) {
        return true;
    }
    unmap(bottom, i, mapped); /* nothing was touched there: no TLB holds it */
    vl_frame_free_bulk(frames, count);
    return false;
}

uintptr_t stack_alloc(void)
{
    uintptr_t top = take_kept();
    unsigned slot;

    if (VLI_LIKELY(top != 0)) {
        return top;
    }
    slot = take_slot();
    if (slot == SLOTS_MAX) {
        return 0;
    }
    top = slot_top(slot);
    if (!map(top - KERNEL_STACK_BYTES)) {
        give_slot(slot);
        return 0;
    }
    return top;
}

void stack_free(uintptr_t top)
{
    unsigned long flags = vli_spin_lock_irq(&lock, KRANK_STACKS);

    *link_of(top) = kept;
    kept = top;
    vli_spin_unlock_irq(&lock, KRANK_STACKS, flags);
}

static void flush_everything(void *arg, unsigned cpu)
{
    (void)arg;
    (void)cpu;
    paging_flush_global();
}

void stacks_drain(void)
{
    struct vl_cpumask all;
    uintptr_t top;

    memset(&all, 0xff, sizeof(all));

    /* One at a time: the list's links are in the stacks themselves. */
    while ((top = take_kept()) != 0) {
        struct vl_pfn frames[STACK_PAGES];

        unmap(top - KERNEL_STACK_BYTES, STACK_PAGES, frames);
        vl_host_cpu_call(&all, flush_everything, NULL);
        vl_frame_free_bulk(frames, STACK_PAGES);
        give_slot((unsigned)((top - (uintptr_t)KERNEL_STACK_BASE) / SLOT_BYTES - 1));
    }
}
