/*
 * debug.c - what a debug build keeps around each object, and what it catches with it.
 *
 *      | link state by by bytes cpus red |  object  | red zone up to the unit's end |
 *        struct vli_slab_mark             ^ shift
 *
 * A free object is filled with POISON (not where a constructor made it) and checked when it is
 * handed out: somebody wrote after he freed it. The red zones on both sides are checked when it
 * comes back: somebody wrote beyond it. The rear one begins behind the bytes that were asked for,
 * not those of the size class. The state tells a double free, the unit's place in its slab a wild
 * one. Each report names who allocated and who freed it last.
 *
 * Of whole frames the descriptor keeps the same: owner: bytes; links: who. The red zone is the rest
 * of the last frames.
 */
#include "core/slab/slab.h"
#include "core/base/log.h"
#include "core/base/memory.h"

#ifdef VL_DEBUG

#define MARK_FREE ((uintptr_t)0x46524545u) /* "FREE" */
#define MARK_USED ((uintptr_t)0x55534544u) /* "USED" */
#define RED_HEAD  0x52454431u
#define RED_BYTE  0xbbu
#define POISON    0x6bu

/* Lines of a report on leaked objects; there may be a million of them. */
#define REPORT_MAX 64u

static struct vli_slab_mark *mark_of(uintptr_t unit)
{
    return (struct vli_slab_mark *)unit;
}

/* First byte of @at … @end - 1 that is not @value, or @end. */
static const unsigned char *find_other(uintptr_t at, uintptr_t end, unsigned char value)
{
    const unsigned char *byte = (const unsigned char *)at;

    while (byte != (const unsigned char *)end && *byte == value) {
        byte++;
    }
    return byte;
}

static _Noreturn void complain(const struct vl_cache *cache, uintptr_t unit, const char *what,
                               uintptr_t who)
{
    const struct vli_slab_mark *mark = mark_of(unit);
    bool is_used = mark->state == MARK_USED;

    vli_log(VL_LOG_ERROR, "%s before: %s by 0x%lx on CPU %u", cache->name,
            is_used ? "freed" : "allocated",
            (unsigned long)(is_used ? mark->free_by : mark->alloc_by),
            is_used ? mark->free_cpu : mark->alloc_cpu);
    vli_panic("%s: object 0x%lx of cache %s, by 0x%lx; last %s by 0x%lx on CPU %u", what,
              (unsigned long)(unit + cache->shift), cache->name, (unsigned long)who,
              is_used ? "allocated" : "freed",
              (unsigned long)(is_used ? mark->alloc_by : mark->free_by),
              is_used ? mark->alloc_cpu : mark->free_cpu);
}

static void check_red(const struct vl_cache *cache, uintptr_t unit, uintptr_t who)
{
    uintptr_t object = unit + cache->shift;
    uintptr_t end = unit + cache->unit_bytes;
    uint32_t bytes = mark_of(unit)->bytes;

    if (mark_of(unit)->red != RED_HEAD ||
        find_other(unit + VLI_MARK_HEAD, object, RED_BYTE) != (const unsigned char *)object) {
        complain(cache, unit, "written before its start", who);
    }
    if (bytes > cache->object_bytes ||
        find_other(object + bytes, end, RED_BYTE) != (const unsigned char *)end) {
        complain(cache, unit, "written beyond its end", who);
    }
}

void vli_debug_unit_init(const struct vl_cache *cache, uintptr_t unit)
{
    uintptr_t object = unit + cache->shift;
    struct vli_slab_mark *mark = mark_of(unit);

    memset((void *)unit, RED_BYTE, cache->unit_bytes);
    if (cache->constructor == NULL) {
        memset((void *)object, POISON, cache->object_bytes);
    }
    *mark =
        (struct vli_slab_mark){.state = MARK_FREE, .bytes = cache->object_bytes, .red = RED_HEAD};
}

void vli_debug_alloc(const struct vl_cache *cache, uintptr_t unit, uintptr_t who)
{
    struct vli_slab_mark *mark = mark_of(unit);
    uintptr_t object = unit + cache->shift;
    uintptr_t end = object + cache->object_bytes;

    if (mark->state != MARK_FREE) {
        complain(cache, unit, "a free object is marked as used", who);
    }
    check_red(cache, unit, who);
    if (cache->constructor == NULL &&
        find_other(object, end, POISON) != (const unsigned char *)end) {
        complain(cache, unit, "written after it was freed", who);
    }
    mark->state = MARK_USED;
    mark->alloc_by = who;
    mark->alloc_cpu = (uint16_t)vl_host_cpu_id();
}

void vli_debug_how(vl_how_t how)
{
    if ((how & VL_WAIT) != 0) {
        vli_rank_assert_none();
    }
}

void vli_debug_find(const void *object, uintptr_t who)
{
    uintptr_t address = (uintptr_t)object;
    struct vl_frame *frame = vli_virt_frame(address);

    if (frame < vli_frames + vli_frames_first || frame >= vli_frames + vli_frames_end) {
        vli_panic("0x%lx is no memory of ours, by 0x%lx", (unsigned long)address,
                  (unsigned long)who);
    }
}

/* Panics unless @object is one of the cache's, in use, and nobody wrote beside it. */
static void check_object(const struct vl_cache *cache, const void *object, uintptr_t who,
                         const char *if_free)
{
    uintptr_t unit = (uintptr_t)object - cache->shift;
    struct vl_frame *frame;
    uintptr_t base;
    uint32_t units;

    vli_debug_find(object, who);
    frame = vli_virt_frame((uintptr_t)object);
    if (vli_frame_type(frame) != VLI_FRAME_SLAB || vli_slab_cache(frame) != cache) {
        vli_panic("0x%lx is not of cache %s, by 0x%lx", (unsigned long)(uintptr_t)object,
                  cache->name, (unsigned long)who);
    }
    base = (uintptr_t)vli_frame_virt(vli_frame_pfn(vli_slab_head(frame)));
    units = vli_slab_units(vli_slab_head(frame));
    if (unit - base >= (uintptr_t)units * cache->unit_bytes ||
        (unit - base) % cache->unit_bytes != 0) {
        vli_panic("0x%lx is inside an object of cache %s, by 0x%lx",
                  (unsigned long)(uintptr_t)object, cache->name, (unsigned long)who);
    }
    if (mark_of(unit)->state != MARK_USED && mark_of(unit)->state != MARK_FREE) {
        complain(cache, unit, "written before its start", who);
    }
    if (mark_of(unit)->state == MARK_FREE) {
        complain(cache, unit, if_free, who);
    }
    check_red(cache, unit, who);
}

void vli_debug_used(const struct vl_cache *cache, const void *object, uintptr_t who)
{
    check_object(cache, object, who, "used after it was freed");
}

void vli_debug_free(const struct vl_cache *cache, void *object, uintptr_t who)
{
    uintptr_t unit = (uintptr_t)object - cache->shift;
    struct vli_slab_mark *mark = mark_of(unit);

    check_object(cache, object, who, "freed twice");
    mark->state = MARK_FREE;
    mark->free_by = who;
    mark->free_cpu = (uint16_t)vl_host_cpu_id();
    mark->bytes = cache->object_bytes;
    if (cache->constructor == NULL) {
        memset(object, POISON, cache->object_bytes);
    }
}

/* Mark of an object of a slab; NULL for whole frames and for none. */
static struct vli_slab_mark *mark_of_object(const void *object, struct vl_cache **out_cache)
{
    struct vl_frame *frame;

    if (object == NULL) {
        return NULL;
    }
    frame = vli_virt_frame((uintptr_t)object);
    if (vli_frame_type(frame) != VLI_FRAME_SLAB) {
        return NULL;
    }
    *out_cache = vli_slab_cache(frame);
    return mark_of((uintptr_t)object - (*out_cache)->shift);
}

void *vli_debug_size(void *object, size_t size)
{
    struct vl_cache *cache;
    struct vli_slab_mark *mark = mark_of_object(object, &cache);

    if (mark != NULL) {
        VL_ASSERT(size <= cache->object_bytes);
        mark->bytes = (uint32_t)size;
        memset((char *)object + size, RED_BYTE, cache->object_bytes - size);
    }
    return object;
}

size_t vli_debug_bytes(const struct vl_cache *cache, const void *object)
{
    return mark_of((uintptr_t)object - cache->shift)->bytes;
}

/* Marks who has whole frames, in the links of their first descriptor. */
static void set_large_owner(struct vl_frame *head, uintptr_t who)
{
    head->next = (uint32_t)who;
    head->prev = (uint32_t)(who >> 32);
}

void *vli_debug_owner(void *object, uintptr_t who)
{
    struct vl_cache *cache;
    struct vli_slab_mark *mark = mark_of_object(object, &cache);

    if (mark != NULL) {
        mark->alloc_by = who;
    } else if (object != NULL) {
        set_large_owner(vli_virt_frame((uintptr_t)object), who);
    }
    return object;
}

/* -------------------------------------------------------------------------- whole frames */

void vli_debug_whole_size(struct vl_frame *head, size_t size)
{
    char *object = vli_frame_virt(vli_frame_pfn(head));

    VL_ASSERT(size <= vli_whole_room(head));
    memset(object + size, RED_BYTE, vli_whole_room(head) - size);
}

void vli_debug_whole_alloc(struct vl_frame *head, size_t size, uintptr_t who)
{
    set_large_owner(head, who);
    vli_debug_whole_size(head, size);
}

void vli_debug_whole_free(struct vl_frame *head, uintptr_t who)
{
    uintptr_t object = (uintptr_t)vli_frame_virt(vli_frame_pfn(head));
    uintptr_t end = object + vli_whole_room(head);
    size_t size = atomic_load_explicit(&head->owner, memory_order_relaxed);

    if (find_other(object + size, end, RED_BYTE) != (const unsigned char *)end) {
        vli_panic("written beyond its end: 0x%lx of %lu bytes, by 0x%lx; last allocated by 0x%lx",
                  (unsigned long)object, (unsigned long)size, (unsigned long)who,
                  (unsigned long)((uintptr_t)head->prev << 32 | head->next));
    }
}

/* ------------------------------------------------------------------------ who leaked what */

/* Objects in use of one slab: counts them and, while there is room in the report, names them. */
static void report_slab(const struct vl_cache *cache, struct vl_frame *head, uint64_t *count)
{
    uintptr_t unit = (uintptr_t)vli_frame_virt(vli_frame_pfn(head));
    uint32_t units = vli_slab_units(head);

    for (uint32_t i = 0; i < units; i++, unit += cache->unit_bytes) {
        const struct vli_slab_mark *mark = mark_of(unit);

        if (mark->state != MARK_USED) {
            continue;
        }
        if ((*count)++ < REPORT_MAX) {
            vli_log(VL_LOG_WARNING, "cache %s: object 0x%lx is out, allocated by 0x%lx on CPU %u",
                    cache->name, (unsigned long)(unit + cache->shift),
                    (unsigned long)mark->alloc_by, mark->alloc_cpu);
        }
    }
}

void vli_debug_report(const struct vl_cache *cache)
{
    uint64_t count = 0;

    for (uint32_t n = vli_frames_first; n < vli_frames_end; n++) {
        struct vl_frame *frame = vli_frame_of((struct vl_pfn){n});

        if (vli_frame_type(frame) == VLI_FRAME_SLAB && vli_slab_cache(frame) == cache &&
            vli_slab_head(frame) == frame) {
            report_slab(cache, frame, &count);
        }
    }
    if (count > REPORT_MAX) {
        vli_log(VL_LOG_WARNING, "cache %s: and %lu more", cache->name,
                (unsigned long)(count - REPORT_MAX));
    }
}

#endif
