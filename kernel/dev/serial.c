/*
 * serial.c - the 16550 at COM1, polled for output, by interrupt for input.
 *
 * Output waits for room in the FIFO, 16 bytes at a time. One spin lock with interrupts off keeps
 * the lines of several CPUs apart; the panic path breaks it (serial_break_lock()), since the holder
 * may be stopped.
 */
#include "kernel/dev/serial.h"
#include "kernel/cpu/cpu.h"
#include "kernel/cpu/io.h"
#include "kernel/lib/printk.h"
#include "kernel/sched/lock.h"

#define COM1       0x3f8u
#define COM1_LINE  4u
#define REG_DATA   (COM1 + 0)
#define REG_IER    (COM1 + 1)
#define REG_FCR    (COM1 + 2)
#define REG_LCR    (COM1 + 3)
#define REG_MCR    (COM1 + 4)
#define REG_LSR    (COM1 + 5)
#define LSR_DATA   0x01u
#define LSR_EMPTY  0x20u
#define FIFO_BYTES 16u

static struct vli_spinlock serial_lock = VLI_SPINLOCK_INIT;
static void (*serial_input)(unsigned char byte);

void serial_early_init(void)
{
    io_out8(REG_IER, 0);
    io_out8(REG_LCR, 0x80); /* divisor latch */
    io_out8(REG_DATA, 1);   /* 115200 / 1 */
    io_out8(REG_IER, 0);
    io_out8(REG_LCR, 0x03); /* 8 bits, no parity, one stop bit */
    io_out8(REG_FCR, 0x07); /* FIFO on and cleared, interrupt at one byte */
    io_out8(REG_MCR, 0x0b); /* DTR, RTS, OUT2: interrupt line open */
}

/* A device that is not there reads as all ones: "empty", so that this ends. */
static void serial_wait_empty(void)
{
    while ((io_in8(REG_LSR) & LSR_EMPTY) == 0) {
        vl_host_cpu_relax();
    }
}

void serial_write(const char *text, size_t len)
{
    unsigned long flags = vli_spin_lock_irq(&serial_lock, KRANK_LOG);

    for (size_t i = 0; i < len; i++) {
        if (i % FIFO_BYTES == 0) {
            serial_wait_empty();
        }
        io_out8(REG_DATA, (uint8_t)text[i]);
    }
    vli_spin_unlock_irq(&serial_lock, KRANK_LOG, flags);
}

void serial_break_lock(void)
{
    vli_spin_init(&serial_lock);
}

static void serial_interrupt(void *arg)
{
    (void)arg;
    while ((io_in8(REG_LSR) & LSR_DATA) != 0) {
        unsigned char byte = io_in8(REG_DATA);

        if (serial_input != NULL) {
            serial_input(byte);
        }
    }
}

void serial_set_input(void (*input)(unsigned char byte))
{
    static bool registered;

    serial_input = input;
    if (!registered) {
        registered = true;
        if (irq_register_isa(COM1_LINE, serial_interrupt, NULL) != VL_OK) {
            printk(VL_LOG_WARNING, "serial: interrupt line %u is taken; no input", COM1_LINE);
            return;
        }
    }
    io_out8(REG_IER, input != NULL ? 1 : 0);
}
