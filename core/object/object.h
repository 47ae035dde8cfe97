/*
 * object.h - the contract of objects (F5) for spaces: finding and making pages under a fault.
 *
 * A fault looks a page up while it holds the lock of the leaf table page that it is about to fill,
 * and takes the object's pages lock inside. Truncation first shrinks the size and takes the pages
 * out of the tree, then empties the entries of every mapping, each under its leaf page's lock. So
 * a fault either finds the page gone, or has filled its entry before truncation comes to empty it.
 * object->lock only keeps truncations of one object from each other.
 */
#ifndef VLI_OBJECT_H
#define VLI_OBJECT_H

#include <vellum/object.h>
#include "core/object/pages.h"
#include "core/rmap/rmap.h"

enum vli_object_kind {
    VLI_OBJECT_FILE,  /* made by vl_object_create() */
    VLI_OBJECT_SHARED /* anonymous shared memory of a space */
};

/* Keys: (L) pages_lock; (T) lock for writing, readers: pages_lock or none where relaxed will do. */
struct vl_object {
    _Atomic uint32_t refs;
    enum vli_object_kind kind;
    struct vli_spinlock pages_lock;
    _Atomic uint64_t size;  /* (T, L) bytes */
    struct vli_pages pages; /* (L) */
    _Atomic uint64_t count; /* (L) frames; read without */
    struct vli_rmap_object rmap;
    struct vli_rwlock lock;
    const struct vl_object_ops *ops;
    void *owner;
};

/** vli_object_init() - the caches. vl_init() only. */
VL_MUST_CHECK enum vl_status vli_object_init(void);

/** vli_refill() - memory ran out, under locks that were left: reclaim, or ask the out-of-memory
 * policy. VL_OK: try again; VL_ENOMEM. Context: thread, no core lock held; may sleep. */
VL_MUST_CHECK enum vl_status vli_refill(void);

/** vli_object_create_shared() - anonymous shared memory of @size bytes, one reference. May sleep.
 * VL_OK or VL_ENOMEM. */
VL_MUST_CHECK enum vl_status vli_object_create_shared(uint64_t size, struct vl_object **out);

/** vli_object_page_count() - pages that the size reaches into. Context: any. */
static inline uint64_t vli_object_page_count(const struct vl_object *object)
{
    uint64_t size = atomic_load_explicit(&object->size, memory_order_acquire);

    return (size >> VL_PAGE_SHIFT) + ((size & VL_PAGE_MASK) != 0);
}

/** vli_object_of() - the object that an object's frame belongs to; NULL once it was taken out. */
static inline struct vl_object *vli_object_of(const struct vl_frame *frame)
{
    return (struct vl_object *)atomic_load_explicit(&frame->owner, memory_order_acquire);
}

/**
 * vli_object_find() - the resident frames of pages @first … @first + @count - 1, each with a
 * reference; NULL for holes and for what lies beyond the size.
 * Returns: how many were found. Locks: takes pages_lock; a leaf table page's may be held.
 */
unsigned vli_object_find(struct vl_object *object, uint64_t first, unsigned count,
                         struct vl_frame **out);

/**
 * vli_object_insert() - make @frame (fresh, its one reference becomes the object's) page @index.
 * Returns: VL_OK; VL_EEXIST (somebody else did); VL_EBUSERROR (beyond the size); VL_ENOMEM: leave
 * all locks, fill @reserve, come back. On an error the frame stays the caller's.
 * Locks: as vli_object_find().
 */
VL_MUST_CHECK enum vl_status vli_object_insert(struct vl_object *object, uint64_t index,
                                               struct vl_frame *frame,
                                               struct vli_pages_reserve *reserve);

/** vli_object_validate() - every page names its object and index; panics. Quiescent. */
void vli_object_validate(struct vl_object *object);

#endif
