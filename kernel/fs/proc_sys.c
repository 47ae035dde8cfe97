/*
 * proc_sys.c - /proc/sys: the settings that programs read, and the few that can be changed.
 */
#include "kernel/fs/fdtable.h"
#include "kernel/fs/pipe.h"
#include "kernel/fs/proc.h"
#include "kernel/lib/mem.h"
#include "kernel/proc/process.h"

/* Settings that are kept and have no effect beyond being read again: this kernel has one way. */
enum kept { KEPT_OVERCOMMIT, KEPT_OVERCOMMIT_RATIO, KEPT_SWAPPINESS, KEPT_RANDOMIZE, KEPT_COUNT };
static _Atomic uint32_t kept[KEPT_COUNT] = {0, 50, 60, 0};
static char core_pattern[128] = "core\n";
static struct mutex text_mutex = MUTEX_INIT(text_mutex);

static long show_kept(struct proc_text *text, enum kept which)
{
    proc_print(text, "%u\n", atomic_load_explicit(&kept[which], memory_order_relaxed));
    return 0;
}

/* A decimal number, with blanks around it. 0 or -EINVAL. */
static long parse_number(const char *bytes, size_t len, uint32_t *out)
{
    while (len != 0 && (bytes[len - 1] == '\n' || bytes[len - 1] == ' ' || bytes[len - 1] == 0)) {
        len--;
    }
    while (len != 0 && *bytes == ' ') {
        bytes++;
        len--;
    }
    return proc_number(bytes, len, out) ? 0 : -EINVAL;
}

static long store_kept(const char *bytes, size_t len, enum kept which, uint32_t max)
{
    uint32_t value;

    if (parse_number(bytes, len, &value) != 0 || value > max) {
        return -EINVAL;
    }
    atomic_store_explicit(&kept[which], value, memory_order_relaxed);
    return 0;
}

static long show_overcommit(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    return show_kept(text, KEPT_OVERCOMMIT);
}
static long store_overcommit(const char *bytes, size_t len, VLI_UNUSED struct proc_key key)
{
    return store_kept(bytes, len, KEPT_OVERCOMMIT, 2);
}
static long show_overcommit_ratio(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    return show_kept(text, KEPT_OVERCOMMIT_RATIO);
}
static long store_overcommit_ratio(const char *bytes, size_t len, VLI_UNUSED struct proc_key key)
{
    return store_kept(bytes, len, KEPT_OVERCOMMIT_RATIO, 1000000);
}
static long show_swappiness(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    return show_kept(text, KEPT_SWAPPINESS);
}
static long store_swappiness(const char *bytes, size_t len, VLI_UNUSED struct proc_key key)
{
    return store_kept(bytes, len, KEPT_SWAPPINESS, 200);
}
static long show_randomize(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    return show_kept(text, KEPT_RANDOMIZE);
}
static long store_randomize(const char *bytes, size_t len, VLI_UNUSED struct proc_key key)
{
    return store_kept(bytes, len, KEPT_RANDOMIZE, 2);
}

/* Give back all that is kept for speed, in the core and in the kernel. */
static long store_drop_caches(const char *bytes, size_t len, VLI_UNUSED struct proc_key key)
{
    uint32_t value;

    if (parse_number(bytes, len, &value) != 0 || value < 1 || value > 4) {
        return -EINVAL;
    }
    threads_drain();
    vl_drain_all();
    return 0;
}

static long show_zero(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    proc_print(text, "0\n");
    return 0;
}

static long show_mmap_min(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    proc_print(text, "%lu\n", (unsigned long)VL_USER_MIN);
    return 0;
}

static long show_map_count(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    proc_print(text, "65530\n");
    return 0;
}

static long show_uname(struct proc_text *text, enum uname_field field)
{
    char name[UNAME_BYTES];

    uname_text(field, name);
    proc_print(text, "%s\n", name);
    return 0;
}

static long store_uname(const char *bytes, size_t len, enum uname_field field)
{
    const char *end = strchr(bytes, '\n');

    uname_set(field, bytes, end != NULL ? (size_t)(end - bytes) : len);
    return 0;
}

static long show_hostname(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    return show_uname(text, UNAME_NODE);
}
static long store_hostname(const char *bytes, size_t len, VLI_UNUSED struct proc_key key)
{
    return store_uname(bytes, len, UNAME_NODE);
}
static long show_domainname(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    return show_uname(text, UNAME_DOMAIN);
}
static long store_domainname(const char *bytes, size_t len, VLI_UNUSED struct proc_key key)
{
    return store_uname(bytes, len, UNAME_DOMAIN);
}
static long show_osrelease(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    return show_uname(text, UNAME_RELEASE);
}
static long show_ostype(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    return show_uname(text, UNAME_SYSTEM);
}
static long show_osversion(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    return show_uname(text, UNAME_VERSION);
}

static long show_pid_max(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    proc_print(text, "%u\n", PID_MAX);
    return 0;
}

static long show_ngroups_max(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    proc_print(text, "%u\n", GROUPS_MAX);
    return 0;
}

static long show_cap_last(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    proc_print(text, "40\n");
    return 0;
}

static long show_core_pattern(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    mutex_lock(&text_mutex);
    proc_print(text, "%s", core_pattern);
    mutex_unlock(&text_mutex);
    return 0;
}

static long store_core_pattern(const char *bytes, size_t len, VLI_UNUSED struct proc_key key)
{
    if (len >= sizeof(core_pattern)) {
        return -EINVAL;
    }
    mutex_lock(&text_mutex);
    memcpy(core_pattern, bytes, len + 1);
    mutex_unlock(&text_mutex);
    return 0;
}

/* Random numbers in the form of a UUID, version 4. */
static void print_uuid(struct proc_text *text, uint64_t high, uint64_t low)
{
    proc_print(text, "%08lx-%04lx-4%03lx-%04lx-%04lx%08lx\n", (unsigned long)(high >> 32),
               (unsigned long)(high >> 16 & 0xffffu), (unsigned long)(high & 0xfffu),
               (unsigned long)((low >> 48 & 0x3fffu) | 0x8000u),
               (unsigned long)(low >> 32 & 0xffffu), (unsigned long)(low & 0xffffffffu));
}

static long show_uuid(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    print_uuid(text, cpu_random64(), cpu_random64());
    return 0;
}

static long show_boot_id(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    static uint64_t id[2];

    mutex_lock(&text_mutex);
    if (id[0] == 0) {
        id[0] = cpu_random64() | 1u;
        id[1] = cpu_random64();
    }
    mutex_unlock(&text_mutex);
    print_uuid(text, id[0], id[1]);
    return 0;
}

static long show_entropy(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    proc_print(text, "256\n");
    return 0;
}

static long show_file_max(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    proc_print(text, "9223372036854775807\n");
    return 0;
}

static long show_nr_open(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    proc_print(text, "%u\n", FILES_MAX);
    return 0;
}

static long show_pipe_max(struct proc_text *text, VLI_UNUSED struct proc_key key)
{
    proc_print(text, "%u\n", PIPE_BYTES_MAX);
    return 0;
}

static const struct proc_entry random_entries[] = {
    {.name = "boot_id", .mode = S_IFREG | 0444, .show = show_boot_id},
    {.name = "entropy_avail", .mode = S_IFREG | 0444, .show = show_entropy},
    {.name = "uuid", .mode = S_IFREG | 0444, .show = show_uuid},
    {.name = NULL}};

static const struct proc_entry kernel_entries[] = {
    {.name = "cap_last_cap", .mode = S_IFREG | 0444, .show = show_cap_last},
    {.name = "core_pattern",
     .mode = S_IFREG | 0644,
     .show = show_core_pattern,
     .store = store_core_pattern},
    {.name = "domainname",
     .mode = S_IFREG | 0644,
     .show = show_domainname,
     .store = store_domainname},
    {.name = "hostname", .mode = S_IFREG | 0644, .show = show_hostname, .store = store_hostname},
    {.name = "ngroups_max", .mode = S_IFREG | 0444, .show = show_ngroups_max},
    {.name = "osrelease", .mode = S_IFREG | 0444, .show = show_osrelease},
    {.name = "ostype", .mode = S_IFREG | 0444, .show = show_ostype},
    {.name = "pid_max", .mode = S_IFREG | 0444, .show = show_pid_max},
    {.name = "random", .mode = S_IFDIR | 0555, .children = random_entries},
    {.name = "randomize_va_space",
     .mode = S_IFREG | 0644,
     .show = show_randomize,
     .store = store_randomize},
    {.name = "tainted", .mode = S_IFREG | 0444, .show = show_zero},
    {.name = "threads-max", .mode = S_IFREG | 0444, .show = show_pid_max},
    {.name = "version", .mode = S_IFREG | 0444, .show = show_osversion},
    {.name = NULL}};

static const struct proc_entry vm_entries[] = {
    {.name = "drop_caches", .mode = S_IFREG | 0200, .show = show_zero, .store = store_drop_caches},
    {.name = "max_map_count", .mode = S_IFREG | 0444, .show = show_map_count},
    {.name = "mmap_min_addr", .mode = S_IFREG | 0444, .show = show_mmap_min},
    {.name = "nr_hugepages", .mode = S_IFREG | 0444, .show = show_zero},
    {.name = "overcommit_memory",
     .mode = S_IFREG | 0644,
     .show = show_overcommit,
     .store = store_overcommit},
    {.name = "overcommit_ratio",
     .mode = S_IFREG | 0644,
     .show = show_overcommit_ratio,
     .store = store_overcommit_ratio},
    {.name = "swappiness",
     .mode = S_IFREG | 0644,
     .show = show_swappiness,
     .store = store_swappiness},
    {.name = NULL}};

static const struct proc_entry fs_entries[] = {
    {.name = "file-max", .mode = S_IFREG | 0444, .show = show_file_max},
    {.name = "nr_open", .mode = S_IFREG | 0444, .show = show_nr_open},
    {.name = "pipe-max-size", .mode = S_IFREG | 0444, .show = show_pipe_max},
    {.name = NULL}};

const struct proc_entry proc_sys_entries[] = {
    {.name = "fs", .mode = S_IFDIR | 0555, .children = fs_entries},
    {.name = "kernel", .mode = S_IFDIR | 0555, .children = kernel_entries},
    {.name = "vm", .mode = S_IFDIR | 0555, .children = vm_entries},
    {.name = NULL}};
