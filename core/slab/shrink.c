/*
 * shrink.c - what object caches keep for speed goes back to frame when memory is short.
 *
 * First the slabs without an object in use, which cost nobody anything. If they are not enough, all
 * CPUs give up what they keep, which interrupts them, and more slabs turn out to be empty. A cache
 * that is in use fills its arrays again within a few requests.
 */
#include "core/slab/slab.h"
#include <vellum/shrink.h>

static uint64_t frames_of_all(void)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
        sum += atomic_load_explicit(&vli_caches[i].node[0].frames, memory_order_relaxed);
    }
    return sum;
}

static size_t release_all(void)
{
    size_t frames = 0;

    for (unsigned i = 0; i < VLI_CACHES_MAX; i++) {
        frames += vli_slab_release_empty(&vli_caches[i]);
    }
    return frames;
}

/* Slabs also go back while CPUs are emptied, uncounted; so the frames are compared, as far as
 * others do not take new ones at the same time. */
static size_t scan(struct vl_shrinker *shrinker, size_t wanted)
{
    uint64_t before = frames_of_all();
    uint64_t after;
    size_t freed = release_all();

    (void)shrinker;
    if (freed < wanted) {
        vli_slab_flush(NULL);
        freed += release_all();
    }
    after = frames_of_all();
    return before > after && before - after > freed ? (size_t)(before - after) : freed;
}

static struct vl_shrinker slabs = {.name = "slab", .scan = scan};

void vli_slab_shrinker_init(void)
{
    vl_shrinker_register(&slabs);
}

void vli_slab_drain(void)
{
    vli_rank_assert_none();
    vli_slab_flush(NULL);
    (void)release_all();
}

size_t vl_cache_shrink(struct vl_cache *cache)
{
    uint64_t before = atomic_load_explicit(&cache->node[0].frames, memory_order_relaxed);
    uint64_t after;
    size_t freed;

    vli_rank_assert_none();
    vli_slab_flush(cache);
    freed = vli_slab_release_empty(cache);
    after = atomic_load_explicit(&cache->node[0].frames, memory_order_relaxed);
    return before > after && before - after > freed ? (size_t)(before - after) : freed;
}
