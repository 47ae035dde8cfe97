/*
 * printk.c - the log: a ring of the last bytes, and the console.
 *
 * A line is formatted on the stack, put into the ring under a spin lock with interrupts off, and
 * written to the serial line. `quiet` keeps information off the console, not out of the ring.
 */
#include "kernel/lib/printk.h"
#include "core/base/log.h"
#include "kernel/dev/serial.h"
#include "kernel/lib/mem.h"
#include "kernel/sched/lock.h"
#include "kernel/sched/timer.h"

#define LINE_BYTES 256u
#define RING_BYTES 32768u

static char ring[RING_BYTES];
static uint64_t ring_end; /* bytes ever written */
static struct vli_spinlock ring_lock = VLI_SPINLOCK_INIT;
static bool quiet;

void printk_set_quiet(bool on)
{
    quiet = on;
}

void printk_break_lock(void)
{
    vli_spin_init(&ring_lock);
}

static void ring_append(const char *text, size_t len)
{
    unsigned long flags = vli_spin_lock_irq(&ring_lock, KRANK_LOG);

    for (size_t i = 0; i < len; i++) {
        ring[ring_end++ % RING_BYTES] = text[i];
    }
    vli_spin_unlock_irq(&ring_lock, KRANK_LOG, flags);
}

static void emit(enum vl_log_level level, const char *format, va_list args)
{
    char text[LINE_BYTES];
    uint64_t us = clock_ns() / 1000;
    size_t len = vli_print(text, sizeof(text), "[%5u.%06u] ", (unsigned)(us / 1000000),
                           (unsigned)(us % 1000000));

    len += vli_format(text + len, sizeof(text) - len, format, args);
    if (len > sizeof(text) - 2) {
        len = sizeof(text) - 2;
    }
    text[len++] = '\n';
    text[len] = 0;
    ring_append(text, len);
    if (level <= VL_LOG_WARNING || !quiet) {
        text[len - 1] = '\r';
        text[len++] = '\n';
        serial_write(text, len);
    }
}

void printk(enum vl_log_level level, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    emit(level, format, args);
    va_end(args);
}

size_t printk_read(char *out, size_t size, uint64_t offset)
{
    unsigned long flags = vli_spin_lock_irq(&ring_lock, KRANK_LOG);
    uint64_t start = ring_end > RING_BYTES ? ring_end - RING_BYTES : 0;
    size_t done = 0;

    if (offset < start) {
        offset = start;
    }
    while (done < size && offset < ring_end) {
        out[done++] = ring[offset++ % RING_BYTES];
    }
    vli_spin_unlock_irq(&ring_lock, KRANK_LOG, flags);
    return done;
}
