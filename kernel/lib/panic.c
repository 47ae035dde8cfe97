/*
 * panic.c - the last words, with a symbolised back trace, and then what panic= says.
 *
 * The first CPU that panics stops the others and speaks; a second one waits. The back trace follows
 * the chain of frame pointers as long as it stays in the stack it began in and each return address
 * lies in the image's code. Names come from the table that the link added (tools/make_ksyms).
 */
#include "kernel/lib/panic.h"
#include "core/base/log.h"
#include "kernel/boot/boot.h"
#include "kernel/cpu/paging.h"
#include "kernel/cpu/smp.h"
#include "kernel/dev/serial.h"
#include "kernel/sched/thread.h"
#include "kernel/sched/timer.h"

#define TRACE_MAX 32u

struct ksym {
    uint32_t address; /* low half; the image is in the top 2 GiB */
    uint32_t name;
};
extern const struct ksym ksyms[];
extern const char ksyms_names[];
extern const uint32_t ksyms_count;
extern char image_start[], text_end[];

static _Atomic uint32_t panicking;

const char *ksym_name(uintptr_t address, uintptr_t *out_offset)
{
    uint32_t low = 0;
    uint32_t high = ksyms_count;

    *out_offset = 0;
    if (address < (uintptr_t)image_start || address >= (uintptr_t)text_end || high == 0) {
        return "?";
    }
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;

        if (ksyms[middle].address <= (uint32_t)address) {
            low = middle;
        } else {
            high = middle;
        }
    }
    *out_offset = (uint32_t)address - ksyms[low].address;
    return &ksyms_names[ksyms[low].name];
}

static void print_place(uintptr_t address)
{
    uintptr_t offset;
    const char *name = ksym_name(address, &offset);

    printk(VL_LOG_ERROR, "  %016lx %s+0x%lx", (unsigned long)address, name, (unsigned long)offset);
}

/* May the two words at @address be read as a frame on the stack? */
static bool is_readable(uintptr_t address)
{
    unsigned level;

    return address >= DIRECT_MAP_BASE && address % 8 == 0 && paging_lookup(address, &level) != 0 &&
           paging_lookup(address + 8, &level) != 0;
}

static void print_trace(uintptr_t rbp)
{
    printk(VL_LOG_ERROR, "back trace:");
    for (unsigned i = 0; i < TRACE_MAX && is_readable(rbp); i++) {
        const uintptr_t *frame = (const uintptr_t *)rbp;

        if (frame[1] < (uintptr_t)image_start || frame[1] >= (uintptr_t)text_end) {
            break;
        }
        print_place(frame[1]);
        if (frame[0] <= rbp) {
            break;
        }
        rbp = frame[0];
    }
}

static void print_registers(const struct trap_frame *f)
{
    static const char format[] = "%s %016lx  %s %016lx  %s %016lx  %s %016lx";

    printk(VL_LOG_ERROR, format, "rax", (unsigned long)f->rax, "rbx", (unsigned long)f->rbx, "rcx",
           (unsigned long)f->rcx, "rdx", (unsigned long)f->rdx);
    printk(VL_LOG_ERROR, format, "rsi", (unsigned long)f->rsi, "rdi", (unsigned long)f->rdi, "rbp",
           (unsigned long)f->rbp, "rsp", (unsigned long)f->rsp);
    printk(VL_LOG_ERROR, format, "r8 ", (unsigned long)f->r8, "r9 ", (unsigned long)f->r9, "r10",
           (unsigned long)f->r10, "r11", (unsigned long)f->r11);
    printk(VL_LOG_ERROR, format, "r12", (unsigned long)f->r12, "r13", (unsigned long)f->r13, "r14",
           (unsigned long)f->r14, "r15", (unsigned long)f->r15);
    printk(VL_LOG_ERROR, "rip %04lx:%016lx  flags %08lx", (unsigned long)f->cs,
           (unsigned long)f->rip, (unsigned long)f->rflags);
}

static void begin(void)
{
    cpu_irq_off();
    if (atomic_exchange_explicit(&panicking, 1, memory_order_relaxed) != 0) {
        for (;;) {
            __asm__ volatile("cli\n\thlt");
        }
    }
    smp_stop_others();
    serial_break_lock();
    printk_break_lock();
}

static void print_message(const char *format, va_list args)
{
    char text[200];
    const struct thread *thread = current();

    vli_format(text, sizeof(text), format, args);
    printk(VL_LOG_ERROR, "Kernel panic: %s", text);
    printk(VL_LOG_ERROR, "cpu %u, thread %u (%s)", vl_host_cpu_id(),
           thread != NULL ? thread->tid : 0, thread != NULL ? thread->name : "start-up");
}

static _Noreturn void end(void)
{
    int seconds = boot_options()->panic_seconds;

    if (seconds != 0) {
        uint64_t until = clock_ns() + (seconds > 0 ? (uint64_t)seconds * 1000000000u : 0);

        printk(VL_LOG_ERROR, "restart");
        while (clock_ns() < until) {
            vl_host_cpu_relax();
        }
        machine_restart();
    }
    printk(VL_LOG_ERROR, "halted");
    machine_halt();
}

void panic(const char *format, ...)
{
    va_list args;

    begin();
    va_start(args, format);
    print_message(format, args);
    va_end(args);
    print_trace((uintptr_t)__builtin_frame_address(0));
    end();
}

void panic_frame(const struct trap_frame *frame, const char *format, ...)
{
    va_list args;

    begin();
    va_start(args, format);
    print_message(format, args);
    va_end(args);
    print_registers(frame);
    if (!trap_is_user(frame)) {
        printk(VL_LOG_ERROR, "at:");
        print_place(frame->rip);
        print_trace(frame->rbp);
    }
    end();
}
