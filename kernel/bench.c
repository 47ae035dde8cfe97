/*
 * bench.c - what a pair of allocation and release costs in the kernel.
 *
 * Meant for QEMU's -icount shift=0, where the clock counts instructions. Each figure is the least
 * of many batches, so that a timer interrupt in one does not count; the loop around the pair is
 * part of it, nothing is subtracted. A figure is printed in hundredths.
 */
#include <vellum/vellum.h>
#include "kernel/bench.h"
#include "kernel/boot/boot.h"
#include "kernel/cpu/cpu.h"
#include "kernel/lib/printk.h"

#define BATCHES 30u
#define PAIRS   500u

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
PAIR_OF_SIZE(64)
PAIR_OF_SIZE(256)
PAIR_OF_SIZE(1024)
PAIR_OF_SIZE(2048)
PAIR_OF_SIZE(4096)
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
    measure("kmalloc-64", pair_kmalloc_64);
    measure("kmalloc-256", pair_kmalloc_256);
    measure("kmalloc-1024", pair_kmalloc_1024);
    measure("kmalloc-2048", pair_kmalloc_2048);
    measure("kmalloc-4096", pair_kmalloc_4096);
    measure("kmalloc-16384", pair_kmalloc_16384);
    measure("kmalloc-variable", pair_kmalloc_variable);
    machine_poweroff();
}
