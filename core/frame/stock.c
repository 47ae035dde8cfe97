/*
 * stock.c - filling and emptying what each CPU keeps at hand, and how all CPUs' stocks are drained.
 *
 * A stock holds up to limit frames (order 0) or blocks (order 9). An empty one is filled with half
 * of that, a full one gives back the half that lay longest, which are the coldest. Limits follow
 * from the size of memory, so that all stocks together keep little of a small machine; order 9 has
 * none at all where a single block would be too much. On a machine of several nodes a stock is
 * filled from its home's zones (node.c) and keeps its home's frames only; a request that finds
 * nothing there gets single frames of other nodes, and they go back to their zones by themselves.
 *
 * A stock is changed by its own CPU alone, with interrupts off: two plain loads and two plain
 * stores. An atomic instruction or a fence there, which draining from elsewhere would need, costs
 * more than all the rest. So draining goes to the CPU: vl_host_cpu_call() has each empty its own.
 */
#include "core/frame/zone.h"

/* A stock keeps at most 1/SHARE of all memory on all CPUs together. */
#define SHARE 16u

/* What holds for the stocks of a node's CPUs, where stocks are on; it follows from how much memory
 * their home has. */
struct limits {
    _Atomic uint32_t limit0;
    _Atomic uint32_t limit9;
    _Atomic uint32_t kept_start;
    _Atomic uint32_t kept_end;
    _Atomic uint32_t home;
};
static struct limits limits_of[VL_NODES_MAX];
static _Atomic bool is_on;

static uint32_t read(const _Atomic uint32_t *limit)
{
    return atomic_load_explicit(limit, memory_order_relaxed);
}

static void set_limits(struct vli_frame_percpu *stock)
{
    bool on = atomic_load_explicit(&is_on, memory_order_relaxed);
    const struct limits *limits = &limits_of[stock->node];
    uint32_t start = read(&limits->kept_start);
    uint32_t end = read(&limits->kept_end);

    stock->limit0 = on ? read(&limits->limit0) : 0;
    stock->limit9 = on ? read(&limits->limit9) : 0;
    stock->kept_start = start;
    stock->kept_count = end > start ? end - start : 0;
    stock->first = end == UINT32_MAX ? start : UINT32_MAX;
    stock->home = read(&limits->home);
    stock->zone = vli_node_top(stock->home);
}

/* Zones that are small beside the rest of their node do not get their frames into stocks, where a
 * request that could do with any zone would take them. */
static uint32_t first_frame_kept(unsigned node, uint64_t managed)
{
    uint32_t first = UINT32_MAX;

    for (unsigned i = 0; i < vli_zone_count; i++) {
        uint64_t own = atomic_load_explicit(&vli_zones[i].managed, memory_order_relaxed);

        if (vli_zones[i].node == node && own >= managed / 8 && vli_zones[i].start < first) {
            first = vli_zones[i].start;
        }
    }
    return first;
}

/* Sets one of the limits; returns whether it changed. */
static bool set_limit(_Atomic uint32_t *limit, uint64_t now)
{
    return atomic_exchange_explicit(limit, (uint32_t)now, memory_order_relaxed) != now;
}

/* What find_limits() changed. */
#define CHANGED_LIMITS 1u
#define CHANGED_HOME   2u

/* Sets the limits for a node's CPUs where stocks are on. @cpus: how many share its home. */
static unsigned find_limits(unsigned node, unsigned home, unsigned cpus)
{
    struct limits *limits = &limits_of[node];
    uint64_t managed = 0;
    uint64_t share;
    uint32_t start;
    uint32_t end;
    bool changed;

    for (unsigned i = 0; i < vli_zone_count; i++) {
        if (vli_zones[i].node == home) {
            managed += atomic_load_explicit(&vli_zones[i].managed, memory_order_relaxed);
        }
    }
    share = managed / SHARE / cpus;
    vli_node_window(home, first_frame_kept(home, managed), &start, &end);
    changed = set_limit(&limits->limit0,
                        share / 4 < VLI_STOCK_ORDER0 ? share / 4 & ~1ull : VLI_STOCK_ORDER0);
    share >>= VLI_STOCK_ORDER_LARGE;
    changed |=
        set_limit(&limits->limit9, share < VLI_STOCK_ORDER9 ? share & ~1ull : VLI_STOCK_ORDER9);
    changed |= set_limit(&limits->kept_start, start);
    changed |= set_limit(&limits->kept_end, end);
    return (changed ? CHANGED_LIMITS : 0u) | (set_limit(&limits->home, home) ? CHANGED_HOME : 0u);
}

/* The same for all nodes that have CPUs. */
static unsigned find_all_limits(void)
{
    unsigned total = vl_host_cpu_count();
    unsigned cpus[VL_NODES_MAX] = {0}; /* of each node */
    unsigned at_home[VL_NODES_MAX] = {0};
    unsigned changed = 0;

    for (unsigned cpu = 0; cpu < total; cpu++) {
        cpus[vli_percpu_of(cpu)->frame.node]++;
    }
    for (unsigned node = 0; node < VL_NODES_MAX; node++) {
        at_home[vli_node_home(node)] += cpus[node];
    }
    for (unsigned node = 0; node < VL_NODES_MAX; node++) {
        if (cpus[node] != 0) {
            unsigned home = vli_node_home(node);

            changed |= find_limits(node, home, at_home[home]);
        }
    }
    return changed;
}

void vli_stock_init(void)
{
    (void)find_all_limits();
    atomic_store_explicit(&is_on, true, memory_order_relaxed);
    for (unsigned cpu = 0; cpu < vl_host_cpu_count(); cpu++) {
        struct vli_frame_percpu *stock = &vli_percpu_of(cpu)->frame;

        atomic_store_explicit(&stock->count0, 0, memory_order_relaxed);
        atomic_store_explicit(&stock->count9, 0, memory_order_relaxed);
        set_limits(stock);
    }
}

/* Numbers ascend as the buddy allocator gives them, and a stack hands out its end first: turned
 * round, neighbours are handed out upwards, as the CPU prefetches. Natively a touched page takes
 * 79 ns instead of 110 by this (bench/sim/touch.c). */
static void reverse(uint32_t *array, uint32_t count)
{
    for (uint32_t low = 0, high = count - 1; low < high; low++, high--) {
        uint32_t swapped = array[low];

        array[low] = array[high];
        array[high] = swapped;
    }
}

uint32_t vli_stock_refill(struct vli_frame_percpu *stock, unsigned order)
{
    struct vli_request request = {.order = order,
                                  .zone = vli_zone_count - 1,
                                  .depth = VLI_DEPTH_LOW,
                                  .node = stock->home,
                                  .stays = true};
    bool is_large = order != 0;
    uint32_t *array = is_large ? stock->order9 : stock->order0;
    _Atomic uint32_t *count = is_large ? &stock->count9 : &stock->count0;
    uint32_t had =
        (uint32_t)vli_zones_take(&request, (is_large ? stock->limit9 : stock->limit0) / 2, array);

    if (had == 0) {
        return VLI_FRAME_LINK_NONE;
    }
    if (!is_large) {
        reverse(array, had);
    }
    atomic_store_explicit(count, had - 1, memory_order_relaxed);
    return array[had - 1];
}

void vli_stock_put_full(struct vli_frame_percpu *stock, uint32_t pfn, unsigned order)
{
    bool is_large = order != 0;
    uint32_t *array = is_large ? stock->order9 : stock->order0;
    _Atomic uint32_t *count = is_large ? &stock->count9 : &stock->count0;
    uint32_t have = atomic_load_explicit(count, memory_order_relaxed);
    uint32_t old = (is_large ? stock->limit9 : stock->limit0) / 2;

    vli_zones_give(array, old, order);
    have -= old;
    memmove(array, array + old, have * sizeof(array[0]));
    array[have] = pfn;
    atomic_store_explicit(count, have + 1, memory_order_relaxed);
}

/* Empties a stock; its CPU has interrupts off or does not run. */
static void drain(struct vli_frame_percpu *stock)
{
    uint32_t count0 = atomic_load_explicit(&stock->count0, memory_order_relaxed);
    uint32_t count9 = atomic_load_explicit(&stock->count9, memory_order_relaxed);

    if (count0 > 0) {
        vli_zones_give(stock->order0, count0, 0);
        atomic_store_explicit(&stock->count0, 0, memory_order_relaxed);
    }
    if (count9 > 0) {
        vli_zones_give(stock->order9, count9, VLI_STOCK_ORDER_LARGE);
        atomic_store_explicit(&stock->count9, 0, memory_order_relaxed);
    }
}

void vli_stock_drain_local(void)
{
    unsigned long irq = vl_host_irq_save();

    drain(&vli_this_cpu()->frame);
    vl_host_irq_restore(irq);
}

static void drain_cpu(void *arg, unsigned cpu)
{
    (void)arg;
    drain(&vli_percpu_of(cpu)->frame);
}

static void set_cpu(void *arg, unsigned cpu)
{
    struct vli_frame_percpu *stock = &vli_percpu_of(cpu)->frame;
    uint32_t home = stock->home;

    (void)arg;
    set_limits(stock);
    if (stock->home != home ||
        atomic_load_explicit(&stock->count0, memory_order_relaxed) > stock->limit0 ||
        atomic_load_explicit(&stock->count9, memory_order_relaxed) > stock->limit9) {
        drain(stock);
    }
}

static void call_all(void (*fn)(void *arg, unsigned cpu))
{
    unsigned cpus = vl_host_cpu_count();
    struct vl_cpumask all = {{0}};

    for (unsigned cpu = 0; cpu < cpus; cpu++) {
        all.word[cpu / 64] |= 1ull << (cpu % 64);
    }
    vl_host_cpu_call(&all, fn, NULL);
}

/* Only the CPUs that keep something are interrupted: when memory is short everybody asks for this
 * again and again. A stock that fills meanwhile is one that filled afterwards. */
void vli_frame_drain(void)
{
    unsigned cpus = vl_host_cpu_count();
    struct vl_cpumask keeping = {{0}};
    bool any = false;

    for (unsigned cpu = 0; cpu < cpus; cpu++) {
        const struct vli_frame_percpu *stock = &vli_percpu_of(cpu)->frame;

        if (atomic_load_explicit(&stock->count0, memory_order_relaxed) != 0 ||
            atomic_load_explicit(&stock->count9, memory_order_relaxed) != 0) {
            keeping.word[cpu / 64] |= 1ull << (cpu % 64);
            any = true;
        }
    }
    if (any) {
        vl_host_cpu_call(&keeping, drain_cpu, NULL);
    }
}

void vl_frame_set_stock(bool on)
{
    atomic_store_explicit(&is_on, on, memory_order_relaxed);
    call_all(set_cpu);
}

void vli_stock_resize(void)
{
    unsigned changed = find_all_limits();

    if ((changed & CHANGED_HOME) != 0 ||
        (changed != 0 && atomic_load_explicit(&is_on, memory_order_relaxed))) {
        call_all(set_cpu);
    }
}

void vli_frame_cpu_online(unsigned cpu)
{
    unsigned long irq = vl_host_irq_save();

    set_limits(&vli_percpu_of(cpu)->frame);
    vl_host_irq_restore(irq);
}
