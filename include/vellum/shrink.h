/*
 * shrink.h - memory that somebody keeps for speed, and gives back when it is wanted.
 *
 * Object caches keep empty slabs, and CPUs objects; the embedder may have caches of his own. Each
 * registers a shrinker. When a zone falls below its low watermark, whoever asks for memory and may
 * wait has the function of vl_frame_set_reclaim() called, if there is one; then the shrinkers, for
 * what is still wanting. A function that takes something away from somebody had better call
 * vl_shrink() first, and one that gets memory from elsewhere for nothing had not: so the order is
 * its own to choose. Before a request fails, all that shrinkers have is asked for.
 */
#ifndef VELLUM_SHRINK_H
#define VELLUM_SHRINK_H

#include <vellum/types.h>

/* Embed it in what keeps the memory; zeroed but for the first three. */
struct vl_shrinker {
    const char *name; /* kept, not copied */

    /* Frames that scan might free now; a guess will do, 0 saves the call. NULL: ask always.
     * Context: thread; no core lock held; does not sleep. */
    size_t (*count)(struct vl_shrinker *shrinker);

    /* Frees about @wanted frames, more if that is no more work. Returns: how many; fewer means that
     * there is no more for now, and others are asked for a while.
     * Context: thread; may sleep; no core lock held. Never inside itself in one thread; several
     * threads may call it at once. A request for memory from inside does not wait for reclaim. */
    size_t (*scan)(struct vl_shrinker *shrinker, size_t wanted);

    /* The core's. */
    struct vl_shrinker *next;
    uint32_t users;           /* calls that are running, under the list's lock */
    bool is_ending;           /* the same */
    _Atomic uint32_t changes; /* waited on until users are gone */
    _Atomic uint32_t misses;  /* scans in a row that gave less than was wanted */
    _Atomic uint32_t skips;   /* requests to pass it over */
};

/** vl_shrinker_register() - @shrinker is asked from now on. Context: thread, after vl_init(). */
void vl_shrinker_register(struct vl_shrinker *shrinker);

/** vl_shrinker_unregister() - it is not, and nobody is inside it any more. Context: thread; may
 * sleep; not from inside it. */
void vl_shrinker_unregister(struct vl_shrinker *shrinker);

/**
 * vl_shrink() - have the shrinkers give back about @wanted frames, SIZE_MAX for all they can.
 * Also of use in a reclaim function, or when the embedder has a moment to spare.
 * Context: thread; may sleep; no core lock held. From inside a shrinker it does nothing.
 * Returns: frames that were freed.
 */
size_t vl_shrink(size_t wanted);

#endif
