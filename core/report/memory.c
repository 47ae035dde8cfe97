/*
 * memory.c - the texts about all memory: meminfo, buddyinfo, slabinfo, vmstat, zoneinfo; names,
 * order and widths as Linux 6.12 prints them.
 *
 * A line stands here when the core can say what it means: what is not there (swap, writeback) is 0;
 * what only the host knows (kernel stacks, its vmalloc) is left out. Without ageing of pages yet,
 * anonymous pages count as active and those of objects as inactive.
 */
#include <vellum/report.h>
#include "core/base/count.h"
#include "core/frame/zone.h"
#include "core/report/text.h"
#include "core/slab/slab.h"

#define KIB(pages) ((unsigned long)((pages) << (VL_PAGE_SHIFT - 10u)))

/* What several texts need. */
struct memory {
    struct vl_frame_counts frames;
    struct vli_frame_kinds kinds;
    uint64_t free;
    uint64_t file;
    uint64_t shared;
    uint64_t slab; /* frames of slabs and of large kmallocs */
    uint64_t watermarks_low;
};

static void memory_read(struct memory *out)
{
    struct vli_slab_info slab;
    struct vli_zone_info zone;

    *out = (struct memory){.file = vli_count_sum(VLI_COUNT_FILE),
                           .shared = vli_count_sum(VLI_COUNT_SHARED),
                           .slab = vli_count_sum(VLI_COUNT_KMALLOC)};
    vl_frame_counts(&out->frames);
    vli_frame_kinds(&out->kinds);
    out->free = out->frames.free_zones + out->frames.free_stock;
    for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
        if (vli_slab_info(i, &slab)) {
            out->slab += slab.frames;
        }
    }
    for (unsigned i = 0; vli_zone_info(i, &zone); i++) {
        out->watermarks_low += zone.watermark_low;
    }
}

/* Free frames above the low watermarks, and half of the cache or what is above them of it: what
 * could be had without pushing anybody out. */
static uint64_t available(const struct memory *memory)
{
    uint64_t cache = memory->file > memory->shared ? memory->file - memory->shared : 0;
    uint64_t kept = cache / 2 < memory->watermarks_low ? cache / 2 : memory->watermarks_low;
    uint64_t sum = memory->free + cache - kept;

    return sum > memory->watermarks_low ? sum - memory->watermarks_low : 0;
}

static void line(struct vli_text *text, const char *name, uint64_t pages)
{
    vli_text_add(text, "%-16s%8lu kB\n", name, KIB(pages));
}

size_t vl_report_meminfo(char *out, size_t size)
{
    struct vli_text text = {out, size, 0};
    struct memory memory;
    uint64_t cache;

    memory_read(&memory);
    cache = memory.file > memory.shared ? memory.file - memory.shared : 0;
    line(&text, "MemTotal:", memory.frames.managed);
    line(&text, "MemFree:", memory.free);
    line(&text, "MemAvailable:", available(&memory));
    line(&text, "Buffers:", 0);
    line(&text, "Cached:", memory.file);
    line(&text, "SwapCached:", 0);
    line(&text, "Active:", memory.kinds.anon + memory.shared);
    line(&text, "Inactive:", cache);
    line(&text, "Active(anon):", memory.kinds.anon + memory.shared);
    line(&text, "Inactive(anon):", 0);
    line(&text, "Active(file):", 0);
    line(&text, "Inactive(file):", cache);
    line(&text, "Unevictable:", 0);
    line(&text, "Mlocked:", 0);
    line(&text, "SwapTotal:", 0);
    line(&text, "SwapFree:", 0);
    line(&text, "Dirty:", 0);
    line(&text, "Writeback:", 0);
    line(&text, "AnonPages:", memory.kinds.anon);
    line(&text, "Mapped:", memory.kinds.file_mapped);
    line(&text, "Shmem:", memory.shared);
    line(&text, "KReclaimable:", 0);
    line(&text, "Slab:", memory.slab);
    line(&text, "SReclaimable:", 0);
    line(&text, "SUnreclaim:", memory.slab);
    line(&text, "PageTables:", memory.kinds.table);
    line(&text, "Bounce:", 0);
    line(&text, "WritebackTmp:", 0);
    line(&text, "Percpu:", (uint64_t)vl_host_cpu_count() * VL_PERCPU_BYTES / VL_PAGE_SIZE);
    return text.len;
}

size_t vl_report_buddyinfo(char *out, size_t size)
{
    struct vli_text text = {out, size, 0};
    struct vli_zone_info zone;

    for (unsigned i = 0; vli_zone_info(i, &zone); i++) {
        if (zone.managed == 0) {
            continue;
        }
        vli_text_add(&text, "Node %u, zone %8s ", zone.node, zone.name);
        for (unsigned order = 0; order < VL_ORDER_COUNT; order++) {
            vli_text_add(&text, "%6lu ", (unsigned long)zone.blocks[order]);
        }
        vli_text_add(&text, "\n");
    }
    return text.len;
}

size_t vl_report_slabinfo(char *out, size_t size)
{
    struct vli_text text = {out, size, 0};
    struct vli_slab_info slab;

    vli_text_add(&text, "slabinfo - version: 2.1\n"
                        "# name            <active_objs> <num_objs> <objsize> <objperslab> "
                        "<pagesperslab> : tunables <limit> <batchcount> <sharedfactor> "
                        ": slabdata <active_slabs> <num_slabs> <sharedavail>\n");
    for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
        if (!vli_slab_info(i, &slab)) {
            continue;
        }
        vli_text_add(&text, "%-17s %6lu %6lu %6u %4u %4u", slab.name,
                     (unsigned long)slab.units_active, (unsigned long)slab.units, slab.unit_bytes,
                     slab.units_per_slab, slab.frames_per_slab);
        vli_text_add(&text, " : tunables %4u %4u %4u : slabdata %6lu %6lu %6lu\n", 0u, 0u, 0u,
                     (unsigned long)slab.slabs_active, (unsigned long)slab.slabs, 0ul);
    }
    return text.len;
}

static void count_line(struct vli_text *text, const char *name, uint64_t value)
{
    vli_text_add(text, "%s %lu\n", name, (unsigned long)value);
}

size_t vl_report_vmstat(char *out, size_t size)
{
    struct vli_text text = {out, size, 0};
    struct memory memory;

    memory_read(&memory);
    count_line(&text, "nr_free_pages", memory.free);
    count_line(&text, "nr_inactive_anon", 0);
    count_line(&text, "nr_active_anon", memory.kinds.anon + memory.shared);
    count_line(&text, "nr_inactive_file",
               memory.file > memory.shared ? memory.file - memory.shared : 0);
    count_line(&text, "nr_active_file", 0);
    count_line(&text, "nr_unevictable", 0);
    count_line(&text, "nr_slab_reclaimable", 0);
    count_line(&text, "nr_slab_unreclaimable", memory.slab);
    count_line(&text, "nr_anon_pages", memory.kinds.anon);
    count_line(&text, "nr_mapped", memory.kinds.file_mapped);
    count_line(&text, "nr_file_pages", memory.file);
    count_line(&text, "nr_dirty", 0);
    count_line(&text, "nr_writeback", 0);
    count_line(&text, "nr_shmem", memory.shared);
    count_line(&text, "nr_page_table_pages", memory.kinds.table);
    count_line(&text, "pgpgin", 0);
    count_line(&text, "pgpgout", 0);
    count_line(&text, "pswpin", 0);
    count_line(&text, "pswpout", 0);
    count_line(&text, "pgalloc_normal", vli_count_sum(VLI_COUNT_ALLOC));
    count_line(&text, "pgfree", vli_count_sum(VLI_COUNT_FREE));
    count_line(&text, "pgfault", vli_count_sum(VLI_COUNT_FAULT));
    count_line(&text, "pgmajfault", 0);
    return text.len;
}

/* What the CPUs keep of order 0; all of it is of the zones that are not scarce. */
static void pagesets(struct vli_text *text)
{
    unsigned cpus = vl_host_cpu_count();

    vli_text_add(text, "\n  pagesets");
    for (unsigned cpu = 0; cpu < cpus; cpu++) {
        const struct vli_frame_percpu *stock = &vli_percpu_of(cpu)->frame;

        vli_text_add(text,
                     "\n    cpu: %u"
                     "\n              count: %u"
                     "\n              high:  %u"
                     "\n              batch: %u",
                     cpu, atomic_load_explicit(&stock->count0, memory_order_relaxed), stock->limit0,
                     stock->limit0 / 2);
    }
}

size_t vl_report_zoneinfo(char *out, size_t size)
{
    struct vli_text text = {out, size, 0};
    struct vli_zone_info zone;

    for (unsigned i = 0; vli_zone_info(i, &zone); i++) {
        uint64_t reserved = atomic_load_explicit(&vli_zones[i].reserved, memory_order_relaxed);

        if (zone.managed == 0) {
            continue;
        }
        vli_text_add(&text, "Node %u, zone %8s", zone.node, zone.name);
        vli_text_add(&text,
                     "\n  pages free     %lu"
                     "\n        boost    %lu"
                     "\n        min      %lu"
                     "\n        low      %lu"
                     "\n        high     %lu"
                     "\n        spanned  %lu"
                     "\n        present  %lu"
                     "\n        managed  %lu"
                     "\n        cma      %lu",
                     (unsigned long)zone.free, 0ul, (unsigned long)zone.watermark_min,
                     (unsigned long)zone.watermark_low, (unsigned long)zone.watermark_high,
                     (unsigned long)(vli_zones[i].end - vli_zones[i].start),
                     (unsigned long)(zone.managed + reserved), (unsigned long)zone.managed, 0ul);
        vli_text_add(&text, "\n      nr_free_pages %lu", (unsigned long)zone.free);
        pagesets(&text);
        vli_text_add(&text, "\n  node_unreclaimable:  %u\n  start_pfn:           %lu\n", 0u,
                     (unsigned long)vli_zones[i].start);
    }
    return text.len;
}
