/*
 * report_weak.c - empty texts in place of the core's reports, so that the kernel links without
 * core/report.
 */
#include <vellum/report.h>
#include "core/base/compiler.h"

static size_t nothing(char *out, size_t size)
{
    if (size != 0) {
        out[0] = 0;
    }
    return 0;
}

VLI_WEAK size_t vl_report_meminfo(char *out, size_t size)
{
    return nothing(out, size);
}
VLI_WEAK size_t vl_report_buddyinfo(char *out, size_t size)
{
    return nothing(out, size);
}
VLI_WEAK size_t vl_report_slabinfo(char *out, size_t size)
{
    return nothing(out, size);
}
VLI_WEAK size_t vl_report_vmstat(char *out, size_t size)
{
    return nothing(out, size);
}
VLI_WEAK size_t vl_report_zoneinfo(char *out, size_t size)
{
    return nothing(out, size);
}
VLI_WEAK size_t vl_report_maps(struct vl_space *space, char *out, size_t size)
{
    (void)space;
    return nothing(out, size);
}
VLI_WEAK size_t vl_report_smaps(struct vl_space *space, char *out, size_t size)
{
    (void)space;
    return nothing(out, size);
}
