/*
 * space_write.c - writing to a space that nobody runs in: page by page, through its frames.
 */
#include "kernel/proc/exec.h"

long space_write(struct vl_space *space, vl_va at, const void *bytes, size_t len)
{
    const char *from = bytes;

    while (len != 0) {
        size_t into = at & VL_PAGE_MASK;
        size_t part = VL_PAGE_SIZE - into < len ? VL_PAGE_SIZE - into : len;
        struct vl_pfn pfn;
        long result = (long)vl_space_frame_get(space, at, VL_WRITE, &pfn);

        if (result != 0) {
            return result == VL_EBUSERROR ? -EFAULT : result;
        }
        memcpy((char *)vl_frame_to_virt(pfn) + into, from, part);
        vl_frame_ref_put(pfn);
        at += part;
        from += part;
        len -= part;
    }
    return 0;
}

long space_zero(struct vl_space *space, vl_va at, size_t len)
{
    while (len != 0) {
        size_t into = at & VL_PAGE_MASK;
        size_t part = VL_PAGE_SIZE - into < len ? VL_PAGE_SIZE - into : len;
        struct vl_pfn pfn;
        long result = (long)vl_space_frame_get(space, at, VL_WRITE, &pfn);

        if (result != 0) {
            return result == VL_EBUSERROR ? -EFAULT : result;
        }
        memset((char *)vl_frame_to_virt(pfn) + into, 0, part);
        vl_frame_ref_put(pfn);
        at += part;
        len -= part;
    }
    return 0;
}
