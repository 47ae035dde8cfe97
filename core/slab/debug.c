/*
 * debug.c - what a debug build keeps around each object, and what it catches with it.
 *
 *      | link state who cpu red |  object  | red zone up to the unit's end |
 *        struct vli_slab_mark     ^ shift
 *
 * A free object is filled with POISON (not where a constructor made it) and checked when it is
 * handed out: somebody wrote after he freed it. The red zones on both sides are checked when it
 * comes back: somebody wrote beyond it. The state tells a double free, the unit's place in its slab
 * a wild one. Each report names who allocated or freed it last.
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

    vli_panic("%s: object 0x%lx of cache %s, by 0x%lx; last %s by 0x%lx on CPU %u", what,
              (unsigned long)(unit + cache->shift), cache->name, (unsigned long)who,
              mark->state == MARK_USED ? "allocated" : "freed", (unsigned long)mark->who,
              mark->cpu);
}

static void check_red(const struct vl_cache *cache, uintptr_t unit, uintptr_t who)
{
    uintptr_t object = unit + cache->shift;
    uintptr_t end = unit + cache->unit_bytes;

    if (mark_of(unit)->red != RED_HEAD ||
        find_other(unit + VLI_MARK_HEAD, object, RED_BYTE) != (const unsigned char *)object) {
        complain(cache, unit, "written before its start", who);
    }
    if (find_other(object + cache->object_bytes, end, RED_BYTE) != (const unsigned char *)end) {
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
    *mark = (struct vli_slab_mark){.state = MARK_FREE, .red = RED_HEAD};
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
    mark->who = who;
    mark->cpu = vl_host_cpu_id();
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
        vli_panic("free of 0x%lx, which is no memory of ours, by 0x%lx", (unsigned long)address,
                  (unsigned long)who);
    }
}

void vli_debug_free(const struct vl_cache *cache, void *object, uintptr_t who)
{
    uintptr_t unit = (uintptr_t)object - cache->shift;
    struct vl_frame *frame;
    struct vli_slab_mark *mark = mark_of(unit);
    uintptr_t base;
    uint32_t units;

    vli_debug_find(object, who);
    frame = vli_virt_frame((uintptr_t)object);
    if (vli_frame_type(frame) != VLI_FRAME_SLAB || vli_slab_cache(frame) != cache) {
        vli_panic("free of 0x%lx, which is not of cache %s, by 0x%lx",
                  (unsigned long)(uintptr_t)object, cache->name, (unsigned long)who);
    }
    base = (uintptr_t)vli_frame_virt(vli_frame_pfn(vli_slab_head(frame)));
    units = vli_slab_units(vli_slab_head(frame));
    if (unit - base >= (uintptr_t)units * cache->unit_bytes ||
        (unit - base) % cache->unit_bytes != 0) {
        vli_panic("free of 0x%lx, which is inside an object of cache %s, by 0x%lx",
                  (unsigned long)(uintptr_t)object, cache->name, (unsigned long)who);
    }
    if (mark->state == MARK_FREE) {
        complain(cache, unit, "freed twice", who);
    }
    check_red(cache, unit, who);
    mark->state = MARK_FREE;
    mark->who = who;
    mark->cpu = vl_host_cpu_id();
    if (cache->constructor == NULL) {
        memset(object, POISON, cache->object_bytes);
    }
}

#endif
