/*
 * fast.h - which malloc() and free() there are: in assembly, free() by a map of all pages that a
 * program can have (arch/rseq_entry.h); or in C, free() by the range and its map.
 *
 * The first need sheaves, and a dynamic loader that knows indirect functions. Sanitizers, under
 * which they have other names, do not see into them.
 */
#ifndef MALLOC_FAST_H
#define MALLOC_FAST_H

#include <stdlib.h>
#include "malloc/face.h"

#if defined(VLI_SLOT_BY_MAP) && defined(__GLIBC__) && !defined(free)
#include "arch/rseq_entry.h"
#define VLI_ENTRY_BY_MAP 1
_Static_assert(VLI_SHEAF_BYTES == 2048, "free() says that a full sheaf ends at a multiple of it");
_Static_assert(VLI_TABLE_FINE == 1024, "vli_class_fine is defined with that many, and one");
#endif

/** vli_free_otherwise() - free() by the range. */
void vli_free_otherwise(void *p) VLI_HIDDEN __attribute__((used));
/** vli_malloc_otherwise() - malloc() of more than the fine table has, or before there is a heap. */
void *vli_malloc_otherwise(size_t size) VLI_HIDDEN __attribute__((used));
/** vli_malloc_empty_or_away() - malloc() when the sheaf is empty; or the thread slept, or others
 * ran: time may have passed in which no slow path came by. */
void *vli_malloc_empty_or_away(size_t size) VLI_HIDDEN __attribute__((used));

/** vli_fast_start() - before the limits of the fast paths are set: what they need. @page_map: a map
 * of all pages, or NULL. */
void vli_fast_start(uint8_t *page_map);

#endif
