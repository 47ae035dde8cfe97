/*
 * kmalloc_linux.c - experiment 4 on Linux: a module that measures kmalloc and kfree as
 * kernel/bench.c does ours, and prints the same lines.
 *
 * Loading it runs the measurement; it then refuses to stay. Built by tools/linux_module against
 * Debian's headers of the very kernel that is measured.
 */
#include <linux/init.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>

#define BATCHES 30u
#define PAIRS   500u
#define ROUNDS  6u
#define ROW     10000u

static void print_pair(const char *name, u64 least)
{
    pr_emerg("@pair name=kmalloc-%s each=%llu\n", name, least * 100 / PAIRS);
}

/* The size is a constant at the call. */
#define PAIR_OF_SIZE(bytes)                                                                        \
    static void pair_##bytes(void)                                                                 \
    {                                                                                              \
        u64 least = U64_MAX;                                                                       \
                                                                                                   \
        for (unsigned i = 0; i < BATCHES; i++) {                                                   \
            u64 start = ktime_get_ns();                                                            \
                                                                                                   \
            for (unsigned k = 0; k < PAIRS; k++) {                                                 \
                kfree(kmalloc(bytes, GFP_KERNEL));                                                 \
            }                                                                                      \
            least = min(least, ktime_get_ns() - start);                                            \
        }                                                                                          \
        print_pair(#bytes, least);                                                                 \
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

static void pair_variable(void)
{
    static const volatile size_t size = 200;
    u64 least = U64_MAX;

    for (unsigned i = 0; i < BATCHES; i++) {
        u64 start = ktime_get_ns();

        for (unsigned k = 0; k < PAIRS; k++) {
            kfree(kmalloc(size, GFP_KERNEL));
        }
        least = min(least, ktime_get_ns() - start);
    }
    print_pair("variable", least);
}

static unsigned fill_row(void **objects, size_t size)
{
    unsigned count = 0;

    while (count < ROW && (objects[count] = kmalloc(size, GFP_KERNEL | __GFP_NORETRY)) != NULL) {
        count++;
    }
    return count;
}

static void measure_row(void **objects, size_t size)
{
    u64 alloc = U64_MAX;
    u64 release = U64_MAX;
    u64 first = 0;
    unsigned count = 0;

    for (unsigned i = 0; i < ROUNDS; i++) {
        u64 start = ktime_get_ns();
        u64 middle;
        u64 end;

        count = fill_row(objects, size);
        middle = ktime_get_ns();
        for (unsigned k = 0; k < count; k++) {
            kfree(objects[k]);
        }
        end = ktime_get_ns();
        if (count == 0) {
            return;
        }
        first = i == 0 ? (middle - start) * 100 / count : first;
        alloc = min(alloc, (middle - start) * 100 / count);
        release = min(release, (end - middle) * 100 / count);
    }
    pr_emerg("@row size=%zu count=%u first=%llu alloc=%llu free=%llu\n", size, count, first, alloc,
             release);
}

static int __init kmalloc_linux_init(void)
{
    void **objects = kvmalloc_array(ROW, sizeof(*objects), GFP_KERNEL);

    if (objects == NULL) {
        return -ENOMEM;
    }
    pair_8();
    pair_16();
    pair_32();
    pair_64();
    pair_128();
    pair_256();
    pair_512();
    pair_1024();
    pair_2048();
    pair_4096();
    pair_8192();
    pair_16384();
    pair_variable();
    for (size_t size = 8; size <= 16384; size *= 2) {
        measure_row(objects, size);
    }
    kvfree(objects);
    return -EAGAIN;
}

module_init(kmalloc_linux_init);
MODULE_DESCRIPTION("what kmalloc and kfree cost");
MODULE_LICENSE("Dual MIT/GPL");
