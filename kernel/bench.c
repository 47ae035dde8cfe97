/*
 * bench.c - what allocation and release cost in the kernel: in pairs, and many in a row.
 *
 * Meant for QEMU's -icount shift=0, where the clock counts instructions. Each figure is the least
 * of many batches, so that a timer interrupt in one does not count; the loop around the calls is
 * part of it, nothing is subtracted. A figure is printed in hundredths.
 *
 * In a row (experiment 4, test 1): 10,000 kmallocs, then 10,000 kfrees in the same order, in a few
 * rounds. `first` is what an allocation of the first round costs, in which slabs are new.
 */
#include <vellum/vellum.h>
#include "kernel/bench.h"
#include "kernel/boot/boot.h"
#include "kernel/cpu/cpu.h"
#include "kernel/lib/printk.h"

#define BATCHES 30u
#define PAIRS   500u
#define ROUNDS  6u
#define ROW     10000u

static void pair_frame(unsigned order)
{
    struct vl_pfn pfn;

    if (vl_frame_alloc(order, VL_WAIT, &pfn) == VL_OK) {
        vl_frame_free(pfn, order);
    }
}

static void pair_order_0(void)
{
    for (unsigned i = 0; i < PAIRS; i++) {
        pair_frame(0);
    }
}

static void pair_order_9(void)
{
    for (unsigned i = 0; i < PAIRS; i++) {
        pair_frame(9);
    }
}

/* The size is a constant at the call, as it is in most callers. */
#define PAIR_OF_SIZE(bytes)                                                                        \
    static void pair_kmalloc_##bytes(void)                                                         \
    {                                                                                              \
        for (unsigned i = 0; i < PAIRS; i++) {                                                     \
            vl_kfree(vl_kmalloc(bytes, VL_WAIT));                                                  \
        }                                                                                          \
    }

PAIR_OF_SIZE(8)
PAIR_OF_SIZE(16)
PAIR_OF_SIZE(32)
PAIR_OF_SIZE(64)
PAIR_OF_SIZE(128)
PAIR_OF_SIZE(256)
PAIR_OF_SIZE(512)
PAIR_OF_SIZE(1024)
PAIR_OF_SIZE(2048)
PAIR_OF_SIZE(4096)
PAIR_OF_SIZE(8192)
PAIR_OF_SIZE(16384)

static void pair_kmalloc_variable(void)
{
    static const volatile size_t size = 200;

    for (unsigned i = 0; i < PAIRS; i++) {
        vl_kfree(vl_kmalloc(size, VL_WAIT));
    }
}

static void measure(const char *name, void (*body)(void))
{
    uint64_t least = UINT64_MAX;

    for (unsigned i = 0; i < BATCHES; i++) {
        uint64_t start = vl_host_clock_ns();
        uint64_t total;

        body();
        total = vl_host_clock_ns() - start;
        least = total < least ? total : least;
    }
    printk(VL_LOG_ERROR, "@pair name=%s each=%lu", name, (unsigned long)(least * 100 / PAIRS));
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Fills @objects, as far as there is memory. Returns: how many. */
static unsigned fill_row(void **objects, size_t size)
{
    unsigned count = 0;

    while (count < ROW && (objects[count] = vl_kmalloc(size, VL_WAIT | VL_MAY_FAIL)) != NULL) {
        count++;
    }
    return count;
}

static void measure_row(void **objects, size_t size)
{
    uint64_t alloc = UINT64_MAX;
    uint64_t release = UINT64_MAX;
    uint64_t first = 0;
    unsigned count = 0;

    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t start = vl_host_clock_ns();
        uint64_t middle;
        uint64_t end;

        count = fill_row(objects, size);
        middle = vl_host_clock_ns();
        for (unsigned k = 0; k < count; k++) {
            vl_kfree(objects[k]);
        }
        end = vl_host_clock_ns();
        if (count == 0) {
            return;
        }
        first = i == 0 ? (middle - start) * 100 / count : first;
        alloc = least(alloc, (middle - start) * 100 / count);
        release = least(release, (end - middle) * 100 / count);
    }
    printk(VL_LOG_ERROR, "@row size=%lu count=%u first=%lu alloc=%lu free=%lu", (unsigned long)size,
           count, (unsigned long)first, (unsigned long)alloc, (unsigned long)release);
}

static void measure_rows(void)
{
    void **objects = vl_kmalloc(ROW * sizeof(*objects), VL_WAIT);

    if (objects == NULL) {
        return;
    }
    for (size_t size = 8; size <= 16384; size *= 2) {
        measure_row(objects, size);
    }
    vl_kfree(objects);
}

static void measure_frames(const char *order_0, const char *order_9)
{
    measure(order_0, pair_order_0);
    measure(order_9, pair_order_9);
}

void bench_run(void)
{
    size_t len = 0;
    const char *value = boot_option_value("vellum.bench", &len);

    if (value == NULL) {
        return;
    }
    measure_frames("order-0", "order-9");
    vl_frame_set_stock(false);
    measure_frames("order-0,stock=0", "order-9,stock=0");
    vl_frame_set_stock(true);
    measure("kmalloc-8", pair_kmalloc_8);
    measure("kmalloc-16", pair_kmalloc_16);
    measure("kmalloc-32", pair_kmalloc_32);
    measure("kmalloc-64", pair_kmalloc_64);
    measure("kmalloc-128", pair_kmalloc_128);
    measure("kmalloc-256", pair_kmalloc_256);
    measure("kmalloc-512", pair_kmalloc_512);
    measure("kmalloc-1024", pair_kmalloc_1024);
    measure("kmalloc-2048", pair_kmalloc_2048);
    measure("kmalloc-4096", pair_kmalloc_4096);
    measure("kmalloc-8192", pair_kmalloc_8192);
    measure("kmalloc-16384", pair_kmalloc_16384);
    measure("kmalloc-variable", pair_kmalloc_variable);
    measure_rows();
    machine_poweroff();
}
