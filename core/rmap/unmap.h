/*
 * unmap.h - emptying a part of an area's entries; the same for every strategy.
 *
 * Here, below objects and spaces, because both need it: truncation for all areas of an object,
 * unmapping for one.
 */
#ifndef VLI_UNMAP_H
#define VLI_UNMAP_H

#include "core/rmap/rmap.h"

/**
 * vli_rmap_unmap_range() - empty all entries of [@start, @end), a part of @area, into @gather:
 * counts of the table and of the frames go down, references are dropped after the flush. Locks: no
 * spin lock held; the area's table pages are kept alive by the space's lock or rmap's. Takes each
 * leaf page's lock. The caller ends the gather.
 */
void vli_rmap_unmap_range(struct vli_gather *gather, struct vli_rmap_area *area, vl_va start,
                          vl_va end);

/** vli_rmap_frame_put() - drop a reference on an anonymous frame or one of an object; the last
 * gives it back. Context: any. */
static inline void vli_rmap_frame_put(struct vl_frame *frame)
{
    if (vli_frame_ref_drop(frame)) {
        vli_frame_put(frame, 0);
    }
}

#endif
