/*
 * interval.h - sets of closed ranges of page indices, searched by overlap.
 *
 * A tree ordered by the first index and then the last, each node knowing the largest last index
 * below it (Cormen et al., "Interval trees"). Ranges that are equal, as parent's and child's areas
 * are after a fork, form a ring behind one node of the tree: a fork adds and an exit takes away
 * without touching the tree. The ring is met in the order of insertion, so that a walk meets the
 * parent's area before the child's: what moves from the one to the other meanwhile is met at least
 * once.
 *
 * Locks: the user's.
 */
#ifndef VLI_INTERVAL_H
#define VLI_INTERVAL_H

#include "core/rmap/interval_state.h"

/** vli_interval_insert() - add @it with @first … @last, both inclusive. Cost: O(log n). */
void vli_interval_insert(struct vli_tree *tree, struct vli_interval *it, uint64_t first,
                         uint64_t last);
/** vli_interval_insert_twin() - add @it with the range of @twin, after it. Cost: O(1). */
void vli_interval_insert_twin(struct vli_interval *it, struct vli_interval *twin);
/** vli_interval_remove() - take it out. Cost: O(1) while it has twins, else O(log n). */
void vli_interval_remove(struct vli_tree *tree, struct vli_interval *it);
/** vli_interval_first() - the first range that overlaps @first … @last, or NULL. Cost: O(log n). */
struct vli_interval *vli_interval_first(const struct vli_tree *tree, uint64_t first, uint64_t last);
/** vli_interval_next() - the next one after @it that overlaps. Cost: O(log n). */
struct vli_interval *vli_interval_next(struct vli_interval *it, uint64_t first, uint64_t last);
/** vli_interval_validate() - order, rings and summaries; panics. Returns the number of ranges. */
size_t vli_interval_validate(const struct vli_tree *tree);

#endif
