/*
 * purge.c - pages that lie wholly in free units of slabs in use go back to who backs them.
 *
 * While a slab's pages are told, no lock is held, and its free units look as if they were in use:
 * nobody takes them, and the slab is in no list. If others free units of it meanwhile, they find a
 * slab that had none, and put it into the list, from which it may even move to another home.
 */
#include "core/slab/sheaf/slab_bits.h"
#include "core/slab/partial.h"

/* Slabs that are out of the list at once to be purged. */
#define PURGE_SLABS 16u

/* A slab that is out of the list to be purged, and its free units. */
struct purged {
    struct vli_slab slab;
    uint64_t bits;
    uint32_t count;
};

/* Slabs of a home with something to tell leave the list, as if all their units were in use.
 * Returns: how many there are in @out. */
static uint32_t purge_take(struct vl_cache *cache, struct vli_slab_home *home, struct purged *out)
    VL_REQUIRES(&home->lock)
{
    uint32_t count = 0;
    uint32_t at = home->partial;

    for (uint32_t i = home->partial_count; i > 0 && count < PURGE_SLABS; i--) {
        struct vli_slab slab = vli_slab_of(cache, vli_frame_of((struct vl_pfn){at}));
        uint64_t bits = vli_bits_load(&slab, 0);

        at = slab.head->next;
        if (!vli_slab_can_purge(&slab, cache->unit_bytes) ||
            (bits & ~atomic_load_explicit(vli_slab_told(&slab), memory_order_relaxed)) == 0) {
            continue;
        }
        vli_partial_remove(home, slab.head);
        home->empty_count -= vli_slab_free(slab.head) == slab.shape->units ? 1u : 0u;
        home->units_free -= vli_slab_free(slab.head);
        out[count++] = (struct purged){slab, bits, vli_slab_free(slab.head)};
        vli_bits_store(&slab, 0, 0);
        vli_slab_set_free(slab.head, 0);
    }
    return count;
}

/* Where the pages of the units before unit @n end: what is behind the last unit is nobody's. */
static uintptr_t pages_end(const struct vli_slab *slab, uint32_t unit_bytes, uint32_t n)
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
static size_t tell_descriptors(const struct vli_slab *slab,
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
static size_t purge_tell(const struct vli_slab *slab, uint32_t unit_bytes, uint64_t bits,
                         void (*give_back)(uintptr_t start, size_t bytes))
{
    uint64_t fresh = bits & ~atomic_load_explicit(vli_slab_told(slab), memory_order_relaxed);
    size_t told = fresh != 0 ? tell_descriptors(slab, give_back) : 0;

    while (bits != 0) {
        uint32_t low = vli_bit_lowest(bits);
        uint32_t run = vli_bits_run(bits, low, 64);
        uintptr_t start = vli_round_up(slab->base + (uintptr_t)low * unit_bytes, VL_PAGE_SIZE);
        uintptr_t end = pages_end(slab, unit_bytes, low + run);

        if ((fresh & vli_bits_mask(low, run)) != 0 && start < end) {
            give_back(start, end - start);
            told += end - start;
        }
        bits &= ~vli_bits_mask(low, run);
    }
    return told;
}

/* Its free units are free again, beside what others freed meanwhile. */
static void purge_return(struct vl_cache *cache, const struct purged *purged,
                         struct vli_slabs_out *out) VL_NO_LOCK_CHECK
{
    const struct vli_slab *slab = &purged->slab;
    unsigned long flags;
    struct vli_slab_home *home = vli_home_lock(cache, slab->head, &flags);
    uint64_t twice = vli_bits_load(slab, 0) & purged->bits;

    if (VLI_UNLIKELY(twice != 0)) { /* while its bit was away a free unit looked like one in use */
        vli_slab_bad_unit(cache, slab->base + (uintptr_t)vli_bit_lowest(twice) * cache->unit_bytes,
                          true);
    }
    vli_bits_store(slab, 0, vli_bits_load(slab, 0) | purged->bits);
    atomic_store_explicit(vli_slab_told(slab), purged->bits, memory_order_relaxed);
    vli_slab_set_word(slab->head, 0);
    if ((vli_slab_place(slab->head) & VLI_HOME_MOVES) != 0) { /* who brings it counts them */
        vli_slab_set_free(slab->head, vli_slab_free(slab->head) + purged->count);
    } else {
        vli_slab_settle(cache, home, slab, purged->count, out);
    }
    vli_spin_unlock_irq(&home->lock, VLI_RANK_SLAB_NODE, flags);
}

/* Slabs of one home. Returns: bytes told. */
static size_t purge_home(struct vl_cache *cache, struct vli_slab_home *home,
                         void (*give_back)(uintptr_t start, size_t bytes))
{
    struct vli_slabs_out out = {VLI_FRAME_LINK_NONE};
    struct purged slabs[PURGE_SLABS];
    size_t told = 0;
    uint32_t count;
    unsigned long flags;

    do {
        flags = vli_spin_lock_irq(&home->lock, VLI_RANK_SLAB_NODE);
        count = purge_take(cache, home, slabs);
        vli_spin_unlock_irq(&home->lock, VLI_RANK_SLAB_NODE, flags);
        for (uint32_t i = 0; i < count; i++) {
            told += purge_tell(&slabs[i].slab, cache->unit_bytes, slabs[i].bits, give_back);
        }
        for (uint32_t i = 0; i < count; i++) {
            purge_return(cache, &slabs[i], &out);
        }
    } while (count == PURGE_SLABS);
    (void)vli_slabs_release(cache, &out);
    return told;
}

size_t vli_slabs_purge(struct vl_cache *cache, void (*give_back)(uintptr_t start, size_t bytes))
{
    size_t told = 0;

    for (uint32_t i = 0; i <= vli_homes_mask; i++) {
        told += purge_home(cache, vli_home_at(cache, i), give_back);
    }
    return told;
}
