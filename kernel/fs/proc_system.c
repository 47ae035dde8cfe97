/*
 * proc_system.c - what /proc says of the whole machine, and /proc/sys.
 */
#include "kernel/boot/boot.h"
#include "kernel/fs/proc.h"
#include "kernel/lib/mem.h"
#include "kernel/proc/process.h"

#define NS_PER_S    1000000000u
#define NS_PER_TICK 10000000u /* USER_HZ is 100 */

/* --------------------------------------------------------------------------- load average */

/* Linux's: three exponential averages, sampled every 5 s, 11 bits of fraction. */
#define LOAD_ONE       2048u
#define LOAD_PERIOD_NS 5000000000u

static _Atomic uint32_t load_average[3];
static struct timer load_timer;

static void load_sample(struct timer *timer)
{
    /* exp(-5 s / 1, 5, 15 min) with 11 bits of fraction */
    static const uint32_t keep[3] = {1884, 2014, 2037};
    uint32_t now = sched_runnable_count() * LOAD_ONE;

    for (unsigned i = 0; i < 3; i++) {
        uint32_t old = atomic_load_explicit(&load_average[i], memory_order_relaxed);
        uint64_t sum = (uint64_t)old * keep[i] + (uint64_t)now * (LOAD_ONE - keep[i]);

        atomic_store_explicit(&load_average[i],
                              (uint32_t)((sum + (now >= old ? LOAD_ONE - 1 : 0)) / LOAD_ONE),
                              memory_order_relaxed);
    }
    timer_arm(timer, clock_ns() + LOAD_PERIOD_NS);
}

void load_average_init(void)
{
    timer_init(&load_timer, load_sample);
    timer_arm(&load_timer, clock_ns() + LOAD_PERIOD_NS);
}

static long show_loadavg(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    unsigned threads;

    (void)process_count(&threads);
    for (unsigned i = 0; i < 3; i++) {
        uint32_t load = atomic_load_explicit(&load_average[i], memory_order_relaxed) + 10;

        proc_print(text, "%u.%02u ", load / LOAD_ONE, load % LOAD_ONE * 100 / LOAD_ONE);
    }
    proc_print(text, "%u/%u %u\n", sched_runnable_count(), threads, process_last_pid());
    return 0;
}

/* -------------------------------------------------------------------------- the core's texts */

static long show_meminfo(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    proc_report(text, vl_report_meminfo);
    return 0;
}

static long show_buddyinfo(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    proc_report(text, vl_report_buddyinfo);
    return 0;
}

static long show_slabinfo(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    proc_report(text, vl_report_slabinfo);
    return 0;
}

static long show_vmstat(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    proc_report(text, vl_report_vmstat);
    return 0;
}

static long show_zoneinfo(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    proc_report(text, vl_report_zoneinfo);
    return 0;
}

/* ------------------------------------------------------------------------------- the machine */

static uint64_t idle_ns_all(void)
{
    uint64_t sum = 0;

    for (unsigned cpu = 0; cpu < cpu_count(); cpu++) {
        sum += cpu_of(cpu)->idle_ns;
    }
    return sum;
}

static void print_seconds(struct proc_text *text, uint64_t ns)
{
    proc_print(text, "%lu.%02lu", (unsigned long)(ns / NS_PER_S),
               (unsigned long)(ns % NS_PER_S / NS_PER_TICK));
}

static long show_uptime(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    print_seconds(text, clock_ns());
    proc_print(text, " ");
    print_seconds(text, idle_ns_all());
    proc_print(text, "\n");
    return 0;
}

static long show_version(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    char release[UNAME_BYTES];
    char version[UNAME_BYTES];

    uname_text(UNAME_RELEASE, release);
    uname_text(UNAME_VERSION, version);
    proc_print(text, "Linux version %s (Vellum) %s\n", release, version);
    return 0;
}

static long show_cmdline(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    proc_print(text, "%s\n", boot_options()->command_line);
    return 0;
}

/* One line of CPU times; the ticks are counted per CPU. */
static void print_cpu_times(struct proc_text *text, unsigned first, unsigned end)
{
    uint64_t user = 0;
    uint64_t kernel = 0;
    uint64_t idle = 0;

    for (unsigned cpu = first; cpu < end; cpu++) {
        user += cpu_of(cpu)->user_ticks;
        kernel += cpu_of(cpu)->kernel_ticks;
        idle += cpu_of(cpu)->idle_ns;
    }
    proc_print(text, " %lu 0 %lu %lu 0 0 0 0 0 0\n", (unsigned long)(user * TICK_NS / NS_PER_TICK),
               (unsigned long)(kernel * TICK_NS / NS_PER_TICK),
               (unsigned long)(idle / NS_PER_TICK));
}

static long show_stat(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    unsigned cpus = cpu_count();
    uint64_t interrupts = 0;
    unsigned threads;

    (void)process_count(&threads);
    proc_print(text, "cpu ");
    print_cpu_times(text, 0, cpus);
    for (unsigned cpu = 0; cpu < cpus; cpu++) {
        proc_print(text, "cpu%u", cpu);
        print_cpu_times(text, cpu, cpu + 1);
        interrupts += cpu_of(cpu)->irq_count;
    }
    proc_print(text, "intr %lu\n", (unsigned long)interrupts);
    proc_print(text, "btime %lu\n", (unsigned long)((clock_realtime_ns() - clock_ns()) / NS_PER_S));
    proc_print(text, "processes %u\nprocs_running %u\nprocs_blocked 0\n", process_last_pid(),
               sched_runnable_count());
    return 0;
}

static void cpuid(uint32_t leaf, uint32_t *out)
{
    __asm__ volatile("cpuid"
                     : "=a"(out[0]), "=b"(out[1]), "=c"(out[2]), "=d"(out[3])
                     : "a"(leaf), "c"(0));
}

/* The flags that programs look for, by CPUID leaf, register and bit. */
static const struct cpu_flag {
    uint32_t leaf;
    uint8_t reg; /* 1 EBX, 2 ECX, 3 EDX */
    uint8_t bit;
    const char *name;
} cpu_flags[] = {{1, 3, 0, "fpu"},
                 {1, 3, 4, "tsc"},
                 {1, 3, 5, "msr"},
                 {1, 3, 6, "pae"},
                 {1, 3, 8, "cx8"},
                 {1, 3, 9, "apic"},
                 {1, 3, 13, "pge"},
                 {1, 3, 15, "cmov"},
                 {1, 3, 16, "pat"},
                 {1, 3, 19, "clflush"},
                 {1, 3, 23, "mmx"},
                 {1, 3, 24, "fxsr"},
                 {1, 3, 25, "sse"},
                 {1, 3, 26, "sse2"},
                 {1, 3, 28, "ht"},
                 {0x80000001, 3, 11, "syscall"},
                 {0x80000001, 3, 20, "nx"},
                 {0x80000001, 3, 26, "pdpe1gb"},
                 {0x80000001, 3, 27, "rdtscp"},
                 {0x80000001, 3, 29, "lm"},
                 {1, 2, 0, "pni"},
                 {1, 2, 1, "pclmulqdq"},
                 {1, 2, 9, "ssse3"},
                 {1, 2, 12, "fma"},
                 {1, 2, 13, "cx16"},
                 {1, 2, 19, "sse4_1"},
                 {1, 2, 20, "sse4_2"},
                 {1, 2, 22, "movbe"},
                 {1, 2, 23, "popcnt"},
                 {1, 2, 25, "aes"},
                 {1, 2, 26, "xsave"},
                 {1, 2, 28, "avx"},
                 {1, 2, 29, "f16c"},
                 {1, 2, 30, "rdrand"},
                 {1, 2, 31, "hypervisor"},
                 {0x80000001, 2, 0, "lahf_lm"},
                 {0x80000001, 2, 5, "abm"},
                 {7, 1, 0, "fsgsbase"},
                 {7, 1, 3, "bmi1"},
                 {7, 1, 5, "avx2"},
                 {7, 1, 7, "smep"},
                 {7, 1, 8, "bmi2"},
                 {7, 1, 9, "erms"},
                 {7, 1, 18, "rdseed"},
                 {7, 1, 19, "adx"},
                 {7, 1, 20, "smap"},
                 {7, 2, 2, "umip"},
                 {7, 2, 3, "pku"}};

static void print_cpu(struct proc_text *text, unsigned cpu)
{
    uint32_t regs[4];
    uint32_t signature;
    uint32_t vendor[3];
    uint32_t name[13] = {0};

    cpuid(0, regs);
    vendor[0] = regs[1];
    vendor[1] = regs[3];
    vendor[2] = regs[2];
    for (uint32_t i = 0; i < 3; i++) {
        cpuid(0x80000002u + i, name + 4 * i);
    }
    cpuid(1, regs);
    signature = regs[0];
    proc_print(text, "processor\t: %u\nvendor_id\t: ", cpu);
    proc_append(text, (const char *)vendor, sizeof(vendor));
    proc_print(text, "\ncpu family\t: %u\nmodel\t\t: %u\nmodel name\t: %s\nstepping\t: %u\n",
               (signature >> 8 & 15u) + ((signature >> 8 & 15u) == 15 ? signature >> 20 & 255u : 0),
               (signature >> 4 & 15u) | (signature >> 12 & 0xf0u), (const char *)name,
               signature & 15u);
    proc_print(text, "apicid\t\t: %u\nfpu\t\t: yes\nwp\t\t: yes\nflags\t\t:", cpu_of(cpu)->apic_id);
    for (unsigned i = 0; i < VLI_COUNT_OF(cpu_flags); i++) {
        cpuid(cpu_flags[i].leaf, regs);
        if ((regs[cpu_flags[i].reg] >> cpu_flags[i].bit & 1u) != 0) {
            proc_print(text, " %s", cpu_flags[i].name);
        }
    }
    proc_print(text, "\nclflush size\t: 64\ncache_alignment\t: 64\n\n");
}

static long show_cpuinfo(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    for (unsigned cpu = 0; cpu < cpu_count(); cpu++) {
        print_cpu(text, cpu);
    }
    return 0;
}

static long show_filesystems(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    for (unsigned i = 0; fs_types[i] != NULL; i++) {
        proc_print(text, "nodev\t%s\n", fs_types[i]->name);
    }
    return 0;
}

static long show_devices(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    proc_print(text, "Character devices:\n  1 mem\n  4 ttyS\n  5 /dev/tty\n  5 /dev/console\n\n"
                     "Block devices:\n");
    return 0;
}

static void print_mount(struct super *super, void *arg)
{
    struct proc_text *text = arg;
    char *path = vl_kmalloc(PATH_MAX_BYTES, VL_WAIT);
    struct dentry *root = fs_root();
    enum path_state state;

    if (path != NULL && dentry_path(super->root, root, path, PATH_MAX_BYTES, &state) >= 0 &&
        state != PATH_OUTSIDE) {
        proc_print(text, "%s %s %s %s%s%s%s%s 0 0\n", super->source, path, super->type->name,
                   (super->flags & MS_RDONLY) != 0 ? "ro" : "rw",
                   (super->flags & MS_NOSUID) != 0 ? ",nosuid" : "",
                   (super->flags & MS_NODEV) != 0 ? ",nodev" : "",
                   (super->flags & MS_NOEXEC) != 0 ? ",noexec" : "",
                   (super->flags & MS_NOATIME) != 0 ? ",noatime" : ",relatime");
    }
    dentry_put(root);
    vl_kfree(path);
}

long proc_mounts(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    mount_each(print_mount, text);
    return 0;
}

static long link_self(char *out, size_t size, VLI_UNUSED struct proc_key key)
{
    struct process *process = current_process();

    return process != NULL ? (long)vli_print(out, size, "%u", process->pid) : -ENOENT;
}

static long link_thread_self(char *out, size_t size, VLI_UNUSED struct proc_key key)
{
    struct process *process = current_process();

    return process != NULL ? (long)vli_print(out, size, "%u/task/%u", process->pid, current()->tid)
                           : -ENOENT;
}

static long link_mounts(char *out, size_t size, VLI_UNUSED struct proc_key key)
{
    return (long)vli_print(out, size, "self/mounts");
}

const struct proc_entry proc_root_files[] = {
    {.name = "buddyinfo", .mode = S_IFREG | 0444, .show = show_buddyinfo},
    {.name = "cmdline", .mode = S_IFREG | 0444, .show = show_cmdline},
    {.name = "cpuinfo", .mode = S_IFREG | 0444, .show = show_cpuinfo},
    {.name = "devices", .mode = S_IFREG | 0444, .show = show_devices},
    {.name = "filesystems", .mode = S_IFREG | 0444, .show = show_filesystems},
    {.name = "loadavg", .mode = S_IFREG | 0444, .show = show_loadavg},
    {.name = "meminfo", .mode = S_IFREG | 0444, .show = show_meminfo},
    {.name = "mounts", .mode = S_IFLNK | 0777, .link = link_mounts},
    {.name = "self", .mode = S_IFLNK | 0777, .link = link_self},
    {.name = "slabinfo", .mode = S_IFREG | 0400, .show = show_slabinfo},
    {.name = "stat", .mode = S_IFREG | 0444, .show = show_stat},
    {.name = "sys", .mode = S_IFDIR | 0555, .children = proc_sys_entries},
    {.name = "thread-self", .mode = S_IFLNK | 0777, .link = link_thread_self},
    {.name = "uptime", .mode = S_IFREG | 0444, .show = show_uptime},
    {.name = "version", .mode = S_IFREG | 0444, .show = show_version},
    {.name = "vmstat", .mode = S_IFREG | 0444, .show = show_vmstat},
    {.name = "zoneinfo", .mode = S_IFREG | 0444, .show = show_zoneinfo},
    {.name = NULL}};
