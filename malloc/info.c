/*
 * info.c - what the heap holds: <malloc.h>'s texts and structs, <vellum/malloc.h>'s, and the lines
 * at exit.
 *
 * Figures are added up when asked for, from what the core counts anyway; the fast paths count
 * nothing. What is in CPUs' areas is read while they are used, so a figure may be off by what
 * moves meanwhile.
 */
#include "malloc/face.h"
#include "core/slab/process.h"
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <vellum/malloc.h>

/* What one cache holds, in bytes. */
struct cache_sum {
    size_t slabs;  /* of all its slabs */
    size_t kept;   /* by CPUs and threads */
    size_t shared; /* in the barn */
    size_t free;   /* in slabs, neither */
};

static struct cache_sum sum_of(struct vl_cache *cache)
{
    struct cache_sum sum = {0, 0, 0, 0};
    struct vli_slab_held held = vli_slab_held(cache);
    const struct vli_slab_percpu *area;

    for (size_t i = 0; i < vli_area_end(); i++) {
        area = vli_area_at(i);
        held.kept += area != NULL ? vli_slab_area_units(area, cache) : 0;
    }
    sum.kept = (size_t)held.kept * cache->unit_bytes;
    sum.shared = (size_t)held.shared * cache->unit_bytes;
    sum.free = (size_t)held.free * cache->unit_bytes;
    sum.slabs = (size_t)atomic_load_explicit(&cache->node[0].units, memory_order_relaxed) *
                cache->unit_bytes;
    return sum;
}

VLI_EXPORT void vl_malloc_stats(struct vl_malloc_stats *out)
{
    struct vl_frame_counts counts;

    *out = (struct vl_malloc_stats){.used = 0};
    if (!vli_malloc_ready()) {
        return;
    }
    for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
        struct cache_sum sum = sum_of(&vli_caches[i]);

        out->kept += sum.kept;
        out->shared += sum.shared;
        out->free += sum.free;
        if (vli_class_bytes[i] != 0 && sum.slabs > sum.kept + sum.shared + sum.free) {
            out->used += sum.slabs - sum.kept - sum.shared - sum.free;
        }
    }
    vl_frame_counts(&counts);
    out->large = vli_large_total();
    out->used += out->large + vli_run_total();
    out->given_back = (size_t)vli_range_given_back();
    out->free += ((size_t)counts.free_zones << VL_PAGE_SHIFT) + vli_large_kept();
    out->taken = ((size_t)counts.managed << VL_PAGE_SHIFT) + out->large + vli_large_kept();
    out->areas = vli_area_count();
}

VLI_EXPORT bool vl_malloc_is_percpu(void)
{
    return vli_malloc_ready() && vli_area_is_percpu();
}

/* ---------------------------------------------------------------------------------- <malloc.h> */

/* What glibc has and others have not is declared and defined where it is. */
#if defined(__GLIBC__)
VLI_EXPORT struct mallinfo2 mallinfo2(void)
{
    struct vl_malloc_stats stats;

    vl_malloc_stats(&stats);
    return (struct mallinfo2){
        .arena = stats.taken - stats.large - vli_large_kept(),
        .ordblks = 1,
        .hblks = vli_large_count(),
        .hblkhd = stats.large,
        .fsmblks = stats.kept + stats.shared,
        .uordblks = stats.used,
        .fordblks = stats.kept + stats.shared + stats.free,
        .keepcost = stats.free,
    };
}

static int saturated(size_t n)
{
    return n < INT32_MAX ? (int)n : INT32_MAX;
}

VLI_EXPORT struct mallinfo mallinfo(void)
{
    struct mallinfo2 all = mallinfo2();

    return (struct mallinfo){
        .arena = saturated(all.arena),
        .ordblks = saturated(all.ordblks),
        .hblks = saturated(all.hblks),
        .hblkhd = saturated(all.hblkhd),
        .fsmblks = saturated(all.fsmblks),
        .uordblks = saturated(all.uordblks),
        .fordblks = saturated(all.fordblks),
        .keepcost = saturated(all.keepcost),
    };
}

#endif

/* Others do not declare them. */
VLI_EXPORT int mallopt(int parameter, int value);
VLI_EXPORT void malloc_stats(void);
VLI_EXPORT int malloc_info(int options, FILE *to);
VLI_EXPORT int malloc_trim(size_t pad);

/* Linux's knobs of glibc's heap mean nothing here; programs that turn them go on. */
VLI_EXPORT int mallopt(int parameter, int value)
{
    (void)parameter;
    (void)value;
    return 1;
}

VLI_EXPORT void malloc_stats(void)
{
    struct vl_malloc_stats stats;

    vl_malloc_stats(&stats);
    vli_say("vellum malloc: mode %s, %zu areas", vl_malloc_is_percpu() ? "per CPU" : "per thread",
            stats.areas);
    vli_say("vellum malloc: used %zu (large %zu), kept %zu, shared %zu, free %zu, taken %zu, given "
            "back %zu",
            stats.used, stats.large, stats.kept, stats.shared, stats.free, stats.taken,
            stats.given_back);
}

/* Each size that has slabs, and what of the rest is in RAM. */
static void print_sizes(FILE *to)
{
    struct vli_resident resident;
    size_t own = 0; /* slabs of the library's own caches, and of the program's */

    vli_resident(&resident);
    (void)fprintf(to, "<sizes>\n");
    for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
        struct cache_sum sum = sum_of(&vli_caches[i]);

        if (vli_class_bytes[i] != 0 && sum.slabs != 0) {
            (void)fprintf(to,
                          "<size bytes=\"%u\" total=\"%zu\" kept=\"%zu\" shared=\"%zu\" "
                          "free=\"%zu\" resident=\"%zu\"/>\n",
                          vli_class_bytes[i], sum.slabs, sum.kept, sum.shared, sum.free,
                          resident.slabs[i]);
        } else {
            own += resident.slabs[i];
        }
    }
    (void)fprintf(to,
                  "</sizes>\n<resident type=\"caches\" size=\"%zu\"/>\n"
                  "<resident type=\"runs\" size=\"%zu\"/>\n"
                  "<resident type=\"free\" size=\"%zu\"/>\n"
                  "<resident type=\"descriptors\" size=\"%zu\"/>\n",
                  own, resident.runs, resident.free, resident.descriptors);
}

VLI_EXPORT int malloc_info(int options, FILE *to)
{
    struct vl_malloc_stats stats;

    if (options != 0) {
        return EINVAL;
    }
    vl_malloc_stats(&stats);
    (void)fprintf(to, "<malloc version=\"vellum-1\">\n<heap nr=\"0\" mode=\"%s\">\n",
                  vl_malloc_is_percpu() ? "percpu" : "perthread");
    print_sizes(to);
    (void)fprintf(to,
                  "<total type=\"fast\" count=\"0\" size=\"%zu\"/>\n"
                  "<total type=\"rest\" count=\"0\" size=\"%zu\"/>\n"
                  "<system type=\"current\" size=\"%zu\"/>\n</heap>\n",
                  stats.kept + stats.shared, stats.free, stats.taken - stats.large);
    (void)fprintf(to,
                  "<total type=\"fast\" count=\"0\" size=\"%zu\"/>\n"
                  "<total type=\"rest\" count=\"0\" size=\"%zu\"/>\n"
                  "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n"
                  "<system type=\"current\" size=\"%zu\"/>\n</malloc>\n",
                  stats.kept + stats.shared, stats.free, vli_large_count(), stats.large,
                  stats.taken);
    return 0;
}

VLI_EXPORT int malloc_trim(size_t pad)
{
    int saved = errno;
    size_t bytes = vli_malloc_ready() ? vli_range_trim(pad) : 0;

    errno = saved;
    return bytes != 0;
}

/* ------------------------------------------------------------------------------------- at the end
 */

static __attribute__((destructor)) void at_exit(void)
{
    if (vli_options.stats) {
        malloc_stats();
    }
}
