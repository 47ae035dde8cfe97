/*
 * fork.c - a child of a threaded program finds the heap whole.
 *
 * Before fork() the forking thread takes every lock there is, outermost first: so no other thread
 * is inside a change. After it parent and child release them. What other threads were doing with
 * their CPU's or their own sheaves meanwhile has happened wholly or not at all, each being one
 * store; a sheaf, or a few slabs, that a thread of the parent held in hand between two exchanges
 * are lost to the child, at most once for each such thread. In the child the areas of threads that
 * are not there any more are emptied.
 *
 * Handlers of others may allocate, and run with our locks held if they were registered before ours
 * (which the link option -z initfirst leaves to few): for the thread that holds them all they are
 * as if they were free, since it is inside no change itself.
 */
#include "malloc/face.h"
#include "core/frame/zone.h"
#include "core/slab/process.h"
#include <pthread.h>

static void prepare(void)
{
    vli_mutex_fork_take(&vli_start_word);
    vli_mutex_fork_take(&vli_api_word);
    vli_heap_fork_prepare();
    vli_mutex_fork_take(&vli_purge_word);
    vli_mutex_fork_take(&vli_grow_word);
    vli_mutex_fork_take(&vli_area_word);
    vli_slab_locks(vli_mutex_fork_take);
    for (size_t i = 0; i < VL_ZONES_MAX; i++) {
        vli_mutex_fork_take(&vli_zones[i].lock.word.both);
    }
    vli_mutex_fork_take(&vli_shrinkers_lock.word.both);
    vli_mutex_fork_take(&vli_large_word);
    vli_mutex_fork_all(true);
}

static void release(void)
{
    vli_mutex_fork_all(false);
    vli_mutex_fork_give(&vli_large_word);
    vli_mutex_fork_give(&vli_shrinkers_lock.word.both);
    for (size_t i = VL_ZONES_MAX; i-- > 0;) {
        vli_mutex_fork_give(&vli_zones[i].lock.word.both);
    }
    vli_slab_locks(vli_mutex_fork_give);
    vli_mutex_fork_give(&vli_area_word);
    vli_mutex_fork_give(&vli_grow_word);
    vli_mutex_fork_give(&vli_purge_word);
    vli_heap_fork_release();
    vli_mutex_fork_give(&vli_api_word);
    vli_mutex_fork_give(&vli_start_word);
}

static void child(void)
{
    release();
    vli_area_fork_child();
}

void vli_fork_init(void)
{
    static _Atomic bool is_done;

    if (!atomic_exchange_explicit(&is_done, true, memory_order_relaxed)) {
        (void)pthread_atfork(prepare, release, child);
    }
}

/* Before all others who come with handlers: the first one's run last before fork(), so that no
 * other's waits, with our locks held, for a thread that waits for them. */
static __attribute__((constructor(101))) void register_first(void)
{
    vli_fork_init();
}
