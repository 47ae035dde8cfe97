/*
 * space.c - the texts about one space: maps and smaps, as Linux 6.12 prints them.
 *
 * The space's lock is held for reading throughout, so that the areas are of one moment; residency
 * is counted under each leaf table page's lock, so it is of many. @out is the kernel's memory: a
 * user's page could fault here, under the lock.
 *
 * The heap is what lies between the start and the end of the break, a stack is an area that grows
 * down. Anonymous memory that is shared goes by Linux's name for it.
 */
#include <vellum/report.h>
#include "core/report/text.h"
#include "core/space/area.h"
#include "core/table/table.h"

#define PATH_BYTES  256u
#define NAME_COLUMN 73u

/* What an area maps, in the words of maps. */
struct name {
    char path[PATH_BYTES];
    uint32_t device; /* major << 8 | minor */
    uint64_t inode;
};

static void name_of(struct vl_space *space, const struct vli_area *area, struct name *out)
{
    const struct vl_object *object = area->object;

    out->path[0] = '\0';
    out->device = 0;
    out->inode = 0;
    if (object != NULL && object->kind == VLI_OBJECT_SHARED) {
        out->device = 1;
        (void)vli_print(out->path, sizeof(out->path), "/dev/zero (deleted)");
    } else if (object != NULL) {
        if (object->ops != NULL && object->ops->describe != NULL) {
            object->ops->describe(object->owner, out->path, sizeof(out->path), &out->device,
                                  &out->inode);
        }
    } else if (area->rmap.start < space->brk_end && area->rmap.end > space->brk_start) {
        (void)vli_print(out->path, sizeof(out->path), "[heap]");
    } else if (vli_area_grows(area)) {
        (void)vli_print(out->path, sizeof(out->path), "[stack]");
    }
}

static void maps_line(struct vli_text *text, struct vl_space *space, const struct vli_area *area)
{
    size_t start = text->len;
    uint32_t prot = area->attributes & VLI_AREA_PROT;
    struct name name;

    name_of(space, area, &name);
    vli_text_add(
        text, "%08lx-%08lx %c%c%c%c %08lx %02x:%02x %lu ", (unsigned long)area->rmap.start,
        (unsigned long)area->rmap.end, (prot & VL_READ) != 0 ? 'r' : '-',
        (prot & VL_WRITE) != 0 ? 'w' : '-', (prot & VL_EXEC) != 0 ? 'x' : '-',
        vli_area_is_shared(area) ? 's' : 'p',
        (unsigned long)(area->object != NULL ? area->rmap.first_index << VL_PAGE_SHIFT : 0),
        name.device >> 8, name.device & 0xffu, (unsigned long)name.inode);
    if (name.path[0] != '\0') {
        vli_text_pad(text, start, NAME_COLUMN);
        vli_text_add(text, "%s", name.path);
    }
    vli_text_add(text, "\n");
}

size_t vl_report_maps(struct vl_space *space, char *out, size_t size)
{
    struct vli_text text = {out, size, 0};

    if (size > 0) {
        out[0] = '\0';
    }
    vli_rw_read_lock(&space->lock);
    for (struct vli_area *area = vli_area_first(space); area != NULL;
         area = vli_area_next(space, area)) {
        maps_line(&text, space, area);
    }
    vli_rw_read_unlock(&space->lock);
    return text.len;
}

/* ------------------------------------------------------------------------------------- smaps */

/* What of an area is resident, in bytes; Pss in 4096ths of a byte. */
struct resident {
    uint64_t rss, pss, pss_dirty;
    uint64_t shared_clean, shared_dirty, private_clean, private_dirty;
    uint64_t referenced, anonymous;
};

static void count_entry(struct resident *sum, uint64_t pte)
{
    struct vl_pfn pfn = vli_pte_pfn(pte);
    const struct vl_frame *frame = vli_frame_of(pfn);
    uint64_t mappings = atomic_load_explicit(&frame->mappings, memory_order_relaxed);
    bool is_dirty = vli_pte_is_dirty(pte) || vli_frame_is_marked(frame, VLI_FRAME_DIRTY);
    uint64_t share;

    if (pfn.n == vli_zero_pfn.n) {
        return; /* nobody's page */
    }
    share = (VL_PAGE_SIZE << 12) / (mappings > 0 ? mappings : 1);
    sum->rss += VL_PAGE_SIZE;
    sum->pss += share;
    sum->pss_dirty += is_dirty ? share : 0;
    if (mappings > 1) {
        *(is_dirty ? &sum->shared_dirty : &sum->shared_clean) += VL_PAGE_SIZE;
    } else {
        *(is_dirty ? &sum->private_dirty : &sum->private_clean) += VL_PAGE_SIZE;
    }
    sum->referenced += vli_pte_is_accessed(pte) ? VL_PAGE_SIZE : 0;
    sum->anonymous += vli_frame_type(frame) == VLI_FRAME_ANON ? VL_PAGE_SIZE : 0;
}

static void count_area(struct vl_space *space, const struct vli_area *area, struct resident *out)
{
    struct vli_table_slot slot;
    vl_va va = area->rmap.start;
    vl_va stop;
    uint64_t pte;

    *out = (struct resident){0};
    while (vli_table_next(&space->table, &va, area->rmap.end, &slot)) {
        stop = vli_table_leaf_end(va, area->rmap.end);
        for (_Atomic uint64_t *entry = slot.entry; va < stop; va += VL_PAGE_SIZE, entry++) {
            pte = atomic_load_explicit(entry, memory_order_relaxed);
            if (vli_pte_has_frame(pte)) {
                count_entry(out, pte);
            }
        }
        vli_table_unlock(&slot);
    }
}

static void kib_line(struct vli_text *text, const char *name, uint64_t bytes)
{
    vli_text_add(text, "%-16s%8lu kB\n", name, (unsigned long)(bytes >> 10));
}

static void smaps_flags(struct vli_text *text, const struct vli_area *area)
{
    uint32_t prot = area->attributes & VLI_AREA_PROT;
    uint32_t most = area->attributes >> VLI_AREA_MAX_SHIFT & VLI_AREA_PROT;

    vli_text_add(text, "VmFlags: %s%s%s%s%s%s%s%s%s%s\n", (prot & VL_READ) != 0 ? "rd " : "",
                 (prot & VL_WRITE) != 0 ? "wr " : "", (prot & VL_EXEC) != 0 ? "ex " : "",
                 vli_area_is_shared(area) ? "sh " : "", (most & VL_READ) != 0 ? "mr " : "",
                 (most & VL_WRITE) != 0 ? "mw " : "", (most & VL_EXEC) != 0 ? "me " : "",
                 vli_area_grows(area) ? "gd " : "",
                 (area->attributes & VLI_AREA_SEQUENTIAL) != 0 ? "sr " : "",
                 (area->attributes & VLI_AREA_RANDOM) != 0 ? "rr " : "");
}

static void smaps_area(struct vli_text *text, struct vl_space *space, const struct vli_area *area)
{
    struct resident sum;

    count_area(space, area, &sum);
    maps_line(text, space, area);
    kib_line(text, "Size:", area->rmap.end - area->rmap.start);
    kib_line(text, "KernelPageSize:", VL_PAGE_SIZE);
    kib_line(text, "MMUPageSize:", VL_PAGE_SIZE);
    kib_line(text, "Rss:", sum.rss);
    kib_line(text, "Pss:", sum.pss >> 12);
    kib_line(text, "Pss_Dirty:", sum.pss_dirty >> 12);
    kib_line(text, "Shared_Clean:", sum.shared_clean);
    kib_line(text, "Shared_Dirty:", sum.shared_dirty);
    kib_line(text, "Private_Clean:", sum.private_clean);
    kib_line(text, "Private_Dirty:", sum.private_dirty);
    kib_line(text, "Referenced:", sum.referenced);
    kib_line(text, "Anonymous:", sum.anonymous);
    kib_line(text, "KSM:", 0);
    kib_line(text, "LazyFree:", 0);
    kib_line(text, "AnonHugePages:", 0);
    kib_line(text, "ShmemPmdMapped:", 0);
    kib_line(text, "FilePmdMapped:", 0);
    kib_line(text, "Shared_Hugetlb:", 0);
    vli_text_add(text, "Private_Hugetlb: %7lu kB\n", 0ul);
    kib_line(text, "Swap:", 0);
    kib_line(text, "SwapPss:", 0);
    kib_line(text, "Locked:", 0);
    vli_text_add(text, "THPeligible:    %8u\n", 0u);
    smaps_flags(text, area);
}

size_t vl_report_smaps(struct vl_space *space, char *out, size_t size)
{
    struct vli_text text = {out, size, 0};

    if (size > 0) {
        out[0] = '\0';
    }
    vli_rw_read_lock(&space->lock);
    for (struct vli_area *area = vli_area_first(space); area != NULL;
         area = vli_area_next(space, area)) {
        smaps_area(&text, space, area);
    }
    vli_rw_read_unlock(&space->lock);
    return text.len;
}
