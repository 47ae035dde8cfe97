/*
 * Goal: the texts that an administrator reads have Linux's form, byte for byte, and true numbers.
 * Method: lines are compared with what Linux prints for the same numbers, written out here; numbers
 * with what the core says by other ways; every text is asked for with every size of buffer.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/frame/frame.h"
#include "core/report/text.h"
#include "core/slab/slab.h"
#include "machine/sim/sim.h"

#define MIB       (1ull << 20)
#define TEXT_SIZE 65536u

static char text[TEXT_SIZE];

static void start(void)
{
    struct sim_config config = {.ram_bytes = 64 * MIB, .cpus = 2, .seed = 1, .quiet = true};

    sim_start(&config);
}

/* The number behind @name in a text of "name number" lines. */
static uint64_t value_of(const char *name)
{
    const char *at = text;
    size_t length = strlen(name);

    while (strncmp(at, name, length) != 0) {
        at = strchr(at, '\n');
        assert_non_null(at);
        at++;
    }
    return strtoull(at + length, NULL, 10);
}

static bool has_line(const char *line)
{
    const char *at = strstr(text, line);

    return at != NULL && (at == text || at[-1] == '\n') && at[strlen(line)] == '\n';
}

/* Each size of buffer gives the same text, cut; and the same length. */
static void check_cuts(size_t (*report)(char *out, size_t size))
{
    static char cut[TEXT_SIZE];
    size_t length = report(NULL, 0);
    size_t sizes[] = {1, 2, 17, length / 2, length, length + 1};

    assert_true(length < TEXT_SIZE);
    for (unsigned i = 0; i < VLI_COUNT_OF(sizes); i++) {
        size_t kept = sizes[i] - 1 < length ? sizes[i] - 1 : length;

        memset(cut, '#', sizeof(cut));
        assert_int_equal(report(cut, sizes[i]), length);
        assert_int_equal(strlen(cut), kept);
        assert_int_equal(cut[sizes[i]], '#');
    }
}

static void meminfo(void **state)
{
    struct vl_frame_counts counts;
    char line[64];
    void *large;
    uint64_t slab;
    const char *at;

    (void)state;
    start();
    check_cuts(vl_report_meminfo);
    vl_report_meminfo(text, sizeof(text));
    vl_frame_counts(&counts);
    snprintf(line, sizeof(line), "MemTotal:       %8llu kB",
             (unsigned long long)counts.managed * 4);
    assert_true(strncmp(text, line, strlen(line)) == 0);
    snprintf(line, sizeof(line), "MemFree:        %8llu kB",
             (unsigned long long)(counts.free_zones + counts.free_stock) * 4);
    assert_true(has_line(line));
    assert_true(has_line("SwapTotal:             0 kB"));
    assert_true(has_line("Active(anon):          0 kB"));
    assert_true(has_line("Percpu:               32 kB"));
    assert_true(value_of("MemAvailable:") <= value_of("MemFree:"));
    assert_true(value_of("MemAvailable:") > value_of("MemFree:") / 2);
    for (at = text; *at != '\0'; at = strchr(at, '\n') + 1) {
        assert_int_equal(strchr(at, '\n') - at, 27); /* 16 of name, 8 of number, " kB" */
    }
    slab = value_of("Slab:");
    large = vl_kmalloc(100000, VL_WAIT);
    assert_non_null(large);
    vl_report_meminfo(text, sizeof(text));
    assert_int_equal(value_of("Slab:"), slab + 100);
    assert_int_equal(value_of("SUnreclaim:"), value_of("Slab:"));
    vl_kfree(large);
    vl_report_meminfo(text, sizeof(text));
    assert_int_equal(value_of("Slab:"), slab);
    sim_stop();
}

static void pages_are_counted(void **state)
{
    struct vl_map_request request = {.len = 40 * VL_PAGE_SIZE, .prot = VL_READ | VL_WRITE};
    struct vl_space *space;
    struct vl_object *file;
    struct vl_pfn pfn;
    vl_va va;
    vl_va shared;

    (void)state;
    start();
    assert_int_equal(vl_space_create(&space), VL_OK);
    assert_int_equal(vl_space_map(space, &request, &va), VL_OK);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(vl_space_fault(space, va + i * VL_PAGE_SIZE, VL_WRITE), VL_OK);
    }
    request.kind = VL_MAP_SHARED;
    assert_int_equal(vl_space_map(space, &request, &shared), VL_OK);
    assert_int_equal(vl_space_fault(space, shared, VL_WRITE), VL_OK);
    assert_int_equal(vl_object_create(NULL, NULL, &file), VL_OK);
    for (unsigned i = 0; i < 7; i++) {
        assert_int_equal(vl_object_page_get(file, i * 100, VL_PAGE_CREATE, &pfn), VL_OK);
        vl_object_page_put(pfn);
    }
    vl_report_meminfo(text, sizeof(text));
    assert_int_equal(value_of("AnonPages:"), 40);
    assert_true(value_of("Shmem:") >= 4);
    assert_int_equal(value_of("Cached:"), 28 + value_of("Shmem:"));
    assert_true(value_of("Mapped:") >= 4);
    assert_true(value_of("PageTables:") >= 4 * 4);
    vl_report_vmstat(text, sizeof(text));
    assert_int_equal(value_of("nr_anon_pages "), 10);
    assert_int_equal(value_of("pgfault "), 11);
    vl_object_put(file);
    vl_space_put(space);
    vl_drain_all();
    vl_report_meminfo(text, sizeof(text));
    assert_int_equal(value_of("AnonPages:"), 0);
    assert_int_equal(value_of("Cached:"), 0);
    assert_int_equal(value_of("Shmem:"), 0);
    assert_int_equal(value_of("Mapped:"), 0);
    sim_stop();
}

static void buddyinfo(void **state)
{
    struct vli_zone_info zone;
    char line[256];
    int length;

    (void)state;
    start();
    check_cuts(vl_report_buddyinfo);
    vl_report_buddyinfo(text, sizeof(text));
    assert_true(vli_zone_info(0, &zone));
    length = snprintf(line, sizeof(line), "Node 0, zone %8s ", zone.name);
    for (unsigned order = 0; order < VL_ORDER_COUNT; order++) {
        length += snprintf(line + length, sizeof(line) - (size_t)length, "%6lu ",
                           (unsigned long)zone.blocks[order]);
    }
    snprintf(line + length, sizeof(line) - (size_t)length, "\n");
    assert_string_equal(text, line);
    sim_stop();
}

static void slabinfo(void **state)
{
    struct vl_cache_spec spec = {.name = "widgets", .size = 120};
    struct vl_cache *cache;
    struct vli_slab_info info;
    char line[256];
    void *object;

    (void)state;
    start();
    assert_int_equal(vl_cache_create(&spec, &cache), VL_OK);
    object = vl_cache_alloc(cache, VL_WAIT);
    assert_non_null(object);
    check_cuts(vl_report_slabinfo);
    vl_report_slabinfo(text, sizeof(text));
    assert_true(strncmp(text,
                        "slabinfo - version: 2.1\n"
                        "# name            <active_objs> <num_objs> <objsize> <objperslab> "
                        "<pagesperslab> : tunables <limit> <batchcount> <sharedfactor> : slabdata "
                        "<active_slabs> <num_slabs> <sharedavail>\n",
                        200) == 0);
    assert_true(vli_slab_info(cache->index, &info));
    assert_int_equal(info.slabs, 1);
    snprintf(line, sizeof(line),
             "widgets           %6lu %6lu %6u %4u %4u : tunables    0    0    0 : slabdata      1 "
             "     1      0",
             (unsigned long)info.units_active, (unsigned long)info.units, info.unit_bytes,
             info.units_per_slab, info.frames_per_slab);
    assert_true(has_line(line));
    assert_non_null(strstr(text, "\nkmalloc-1k "));
    vl_cache_free(cache, object);
    assert_int_equal(vl_cache_destroy(cache), VL_OK);
    vl_report_slabinfo(text, sizeof(text));
    assert_null(strstr(text, "widgets"));
    sim_stop();
}

static void vmstat(void **state)
{
    struct vl_pfn pfns[50];
    struct vl_frame_counts counts;
    uint64_t alloc;
    uint64_t freed;

    (void)state;
    start();
    check_cuts(vl_report_vmstat);
    vl_report_vmstat(text, sizeof(text));
    alloc = value_of("pgalloc_normal ");
    freed = value_of("pgfree ");
    assert_int_equal(vl_frame_alloc_bulk(50, VL_ATOMIC, pfns), 50);
    vl_frame_free_bulk(pfns, 50);
    for (unsigned order = 0; order <= VL_ORDER_MAX; order++) {
        assert_int_equal(vl_frame_alloc(order, VL_ATOMIC, &pfns[0]), VL_OK);
        vl_frame_free(pfns[0], order);
    }
    vl_report_vmstat(text, sizeof(text));
    assert_int_equal(value_of("pgalloc_normal "), alloc + 50 + 2047);
    assert_int_equal(value_of("pgfree "), freed + 50 + 2047);
    vl_frame_counts(&counts);
    assert_int_equal(value_of("nr_free_pages "), counts.free_zones + counts.free_stock);
    sim_stop();
}

static void zoneinfo(void **state)
{
    struct vli_zone_info zone;
    char line[128];

    (void)state;
    start();
    check_cuts(vl_report_zoneinfo);
    vl_report_zoneinfo(text, sizeof(text));
    assert_true(vli_zone_info(0, &zone));
    snprintf(line, sizeof(line), "Node 0, zone %8s\n  pages free     %lu\n", zone.name,
             (unsigned long)zone.free);
    assert_true(strncmp(text, line, strlen(line)) == 0);
    snprintf(line, sizeof(line), "        min      %lu", (unsigned long)zone.watermark_min);
    assert_true(has_line(line));
    assert_true(has_line("  pagesets"));
    assert_true(has_line("    cpu: 1"));
    assert_true(has_line("  start_pfn:           1024"));
    sim_stop();
}

/* ---- of one space ---- */

static void describe(void *owner, char *path, size_t size, uint32_t *out_dev, uint64_t *out_inode)
{
    snprintf(path, size, "%s", (const char *)owner);
    *out_dev = 0xfd02;
    *out_inode = 173521;
}

static const struct vl_object_ops ops = {.describe = describe};

static vl_va map_at(struct vl_space *space, vl_va at, struct vl_map_request request)
{
    vl_va va;

    request.place = VL_MAP_FIXED;
    request.hint = at;
    assert_int_equal(vl_space_map(space, &request, &va), VL_OK);
    return va;
}

/* The example of proc(5), with a heap, a stack and shared memory. */
static struct vl_space *example(void)
{
    struct vl_space *space;
    struct vl_object *file;

    assert_int_equal(vl_object_create(&ops, (void *)"/usr/bin/dbus-daemon", &file), VL_OK);
    assert_int_equal(vl_object_extend(file, 0x100000), VL_OK);
    assert_int_equal(vl_space_create(&space), VL_OK);
    map_at(space, 0x400000,
           (struct vl_map_request){.object = file, .len = 0x52000, .prot = VL_READ | VL_EXEC});
    map_at(
        space, 0x651000,
        (struct vl_map_request){.object = file, .offset = 0x51000, .len = 0x1000, .prot = VL_READ});
    vl_object_put(file);
    vl_space_set_brk(space, 0xe03000);
    assert_int_equal(vl_space_brk(space, 0xe24000), 0xe24000);
    map_at(
        space, 0x35b1800000,
        (struct vl_map_request){.len = 0x3000, .prot = VL_READ | VL_WRITE, .kind = VL_MAP_SHARED});
    map_at(space, 0x7fff12345000, (struct vl_map_request){.len = 0x2000});
    map_at(space, 0x7fffb2c0d000,
           (struct vl_map_request){.len = 0x21000, .prot = VL_READ | VL_WRITE, .grows_down = true});
    return space;
}

static struct vl_space *reported;

static size_t maps_of(char *out, size_t size)
{
    return vl_report_maps(reported, out, size);
}

static size_t smaps_of(char *out, size_t size)
{
    return vl_report_smaps(reported, out, size);
}

static void maps(void **state)
{
    (void)state;
    start();
    reported = example();
    check_cuts(maps_of);
    maps_of(text, sizeof(text));
    assert_string_equal(
        text, "00400000-00452000 r-xp 00000000 fd:02 173521                             "
              "/usr/bin/dbus-daemon\n"
              "00651000-00652000 r--p 00051000 fd:02 173521                             "
              "/usr/bin/dbus-daemon\n"
              "00e03000-00e24000 rw-p 00000000 00:00 0                                  [heap]\n"
              "35b1800000-35b1803000 rw-s 00000000 00:01 0                              "
              "/dev/zero (deleted)\n"
              "7fff12345000-7fff12347000 ---p 00000000 00:00 0 \n"
              "7fffb2c0d000-7fffb2c2e000 rw-p 00000000 00:00 0                          [stack]\n");
    vl_space_put(reported);
    sim_stop();
}

static void smaps(void **state)
{
    const char *stack;
    struct vl_space *child;

    (void)state;
    start();
    reported = example();
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(vl_space_fault(reported, 0x7fffb2c10000 + i * VL_PAGE_SIZE, VL_WRITE),
                         VL_OK);
    }
    assert_int_equal(vl_space_fault(reported, 0xe03000, VL_READ), VL_OK); /* the zero page */
    check_cuts(smaps_of);
    smaps_of(text, sizeof(text));
    stack = strstr(text, "[stack]\n");
    assert_non_null(stack);
    assert_non_null(strstr(stack, "\nSize:                132 kB\n"
                                  "KernelPageSize:        4 kB\n"
                                  "MMUPageSize:           4 kB\n"
                                  "Rss:                  20 kB\n"
                                  "Pss:                  20 kB\n"));
    assert_non_null(strstr(stack, "\nAnonymous:            20 kB\n"));
    assert_non_null(strstr(stack, "\nPrivate_Hugetlb:       0 kB\n"
                                  "Swap:                  0 kB\n"
                                  "SwapPss:               0 kB\n"
                                  "Locked:                0 kB\n"
                                  "THPeligible:           0\n"
                                  "VmFlags: rd wr mr mw me gd \n"));
    assert_int_equal(
        strncmp(strstr(strstr(text, "[heap]"), "Rss:"), "Rss:                   0 kB", 27), 0);
    assert_int_equal(vl_space_fork(reported, &child), VL_OK);
    smaps_of(text, sizeof(text));
    stack = strstr(text, "[stack]\n");
    assert_non_null(strstr(stack, "\nRss:                  20 kB\nPss:                  10 kB\n"));
    assert_non_null(strstr(stack, "\nPrivate_Dirty:         0 kB\n"));
    vl_space_put(child);
    vl_space_put(reported);
    sim_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(meminfo),   cmocka_unit_test(pages_are_counted),
        cmocka_unit_test(buddyinfo), cmocka_unit_test(slabinfo),
        cmocka_unit_test(vmstat),    cmocka_unit_test(zoneinfo),
        cmocka_unit_test(maps),      cmocka_unit_test(smaps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
