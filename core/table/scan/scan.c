/*
 * scan.c - TABLES=scan: page tables freed by clearing the whole extent of what was removed.
 *
 * The way before area lists were followed: from the floor of the first span to the ceiling of the
 * last one every entry of every level is looked at, 512 of each table page that is there and, at
 * the end of a space, all of the root's. Simple, and slow for the address space of a 64-bit task.
 */
#include "core/table/table_page.h"
#include <vellum/space.h>

void vli_table_free_spans(struct vli_gather *gather, vli_table_span_fn *next, void *ctx)
{
    struct vli_table_span all, span;

    if (!next(ctx, &all)) {
        return;
    }
    while (next(ctx, &span)) {
        all.ceiling = span.ceiling;
    }
    all.ceiling = all.ceiling >= VL_USER_END ? VLI_TABLE_USER_END : all.ceiling;
    all.start = all.floor;
    all.end = all.ceiling;
    vli_table_free_range(gather, &all);
}
