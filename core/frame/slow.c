/*
 * slow.c - a request that the stock could not serve: zones down to the low watermark, then reclaim,
 * then the reserves, as far as who asks may go.
 *
 *      free frames of a zone
 *      |------------------------------|----------|----------|-------|
 *                                   high        low        min    min/2   0
 *      stocks are filled, requests of any kind  |          |       |
 *      VL_ATOMIC | VL_MAY_FAIL -----------------|          |       |
 *      VL_WAIT, after reclaim ------------------------------|      |
 *      VL_ATOMIC ---------------------------------------------------|
 *      reclaim itself; a thread being killed ------------------------------|
 *
 * VL_ATOMIC | VL_MAY_FAIL is for who holds a lock and comes back without it, with VL_WAIT: what he
 * took of the reserve would never be reclaimed for.
 *
 * Reclaim is the embedder's function, then the shrinkers (shrink.c). It runs only where sleeping is
 * allowed, with no core lock held, and never inside itself: the thread is marked, and a marked
 * thread's requests use the reserve instead. When reclaim brings nothing, a request that may sleep
 * has the shrinkers give all they have and all CPUs empty their stocks before it fails, and waits
 * for blocks that are just being reported (report.c). It does not ask for a victim: the caller
 * does, who can give up its locks and knows what it is worth.
 */
#include "core/frame/zone.h"

/* How often a request has reclaim make room for it before it gives up. */
#define TRIES 8u

static _Atomic(size_t (*)(size_t wanted)) reclaim_fn;

void vl_frame_set_reclaim(size_t (*reclaim)(size_t wanted))
{
    atomic_store_explicit(&reclaim_fn, reclaim, memory_order_relaxed);
}

static uint32_t take(struct vli_request *request, enum vli_depth depth)
{
    uint32_t pfn = VLI_FRAME_LINK_NONE;

    request->depth = depth;
    if (vli_zones_take(request, 1, &pfn) == 0) {
        return VLI_FRAME_LINK_NONE;
    }
    return pfn;
}

/* About @wanted frames from the embedder's function, then from the shrinkers. Returns: how many. */
static size_t reclaim(struct vl_thread *thread, size_t wanted)
{
    size_t (*function)(size_t wanted) = atomic_load_explicit(&reclaim_fn, memory_order_relaxed);
    size_t made = 0;

    if (function != NULL) {
        atomic_fetch_or_explicit(&thread->flags, VL_THREAD_RECLAIM, memory_order_relaxed);
        made = function(wanted);
        atomic_fetch_and_explicit(&thread->flags, ~VL_THREAD_RECLAIM, memory_order_relaxed);
    }
    if (made < wanted) {
        made += vli_shrink(wanted - made, false);
    }
    return made;
}

/* Has reclaim make room until the request is served or nothing more comes. */
static uint32_t take_with_reclaim(struct vli_request *request, struct vl_thread *thread,
                                  unsigned tries)
{
    uint32_t pfn = VLI_FRAME_LINK_NONE;
    size_t made = 1;

    while (made > 0 && tries-- > 0 && pfn == VLI_FRAME_LINK_NONE) {
        size_t wanted = vli_zones_deficit(request->zone);

        vli_rank_assert_none();
        made =
            reclaim(thread, wanted > 1u << request->order ? wanted : (size_t)1 << request->order);
        if (made > 0) {
            /* What it freed may lie in this CPU's stock, where it cannot become a larger block. */
            vli_stock_drain_local();
            pfn = take(request, VLI_DEPTH_MIN);
        }
    }
    return pfn;
}

/* What the request may use of the reserves. */
static uint32_t take_reserve(struct vli_request *request, vl_how_t how, uint32_t thread_flags)
{
    uint32_t pfn = take(request, VLI_DEPTH_MIN);

    if (pfn == VLI_FRAME_LINK_NONE && (how & VL_WAIT) == 0) {
        pfn = take(request, VLI_DEPTH_ATOMIC);
    }
    if (pfn == VLI_FRAME_LINK_NONE &&
        (thread_flags & (VL_THREAD_RECLAIM | VL_THREAD_KILLED)) != 0) {
        pfn = take(request, VLI_DEPTH_ALL);
    }
    return pfn;
}

/* The last tries of a request that may not give up early: with all that stocks kept, and with what
 * was away to be reported. */
static uint32_t take_last(struct vli_request *request, vl_how_t how, uint32_t thread_flags,
                          bool may_sleep)
{
    uint32_t seen = vli_report_seen();
    unsigned tries = TRIES;
    uint32_t pfn;

    if (may_sleep) {
        (void)vli_shrink(SIZE_MAX, true);
        vli_frame_drain();
    } else {
        vli_stock_drain_local();
    }
    pfn = take_reserve(request, how, thread_flags);
    while (may_sleep && pfn == VLI_FRAME_LINK_NONE && tries-- > 0 && vli_report_wait(seen)) {
        seen = vli_report_seen();
        pfn = take_reserve(request, how, thread_flags);
    }
    return pfn;
}

uint32_t vli_frame_get_slow(unsigned order, vl_how_t how)
{
    struct vli_request request = {
        .order = order, .zone = vli_zone_highest(how), .node = vli_node_here()};
    struct vl_thread *thread = vl_host_thread();
    uint32_t thread_flags =
        thread != NULL ? atomic_load_explicit(&thread->flags, memory_order_relaxed) : 0;
    bool may_sleep = false;
    uint32_t pfn = take(&request, VLI_DEPTH_LOW);

    if (VLI_LIKELY(pfn != VLI_FRAME_LINK_NONE)) {
        return pfn;
    }
    if ((how & (VL_WAIT | VL_MAY_FAIL)) == VL_MAY_FAIL &&
        (thread_flags & (VL_THREAD_RECLAIM | VL_THREAD_KILLED)) == 0) {
        return VLI_FRAME_LINK_NONE;
    }
    if ((how & VL_WAIT) != 0 && thread != NULL) {
        may_sleep = (thread_flags & VL_THREAD_RECLAIM) == 0 && vl_host_may_sleep();
    }
    if (may_sleep) {
        pfn = take_with_reclaim(&request, thread, (how & VL_MAY_FAIL) != 0 ? 1 : TRIES);
    }
    if (pfn == VLI_FRAME_LINK_NONE) {
        pfn = take_reserve(&request, how, thread_flags);
    }
    if (pfn == VLI_FRAME_LINK_NONE && (how & VL_MAY_FAIL) == 0) {
        pfn = take_last(&request, how, thread_flags, may_sleep);
    }
    return pfn;
}
