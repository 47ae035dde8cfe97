/*
 * process.h - what a host inside a process needs of a strategy whose fast paths are restartable
 * sequences, beyond slab.h.
 *
 * There what a CPU keeps is in an area (struct vli_slab_percpu) of that CPU's or of a thread's,
 * which the host makes, finds and takes out of use. The strategy's slab_slot.h gives
 * VLI_AREA_INITIAL as well, the initializer of an area in which cache 0, nobody's, finds nothing.
 */
#ifndef VLI_SLAB_PROCESS_H
#define VLI_SLAB_PROCESS_H

#include "core/slab/slab.h"

/** vli_slab_area_init() - an area that keeps nothing. */
void vli_slab_area_init(struct vli_slab_percpu *area);

/** vli_slab_area_drain() - what an area that nobody uses meanwhile keeps of @cache (of all caches:
 * NULL) goes back to the slabs. Context: any. */
void vli_slab_area_drain(struct vli_slab_percpu *area, struct vl_cache *cache);

/** vli_slab_areas() - the host's: calls @fn for each area in turn, nobody using it meanwhile. */
void vli_slab_areas(void (*fn)(struct vli_slab_percpu *area, void *arg), void *arg);

/* Units that nobody was given. */
struct vli_slab_held {
    uint64_t kept;   /* in areas that vli_slab_area_units() does not count */
    uint64_t shared; /* on the way between areas and slabs */
    uint64_t free;   /* in slabs */
};

/** vli_slab_area_units() - units of @cache in an area that may be in use: about. 0 where that is
 * not to be told. */
uint64_t vli_slab_area_units(const struct vli_slab_percpu *area, struct vl_cache *cache);

/** vli_slab_held() - those of @cache otherwise. Context: thread, no lock held. */
struct vli_slab_held vli_slab_held(struct vl_cache *cache);

/** vli_slab_frames_kept() - frames that caches keep without need, about: of slabs with no unit in
 * use, and of units that wait for any CPU. Context: any. */
uint64_t vli_slab_frames_kept(void);

/** vli_slab_locks() - calls @fn for the word of each lock of all caches, in the order in which they
 * may be taken together. */
void vli_slab_locks(void (*fn)(_Atomic uint32_t *word));

/**
 * vli_slabs_purge() - the pages that lie wholly in free units of slabs in use, but for what the
 * strategy keeps in them, are nobody's: @give_back is told each stretch of them.
 * Their contents may be lost. Units of a page and more only. Context: thread; no lock is held while
 * @give_back runs, which must not use the cache. Returns: bytes told.
 */
size_t vli_slabs_purge(struct vl_cache *cache, void (*give_back)(uintptr_t start, size_t bytes));

/** vli_slab_is_free() - is this unit, of a slab of @cache with units in use, free in its slab now?
 * No area keeps any. Context: any, no lock of the cache held. */
bool vli_slab_is_free(struct vl_cache *cache, uintptr_t unit);

/** vli_slab_free_checked() - as vli_slab_free_slow() where no area keeps any; panics when it is no
 * unit of the frame's slab in use. */
void vli_slab_free_checked(struct vl_frame *frame, uintptr_t unit);

#endif
