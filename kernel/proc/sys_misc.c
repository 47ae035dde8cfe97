/*
 * sys_misc.c - what the machine and the kernel are, and small services: uname, sysinfo, prctl,
 * arch_prctl, getrandom, membarrier, reboot, the log.
 */
#include "kernel/boot/boot.h"
#include "kernel/proc/internal.h"

/* --------------------------------------------------------------------------------- uname */

#define NAME_BYTES UNAME_BYTES

struct user_utsname {
    char sysname[NAME_BYTES];
    char nodename[NAME_BYTES];
    char release[NAME_BYTES];
    char version[NAME_BYTES];
    char machine[NAME_BYTES];
    char domainname[NAME_BYTES];
};

#if VL_SMP
#define KIND "#1 SMP PREEMPT"
#else
#define KIND "#1 PREEMPT"
#endif

static struct user_utsname utsname = {
    .sysname = "Linux",
    .nodename = "vellum",
    .release = "6.12.0-vellum",
    .version = KIND " Vellum " VL_VERSION,
    .machine = "x86_64",
    .domainname = "(none)",
};
static struct mutex utsname_mutex = MUTEX_INIT(utsname_mutex);

const char *kernel_release(void)
{
    return utsname.release;
}

void uname_text(enum uname_field field, char *out)
{
    mutex_lock(&utsname_mutex);
    memcpy(out, (const char *)&utsname + field * NAME_BYTES, NAME_BYTES);
    mutex_unlock(&utsname_mutex);
}

void uname_set(enum uname_field field, const char *text, size_t len)
{
    char *name = (char *)&utsname + field * NAME_BYTES;

    mutex_lock(&utsname_mutex);
    memset(name, 0, NAME_BYTES);
    memcpy(name, text, len < NAME_BYTES ? len : NAME_BYTES - 1);
    mutex_unlock(&utsname_mutex);
}

SYSCALL(uname)
{
    struct user_utsname copy;

    mutex_lock(&utsname_mutex);
    copy = utsname;
    mutex_unlock(&utsname_mutex);
    return (long)copy_to_user((uint64_t)a, &copy, sizeof(copy));
}

static long name_set(char *name, uint64_t user, long len)
{
    char copy[NAME_BYTES] = {0};

    if (!capable_root()) {
        return -EPERM;
    }
    if (len < 0 || len >= (long)NAME_BYTES) {
        return -EINVAL;
    }
    if (copy_from_user(copy, user, (size_t)len) != VL_OK) {
        return -EFAULT;
    }
    mutex_lock(&utsname_mutex);
    memcpy(name, copy, NAME_BYTES);
    mutex_unlock(&utsname_mutex);
    return 0;
}

SYSCALL(sethostname)
{
    return name_set(utsname.nodename, (uint64_t)a, (int)b);
}

SYSCALL(setdomainname)
{
    return name_set(utsname.domainname, (uint64_t)a, (int)b);
}

/* ------------------------------------------------------------------------------- sysinfo */

struct user_sysinfo {
    int64_t uptime;
    uint64_t loads[3]; /* fixed point, 16 bits of fraction */
    uint64_t total_ram;
    uint64_t free_ram;
    uint64_t shared_ram;
    uint64_t buffer_ram;
    uint64_t total_swap;
    uint64_t free_swap;
    uint16_t processes;
    uint16_t pad[3];
    uint64_t total_high;
    uint64_t free_high;
    uint32_t unit;
    uint32_t tail;
};
_Static_assert(sizeof(struct user_sysinfo) == 112, "struct sysinfo");

SYSCALL(sysinfo)
{
    struct user_sysinfo info = {0};
    struct vl_frame_counts counts;
    unsigned threads;

    vl_frame_counts(&counts);
    (void)process_count(&threads);
    info.uptime = (int64_t)(clock_ns() / NS_PER_SECOND);
    info.total_ram = counts.managed * VL_PAGE_SIZE;
    info.free_ram = (counts.free_zones + counts.free_stock) * VL_PAGE_SIZE;
    info.processes = (uint16_t)threads;
    info.unit = 1;
    return (long)copy_to_user((uint64_t)a, &info, sizeof(info));
}

/* --------------------------------------------------------------------------------- prctl */

enum prctl_option {
    PR_SET_PDEATHSIG = 1,
    PR_GET_PDEATHSIG = 2,
    PR_GET_DUMPABLE = 3,
    PR_SET_DUMPABLE = 4,
    PR_GET_KEEPCAPS = 7,
    PR_SET_KEEPCAPS = 8,
    PR_SET_NAME = 15,
    PR_GET_NAME = 16,
    PR_GET_SECCOMP = 21,
    PR_CAPBSET_READ = 23,
    PR_SET_TIMERSLACK = 29,
    PR_GET_TIMERSLACK = 30,
    PR_SET_CHILD_SUBREAPER = 36,
    PR_GET_CHILD_SUBREAPER = 37,
    PR_SET_NO_NEW_PRIVS = 38,
    PR_GET_NO_NEW_PRIVS = 39,
    PR_SET_THP_DISABLE = 41,
    PR_GET_THP_DISABLE = 42,
    PR_SET_PTRACER = 0x59616d61,
    PR_SET_VMA = 0x53564d41
};

static long prctl_name(long option, uint64_t user)
{
    struct thread *thread = current();
    char name[16] = {0};
    long len;

    if (option == PR_GET_NAME) {
        return (long)copy_to_user(user, thread->name, sizeof(thread->name));
    }
    len = strncpy_from_user(name, user, sizeof(name) - 1);
    if (len < 0) {
        return len;
    }
    memcpy(thread->name, name, sizeof(name));
    return 0;
}

static long prctl_subreaper(bool set, uint64_t value)
{
    struct process *process = current_process();
    unsigned long flags;

    if (!set) {
        return (long)put_user32(value, process->is_subreaper);
    }
    flags = proc_lock();
    process->is_subreaper = value != 0;
    proc_unlock(flags);
    return 0;
}

SYSCALL(prctl)
{
    struct process *process = current_process();

    switch ((int)a) {
    case PR_SET_PDEATHSIG:
        if ((unsigned long)b > SIGNAL_MAX) {
            return -EINVAL;
        }
        process->parent_death_signal = (uint32_t)b;
        return 0;
    case PR_GET_PDEATHSIG:
        return (long)put_user32((uint64_t)b, process->parent_death_signal);
    case PR_GET_DUMPABLE:
        return (long)process->dumpable;
    case PR_SET_DUMPABLE:
        if (b != 0 && b != 1) {
            return -EINVAL;
        }
        process->dumpable = (uint32_t)b;
        return 0;
    case PR_SET_NAME:
    case PR_GET_NAME:
        return prctl_name(a, (uint64_t)b);
    case PR_GET_KEEPCAPS:
        return (long)process->keep_caps;
    case PR_GET_SECCOMP:
        return 0;
    case PR_CAPBSET_READ:
        return b >= 0 && b <= 40 ? 1 : -EINVAL;
    case PR_GET_TIMERSLACK:
        return process->timer_slack_ns != 0 ? (long)process->timer_slack_ns : 50000;
    case PR_SET_TIMERSLACK: /* timers are exact whatever it says */
        process->timer_slack_ns = b > 0 ? (uint64_t)b : 0;
        return 0;
    case PR_SET_THP_DISABLE: /* there are no transparent huge pages */
        return c != 0 || d != 0 || e != 0 ? -EINVAL : 0;
    case PR_GET_THP_DISABLE:
        return b != 0 || c != 0 || d != 0 || e != 0 ? -EINVAL : 1;
    case PR_SET_KEEPCAPS:
        if (b != 0 && b != 1) {
            return -EINVAL;
        }
        process->keep_caps = (uint32_t)b;
        return 0;
    case PR_SET_CHILD_SUBREAPER:
    case PR_GET_CHILD_SUBREAPER:
        return prctl_subreaper((int)a == PR_SET_CHILD_SUBREAPER, (uint64_t)b);
    case PR_SET_NO_NEW_PRIVS:
        if (b != 1 || c != 0 || d != 0 || e != 0) {
            return -EINVAL;
        }
        process->no_new_privs = 1;
        return 0;
    case PR_GET_NO_NEW_PRIVS:
        return (long)process->no_new_privs;
    case PR_SET_PTRACER: /* nobody can trace anybody */
    case PR_SET_VMA:     /* Linux without names of anonymous areas */
    default:
        return -EINVAL;
    }
}

enum arch_prctl_code { ARCH_SET_GS = 0x1001, ARCH_SET_FS, ARCH_GET_FS, ARCH_GET_GS };

SYSCALL(arch_prctl)
{
    switch ((int)a) {
    case ARCH_SET_GS:
    case ARCH_SET_FS:
        if ((uint64_t)b >= USER_END) {
            return -EPERM;
        }
        if ((int)a == ARCH_SET_FS) {
            thread_set_fs_base((uint64_t)b);
        } else {
            thread_set_gs_base((uint64_t)b);
        }
        return 0;
    case ARCH_GET_FS:
        return (long)put_user64((uint64_t)b, thread_fs_base());
    case ARCH_GET_GS:
        return (long)put_user64((uint64_t)b, thread_gs_base());
    default:
        return -EINVAL;
    }
}

SYSCALL(personality)
{
    struct process *process = current_process();
    uint32_t old = process->personality;

    if ((uint32_t)a != UINT32_MAX) {
        process->personality = (uint32_t)a;
    }
    return (long)old;
}

/* ----------------------------------------------------------------------------- getrandom */

#define GRND_NONBLOCK 1u
#define GRND_RANDOM   2u
#define GRND_INSECURE 4u

/* Each word is drawn from the CPU's own source; without one, see cpu_random64(). */
void random_fill(void *out, size_t len)
{
    unsigned char *at = out;

    while (len != 0) {
        uint64_t word = cpu_random64();
        size_t part = len < sizeof(word) ? len : sizeof(word);

        memcpy(at, &word, part);
        at += part;
        len -= part;
    }
}

SYSCALL(getrandom)
{
    unsigned char buffer[256];
    size_t len = (size_t)b > 0x7fffffffu ? 0x7fffffffu : (size_t)b;
    size_t done = 0;
    uint32_t how = (uint32_t)c;

    if ((how & ~(GRND_NONBLOCK | GRND_RANDOM | GRND_INSECURE)) != 0 ||
        (how & (GRND_RANDOM | GRND_INSECURE)) == (GRND_RANDOM | GRND_INSECURE)) {
        return -EINVAL;
    }
    while (done < len) {
        size_t part = len - done < sizeof(buffer) ? len - done : sizeof(buffer);

        random_fill(buffer, part);
        if (copy_to_user((uint64_t)a + done, buffer, part) != VL_OK) {
            return done != 0 ? (long)done : -EFAULT;
        }
        done += part;
        if (done >= 256 && thread_signal_pending(current())) {
            break;
        }
    }
    return (long)done;
}

/* ---------------------------------------------------------------------------- membarrier */

enum membarrier_command {
    MEMBARRIER_QUERY = 0,
    MEMBARRIER_GLOBAL = 1,
    MEMBARRIER_GLOBAL_EXPEDITED = 2,
    MEMBARRIER_REGISTER_GLOBAL_EXPEDITED = 4,
    MEMBARRIER_PRIVATE_EXPEDITED = 8,
    MEMBARRIER_REGISTER_PRIVATE_EXPEDITED = 16
};

static void barrier_here(VLI_UNUSED void *arg, VLI_UNUSED unsigned cpu)
{
    atomic_thread_fence(memory_order_seq_cst);
}

/* Every CPU passes a barrier before this returns: an interrupt to each. */
static void barrier_everywhere(void)
{
    struct vl_cpumask all = {{0}};
    unsigned cpu;

    for (cpu = 0; cpu < cpu_count(); cpu++) {
        all.word[cpu / 64] |= (uint64_t)1 << (cpu % 64);
    }
    atomic_thread_fence(memory_order_seq_cst);
    vl_host_cpu_call(&all, barrier_here, NULL);
}

SYSCALL(membarrier)
{
    struct process *process = current_process();

    if (b != 0) {
        return -EINVAL;
    }
    switch ((int)a) {
    case MEMBARRIER_QUERY:
        return MEMBARRIER_GLOBAL | MEMBARRIER_GLOBAL_EXPEDITED |
               MEMBARRIER_REGISTER_GLOBAL_EXPEDITED | MEMBARRIER_PRIVATE_EXPEDITED |
               MEMBARRIER_REGISTER_PRIVATE_EXPEDITED;
    case MEMBARRIER_REGISTER_GLOBAL_EXPEDITED:
        return 0;
    case MEMBARRIER_REGISTER_PRIVATE_EXPEDITED:
        process->membarrier = 1;
        return 0;
    case MEMBARRIER_PRIVATE_EXPEDITED:
        if (process->membarrier == 0) {
            return -EPERM;
        }
        barrier_everywhere();
        return 0;
    case MEMBARRIER_GLOBAL:
    case MEMBARRIER_GLOBAL_EXPEDITED:
        barrier_everywhere();
        return 0;
    default:
        return -EINVAL;
    }
}

/* -------------------------------------------------------------------------------- reboot */

#define REBOOT_MAGIC1    0xfee1deadu
#define REBOOT_RESTART   0x01234567u
#define REBOOT_HALT      0xcdef0123u
#define REBOOT_CAD_ON    0x89abcdefu
#define REBOOT_CAD_OFF   0x00000000u
#define REBOOT_POWER_OFF 0x4321fedcu
#define REBOOT_RESTART2  0xa1b2c3d4u

static bool reboot_magic2_is_valid(uint32_t magic)
{
    return magic == 672274793u || magic == 85072278u || magic == 369367448u || magic == 537993216u;
}

SYSCALL(reboot)
{
    if (!capable_root()) {
        return -EPERM;
    }
    if ((uint32_t)a != REBOOT_MAGIC1 || !reboot_magic2_is_valid((uint32_t)b)) {
        return -EINVAL;
    }
    switch ((uint32_t)c) {
    case REBOOT_RESTART:
    case REBOOT_RESTART2:
        printk(VL_LOG_INFO, "reboot: Restarting system");
        machine_restart();
    case REBOOT_HALT:
        printk(VL_LOG_INFO, "reboot: System halted");
        machine_halt();
    case REBOOT_POWER_OFF:
        printk(VL_LOG_INFO, "reboot: Power down");
        machine_poweroff();
    case REBOOT_CAD_ON:
    case REBOOT_CAD_OFF:
        return 0;
    default:
        return -EINVAL;
    }
}

/* ----------------------------------------------------------------------------- refusing */

/* Libcs do without restartable sequences when they are not there. */
SYSCALL(rseq)
{
    return -ENOSYS;
}

/* ------------------------------------------------------------------------------- the log */

#define SYSLOG_READ_ALL    3
#define SYSLOG_READ_CLEAR  4
#define SYSLOG_CLEAR       5
#define SYSLOG_SIZE_UNREAD 9
#define SYSLOG_SIZE_BUFFER 10
#define LOG_CHUNK_BYTES    512u
#define LOG_BYTES_MAX      65536u

static size_t log_bytes(void)
{
    char chunk[LOG_CHUNK_BYTES];
    size_t total = 0;
    size_t got;

    do {
        got = printk_read(chunk, sizeof(chunk), total);
        total += got;
    } while (got == sizeof(chunk) && total < LOG_BYTES_MAX);
    return total;
}

/* The last @len bytes of the log. */
static long log_copy(uint64_t user, size_t len)
{
    char chunk[LOG_CHUNK_BYTES];
    size_t total = log_bytes();
    size_t at = total > len ? total - len : 0;
    size_t done = 0;

    while (at + done < total) {
        size_t part = total - at - done < sizeof(chunk) ? total - at - done : sizeof(chunk);

        part = printk_read(chunk, part, at + done);
        if (part == 0) {
            break;
        }
        if (copy_to_user(user + done, chunk, part) != VL_OK) {
            return -EFAULT;
        }
        done += part;
    }
    return (long)done;
}

SYSCALL(syslog)
{
    switch ((int)a) {
    case SYSLOG_READ_ALL:
    case SYSLOG_READ_CLEAR:
        return b == 0 || (int)c < 0 ? -EINVAL : log_copy((uint64_t)b, (size_t)c);
    case SYSLOG_SIZE_UNREAD:
    case SYSLOG_SIZE_BUFFER:
        return (int)a == SYSLOG_SIZE_BUFFER ? (long)LOG_BYTES_MAX : (long)log_bytes();
    case 0:
    case 1:
    case SYSLOG_CLEAR:
    case 6:
    case 7:
    case 8:
        return 0;
    default:
        return -EINVAL;
    }
}
