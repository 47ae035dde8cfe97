/*
 * clock.c - the clock: the time-stamp counter, calibrated once.
 *
 * Its speed comes from the hypervisor's or the CPU's own statement (CPUID 0x40000010, 0x15) or is
 * measured against the ACPI timer (3.579545 MHz), or without that the PIT's third channel. Under
 * QEMU's -icount the counter advances with the instructions, as the two timers do, so that the same
 * code fits. CPUs' counters are taken as synchronous, which holds for all virtual machines and for
 * all CPUs of the last fifteen years with one socket.
 */
#include "kernel/cpu/acpi.h"
#include "kernel/cpu/cpu.h"
#include "kernel/cpu/clock.h"
#include "kernel/cpu/io.h"
#include "kernel/lib/printk.h"
#include "kernel/sched/timer.h"

#define NS_PER_S      1000000000ull
#define PM_HZ         3579545u
#define PM_TICKS      71591u /* 20 ms */
#define PIT_HZ        1193182u
#define PIT_TICKS     23864u /* 20 ms */
#define PIT_CHANNEL_2 0x42u
#define PIT_COMMAND   0x43u
#define PIT_GATE      0x61u
#define CMOS_INDEX    0x70u
#define CMOS_DATA     0x71u
#define CMOS_UPDATING 0x80u

static uint64_t tsc_start;
static uint64_t ns_per_tick_32; /* times 2^32 */
static uint64_t tsc_hz;
static _Atomic uint64_t realtime_offset_ns;

/* (a * b) >> 32 with the product in 128 bits. */
static inline uint64_t scale(uint64_t a, uint64_t b)
{
    uint64_t high;

    __asm__("mulq %2\n\tshrdq $32, %1, %0" : "+a"(a), "=&d"(high) : "r"(b) : "cc");
    return a;
}

uint64_t clock_ns(void)
{
    return scale(tsc_read() - tsc_start, ns_per_tick_32);
}

static uint64_t measure_by_pm_timer(uint16_t port, uint32_t mask)
{
    uint32_t start = io_in32(port) & mask;
    uint32_t passed;
    uint64_t tsc = tsc_read();

    do {
        passed = ((io_in32(port) & mask) - start) & mask;
    } while (passed < PM_TICKS);
    tsc = tsc_read() - tsc;
    return tsc * PM_HZ / passed;
}

static uint64_t measure_by_pit(void)
{
    uint64_t tsc;

    io_out8(PIT_GATE, (uint8_t)((io_in8(PIT_GATE) & ~2u) | 1u)); /* gate on, speaker off */
    io_out8(PIT_COMMAND, 0xb0); /* channel 2, both bytes, mode 0: output high at the end */
    io_out8(PIT_CHANNEL_2, PIT_TICKS & 0xff);
    io_out8(PIT_CHANNEL_2, PIT_TICKS >> 8);
    tsc = tsc_read();
    while ((io_in8(PIT_GATE) & 0x20u) == 0) {
        vl_host_cpu_relax();
    }
    return (tsc_read() - tsc) * PIT_HZ / PIT_TICKS;
}

/* What CPUID states, 0 when it does not. */
static uint64_t stated_hz(void)
{
    struct cpuid_regs r;

    if ((cpuid(1, 0).ecx >> 31 & 1) != 0 && cpuid(0x40000000u, 0).eax >= 0x40000010u) {
        r = cpuid(0x40000010u, 0);
        return (uint64_t)r.eax * 1000;
    }
    if (cpuid(0, 0).eax >= 0x15) {
        r = cpuid(0x15, 0);
        if (r.eax != 0 && r.ebx != 0 && r.ecx != 0) {
            return (uint64_t)r.ecx * r.ebx / r.eax;
        }
    }
    return 0;
}

static uint8_t cmos_read(uint8_t index)
{
    io_out8(CMOS_INDEX, index);
    return io_in8(CMOS_DATA);
}

static unsigned from_bcd(uint8_t value, bool is_bcd)
{
    return is_bcd ? (value & 15u) + (value >> 4) * 10u : value;
}

/* Days from 1970-01-01 to a date of the Gregorian calendar. */
static uint64_t days_since_1970(unsigned year, unsigned month, unsigned day)
{
    unsigned y = month <= 2 ? year - 1 : year; /* years that begin in March */
    unsigned m = month <= 2 ? month + 9 : month - 3;

    return 365ull * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719468;
}

/* The PC's battery clock, in UTC by convention; its century is taken as 20. */
static uint64_t cmos_seconds(void)
{
    uint8_t raw[6];
    uint8_t again[6];
    static const uint8_t index[6] = {0, 2, 4, 7, 8, 9};
    bool bcd = (cmos_read(0x0b) & 4) == 0;
    unsigned v[6];
    unsigned different;

    for (unsigned tries = 0; tries < 1000; tries++) {
        different = 0;
        for (unsigned i = 0; i < 6; i++) {
            raw[i] = cmos_read(index[i]);
        }
        for (unsigned i = 0; i < 6; i++) {
            again[i] = cmos_read(index[i]);
            different |= raw[i] ^ again[i];
        }
        if (different == 0 && (cmos_read(0x0a) & CMOS_UPDATING) == 0) {
            break;
        }
    }
    for (unsigned i = 0; i < 6; i++) {
        v[i] = from_bcd(raw[i], bcd);
    }
    return days_since_1970(2000 + v[5], v[4], v[3]) * 86400 + v[2] * 3600ull + v[1] * 60ull + v[0];
}

void clock_init(void)
{
    const struct acpi_info *acpi = acpi_info();

    tsc_hz = stated_hz();
    if (tsc_hz == 0 && acpi->pm_timer != 0) {
        tsc_hz =
            measure_by_pm_timer(acpi->pm_timer, acpi->pm_timer_32_bits ? 0xffffffffu : 0xffffffu);
    } else if (tsc_hz == 0) {
        tsc_hz = measure_by_pit();
    }
    if (tsc_hz < 1000000) {
        panic("clock: the time-stamp counter does not count");
    }
    tsc_start = tsc_read();
    ns_per_tick_32 = (NS_PER_S << 32) / tsc_hz;
    clock_set_realtime_ns(cmos_seconds() * NS_PER_S);
}

uint64_t clock_tsc_hz(void)
{
    return tsc_hz;
}

uint64_t clock_realtime_ns(void)
{
    return clock_ns() + atomic_load_explicit(&realtime_offset_ns, memory_order_relaxed);
}

void clock_set_realtime_ns(uint64_t ns)
{
    atomic_store_explicit(&realtime_offset_ns, ns - clock_ns(), memory_order_relaxed);
}
