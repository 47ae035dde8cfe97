/*
 * fork.c - a child of a threaded program finds the heap whole.
 *
 * Before fork() the forking thread takes every lock there is, outermost first: so no other thread
 * is inside a change. After it parent and child release them. What other threads were doing with
 * their CPU's or their own sheaves meanwhile has happened wholly or not at all, each being one
 * store; a sheaf that a thread of the parent held in hand between two exchanges is lost to the
 * child, at most one for each such thread. In the child the areas of threads that are not there any
 * more are emptied.
 */
#include "malloc/face.h"
#include "core/frame/zone.h"
#include <pthread.h>

static void prepare(void)
{
    vl_host_lock(&vli_start_word);
    vl_host_lock(&vli_api_word);
    vli_heap_fork_prepare();
    vl_host_lock(&vli_purge_word);
    vl_host_lock(&vli_grow_word);
    vl_host_lock(&vli_area_word);
    for (size_t i = 0; i < VLI_CACHES_MAX; i++) {
        vl_host_lock(&vli_caches[i].node[0].lock.word.both);
    }
    for (size_t i = 0; i < VL_ZONES_MAX; i++) {
        vl_host_lock(&vli_zones[i].lock.word.both);
    }
    vl_host_lock(&vli_large_word);
}

static void release(void)
{
    vl_host_unlock(&vli_large_word);
    for (size_t i = VL_ZONES_MAX; i-- > 0;) {
        vl_host_unlock(&vli_zones[i].lock.word.both);
    }
    for (size_t i = VLI_CACHES_MAX; i-- > 0;) {
        vl_host_unlock(&vli_caches[i].node[0].lock.word.both);
    }
    vl_host_unlock(&vli_area_word);
    vl_host_unlock(&vli_grow_word);
    vl_host_unlock(&vli_purge_word);
    vli_heap_fork_release();
    vl_host_unlock(&vli_api_word);
    vl_host_unlock(&vli_start_word);
}

static void child(void)
{
    release();
    vli_area_fork_child();
}

void vli_fork_init(void)
{
    (void)pthread_atfork(prepare, release, child);
}
