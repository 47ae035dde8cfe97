/*
 * main.c - the order in which the kernel starts.
 *
 * boot_main() runs on the boot stack with interrupts off and ends as the first CPU's idle thread;
 * everything that may sleep happens in the first kernel thread, which becomes the first program.
 */
#include <vellum/vellum.h>
#include "kernel/bench.h"
#include "kernel/boot/boot.h"
#include "kernel/boot/memory.h"
#include "kernel/cpu/acpi.h"
#include "kernel/cpu/apic.h"
#include "kernel/cpu/clock.h"
#include "kernel/cpu/cpu.h"
#include "kernel/cpu/features.h"
#include "kernel/cpu/fpu.h"
#include "kernel/cpu/irq.h"
#include "kernel/cpu/paging.h"
#include "kernel/cpu/smp.h"
#include "kernel/dev/serial.h"
#include "kernel/host.h"
#include "kernel/lib/printk.h"
#include "kernel/main.h"
#include "kernel/sched/sched.h"
#include "kernel/sched/thread_life.h"
#include "kernel/sched/timer.h"
#include "kernel/sched/timer_queue.h"
#include "kernel/selftest.h"

static void log_cpu(void)
{
    const struct cpu_features *f = cpu_features();
    uint64_t khz = clock_tsc_hz() / 1000;

    printk(VL_LOG_INFO, "cpu: %u.%03u MHz clock; protections: nx wp%s%s%s; fpu area %zu bytes",
           (unsigned)(khz / 1000), (unsigned)(khz % 1000), f->smep ? " smep" : "",
           f->smap ? " smap" : "", f->umip ? " umip" : "", fpu_area_bytes());
}

static void log_memory(void)
{
    struct vl_frame_counts counts;

    vl_frame_counts(&counts);
    printk(VL_LOG_INFO, "memory: below 1 MiB given back; %lu of %lu KiB free, %lu KiB reserved",
           (unsigned long)((counts.free_zones + counts.free_stock) << 2),
           (unsigned long)(counts.managed << 2), (unsigned long)(counts.reserved << 2));
}

/* vellum.crash=N makes tests of the last words: 1 a panic, 2 a wild write, 3 a stack overflow,
 * 4 a write to code, 5 execution of data. */
static VLI_NOINLINE unsigned overflow_stack(volatile unsigned depth)
{
    volatile char room[512];

    room[0] = (char)depth;
    return depth > 1000000 ? 0 : overflow_stack(depth + 1) + (unsigned)room[0];
}

static VLI_NOINLINE void crash(int how)
{
    if (how == 1) {
        panic("asked for by vellum.crash=1");
    } else if (how == 2) {
        *(volatile uint32_t *)(uintptr_t)0xdead0000 = 1;
    } else if (how == 3) {
        printk(VL_LOG_INFO, "%u", overflow_stack(0));
    } else if (how == 4) {
        *(volatile char *)(uintptr_t)&crash = 0; /* code is read-only */
    } else if (how == 5) {
        static unsigned char code[] = {0xc3}; /* ret; data is not executable */

        ((void (*)(void))(uintptr_t)code)();
    }
}

/* stock=0 sends every request to the buddy allocator: measurements compare it with and without. */
static void set_stock(void)
{
    size_t len = 0;
    const char *value = boot_option_value("stock", &len);

    if (value != NULL && len == 1 && value[0] == '0') {
        vl_frame_set_stock(false);
    }
}

static void first_thread(void *arg)
{
    const char *wrong;

    (void)arg;
    host_start_threads();
    smp_start_others();
    boot_memory_release_low();
    printk(VL_LOG_INFO, "smp: %u CPUs run", cpu_count());
    log_memory();
    if (vl_selftest(&wrong) != VL_OK) {
        panic("host: %s is wrong", wrong != NULL ? wrong : "something");
    }
    printk(VL_LOG_INFO, "paging: %zu kernel mappings, none writable and executable",
           paging_check());
    crash(boot_options()->crash);
    selftest_run();
    set_stock();
    bench_run();
    dev_init();
    fs_init();
    proc_init();
    proc_run_init();
    panic("there is no first program");
}

static void start_first_thread(void)
{
    struct thread *thread;

    if (thread_create(&thread, first_thread, NULL, "init") != VL_OK) {
        panic("no memory for the first thread");
    }
    thread->tid = 1;
    thread_start(thread);
    thread_put(thread);
}

static void init_machine(uint64_t start_info_pa)
{
    boot_memory_init(start_info_pa);
    printk(VL_LOG_INFO, "Vellum " VL_VERSION ", command line: %s", boot_options()->command_line);
    cpu_features_detect();
    cpu_patch_smap();
    paging_init();
    acpi_init();
    apic_init();
    tables_init_idt();
    smp_prepare();
    cpu_features_enable();
    fpu_init();
    clock_init();
    irq_init();
    apic_enable();
    apic_timer_calibrate();
}

_Noreturn void boot_main(uint64_t start_info_pa)
{
    smp_boot_cpu();
    threads_boot(cpu_of(0));
    serial_early_init();
    init_machine(start_info_pa);
    host_init_early();
    boot_memory_log();
    acpi_log_nodes();
    if (vl_init() != VL_OK) {
        panic("the core does not start");
    }
    paging_core_is_up();
    vl_space_tables_set_kernel(paging_root());
    log_cpu();
    threads_init();
    sched_init();
    timers_init();
    smp_init_vectors();
    start_first_thread();
    sched_idle_loop();
}
