/*
 * selftest.c - does the host keep its contract, as far as that can be seen from inside?
 *
 * Each check is a step that names one hook. Nothing is written to the host's memory, so it may run
 * before and after vl_init(). What cannot be tried without harm is not: panic, log, a remote flush,
 * going to sleep for good.
 */
#include <vellum/vellum.h>
#include "core/base/log.h"
#include "core/base/percpu.h"

#define RANGES_MAX   64u
#define CLOCK_READS  1000u
#define LINEAR_STEPS 64u
#define WAIT_NS      1000000u

static struct vl_range ranges[RANGES_MAX];

static size_t ranges_read(void)
{
    size_t count = vl_host_memory_ranges(ranges, RANGES_MAX);

    return count < RANGES_MAX ? count : RANGES_MAX;
}

static bool check_ranges(void)
{
    uint64_t before = 0;
    size_t count = ranges_read();

    if (count == 0) {
        vli_log(VL_LOG_ERROR, "selftest: vl_host_memory_ranges: there are none");
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t start = ranges[i].start.a;
        uint64_t end = ranges[i].end.a;

        if (((start | end) & VL_PAGE_MASK) != 0 || start >= end ||
            end > (uint64_t)UINT32_MAX << VL_PAGE_SHIFT) {
            vli_log(VL_LOG_ERROR,
                    "selftest: vl_host_memory_ranges: %lu: 0x%lx … 0x%lx is no range of pages",
                    (unsigned long)i, (unsigned long)start, (unsigned long)end);
            return false;
        }
        if (start < before) {
            vli_log(VL_LOG_ERROR,
                    "selftest: vl_host_memory_ranges: %lu: starts at 0x%lx, before the end 0x%lx "
                    "of the one before",
                    (unsigned long)i, (unsigned long)start, (unsigned long)before);
            return false;
        }
        if (ranges[i].zone >= VL_ZONES_MAX) {
            vli_log(VL_LOG_ERROR, "selftest: vl_host_memory_ranges: %lu: zone %u, 0 … %u expected",
                    (unsigned long)i, ranges[i].zone, VL_ZONES_MAX - 1u);
            return false;
        }
        before = end;
    }
    return true;
}

/* Do virtual ranges [a, a + a_bytes) and [b, b + b_bytes) share a byte? */
static bool overlap(uintptr_t a, uintptr_t a_bytes, uintptr_t b, uintptr_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

/* Is range @i mapped linearly, by whole pages? */
static bool is_linear(const struct vl_range *range, uintptr_t *out_start)
{
    uint64_t bytes = range->end.a - range->start.a;
    uint64_t step = (bytes / LINEAR_STEPS & ~(uint64_t)VL_PAGE_MASK) + VL_PAGE_SIZE;
    uintptr_t start = (uintptr_t)vl_host_phys_to_virt(range->start);
    uintptr_t got;

    *out_start = start;
    if (start == 0 || (start & VL_PAGE_MASK) != 0) {
        vli_log(VL_LOG_ERROR, "selftest: vl_host_phys_to_virt: 0x%lx gives 0x%lx, not a page",
                (unsigned long)range->start.a, (unsigned long)start);
        return false;
    }
    for (uint64_t at = step - 1; at < bytes; at += step) {
        got = (uintptr_t)vl_host_phys_to_virt((struct vl_pa){range->start.a + at});
        if (got != start + at) {
            vli_log(VL_LOG_ERROR,
                    "selftest: vl_host_phys_to_virt: 0x%lx gives 0x%lx, 0x%lx expected",
                    (unsigned long)(range->start.a + at), (unsigned long)got,
                    (unsigned long)(start + at));
            return false;
        }
    }
    return true;
}

static bool check_phys_to_virt(void)
{
    uintptr_t starts[RANGES_MAX];
    size_t count = ranges_read();

    for (size_t i = 0; i < count; i++) {
        if (!is_linear(&ranges[i], &starts[i])) {
            return false;
        }
        for (size_t k = 0; k < i; k++) {
            if (overlap(starts[i], ranges[i].end.a - ranges[i].start.a, starts[k],
                        ranges[k].end.a - ranges[k].start.a)) {
                vli_log(VL_LOG_ERROR,
                        "selftest: vl_host_phys_to_virt: ranges %lu and %lu are in one place",
                        (unsigned long)k, (unsigned long)i);
                return false;
            }
        }
    }
    return true;
}

static bool check_bootstrap(void)
{
    size_t count = ranges_read();
    size_t bytes = 0;
    uintptr_t start = (uintptr_t)vl_host_bootstrap(&bytes);

    if (start == 0 || (start & VL_PAGE_MASK) != 0 || bytes < VL_PAGE_SIZE) {
        vli_log(VL_LOG_ERROR,
                "selftest: vl_host_bootstrap: %lu bytes at 0x%lx; 4096 at least expected, aligned "
                "to 4096",
                (unsigned long)bytes, (unsigned long)start);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (ranges[i].kind != VL_RANGE_RESERVED &&
            overlap(start, bytes, (uintptr_t)vl_host_phys_to_virt(ranges[i].start),
                    ranges[i].end.a - ranges[i].start.a)) {
            vli_log(VL_LOG_ERROR,
                    "selftest: vl_host_bootstrap: 0x%lx is inside range %lu, which is not reserved",
                    (unsigned long)start, (unsigned long)i);
            return false;
        }
    }
    return true;
}

static bool check_cpu_count(void)
{
    unsigned count = vl_host_cpu_count();

    if (count == 0 || count > VL_CPUS_MAX) {
        vli_log(VL_LOG_ERROR, "selftest: vl_host_cpu_count: %u, 1 … %u expected", count,
                VL_CPUS_MAX);
        return false;
    }
    return true;
}

static bool check_cpu_id(void)
{
    unsigned id = vl_host_cpu_id();

    if (id >= vl_host_cpu_count()) {
        vli_log(VL_LOG_ERROR, "selftest: vl_host_cpu_id: %u, below %u expected", id,
                vl_host_cpu_count());
        return false;
    }
    return true;
}

static bool check_cpu_node(void)
{
    unsigned count = vl_host_cpu_count();

    for (unsigned cpu = 0; cpu < count; cpu++) {
        if (vl_host_cpu_node(cpu) >= VL_NODES_MAX) {
            vli_log(VL_LOG_ERROR, "selftest: vl_host_cpu_node: CPU %u: %u, below %u expected", cpu,
                    vl_host_cpu_node(cpu), VL_NODES_MAX);
            return false;
        }
    }
    return true;
}

static bool check_zone_node(void)
{
    size_t count = ranges_read();

    for (size_t i = 0; i < count; i++) {
        if (vl_host_zone_node(ranges[i].zone) >= VL_NODES_MAX) {
            vli_log(VL_LOG_ERROR, "selftest: vl_host_zone_node: zone %u: %u, below %u expected",
                    ranges[i].zone, vl_host_zone_node(ranges[i].zone), VL_NODES_MAX);
            return false;
        }
    }
    return true;
}

/* No other node is nearer than the own. */
static bool check_node_distance(void)
{
    for (unsigned from = 0; from < VL_NODES_MAX; from++) {
        for (unsigned to = 0; to < VL_NODES_MAX; to++) {
            if (vl_host_node_distance(from, to) < vl_host_node_distance(from, from)) {
                vli_log(VL_LOG_ERROR,
                        "selftest: vl_host_node_distance: from %u to %u it is %u, to itself %u",
                        from, to, vl_host_node_distance(from, to),
                        vl_host_node_distance(from, from));
                return false;
            }
        }
    }
    return true;
}

static bool check_percpu_area(void)
{
    unsigned count = vl_host_cpu_count();

    for (unsigned i = 0; i < count; i++) {
        uintptr_t area = (uintptr_t)vl_host_percpu_area(i);

        if (area == 0 || area % VLI_CACHELINE != 0) {
            vli_log(VL_LOG_ERROR,
                    "selftest: vl_host_percpu_area: CPU %u: 0x%lx is not aligned to %u", i,
                    (unsigned long)area, VLI_CACHELINE);
            return false;
        }
        for (unsigned k = 0; k < i; k++) {
            if (overlap(area, VL_PERCPU_BYTES, (uintptr_t)vl_host_percpu_area(k),
                        VL_PERCPU_BYTES)) {
                vli_log(VL_LOG_ERROR, "selftest: vl_host_percpu_area: CPUs %u and %u share bytes",
                        k, i);
                return false;
            }
        }
    }
    return true;
}

struct calls {
    unsigned count;
    unsigned cpu;
};

static void count_call(void *arg, unsigned cpu)
{
    struct calls *calls = arg;

    calls->count++;
    calls->cpu = cpu;
}

/* Does %gs (or whatever the build uses) lead to the area that the host names? After vl_init(). */
static bool check_this_cpu(void)
{
    const struct vli_percpu *named;
    const struct vli_percpu *used;

    vl_host_preempt_off();
    named = vli_percpu_of(vl_host_cpu_id());
    used = named->self == NULL ? named : vli_this_cpu();
    vl_host_preempt_on();
    if (named != used) {
        vli_log(VL_LOG_ERROR,
                "selftest: vl_host_percpu_area: 0x%lx, but this CPU's data is at 0x%lx",
                (unsigned long)(uintptr_t)named, (unsigned long)(uintptr_t)used);
        return false;
    }
    return true;
}

/* A call to this CPU alone, which needs no other to be up. */
static bool check_cpu_call(void)
{
    struct vl_cpumask mask = {{0}};
    struct calls calls = {0, 0};
    unsigned cpu;

    vl_host_preempt_off();
    cpu = vl_host_cpu_id();
    vl_host_preempt_on();
    mask.word[cpu / 64] |= (uint64_t)1 << (cpu % 64);
    vl_host_cpu_call(&mask, count_call, &calls);
    if (calls.count != 1 || calls.cpu != cpu) {
        vli_log(
            VL_LOG_ERROR,
            "selftest: vl_host_cpu_call: %u calls, the last for CPU %u; one for CPU %u expected",
            calls.count, calls.cpu, cpu);
        return false;
    }
    return true;
}

static bool check_clock(void)
{
    uint64_t before = vl_host_clock_ns();
    uint64_t now;

    for (unsigned i = 0; i < CLOCK_READS; i++) {
        now = vl_host_clock_ns();
        if (now < before) {
            vli_log(VL_LOG_ERROR, "selftest: vl_host_clock_ns: went back from %lu to %lu",
                    (unsigned long)before, (unsigned long)now);
            return false;
        }
        before = now;
    }
    return true;
}

static bool check_thread(void)
{
    const struct vl_thread *thread = vl_host_thread();

    if (thread == NULL || (uintptr_t)thread % _Alignof(struct vl_thread) != 0 ||
        thread != vl_host_thread()) {
        vli_log(VL_LOG_ERROR, "selftest: vl_host_thread: 0x%lx, then 0x%lx; one thread expected",
                (unsigned long)(uintptr_t)thread, (unsigned long)(uintptr_t)vl_host_thread());
        return false;
    }
    return true;
}

/* A word that is not as expected, and one that is, for a millisecond. */
static bool check_wait(void)
{
    _Atomic uint32_t word = 1;
    enum vl_status other;
    enum vl_status same;

    if (!vl_host_may_sleep()) {
        return true;
    }
    other = vl_host_wait(&word, 0, WAIT_NS);
    same = vl_host_wait(&word, 1, WAIT_NS);
    vl_host_wake(&word, 1);
    if (other != VL_OK || (same != VL_OK && same != VL_ETIMEDOUT)) {
        vli_log(VL_LOG_ERROR,
                "selftest: vl_host_wait: returned %d when the word was another, %d when it was not",
                (int)other, (int)same);
        return false;
    }
    return true;
}

enum vl_status vl_selftest(const char **out_hook)
{
    /* In this order: later checks rely on what earlier ones found right. */
    static const struct {
        bool (*is_right)(void);
        const char *hook;
    } checks[] = {
        {check_ranges, "vl_host_memory_ranges"},    {check_phys_to_virt, "vl_host_phys_to_virt"},
        {check_bootstrap, "vl_host_bootstrap"},     {check_cpu_count, "vl_host_cpu_count"},
        {check_cpu_id, "vl_host_cpu_id"},           {check_cpu_node, "vl_host_cpu_node"},
        {check_zone_node, "vl_host_zone_node"},     {check_node_distance, "vl_host_node_distance"},
        {check_percpu_area, "vl_host_percpu_area"}, {check_this_cpu, "vl_host_percpu_area"},
        {check_cpu_call, "vl_host_cpu_call"},       {check_clock, "vl_host_clock_ns"},
        {check_thread, "vl_host_thread"},           {check_wait, "vl_host_wait"}};

    *out_hook = NULL;
    for (size_t i = 0; i < VLI_COUNT_OF(checks); i++) {
        if (!checks[i].is_right()) {
            *out_hook = checks[i].hook;
            return VL_EINVAL;
        }
    }
    return VL_OK;
}
