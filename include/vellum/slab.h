/*
 * slab.h - kernel objects: caches of equal objects, and allocation by size.
 */
#ifndef VELLUM_SLAB_H
#define VELLUM_SLAB_H

#include <vellum/types.h>
#include <vellum/frame.h>

struct vl_cache;

/* What a cache is made of. */
struct vl_cache_spec {
    const char *name;          /* kept, not copied */
    size_t size;               /* of one object, 1 … 16384 */
    size_t align;              /* power of 2; 0 for the natural one (8) */
    void (*constructor)(void *object); /* may be NULL; runs once, when the slab is made */
};

/**
 * vl_cache_create() - a new cache.
 * Context: thread; may sleep. Returns: VL_OK, VL_EINVAL, VL_ENOMEM.
 */
VL_MUST_CHECK enum vl_status vl_cache_create(const struct vl_cache_spec *spec,
                                             struct vl_cache **out);

/**
 * vl_cache_destroy() - end a cache all of whose objects were freed.
 * Returns: VL_OK; VL_EBUSY when objects are still out (a log line says how many; the cache stays).
 */
VL_MUST_CHECK enum vl_status vl_cache_destroy(struct vl_cache *cache);

/** vl_cache_alloc() - one object, or NULL. Not zeroed unless VL_ZEROED. Context: as @how says. */
VL_MUST_CHECK void *vl_cache_alloc(struct vl_cache *cache, vl_how_t how);

/** vl_cache_free() - give one back, from any CPU. Context: any. */
void vl_cache_free(struct vl_cache *cache, void *object);

/** vl_cache_shrink() - give empty slabs back. Returns: frames freed. Context: thread. */
size_t vl_cache_shrink(struct vl_cache *cache);

/**
 * vl_kmalloc() - @size bytes, aligned to 8, to their size when it is a power of 2; NULL when there
 * are none. Sizes up to 16384 come from caches, larger ones are whole frames, up to 4 MiB.
 * vl_kmalloc(0) returns a pointer that may be freed and not read.
 */
VL_MUST_CHECK void *vl_kmalloc(size_t size, vl_how_t how);

/** vl_kfree() - what vl_kmalloc() gave, or NULL. Context: any. */
void vl_kfree(void *object);

#endif
