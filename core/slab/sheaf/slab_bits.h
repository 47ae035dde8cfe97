/*
 * slab_bits.h (sheaf) - one slab as its home sees it: where it is, which of its units are free.
 *
 * Word w of the bits stands for units 64 w … 64 w + 63. The words are kept in the descriptors of
 * the slab's own frames: one in the head's (its owner field), three in each other's (owner, links,
 * and what counts mappings elsewhere), so that they cost nothing; or at the slab's end where there
 * are more. The head's `mappings` counts the free units; the lower half of its `index_low` names a
 * word below which no bit is set. Only who holds the lock of the slab's home looks at any of it.
 *
 * The upper half is the number of the home, with VLI_HOME_MOVES while the slab is on its way there
 * (homes.c). It is read before the lock is taken, and once more under it.
 */
#ifndef VLI_SLAB_BITS_H
#define VLI_SLAB_BITS_H

#include "core/base/bits.h"
#include "core/slab/sheaf/slabs.h"

/* Words of bits in a descriptor that is not the head's: bytes 8 … 31 of its 32. */
#define VLI_BITS_EACH 3u
_Static_assert(offsetof(struct vl_frame, owner) == 8 && sizeof(struct vl_frame) == 32,
               "three words behind the flags and the references");

/* A slab that is being worked on. */
struct vli_slab {
    struct vl_frame *head;
    uintptr_t base;
    uintptr_t bytes;
    const struct vli_slab_shape *shape;
};

static inline struct vli_slab vli_slab_of(const struct vl_cache *cache, struct vl_frame *head)
{
    uint32_t flags = atomic_load_explicit(&head->flags, memory_order_relaxed);
    uint32_t order = (flags & VLI_FRAME_ORDER_MASK) >> VLI_FRAME_ORDER_SHIFT;

    return (struct vli_slab){.head = head,
                             .base = (uintptr_t)vli_frame_virt(vli_frame_pfn(head)),
                             .bytes = VL_PAGE_SIZE << order,
                             .shape = &cache->node[0].shape[order == cache->order ? 0 : 1]};
}

/* --------------------------------------------------------------------------------------- bits */

static inline _Atomic uint64_t *vli_bits_word(const struct vli_slab *slab, uint32_t w)
{
    struct vl_frame *frame = slab->head;
    uint32_t place = 0;

    if (slab->shape->bits_at != 0) {
        return (_Atomic uint64_t *)(slab->base + slab->shape->bits_at) + w;
    }
    if (w != 0) {
        frame += 1 + (w - 1) / VLI_BITS_EACH;
        place = (w - 1) % VLI_BITS_EACH;
    }
    return (_Atomic uint64_t *)(void *)&frame->owner + place;
}

static inline uint64_t vli_bits_load(const struct vli_slab *slab, uint32_t w)
{
    return atomic_load_explicit(vli_bits_word(slab, w), memory_order_relaxed);
}

static inline void vli_bits_store(const struct vli_slab *slab, uint32_t w, uint64_t bits)
{
    atomic_store_explicit(vli_bits_word(slab, w), bits, memory_order_relaxed);
}

/** vli_bits_run() - the lowest bits of a word that are set one beside the other, at most @count. */
static inline uint32_t vli_bits_run(uint64_t bits, uint32_t low, uint32_t count)
{
    uint64_t ends = ~(bits >> low);
    uint32_t run = ends == 0 ? 64u : vli_bit_lowest(ends);

    return run < count ? run : count;
}

/** vli_bits_mask() - @count > 0 bits from bit @low on. */
static inline uint64_t vli_bits_mask(uint32_t low, uint32_t count)
{
    return ~(uint64_t)0 >> (64u - count) << low;
}

static inline uint32_t vli_slab_free(const struct vl_frame *head)
{
    return atomic_load_explicit(&head->mappings, memory_order_relaxed);
}

static inline void vli_slab_set_free(struct vl_frame *head, uint32_t count)
{
    atomic_store_explicit(&head->mappings, count, memory_order_relaxed);
}

/* ---------------------------------------------------------------------------- index_low's halves
 */

enum vli_slab_half { VLI_HALF_WORD, VLI_HALF_HOME };
_Static_assert(VLI_SLAB_HOMES <= VLI_HOME_MOVES, "a bit apart");

static inline _Atomic uint16_t *vli_slab_half(struct vl_frame *head, enum vli_slab_half half)
{
    return (_Atomic uint16_t *)(void *)&head->index_low + half;
}

/** vli_slab_word() - no bit is set below this word. */
static inline uint32_t vli_slab_word(struct vl_frame *head)
{
    return atomic_load_explicit(vli_slab_half(head, VLI_HALF_WORD), memory_order_relaxed);
}

static inline void vli_slab_set_word(struct vl_frame *head, uint32_t w)
{
    atomic_store_explicit(vli_slab_half(head, VLI_HALF_WORD), (uint16_t)w, memory_order_relaxed);
}

/** vli_slab_place() - number of the slab's home, and VLI_HOME_MOVES. */
static inline uint32_t vli_slab_place(struct vl_frame *head)
{
    /* Acquire: pairs with the release below. Who holds the lock of the home that it reads here, but
     * never held that of the one before, sees what was done there. */
    return atomic_load_explicit(vli_slab_half(head, VLI_HALF_HOME), memory_order_acquire);
}

static inline void vli_slab_set_place(struct vl_frame *head, uint32_t place)
{
    atomic_store_explicit(vli_slab_half(head, VLI_HALF_HOME), (uint16_t)place,
                          memory_order_release);
}

/* ------------------------------------------------------------------------------ what was told */

/** vli_slab_told() - which free units were told already (vli_slabs_purge()): a word as the bits, in
 * a descriptor's word that they leave. There are such slabs only where all units have their bits in
 * the head's word. */
static inline _Atomic uint64_t *vli_slab_told(const struct vli_slab *slab)
{
    return (_Atomic uint64_t *)(void *)&slab->head[1].owner;
}

static inline bool vli_slab_can_purge(const struct vli_slab *slab, uint32_t unit_bytes)
{
    return unit_bytes >= VL_PAGE_SIZE && slab->bytes > VL_PAGE_SIZE && slab->shape->units > 1 &&
           slab->shape->units <= 64u && slab->shape->bits_at == 0;
}

/** vli_slab_fill_bits() - all units of a new slab are free. */
void vli_slab_fill_bits(const struct vl_cache *cache, const struct vli_slab *slab);

/* ------------------------------------------------------------------------- between these files */

/** vli_slab_bad_unit() - panics over a unit that is freed twice, or an address inside of one. */
_Noreturn VLI_COLD VLI_NOINLINE void vli_slab_bad_unit(const struct vl_cache *cache, uintptr_t unit,
                                                       bool is_start);

/** vli_slab_settle() - @count units more are free in a slab of @home that is not on its way there:
 * where does it stand now? */
void vli_slab_settle(struct vl_cache *cache, struct vli_slab_home *home,
                     const struct vli_slab *slab, uint32_t count, struct vli_slabs_out *out)
    VL_REQUIRES(&home->lock);

/** vli_slab_leave() - an empty slab that is in no list any more; its units are not counted from now
 * on. */
void vli_slab_leave(struct vl_cache *cache, struct vli_slab_home *home, struct vl_frame *head,
                    struct vli_slabs_out *out) VL_REQUIRES(&home->lock);

#endif
