/*
 * resize.c - the size of what vl_kmalloc() gave, another size for it, and alignments beyond the
 * natural ones.
 *
 * An object keeps its place while the new size fits and fills more than half of it; whole frames
 * give their tail back where they lie. Only then is there a copy. A request for less never fails.
 *
 * Alignments up to a page come from the size classes: each is aligned to the largest power of 2
 * that divides it, and the class of a size that was rounded up to a multiple of the alignment is
 * itself such a multiple. (Classes are c = 2^k and 3 * 2^(k-1). A multiple s of 2^j that falls into
 * the second kind is above 2^k, so j < k, and 2^j divides c.) So vl_kfree() needs to know nothing.
 */
#include "core/slab/slab.h"
#include "core/base/bits.h"
#include "core/base/log.h"
#include "core/base/memory.h"

/* Objects up to this size stay where they are however little of them is used. */
#define MOVE_MIN 64u

/* Frame of an object of kmalloc's; panics when it is none. */
static struct vl_frame *frame_of(const void *object, uintptr_t who)
{
    struct vl_frame *frame;

    vli_debug_find(object, who);
    frame = vli_virt_frame((uintptr_t)object);
    if (vli_frame_type(frame) == VLI_FRAME_SLAB) {
        vli_debug_used(vli_slab_cache(frame), object, who);
        return frame;
    }
    if (vli_frame_type(frame) != VLI_FRAME_KMALLOC || ((uintptr_t)object & VL_PAGE_MASK) != 0) {
        vli_panic("0x%lx is nothing that vl_kmalloc() gave, by 0x%lx",
                  (unsigned long)(uintptr_t)object, (unsigned long)who);
    }
    return frame;
}

/* Bytes that the user may use. */
#ifdef VL_DEBUG
static size_t usable(struct vl_frame *frame, const void *object)
{
    if (vli_frame_type(frame) == VLI_FRAME_SLAB) {
        return vli_debug_bytes(vli_slab_cache(frame), object);
    }
    return atomic_load_explicit(&frame->owner, memory_order_relaxed);
}
#else
static size_t usable(struct vl_frame *frame, const void *object)
{
    (void)object;
    if (vli_frame_type(frame) == VLI_FRAME_SLAB) {
        return vli_slab_cache(frame)->object_bytes;
    }
    return vli_whole_room(frame);
}
#endif

size_t vl_ksize(const void *object)
{
    if (object == NULL) {
        return 0;
    }
    return usable(frame_of(object, VLI_MARK_HEAD == 0 ? 0 : VLI_RETURN_ADDRESS), object);
}

/* Can the object have this size where it is? Then it has. */
static bool resize_in_place(struct vl_frame *frame, void *object, size_t size)
{
    if (vli_frame_type(frame) != VLI_FRAME_SLAB) {
        return vli_whole_resize(frame, size);
    }
    if (size > vli_slab_cache(frame)->object_bytes) {
        return false;
    }
    (void)vli_debug_size(object, size);
    return true;
}

/* Would a smaller object do, so much smaller that a copy pays? */
static bool should_move(struct vl_frame *frame, size_t size)
{
    size_t room;

    if (vli_frame_type(frame) != VLI_FRAME_SLAB) {
        return size <= VL_KMALLOC_CACHED_MAX / 2;
    }
    room = vli_slab_cache(frame)->object_bytes;
    return room > MOVE_MIN && size <= room / 2;
}

void *vl_krealloc(void *object, size_t size, vl_how_t how)
{
    uintptr_t who = VLI_MARK_HEAD == 0 ? 0 : VLI_RETURN_ADDRESS;
    struct vl_frame *frame;
    void *fresh = NULL;
    size_t old;

    if (object == NULL) {
        return vli_debug_owner(vl_kmalloc_any(size, how), who);
    }
    vli_debug_how(how);
    frame = frame_of(object, who);
    old = usable(frame, object);
    if (should_move(frame, size)) {
        fresh = vl_kmalloc_any(size, (how & ~(vl_how_t)VL_WAIT) | VL_MAY_FAIL);
    }
    if (fresh == NULL && resize_in_place(frame, object, size)) {
        if ((how & VL_ZEROED) != 0) {
            old = old < size ? old : size;
            memset((char *)object + old, 0, usable(frame, object) - old);
        }
        return object;
    }
    if (fresh == NULL) {
        fresh = vl_kmalloc_any(size, how);
    }
    if (fresh == NULL) {
        return NULL;
    }
    memcpy(fresh, object, old < size ? old : size);
    vl_kfree(object);
    return vli_debug_owner(fresh, who);
}

void *vl_kmalloc_aligned(size_t size, size_t align, vl_how_t how)
{
    uintptr_t who = VLI_MARK_HEAD == 0 ? 0 : VLI_RETURN_ADDRESS;
    void *object;
    size_t rounded;

    if (!vli_is_power_of_2(align) || align > VL_KMALLOC_MAX || size > VL_KMALLOC_MAX) {
        return NULL;
    }
    rounded = (size_t)vli_round_up(size == 0 ? 1 : size, align);
    if (align > VL_PAGE_SIZE || rounded > VL_KMALLOC_CACHED_MAX) {
        vli_debug_how(how);
        return vli_whole_alloc(size == 0 ? 1 : size, align, how, who);
    }
    object = vl_kmalloc_any(rounded, how);
    return vli_debug_owner(vli_debug_size(object, size), who);
}
