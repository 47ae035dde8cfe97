/*
 * host.c - the host contract inside a Linux process, and messages.
 *
 * Nothing here allocates, and nothing uses stdio: a message may be about the heap itself.
 */
#include "malloc/face.h"
#include "core/base/log.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 512u

/* Pauses before a waiter sleeps: about as long as a sheaf's exchange under the lock takes. */
#define SPINS 40u

VLI_ALIGNED(VLI_CACHELINE) unsigned char vli_malloc_percpu[VL_PERCPU_BYTES];
_Thread_local struct vl_thread vli_malloc_thread;

/* ------------------------------------------------------------------------------------- messages */

/* Standard error as it was at the start, where the option `stats` is set: many programs close it
 * before the last lines are written. */
static int stderr_copy = -1;
static struct stat stderr_file; /* that it is of */

void vli_say_at_exit(void)
{
    stderr_copy = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 100);
    if (stderr_copy >= 0 && fstat(stderr_copy, &stderr_file) != 0) {
        (void)close(stderr_copy);
        stderr_copy = -1;
    }
}

/* A program may have closed our copy, too, and its number be that of a file that is none of ours.
 */
static bool has_copy(void)
{
    struct stat now;

    return stderr_copy >= 0 && fstat(stderr_copy, &now) == 0 && now.st_dev == stderr_file.st_dev &&
           now.st_ino == stderr_file.st_ino;
}

static void write_line(char *line, size_t length)
{
    int saved = errno;

    length = length < LINE_BYTES - 1 ? length : LINE_BYTES - 1;
    line[length] = '\n';
    if (write(STDERR_FILENO, line, length + 1) < 0 && has_copy() &&
        write(stderr_copy, line, length + 1) < 0) {
        errno = saved; /* there is nobody to tell */
    }
    errno = saved;
}

void vli_say(const char *format, ...)
{
    char line[LINE_BYTES];
    va_list args;
    size_t length;

    va_start(args, format);
    length = vli_format(line, sizeof(line), format, args);
    va_end(args);
    write_line(line, length);
}

void vli_die(const char *format, ...)
{
    char line[LINE_BYTES];
    va_list args;
    size_t length;

    va_start(args, format);
    length = vli_format(line, sizeof(line), format, args);
    va_end(args);
    write_line(line, length);
    abort();
}

_Noreturn void vl_host_panic(const char *message)
{
    vli_die("vellum malloc: %s", message);
}

void vl_host_log(enum vl_log_level level, const char *line)
{
    if (level <= VL_LOG_WARNING) {
        vli_say("vellum malloc: %s", line);
    }
}

/* ---------------------------------------------------------------------------------------- locks */

static long futex(const _Atomic uint32_t *word, int operation, uint32_t value,
                  const struct timespec *timeout)
{
    int saved = errno;
    long result = syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, timeout, NULL, 0);
    int error = errno;

    errno = saved;
    return result < 0 ? -error : result;
}

/* This thread holds all locks around fork(), and the functions that others gave to
 * pthread_atfork() allocate. */
static _Thread_local bool is_forking;

/* Takes a lock that may have sleepers, or says so in it. Returns: what to wait for it to change
 * from, 0 when it was taken. */
static uint32_t take_or_mark(_Atomic uint32_t *word)
{
    uint32_t had = atomic_load_explicit(word, memory_order_relaxed);
    uint32_t marked;

    do {
        marked = had >= VLI_MUTEX_FORK ? VLI_MUTEX_FORK_SLEEP : 2u;
        /* Acquire: pairs with the release in vl_host_unlock(). */
    } while (!atomic_compare_exchange_weak_explicit(word, &had, marked, memory_order_acquire,
                                                    memory_order_relaxed));
    return had == 0 ? 0 : marked;
}

void vli_mutex_wait(_Atomic uint32_t *word)
{
    uint32_t seen;

    if (is_forking && atomic_load_explicit(word, memory_order_relaxed) >= VLI_MUTEX_FORK) {
        return;
    }
    for (unsigned i = 0; i < SPINS; i++) {
        vl_host_cpu_relax();
        if (atomic_load_explicit(word, memory_order_relaxed) == 0 && vl_host_try_lock(word)) {
            return;
        }
    }
    while ((seen = take_or_mark(word)) != 0) {
        (void)futex(word, FUTEX_WAIT, seen, NULL);
    }
}

void vli_mutex_fork_take(_Atomic uint32_t *word)
{
    vl_host_lock(word);
    if (atomic_exchange_explicit(word, VLI_MUTEX_FORK, memory_order_relaxed) == 2) {
        atomic_store_explicit(word, VLI_MUTEX_FORK_SLEEP, memory_order_relaxed);
    }
}

void vli_mutex_fork_all(bool has_all)
{
    is_forking = has_all;
}

void vli_mutex_fork_give(_Atomic uint32_t *word)
{
    /* Release: pairs with the acquires of the next taker. */
    if (atomic_exchange_explicit(word, 0, memory_order_release) == VLI_MUTEX_FORK_SLEEP) {
        vli_mutex_wake(word);
    }
}

void vli_mutex_wake(_Atomic uint32_t *word)
{
    (void)futex(word, FUTEX_WAKE, 1, NULL);
}

enum vl_status vl_host_wait(const _Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ns)
{
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
                               .tv_nsec = (long)(timeout_ns % 1000000000u)};
    long result = futex(word, FUTEX_WAIT, expected, timeout_ns == UINT64_MAX ? NULL : &timeout);

    return result == -ETIMEDOUT ? VL_ETIMEDOUT : VL_OK;
}

void vl_host_wake(const _Atomic uint32_t *word, unsigned count)
{
    (void)futex(word, FUTEX_WAKE, count < INT_MAX ? count : INT_MAX, NULL);
}

uint64_t vl_host_clock_ns(void)
{
    struct timespec now = {0, 0};

    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --------------------------------------------------------------------------------------- memory */

void *vl_host_bootstrap(size_t *out_bytes)
{
    static VLI_ALIGNED(4096) unsigned char buffer[VL_PAGE_SIZE];

    *out_bytes = sizeof(buffer);
    return buffer;
}
