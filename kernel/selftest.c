/*
 * selftest.c - vellum.selftest=1: the kernel tries its own threads, sleeping, timers and copies.
 *
 * Goal: what user programs reach only by luck is driven hard here, on all CPUs at once: switches
 * against wake-ups, exclusive wake-ups, timers cancelled while they run, moves between CPUs,
 * threads that end while others begin. Method: each test starts some threads, which end by
 * themselves; it counts what they did and compares. A failure panics and so ends the guest test
 * with its reason.
 */
#include "kernel/selftest.h"
#include <vellum/vellum.h>
#include "core/base/assert.h"
#include "kernel/boot/boot.h"
#include "kernel/cpu/uaccess.h"
#include "kernel/lib/mem.h"
#include "kernel/lib/printk.h"
#include "kernel/sched/sched.h"
#include "kernel/sched/timer.h"
#include "kernel/sched/wait.h"
#include "kernel/selftest_stacks.h"

#define THREADS 12u
#define ROUNDS  160u
#define MS      1000000u

/* A test's threads: they share a state and count themselves out. */
struct crowd {
    void (*body)(struct crowd *crowd, unsigned number);
    _Atomic unsigned next_number;
    _Atomic unsigned left;
    struct wait_queue over;
    struct mutex mutex;
    struct wait_queue queue;
    _Atomic uint32_t word;
    unsigned counter; /* under mutex */
    unsigned turn;    /* under mutex */
};

static void fail(const char *what, unsigned long got)
{
    panic("selftest: %s (%lu)", what, got);
}

static void check(bool good, const char *what, unsigned long got)
{
    if (!good) {
        fail(what, got);
    }
}

static void crowd_entry(void *arg)
{
    struct crowd *crowd = arg;

    crowd->body(crowd, atomic_fetch_add_explicit(&crowd->next_number, 1, memory_order_relaxed));
    if (atomic_fetch_sub_explicit(&crowd->left, 1, memory_order_acq_rel) == 1) {
        wake_all(&crowd->over);
    }
}

static bool is_over(void *arg)
{
    struct crowd *crowd = arg;

    return atomic_load_explicit(&crowd->left, memory_order_acquire) == 0;
}

static void crowd_run(struct crowd *crowd, unsigned threads,
                      void (*body)(struct crowd *crowd, unsigned number))
{
    memset(crowd, 0, sizeof(*crowd));
    crowd->body = body;
    atomic_init(&crowd->left, threads);
    wait_queue_init(&crowd->over);
    wait_queue_init(&crowd->queue);
    mutex_init(&crowd->mutex);
    for (unsigned i = 0; i < threads; i++) {
        struct thread *thread;

        check(thread_create(&thread, crowd_entry, crowd, "selftest") == VL_OK, "thread_create", i);
        thread_start(thread);
        thread_put(thread);
    }
    check(wait_for(&crowd->over, is_over, crowd, WAIT_UNINTERRUPTIBLE,
                   clock_ns() + 60000ull * MS) == VL_OK,
          "threads do not end; left", atomic_load(&crowd->left));
    /* The last one may still be waking this thread: its stack is this queue's. */
    mutex_lock(&crowd->mutex);
    mutex_unlock(&crowd->mutex);
    (void)(sleep_until_ns(clock_ns() + MS, WAIT_UNINTERRUPTIBLE) == VL_OK);
}

/* --------------------------------------------------------------------------------- the tests */

static void body_mutex(struct crowd *crowd, unsigned number)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned seen;

        mutex_lock(&crowd->mutex);
        seen = crowd->counter;
        if ((i + number) % 16 == 0) {
            thread_yield();
        }
        crowd->counter = seen + 1;
        mutex_unlock(&crowd->mutex);
    }
}

/* Each waits for its turn; everybody is woken each time, or by one exclusive wake-up at a time. */
static void body_turns(struct crowd *crowd, unsigned number)
{
    for (unsigned i = 0; i < ROUNDS / 8; i++) {
        mutex_lock(&crowd->mutex);
        while (crowd->turn % THREADS != number) {
            check(wait_on_mutex(&crowd->queue, &crowd->mutex, WAIT_INTERRUPTIBLE, WAIT_FOREVER) ==
                      VL_OK,
                  "wait_on_mutex", number);
        }
        crowd->turn++;
        mutex_unlock(&crowd->mutex);
        wake_all(&crowd->queue);
    }
}

/* A semaphore: tokens in word; exclusive waiters, one wake-up a token. */
static bool take_token(void *arg)
{
    struct crowd *crowd = arg;
    uint32_t tokens = atomic_load(&crowd->word);

    while (tokens != 0) {
        if (atomic_compare_exchange_weak(&crowd->word, &tokens, tokens - 1)) {
            return true;
        }
    }
    return false;
}

static void body_tokens(struct crowd *crowd, unsigned number)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (number % 2 == 0) {
            atomic_fetch_add(&crowd->word, 1);
            wake_one(&crowd->queue);
        } else {
            check(wait_for(&crowd->queue, take_token, crowd, WAIT_UNINTERRUPTIBLE | WAIT_EXCLUSIVE,
                           WAIT_FOREVER) == VL_OK,
                  "exclusive wait", number);
        }
    }
}

/* A lock of two states over vl_host_wait() and vl_host_wake(). */
static void body_host_wait(struct crowd *crowd, unsigned number)
{
    (void)number;
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint32_t unlocked = 0;

        while (!atomic_compare_exchange_strong(&crowd->word, &unlocked, 1)) {
            (void)vl_host_wait(&crowd->word, 1, i % 4 == 0 ? MS : UINT64_MAX);
            unlocked = 0;
        }
        crowd->counter++;
        atomic_store(&crowd->word, 0);
        vl_host_wake(&crowd->word, 1);
    }
}

static void body_affinity(struct crowd *crowd, unsigned number)
{
    (void)crowd;
    for (unsigned i = 0; i < ROUNDS / 8; i++) {
        unsigned cpu = (i + number) % cpu_count();
        struct vl_cpumask mask = {{0}};

        mask.word[cpu / 64] = 1ull << (cpu % 64);
        check(thread_set_affinity(current(), &mask) == VL_OK, "affinity", cpu);
        for (unsigned k = 0; k < 3; k++) {
            check(vl_host_cpu_id() == cpu, "runs on a forbidden CPU", vl_host_cpu_id());
            thread_yield();
        }
    }
}

struct shared_timer {
    struct timer timer;
    _Atomic unsigned ran;
};
static struct shared_timer shared_timer;

static void shared_timer_run(struct timer *timer)
{
    struct shared_timer *shared = vli_container_of(timer, struct shared_timer, timer);

    if (atomic_fetch_add(&shared->ran, 1) % 3 == 0) {
        timer_arm(timer, clock_ns() + 20000);
    }
}

/* Everybody arms and cancels the same timer; and sleeps, which has its own. */
static void body_timers(struct crowd *crowd, unsigned number)
{
    (void)crowd;
    for (unsigned i = 0; i < ROUNDS / 8; i++) {
        uint64_t start = clock_ns();
        uint64_t wanted = (number * 37 + i) % 200 * 1000;

        timer_arm(&shared_timer.timer, start + wanted / 2);
        if (i % 3 == 0) {
            (void)timer_cancel(&shared_timer.timer);
        }
        check(sleep_until_ns(start + wanted, WAIT_UNINTERRUPTIBLE) == VL_OK, "sleep", number);
        check(clock_ns() - start >= wanted, "woke too early", clock_ns() - start);
    }
}

#ifdef VL_DEBUG
static void set_wake_window(unsigned turns)
{
    sched_wake_window = turns;
}
#else
static void set_wake_window(unsigned turns)
{
    (void)turns;
}
#endif

/* One sleeps over and over; all others wake it without any lock between them, as signals do. */
static void body_hammer(struct crowd *crowd, unsigned number)
{
    static struct thread *_Atomic target;

    if (number == 0) {
        thread_get(current());
        atomic_store(&target, current());
        for (unsigned i = 0; i < ROUNDS * 2; i++) {
            thread_clear_signal(current());
            (void)(sleep_until_ns(clock_ns() + 20000, WAIT_INTERRUPTIBLE) == VL_OK);
        }
        atomic_store(&crowd->word, 1);
        thread_clear_signal(current());
        return;
    }
    while (atomic_load(&crowd->word) == 0) {
        if (atomic_load(&target) != NULL) {
            thread_signal(atomic_load(&target));
        }
        if (number > 3) {
            thread_yield();
        }
    }
    mutex_lock(&crowd->mutex);
    if (++crowd->counter == THREADS - 1) {
        thread_put(atomic_exchange(&target, NULL));
    }
    mutex_unlock(&crowd->mutex);
}

static void count_call(void *arg, unsigned cpu)
{
    check(cpu == vl_host_cpu_id(), "called on the wrong CPU", cpu);
    atomic_fetch_add((_Atomic uint32_t *)arg, 1);
}

static void body_calls(struct crowd *crowd, unsigned number)
{
    struct vl_cpumask all;
    _Atomic uint32_t count = 0;

    (void)crowd;
    memset(&all, 0xff, sizeof(all));
    for (unsigned i = 0; i < ROUNDS / 16; i++) {
        vl_host_cpu_call(&all, count_call, &count);
    }
    check(atomic_load(&count) == ROUNDS / 16 * cpu_count(), "calls", number);
}

/* ---- objects, by threads that are preempted and moved anywhere, and by interrupts ---- */

#define PARCELS 64u

/* On their way from one thread, CPU or interrupt to another; each says its own size and number. */
struct parcel {
    uint32_t size;
    uint32_t number;
    uint32_t check[];
};
static _Atomic(struct parcel *) parcels[PARCELS];
static _Atomic uint32_t parcel_next;
static _Atomic bool parcel_timer_on;

static struct parcel *parcel_make(uint32_t number)
{
    static const uint32_t sizes[] = {16, 24, 64, 200, 1024, 3000};
    uint32_t size = sizes[number % 6];
    struct parcel *parcel = vl_kmalloc(size, VL_ATOMIC);

    if (parcel != NULL) {
        parcel->size = size;
        parcel->number = number;
        for (uint32_t i = 0; i < size / 4 - 2; i++) {
            parcel->check[i] = number + i;
        }
    }
    return parcel;
}

static void parcel_end(struct parcel *parcel)
{
    if (parcel == NULL) {
        return;
    }
    for (uint32_t i = 0; i < parcel->size / 4 - 2; i++) {
        check(parcel->check[i] == parcel->number + i, "an object was overwritten", parcel->size);
    }
    vl_kfree(parcel);
}

static void parcel_swap(void)
{
    uint32_t number = atomic_fetch_add_explicit(&parcel_next, 1, memory_order_relaxed);

    parcel_end(atomic_exchange(&parcels[number * 2654435761u >> 26], parcel_make(number)));
}

/* In the interrupt. */
static void parcel_timer_run(struct timer *timer)
{
    parcel_swap();
    parcel_swap();
    if (atomic_load(&parcel_timer_on)) {
        timer_arm(timer, clock_ns() + 15000);
    }
}

static void body_objects(struct crowd *crowd, unsigned number)
{
    (void)crowd;
    for (unsigned i = 0; i < ROUNDS * 16; i++) {
        parcel_swap();
        if (i % 64 == number) {
            thread_yield();
        }
    }
}

static void test_objects(struct crowd *crowd)
{
    static struct timer timer;

    atomic_store(&parcel_timer_on, true);
    timer_init(&timer, parcel_timer_run);
    timer_arm(&timer, clock_ns() + 15000);
    crowd_run(crowd, THREADS, body_objects);
    atomic_store(&parcel_timer_on, false);
    (void)timer_cancel(&timer);
    (void)timer_cancel(&timer); /* one that ran during the first may have armed it once more */
    for (unsigned i = 0; i < PARCELS; i++) {
        parcel_end(atomic_exchange(&parcels[i], NULL));
    }
}

static void body_stacks(struct crowd *crowd, unsigned number)
{
    (void)crowd;
    selftest_stacks_traffic(number);
}

static void test_stacks(struct crowd *crowd)
{
    selftest_stacks_begin();
    crowd_run(crowd, THREADS, body_stacks);
    selftest_stacks_end();
}

static void body_nothing(struct crowd *crowd, unsigned number)
{
    (void)crowd;
    if (number % 4 == 0) {
        thread_yield();
    }
}

/* --------------------------------------------------------------------------------- in order */

static void test_ends(struct crowd *crowd)
{
    struct vl_frame_counts before;
    struct vl_frame_counts after;

    for (unsigned i = 0; i < 40; i++) {
        crowd_run(crowd, THREADS * 4, body_nothing);
        if (i == 0 || i == 39) {
            threads_drain();
            vl_drain_all();
            vl_frame_counts(i == 0 ? &before : &after);
        }
    }
    check(before.free_zones + before.free_stock == after.free_zones + after.free_stock,
          "threads that ended hold frames",
          before.free_zones + before.free_stock - after.free_zones - after.free_stock);
}

static void test_copies(void)
{
    static const uint64_t bad[] = {0,
                                   0x1000,
                                   USER_END - 4,
                                   USER_END,
                                   0x00007fffffffffff,
                                   0x0000800000000000,
                                   0x8000000000000000,
                                   0xffff800000000000,
                                   0xffffffff80100000,
                                   UINT64_MAX - 3};
    char text[16];
    uint32_t word = 0;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        check(copy_to_user(bad[i], text, sizeof(text)) == VL_EFAULT, "copy_to_user", bad[i]);
        check(copy_from_user(text, bad[i], sizeof(text)) == VL_EFAULT, "copy_from_user", bad[i]);
        check(copy_from_user(text, bad[i], SIZE_MAX) == VL_EFAULT, "copy, huge", bad[i]);
        check(copy_from_user_partial(text, bad[i], 15) == 15, "nothing copied", bad[i]);
        check(clear_user(bad[i], 11) == VL_EFAULT, "clear_user", bad[i]);
        check(strncpy_from_user(text, bad[i], sizeof(text)) == VL_EFAULT, "strncpy", bad[i]);
        check(strnlen_user(bad[i], 100) == VL_EFAULT, "strnlen", bad[i]);
        check(get_user32(&word, bad[i]) == VL_EFAULT, "get_user32", bad[i]);
        check(put_user64(bad[i], 1) == VL_EFAULT, "put_user64", bad[i]);
        check(get_user32_nofault(&word, bad[i]) == VL_EFAULT, "get_user32_nofault", bad[i]);
        check(user_cmpxchg32(bad[i], &word, 1) == VL_EFAULT, "user_cmpxchg32", bad[i]);
    }
}

void selftest_run(void)
{
    static struct crowd crowd;
    size_t len;
    const char *value = boot_option_value("vellum.selftest", &len);

    if (value == NULL) {
        return;
    }
    if (len == 10 && memcmp(value, "no-restart", len) == 0) {
        vl_restart_bounds.bytes = 0;
    }
    test_stacks(&crowd);
    test_copies();
    crowd_run(&crowd, THREADS, body_mutex);
    check(crowd.counter == THREADS * ROUNDS, "mutex", crowd.counter);
    crowd_run(&crowd, THREADS, body_turns);
    check(crowd.turn == THREADS * (ROUNDS / 8), "turns", crowd.turn);
    crowd_run(&crowd, THREADS, body_tokens);
    check(atomic_load(&crowd.word) == 0, "tokens", atomic_load(&crowd.word));
    crowd_run(&crowd, THREADS, body_host_wait);
    check(crowd.counter == THREADS * ROUNDS, "host wait", crowd.counter);
    crowd_run(&crowd, THREADS, body_affinity);
    timer_init(&shared_timer.timer, shared_timer_run);
    crowd_run(&crowd, THREADS, body_timers);
    (void)timer_cancel(&shared_timer.timer);
    check(atomic_load(&shared_timer.ran) != 0, "the shared timer never ran", 0);
    set_wake_window(2000);
    crowd_run(&crowd, THREADS, body_hammer);
    set_wake_window(0);
    crowd_run(&crowd, THREADS, body_calls);
    test_objects(&crowd);
    test_ends(&crowd);
    printk(VL_LOG_WARNING, "selftest: passed");
}
