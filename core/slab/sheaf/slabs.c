/*
 * slabs.c - slabs whose free units are bits: they come, give units, take them back, and go.
 *
 * Word w of the bits stands for units 64 w … 64 w + 63. The words are kept in the descriptors of
 * the slab's own frames: one in the head's (its owner field), three in each other's (owner, links,
 * and what counts mappings elsewhere), so that they cost nothing; or at the slab's end where there
 * are more. The head's `mappings` counts the free units, its `index_low` names a word below which
 * no bit is set. Only who holds the node's lock looks at any of it.
 */
#include "core/slab/sheaf/slabs.h"
#include "core/slab/sheaf/runs.h"
#include "core/slab/partial.h"
#include "core/base/bits.h"
#include "core/base/log.h"

/* Words of bits in a descriptor that is not the head's: bytes 8 … 31 of its 32. */
#define WORDS_EACH 3u
_Static_assert(offsetof(struct vl_frame, owner) == 8 && sizeof(struct vl_frame) == 32,
               "three words behind the flags and the references");

/* A slab that is being worked on. */
struct slab {
    struct vl_frame *head;
    uintptr_t base;
    uintptr_t bytes;
    const struct vli_slab_shape *shape;
};

static struct slab slab_of(const struct vl_cache *cache, struct vl_frame *head)
{
    uint32_t flags = atomic_load_explicit(&head->flags, memory_order_relaxed);
    uint32_t order = (flags & VLI_FRAME_ORDER_MASK) >> VLI_FRAME_ORDER_SHIFT;

    return (struct slab){.head = head,
                         .base = (uintptr_t)vli_frame_virt(vli_frame_pfn(head)),
                         .bytes = VL_PAGE_SIZE << order,
                         .shape = &cache->node[0].shape[order == cache->order ? 0 : 1]};
}

static _Atomic uint64_t *bits_word(const struct slab *slab, uint32_t w)
{
    struct vl_frame *frame = slab->head;
    uint32_t place = 0;

    if (slab->shape->bits_at != 0) {
        return (_Atomic uint64_t *)(slab->base + slab->shape->bits_at) + w;
    }
    if (w != 0) {
        frame += 1 + (w - 1) / WORDS_EACH;
        place = (w - 1) % WORDS_EACH;
    }
    return (_Atomic uint64_t *)(void *)&frame->owner + place;
}

static uint64_t bits_load(const struct slab *slab, uint32_t w)
{
    return atomic_load_explicit(bits_word(slab, w), memory_order_relaxed);
}

static void bits_store(const struct slab *slab, uint32_t w, uint64_t bits)
{
    atomic_store_explicit(bits_word(slab, w), bits, memory_order_relaxed);
}

static uint32_t free_of(const struct vl_frame *head)
{
    return atomic_load_explicit(&head->mappings, memory_order_relaxed);
}

static void set_free(struct vl_frame *head, uint32_t count)
{
    atomic_store_explicit(&head->mappings, count, memory_order_relaxed);
}

/* ------------------------------------------------------------------------------- units come out */

/* The lowest bits of a word that are set one beside the other, at most @count. */
static uint32_t run_of_bits(uint64_t bits, uint32_t low, uint32_t count)
{
    uint64_t ends = ~(bits >> low);
    uint32_t run = ends == 0 ? 64u : vli_bit_lowest(ends);

    return run < count ? run : count;
}

/* A mask of @count > 0 bits from bit @low on. */
static uint64_t mask_of(uint32_t low, uint32_t count)
{
    return ~(uint64_t)0 >> (64u - count) << low;
}

/* Which free units were told already (vli_slabs_purge()): a word as the bits, in a descriptor's
 * word that they leave. There are such slabs only where all units have their bits in the head's
 * word. */
static _Atomic uint64_t *told_word(const struct slab *slab)
{
    return (_Atomic uint64_t *)(void *)&slab->head[1].owner;
}

static bool can_purge(const struct slab *slab, uint32_t unit_bytes)
{
    return unit_bytes >= VL_PAGE_SIZE && slab->bytes > VL_PAGE_SIZE && slab->shape->units > 1 &&
           slab->shape->units <= 64u && slab->shape->bits_at == 0;
}

/* What is not free any more was not told. */
static void forget_told(const struct slab *slab)
{
    uint64_t told = atomic_load_explicit(told_word(slab), memory_order_relaxed);

    atomic_store_explicit(told_word(slab), told & bits_load(slab, 0), memory_order_relaxed);
}

/* Up to @count of one slab's. Neighbours come in runs, since most of a slab's are free or none. */
static uint32_t take_of(struct vli_slab_node *node, const struct slab *slab, uint32_t count,
                        uintptr_t *end)
{
    uintptr_t step = node->unit_bytes;
    uint32_t free = free_of(slab->head);
    uint32_t wanted = count < free ? count : free;
    uint32_t left = wanted;
    uint32_t w = slab->head->index_low;

    while (left > 0) {
        uint64_t bits = bits_load(slab, w);

        while (bits != 0 && left > 0) {
            uint32_t low = vli_bit_lowest(bits);
            uint32_t run = run_of_bits(bits, low, left);
            uintptr_t unit = slab->base + (w * 64u + low) * step;

            bits &= ~mask_of(low, run);
            left -= run;
            end = vli_run_put(end, unit, run, step);
        }
        bits_store(slab, w, bits);
        w += bits == 0 ? 1u : 0u;
    }
    slab->head->index_low = w;
    set_free(slab->head, free - wanted);
    if (can_purge(slab, node->unit_bytes)) {
        forget_told(slab);
    }
    return wanted;
}

uint32_t vli_slabs_take(struct vli_slab_node *node, uint32_t count, uintptr_t *end)
{
    uint32_t taken = 0;

    while (taken < count && node->partial_count > 0) {
        struct vl_frame *head = vli_frame_of((struct vl_pfn){node->partial});
        struct slab slab = slab_of(vli_slab_cache(head), head);
        uint32_t had = free_of(head);

        taken += take_of(node, &slab, count - taken, end - taken);
        if (had == slab.shape->units) {
            node->empty_count--;
        }
        if (free_of(head) == 0) {
            vli_partial_remove(node, head);
        }
    }
    node->units_free -= taken;
    return taken;
}

/* ---------------------------------------------------------------------------- units go back in */

/* The slab that @unit is of. */
static struct slab slab_of_unit(const struct vl_cache *cache, uintptr_t unit)
{
    struct vl_frame *frame = vli_virt_frame(unit);

    if (VLI_UNLIKELY(vli_frame_type(frame) != VLI_FRAME_SLAB || vli_slab_cache(frame) != cache)) {
        vli_panic("free of 0x%lx, which is not of cache %s", (unsigned long)unit, cache->name);
    }
    return slab_of(cache, vli_slab_head(frame));
}

static _Noreturn VLI_COLD VLI_NOINLINE void bad_unit(const struct vl_cache *cache, uintptr_t unit,
                                                     bool is_start)
{
    vli_panic("0x%lx of cache %s %s", (unsigned long)(unit + cache->shift), cache->name,
              is_start ? "freed twice" : "freed, which is inside an object");
}

/* An empty slab that is in no list any more; its units are not counted from now on. */
static void leave(struct vl_cache *cache, struct vl_frame *head, struct vli_slabs_out *out)
    VL_REQUIRES(&cache->node[0].lock)
{
    struct vli_slab_node *node = &cache->node[0];

    node->units_free -= free_of(head);
    atomic_fetch_sub_explicit(&node->units, free_of(head), memory_order_relaxed);
    vli_sheaf_resize(&cache->node[0]);
    head->next = out->first;
    out->first = vli_frame_pfn(head).n;
}

/* @count units more are free in a slab: where does it stand now? */
static void settle(struct vl_cache *cache, const struct slab *slab, uint32_t count,
                   struct vli_slabs_out *out) VL_REQUIRES(&cache->node[0].lock)
{
    struct vli_slab_node *node = &cache->node[0];
    uint32_t had = free_of(slab->head);
    uint32_t has = had + count;

    set_free(slab->head, has);
    node->units_free += count;
    if (has < slab->shape->units) {
        if (had == 0) {
            vli_partial_add(&cache->node[0], slab->head, false);
        }
        return;
    }
    if (had != 0) {
        vli_partial_remove(&cache->node[0], slab->head);
    }
    if (node->empty_count < VL_HOST_SLABS_KEPT) {
        node->empty_count++;
        vli_partial_add(&cache->node[0], slab->head, true);
        return;
    }
    leave(cache, slab->head, out);
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Gives the first of @units, number @n of its slab, and those after it that go on from there up or
 * down, in the same word of bits. Returns: how many. */
static uint32_t give_run(const struct vl_cache *cache, const struct slab *slab, uint32_t n,
                         const uintptr_t *units, uint32_t count)
{
    uint32_t up = least(64u - n % 64u, slab->shape->units - n);
    uint32_t length = vli_run_length(units, least(count, up), cache->unit_bytes);
    uint32_t first = n % 64u;
    uint64_t mask;
    uint64_t bits;

    if (length == 1) {
        length = vli_run_length(units, least(count, first + 1u), 0 - (uintptr_t)cache->unit_bytes);
        first -= length - 1u;
    }
    mask = mask_of(first, length);
    bits = bits_load(slab, n / 64u);
    if (VLI_UNLIKELY((bits & mask) != 0)) {
        bad_unit(cache,
                 slab->base +
                     (uintptr_t)(n - n % 64u + vli_bit_lowest(bits & mask)) * cache->unit_bytes,
                 true);
    }
    bits_store(slab, n / 64u, bits | mask);
    return length;
}

/* As many of the units as are of the slab. Returns: how many. */
static uint32_t give_to(const struct vl_cache *cache, const struct slab *slab,
                        const uintptr_t *units, uint32_t count)
{
    uint64_t reciprocal = cache->node[0].reciprocal;
    uint32_t lowest = slab->head->index_low;
    uint32_t given = 0;

    while (given < count) {
        uintptr_t unit = units[given];
        uintptr_t offset = unit - slab->base;
        uint32_t n = (uint32_t)(offset * reciprocal >> 32);

        if (offset >= slab->bytes) {
            break;
        }
        if (VLI_UNLIKELY((uintptr_t)n * cache->unit_bytes != offset || n >= slab->shape->units)) {
            bad_unit(cache, unit, false);
        }
        given += give_run(cache, slab, n, units + given, count - given);
        lowest = least(lowest, n / 64u);
    }
    slab->head->index_low = lowest;
    return given;
}

void vli_slabs_give(struct vl_cache *cache, const uintptr_t *units, uint32_t count,
                    struct vli_slabs_out *out)
{
    while (count > 0) {
        struct slab slab = slab_of_unit(cache, units[0]);
        uint32_t given = give_to(cache, &slab, units, count);

        settle(cache, &slab, given, out);
        units += given;
        count -= given;
    }
}

/* ------------------------------------------------------------------------- slabs come and go */

/* The frames become a slab's. */
static void mark_frames(const struct vl_cache *cache, struct vl_frame *head, uint32_t order)
{
    for (uint32_t i = 0; i < 1u << order; i++) {
        uint32_t flags =
            atomic_load_explicit(&head[i].flags, memory_order_relaxed) & VLI_FRAME_ZONE_MASK;

        flags |=
            VLI_FRAME_SLAB | order << VLI_FRAME_ORDER_SHIFT | cache->index << VLI_FRAME_INDEX_SHIFT;
        atomic_store_explicit(&head[i].flags, flags, memory_order_relaxed);
    }
    vli_slab_map_set(head, order, cache->index);
}

/* All units are free; constructors run, debug builds make their marks. */
static void fill_slab(struct vl_cache *cache, const struct slab *slab)
{
    uint32_t units = slab->shape->units;
    uintptr_t unit = slab->base;

    for (uint32_t w = 0; w < (units + 63u) / 64u; w++) {
        uint32_t last = units - w * 64u;

        bits_store(slab, w, last >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << last) - 1u);
    }
    slab->head->index_low = 0;
    set_free(slab->head, units);
    if (can_purge(slab, cache->unit_bytes)) {
        atomic_store_explicit(told_word(slab), 0, memory_order_relaxed);
    }
    if (VLI_MARK_HEAD == 0 && cache->constructor == NULL) {
        return;
    }
    for (uint32_t i = 0; i < units; i++, unit += cache->unit_bytes) {
        vli_debug_unit_init(cache, unit);
        if (cache->constructor != NULL) {
            cache->constructor((void *)(unit + cache->shift));
        }
    }
}

/* A block of the cache's order, or of the least that will do. */
static struct vl_frame *get_block(const struct vl_cache *cache, vl_how_t how, uint32_t *order)
{
    vl_how_t first_how = (how & ~(vl_how_t)(VL_ZEROED | VL_HOST_SLAB_TRIES_WITHOUT)) | VL_MAY_FAIL;
    struct vl_frame *head = NULL;

    *order = cache->order;
    if (cache->order > cache->order_min) {
        head = vli_frame_get(cache->order, first_how);
    }
    if (head == NULL) {
        *order = cache->order_min;
        head = vli_frame_get(cache->order_min, how & ~(vl_how_t)VL_ZEROED);
    }
    return head;
}

bool vli_slabs_new(struct vl_cache *cache, vl_how_t how)
{
    struct vli_slab_node *node = &cache->node[0];
    uint32_t order;
    struct vl_frame *head = get_block(cache, how, &order);
    struct slab slab;
    unsigned long flags;

    if (head == NULL) {
        return false;
    }
    mark_frames(cache, head, order);
    slab = slab_of(cache, head);
    fill_slab(cache, &slab);
    atomic_fetch_add_explicit(&node->slabs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&node->frames, (uint64_t)1 << order, memory_order_relaxed);
    flags = vli_spin_lock_irq(&cache->node[0].lock, VLI_RANK_SLAB_NODE);
    atomic_fetch_add_explicit(&node->units, slab.shape->units, memory_order_relaxed);
    node->units_free += slab.shape->units;
    node->empty_count++;
    vli_partial_add(&cache->node[0], head, true);
    vli_sheaf_resize(&cache->node[0]);
    vli_spin_unlock_irq(&cache->node[0].lock, VLI_RANK_SLAB_NODE, flags);
    return true;
}

/* Nobody has the slab but the caller. Once it is not counted, the cache may end. Returns: frames.
 */
static size_t release(struct vl_cache *cache, struct vl_frame *head)
{
    struct vli_slab_node *node = &cache->node[0];
    struct slab slab = slab_of(cache, head);
    size_t frames = slab.bytes / VL_PAGE_SIZE;
    uint32_t order = frames == (size_t)1 << cache->order ? cache->order : cache->order_min;

    VL_ASSERT(free_of(head) == slab.shape->units);
    atomic_fetch_sub_explicit(&node->frames, frames, memory_order_relaxed);
    /* Release: pairs with the acquire in vl_cache_destroy(). */
    atomic_fetch_sub_explicit(&node->slabs, 1, memory_order_release);
    for (size_t i = 0; i < frames; i++) { /* what is not for frame to clear */
        set_free(&head[i], 0);
        atomic_store_explicit(&head[i].refs, 1, memory_order_relaxed); /* it may have gone back */
    }
    vli_slab_map_set(head, order, 0);
    vli_frame_put(head, order);
    return frames;
}

size_t vli_slabs_release(struct vl_cache *cache, struct vli_slabs_out *out)
{
    size_t frames = 0;

    while (out->first != VLI_FRAME_LINK_NONE) {
        struct vl_frame *head = vli_frame_of((struct vl_pfn){out->first});

        out->first = head->next;
        frames += release(cache, head);
    }
    return frames;
}

size_t vli_slab_release_empty(struct vl_cache *cache)
{
    struct vli_slab_node *node = &cache->node[0];
    struct vli_slabs_out out = {VLI_FRAME_LINK_NONE};
    unsigned long flags = vli_spin_lock_irq(&cache->node[0].lock, VLI_RANK_SLAB_NODE);

    /* They are the last ones. */
    while (node->empty_count > 0) {
        struct vl_frame *head = vli_frame_of((struct vl_pfn){node->partial_last});

        vli_partial_remove(&cache->node[0], head);
        node->empty_count--;
        leave(cache, head, &out);
    }
    vli_spin_unlock_irq(&cache->node[0].lock, VLI_RANK_SLAB_NODE, flags);
    return vli_slabs_release(cache, &out);
}

#if defined(VL_HOST_RSEQ)
uint64_t vli_slab_frames_empty(void)
{
    uint64_t frames = 0;

    for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
        struct vl_cache *cache = &vli_caches[i];
        unsigned long flags = vli_spin_lock_irq(&cache->node[0].lock, VLI_RANK_SLAB_NODE);

        frames += (uint64_t)cache->node[0].empty_count << cache->order;
        vli_spin_unlock_irq(&cache->node[0].lock, VLI_RANK_SLAB_NODE, flags);
    }
    return frames;
}
#endif

/* --------------------------------------------------------------------- pages of free units */

/* Slabs that are out of the list at once to be purged. */
#define PURGE_SLABS 16u

/* A slab that is out of the list to be purged, and its free units. */
struct purged {
    struct slab slab;
    uint64_t bits;
    uint32_t count;
};

/* Slabs with something to tell leave the list, as if all their units were in use. Returns: how many
 * there are in @out. */
static uint32_t purge_take(struct vl_cache *cache, struct purged *out)
    VL_REQUIRES(&cache->node[0].lock)
{
    struct vli_slab_node *node = &cache->node[0];
    uint32_t count = 0;
    uint32_t next;

    for (uint32_t at = node->partial; at != VLI_FRAME_LINK_NONE && count < PURGE_SLABS; at = next) {
        struct slab slab = slab_of(cache, vli_frame_of((struct vl_pfn){at}));

        next = slab.head->next;
        if (!can_purge(&slab, cache->unit_bytes) ||
            (bits_load(&slab, 0) & ~atomic_load_explicit(told_word(&slab), memory_order_relaxed)) ==
                0) {
            continue;
        }
        vli_partial_remove(&cache->node[0], slab.head);
        node->empty_count -= free_of(slab.head) == slab.shape->units ? 1u : 0u;
        node->units_free -= free_of(slab.head);
        out[count++] = (struct purged){slab, bits_load(&slab, 0), free_of(slab.head)};
        bits_store(&slab, 0, 0);
        set_free(slab.head, 0);
    }
    return count;
}

/* Where the pages of the units before unit @n end: what is behind the last unit is nobody's. */
static uintptr_t pages_end(const struct slab *slab, uint32_t unit_bytes, uint32_t n)
{
    uintptr_t length = n == slab->shape->units ? slab->bytes : (uintptr_t)n * unit_bytes;

    return slab->base + vli_round_down(length, VL_PAGE_SIZE);
}

#if defined(VL_HOST_SLAB_MAP)
#define DESCRIPTORS_GO true /* they are not needed to find the head: vli_virt_frame() */
#else
#define DESCRIPTORS_GO false
#endif

/* Tells the pages of a large slab's descriptors but for those of its first frames, where the bits
 * are. Returns: bytes. */
static size_t tell_descriptors(const struct slab *slab,
                               void (*give_back)(uintptr_t start, size_t bytes))
{
    size_t frames = slab->bytes / VL_PAGE_SIZE;
    uintptr_t start = vli_round_up((uintptr_t)(slab->head + 2), VL_PAGE_SIZE);
    uintptr_t end = vli_round_down((uintptr_t)(slab->head + frames), VL_PAGE_SIZE);

    if (!DESCRIPTORS_GO || start >= end) {
        return 0;
    }
    give_back(start, end - start);
    return end - start;
}

/* Tells the pages of one slab. Returns: bytes. */
static size_t purge_tell(const struct slab *slab, uint32_t unit_bytes, uint64_t bits,
                         void (*give_back)(uintptr_t start, size_t bytes))
{
    uint64_t fresh = bits & ~atomic_load_explicit(told_word(slab), memory_order_relaxed);
    size_t told = fresh != 0 ? tell_descriptors(slab, give_back) : 0;

    while (bits != 0) {
        uint32_t low = vli_bit_lowest(bits);
        uint32_t run = run_of_bits(bits, low, 64);
        uintptr_t start = vli_round_up(slab->base + (uintptr_t)low * unit_bytes, VL_PAGE_SIZE);
        uintptr_t end = pages_end(slab, unit_bytes, low + run);

        if ((fresh & mask_of(low, run)) != 0 && start < end) {
            give_back(start, end - start);
            told += end - start;
        }
        bits &= ~mask_of(low, run);
    }
    return told;
}

/* Its free units are free again, beside what others freed meanwhile. */
static void purge_return(struct vl_cache *cache, const struct purged *purged,
                         struct vli_slabs_out *out) VL_REQUIRES(&cache->node[0].lock)
{
    const struct slab *slab = &purged->slab;
    uint64_t twice = bits_load(slab, 0) & purged->bits;

    if (VLI_UNLIKELY(twice != 0)) { /* while its bit was away a free unit looked like one in use */
        bad_unit(cache, slab->base + (uintptr_t)vli_bit_lowest(twice) * cache->unit_bytes, true);
    }
    bits_store(slab, 0, bits_load(slab, 0) | purged->bits);
    atomic_store_explicit(told_word(slab), purged->bits, memory_order_relaxed);
    slab->head->index_low = 0;
    settle(cache, slab, purged->count, out);
}

size_t vli_slabs_purge(struct vl_cache *cache, void (*give_back)(uintptr_t start, size_t bytes))
{
    struct vli_slabs_out out = {VLI_FRAME_LINK_NONE};
    struct purged slabs[PURGE_SLABS];
    size_t told = 0;
    uint32_t count;
    unsigned long flags;

    do {
        flags = vli_spin_lock_irq(&cache->node[0].lock, VLI_RANK_SLAB_NODE);
        count = purge_take(cache, slabs);
        vli_spin_unlock_irq(&cache->node[0].lock, VLI_RANK_SLAB_NODE, flags);
        for (uint32_t i = 0; i < count; i++) {
            told += purge_tell(&slabs[i].slab, cache->unit_bytes, slabs[i].bits, give_back);
        }
        flags = vli_spin_lock_irq(&cache->node[0].lock, VLI_RANK_SLAB_NODE);
        for (uint32_t i = 0; i < count; i++) {
            purge_return(cache, &slabs[i], &out);
        }
        vli_spin_unlock_irq(&cache->node[0].lock, VLI_RANK_SLAB_NODE, flags);
    } while (count == PURGE_SLABS);
    (void)vli_slabs_release(cache, &out);
    return told;
}

/* ------------------------------------------------------------------------------ figures, checks */

/* Of an order: bits in the descriptors if they have room for one for each unit. */
static struct vli_slab_shape shape_of(uint32_t unit_bytes, uint32_t order)
{
    uint32_t bytes = (uint32_t)VL_PAGE_SIZE << order;
    uint32_t words = 1u + WORDS_EACH * ((1u << order) - 1u);
    uint32_t units = bytes / unit_bytes;

    if (units <= words * 64u) {
        return (struct vli_slab_shape){units, 0};
    }
    /* Each unit and its bit, but for the last word's unused bits. */
    units = (uint32_t)((uint64_t)bytes * 8u / (unit_bytes * 8u + 1u));
    while (units * unit_bytes + (units + 63u) / 64u * 8u > bytes) {
        units--;
    }
    return (struct vli_slab_shape){units, bytes - (units + 63u) / 64u * 8u};
}

void vli_slabs_layout(struct vl_cache *cache)
{
    struct vli_slab_node *node = &cache->node[0];

    node->partial = VLI_FRAME_LINK_NONE;
    node->partial_last = VLI_FRAME_LINK_NONE;
    node->partial_count = 0;
    node->empty_count = 0;
    node->units_free = 0;
    node->unit_bytes = cache->unit_bytes;
    node->reciprocal = ((uint64_t)1 << 32) / cache->unit_bytes + 1u;
    node->shape[0] = shape_of(cache->unit_bytes, cache->order);
    node->shape[1] = shape_of(cache->unit_bytes, cache->order_min);
    atomic_store_explicit(&node->slabs, 0, memory_order_relaxed);
    atomic_store_explicit(&node->units, 0, memory_order_relaxed);
    atomic_store_explicit(&node->frames, 0, memory_order_relaxed);
}

uint32_t vli_slab_units(struct vl_frame *head)
{
    return slab_of(vli_slab_cache(head), head).shape->units;
}

uint32_t vli_slab_units_in(uint32_t unit_bytes, uint32_t order)
{
    return shape_of(unit_bytes, order).units;
}

uint32_t vli_slab_units_each(const struct vl_cache *cache)
{
    return cache->node[0].shape[0].units;
}

bool vli_slabs_is_free(struct vl_cache *cache, uintptr_t unit)
{
    struct slab slab = slab_of_unit(cache, unit);
    uint32_t n = (uint32_t)((unit - slab.base) / cache->unit_bytes);

    VL_ASSERT((unit - slab.base) % cache->unit_bytes == 0 && n < slab.shape->units);
    return (bits_load(&slab, n / 64u) >> (n % 64u) & 1u) != 0;
}

/* Bits set, none of them beyond the units or below the word that the head names. */
static uint32_t count_bits(const struct slab *slab)
{
    uint32_t count = 0;

    for (uint32_t w = 0; w < (slab->shape->units + 63u) / 64u; w++) {
        uint64_t bits = bits_load(slab, w);

        VL_ASSERT(bits == 0 || w >= slab->head->index_low);
        for (; bits != 0; bits &= bits - 1) {
            VL_ASSERT(w * 64u + vli_bit_lowest(bits) < slab->shape->units);
            count++;
        }
    }
    return count;
}

void vli_slabs_validate(struct vl_cache *cache)
{
    struct vli_slab_node *node = &cache->node[0];
    uint32_t previous = VLI_FRAME_LINK_NONE;
    uint32_t count = 0;
    uint32_t empty = 0;
    uint64_t units = 0;

    for (uint32_t at = node->partial; at != VLI_FRAME_LINK_NONE;
         at = vli_frame_of((struct vl_pfn){at})->next) {
        struct vl_frame *head = vli_frame_of((struct vl_pfn){at});
        struct slab slab = slab_of(cache, head);

        VL_ASSERT(vli_frame_type(head) == VLI_FRAME_SLAB);
        VL_ASSERT(vli_slab_cache(head) == cache);
        VL_ASSERT(vli_slab_head(head) == head);
        VL_ASSERT(head->prev == previous);
        VL_ASSERT(free_of(head) > 0);
        VL_ASSERT(count_bits(&slab) == free_of(head));
        empty += free_of(head) == slab.shape->units ? 1u : 0u;
        units += free_of(head);
        previous = at;
        count++;
    }
    VL_ASSERT(count == node->partial_count);
    VL_ASSERT(empty == node->empty_count);
    VL_ASSERT(units == node->units_free);
}
