/*
 * areas.c - TABLES=areas: page tables freed along the list of areas.
 *
 * Only what lies under a removed area is visited, so a space with three areas at three ends of 128
 * TiB costs what one with three areas side by side does. Neighbouring spans that share a table
 * page (or whose pages are next to each other) are joined, so that each table page is met once.
 * A table page is freed when it lies whole between the floor (the nearest area that stays below)
 * and the ceiling (the nearest one above); a page that the next span reaches into is left to that
 * span. After "freepgt: free_pgtables use vma list" (Hugh Dickins, linux-kernel, 2005) in idea; the
 * floors and ceilings there are the arguments of one call, here each span brings its own.
 */
#include "core/table/table_page.h"
#include <vellum/space.h>

/* A page-table page cannot reach above this without reaching into the kernel's half. */
static vl_va limit(vl_va ceiling)
{
    return ceiling >= VL_USER_END ? VLI_TABLE_USER_END : ceiling;
}

void vli_table_free_spans(struct vli_gather *gather, vli_table_span_fn *next, void *ctx)
{
    struct vli_table_span span, after;
    bool more = next(ctx, &span);
    vl_va floor = more ? span.floor : 0;

    while (more) {
        more = next(ctx, &after);
        while (more && after.start <= span.end + vli_table_reach(1)) {
            span.end = after.end;
            span.ceiling = after.ceiling;
            more = next(ctx, &after);
        }
        if (more && after.start < span.ceiling) {
            span.ceiling = after.start;
        }
        span.ceiling = limit(span.ceiling);
        vli_table_free_range(gather, &span);
        if (more) {
            span = after;
            span.floor = floor;
        }
    }
}
