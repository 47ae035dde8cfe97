/*
 * cache.c - caches of objects of an exact size, for programs: <vellum/malloc.h>.
 *
 * They are caches of the core as the size classes are, and free() takes their objects, too. What a
 * program's inlined sequences need to know is copied into its struct, so that they name no symbol
 * of the library.
 *
 * Locks: vli_api_word is taken around what changes or reads the list of caches.
 */
#include "malloc/face.h"
#include <errno.h>
#include <vellum/malloc.h>

_Atomic uint32_t vli_api_word;

VLI_EXPORT int vl_malloc_cache_create(const char *name, size_t size, size_t align,
                                      struct vl_malloc_cache *out)
{
    size_t natural = size % 16u == 0 ? 16u : 8u;
    struct vl_cache_spec spec = {
        .name = name, .size = size, .align = align, .flags = VL_CACHE_NO_MERGE | VL_CACHE_DENSE};
    struct vl_cache *cache;
    enum vl_status status;

    if (!vli_malloc_ready()) {
        return ENOMEM;
    }
    spec.align = align == 0 ? natural : align;
    vl_host_lock(&vli_api_word);
    vl_host_lock(&vli_purge_word); /* who purges looks at all caches there are */
    status = vl_cache_create(&spec, &cache);
    vl_host_unlock(&vli_purge_word);
    if (status == VL_OK) {
        vli_class_bytes[cache->index] = (uint32_t)size;
    }
    vl_host_unlock(&vli_api_word);
    if (status != VL_OK) {
        return -(int)status;
    }
    *out = (struct vl_malloc_cache){.index = cache->index, .object_bytes = size};
    vli_area_describe(out);
    return 0;
}

VLI_EXPORT int vl_malloc_cache_destroy(struct vl_malloc_cache *cache)
{
    enum vl_status status;

    vl_host_lock(&vli_api_word);
    vl_host_lock(&vli_purge_word); /* who purges has units in hand */
    status = vl_cache_destroy(&vli_caches[cache->index]);
    vl_host_unlock(&vli_purge_word);
    vl_host_unlock(&vli_api_word);
    return -(int)status;
}

VLI_EXPORT void *vl_malloc_cache_alloc_slow(size_t index)
{
    int saved = errno;
    void *object;

    (void)vli_area_make();
    object = vl_cache_alloc(&vli_caches[index], VL_WAIT);
    errno = object != NULL ? saved : ENOMEM;
    return object;
}

VLI_EXPORT void vl_malloc_cache_free_slow(size_t index, void *object)
{
    int saved = errno;

    (void)vli_area_make();
    vl_cache_free(&vli_caches[index], object);
    errno = saved;
}
