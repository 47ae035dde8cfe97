/*
 * kmalloc.c - the fast paths: objects of a cache, and allocation by size.
 *
 * Class c of kmalloc is cache number c, so that what the CPU keeps of it is found without reading
 * the cache; on the way back the index of the cache stands in the frame's descriptor. Index 0 is no
 * cache's, and no CPU ever keeps anything of it: a frame that is no slab's has it there, so that a
 * large allocation, or an address that nobody was given, ends in the slow path without a test. The
 * fast paths call nothing but in tail position, so that the compiler needs no stack frame for them.
 *
 * Above 16 KiB an allocation is whole frames (whole.c).
 */
#include "core/slab/slab.h"
#include "core/base/bits.h"
#include "core/base/event.h"
#include "core/base/log.h"
#include "core/base/memory.h"

/* From a unit to its object in kmalloc's caches: nothing, but in debug builds. */
static VLI_ALWAYS_INLINE uint32_t class_shift(size_t class)
{
    return VLI_MARK_HEAD == 0 ? 0 : vli_caches[class].shift;
}

/* The fast path had nothing (@unit is 0), or the object must be cleared. */
static VLI_NOINLINE void *alloc_slow(size_t index, uintptr_t unit, vl_how_t how, uintptr_t who)
{
    struct vl_cache *cache = &vli_caches[index];
    void *object;

    if (unit == 0) {
        unit = vli_slab_alloc_slow(cache, how);
        if (unit == 0) {
            return NULL;
        }
    }
    vli_debug_alloc(cache, unit, who);
    object = (void *)(unit + cache->shift);
    if ((how & VL_ZEROED) != 0) {
        memset(object, 0, cache->object_bytes);
    }
    return object;
}

static VLI_NOINLINE void free_slow(struct vl_frame *frame, uintptr_t unit)
{
    VL_ASSERT(vli_frame_type(frame) == VLI_FRAME_SLAB);
    vli_slab_free_slow(frame, unit);
}

/* -------------------------------------------------------------------------- objects of a cache */

void *vl_cache_alloc(struct vl_cache *cache, vl_how_t how)
{
    uintptr_t who = VLI_MARK_HEAD == 0 ? 0 : VLI_RETURN_ADDRESS;
    uintptr_t unit;

    vli_debug_how(how);
    if (VLI_ALLOC_FAILS()) {
        return NULL;
    }
    unit = vli_slot_pop(cache->index);
    if (VLI_UNLIKELY(unit == 0 || (how & VL_ZEROED) != 0)) {
        return alloc_slow(cache->index, unit, how, who);
    }
    vli_debug_alloc(cache, unit, who);
    return (void *)(unit + cache->shift);
}

void vl_cache_free(struct vl_cache *cache, void *object)
{
    uintptr_t unit = (uintptr_t)object - cache->shift;

    vli_debug_free(cache, object, VLI_MARK_HEAD == 0 ? 0 : VLI_RETURN_ADDRESS);
    if (VLI_UNLIKELY(!vli_slot_push(cache->index, unit))) {
        free_slow(vli_virt_frame(unit), unit);
    }
}

/* ------------------------------------------------------------------------- allocation by size */

void *vl_kmalloc_class(size_t class, vl_how_t how)
{
    uintptr_t who = VLI_MARK_HEAD == 0 ? 0 : VLI_RETURN_ADDRESS;
    uintptr_t unit;

    vli_debug_how(how);
    if (VLI_ALLOC_FAILS()) {
        return NULL;
    }
    unit = vli_slot_pop(class);
    if (VLI_UNLIKELY(unit == 0)) {
        return alloc_slow(class, 0, how, who);
    }
    vli_debug_alloc(&vli_caches[class], unit, who);
    return (void *)(unit + class_shift(class));
}

/* Classes of sizes up to 2048, by eights. */
#define TABLE_MAX    2048u
#define ENTRY(n)     (uint8_t) VL_KMALLOC_CLASS((n)*8u)
#define ENTRIES4(n)  ENTRY(n), ENTRY((n) + 1u), ENTRY((n) + 2u), ENTRY((n) + 3u)
#define ENTRIES16(n) ENTRIES4(n), ENTRIES4((n) + 4u), ENTRIES4((n) + 8u), ENTRIES4((n) + 12u)
#define ENTRIES64(n) ENTRIES16(n), ENTRIES16((n) + 16u), ENTRIES16((n) + 32u), ENTRIES16((n) + 48u)
static const uint8_t classes[TABLE_MAX / 8u + 1u] = {ENTRIES64(0u), ENTRIES64(64u), ENTRIES64(128u),
                                                     ENTRIES64(192u), ENTRY(256u)};

/* Class of a size from 17 to 16384: two to each doubling. */
static VLI_ALWAYS_INLINE unsigned class_of(size_t size)
{
    unsigned top = vli_bit_highest(size - 1);

    return 2u * (top - 4u) + 3u + ((unsigned)((size - 1) >> (top - 1u)) & 1u);
}

static VLI_ALWAYS_INLINE void *alloc_class(size_t class, vl_how_t how, uintptr_t who)
{
    uintptr_t unit;

    vli_debug_how(how);
    if (VLI_ALLOC_FAILS()) {
        return NULL;
    }
    unit = vli_slot_pop(class);
    if (VLI_UNLIKELY(unit == 0)) {
        return alloc_slow(class, 0, how, who);
    }
    if (VLI_UNLIKELY((how & VL_ZEROED) != 0)) {
        return alloc_slow(class, unit, how, who);
    }
    vli_debug_alloc(&vli_caches[class], unit, who);
    return (void *)(unit + class_shift(class));
}

/* Above what the table covers. */
static VLI_NOINLINE void *alloc_big(size_t size, vl_how_t how, uintptr_t who)
{
    if (size > VL_KMALLOC_CACHED_MAX) {
        return vli_whole_alloc(size, VL_PAGE_SIZE, how, who);
    }
    return vli_debug_size(alloc_class(class_of(size), how, who), size);
}

void *vl_kmalloc_any(size_t size, vl_how_t how)
{
    uintptr_t who = VLI_MARK_HEAD == 0 ? 0 : VLI_RETURN_ADDRESS;

    if (VLI_UNLIKELY(size > TABLE_MAX)) {
        return alloc_big(size, how, who);
    }
    return vli_debug_size(alloc_class(classes[(size + 7u) / 8u], how, who), size);
}

/* Not of this CPU's current slab: another slab's, whole frames, or nothing of ours. */
static VLI_NOINLINE void kfree_slow(struct vl_frame *frame, uintptr_t unit, uintptr_t who)
{
    switch (vli_frame_type(frame)) {
    case VLI_FRAME_SLAB:
        vli_slab_free_slow(frame, unit);
        return;
    case VLI_FRAME_KMALLOC:
        if ((unit & VL_PAGE_MASK) == 0) {
            vli_whole_free(frame, who);
            return;
        }
        break;
    default:
        break;
    }
    vli_panic("kfree of 0x%lx, which nobody was given (frame type %u)", (unsigned long)unit,
              (unsigned)vli_frame_type(frame));
}

#ifdef VL_DEBUG
/* The checks of a debug build; returns the unit. */
static uintptr_t kfree_check(struct vl_frame *frame, void *object, uintptr_t who)
{
    struct vl_cache *cache = vli_slab_cache(frame);

    if (vli_frame_type(frame) != VLI_FRAME_SLAB) {
        return (uintptr_t)object;
    }
    vli_debug_free(cache, object, who);
    return (uintptr_t)object - cache->shift;
}
#else
static VLI_ALWAYS_INLINE uintptr_t kfree_check(struct vl_frame *frame, void *object, uintptr_t who)
{
    (void)frame;
    (void)who;
    return (uintptr_t)object;
}
#endif

void vl_kfree(void *object)
{
    uintptr_t unit;
    struct vl_frame *frame;

    if (VLI_UNLIKELY(object == NULL)) {
        return;
    }
    vli_debug_find(object, VLI_MARK_HEAD == 0 ? 0 : VLI_RETURN_ADDRESS);
    frame = vli_virt_frame((uintptr_t)object);
    unit = kfree_check(frame, object, VLI_MARK_HEAD == 0 ? 0 : VLI_RETURN_ADDRESS);
    if (VLI_UNLIKELY(!vli_slot_push(vli_frame_index8(frame), unit))) {
        kfree_slow(frame, unit, VLI_MARK_HEAD == 0 ? 0 : VLI_RETURN_ADDRESS);
    }
}
