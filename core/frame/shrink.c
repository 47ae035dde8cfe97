/*
 * shrink.c - the list of shrinkers, and asking them.
 *
 * The list's lock is held to go from one to the next, never in a call: the one that is being called
 * is counted as used, and stays in the list until nobody uses it, so that its link is good
 * afterwards. Who unregisters waits for that.
 *
 * A shrinker that could not give what was wanted has no more for now, and is passed over for a
 * while: 1 request, then 3, 7 … 63. So a machine which lives below its low watermark does not
 * search the same places for each frame, nor take from its CPUs each time what little they have
 * just got. When a request is about to fail nobody is passed over.
 */
#include <vellum/shrink.h>
#include "core/base/spinlock.h"
#include "core/frame/zone.h"

#define MISSES_MAX 6u

struct vli_spinlock vli_shrinkers_lock;
static struct vl_shrinker *first; /* under vli_shrinkers_lock, and all links */

void vli_shrink_init(void)
{
    vli_spin_init(&vli_shrinkers_lock);
    first = NULL;
}

void vl_shrinker_register(struct vl_shrinker *shrinker)
{
    struct vl_shrinker **link;

    VL_ASSERT(shrinker->scan != NULL);
    vli_spin_lock(&vli_shrinkers_lock, VLI_RANK_SHRINKERS);
    for (link = &first; *link != NULL; link = &(*link)->next) {
        VL_ASSERT(*link != shrinker);
    }
    shrinker->next = NULL;
    shrinker->users = 0;
    shrinker->is_ending = false;
    atomic_store_explicit(&shrinker->misses, 0, memory_order_relaxed);
    atomic_store_explicit(&shrinker->skips, 0, memory_order_relaxed);
    *link = shrinker;
    vli_spin_unlock(&vli_shrinkers_lock, VLI_RANK_SHRINKERS);
}

/* Takes it out of the list if nobody is inside. */
static bool try_unlink(struct vl_shrinker *shrinker) VL_REQUIRES(&vli_shrinkers_lock)
{
    struct vl_shrinker **link = &first;

    shrinker->is_ending = true;
    if (shrinker->users != 0) {
        return false;
    }
    while (*link != shrinker) {
        VL_ASSERT(*link != NULL); /* it was registered */
        link = &(*link)->next;
    }
    *link = shrinker->next;
    return true;
}

void vl_shrinker_unregister(struct vl_shrinker *shrinker)
{
    uint32_t seen;
    bool done;

    vli_rank_assert_none();
    do {
        vli_spin_lock(&vli_shrinkers_lock, VLI_RANK_SHRINKERS);
        seen = atomic_load_explicit(&shrinker->changes, memory_order_relaxed);
        done = try_unlink(shrinker);
        vli_spin_unlock(&vli_shrinkers_lock, VLI_RANK_SHRINKERS);
        if (!done) {
            (void)vl_host_wait(&shrinker->changes, seen, UINT64_MAX);
        }
    } while (!done);
}

/* The first one from @at on that is not ending, in use from now on, or NULL. */
static struct vl_shrinker *use_from(struct vl_shrinker *at) VL_REQUIRES(&vli_shrinkers_lock)
{
    while (at != NULL && at->is_ending) {
        at = at->next;
    }
    if (at != NULL) {
        at->users++;
    }
    return at;
}

/* The one after @shrinker, which is left; the first for NULL. */
static struct vl_shrinker *go_on(struct vl_shrinker *shrinker)
{
    struct vl_shrinker *next;
    bool wakes = false;

    vli_spin_lock(&vli_shrinkers_lock, VLI_RANK_SHRINKERS);
    next = use_from(shrinker == NULL ? first : shrinker->next);
    if (shrinker != NULL && --shrinker->users == 0 && shrinker->is_ending) {
        atomic_fetch_add_explicit(&shrinker->changes, 1, memory_order_relaxed);
        wakes = true;
    }
    vli_spin_unlock(&vli_shrinkers_lock, VLI_RANK_SHRINKERS);
    if (wakes) {
        vl_host_wake(&shrinker->changes, UINT32_MAX); /* by its address; it may be gone */
    }
    return next;
}

/* Is this one to be passed over? */
static bool is_skipped(struct vl_shrinker *shrinker)
{
    uint32_t skips = atomic_load_explicit(&shrinker->skips, memory_order_relaxed);

    if (skips != 0) {
        atomic_store_explicit(&shrinker->skips, skips - 1, memory_order_relaxed);
    }
    return skips != 0;
}

static size_t ask(struct vl_shrinker *shrinker, size_t wanted)
{
    uint32_t misses = 0;
    size_t freed;

    if (shrinker->count != NULL && shrinker->count(shrinker) == 0) {
        return 0;
    }
    freed = shrinker->scan(shrinker, wanted);
    if (freed < wanted) {
        misses = atomic_load_explicit(&shrinker->misses, memory_order_relaxed);
        misses += misses < MISSES_MAX ? 1u : 0u;
    }
    atomic_store_explicit(&shrinker->misses, misses, memory_order_relaxed);
    atomic_store_explicit(&shrinker->skips, (1u << misses) - 1u, memory_order_relaxed);
    return freed;
}

size_t vli_shrink(size_t wanted, bool asks_all)
{
    const uint32_t marks = VL_THREAD_RECLAIM | VL_THREAD_SHRINK;
    struct vl_thread *thread = vl_host_thread();
    struct vl_shrinker *shrinker = NULL;
    uint32_t before;
    size_t freed = 0;

    vli_rank_assert_none();
    if (thread == NULL ||
        (atomic_load_explicit(&thread->flags, memory_order_relaxed) & VL_THREAD_SHRINK) != 0) {
        return 0;
    }
    before = atomic_fetch_or_explicit(&thread->flags, marks, memory_order_relaxed);
    while ((shrinker = go_on(shrinker)) != NULL) {
        if (freed < wanted && (asks_all || !is_skipped(shrinker))) {
            freed += ask(shrinker, wanted - freed);
        }
    }
    atomic_fetch_and_explicit(&thread->flags, ~(marks & ~before), memory_order_relaxed);
    return freed;
}

size_t vl_shrink(size_t wanted)
{
    return vli_shrink(wanted, true);
}
