/*
 * bulk.c - several objects of a cache at once.
 *
 * What the CPU keeps is taken or filled in batches, as its strategy can; where that ends, one unit
 * goes by the slow path, which leaves the CPU with units, or with room, for the next batch. A
 * request is served whole or not at all: a caller that wants a hundred nodes for an operation that
 * must not fail halfway has no use for seventy.
 */
#include "core/slab/slab.h"
#include "core/base/event.h"
#include "core/base/memory.h"

/* Units become objects. */
static void hand_out(struct vl_cache *cache, vl_how_t how, size_t count, void **out, uintptr_t who)
{
    if (VLI_MARK_HEAD == 0 && cache->shift == 0 && (how & VL_ZEROED) == 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        vli_debug_alloc(cache, (uintptr_t)out[i], who);
        out[i] = (char *)out[i] + cache->shift;
        if ((how & VL_ZEROED) != 0) {
            memset(out[i], 0, cache->object_bytes);
        }
    }
}

/* The units of @objects go back, wherever they came from. */
static void put_units(struct vl_cache *cache, uint32_t shift, size_t count, void *const *objects)
{
    size_t put = 0;

    while (put < count) {
        put += vli_slot_push_batch(cache->index, shift, count - put, objects + put);
        if (put < count) {
            put += vli_slab_free_run(vli_virt_frame((uintptr_t)objects[put] - shift), shift,
                                     count - put, objects + put);
        }
    }
}

enum vl_status vl_cache_alloc_bulk(struct vl_cache *cache, vl_how_t how, size_t count, void **out)
{
    uintptr_t who = VLI_MARK_HEAD == 0 ? 0 : VLI_RETURN_ADDRESS;
    uintptr_t unit;
    size_t had = 0;

    vli_debug_how(how);
    if (VLI_ALLOC_FAILS()) {
        return VL_ENOMEM;
    }
    while (had < count) {
        had += vli_slot_pop_batch(cache->index, count - had, out + had);
        if (had < count) {
            unit = vli_slab_alloc_slow(cache, how);
            if (unit == 0) {
                put_units(cache, 0, had, out);
                return VL_ENOMEM;
            }
            out[had++] = (void *)unit;
        }
    }
    hand_out(cache, how, count, out, who);
    return VL_OK;
}

void vl_cache_free_bulk(struct vl_cache *cache, size_t count, void *const *objects)
{
    uintptr_t who = VLI_MARK_HEAD == 0 ? 0 : VLI_RETURN_ADDRESS;

    if (VLI_MARK_HEAD != 0) {
        for (size_t i = 0; i < count; i++) {
            vli_debug_free(cache, objects[i], who);
        }
    }
    put_units(cache, cache->shift, count, objects);
}
