/*
 * table_page.h - table pages, for the files of table/ alone: stock, links, freeing.
 *
 * A table page's descriptor: type TABLE, owner the struct vli_table, index_low its spin lock, next
 * the list of a gather that frees it. Every table page in a stock is zero.
 */
#ifndef VLI_TABLE_PAGE_H
#define VLI_TABLE_PAGE_H

#include "core/base/bits.h"
#include "core/base/percpu.h"
#include "core/table/table.h"

/** vli_table_page_get() - a table page, all zero, for @table, or NULL. Context: as @how says. */
VL_MUST_CHECK struct vl_frame *vli_table_page_get(struct vli_table *table, vl_how_t how);

/** vli_table_page_put() - give back a table page whose entries are all empty and which no CPU can
 * walk any more. Context: thread; no lock of rank COUNT_TREE or below held. */
void vli_table_page_put(struct vl_frame *page);

/** vli_table_pages_put() - the same for a list by next, from frame number @first on. */
void vli_table_pages_put(uint32_t first);

/** vli_table_set_kernel_half() - remember @root's upper entries that are in use. */
void vli_table_set_kernel_half(struct vl_pa root);

/** vli_table_unlink() - take the table page that the upper entry @link shows out of the table and
 * leave it to @gather. Its entries are empty. Locks: walkers excluded. */
void vli_table_unlink(struct vli_gather *gather, _Atomic uint64_t *link);

/**
 * vli_table_free_range() - free each table page below the root that is met in [@start, @end) and
 * lies whole within [@floor, @ceiling): what TABLES=areas does for a run of spans. TABLES=scan
 * passes the same values twice.
 */
void vli_table_free_range(struct vli_gather *gather, const struct vli_table_span *span);

#endif
