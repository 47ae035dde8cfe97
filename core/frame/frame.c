/*
 * frame.c - getting and giving back frames: the fast paths, the bulk forms, references.
 *
 * The fast path of order 0 and 9 is the CPU's stock: interrupts off, a number from the top of an
 * array, interrupts on. No descriptor is touched: whoever gives a frame back has just used its
 * descriptor and leaves it as the next user wants it (frame_state.h). vl_frame_free() does not even
 * do that, for a raw frame's descriptor was never changed.
 */
#include "core/base/count.h"
#include "core/frame/buddy_one.h"
#include "arch/memory.h"

#define NONE VLI_FRAME_LINK_NONE

/* Bits of a request that names a zone: the stocks are left out of it. */
#define HOW_ZONE ((vl_how_t)0xff << VL_ZONE_SHIFT)

struct vl_frame *vli_frames;
uint32_t vli_frames_first;
uint32_t vli_frames_end;

void vli_frame_zero(struct vl_pfn pfn)
{
    vli_arch_zero_pages(vli_frame_virt(pfn), 1);
}

void vli_frame_copy(struct vl_pfn to, struct vl_pfn from)
{
    vli_arch_copy_page(vli_frame_virt(to), vli_frame_virt(from));
}

/* Debug builds: who may wait holds no lock of the core. */
static inline void assert_may_wait(vl_how_t how)
{
    if ((how & VL_WAIT) != 0) {
        vli_rank_assert_none();
    }
}

/* ---------------------------------------------------------------------------------------- get */

/* Takes one from the stock of order 0; interrupts are off. False when it is empty. */
static inline bool pop0(struct vli_frame_percpu *stock, uint32_t *out)
{
    uint32_t count = atomic_load_explicit(&stock->count0, memory_order_relaxed);

    if (VLI_UNLIKELY(count == 0)) {
        return false;
    }
    *out = stock->order0[count - 1];
    atomic_store_explicit(&stock->count0, count - 1, memory_order_relaxed);
    return true;
}

static inline bool pop9(struct vli_frame_percpu *stock, uint32_t *out)
{
    uint32_t count = atomic_load_explicit(&stock->count9, memory_order_relaxed);

    if (VLI_UNLIKELY(count == 0)) {
        return false;
    }
    *out = stock->order9[count - 1];
    atomic_store_explicit(&stock->count9, count - 1, memory_order_relaxed);
    return true;
}

static inline void note_get(uint32_t pfn, unsigned order, uintptr_t place)
{
    vli_history_alloc((struct vl_pfn){pfn}, order, place);
    VLI_EVENT(VL_EVENT_FRAME_ALLOC, pfn, order);
}

/*
 * The functions below are one path, cut where it branches: each does the likely thing without a
 * stack frame and leaves the rest to the next by a call in its place. Interrupts are off since
 * @irq; the last thing that each does is to restore them.
 */

/* Whatever the others do not do. */
static VLI_NOINLINE enum vl_status alloc_any(unsigned order, vl_how_t how, struct vl_pfn *out,
                                             unsigned long irq, uintptr_t place)
{
    struct vli_frame_percpu *stock = &vli_this_cpu()->frame;
    uint32_t pfn = NONE;

    if (VLI_LIKELY((how & HOW_ZONE) == 0)) {
        if (order == 0 && stock->limit0 != 0) {
            if (!pop0(stock, &pfn)) {
                pfn = vli_stock_refill(stock, 0);
            }
        } else if (order == VLI_STOCK_ORDER_LARGE && stock->limit9 != 0) {
            if (!pop9(stock, &pfn)) {
                pfn = vli_stock_refill(stock, VLI_STOCK_ORDER_LARGE);
            }
        } else {
            pfn = vli_zone_take_quick(order);
        }
    }
    vl_host_irq_restore(irq);
    if (VLI_UNLIKELY(pfn == NONE)) {
        pfn = vli_frame_get_slow(order, how);
        if (pfn == NONE) {
            return VL_ENOMEM;
        }
    }
    vli_count_add(VLI_COUNT_ALLOC, (uint64_t)1 << order);
    note_get(pfn, order, place);
    if (VLI_UNLIKELY((how & VL_ZEROED) != 0)) {
        vli_arch_zero_pages(vli_frame_virt((struct vl_pfn){pfn}), (size_t)1 << order);
    }
    out->n = pfn;
    return VL_OK;
}

/* The last part of a request for a single frame from a zone that has none: splits a block. */
static VLI_NOINLINE enum vl_status alloc_split(struct vli_zone *zone, vl_how_t how,
                                               struct vl_pfn *out, unsigned long irq,
                                               uintptr_t place) VL_RELEASE(&zone->lock)
{
    uint32_t pfn = NONE;

    if (atomic_load_explicit(&zone->free, memory_order_relaxed) >
        vli_watermark(&zone->watermark_low)) {
        pfn = vli_buddy_take_split(zone, 0);
    }
    vli_zone_unlock(zone);
    if (pfn == NONE) {
        return alloc_any(0, how, out, irq, place);
    }
    vli_count_add_here(vli_this_cpu(), VLI_COUNT_ALLOC, 1);
    vl_host_irq_restore(irq);
    note_get(pfn, 0, place);
    out->n = pfn;
    return VL_OK;
}

/* Order 0, as it is; the stock is empty, or stocks are off: then the first frame of the list. */
static VLI_NOINLINE enum vl_status alloc_single(vl_how_t how, struct vl_pfn *out, unsigned long irq,
                                                uintptr_t place)
{
    struct vli_percpu *cpu = vli_this_cpu();
    struct vli_zone *zone = cpu->frame.zone;
    uint32_t pfn;

    if (cpu->frame.limit0 != 0 || !vli_zone_try_lock(zone)) {
        return alloc_any(0, how, out, irq, place);
    }
    pfn = zone->list[0];
    if (VLI_UNLIKELY(pfn == NONE) ||
        VLI_UNLIKELY(atomic_load_explicit(&zone->free, memory_order_relaxed) <=
                     vli_watermark(&zone->watermark_low))) {
        return alloc_split(zone, how, out, irq, place);
    }
    zone->work.takes++;
    vli_zone_add_free(zone, UINT64_MAX);
    (void)vli_list_pop(zone, 0);
    vli_zone_unlock(zone);
    vli_count_add_here(cpu, VLI_COUNT_ALLOC, 1);
    vl_host_irq_restore(irq);
    note_get(pfn, 0, place);
    out->n = pfn;
    return VL_OK;
}

/* Not order 0, as it is: perhaps order 9, as it is, from a stock that has some. */
static VLI_NOINLINE enum vl_status alloc_large(unsigned order, vl_how_t how, struct vl_pfn *out,
                                               unsigned long irq, uintptr_t place)
{
    struct vli_percpu *cpu = vli_this_cpu();
    uint32_t pfn;

    if (order != VLI_STOCK_ORDER_LARGE || (how & (HOW_ZONE | VL_ZEROED)) != 0 ||
        !pop9(&cpu->frame, &pfn)) {
        return alloc_any(order, how, out, irq, place);
    }
    vli_count_add_here(cpu, VLI_COUNT_ALLOC, 1u << VLI_STOCK_ORDER_LARGE);
    vl_host_irq_restore(irq);
    note_get(pfn, order, place);
    out->n = pfn;
    return VL_OK;
}

enum vl_status vl_frame_alloc(unsigned order, vl_how_t how, struct vl_pfn *out)
{
    unsigned long irq;
    struct vli_percpu *cpu;
    uint32_t pfn;

    assert_may_wait(how);
    if (VLI_UNLIKELY(order > VL_ORDER_MAX)) {
        return VL_EINVAL;
    }
    if (VLI_ALLOC_FAILS()) {
        return VL_ENOMEM;
    }
    irq = vl_host_irq_save();
    if (VLI_UNLIKELY((order | (how & (HOW_ZONE | VL_ZEROED))) != 0)) {
        return alloc_large(order, how, out, irq, VLI_RETURN_ADDRESS);
    }
    cpu = vli_this_cpu();
    if (VLI_UNLIKELY(!pop0(&cpu->frame, &pfn))) {
        return alloc_single(how, out, irq, VLI_RETURN_ADDRESS);
    }
    vli_count_add_here(cpu, VLI_COUNT_ALLOC, 1);
    vl_host_irq_restore(irq);
    note_get(pfn, 0, VLI_RETURN_ADDRESS);
    out->n = pfn;
    return VL_OK;
}

/* The rest of vli_frame_get(). */
static VLI_NOINLINE struct vl_frame *get_frame(unsigned order, vl_how_t how, unsigned long irq,
                                               uintptr_t place)
{
    struct vl_pfn pfn;
    enum vl_status status = order == 0 && (how & (HOW_ZONE | VL_ZEROED)) == 0
                                ? alloc_single(how, &pfn, irq, place)
                                : alloc_large(order, how, &pfn, irq, place);

    return status == VL_OK ? &vli_frames[pfn.n] : NULL;
}

struct vl_frame *vli_frame_get(unsigned order, vl_how_t how)
{
    unsigned long irq;
    struct vli_percpu *cpu;
    uint32_t pfn;

    VL_ASSERT_SLOW(order <= VL_ORDER_MAX);
    assert_may_wait(how);
    if (VLI_ALLOC_FAILS()) {
        return NULL;
    }
    irq = vl_host_irq_save();
    cpu = vli_this_cpu();
    if (VLI_UNLIKELY((order | (how & HOW_ZONE)) != 0) || VLI_UNLIKELY(!pop0(&cpu->frame, &pfn))) {
        return get_frame(order, how, irq, VLI_RETURN_ADDRESS);
    }
    vli_count_add_here(cpu, VLI_COUNT_ALLOC, 1);
    vl_host_irq_restore(irq);
    note_get(pfn, 0, VLI_RETURN_ADDRESS);
    if ((how & VL_ZEROED) != 0) {
        vli_arch_zero_pages(vli_frame_virt((struct vl_pfn){pfn}), 1);
    }
    return &vli_frames[pfn];
}

/* ---------------------------------------------------------------------------------------- put */

/* As above: one path, cut where it branches. Interrupts are off since @irq. */

/* Whatever the others do not do. */
static VLI_NOINLINE void put_any(uint32_t pfn, unsigned order, unsigned long irq)
{
    struct vli_percpu *cpu = vli_this_cpu();
    struct vli_frame_percpu *stock = &cpu->frame;

    vli_count_add_here(cpu, VLI_COUNT_FREE, (uint64_t)1 << order);
    if (((order == 0 && stock->limit0 != 0) ||
         (order == VLI_STOCK_ORDER_LARGE && stock->limit9 != 0)) &&
        vli_stock_keeps(stock, pfn)) {
        vli_stock_put_full(stock, pfn, order);
    } else {
        vli_zone_give_quick(pfn, order);
    }
    vl_host_irq_restore(irq);
}

/* The last part of giving back a single frame whose buddy is free. */
static VLI_NOINLINE void put_join(struct vli_zone *zone, uint32_t pfn, unsigned long irq)
    VL_RELEASE(&zone->lock)
{
    vli_buddy_join(zone, pfn, 0);
    vli_zone_unlock(zone);
    vl_host_irq_restore(irq);
}

/* Puts one on top of the stock of order 0, which has room; interrupts are off. */
static inline void push0(struct vli_frame_percpu *stock, uint32_t count, uint32_t pfn)
{
    stock->order0[count] = pfn;
    atomic_store_explicit(&stock->count0, count + 1, memory_order_relaxed);
}

/* Order 0, and the stock keeps this one, which one comparison could not tell if there is room. */
static VLI_NOINLINE void put_kept(uint32_t pfn, unsigned long irq)
{
    struct vli_percpu *cpu = vli_this_cpu();
    uint32_t count = atomic_load_explicit(&cpu->frame.count0, memory_order_relaxed);

    if (count >= cpu->frame.limit0) {
        put_any(pfn, 0, irq);
        return;
    }
    push0(&cpu->frame, count, pfn);
    vli_count_add_here(cpu, VLI_COUNT_FREE, 1);
    vl_host_irq_restore(irq);
}

/* Order 0, and no room in the stock, or stocks are off: then into the list, unless it joins. */
static VLI_NOINLINE void put_single(uint32_t pfn, unsigned long irq)
{
    struct vli_percpu *cpu = vli_this_cpu();
    struct vli_zone *zone = cpu->frame.zone;
    uint32_t flags;

    if (cpu->frame.limit0 != 0 && vli_stock_keeps(&cpu->frame, pfn)) {
        put_kept(pfn, irq);
        return;
    }
    flags = atomic_load_explicit(&vli_frames[pfn].flags, memory_order_relaxed);
    if (flags != zone->flags_idle || !vli_zone_try_lock(zone)) {
        put_any(pfn, 0, irq);
        return;
    }
    vli_count_add_here(cpu, VLI_COUNT_FREE, 1);
    zone->work.gives++;
    vli_zone_add_free(zone, 1);
    if (VLI_UNLIKELY(vli_mark_try_join(zone, pfn, 0))) {
        put_join(zone, pfn, irq);
        return;
    }
    vli_buddy_list_one(zone, pfn, 0);
    vli_zone_unlock(zone);
    vl_host_irq_restore(irq);
}

/* Not order 0: perhaps order 9 into a stock with room. */
static VLI_NOINLINE void put_large(uint32_t pfn, unsigned order, unsigned long irq)
{
    struct vli_percpu *cpu = vli_this_cpu();
    struct vli_frame_percpu *stock = &cpu->frame;
    uint32_t count = atomic_load_explicit(&stock->count9, memory_order_relaxed);

    if (order != VLI_STOCK_ORDER_LARGE || count >= stock->limit9 || !vli_stock_keeps(stock, pfn)) {
        put_any(pfn, order, irq);
        return;
    }
    stock->order9[count] = pfn;
    atomic_store_explicit(&stock->count9, count + 1, memory_order_relaxed);
    vli_count_add_here(cpu, VLI_COUNT_FREE, 1u << VLI_STOCK_ORDER_LARGE);
    vl_host_irq_restore(irq);
}

/* The fast path: order 0 into a stock with room. */
static VLI_ALWAYS_INLINE void put(uint32_t pfn, unsigned order)
{
    unsigned long irq = vl_host_irq_save();
    struct vli_percpu *cpu;
    struct vli_frame_percpu *stock;
    uint32_t count;

    if (VLI_UNLIKELY(order != 0)) {
        put_large(pfn, order, irq);
        return;
    }
    cpu = vli_this_cpu();
    stock = &cpu->frame;
    count = atomic_load_explicit(&stock->count0, memory_order_relaxed);
    if (VLI_UNLIKELY(count >= stock->limit0) || VLI_UNLIKELY(pfn < stock->first)) {
        put_single(pfn, irq);
        return;
    }
    push0(stock, count, pfn);
    vli_count_add_here(cpu, VLI_COUNT_FREE, 1);
    vl_host_irq_restore(irq);
}

static inline void note_put(struct vl_pfn pfn, unsigned order, uintptr_t place)
{
    vli_history_free(pfn, order, place);
    VLI_EVENT(VL_EVENT_FRAME_FREE, pfn.n, order);
}

void vl_frame_free(struct vl_pfn pfn, unsigned order)
{
    note_put(pfn, order, VLI_RETURN_ADDRESS);
    VL_ASSERT_SLOW(vli_frame_type(vli_frame_of(pfn)) == VLI_FRAME_STOCK);
    put(pfn.n, order);
}

/* A slab's parts carry its type, too. */
static VLI_NOINLINE void reset_parts(struct vl_frame *frame, unsigned order, uint32_t zone_bits)
{
    for (uint32_t i = 1; i < 1u << order; i++) {
        atomic_store_explicit(&frame[i].flags, zone_bits | (uint32_t)VLI_FRAME_STOCK,
                              memory_order_relaxed);
        atomic_store_explicit(&frame[i].owner, 0, memory_order_relaxed);
    }
}

/* Leaves a single frame's descriptor as its next user expects it. */
static inline void reset_single(struct vl_frame *frame)
{
    uint32_t flags = atomic_load_explicit(&frame->flags, memory_order_relaxed);

    VL_ASSERT_SLOW((flags & VLI_FRAME_BUDDY) == 0);
    flags = (flags & VLI_FRAME_ZONE_MASK) | (uint32_t)VLI_FRAME_STOCK;
    atomic_store_explicit(&frame->flags, flags, memory_order_relaxed);
    atomic_store_explicit(&frame->refs, 1, memory_order_relaxed);
    atomic_store_explicit(&frame->owner, 0, memory_order_relaxed);
}

static VLI_NOINLINE void put_block(struct vl_frame *frame, unsigned order)
{
    uint32_t flags = atomic_load_explicit(&frame->flags, memory_order_relaxed);

    if ((flags & VLI_FRAME_TYPE_MASK) == VLI_FRAME_SLAB) {
        reset_parts(frame, order, flags & VLI_FRAME_ZONE_MASK);
    }
    reset_single(frame);
    put_large(vli_frame_pfn(frame).n, order, vl_host_irq_save());
}

void vli_frame_put(struct vl_frame *frame, unsigned order)
{
    note_put(vli_frame_pfn(frame), order, VLI_RETURN_ADDRESS);
    if (VLI_LIKELY(order == 0)) {
        reset_single(frame);
        put(vli_frame_pfn(frame).n, 0);
    } else {
        put_block(frame, order);
    }
}

void vli_frame_split(struct vl_frame *frame, unsigned order)
{
    VL_ASSERT(order > 0);
    /* The upper half's descriptors are as of frames that nobody uses: see frame_state.h. */
    vli_history_split(vli_frame_pfn(frame), order);
}

/* ----------------------------------------------------------------------------------------- bulk */

/* Up to @count frames from the top of the stock. */
static size_t stock_get_many(size_t count, uint32_t *out)
{
    unsigned long irq = vl_host_irq_save();
    struct vli_frame_percpu *stock = &vli_this_cpu()->frame;
    uint32_t have = atomic_load_explicit(&stock->count0, memory_order_relaxed);

    count = count < have ? count : have;
    for (size_t i = 0; i < count; i++) {
        out[i] = stock->order0[--have];
    }
    atomic_store_explicit(&stock->count0, have, memory_order_relaxed);
    vl_host_irq_restore(irq);
    return count;
}

/* Puts @count frames into the stock if all of them fit. */
static bool stock_put_many(const uint32_t *pfns, size_t count)
{
    unsigned long irq = vl_host_irq_save();
    struct vli_frame_percpu *stock = &vli_this_cpu()->frame;
    uint32_t have = atomic_load_explicit(&stock->count0, memory_order_relaxed);
    bool fits = have + count <= stock->limit0;

    for (size_t i = 0; fits && i < count; i++) {
        fits = vli_stock_keeps(stock, pfns[i]);
    }
    if (fits) {
        memcpy(&stock->order0[have], pfns, count * sizeof(pfns[0]));
        atomic_store_explicit(&stock->count0, have + (uint32_t)count, memory_order_relaxed);
    }
    vl_host_irq_restore(irq);
    return fits;
}

/* Into the stock if there is room; or else straight to their zones, unless they are so few that
 * making room is better. */
static void put_many(const uint32_t *pfns, size_t count)
{
    if (stock_put_many(pfns, count)) {
        vli_count_add(VLI_COUNT_FREE, count);
        return;
    }
    if (count > 16) {
        vli_count_add(VLI_COUNT_FREE, count);
        vli_zones_give(pfns, count, 0);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        put(pfns[i], 0);
    }
}

/* The part of a bulk request that comes without asking anybody: whole blocks from the zones, then
 * the stock, or for a small request the other way round. */
static size_t get_many(size_t count, vl_how_t how, uint32_t *out)
{
    struct vli_request request = {
        .zone = vli_zone_highest(how), .depth = VLI_DEPTH_LOW, .node = vli_node_here()};
    size_t had = 0;
    size_t got;

    if ((how & HOW_ZONE) == 0 && count <= VLI_STOCK_ORDER0) {
        had = stock_get_many(count, out);
    }
    while (had < count) {
        got = vli_zones_take(&request, count - had < 1024 ? count - had : 1024, out + had);
        if (got == 0) {
            break;
        }
        had += got;
    }
    if ((how & HOW_ZONE) == 0 && had < count) {
        had += stock_get_many(count - had, out + had);
    }
    return had;
}

_Static_assert(sizeof(struct vl_pfn) == sizeof(uint32_t), "arrays of either are the same");

size_t vl_frame_alloc_bulk(size_t count, vl_how_t how, struct vl_pfn *out)
{
    size_t had;

    assert_may_wait(how);
    if (VLI_ALLOC_FAILS()) {
        return 0;
    }
    had = get_many(count, how, &out->n);
    vli_count_add(VLI_COUNT_ALLOC, had);
    for (size_t i = 0; i < had; i++) {
        note_get(out[i].n, 0, VLI_RETURN_ADDRESS);
        if ((how & VL_ZEROED) != 0) {
            vli_frame_zero(out[i]);
        }
    }
    while (had < count && vl_frame_alloc(0, how, &out[had]) == VL_OK) {
        had++;
    }
    return had;
}

void vl_frame_free_bulk(const struct vl_pfn *pfns, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        note_put(pfns[i], 0, VLI_RETURN_ADDRESS);
        VL_ASSERT_SLOW(vli_frame_type(vli_frame_of(pfns[i])) == VLI_FRAME_STOCK);
    }
    if (count > 0) {
        put_many(&pfns->n, count);
    }
}

void vli_frame_put_bulk(struct vl_frame *const *frames, size_t count)
{
    uint32_t pfns[VLI_STOCK_ORDER0 / 4];

    while (count > 0) {
        size_t n = count < VLI_COUNT_OF(pfns) ? count : VLI_COUNT_OF(pfns);

        for (size_t i = 0; i < n; i++) {
            struct vl_pfn pfn = vli_frame_pfn(frames[i]);

            note_put(pfn, 0, VLI_RETURN_ADDRESS);
            reset_single(frames[i]);
            pfns[i] = pfn.n;
        }
        put_many(pfns, n);
        frames += n;
        count -= n;
    }
}

/* ----------------------------------------------------------------------------------------- runs */

/* Each frame of a run counts as one taken by itself, for it may be given back by itself. */
static void note_run(uint32_t start, uint32_t frames, uintptr_t place)
{
    for (uint32_t i = 0; i < frames; i++) {
        note_get(start + i, 0, place);
    }
}

/* From the zones that a request names, or with reclaim: a block, whose end goes back. */
static uint32_t take_run_slow(uint32_t frames, vl_how_t how)
{
    unsigned order = vli_log2_ceil(frames);
    uint32_t pfn = vli_frame_get_slow(order, how);

    if (pfn != NONE && frames < 1u << order) {
        vli_zones_give_run(pfn + frames, pfn + (1u << order));
    }
    return pfn;
}

enum vl_status vl_frame_alloc_run(size_t frames, vl_how_t how, struct vl_pfn *out)
{
    uint32_t pfn = NONE;

    assert_may_wait(how);
    if (frames == 0 || frames > VL_RUN_MAX) {
        return VL_EINVAL;
    }
    if (VLI_ALLOC_FAILS()) {
        return VL_ENOMEM;
    }
    if ((how & HOW_ZONE) == 0) {
        unsigned long irq = vl_host_irq_save();

        pfn = vli_zone_take_run((uint32_t)frames);
        vl_host_irq_restore(irq);
    }
    if (VLI_UNLIKELY(pfn == NONE)) {
        pfn = take_run_slow((uint32_t)frames, how);
        if (pfn == NONE) {
            return VL_ENOMEM;
        }
    }
    vli_count_add(VLI_COUNT_ALLOC, frames);
    note_run(pfn, (uint32_t)frames, VLI_RETURN_ADDRESS);
    if ((how & VL_ZEROED) != 0) {
        vli_arch_zero_pages(vli_frame_virt((struct vl_pfn){pfn}), frames);
    }
    out->n = pfn;
    return VL_OK;
}

void vl_frame_free_run(struct vl_pfn start, size_t frames)
{
    VL_ASSERT(frames > 0 && frames <= VL_RUN_MAX);
    for (uint32_t i = 0; i < frames; i++) {
        note_put((struct vl_pfn){start.n + i}, 0, VLI_RETURN_ADDRESS);
    }
    vli_count_add(VLI_COUNT_FREE, frames);
    vli_zones_give_run(start.n, start.n + (uint32_t)frames);
}

/* ----------------------------------------------------------------------------------- references */

void vl_frame_ref_get(struct vl_pfn pfn)
{
    vli_frame_ref_get(vli_frame_of(pfn));
}

void vl_frame_ref_put(struct vl_pfn pfn)
{
    if (vli_frame_ref_drop(vli_frame_of(pfn))) {
        vli_frame_put(vli_frame_of(pfn), 0);
    }
}

void *vl_frame_to_virt(struct vl_pfn pfn)
{
    return vli_frame_virt(pfn);
}
