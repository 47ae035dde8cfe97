/*
 * stock.c - table pages: from the CPU's stock of zeroed ones, else from frame.
 *
 * A table page is freed only when all its entries are empty again, so it needs no second zeroing;
 * fork and exit of a small process take and give back about seven, which would cost 3,800
 * instructions to zero. The stock is a stack, so that the page in the cache is used first. Its
 * lock is there for vli_table_drain(); it is nearly always free, and a thread that moves to another
 * CPU between choosing the stock and locking it does no harm.
 */
#include "core/table/table_page.h"

#define DRAIN_BATCH 16u

static void check_zero(const struct vl_frame *page)
{
    const uint64_t *words = vli_frame_virt(vli_frame_pfn(page));
    uint64_t any = 0;

    for (unsigned i = 0; i < VLI_TABLE_ENTRIES; i++) {
        any |= words[i];
    }
    VL_ASSERT(any == 0);
}

#ifdef VL_DEBUG
static void check_zero_slow(const struct vl_frame *page)
{
    check_zero(page);
}
#else
static void check_zero_slow(const struct vl_frame *page)
{
    (void)page;
    (void)check_zero;
}
#endif

static struct vl_frame *stock_pop(void)
{
    struct vli_table_percpu *cpu = &vli_this_cpu()->table;
    struct vl_frame *page = NULL;

    vli_spin_lock(&cpu->lock, VLI_RANK_COUNT_TREE);
    if (VLI_LIKELY(cpu->count != 0)) {
        page = vli_frame_of((struct vl_pfn){cpu->stock[--cpu->count]});
    }
    vli_spin_unlock(&cpu->lock, VLI_RANK_COUNT_TREE);
    return page;
}

static bool stock_push(struct vl_frame *page)
{
    struct vli_table_percpu *cpu = &vli_this_cpu()->table;
    bool done = false;

    vli_spin_lock(&cpu->lock, VLI_RANK_COUNT_TREE);
    if (VLI_LIKELY(cpu->count < VLI_TABLE_STOCK)) {
        cpu->stock[cpu->count++] = vli_frame_pfn(page).n;
        done = true;
    }
    vli_spin_unlock(&cpu->lock, VLI_RANK_COUNT_TREE);
    return done;
}

static uint32_t stock_count(void)
{
    struct vli_table_percpu *cpu = &vli_this_cpu()->table;
    uint32_t count;

    vli_spin_lock(&cpu->lock, VLI_RANK_COUNT_TREE);
    count = cpu->count;
    vli_spin_unlock(&cpu->lock, VLI_RANK_COUNT_TREE);
    return count;
}

struct vl_frame *vli_table_page_get(struct vli_table *table, vl_how_t how)
{
    struct vl_frame *page = stock_pop();

    if (VLI_UNLIKELY(page == NULL)) {
        page = vli_frame_get(0, how | VL_ZEROED);
        if (page == NULL) {
            return NULL;
        }
        vli_frame_set_type(page, VLI_FRAME_TABLE);
    }
    check_zero_slow(page);
    page->next = VLI_FRAME_LINK_NONE;
    vli_spin_init(vli_table_page_lock(page));
    atomic_store_explicit(&page->owner, (uintptr_t)table, memory_order_relaxed);
    return page;
}

/* A page that nobody uses any more is what the stock expects. */
static inline void check_unused(struct vl_frame *page)
{
    VL_ASSERT(vli_frame_type(page) == VLI_FRAME_TABLE);
    VL_ASSERT_SLOW(!vli_spin_is_locked(vli_table_page_lock(page)));
    check_zero_slow(page);
    VLI_EVENT(VL_EVENT_TABLE_FREE, vli_frame_pfn(page).n, 0);
}

void vli_table_page_put(struct vl_frame *page)
{
    check_unused(page);
    if (VLI_UNLIKELY(!stock_push(page))) {
        vli_frame_put(page, 0);
    }
}

void vli_table_pages_put(uint32_t first)
{
    struct vli_table_percpu *cpu = &vli_this_cpu()->table;
    uint32_t at = first, count;

    vli_spin_lock(&cpu->lock, VLI_RANK_COUNT_TREE);
    for (count = cpu->count; at != VLI_FRAME_LINK_NONE && count < VLI_TABLE_STOCK; count++) {
        struct vl_frame *page = vli_frame_of((struct vl_pfn){at});

        check_unused(page);
        cpu->stock[count] = at;
        at = page->next;
    }
    cpu->count = count;
    vli_spin_unlock(&cpu->lock, VLI_RANK_COUNT_TREE);
    while (VLI_UNLIKELY(at != VLI_FRAME_LINK_NONE)) {
        struct vl_frame *page = vli_frame_of((struct vl_pfn){at});

        check_unused(page);
        at = page->next;
        vli_frame_put(page, 0);
    }
}

enum vl_status vli_table_reserve(vl_how_t how)
{
    /* Another thread may take from the stock, or this one move, at any time: the caller tries again
     * until what it needs is there. */
    for (uint32_t have = stock_count(); have < VLI_TABLE_LEVELS; have++) {
        struct vl_frame *page = vli_frame_get(0, how | VL_ZEROED);

        if (page == NULL) {
            return VL_ENOMEM;
        }
        vli_frame_set_type(page, VLI_FRAME_TABLE);
        if (!stock_push(page)) {
            vli_frame_put(page, 0);
        }
    }
    return VL_OK;
}

/* Up to DRAIN_BATCH pages of one CPU's stock. */
static size_t drain_some(struct vli_table_percpu *cpu, struct vl_frame **out)
{
    size_t count = 0;

    vli_spin_lock(&cpu->lock, VLI_RANK_COUNT_TREE);
    while (cpu->count != 0 && count < DRAIN_BATCH) {
        out[count++] = vli_frame_of((struct vl_pfn){cpu->stock[--cpu->count]});
    }
    vli_spin_unlock(&cpu->lock, VLI_RANK_COUNT_TREE);
    return count;
}

size_t vli_table_drain(void)
{
    unsigned cpus = vl_host_cpu_count();
    size_t total = 0;

    for (unsigned cpu = 0; cpu < cpus; cpu++) {
        struct vl_frame *pages[DRAIN_BATCH];
        size_t count;

        do {
            count = drain_some(&vli_percpu_of(cpu)->table, pages);
            vli_frame_put_bulk(pages, count);
            total += count;
        } while (count != 0);
    }
    return total;
}
