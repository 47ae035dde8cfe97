/*
 * object.h - what backs an area: an object is a set of pages by index.
 *
 * This header shows the objects that an embedder makes: files that live in memory. Their pages are
 * the page cache: read, write, private and shared mappings all use the same frames. Anonymous
 * memory needs no object from outside; vl_space_map() with none makes it.
 */
#ifndef VELLUM_OBJECT_H
#define VELLUM_OBJECT_H

#include <vellum/types.h>

struct vl_object;

/* What the maker of an object adds to it; every function may be NULL. */
struct vl_object_ops {
    /* The last reference went; the object's memory is freed after this returns. May sleep. */
    void (*release)(void *owner);
    /* For maps and smaps: writes the path, sets device and inode number. Must not sleep. */
    void (*describe)(void *owner, char *path, size_t size, uint32_t *out_dev, uint64_t *out_inode);
};

/**
 * vl_object_create() - a file object that lives in memory, empty, size 0, one reference.
 * @ops:   may be NULL. @owner: handed to @ops.
 * Context: thread; may sleep. Returns: VL_OK, VL_ENOMEM.
 */
VL_MUST_CHECK enum vl_status vl_object_create(const struct vl_object_ops *ops, void *owner,
                                              struct vl_object **out);

/** vl_object_get() - one more reference. Context: any. */
void vl_object_get(struct vl_object *object);
/** vl_object_try_get() - one more reference unless the last one has gone already: for an owner that
 * keeps a pointer without a reference until its release() is called. Context: any. */
VL_MUST_CHECK bool vl_object_try_get(struct vl_object *object);
/** vl_object_references() - how many there are: one for each area that maps the object, and those
 * that were taken by hand. A snapshot. Context: any. */
uint32_t vl_object_references(const struct vl_object *object);
/** vl_object_put() - drop one; the last frees the pages. Context: thread; may sleep. */
void vl_object_put(struct vl_object *object);
/** vl_object_owner() - what vl_object_create() was given. */
void *vl_object_owner(const struct vl_object *object);

/** vl_object_size() - in bytes. Context: any. */
uint64_t vl_object_size(const struct vl_object *object);

/**
 * vl_object_extend() - make the size at least @size bytes; pages in between read as zeros.
 * Context: thread. Returns: VL_OK, VL_EFBIG beyond 2^40 - 1 pages.
 */
VL_MUST_CHECK enum vl_status vl_object_extend(struct vl_object *object, uint64_t size);

/**
 * vl_object_truncate() - set the size; pages wholly beyond it leave the object and every mapping
 * (a later touch is a bus error), the rest of a partial page is zeroed.
 * Context: thread; may sleep; no core lock held. Returns: VL_OK, VL_EFBIG, VL_ENOMEM.
 */
VL_MUST_CHECK enum vl_status vl_object_truncate(struct vl_object *object, uint64_t size);

/**
 * vl_object_punch() - the pages of [@start, @end) (bytes, page-aligned) leave the object and every
 * mapping; they read as zeros again. Context: as truncate. Returns: VL_OK, VL_EINVAL, VL_ENOMEM.
 */
VL_MUST_CHECK enum vl_status vl_object_punch(struct vl_object *object, uint64_t start,
                                             uint64_t end);

enum vl_page_mode {
    VL_PAGE_FIND,  /* only what is there */
    VL_PAGE_CREATE /* a zeroed page where there is none */
};

/**
 * vl_object_page_get() - the frame of page @index, with a reference that vl_object_page_put() ends.
 * The frame stays the object's: what is written there is seen by every reader and mapping.
 * The size is not looked at.
 * Context: thread; may sleep; no core lock held.
 * Returns: VL_OK; VL_ENOENT (FIND: a hole); VL_ENOMEM; VL_EFBIG.
 */
VL_MUST_CHECK enum vl_status vl_object_page_get(struct vl_object *object, uint64_t index,
                                                enum vl_page_mode mode, struct vl_pfn *out);
/** vl_object_page_put() - ends a hold of vl_object_page_get(). Context: any. */
void vl_object_page_put(struct vl_pfn pfn);

/**
 * vl_object_adopt() - make reserved frame @pfn (an image left by the boot loader) page @index of
 * the object, in place; the bytes beyond @valid of it are zeroed.
 * Returns: VL_OK; VL_EEXIST; VL_EINVAL when the frame is not reserved; VL_ENOMEM.
 */
VL_MUST_CHECK enum vl_status vl_object_adopt(struct vl_object *object, uint64_t index,
                                             struct vl_pfn pfn, size_t valid);

/** vl_object_pages() - resident pages. Context: any. */
uint64_t vl_object_pages(const struct vl_object *object);

#endif
