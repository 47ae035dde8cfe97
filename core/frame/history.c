/*
 * history.c - the side array of history.h.
 */
#include "core/frame/history.h"
#include "core/base/log.h"
#include "core/base/memory.h"

#if defined(VL_DEBUG) || defined(VL_EVENTS)

#define EVENTS_KEPT 3u

/* As zeroed memory has it, every frame is free. */
enum { FRAME_IS_FREE = 0, FRAME_IS_OUT = 1 };

struct event {
    uintptr_t place;
    uint64_t when : 48; /* microseconds */
    uint64_t cpu : 8;
    uint64_t order : 4;
    uint64_t is_free : 1;
    uint64_t is_set : 1;
};

struct history {
    uint8_t state;
    uint8_t order;
    uint8_t next; /* event to write next */
    struct event event[EVENTS_KEPT];
};

static struct history *histories;
static uint32_t histories_first;
static size_t histories_count;

size_t vli_history_bytes(size_t frames)
{
    return frames * sizeof(struct history);
}

void vli_history_init(void *memory, uint32_t first, size_t frames, bool is_zero)
{
    histories = memory;
    histories_first = first;
    histories_count = frames;
    if (!is_zero) {
        memset(memory, 0, vli_history_bytes(frames));
    }
}

static struct history *history_of(struct vl_pfn pfn)
{
    return &histories[pfn.n - histories_first];
}

static void add_event(struct vl_pfn pfn, unsigned order, uintptr_t place, bool is_free)
{
    struct history *history = history_of(pfn);
    struct event *event = &history->event[history->next];

    event->place = place;
    event->when = vl_host_clock_ns() / 1000 & 0xffffffffffffu;
    event->cpu = vl_host_cpu_id() & 0xffu;
    event->order = order & 0xfu;
    event->is_free = is_free;
    event->is_set = 1;
    history->next = (uint8_t)((history->next + 1u) % EVENTS_KEPT);
    history->state = is_free ? FRAME_IS_FREE : FRAME_IS_OUT;
    history->order = (uint8_t)order;
}

static void print(struct vl_pfn pfn)
{
    const struct history *history = history_of(pfn);
    const struct vl_frame *frame = vli_frame_of(pfn);

    vli_log(VL_LOG_ERROR, "frame %x: flags %x, refs %u, mappings %u, owner %p", pfn.n,
            (unsigned)atomic_load_explicit(&frame->flags, memory_order_relaxed),
            (unsigned)atomic_load_explicit(&frame->refs, memory_order_relaxed),
            (unsigned)atomic_load_explicit(&frame->mappings, memory_order_relaxed),
            (void *)atomic_load_explicit(&frame->owner, memory_order_relaxed));
    for (unsigned i = 0; i < EVENTS_KEPT; i++) {
        const struct event *event = &history->event[(history->next + i) % EVENTS_KEPT];

        if (event->is_set) {
            vli_log(VL_LOG_ERROR, "frame %x: %s, order %u, by %p on CPU %u at %llu us", pfn.n,
                    event->is_free ? "freed" : "allocated", (unsigned)event->order,
                    (void *)event->place, (unsigned)event->cpu, (unsigned long long)event->when);
        }
    }
}

static _Noreturn void fail(struct vl_pfn pfn, const char *what, unsigned order, uintptr_t place)
{
    print(pfn);
    vli_panic("frame %x: %s (order %u, by %p)", pfn.n, what, order, (void *)place);
}

void vli_history_alloc(struct vl_pfn pfn, unsigned order, uintptr_t place)
{
    if (history_of(pfn)->state != FRAME_IS_FREE) {
        fail(pfn, "handed out twice", order, place);
    }
    add_event(pfn, order, place, false);
}

void vli_history_free(struct vl_pfn pfn, unsigned order, uintptr_t place)
{
    const struct vl_frame *frame;

    if (!vli_frame_has(pfn)) {
        vli_panic("frame %x: freed, but there is no such frame (by %p)", pfn.n, (void *)place);
    }
    frame = vli_frame_of(pfn);
    if (order > VL_ORDER_MAX || (pfn.n & ((1u << order) - 1)) != 0) {
        fail(pfn, "freed with a bad order", order, place);
    }
    if (history_of(pfn)->state == FRAME_IS_FREE) {
        fail(pfn, "double free", order, place);
    }
    if (history_of(pfn)->order != order) {
        fail(pfn, "freed with a bad order", order, place);
    }
    if (atomic_load_explicit(&frame->refs, memory_order_relaxed) > 1 ||
        atomic_load_explicit(&frame->mappings, memory_order_relaxed) != 0) {
        fail(pfn, "freed while in use", order, place);
    }
    add_event(pfn, order, place, true);
}

void vli_history_split(struct vl_pfn pfn, unsigned order)
{
    struct history *lower = history_of(pfn);
    struct history *upper = history_of((struct vl_pfn){pfn.n + (1u << (order - 1))});

    if (lower->state != FRAME_IS_OUT || lower->order != order) {
        fail(pfn, "split with a bad order", order, 0);
    }
    lower->order = (uint8_t)(order - 1);
    *upper = *lower;
}

void vli_history_check_free(struct vl_pfn pfn)
{
    if (history_of(pfn)->state != FRAME_IS_FREE) {
        fail(pfn, "free and handed out", history_of(pfn)->order, 0);
    }
}

#endif
