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
    const char *name;                  /* copied, up to 31 characters */
    size_t size;                       /* of one object, 1 … 16384 */
    size_t align;                      /* power of 2; 0 for the natural one (8) */
    void (*constructor)(void *object); /* may be NULL; runs once, when the slab is made */
    uint32_t flags;                    /* VL_CACHE_* */
};
#define VL_CACHE_NO_MERGE 1u /* slabs of its own, whatever other caches there are */
#define VL_CACHE_DENSE    2u /* slabs as large as wastes least, for very many objects */

/**
 * vl_cache_create() - a new cache; or one that is there, when its objects are alike: of the same
 * size (rounded up to the alignment), without a constructor or VL_CACHE_NO_MERGE, in a build that
 * is not a debug one. Each creation is destroyed by itself all the same. Context: thread; may
 * sleep. Returns: VL_OK, VL_EINVAL, VL_ENOMEM.
 */
VL_MUST_CHECK enum vl_status vl_cache_create(const struct vl_cache_spec *spec,
                                             struct vl_cache **out);

/**
 * vl_cache_destroy() - end a cache all of whose objects were freed.
 * One that other creations share is left to them unseen; the last finds what leaked.
 * Context: thread; may sleep; no core lock held.
 * Returns: VL_OK; VL_EBUSY when objects are still out, and the cache stays. The log says how many,
 * in debug builds also where each is and who allocated it.
 */
VL_MUST_CHECK enum vl_status vl_cache_destroy(struct vl_cache *cache);

/** vl_cache_alloc() - one object, or NULL. Not zeroed unless VL_ZEROED. Context: as @how says. */
VL_MUST_CHECK void *vl_cache_alloc(struct vl_cache *cache, vl_how_t how);

/** vl_cache_free() - give one back, from any CPU. Context: any. */
void vl_cache_free(struct vl_cache *cache, void *object);

/**
 * vl_cache_alloc_bulk() - @count objects, or none.
 * @out: room for @count pointers; holds nothing of use unless VL_OK is returned.
 * Context: as @how says. Cost: where the strategy keeps arrays, little more than their copying.
 * Returns: VL_OK; VL_ENOMEM when not all could be had: then those that were are given back.
 */
VL_MUST_CHECK enum vl_status vl_cache_alloc_bulk(struct vl_cache *cache, vl_how_t how, size_t count,
                                                 void **out);

/** vl_cache_free_bulk() - give @count objects back, none of them NULL, from any CPU, however they
 * were allocated. Context: any. */
void vl_cache_free_bulk(struct vl_cache *cache, size_t count, void *const *objects);

/** vl_cache_shrink() - take what CPUs keep and give empty slabs back. Returns: frames freed.
 * Context: thread; may sleep; no core lock held. */
size_t vl_cache_shrink(struct vl_cache *cache);

/* Up to here vl_kmalloc() serves from caches, one for each size class: 8, 16, 24, 32, 48, 64, 96 …
 * 8192, 12288, 16384, two to each doubling. */
#define VL_KMALLOC_CACHED_MAX 16384u
#define VL_KMALLOC_MAX        ((size_t)VL_PAGE_SIZE << VL_ORDER_MAX)

/** vl_kmalloc_class() - from size class @class, not cleared: what vl_kmalloc() comes to when the
 * size is a constant. Context: as @how says. */
VL_MUST_CHECK void *vl_kmalloc_class(size_t class, vl_how_t how);

/** vl_kmalloc_any() - what vl_kmalloc() comes to otherwise. Context: as @how says. */
VL_MUST_CHECK void *vl_kmalloc_any(size_t size, vl_how_t how);

/* Class of a size from 1 to 16384; meant for constants, where it is one too. Class 0 is none. */
#define VL_KMALLOC_CLASS(size)                                                                     \
    ((size) <= 8       ? 1u                                                                        \
     : (size) <= 16    ? 2u                                                                        \
     : (size) <= 24    ? 3u                                                                        \
     : (size) <= 32    ? 4u                                                                        \
     : (size) <= 48    ? 5u                                                                        \
     : (size) <= 64    ? 6u                                                                        \
     : (size) <= 96    ? 7u                                                                        \
     : (size) <= 128   ? 8u                                                                        \
     : (size) <= 192   ? 9u                                                                        \
     : (size) <= 256   ? 10u                                                                       \
     : (size) <= 384   ? 11u                                                                       \
     : (size) <= 512   ? 12u                                                                       \
     : (size) <= 768   ? 13u                                                                       \
     : (size) <= 1024  ? 14u                                                                       \
     : (size) <= 1536  ? 15u                                                                       \
     : (size) <= 2048  ? 16u                                                                       \
     : (size) <= 3072  ? 17u                                                                       \
     : (size) <= 4096  ? 18u                                                                       \
     : (size) <= 6144  ? 19u                                                                       \
     : (size) <= 8192  ? 20u                                                                       \
     : (size) <= 12288 ? 21u                                                                       \
                       : 22u)
#define VL_KMALLOC_CLASSES 23u

/* Debug builds want to know each size, to see what is written beyond it. */
#if defined(VL_DEBUG)
#define VL_KMALLOC_BY_CLASS 0
#else
#define VL_KMALLOC_BY_CLASS 1
#endif

#if defined(__GNUC__)
#define VL_IS_CONSTANT(x) __builtin_constant_p(x)
#else
#define VL_IS_CONSTANT(x) 0
#endif

/**
 * vl_kmalloc() - @size bytes, or NULL when there are none.
 *
 * Aligned to 8, and to their size when it is a power of 2 (beyond a page: as far as the host's
 * mapping keeps the alignment of physical addresses). Sizes up to 16384 come from caches, larger
 * ones are whole frames, up to 4 MiB. vl_kmalloc(0) returns a pointer that may be freed and not
 * read. With VL_ZEROED the @size bytes are zero. A zone that @how names is kept to by whole frames
 * only: an object may be of any zone.
 *
 * Context: any with VL_ATOMIC; thread, no core lock held, with VL_WAIT.
 * Cost: from this CPU's own list no lock and no locked instruction.
 */
VL_MUST_CHECK static inline void *vl_kmalloc(size_t size, vl_how_t how)
{
    if (VL_KMALLOC_BY_CLASS && VL_IS_CONSTANT(size) && size <= VL_KMALLOC_CACHED_MAX &&
        (how & VL_ZEROED) == 0) {
        return vl_kmalloc_class(VL_KMALLOC_CLASS(size), how);
    }
    return vl_kmalloc_any(size, how);
}

/** vl_kfree() - what vl_kmalloc() or one of its kin gave, or NULL; from any CPU. Context: any. */
void vl_kfree(void *object);

/**
 * vl_kmalloc_aligned() - @size bytes at a multiple of @align.
 * @align: a power of 2 up to VL_KMALLOC_MAX.
 * Up to a page the size is rounded up to a multiple of @align and comes from a size class; beyond,
 * it is whole frames, of which those behind @size go back at once. Freed by vl_kfree().
 * Context: as @how says.
 * Returns: NULL when there are none; when @align is no such number; when it is more than a page and
 * more than the host's mapping keeps of the alignment of physical addresses.
 */
VL_MUST_CHECK void *vl_kmalloc_aligned(size_t size, size_t align, vl_how_t how);

/**
 * vl_ksize() - how many bytes of what vl_kmalloc() gave may be used: the request or somewhat more.
 * In debug builds it is the request itself, so that a byte beyond it is seen. 0 for NULL.
 * Context: any.
 */
VL_MUST_CHECK size_t vl_ksize(const void *object);

/**
 * vl_krealloc() - the same bytes in an object of @size; @object itself when it fits well enough.
 * @object: what vl_kmalloc() or one of its kin gave; NULL is vl_kmalloc(@size).
 * @size:   0 is a size like others: a pointer that may be freed and not read.
 * @how:    with VL_ZEROED what is beyond the old size is zero, if all calls for this object had it.
 * An alignment beyond vl_kmalloc()'s is lost when the object moves.
 * Context: as @how says.
 * Returns: where the object is now (@object is gone if that is elsewhere); NULL when there is no
 * memory, and @object is as it was. A request for no more than vl_ksize() does not fail.
 */
VL_MUST_CHECK void *vl_krealloc(void *object, size_t size, vl_how_t how);

/** vl_kmalloc_array() - @count times @size bytes; NULL when the product overflows. Context: as
 * @how says. */
VL_MUST_CHECK static inline void *vl_kmalloc_array(size_t count, size_t size, vl_how_t how)
{
    return size != 0 && count > VL_KMALLOC_MAX / size ? NULL : vl_kmalloc(count * size, how);
}

/** vl_kcalloc() - the same, zeroed. Context: as @how says. */
VL_MUST_CHECK static inline void *vl_kcalloc(size_t count, size_t size, vl_how_t how)
{
    return vl_kmalloc_array(count, size, how | VL_ZEROED);
}

/** vl_krealloc_array() - vl_krealloc() to @count times @size bytes; NULL when that overflows.
 * Context: as @how says. */
VL_MUST_CHECK static inline void *vl_krealloc_array(void *object, size_t count, size_t size,
                                                    vl_how_t how)
{
    return size != 0 && count > VL_KMALLOC_MAX / size ? NULL
                                                      : vl_krealloc(object, count * size, how);
}

#endif
