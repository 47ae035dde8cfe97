/*
 * table.c - page tables: roots, walks, locks of leaf pages, single entries.
 *
 * Four levels of 512 entries (Intel SDM vol. 3, 4.5); level 0 is the leaf page, 3 the root. The
 * kernel's half of a root is a copy of the kernel's own root entries. Only the few that are not
 * empty are copied at birth and emptied at death, so that a root, too, comes back zero.
 *
 * Walking up entries needs no lock: they are filled once by compare-and-exchange, and emptied only
 * while all walkers are excluded (table.h).
 */
#include "core/base/log.h"
#include "core/table/table_page.h"

/* The kernel's root entries that are in use, set once. */
static struct {
    unsigned count;
    uint16_t index[VLI_TABLE_ENTRIES - VLI_ROOT_USER];
    uint64_t value[VLI_TABLE_ENTRIES - VLI_ROOT_USER];
} kernel_half;

void vli_table_set_kernel_half(struct vl_pa root)
{
    const _Atomic uint64_t *entries = vli_table_entries(root.a);

    kernel_half.count = 0;
    for (unsigned i = VLI_ROOT_USER; root.a != 0 && i < VLI_TABLE_ENTRIES; i++) {
        uint64_t value = atomic_load_explicit(&entries[i], memory_order_relaxed);

        if (value != 0) {
            kernel_half.index[kernel_half.count] = (uint16_t)i;
            kernel_half.value[kernel_half.count] = value;
            kernel_half.count++;
        }
    }
}

enum vl_status vli_table_init(struct vli_table *table, vl_how_t how)
{
    struct vl_frame *page = vli_table_page_get(table, how);
    _Atomic uint64_t *entries;

    if (page == NULL) {
        return VL_ENOMEM;
    }
    table->root = vl_pfn_to_pa(vli_frame_pfn(page));
    atomic_init(&table->anon_pages, 0);
    atomic_init(&table->file_pages, 0);
    atomic_init(&table->table_pages, 1);
    atomic_init(&table->ending, false);
    for (unsigned i = 0; i < VLI_COUNT_OF(table->cpus.word); i++) {
        atomic_init(&table->cpus.word[i], 0);
    }
    entries = vli_table_entries(table->root.a);
    for (unsigned i = 0; i < kernel_half.count; i++) {
        atomic_store_explicit(&entries[kernel_half.index[i]], kernel_half.value[i],
                              memory_order_relaxed);
    }
    return VL_OK;
}

void vli_table_destroy(struct vli_table *table)
{
    _Atomic uint64_t *entries = vli_table_entries(table->root.a);

    VL_ASSERT(atomic_load_explicit(&table->table_pages, memory_order_relaxed) == 1);
    for (unsigned i = 0; i < VLI_COUNT_OF(table->cpus.word); i++) {
        /* Acquire: pairs with the release by which the last CPU left it. */
        VL_ASSERT(atomic_load_explicit(&table->cpus.word[i], memory_order_acquire) == 0);
    }
    for (unsigned i = 0; i < kernel_half.count; i++) {
        atomic_store_explicit(&entries[kernel_half.index[i]], 0, memory_order_relaxed);
    }
    vli_table_page_put(vli_frame_of(vl_pa_to_pfn(table->root)));
    table->root.a = 0;
}

/* The entry of @va in the table page that @link shows, of level @level. */
static VLI_ALWAYS_INLINE uint64_t step(uint64_t link, vl_va va, unsigned level)
{
    _Atomic uint64_t *entry = &vli_table_entries(link)[vli_table_index(va, level)];

    /* Acquire: pairs with the release in fill(): the page that it shows is zero. */
    return atomic_load_explicit(entry, memory_order_acquire);
}

/* The link to the leaf table page of @va, or 0. Straight-line, since every operation begins so. */
static VLI_ALWAYS_INLINE uint64_t walk(const struct vli_table *table, vl_va va)
{
    uint64_t link = step(table->root.a, va, 3);

    if (VLI_UNLIKELY(!vli_pte_is_present(link))) {
        return 0;
    }
    link = step(link, va, 2);
    if (VLI_UNLIKELY(!vli_pte_is_present(link))) {
        return 0;
    }
    link = step(link, va, 1);
    return VLI_LIKELY(vli_pte_is_present(link)) ? link : 0;
}

/* Puts a new table page under @entry, which was empty, unless another CPU did. Returns the link
 * that stands there now, or 0 without memory. */
static uint64_t fill(struct vli_table *table, _Atomic uint64_t *entry, vl_how_t how)
{
    struct vl_frame *page = vli_table_page_get(table, how);
    uint64_t seen = 0, link;

    if (page == NULL) {
        /* Acquire: as in step(). Somebody else may have had more luck. */
        seen = atomic_load_explicit(entry, memory_order_acquire);
        return seen;
    }
    link = vli_pte_table(vli_frame_pfn(page));
    /* Release: pairs with the acquires of walkers. */
    if (!atomic_compare_exchange_strong_explicit(entry, &seen, link, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        vli_table_page_put(page);
        return seen;
    }
    VLI_EVENT(VL_EVENT_PTE_SET, (uintptr_t)entry, link);
    atomic_fetch_add_explicit(&table->table_pages, 1, memory_order_relaxed);
    return link;
}

/* The link to the leaf table page of @va, making what is missing; 0 without memory. */
static VLI_NOINLINE uint64_t walk_alloc(struct vli_table *table, vl_va va, vl_how_t how)
{
    uint64_t link = table->root.a;

    for (unsigned at = VLI_TABLE_LEVELS - 1; at > 0; at--) {
        _Atomic uint64_t *entry = &vli_table_entries(link)[vli_table_index(va, at)];

        /* Acquire: as in step(). */
        link = atomic_load_explicit(entry, memory_order_acquire);
        if (VLI_UNLIKELY(!vli_pte_is_present(link))) {
            link = fill(table, entry, how);
            if (link == 0) {
                return 0;
            }
        }
    }
    return link;
}

/* Locks the leaf table page that @link shows. */
static inline void lock_leaf(uint64_t link, vl_va va, enum vli_rank rank,
                             struct vli_table_slot *out) VL_NO_LOCK_CHECK
{
    out->page = vli_frame_of(vli_pte_pfn(link));
    out->entry = &vli_table_entries(link)[vli_table_index(va, 0)];
    VL_ASSERT_SLOW(vli_frame_type(out->page) == VLI_FRAME_TABLE);
    vli_spin_lock(vli_table_page_lock(out->page), rank);
}

bool vli_table_lock(struct vli_table *table, vl_va va, struct vli_table_slot *out)
{
    uint64_t link = walk(table, va);

    VL_ASSERT_SLOW(va < VLI_TABLE_USER_END);
    if (link == 0) {
        return false;
    }
    lock_leaf(link, va, VLI_RANK_TABLE, out);
    return true;
}

enum vl_status vli_table_find_alloc(struct vli_table *table, vl_va va, vl_how_t how,
                                    struct vli_table_slot *out)
{
    uint64_t link;

    VL_ASSERT(va < VLI_TABLE_USER_END);
    link = walk(table, va);
    if (VLI_UNLIKELY(link == 0)) {
        link = walk_alloc(table, va, how);
        if (link == 0) {
            return VL_ENOMEM;
        }
    }
    out->page = vli_frame_of(vli_pte_pfn(link));
    out->entry = &vli_table_entries(link)[vli_table_index(va, 0)];
    return VL_OK;
}

enum vl_status vli_table_lock_alloc(struct vli_table *table, vl_va va, vl_how_t how,
                                    struct vli_table_slot *out)
{
    enum vl_status status = vli_table_find_alloc(table, va, how, out);

    if (status == VL_OK) {
        vli_table_relock(out);
    }
    return status;
}

uint64_t vli_table_peek(struct vli_table *table, vl_va va)
{
    uint64_t link = walk(table, va);

    /* step()'s acquire also pairs with the release in vli_entry_set(): the contents are there. */
    return link == 0 ? 0 : step(link, va, 0);
}

/* From *@va on, the first entry in use of the table page @link of level @level, but none at or
 * above @end: sets *@va to where it begins (or keeps it, inside). 0: none, *@va is at or above @end
 * or at the end of what the page covers. */
static uint64_t next_link(uint64_t link, unsigned level, vl_va *va, vl_va end)
{
    unsigned index = vli_table_index(*va, level);
    _Atomic uint64_t *entry = &vli_table_entries(link)[index];

    for (; index < VLI_TABLE_ENTRIES && *va < end; index++, entry++) {
        /* Acquire: as in step(). */
        uint64_t below = atomic_load_explicit(entry, memory_order_acquire);

        if (vli_pte_is_present(below)) {
            return below;
        }
        /* Past what the empty entry covers; ends at the latest at the user's end. */
        *va = (vl_va)vli_round_down(*va, vli_table_reach(level)) + (vl_va)vli_table_reach(level);
    }
    return 0;
}

/* The link to the first leaf table page at or after *@va and below @end; sets *@va. 0: none. */
static VLI_NOINLINE uint64_t next_leaf_slow(struct vli_table *table, vl_va *va, vl_va end)
{
    while (*va < end) {
        uint64_t link = table->root.a;

        for (unsigned at = VLI_TABLE_LEVELS - 1; at > 0 && link != 0; at--) {
            link = next_link(link, at, va, end);
        }
        if (link != 0) {
            return link;
        }
    }
    return 0;
}

static VLI_ALWAYS_INLINE uint64_t next_leaf(struct vli_table *table, vl_va *va, vl_va end)
{
    uint64_t link;

    if (*va >= end) {
        return 0;
    }
    VL_ASSERT(end <= VLI_TABLE_USER_END);
    link = walk(table, *va);
    return VLI_LIKELY(link != 0) ? link : next_leaf_slow(table, va, end);
}

bool vli_table_next(struct vli_table *table, vl_va *va, vl_va end, struct vli_table_slot *out)
{
    uint64_t link = next_leaf(table, va, end);

    if (link == 0) {
        return false;
    }
    lock_leaf(link, *va, VLI_RANK_TABLE, out);
    return true;
}

/* The first entry that is not empty from *@va on within the locked page; false: none before @end.
 */
static bool first_used(struct vli_table_slot *slot, vl_va *va, vl_va end)
{
    vl_va stop = vli_table_leaf_end(*va, end);

    *va = vli_entry_skip_empty(slot, *va, stop);
    return *va < stop;
}

enum vl_status vli_table_next_pair(struct vli_table *from, struct vli_table *to, vl_va *va,
                                   vl_va end, struct vli_table_slot *src,
                                   struct vli_table_slot *dst) VL_NO_LOCK_CHECK
{
    while (vli_table_next(from, va, end, src)) {
        uint64_t link;

        if (!first_used(src, va, end)) {
            vli_table_unlock(src);
            continue;
        }
        link = walk_alloc(to, *va, VL_ATOMIC);
        if (link == 0) {
            vli_table_unlock(src);
            return VL_ENOMEM;
        }
        lock_leaf(link, *va, VLI_RANK_TABLE_LOWER, dst);
        return VL_OK;
    }
    return VL_ENOENT;
}

void vli_entry_widen(struct vli_table_slot *slot, uint64_t value)
{
    uint64_t old = vli_entry_load(slot), fresh;

    VL_ASSERT(((old ^ value) & VLI_PTE_FRAME) == 0);
    do {
        fresh = value | (old & (VLI_PTE_ACCESSED | VLI_PTE_DIRTY));
        VL_ASSERT_SLOW((old & ~fresh & (VLI_PTE_WRITE | VLI_PTE_USER)) == 0);
        VL_ASSERT_SLOW((~old & fresh & VLI_PTE_NX) == 0);
    } while (!atomic_compare_exchange_weak_explicit(slot->entry, &old, fresh, memory_order_release,
                                                    memory_order_relaxed));
}

uint64_t vli_entry_change(struct vli_gather *gather, struct vli_table_slot *slot, vl_va va,
                          uint64_t value)
{
    /* Sequentially consistent: comes before the look at table->cpus in the flush. */
    uint64_t old = atomic_exchange_explicit(slot->entry, value, memory_order_seq_cst);

    VL_ASSERT(vli_pte_is_present(old));
    vli_gather_range(gather, va, va + VL_PAGE_SIZE);
    VLI_EVENT(VL_EVENT_PTE_CLEAR, (uintptr_t)slot->entry, old);
    VLI_EVENT(VL_EVENT_PTE_SET, (uintptr_t)slot->entry, value);
    return old;
}

uint64_t vli_entry_narrow(struct vli_gather *gather, struct vli_table_slot *slot, vl_va va,
                          uint64_t clear, uint64_t set)
{
    uint64_t old = vli_entry_load(slot), fresh;

    VL_ASSERT(vli_pte_is_present(old));
    do {
        fresh = (old & ~clear) | set;
        /* Sequentially consistent: as in vli_entry_change(). */
    } while (!atomic_compare_exchange_weak_explicit(slot->entry, &old, fresh, memory_order_seq_cst,
                                                    memory_order_relaxed));
    vli_gather_range(gather, va, va + VL_PAGE_SIZE);
    VLI_EVENT(VL_EVENT_PTE_CLEAR, (uintptr_t)slot->entry, old);
    VLI_EVENT(VL_EVENT_PTE_SET, (uintptr_t)slot->entry, fresh);
    return old;
}

/* Table pages under the table page that @link shows, itself included. */
static uint64_t count_pages(struct vli_table *table, uint64_t link, unsigned level, unsigned end)
{
    struct vl_frame *page = vli_frame_of(vli_pte_pfn(link));
    _Atomic uint64_t *entries = vli_table_entries(link);
    uint64_t count = 1;

    VL_ASSERT(vli_frame_type(page) == VLI_FRAME_TABLE);
    VL_ASSERT(atomic_load_explicit(&page->owner, memory_order_relaxed) == (uintptr_t)table);
    VL_ASSERT(!vli_spin_is_locked(vli_table_page_lock(page)));
    for (unsigned i = 0; level > 0 && i < end; i++) {
        uint64_t below = atomic_load_explicit(&entries[i], memory_order_acquire);

        if (vli_pte_is_present(below)) {
            count += count_pages(table, below, level - 1, VLI_TABLE_ENTRIES);
        }
    }
    return count;
}

void vli_table_validate(struct vli_table *table)
{
    uint64_t counted = count_pages(table, table->root.a, VLI_TABLE_LEVELS - 1, VLI_ROOT_USER);
    uint64_t kept = atomic_load_explicit(&table->table_pages, memory_order_relaxed);

    if (counted != kept) {
        vli_panic("table: %llu table pages found, %llu counted", (unsigned long long)counted,
                  (unsigned long long)kept);
    }
}
