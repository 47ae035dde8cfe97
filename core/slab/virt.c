/*
 * virt.c - from an address that the host's phys_to_virt gave, back to its frame.
 *
 * The host is asked for one direction only, which is linear within each range. Nearly every host
 * maps all its RAM with one offset, and then one number answers. For the others there is a table of
 * ranges, searched from the start: 64 at most.
 */
#include "core/slab/slab.h"
#include "core/base/log.h"

#define RANGES_MAX 64u

uintptr_t vli_virt_frames;

static struct {
    uintptr_t start; /* virtual */
    uintptr_t bytes;
    uint32_t first; /* frame number */
} ranges[RANGES_MAX];
static size_t range_count;

void vli_virt_init(void)
{
    struct vl_range host[RANGES_MAX];
    uintptr_t offset = 0;
    uintptr_t start;
    bool has_offset = false;
    bool is_one = true;

    range_count = vl_host_memory_ranges(host, RANGES_MAX);
    if (range_count > RANGES_MAX) {
        range_count = RANGES_MAX;
    }
    for (size_t i = 0; i < range_count; i++) {
        if (host[i].kind == VL_RANGE_SIDE) {
            ranges[i].bytes = 0;
            continue;
        }
        start = (uintptr_t)vl_host_phys_to_virt(host[i].start);
        ranges[i].start = start;
        ranges[i].bytes = (uintptr_t)(host[i].end.a - host[i].start.a);
        ranges[i].first = vl_pa_to_pfn(host[i].start).n;
        if (!has_offset) {
            has_offset = true;
            offset = start - (uintptr_t)host[i].start.a;
        }
        is_one = is_one && start - (uintptr_t)host[i].start.a == offset;
    }
    vli_virt_frames = 0;
    if (is_one) {
        vli_virt_frames =
            (uintptr_t)vli_frames - (offset >> VL_PAGE_SHIFT) * sizeof(struct vl_frame);
    }
}

struct vl_frame *vli_virt_frame_slow(uintptr_t address)
{
    for (size_t i = 0; i < range_count; i++) {
        if (address - ranges[i].start < ranges[i].bytes) {
            address = (address - ranges[i].start) >> VL_PAGE_SHIFT;
            return vli_frame_of((struct vl_pfn){ranges[i].first + (uint32_t)address});
        }
    }
    return NULL;
}
