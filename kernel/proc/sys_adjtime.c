/*
 * sys_adjtime.c - adjtimex and clock_adjtime: the state of a clock that nothing disciplines.
 *
 * It is told as Linux tells it after boot: not synchronised, no offset, no correction. Who asks for
 * a change gets EPERM, as one who may not set the clock: there is no loop here to steer.
 */
#include "kernel/proc/internal.h"

#define CLOCK_REALTIME 0
#define CLOCK_LAST     11

#define ADJ_ADJTIME         0x8000u
#define ADJ_SINGLESHOT      0x0001u
#define ADJ_OFFSET_READONLY 0x2000u

#define STATUS_UNSYNC   64
#define ERROR_US_MAX    16000000
#define TIME_CONSTANT   2
#define TOLERANCE       32768000 /* 500 ppm, in units of 2^-16 */
#define TICK_US         10000
#define TIME_ERROR_CODE 5

/* struct timex of Linux's user interface. */
struct timex {
    uint32_t modes;
    uint32_t pad;
    int64_t offset, frequency, error_max, error_estimated;
    int32_t status;
    uint32_t pad2;
    int64_t time_constant, precision, tolerance;
    struct user_time time;
    int64_t tick, pps_frequency, jitter;
    int32_t shift;
    uint32_t pad3;
    int64_t stability, jitter_count, calibrations, errors, stability_count;
    int32_t tai;
    int32_t unused[11];
};
_Static_assert(sizeof(struct timex) == 208, "struct timex");

static long adjust(uint64_t user)
{
    struct timex out;
    uint64_t now;
    uint32_t modes;

    if (copy_from_user(&out, user, sizeof(out)) != VL_OK) {
        return -EFAULT;
    }
    modes = out.modes;
    if ((modes & ADJ_ADJTIME) != 0 && (modes & ADJ_SINGLESHOT) == 0) {
        return -EINVAL;
    }
    if (modes != 0 &&
        (modes & (ADJ_ADJTIME | ADJ_OFFSET_READONLY)) != (ADJ_ADJTIME | ADJ_OFFSET_READONLY)) {
        return -EPERM;
    }
    now = clock_realtime_ns();
    out = (struct timex){.modes = modes,
                         .error_max = ERROR_US_MAX,
                         .error_estimated = ERROR_US_MAX,
                         .status = STATUS_UNSYNC,
                         .time_constant = TIME_CONSTANT,
                         .precision = 1,
                         .tolerance = TOLERANCE,
                         .tick = TICK_US};
    out.time = (struct user_time){(int64_t)(now / NS_PER_SECOND),
                                  (int64_t)(now % NS_PER_SECOND / NS_PER_US)};
    return copy_to_user(user, &out, sizeof(out)) == VL_OK ? TIME_ERROR_CODE : -EFAULT;
}

SYSCALL(adjtimex)
{
    return adjust((uint64_t)a);
}

/* Of the clocks only CLOCK_REALTIME can be steered. */
SYSCALL(clock_adjtime)
{
    if ((int32_t)a == CLOCK_REALTIME) {
        return adjust((uint64_t)b);
    }
    return (int32_t)a > CLOCK_LAST || (int32_t)a == 10 ? -EINVAL : -EOPNOTSUPP;
}
