/*
 * count.c - the sum of what CPUs count.
 */
#include "core/base/count.h"

uint64_t vli_count_sum(enum vli_count which)
{
    unsigned cpus = vl_host_cpu_count();
    uint64_t sum = 0;

    for (unsigned cpu = 0; cpu < cpus; cpu++) {
        sum += atomic_load_explicit(&vli_percpu_of(cpu)->count.value[which], memory_order_relaxed);
    }
    /* A page that moved while we read may be missing. */
    return (int64_t)sum < 0 ? 0 : sum;
}
