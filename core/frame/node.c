/*
 * node.c - memory nodes: of which each zone and each CPU is, and in which order a CPU's requests go
 * through the zones.
 *
 * The order is a list of all zones for each node, made once. A node's own come first, from the
 * highest down; then those of the nearest other node, and so on. A node may have CPUs and no
 * memory, or memory and no CPUs, or memory that comes later (online.c): a zone that has nothing to
 * spare is passed over by a look at its count.
 *
 * What is kept at hand for a CPU, its stock, is of one node, the first in its list that has memory,
 * its home. For two reasons: who gets a frame from a stock shall get a near one; and what others
 * give back of a node's memory must reach that node's zones, or it would go round among CPUs to
 * which it is far. On a machine of one node all of this is one list and one window (stock.c).
 */
#include "core/frame/zone.h"

struct vli_node vli_nodes[VL_NODES_MAX];

/* Node of each zone and CPU from the host; false when it names one that cannot be. */
static bool read_nodes(void)
{
    unsigned cpus = vl_host_cpu_count();

    for (unsigned zone = 0; zone < vli_zone_count; zone++) {
        vli_zones[zone].node = vl_host_zone_node(zone);
        if (vli_zones[zone].node >= VL_NODES_MAX) {
            vli_log(VL_LOG_ERROR, "frame: zone %u is said to be of node %u, 0 … %u expected", zone,
                    (unsigned)vli_zones[zone].node, VL_NODES_MAX - 1u);
            return false;
        }
    }
    for (unsigned cpu = 0; cpu < cpus; cpu++) {
        unsigned node = vl_host_cpu_node(cpu);

        if (node >= VL_NODES_MAX) {
            vli_log(VL_LOG_ERROR, "frame: CPU %u is said to be of node %u, 0 … %u expected", cpu,
                    node, VL_NODES_MAX - 1u);
            return false;
        }
        vli_percpu_of(cpu)->frame.node = node;
    }
    return true;
}

/* For each zone the next higher one of its node. */
static void link_zones(void)
{
    for (unsigned zone = 0; zone < vli_zone_count; zone++) {
        unsigned above = zone + 1;

        while (above < vli_zone_count && vli_zones[above].node != vli_zones[zone].node) {
            above++;
        }
        vli_zones[zone].above = above < vli_zone_count ? above : VL_ZONES_MAX;
    }
}

/* What orders the zones for a node, the least first: distance, which node, the highest zone. */
static uint64_t rank_of(unsigned node, unsigned zone)
{
    unsigned of = vli_zones[zone].node;
    /* Its own is the first, whatever the host says. */
    uint64_t distance = of == node ? 0 : 1 + (uint64_t)vl_host_node_distance(node, of);

    return distance << 16 | (of - node) % VL_NODES_MAX << 8 | (VL_ZONES_MAX - zone);
}

static void order_zones(unsigned node)
{
    uint8_t *zones = vli_nodes[node].zones;
    uint64_t ranks[VL_ZONES_MAX];

    for (unsigned zone = 0; zone < vli_zone_count; zone++) {
        uint64_t rank = rank_of(node, zone);
        unsigned at = zone;

        for (; at > 0 && ranks[at - 1] > rank; at--) {
            ranks[at] = ranks[at - 1];
            zones[at] = zones[at - 1];
        }
        ranks[at] = rank;
        zones[at] = (uint8_t)zone;
    }
}

enum vl_status vli_nodes_init(void)
{
    if (!read_nodes()) {
        return VL_EINVAL;
    }
    link_zones();
    for (unsigned node = 0; node < VL_NODES_MAX; node++) {
        order_zones(node);
    }
    return VL_OK;
}

unsigned vli_node_home(unsigned node)
{
    const uint8_t *zones = vli_nodes[node].zones;

    for (unsigned i = 0; i < vli_zone_count; i++) {
        const struct vli_zone *zone = &vli_zones[zones[i]];

        if (atomic_load_explicit(&zone->managed, memory_order_relaxed) != 0) {
            return zone->node;
        }
    }
    return vli_zones[vli_zone_count - 1].node;
}

struct vli_zone *vli_node_top(unsigned node)
{
    unsigned zone = vli_zone_count - 1;

    while (zone > 0 && (vli_zones[zone].node != node || vli_zones[zone].end == 0)) {
        zone--;
    }
    return &vli_zones[zone];
}

/* Frames of a range from @first on that are there from the start. */
static uint32_t weight_of(const struct vl_range *range, uint32_t first)
{
    uint32_t start = vl_pa_to_pfn(range->start).n;
    uint32_t end = vl_pa_to_pfn(range->end).n;

    if (range->kind == VL_RANGE_ABSENT || end <= first) {
        return 0;
    }
    return end - (start > first ? start : first);
}

void vli_node_window(unsigned node, uint32_t first, uint32_t *out_start, uint32_t *out_end)
{
    const struct vl_range *range;
    uint32_t start = first;
    uint64_t weight = 0;
    uint64_t best = 0;

    *out_start = first;
    *out_end = first;
    for (size_t i = 0; (range = vli_range_at(i)) != NULL; i++) {
        uint32_t end = vl_pa_to_pfn(range->start).n;

        if (range->kind == VL_RANGE_SIDE) {
            continue;
        }
        if (vli_zones[range->zone].node == node) {
            weight += weight_of(range, first);
            continue;
        }
        if (weight > best) {
            best = weight;
            *out_start = start;
            *out_end = end;
        }
        weight = 0;
        end = vl_pa_to_pfn(range->end).n;
        start = end > first ? end : first;
    }
    if (weight >= best) {
        *out_start = start;
        *out_end = UINT32_MAX;
    }
}
