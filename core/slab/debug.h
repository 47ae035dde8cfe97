/*
 * debug.h - what a debug build keeps around each object (debug.c); nothing in other builds.
 */
#ifndef VLI_SLAB_DEBUG_H
#define VLI_SLAB_DEBUG_H

#include "core/base/compiler.h"
#include "core/frame/frame.h"

struct vl_cache;

#ifdef VL_DEBUG
/* At the start of each unit; the object follows after `shift` bytes, a red zone after that. */
struct vli_slab_mark {
    uintptr_t link;     /* of free units, where the strategy links them */
    uintptr_t state;    /* MARK_* of debug.c */
    uintptr_t alloc_by; /* return address of the last who allocated it, */
    uintptr_t free_by;  /* and of the last who freed it */
    uint32_t bytes;     /* that the user asked for; those of the cache while it is free */
    uint16_t alloc_cpu;
    uint16_t free_cpu;
    uint32_t pad;
    uint32_t red; /* next to what comes before the object */
};
#define VLI_MARK_HEAD ((uint32_t)sizeof(struct vli_slab_mark))
#define VLI_MARK_TAIL 8u

/** vli_debug_unit_init() - a unit of a new slab: marks, red zones, poison. */
void vli_debug_unit_init(const struct vl_cache *cache, uintptr_t unit);
/** vli_debug_alloc() - @unit leaves for the user: nothing wrote to it meanwhile. */
void vli_debug_alloc(const struct vl_cache *cache, uintptr_t unit, uintptr_t who);
/** vli_debug_free() - @object comes back: it is one of the cache's, in use and within its bounds;
 * poison it. Panics otherwise, with the last owner. */
void vli_debug_free(const struct vl_cache *cache, void *object, uintptr_t who);
/** vli_debug_used() - the checks of vli_debug_free() alone. */
void vli_debug_used(const struct vl_cache *cache, const void *object, uintptr_t who);
/** vli_debug_find() - type-check an address from outside; panics when no frame is there. */
void vli_debug_find(const void *object, uintptr_t who);
/** vli_debug_how() - panics when @how may wait and a lock is held. */
void vli_debug_how(vl_how_t how);
/** vli_debug_size() - of @object, kmalloc's or NULL, the user gets @size bytes; the rest becomes
 * red. Returns: @object. */
void *vli_debug_size(void *object, size_t size);
/** vli_debug_owner() - @object, kmalloc's or NULL, was allocated by @who. Returns: @object. */
void *vli_debug_owner(void *object, uintptr_t who);
/** vli_debug_bytes() - bytes of @object that the user may use. */
size_t vli_debug_bytes(const struct vl_cache *cache, const void *object);
/** vli_debug_report() - a log line for each object of @cache that somebody has, with who allocated
 * it: the first so many; then how many more there are. Context: thread; nobody uses the cache. */
void vli_debug_report(const struct vl_cache *cache);
/** vli_debug_whole_alloc() - whole frames leave for the user: what is beyond @size is red. */
void vli_debug_whole_alloc(struct vl_frame *head, size_t size, uintptr_t who);
/** vli_debug_whole_free() - they come back: nobody wrote there. */
void vli_debug_whole_free(struct vl_frame *head, uintptr_t who);
/** vli_debug_whole_size() - they got another size. */
void vli_debug_whole_size(struct vl_frame *head, size_t size);
#else
#define VLI_MARK_HEAD 0u
#define VLI_MARK_TAIL 0u
static inline void vli_debug_unit_init(const struct vl_cache *cache, uintptr_t unit)
{
    (void)cache;
    (void)unit;
}
static inline void vli_debug_alloc(const struct vl_cache *cache, uintptr_t unit, uintptr_t who)
{
    (void)cache;
    (void)unit;
    (void)who;
}
static inline void vli_debug_free(const struct vl_cache *cache, void *object, uintptr_t who)
{
    (void)cache;
    (void)object;
    (void)who;
}
static inline void vli_debug_used(const struct vl_cache *cache, const void *object, uintptr_t who)
{
    (void)cache;
    (void)object;
    (void)who;
}
static inline void vli_debug_find(const void *object, uintptr_t who)
{
    (void)object;
    (void)who;
}
static inline void vli_debug_how(vl_how_t how)
{
    (void)how;
}
static inline void *vli_debug_size(void *object, size_t size)
{
    (void)size;
    return object;
}
static inline void *vli_debug_owner(void *object, uintptr_t who)
{
    (void)who;
    return object;
}
static inline void vli_debug_report(const struct vl_cache *cache)
{
    (void)cache;
}
static inline void vli_debug_whole_alloc(struct vl_frame *head, size_t size, uintptr_t who)
{
    (void)head;
    (void)size;
    (void)who;
}
static inline void vli_debug_whole_free(struct vl_frame *head, uintptr_t who)
{
    (void)head;
    (void)who;
}
static inline void vli_debug_whole_size(struct vl_frame *head, size_t size)
{
    (void)head;
    (void)size;
}
#endif

#endif
