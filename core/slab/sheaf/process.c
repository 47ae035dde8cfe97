/*
 * process.c (sheaf) - what a host inside a process asks for: core/slab/process.h.
 */
#include "core/slab/process.h"
#include "core/slab/sheaf/slabs.h"

#if defined(VL_HOST_RSEQ)
void vli_slab_area_init(struct vli_slab_percpu *area)
{
    vli_sheaf_area_init(area);
}

void vli_slab_area_drain(struct vli_slab_percpu *area, struct vl_cache *cache)
{
    vli_sheaf_drain_area(area, cache);
}

void vli_sheaf_areas(void (*fn)(struct vli_slab_percpu *area, void *arg), void *arg)
{
    vli_slab_areas(fn, arg);
}

uint64_t vli_slab_area_units(const struct vli_slab_percpu *area, struct vl_cache *cache)
{
    uint64_t units = 0;

    for (unsigned which = 0; which < VLI_SHEAF_WHICH; which++) {
        units += vli_sheaf_fill(
            atomic_load_explicit(&area->sheaf[which][cache->index], memory_order_relaxed));
    }
    return units;
}

struct vli_slab_held vli_slab_held(struct vl_cache *cache)
{
    return (struct vli_slab_held){.shared = vli_sheaf_barn_units(cache),
                                  .free = vli_slabs_units_free(cache)};
}

/* It checks in any case, when no sheaf keeps the unit. */
void vli_slab_free_checked(struct vl_frame *frame, uintptr_t unit)
{
    vli_slab_free_slow(frame, unit);
}

VLI_RACY uint64_t vli_slab_frames_kept(void)
{
    uint64_t frames = 0;

    for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
        const struct vl_cache *cache = &vli_caches[i];

        for (uint32_t number = 0; number <= vli_homes_mask; number++) {
            const volatile struct vli_slab_home *home = vli_home_at(cache, number);

            frames += ((uint64_t)home->full_units * cache->unit_bytes) >> VL_PAGE_SHIFT;
            frames += (uint64_t)home->empty_count << cache->order;
        }
    }
    return frames;
}

void vli_slab_locks(void (*fn)(_Atomic uint32_t *word))
{
    for (uint32_t number = 0; number <= vli_homes_mask; number++) {
        for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
            fn(&vli_slab_homes[number][i].lock.word.both);
        }
    }
}

bool vli_slab_is_free(struct vl_cache *cache, uintptr_t unit) VL_NO_LOCK_CHECK
{
    unsigned long flags;
    struct vli_slab_home *home = vli_home_lock(cache, vli_slab_head(vli_virt_frame(unit)), &flags);
    bool is_free = vli_slabs_is_free(cache, unit);

    vli_spin_unlock_irq(&home->lock, VLI_RANK_SLAB_NODE, flags);
    return is_free;
}
#endif
