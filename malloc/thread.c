/*
 * thread.c - areas: what each CPU or each thread keeps.
 *
 * Two ways, chosen once at the start, and one fast path (arch/rseq_area.h):
 *
 *   per CPU      glibc has registered restartable sequences for every thread: areas are numbered by
 *                CPU. However many threads there are, what is kept is bounded by the CPUs.
 *   per thread   it has not (an old kernel or libc, a tunable, the option percpu=0): a thread gets
 *                a number at its first slow path, and its area is emptied when it ends.
 *
 *      table entry ──> stopped area        no area yet, or the area is being drained: slow paths
 *                  └─> area of the number  in use         serve each unit from the slabs
 *
 * Draining another CPU's area (vli_slab_areas): its entry is set to the stopped area; then
 * membarrier() restarts whatever sequence runs anywhere, and from then on nobody has the area's
 * address in hand. Threads' own areas can be drained by their threads only.
 *
 * The end of a thread is told by a pthread key, whose destructor empties the area. A thread that
 * allocates in a later destructor has number -2 and is served from the slabs.
 *
 * Locks: area_word guards numbers, what is made, and draining; node locks are taken inside it.
 */
#include "malloc/face.h"
#include "malloc/fast.h"
#include "arch/vfork.h"
#include "core/slab/process.h"
#include "core/base/bits.h"
#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NUMBER_NONE  (-1) /* no area yet */
#define NUMBER_NEVER (-2) /* the thread is ending, or there are no numbers left */

/* What glibc says about its registration; absent in older ones and in others. */
extern const int64_t __rseq_offset VLI_WEAK;
extern const unsigned int __rseq_size VLI_WEAK;

struct vli_slab_percpu vli_area_stopped = VLI_AREA_INITIAL;

_Atomic uint32_t vli_area_word;
static struct vli_slab_percpu *areas;                 /* (A) of all numbers */
static size_t areas_count;                            /* numbers are below this */
static size_t areas_ready;                            /* (A) of these, those that are writable */
static _Atomic uint64_t is_made[VLI_AREAS_MAX / 64u]; /* (A); read without it by who counts */
static bool is_percpu;
static bool has_membarrier;
static _Atomic bool has_key;
static pthread_key_t key;

/* ----------------------------------------------------------------------------- this thread's own
 */

#if !defined(VLI_TSAN)
int64_t vli_rseq_offset;
uint32_t vli_rseq_aborts;
_Thread_local struct vli_rseq vli_rseq_own = {.cpu_id = NUMBER_NONE};
#if !defined(VLI_ENTRY_BY_MAP)
struct vli_slab_percpu *vli_areas[VLI_AREAS_MAX + 2u] = {&vli_area_stopped, &vli_area_stopped};
#endif

/* Number of the area that the fast path would use now. */
static int32_t number_now(void)
{
    return *(volatile int32_t *)&vli_rseq_at(vli_rseq_offset)->cpu_id;
}

static void number_set(int32_t number)
{
    *(volatile int32_t *)&vli_rseq_own.cpu_id = number;
    atomic_signal_fence(memory_order_seq_cst);
}

static struct vli_slab_percpu *entry_of(int32_t number)
{
    return __atomic_load_n(&vli_areas[number + 2], __ATOMIC_RELAXED);
}

/* Release: pairs with the loads of the fast paths, which depend on the address. */
static void entry_set(int32_t number, struct vli_slab_percpu *area)
{
    __atomic_store_n(&vli_areas[number + 2], area, __ATOMIC_RELEASE);
}

int64_t vli_vfork_offset(void)
{
    return vli_malloc_ready() && is_percpu ? vli_rseq_offset : 0;
}

static bool rseq_is_registered(void)
{
    return &__rseq_size != NULL && &__rseq_offset != NULL && __rseq_size != 0 &&
           vli_rseq_at(__rseq_offset)->cpu_id >= 0;
}

static void use_offset(bool of_rseq)
{
    uintptr_t thread = (uintptr_t)vli_rseq_at(0);

    vli_rseq_offset =
        of_rseq ? (int64_t)__rseq_offset : (int64_t)((uintptr_t)&vli_rseq_own - thread);
}
#else
_Thread_local struct vli_slab_percpu *vli_area_own = &vli_area_stopped;
_Thread_local uint32_t vli_area_number;
static _Thread_local int32_t own_number = NUMBER_NONE;

static int32_t number_now(void)
{
    return own_number;
}

static void number_set(int32_t number)
{
    own_number = number;
    vli_area_number = number < 0 ? 0 : (uint32_t)number;
    vli_area_own = number < 0 ? &vli_area_stopped : &areas[number];
}

static struct vli_slab_percpu *entry_of(int32_t number)
{
    return number < 0 ? &vli_area_stopped : &areas[number];
}

static void entry_set(int32_t number, struct vli_slab_percpu *area)
{
    (void)number;
    (void)area;
}

static bool rseq_is_registered(void)
{
    return false;
}

static void use_offset(bool of_rseq)
{
    (void)of_rseq;
}
#endif

/* ---------------------------------------------------------------------------- areas are made */

static uint64_t made_word(size_t w)
{
    return atomic_load_explicit(&is_made[w], memory_order_relaxed);
}

static bool made(size_t number)
{
    return (made_word(number / 64u) >> (number % 64u) & 1u) != 0;
}

static void set_made(size_t number, bool is)
{
    uint64_t bit = (uint64_t)1 << (number % 64u);
    uint64_t word = made_word(number / 64u);

    atomic_store_explicit(&is_made[number / 64u], is ? word | bit : word & ~bit,
                          memory_order_relaxed);
}

/* Areas become writable so many at once, the lowest first. */
#define AREAS_STEP 32u

static bool ready(size_t number)
{
    size_t end = (number + AREAS_STEP) / AREAS_STEP * AREAS_STEP;

    end = end < areas_count ? end : areas_count;
    if (number < areas_ready) {
        return true;
    }
    if (!vli_range_open(areas, end * sizeof(*areas))) {
        return false;
    }
    areas_ready = end;
    return true;
}

/* False when there is no memory for it. */
VL_MUST_CHECK static bool make(size_t number)
{
    int saved = errno;

    if (!ready(number)) {
        errno = saved;
        return false;
    }
    set_made(number, true);
    vli_slab_area_init(&areas[number]);
    entry_set((int32_t)number, &areas[number]);
    return true;
}

static bool make_percpu(void)
{
    int32_t number = number_now();
    bool has;

    if (number < 0 || (uint32_t)number >= areas_count) {
        return false;
    }
    if (entry_of(number) != &vli_area_stopped) {
        return true;
    }
    vl_host_lock(&vli_area_word);
    /* One that is made was being drained until now. */
    has = made((size_t)number) || make((size_t)number);
    vl_host_unlock(&vli_area_word);
    return has;
}

/* A number that no thread has, with its area; NUMBER_NONE where there is no memory for that now,
 * NUMBER_NEVER when all numbers are somebody's. */
static int32_t number_new(void)
{
    int32_t number = NUMBER_NEVER;

    vl_host_lock(&vli_area_word);
    for (size_t w = 0; w < VLI_COUNT_OF(is_made) && number < 0; w++) {
        if (~made_word(w) != 0) {
            number = (int32_t)(w * 64u + vli_bit_lowest(~made_word(w)));
        }
    }
    if (number >= 0 && !make((size_t)number)) {
        number = NUMBER_NONE;
    }
    vl_host_unlock(&vli_area_word);
    return number;
}

static bool make_thread(void)
{
    int32_t number = number_now();

    if (number != NUMBER_NONE) {
        return number >= 0;
    }
    number = number_new();
    number_set(number);
    if (number >= 0 && atomic_load_explicit(&has_key, memory_order_acquire)) {
        /* May allocate, which finds the area in place. Without room for the value the area lives
         * on for the next thread with this number; it is lost, not broken. */
        (void)pthread_setspecific(key, &vli_area_stopped);
    }
    return number >= 0;
}

bool vli_area_make(void)
{
    if (VLI_UNLIKELY(vli_options.secure)) {
        return false; /* nothing is kept: a free is known as one at once */
    }
    return is_percpu ? make_percpu() : make_thread();
}

bool vli_area_is_percpu(void)
{
    return is_percpu;
}

size_t vli_area_count(void)
{
    size_t end = vli_area_end();
    size_t count = 0;

    vl_host_lock(&vli_area_word);
    for (size_t i = 0; i < end; i++) {
        count += made(i) ? 1 : 0;
    }
    vl_host_unlock(&vli_area_word);
    return count;
}

size_t vli_area_end(void)
{
    for (size_t w = VLI_COUNT_OF(is_made); w-- > 0;) {
        uint64_t word = made_word(w);

        if (word != 0) {
            return w * 64u + vli_bit_highest(word) + 1u;
        }
    }
    return 0;
}

const struct vli_slab_percpu *vli_area_at(size_t number)
{
    return made(number) ? &areas[number] : NULL;
}

/* ----------------------------------------------------------------------------------- and drained
 */

static void thread_ends(void *arg)
{
    int32_t number = number_now();

    (void)arg;
    number_set(NUMBER_NEVER);
    if (number < 0) {
        return;
    }
    vli_slab_area_drain(&areas[number], NULL);
    vl_host_lock(&vli_area_word);
    entry_set(number, &vli_area_stopped);
    set_made((size_t)number, false);
    vl_host_unlock(&vli_area_word);
}

static bool barrier(void)
{
    int saved = errno;
    long result;

    result = syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, 0, 0);
    if (result != 0 && errno == EPERM) { /* a child of fork() is not registered */
        (void)syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0);
        result = syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, 0, 0);
    }
    errno = saved;
    return result == 0;
}

/* All CPUs' areas are out of use, then all are back. */
static void set_all(bool in_use, size_t end)
{
    for (size_t i = 0; i < end; i++) {
        if (made(i)) {
            entry_set((int32_t)i, in_use ? &areas[i] : &vli_area_stopped);
        }
    }
}

void vli_slab_areas(void (*fn)(struct vli_slab_percpu *area, void *arg), void *arg)
{
    size_t end;

    if (areas == NULL) { /* slab starts: there are none yet */
        return;
    }
    if (!is_percpu) {
        int32_t number = number_now();

        if (number >= 0) {
            fn(&areas[number], arg);
        }
        return;
    }
    if (!has_membarrier) {
        return;
    }
    vl_host_lock(&vli_area_word);
    end = vli_area_end();
    set_all(false, end);
    if (barrier()) {
        for (size_t i = 0; i < end; i++) {
            if (made(i)) {
                fn(&areas[i], arg);
            }
        }
    }
    set_all(true, end);
    vl_host_unlock(&vli_area_word);
}

/* ------------------------------------------------------------------------------------- the start
 */

/* CPUs' numbers are given by Linux: those of CPUs that nobody runs on cost nothing, and what a
 * thread may run on is not known before it does. Threads' numbers are all used in turn. */
uint32_t vli_slot_numbers(void)
{
    return (uint32_t)(is_percpu ? areas_count : vli_cpus_usable());
}

bool vli_area_start(void)
{
    void *memory;

    is_percpu = vli_options.percpu && rseq_is_registered();
    areas_count = is_percpu ? vli_cpus_possible() : VLI_AREAS_MAX;
    memory = vli_range_close(areas_count * sizeof(*areas));
    if (memory == NULL) {
        return false;
    }
    areas = memory;
    vli_slab_area_init(&vli_area_stopped);
    if (is_percpu) {
        for (size_t i = 0; i < areas_count; i++) {
            entry_set((int32_t)i, &vli_area_stopped);
        }
        has_membarrier =
            syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0) == 0;
    }
    use_offset(is_percpu);
    return true;
}

void vli_area_late(void)
{
    if (!is_percpu && pthread_key_create(&key, thread_ends) == 0) {
        /* Release: pairs with the acquire in make_thread(). */
        atomic_store_explicit(&has_key, true, memory_order_release);
        if (number_now() >= 0) {
            (void)pthread_setspecific(key, &vli_area_stopped);
        }
    }
}

void vli_area_fork_child(void)
{
    int32_t own = number_now();
    size_t end = vli_area_end();

    if (is_percpu) {
        return;
    }
    for (size_t i = 0; i < end; i++) {
        if (made(i) && (int32_t)i != own) {
            vli_slab_area_drain(&areas[i], NULL);
            entry_set((int32_t)i, &vli_area_stopped);
            set_made(i, false);
        }
    }
}
