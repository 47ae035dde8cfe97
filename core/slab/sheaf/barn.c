/*
 * barn.c - barns: full and empty sheaves that wait in a cache's homes, and the way from a sheaf to
 * the slabs.
 *
 * A CPU that wants units looks into its own home. One that gives a sheaf away takes it to the home
 * of the unit that it got last, whichever CPU that unit was allocated on: full, it waits there as a
 * whole, so that what one CPU allocates and another frees goes back without a look at its units;
 * else its units go to their slabs, as many at once as are of one home.
 *
 * The barns of a cache hold a share of its units together, each by the units of its own slabs. But
 * for what was borrowed: for each full sheaf that a home got of another's barn it keeps one of
 * others' units in its own, time and again. So a CPU that lives on others' slabs gets there once,
 * and not each time that it takes and each time that it gives.
 */
#include "core/slab/sheaf/sheaf.h"

/* A sheaf is filled with this share of the cache's units at most, but for a few. */
#define FILL_SHARE 8u
#define FILL_MIN   4u

/* What a barn may hold: a share of its home's units, in so many sheaves; and empty ones. */
#define BARN_SHARE    VL_HOST_BARN_SHARE
#define BARN_FULL_MAX VL_HOST_BARN_FULL

struct vl_cache *vli_sheaves;

/* ------------------------------------------------------------------------------ without a sheaf */

uintptr_t vli_unit_take(struct vl_cache *cache, vl_how_t how)
{
    uintptr_t unit = 0;
    uint32_t here;
    uint32_t had;

    do {
        struct vli_slab_home *home = vli_home_at(cache, here = vli_home_here());
        unsigned long flags = vli_spin_lock_irq(&home->lock, VLI_RANK_SLAB_NODE);

        had = vli_slabs_take(cache, home, 1, &unit);
        vli_spin_unlock_irq(&home->lock, VLI_RANK_SLAB_NODE, flags);
        /* Sheaves' own blocks do not come from others: two that stand side by side and are written
         * by two CPUs cost both, since who writes to the end of one has the next one's lines
         * fetched. */
        if (had == 0 && cache != vli_sheaves) {
            had = vli_homes_take(cache, here, VLI_WAIT_NOT, 1, &unit);
        }
    } while (had == 0 && vli_slabs_new(cache, how));
    if (had == 0) {
        (void)vli_homes_take(cache, here, VLI_WAIT_LOCK, 1, &unit);
    }
    return unit;
}

void vli_unit_give(struct vl_cache *cache, uintptr_t unit)
{
    struct vli_slabs_out out = {VLI_FRAME_LINK_NONE};

    vli_slabs_give(cache, &unit, 1, &out);
    (void)vli_slabs_release(cache, &out);
}

void vli_sheaf_end(uintptr_t block)
{
    vli_unit_give(vli_sheaves, block - vli_sheaves->shift);
}

/* ------------------------------------------------------------------------------------- one barn */

static uintptr_t *link_of(uintptr_t block)
{
    return &vli_sheaf_words(block)[VLI_SHEAF_LINK];
}

/* In the link of a full sheaf: it is of others' units, and counts as borrowed again when it leaves
 * for this home's CPUs. */
#define BORROWED 1u

static uintptr_t next_of(uintptr_t block)
{
    return *link_of(block) & ~(uintptr_t)BORROWED;
}

/* Where a sheaf is taken to. */
struct place {
    struct vli_slab_home *home;
    bool is_borrowed; /* it is of others' units, of which the home had some */
};

static VLI_RACY bool has_borrowed(const volatile struct vli_slab_home *home)
{
    return home->borrowed != 0;
}

/* Where other homes have slabs, too. */
static VLI_NOINLINE struct place place_among(struct vl_cache *cache, uint32_t here, uintptr_t top)
{
    struct place place = {vli_home_at(cache, here), false};
    uint32_t number = vli_home_of(cache, *((uintptr_t *)top - 1));

    if (number != here) {
        place.is_borrowed = has_borrowed(place.home);
        place.home = place.is_borrowed ? place.home : vli_home_at(cache, number);
    }
    return place;
}

/* @top: a sheaf that holds something. */
static inline struct place place_for(struct vl_cache *cache, uintptr_t top)
{
    uint32_t here = vli_home_here();

    if (VLI_LIKELY(vli_home_is_only(cache, here))) {
        return (struct place){vli_home_at(cache, here), false};
    }
    return place_among(cache, here, top);
}

static bool has_room(const struct vli_slab_node *node, struct vli_slab_home *home, uint64_t units)
    VL_REQUIRES(&home->lock)
{
    return home->full_count == 0 || (home->full_count < BARN_FULL_MAX && units <= node->full_max &&
                                     units <= home->units / BARN_SHARE);
}

/* A full sheaf goes into the barn if there is room. */
static inline bool keeps(const struct vli_slab_node *node, struct vli_slab_home *home,
                         uintptr_t top, bool is_borrowed) VL_REQUIRES(&home->lock)
{
    uintptr_t block = top - VLI_SHEAF_BYTES; /* a full one's */
    uint32_t units;

    if (!vli_sheaf_is_full(top)) {
        return false;
    }
    units = home->full_units + (uint32_t)vli_sheaf_words(block)[VLI_SHEAF_CAPACITY];
    is_borrowed = is_borrowed && home->borrowed > 0;
    if (is_borrowed) {
        home->borrowed--;
    } else if (!has_room(node, home, units)) {
        return false;
    }
    *link_of(block) = home->full | (is_borrowed ? BORROWED : 0u);
    home->full = block;
    home->full_count++;
    home->full_units = units;
    return true;
}

/* The first full sheaf; there is one. */
static uintptr_t remove_full(struct vli_slab_home *home) VL_REQUIRES(&home->lock)
{
    uintptr_t block = home->full;

    home->full = next_of(block);
    home->full_count--;
    home->full_units -= (uint32_t)vli_sheaf_words(block)[VLI_SHEAF_CAPACITY];
    return block + VLI_SHEAF_BYTES;
}

/* An empty one is kept if there is room. */
static bool keeps_vacant(const struct vli_slab_node *node, struct vli_slab_home *home,
                         uintptr_t block) VL_REQUIRES(&home->lock)
{
    if (home->vacant_count >= atomic_load_explicit(&node->vacant_max, memory_order_relaxed)) {
        return false;
    }
    *link_of(block) = home->vacant;
    home->vacant = block;
    home->vacant_count++;
    return true;
}

/* An empty sheaf, or NONE. */
static uintptr_t remove_vacant(const struct vli_slab_node *node, struct vli_slab_home *home)
    VL_REQUIRES(&home->lock)
{
    uintptr_t block = home->vacant;

    if (block == 0) {
        return VLI_SHEAF_NONE;
    }
    home->vacant = *link_of(block);
    home->vacant_count--;
    return vli_sheaf_make_empty(node, block);
}

/* -------------------------------------------------------------------------------- sheaves wanted
 */

uint32_t vli_sheaf_wanted(const struct vli_slab_node *node, uint32_t capacity)
{
    uint64_t share = atomic_load_explicit(&node->units, memory_order_relaxed) / FILL_SHARE;

    share = share < FILL_MIN ? FILL_MIN : share;
    return share < capacity ? (uint32_t)share : capacity;
}

uintptr_t vli_barn_full(struct vl_cache *cache, uintptr_t top)
{
    struct vli_slab_node *node = &cache->node[0];
    struct vli_slab_home *home = vli_home_at(cache, vli_home_here());
    unsigned long flags = vli_spin_lock_irq(&home->lock, VLI_RANK_SLAB_NODE);
    uintptr_t surplus = 0;

    if (home->full != 0) {
        surplus = top != VLI_SHEAF_NONE ? vli_sheaf_block(top) : 0;
        if ((*link_of(home->full) & BORROWED) != 0) {
            home->borrowed++;
        }
        top = remove_full(home);
    } else {
        top = top == VLI_SHEAF_NONE ? remove_vacant(node, home)
                                    : vli_sheaf_make_empty(node, vli_sheaf_block(top));
        if (top != VLI_SHEAF_NONE) {
            uint32_t wanted = vli_sheaf_wanted(node, vli_sheaf_capacity(top));

            top += vli_slabs_take(cache, home, wanted, (uintptr_t *)top) * sizeof(uintptr_t);
        }
    }
    if (surplus != 0 && keeps_vacant(node, home, surplus)) {
        surplus = 0;
    }
    vli_spin_unlock_irq(&home->lock, VLI_RANK_SLAB_NODE, flags);
    if (surplus != 0) {
        vli_sheaf_end(surplus);
    }
    return top;
}

/* Counts a full sheaf that was another's, if its units are; the empty one @top is kept. */
static void borrow(struct vl_cache *cache, uint32_t here, uintptr_t full, uintptr_t top)
{
    struct vli_slab_home *home = vli_home_at(cache, here);
    bool is_mine = vli_home_of(cache, *((uintptr_t *)full - 1)) == here;
    unsigned long flags = vli_spin_lock_irq(&home->lock, VLI_RANK_SLAB_NODE);
    bool is_kept = keeps_vacant(&cache->node[0], home, vli_sheaf_block(top));

    if (!is_mine && home->borrowed < UINT16_MAX) {
        home->borrowed++;
    }
    vli_spin_unlock_irq(&home->lock, VLI_RANK_SLAB_NODE, flags);
    if (!is_kept) {
        vli_sheaf_end(vli_sheaf_block(top));
    }
}

/* What homes seem to have. */
static VLI_RACY bool has_full(const volatile struct vli_slab_home *home)
{
    return home->full_count != 0;
}

static VLI_RACY bool has_vacant(const volatile struct vli_slab_home *home)
{
    return home->vacant_count != 0;
}

/* A full sheaf of another home, or NONE. */
static uintptr_t full_of_other(struct vli_slab_home *home, enum vli_wait wait) VL_NO_LOCK_CHECK
{
    uintptr_t top = VLI_SHEAF_NONE;
    unsigned long flags;

    if (!has_full(home)) {
        return top;
    }
    if (wait == VLI_WAIT_LOCK) {
        flags = vli_spin_lock_irq(&home->lock, VLI_RANK_SLAB_NODE);
    } else if (!vli_spin_try_lock_irq(&home->lock, VLI_RANK_SLAB_NODE, &flags)) {
        return top;
    }
    if (home->full != 0) {
        top = remove_full(home);
    }
    vli_spin_unlock_irq(&home->lock, VLI_RANK_SLAB_NODE, flags);
    return top;
}

uintptr_t vli_barn_of_others(struct vl_cache *cache, enum vli_wait wait, uintptr_t top)
{
    struct vli_slab_node *node = &cache->node[0];
    uint32_t here = vli_home_here();
    uint32_t wanted;

    for (uint32_t i = 1; i <= vli_homes_mask; i++) {
        uint32_t other = (here + i) & vli_homes_mask;
        uintptr_t full = vli_home_may_ask(here, other, wait)
                             ? full_of_other(vli_home_at(cache, other), wait)
                             : VLI_SHEAF_NONE;

        if (full != VLI_SHEAF_NONE) {
            borrow(cache, here, full, top);
            return full;
        }
    }
    wanted = vli_sheaf_wanted(node, vli_sheaf_capacity(top));
    return top + vli_homes_take(cache, here, wait, wanted, (uintptr_t *)top) * sizeof(uintptr_t);
}

/* An empty sheaf of another home, or NONE. */
static uintptr_t vacant_of_others(struct vl_cache *cache)
{
    uint32_t here = vli_home_here();
    uintptr_t top = VLI_SHEAF_NONE;

    for (uint32_t i = 1; i <= vli_homes_mask && top == VLI_SHEAF_NONE; i++) {
        uint32_t other = (here + i) & vli_homes_mask;
        struct vli_slab_home *home = vli_home_at(cache, other);
        unsigned long flags;

        if (vli_home_may_ask(here, other, VLI_WAIT_NOT) && has_vacant(home) &&
            vli_spin_try_lock_irq(&home->lock, VLI_RANK_SLAB_NODE, &flags)) {
            top = remove_vacant(&cache->node[0], home);
            vli_spin_unlock_irq(&home->lock, VLI_RANK_SLAB_NODE, flags);
        }
    }
    return top;
}

uintptr_t vli_sheaf_new(struct vl_cache *cache)
{
    uintptr_t top = vacant_of_others(cache);
    uintptr_t block;

    if (top != VLI_SHEAF_NONE) {
        return top;
    }
    block = vli_unit_take(vli_sheaves, VL_HOST_SHEAF_HOW);
    return block == 0 ? VLI_SHEAF_NONE
                      : vli_sheaf_make_empty(&cache->node[0], block + vli_sheaves->shift);
}

/* ---------------------------------------------------------------------------- sheaves given away
 */

/* This CPU's home lends an empty sheaf, or NONE. */
static uintptr_t vacant_here(struct vl_cache *cache)
{
    struct vli_slab_home *home = vli_home_at(cache, vli_home_here());
    unsigned long flags = vli_spin_lock_irq(&home->lock, VLI_RANK_SLAB_NODE);
    uintptr_t top = remove_vacant(&cache->node[0], home);

    vli_spin_unlock_irq(&home->lock, VLI_RANK_SLAB_NODE, flags);
    return top;
}

uintptr_t vli_barn_vacant(struct vl_cache *cache, uintptr_t top)
{
    struct vli_slab_node *node = &cache->node[0];
    struct vli_slabs_out out = {VLI_FRAME_LINK_NONE};
    struct vli_slab_home *home;
    unsigned long flags;
    struct place place;
    uint32_t left;

    if (top == VLI_SHEAF_NONE) {
        return vacant_here(cache);
    }
    place = place_for(cache, top);
    home = place.home;
    flags = vli_spin_lock_irq(&home->lock, VLI_RANK_SLAB_NODE);
    if (keeps(node, home, top, place.is_borrowed)) {
        top = remove_vacant(node, home);
        vli_spin_unlock_irq(&home->lock, VLI_RANK_SLAB_NODE, flags);
        return top;
    }
    left = vli_slabs_give_home(cache, home, vli_sheaf_lowest(top), vli_sheaf_units(top), &out);
    vli_spin_unlock_irq(&home->lock, VLI_RANK_SLAB_NODE, flags);
    if (left != 0) {
        vli_slabs_give(cache, vli_sheaf_lowest(top), left, &out);
    }
    (void)vli_slabs_release(cache, &out);
    return vli_sheaf_empty_top(vli_sheaf_block(top));
}

void vli_barn_put_empty(struct vl_cache *cache, uintptr_t top)
{
    struct vli_slab_home *home = vli_home_at(cache, vli_home_here());
    struct vli_slabs_out out = {VLI_FRAME_LINK_NONE};
    unsigned long flags;
    bool is_kept;

    vli_slabs_give(cache, vli_sheaf_lowest(top), vli_sheaf_units(top), &out);
    flags = vli_spin_lock_irq(&home->lock, VLI_RANK_SLAB_NODE);
    is_kept = keeps_vacant(&cache->node[0], home, vli_sheaf_block(top));
    vli_spin_unlock_irq(&home->lock, VLI_RANK_SLAB_NODE, flags);
    (void)vli_slabs_release(cache, &out);
    if (!is_kept) {
        vli_sheaf_end(vli_sheaf_block(top));
    }
}

void vli_barn_put(struct vl_cache *cache, uintptr_t top)
{
    bool is_kept = false;

    if (vli_sheaf_is_full(top)) {
        struct place place = place_for(cache, top);
        struct vli_slab_home *home = place.home;
        unsigned long flags = vli_spin_lock_irq(&home->lock, VLI_RANK_SLAB_NODE);

        is_kept = keeps(&cache->node[0], home, top, place.is_borrowed);
        vli_spin_unlock_irq(&home->lock, VLI_RANK_SLAB_NODE, flags);
    }
    if (!is_kept) {
        vli_barn_put_empty(cache, top);
    }
}

/* ------------------------------------------------------------------------------- all given up */

/* All sheaves of a list end; @cache: units of full ones go back first, else NULL. */
static void end_all(struct vl_cache *cache, uintptr_t block)
{
    struct vli_slabs_out out = {VLI_FRAME_LINK_NONE};

    while (block != 0) {
        uintptr_t next = next_of(block);

        if (cache != NULL) {
            uintptr_t top = block + VLI_SHEAF_BYTES;

            vli_slabs_give(cache, vli_sheaf_lowest(top), vli_sheaf_units(top), &out);
        }
        vli_sheaf_end(block);
        block = next;
    }
    if (cache != NULL) {
        (void)vli_slabs_release(cache, &out);
    }
}

/* Units in hand are counted meanwhile: nobody who destroys the cache shall miss them. */
static void empty_home(struct vl_cache *cache, struct vli_slab_home *home)
{
    _Atomic uint64_t *in_hand = &cache->node[0].units_in_hand;
    unsigned long flags = vli_spin_lock_irq(&home->lock, VLI_RANK_SLAB_NODE);
    uintptr_t full = home->full;
    uintptr_t vacant = home->vacant;
    uint32_t units = home->full_units;

    atomic_fetch_add_explicit(in_hand, units, memory_order_relaxed);
    home->full = 0;
    home->full_count = 0;
    home->full_units = 0;
    home->vacant = 0;
    home->vacant_count = 0;
    vli_spin_unlock_irq(&home->lock, VLI_RANK_SLAB_NODE, flags);
    end_all(cache, full);
    end_all(NULL, vacant);
    /* Release: pairs with the acquire in vli_sheaf_barn_units(), after which the units are found in
     * their slabs. */
    atomic_fetch_sub_explicit(in_hand, units, memory_order_release);
}

void vli_barn_empty(struct vl_cache *cache)
{
    for (uint32_t i = 0; i <= vli_homes_mask; i++) {
        empty_home(cache, vli_home_at(cache, i));
    }
}

uint64_t vli_sheaf_barn_units(struct vl_cache *cache)
{
    uint64_t units = 0;

    for (uint32_t i = 0; i <= vli_homes_mask; i++) {
        struct vli_slab_home *home = vli_home_at(cache, i);
        unsigned long flags = vli_spin_lock_irq(&home->lock, VLI_RANK_SLAB_NODE);

        units += home->full_units;
        vli_spin_unlock_irq(&home->lock, VLI_RANK_SLAB_NODE, flags);
    }
    return units + atomic_load_explicit(&cache->node[0].units_in_hand, memory_order_acquire);
}

static void home_validate(struct vl_cache *cache, struct vli_slab_home *home,
                          void (*sheaf_validate)(struct vl_cache *cache, uintptr_t top))
{
    uint32_t count = 0;
    uint32_t units = 0;

    for (uintptr_t block = home->full; block != 0; block = next_of(block)) {
        sheaf_validate(cache, block + VLI_SHEAF_BYTES);
        units += vli_sheaf_capacity(block + VLI_SHEAF_BYTES);
        count++;
    }
    VL_ASSERT(count == home->full_count);
    VL_ASSERT(units == home->full_units);
    count = 0;
    for (uintptr_t block = home->vacant; block != 0; block = *link_of(block)) {
        count++;
    }
    VL_ASSERT(count == home->vacant_count);
}

void vli_barn_validate(struct vl_cache *cache,
                       void (*sheaf_validate)(struct vl_cache *cache, uintptr_t top))
{
    for (uint32_t i = 0; i < VLI_SLAB_HOMES; i++) {
        home_validate(cache, vli_home_at(cache, i), sheaf_validate);
    }
    VL_ASSERT(atomic_load_explicit(&cache->node[0].units_in_hand, memory_order_relaxed) == 0);
}
