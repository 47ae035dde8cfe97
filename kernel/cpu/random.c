/*
 * random.c - random numbers from the CPU.
 *
 * RDRAND may fail for a while; after ten tries, and on CPUs without it, the time stamp counter goes
 * into a 64-bit mixer (splitmix64) whose state runs on: different at each boot, no secret.
 */
#include <stdatomic.h>
#include "core/base/compiler.h"
#include "kernel/cpu/cpu.h"
#include "kernel/cpu/features.h"

#define RDRAND_TRIES 10

static _Atomic uint64_t mixer;

static bool rdrand(uint64_t *out)
{
    unsigned char ok;

    __asm__ volatile("rdrand %0\n\tsetc %1" : "=r"(*out), "=qm"(ok) : : "cc");
    return ok != 0;
}

static uint64_t tsc_read(void)
{
    uint32_t low;
    uint32_t high;

    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}

uint64_t cpu_random64(void)
{
    uint64_t word;
    int i;

    for (i = 0; i < RDRAND_TRIES && cpu_features()->rdrand; i++) {
        if (rdrand(&word)) {
            return word;
        }
    }
    word = atomic_fetch_add_explicit(&mixer, tsc_read() * 0x9e3779b97f4a7c15ull | 1u,
                                     memory_order_relaxed);
    word ^= tsc_read();
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ull;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebull;
    return word ^ (word >> 31);
}
