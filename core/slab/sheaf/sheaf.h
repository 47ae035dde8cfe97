/*
 * sheaf.h - one sheaf, and the barns: what sheaf.c and barn.c have between them.
 *
 * slab_percpu_state.h draws a sheaf. Its block's first words, which no unit's address reaches:
 */
#ifndef VLI_SHEAF_H
#define VLI_SHEAF_H

#include "core/slab/sheaf/slabs.h"

enum { VLI_SHEAF_LINK, VLI_SHEAF_CAPACITY, VLI_SHEAF_ZERO };

/* Most units in one: all words but those two, and the 0 below the lowest place. */
#define VLI_SHEAF_CAPACITY_MAX (VLI_SHEAF_WORDS - 1u - VLI_SHEAF_ZERO)

/* Cache of sheaves; itself without any. */
extern struct vl_cache *vli_sheaves VLI_HIDDEN;

/** vli_has_sheaves() - do CPUs keep units of this cache? */
static inline bool vli_has_sheaves(const struct vl_cache *cache)
{
    return cache->node[0].capacity_max != 0;
}

static inline uintptr_t vli_sheaf_block(uintptr_t top)
{
    return (top - 1u) & ~(uintptr_t)(VLI_SHEAF_BYTES - 1u);
}

static inline uintptr_t *vli_sheaf_words(uintptr_t block)
{
    return (uintptr_t *)block;
}

static inline uint32_t vli_sheaf_capacity(uintptr_t top)
{
    return (uint32_t)vli_sheaf_words(vli_sheaf_block(top))[VLI_SHEAF_CAPACITY];
}

/** vli_sheaf_empty_top() - top of the empty sheaf in a block. */
static inline uintptr_t vli_sheaf_empty_top(uintptr_t block)
{
    return block + VLI_SHEAF_BYTES - vli_sheaf_words(block)[VLI_SHEAF_CAPACITY] * sizeof(uintptr_t);
}

/** vli_sheaf_lowest() - its first place. */
static inline uintptr_t *vli_sheaf_lowest(uintptr_t top)
{
    return (uintptr_t *)vli_sheaf_empty_top(vli_sheaf_block(top));
}

/** vli_sheaf_units() - units that it holds. */
static inline uint32_t vli_sheaf_units(uintptr_t top)
{
    return (uint32_t)((uintptr_t *)top - vli_sheaf_lowest(top));
}

static inline bool vli_sheaf_is_full(uintptr_t top)
{
    return top % VLI_SHEAF_BYTES == 0;
}

/** vli_sheaf_make_empty() - a block becomes an empty sheaf, with the capacity that the cache has
 * use for now. */
static inline uintptr_t vli_sheaf_make_empty(const struct vli_slab_node *node, uintptr_t block)
{
    uintptr_t top;

    vli_sheaf_words(block)[VLI_SHEAF_CAPACITY] =
        atomic_load_explicit(&node->capacity, memory_order_relaxed);
    top = vli_sheaf_empty_top(block);
    *((uintptr_t *)top - 1) = 0;
    return top;
}

/* ------------------------------------------------------------------------------------ barn.c */

/** vli_unit_take() - a unit straight from a slab; 0 when there is no memory. Context: as @how says,
 * no home's lock held. */
uintptr_t vli_unit_take(struct vl_cache *cache, vl_how_t how);

/** vli_unit_give() - one straight into its slab. Context: any, no home's lock held. */
void vli_unit_give(struct vl_cache *cache, uintptr_t unit);

/** vli_sheaf_new() - an empty sheaf for a CPU whose home has none, or NONE when there is no memory.
 */
uintptr_t vli_sheaf_new(struct vl_cache *cache);

/** vli_sheaf_end() - its block is not needed any more. */
void vli_sheaf_end(uintptr_t block);

/** vli_sheaf_wanted() - units that a sheaf of this capacity gets from the slabs: no more than a
 * share of all that there are, so that the few objects of a small cache do not come to lie in many
 * slabs, one each. */
uint32_t vli_sheaf_wanted(const struct vli_slab_node *node, uint32_t capacity);

/**
 * vli_barn_full() - a sheaf that holds something, from this CPU's home.
 * @top: an empty one, or NONE.
 * Returns: a sheaf, which is empty, or NONE, when the home has no unit. Context: any.
 */
uintptr_t vli_barn_full(struct vl_cache *cache, uintptr_t top);

/** vli_barn_of_others() - the same, from other homes. @top: an empty sheaf. */
uintptr_t vli_barn_of_others(struct vl_cache *cache, enum vli_wait wait, uintptr_t top);

/** vli_barn_vacant() - an empty sheaf, or NONE. @top: a full one, whose units go back, or NONE. */
uintptr_t vli_barn_vacant(struct vl_cache *cache, uintptr_t top);

/** vli_barn_put() - a sheaf that no CPU wants, with whatever it holds. */
void vli_barn_put(struct vl_cache *cache, uintptr_t top);

/** vli_barn_put_empty() - the same, but its units go to their slabs at once. */
void vli_barn_put_empty(struct vl_cache *cache, uintptr_t top);

/** vli_barn_empty() - the barns' full sheaves go back to the slabs, then all their sheaves end. */
void vli_barn_empty(struct vl_cache *cache);

/** vli_barn_validate() - calls @sheaf_validate for each full sheaf, and counts them. Quiescent. */
void vli_barn_validate(struct vl_cache *cache,
                       void (*sheaf_validate)(struct vl_cache *cache, uintptr_t top));

#endif
