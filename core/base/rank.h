/*
 * rank.h - the order of locks, as numbers: a lock is taken only while every lock already held has
 * a lower rank. docs/locking.md explains it; debug builds check it at each acquisition.
 *
 * Sleeping locks' held ranks are kept in the thread (struct vl_thread), spin locks' in the CPU,
 * since a spin lock's holder does not move.
 */
#ifndef VLI_RANK_H
#define VLI_RANK_H

#include "core/base/compiler.h"

enum vli_rank {
    /* Sleeping locks, outermost first. */
    VLI_RANK_SPACE = 1,   /* space: its areas */
    VLI_RANK_SPACE_CHILD, /* the child's space lock, taken inside the parent's at fork */
    VLI_RANK_OBJECT,      /* object: truncations against each other */
    VLI_RANK_RMAP,        /* rmap: an object's areas */
    VLI_RANK_RMAP_ANON,   /* rmap: a family of anon_vmas */
    VLI_RANK_CACHES,      /* slab: the list of caches */
    /* Spin locks. */
    VLI_RANK_TABLE = 32,  /* one table page's entries */
    VLI_RANK_TABLE_LOWER, /* a second table page, taken inside the first (fork: source) */
    VLI_RANK_PAGES,       /* object: its tree of pages */
    VLI_RANK_LRU,
    VLI_RANK_COUNT_TREE, /* small private trees and lists of space/ and rmap/ */
    VLI_RANK_SHRINKERS,  /* frame: the list of shrinkers */
    VLI_RANK_SLAB_NODE,  /* slab: a node's partial list */
    VLI_RANK_ZONE        /* frame: a zone's free lists; innermost */
};

#ifdef VL_DEBUG
/** vli_rank_push() - a lock of @rank is about to be taken; panics when the order forbids it. */
void vli_rank_push(enum vli_rank rank);
/** vli_rank_push_any() - the same for a lock that was had without waiting: any order is right. */
void vli_rank_push_any(enum vli_rank rank);
/** vli_rank_pop() - the lock of @rank was released; any held one, not only the last. */
void vli_rank_pop(enum vli_rank rank);
/** vli_rank_assert_none() - panics when this thread or CPU holds any core lock. */
void vli_rank_assert_none(void);
/** vli_rank_assert_no_spin() - panics when this CPU holds any core spin lock. */
void vli_rank_assert_no_spin(void);
#else
static inline void vli_rank_push(enum vli_rank rank)
{
    (void)rank;
}
static inline void vli_rank_push_any(enum vli_rank rank)
{
    (void)rank;
}
static inline void vli_rank_pop(enum vli_rank rank)
{
    (void)rank;
}
static inline void vli_rank_assert_none(void)
{
}
static inline void vli_rank_assert_no_spin(void)
{
}
#endif

#endif
