/*
 * syscall_table.c - the table that the entry jumps through.
 *
 * Every hole leads to syscall_unknown(), which says once a boot for each number that a program
 * asked for it. Calls that libcs try and do without (rseq, clone3) are named here as functions that
 * return -ENOSYS, so that they are not reported.
 */
#include "kernel/proc/internal.h"
#include "kernel/proc/syscall_list.h"

#define ENTRY(number, name)      [number] = sys_##name,
#define ENTRY_FULL(number, name) [number] = full_sys_##name,

/* The holes are named one by one, since a later entry must not overwrite an earlier one, and a call
 * that is added here but not taken out there does not compile. */
#define HOLE(number)    [number] = syscall_unknown,
#define HOLES_4(number) HOLE(number) HOLE((number) + 1) HOLE((number) + 2) HOLE((number) + 3)
#define HOLES_16(number)                                                                           \
    HOLES_4(number) HOLES_4((number) + 4) HOLES_4((number) + 8) HOLES_4((number) + 12)
#define HOLES_32(number) HOLES_16(number) HOLES_16((number) + 16)

/* clang-format off */
#define SYSCALL_HOLES \
    HOLES_4(42) HOLES_4(46) HOLE(50) HOLE(51) HOLE(52) HOLE(54) HOLE(55) HOLE(101) \
    HOLE(134) HOLE(136) HOLE(139) HOLES_4(153) HOLE(163) HOLE(167) HOLE(168) HOLES_4(172) \
    HOLES_4(176) HOLES_4(180) HOLE(184) HOLE(185) HOLES_4(188) HOLES_4(192) HOLES_4(196) \
    HOLES_4(205) HOLES_4(209) HOLE(214) HOLE(215) HOLE(216) HOLE(236) HOLES_4(240) \
    HOLE(244) HOLE(245) HOLE(246) HOLE(248) HOLE(249) HOLE(250) HOLE(253) HOLE(254) \
    HOLE(255) HOLE(279) HOLE(288) HOLE(294) HOLES_4(298) HOLE(303) HOLE(304) HOLE(307) \
    HOLE(308) HOLE(312) HOLE(313) HOLE(317) HOLE(320) HOLE(321) HOLE(323) HOLE(333) \
    HOLES_32(335) HOLES_32(367) HOLES_16(399) HOLES_4(415) HOLES_4(419) HOLE(423) \
    HOLES_4(425) HOLES_4(429) HOLE(433) HOLE(438) HOLES_4(440) HOLES_4(444) HOLE(450) \
    HOLE(451) HOLES_32(453) HOLES_16(485) HOLES_4(501) HOLES_4(505) HOLE(509) HOLE(510) \
    HOLE(511)
/* clang-format on */

syscall_fn *const syscall_table[SYSCALL_COUNT] = {SYSCALL_LIST_PROC(
    ENTRY, ENTRY_FULL) SYSCALL_LIST_FS(ENTRY) SYSCALL_LIST_IPC(ENTRY) SYSCALL_HOLES};

static _Atomic uint64_t reported[SYSCALL_COUNT / 64];

long syscall_unknown(VLI_UNUSED long a, VLI_UNUSED long b, VLI_UNUSED long c, VLI_UNUSED long d,
                     VLI_UNUSED long e, VLI_UNUSED long f)
{
    uint64_t number = current_frame()->error;
    uint64_t bit = (uint64_t)1 << (number % 64);

    if (number < SYSCALL_COUNT &&
        (atomic_fetch_or_explicit(&reported[number / 64], bit, memory_order_relaxed) & bit) == 0) {
        printk(VL_LOG_INFO, "%s[%u]: no system call %llu", current()->name, current()->tid,
               (unsigned long long)number);
    }
    return -ENOSYS;
}
