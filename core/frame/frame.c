/*
 * frame.c - getting and giving back frames: the fast paths, the bulk forms, references.
 *
 * The fast path of order 0 and 9 is the CPU's stock: interrupts off, a number from the top of an
 * array, interrupts on. No descriptor is touched: whoever gives a frame back has just used its
 * descriptor and leaves it as the next user wants it (frame_state.h). vl_frame_free() does not even
 * do that, for a raw frame's descriptor was never changed.
 */
#include "core/frame/zone.h"
#include "arch/memory.h"

#define NONE VLI_FRAME_LINK_NONE

/* Bits of a request that leave the stocks out of it: it names a zone. */
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

/* ----------------------------------------------------------------------------- stock, one by one
 */

static inline uint32_t stock_get0(void)
{
    unsigned long irq = vl_host_irq_save();
    struct vli_frame_percpu *stock = &vli_this_cpu()->frame;
    uint32_t count = atomic_load_explicit(&stock->count0, memory_order_relaxed);
    uint32_t pfn = NONE;

    if (VLI_LIKELY(count != 0)) {
        pfn = stock->order0[count - 1];
        atomic_store_explicit(&stock->count0, count - 1, memory_order_relaxed);
    }
    vl_host_irq_restore(irq);
    return pfn;
}

static inline uint32_t stock_get9(void)
{
    unsigned long irq = vl_host_irq_save();
    struct vli_frame_percpu *stock = &vli_this_cpu()->frame;
    uint32_t count = atomic_load_explicit(&stock->count9, memory_order_relaxed);
    uint32_t pfn = NONE;

    if (VLI_LIKELY(count != 0)) {
        pfn = stock->order9[count - 1];
        atomic_store_explicit(&stock->count9, count - 1, memory_order_relaxed);
    }
    vl_host_irq_restore(irq);
    return pfn;
}

/* False when the stock is full or does not take this frame. */
static inline bool stock_put0(uint32_t pfn)
{
    unsigned long irq = vl_host_irq_save();
    struct vli_frame_percpu *stock = &vli_this_cpu()->frame;
    uint32_t count = atomic_load_explicit(&stock->count0, memory_order_relaxed);
    bool takes = count < stock->limit0 && pfn >= stock->first;

    if (VLI_LIKELY(takes)) {
        stock->order0[count] = pfn;
        atomic_store_explicit(&stock->count0, count + 1, memory_order_relaxed);
    }
    vl_host_irq_restore(irq);
    return takes;
}

static inline bool stock_put9(uint32_t pfn)
{
    unsigned long irq = vl_host_irq_save();
    struct vli_frame_percpu *stock = &vli_this_cpu()->frame;
    uint32_t count = atomic_load_explicit(&stock->count9, memory_order_relaxed);
    bool takes = count < stock->limit9 && pfn >= stock->first;

    if (VLI_LIKELY(takes)) {
        stock->order9[count] = pfn;
        atomic_store_explicit(&stock->count9, count + 1, memory_order_relaxed);
    }
    vl_host_irq_restore(irq);
    return takes;
}

/* Gives the older half of a full stock back and puts @pfn on top; or @pfn straight to its zone. */
static VLI_NOINLINE void stock_put_slow(uint32_t pfn, unsigned order)
{
    unsigned long irq = vl_host_irq_save();
    struct vli_frame_percpu *stock = &vli_this_cpu()->frame;
    bool is_large = order != 0;
    uint32_t *array = is_large ? stock->order9 : stock->order0;
    _Atomic uint32_t *count = is_large ? &stock->count9 : &stock->count0;
    uint32_t limit = is_large ? stock->limit9 : stock->limit0;
    uint32_t have = atomic_load_explicit(count, memory_order_relaxed);

    if (limit == 0 || pfn < stock->first) {
        vli_zones_give(&pfn, 1, order);
    } else {
        if (have >= limit) {
            uint32_t old = limit / 2;

            vli_zones_give(array, old, order);
            have -= old;
            memmove(array, array + old, have * sizeof(array[0]));
        }
        array[have] = pfn;
        atomic_store_explicit(count, have + 1, memory_order_relaxed);
    }
    vl_host_irq_restore(irq);
}

static inline void put(uint32_t pfn, unsigned order)
{
    if (VLI_LIKELY(order == 0)) {
        if (VLI_UNLIKELY(!stock_put0(pfn))) {
            stock_put_slow(pfn, 0);
        }
    } else if (order == VLI_STOCK_ORDER_LARGE) {
        if (VLI_UNLIKELY(!stock_put9(pfn))) {
            stock_put_slow(pfn, VLI_STOCK_ORDER_LARGE);
        }
    } else {
        vli_zones_give(&pfn, 1, order);
    }
}

static inline uint32_t get(unsigned order, vl_how_t how, uintptr_t place)
{
    uint32_t pfn = NONE;

    if (VLI_ALLOC_FAILS()) {
        return NONE;
    }
    if (VLI_LIKELY((how & HOW_ZONE) == 0)) {
        if (VLI_LIKELY(order == 0)) {
            pfn = stock_get0();
        } else if (order == VLI_STOCK_ORDER_LARGE) {
            pfn = stock_get9();
        }
    }
    if (VLI_UNLIKELY(pfn == NONE)) {
        pfn = vli_frame_get_slow(order, how);
        if (pfn == NONE) {
            return NONE;
        }
    }
    vli_history_alloc((struct vl_pfn){pfn}, order, place);
    VLI_EVENT(VL_EVENT_FRAME_ALLOC, pfn, order);
    if (VLI_UNLIKELY((how & VL_ZEROED) != 0)) {
        vli_arch_zero_pages(vli_frame_virt((struct vl_pfn){pfn}), (size_t)1 << order);
    }
    return pfn;
}

/* ------------------------------------------------------------------------------------ one block */

struct vl_frame *vli_frame_get(unsigned order, vl_how_t how)
{
    uint32_t pfn;

    VL_ASSERT_SLOW(order <= VL_ORDER_MAX);
    pfn = get(order, how, VLI_RETURN_ADDRESS);
    return VLI_LIKELY(pfn != NONE) ? &vli_frames[pfn] : NULL;
}

enum vl_status vl_frame_alloc(unsigned order, vl_how_t how, struct vl_pfn *out)
{
    uint32_t pfn;

    if (VLI_UNLIKELY(order > VL_ORDER_MAX)) {
        return VL_EINVAL;
    }
    pfn = get(order, how, VLI_RETURN_ADDRESS);
    if (VLI_UNLIKELY(pfn == NONE)) {
        return VL_ENOMEM;
    }
    out->n = pfn;
    return VL_OK;
}

void vl_frame_free(struct vl_pfn pfn, unsigned order)
{
    vli_history_free(pfn, order, VLI_RETURN_ADDRESS);
    VL_ASSERT_SLOW(vli_frame_type(vli_frame_of(pfn)) == VLI_FRAME_STOCK);
    VLI_EVENT(VL_EVENT_FRAME_FREE, pfn.n, order);
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

/* Leaves the descriptor as its next user expects it. */
static inline void reset(struct vl_frame *frame, unsigned order)
{
    uint32_t flags = atomic_load_explicit(&frame->flags, memory_order_relaxed);
    uint32_t zone_bits = flags & VLI_FRAME_ZONE_MASK;

    VL_ASSERT_SLOW((flags & VLI_FRAME_BUDDY) == 0);
    if (order != 0 && (flags & VLI_FRAME_TYPE_MASK) == VLI_FRAME_SLAB) {
        reset_parts(frame, order, zone_bits);
    }
    flags = zone_bits | (uint32_t)VLI_FRAME_STOCK | order << VLI_FRAME_ORDER_SHIFT;
    atomic_store_explicit(&frame->flags, flags, memory_order_relaxed);
    atomic_store_explicit(&frame->refs, 1, memory_order_relaxed);
    atomic_store_explicit(&frame->owner, 0, memory_order_relaxed);
}

void vli_frame_put(struct vl_frame *frame, unsigned order)
{
    struct vl_pfn pfn = vli_frame_pfn(frame);

    vli_history_free(pfn, order, VLI_RETURN_ADDRESS);
    VLI_EVENT(VL_EVENT_FRAME_FREE, pfn.n, order);
    reset(frame, order);
    put(pfn.n, order);
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
        fits = pfns[i] >= stock->first;
    }
    if (fits) {
        memcpy(&stock->order0[have], pfns, count * sizeof(pfns[0]));
        atomic_store_explicit(&stock->count0, have + (uint32_t)count, memory_order_relaxed);
    }
    vl_host_irq_restore(irq);
    return fits;
}

/* A few go into the stock, one by one if need be; many straight to their zones. */
static void put_many(const uint32_t *pfns, size_t count)
{
    if (stock_put_many(pfns, count)) {
        return;
    }
    if (count > VLI_STOCK_ORDER0 / 4) {
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
    struct vli_request request = {.zone = vli_zone_highest(how), .depth = VLI_DEPTH_LOW};
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
    size_t had = VLI_ALLOC_FAILS() ? 0 : get_many(count, how, &out->n);

    for (size_t i = 0; i < had; i++) {
        vli_history_alloc(out[i], 0, VLI_RETURN_ADDRESS);
        VLI_EVENT(VL_EVENT_FRAME_ALLOC, out[i].n, 0);
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
        vli_history_free(pfns[i], 0, VLI_RETURN_ADDRESS);
        VL_ASSERT_SLOW(vli_frame_type(vli_frame_of(pfns[i])) == VLI_FRAME_STOCK);
        VLI_EVENT(VL_EVENT_FRAME_FREE, pfns[i].n, 0);
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

            vli_history_free(pfn, 0, VLI_RETURN_ADDRESS);
            VLI_EVENT(VL_EVENT_FRAME_FREE, pfn.n, 0);
            reset(frames[i], 0);
            pfns[i] = pfn.n;
        }
        put_many(pfns, n);
        frames += n;
        count -= n;
    }
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
