/*
 * Goal: vl_selftest() names the hook that is wrong, whichever it is, and none when all are right;
 * before vl_init() and after it.
 * Method: this program is an embedder of its own, linked with libvellum.a and without the simulated
 * machine. Each fault is switched on in turn.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vellum/vellum.h>

#define RAM_BYTES  ((size_t)8 << 20)
#define RAM_START  0x100000u
#define HOST_CPUS  3u
#define TEXT_BYTES 256

enum fault {
    NO_FAULT,
    RANGES_NONE,
    RANGES_UNALIGNED,
    RANGES_EMPTY,
    RANGES_DESCENDING,
    RANGES_OVERLAPPING,
    RANGES_ZONE,
    RANGES_TOO_HIGH,
    VIRT_NULL,
    VIRT_UNALIGNED,
    VIRT_NOT_LINEAR,
    VIRT_SAME_PLACE,
    BOOTSTRAP_NULL,
    BOOTSTRAP_UNALIGNED,
    BOOTSTRAP_SMALL,
    BOOTSTRAP_IN_RANGE,
    CPU_COUNT_0,
    CPU_COUNT_MANY,
    CPU_ID,
    CPU_NODE,
    ZONE_NODE,
    NODE_DISTANCE,
    AREA_NULL,
    AREA_UNALIGNED,
    AREA_OVERLAPPING,
    CALL_NONE,
    CALL_TWICE,
    CALL_OTHER_CPU,
    CLOCK_BACK,
    THREAD_NULL,
    THREAD_CHANGES,
    WAIT_FAILS,
    FAULTS
};

static enum fault fault;
static _Alignas(4096) unsigned char ram[RAM_BYTES];
static _Alignas(4096) unsigned char bootstrap[65536];
static _Alignas(4096) unsigned char areas[HOST_CPUS][VL_PERCPU_BYTES];
static struct vl_thread threads[2];
static char last_line[TEXT_BYTES];

void vl_host_panic(const char *message)
{
    fprintf(stderr, "panic: %s\n", message);
    abort();
}

void vl_host_log(enum vl_log_level level, const char *line)
{
    if (level == VL_LOG_ERROR) {
        snprintf(last_line, sizeof(last_line), "%s", line);
    }
    fprintf(stderr, "# %s\n", line);
}

void *vl_host_phys_to_virt(struct vl_pa pa)
{
    uintptr_t at = (uintptr_t)ram + (pa.a - RAM_START);

    switch (fault) {
    case VIRT_NULL:
        return NULL;
    case VIRT_UNALIGNED:
        return (void *)(at + 8);
    case VIRT_NOT_LINEAR:
        return (void *)(pa.a >= RAM_START + 0x200000u ? at + VL_PAGE_SIZE : at);
    case VIRT_SAME_PLACE:
        return ram + (pa.a - RAM_START) % (RAM_BYTES / 2);
    default:
        return (void *)at;
    }
}

size_t vl_host_memory_ranges(struct vl_range *out, size_t max)
{
    uint64_t middle = RAM_START + RAM_BYTES / 2;

    assert_true(max >= 2);
    out[0] = (struct vl_range){.start = {RAM_START}, .end = {middle}};
    out[1] = (struct vl_range){.start = {middle}, .end = {RAM_START + RAM_BYTES}, .zone = 1};
    switch (fault) {
    case RANGES_NONE:
        return 0;
    case RANGES_UNALIGNED:
        out[1].start.a += 8;
        break;
    case RANGES_EMPTY:
        out[0].end = out[0].start;
        break;
    case RANGES_DESCENDING: {
        struct vl_range first = out[0];

        out[0] = out[1];
        out[1] = first;
        break;
    }
    case RANGES_OVERLAPPING:
        out[1].start.a -= VL_PAGE_SIZE;
        break;
    case RANGES_ZONE:
        out[1].zone = VL_ZONES_MAX;
        break;
    case RANGES_TOO_HIGH:
        out[1].end.a = (uint64_t)1 << 45;
        break;
    default:
        break;
    }
    return 2;
}

void *vl_host_bootstrap(size_t *out_bytes)
{
    *out_bytes = fault == BOOTSTRAP_SMALL ? 4095 : sizeof(bootstrap) - VL_PAGE_SIZE;
    switch (fault) {
    case BOOTSTRAP_NULL:
        return NULL;
    case BOOTSTRAP_UNALIGNED:
        return bootstrap + 64;
    case BOOTSTRAP_IN_RANGE:
        return ram + RAM_BYTES / 2 + VL_PAGE_SIZE;
    default:
        return bootstrap;
    }
}

unsigned vl_host_cpu_count(void)
{
    return fault == CPU_COUNT_0 ? 0 : fault == CPU_COUNT_MANY ? VL_CPUS_MAX + 1 : HOST_CPUS;
}

unsigned vl_host_cpu_id(void)
{
    return fault == CPU_ID ? HOST_CPUS : 0;
}

unsigned vl_host_cpu_node(unsigned cpu)
{
    return fault == CPU_NODE && cpu == 2 ? VL_NODES_MAX : cpu % 2;
}

unsigned vl_host_zone_node(unsigned zone)
{
    return fault == ZONE_NODE && zone == 1 ? VL_NODES_MAX : zone;
}

unsigned vl_host_node_distance(unsigned from, unsigned to)
{
    return from == to ? 10 : fault == NODE_DISTANCE && from == 3 ? 9 : 20;
}

void *vl_host_percpu_area(unsigned cpu)
{
    switch (fault) {
    case AREA_NULL:
        return cpu == 2 ? NULL : areas[cpu];
    case AREA_UNALIGNED:
        return areas[cpu] + (cpu == 1 ? 8 : 0);
    case AREA_OVERLAPPING:
        return cpu == 2 ? areas[1] + VL_PERCPU_BYTES / 2 : areas[cpu];
    default:
        return areas[cpu];
    }
}

void vl_host_cpu_call(const struct vl_cpumask *mask, void (*fn)(void *arg, unsigned cpu), void *arg)
{
    for (unsigned cpu = 0; cpu < HOST_CPUS; cpu++) {
        if ((mask->word[0] >> cpu & 1u) == 0 || fault == CALL_NONE) {
            continue;
        }
        fn(arg, fault == CALL_OTHER_CPU ? cpu + 1 : cpu);
        if (fault == CALL_TWICE) {
            fn(arg, cpu);
        }
    }
}

uint64_t vl_host_clock_ns(void)
{
    static uint64_t now = 1000000;

    return fault == CLOCK_BACK && now % 100 == 99 ? now++ - 50 : now++;
}

struct vl_thread *vl_host_thread(void)
{
    static unsigned calls;

    return fault == THREAD_NULL ? NULL : &threads[fault == THREAD_CHANGES ? calls++ % 2 : 0];
}

enum vl_status vl_host_wait(const _Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ns)
{
    assert_true(timeout_ns <= 1000000000u);
    if (fault == WAIT_FAILS) {
        return VL_EINVAL;
    }
    return *word == expected ? VL_ETIMEDOUT : VL_OK;
}

/* The hook that each fault is in. */
static const char *const hooks[FAULTS] = {
    [RANGES_NONE] = "vl_host_memory_ranges",
    [RANGES_UNALIGNED] = "vl_host_memory_ranges",
    [RANGES_EMPTY] = "vl_host_memory_ranges",
    [RANGES_DESCENDING] = "vl_host_memory_ranges",
    [RANGES_OVERLAPPING] = "vl_host_memory_ranges",
    [RANGES_ZONE] = "vl_host_memory_ranges",
    [RANGES_TOO_HIGH] = "vl_host_memory_ranges",
    [VIRT_NULL] = "vl_host_phys_to_virt",
    [VIRT_UNALIGNED] = "vl_host_phys_to_virt",
    [VIRT_NOT_LINEAR] = "vl_host_phys_to_virt",
    [VIRT_SAME_PLACE] = "vl_host_phys_to_virt",
    [BOOTSTRAP_NULL] = "vl_host_bootstrap",
    [BOOTSTRAP_UNALIGNED] = "vl_host_bootstrap",
    [BOOTSTRAP_SMALL] = "vl_host_bootstrap",
    [BOOTSTRAP_IN_RANGE] = "vl_host_bootstrap",
    [CPU_COUNT_0] = "vl_host_cpu_count",
    [CPU_COUNT_MANY] = "vl_host_cpu_count",
    [CPU_ID] = "vl_host_cpu_id",
    [CPU_NODE] = "vl_host_cpu_node",
    [ZONE_NODE] = "vl_host_zone_node",
    [NODE_DISTANCE] = "vl_host_node_distance",
    [AREA_NULL] = "vl_host_percpu_area",
    [AREA_UNALIGNED] = "vl_host_percpu_area",
    [AREA_OVERLAPPING] = "vl_host_percpu_area",
    [CALL_NONE] = "vl_host_cpu_call",
    [CALL_TWICE] = "vl_host_cpu_call",
    [CALL_OTHER_CPU] = "vl_host_cpu_call",
    [CLOCK_BACK] = "vl_host_clock_ns",
    [THREAD_NULL] = "vl_host_thread",
    [THREAD_CHANGES] = "vl_host_thread",
    [WAIT_FAILS] = "vl_host_wait",
};

static void break_each(void)
{
    const char *wrong = "untouched";

    fault = NO_FAULT;
    assert_int_equal(vl_selftest(&wrong), VL_OK);
    assert_null(wrong);
    for (unsigned i = NO_FAULT + 1; i < FAULTS; i++) {
        fault = (enum fault)i;
        wrong = NULL;
        last_line[0] = '\0';
        assert_int_equal(vl_selftest(&wrong), VL_EINVAL);
        assert_non_null(wrong);
        assert_string_equal(wrong, hooks[i]);
        assert_non_null(strstr(last_line, hooks[i])); /* and the log says so */
    }
    fault = NO_FAULT;
    assert_int_equal(vl_selftest(&wrong), VL_OK);
}

static void before_and_after_init(void **state)
{
    (void)state;
    break_each();
    assert_int_equal(vl_init(), VL_OK);
    break_each();
}

static void init_refuses_a_wrong_count(void **state)
{
    (void)state;
    fault = CPU_COUNT_0;
    assert_int_equal(vl_init(), VL_EINVAL);
    fault = CPU_COUNT_MANY;
    assert_int_equal(vl_init(), VL_EINVAL);
    fault = NO_FAULT;
}

static void the_core_works_on_these_hooks(void **state)
{
    struct vl_frame_counts before;
    struct vl_frame_counts after;
    void *objects[100];

    (void)state;
    vl_drain_all();
    vl_frame_counts(&before);
    for (unsigned i = 0; i < 100; i++) {
        objects[i] = vl_kmalloc(i * 50, VL_WAIT);
        assert_non_null(objects[i]);
    }
    for (unsigned i = 0; i < 100; i++) {
        vl_kfree(objects[i]);
    }
    vl_drain_all();
    vl_frame_counts(&after);
    assert_int_equal(after.free_zones + after.free_stock, before.free_zones + before.free_stock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init_refuses_a_wrong_count),
        cmocka_unit_test(before_and_after_init),
        cmocka_unit_test(the_core_works_on_these_hooks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
