/*
 * host.c - the host contract (<vellum/host.h>), the part that is not inline.
 *
 * Sleeping on a word: buckets of waiters chosen by the word's address, each with a spin lock. The
 * sleeper queues itself, sets its state, and reads the word again; the waker has changed the word
 * before it looks into the bucket.
 *
 * TLB shootdown: each CPU has one request, since preemption is off while it waits. It puts a bit
 * for itself into the target's word and interrupts the target if the word was empty. A target that
 * has the root in use flushes; one that runs no thread of that space (lazy) leaves the root
 * altogether, so that it is not interrupted again; one that uses another root by now has nothing of
 * it in its TLB, since loading CR3 dropped it (no PCIDs are used). Every CPU of the mask is asked:
 * its answer also says that it has finished any switch that it was in.
 */
#include <vellum/vellum.h>
#include "core/base/assert.h"
#include "core/base/bits.h"
#include "core/base/list.h"
#include "core/base/spinlock.h"
#include "kernel/boot/memory.h"
#include "kernel/cpu/acpi.h"
#include "kernel/cpu/apic.h"
#include "kernel/cpu/cpu.h"
#include "kernel/cpu/io.h"
#include "kernel/cpu/irq.h"
#include "kernel/cpu/paging.h"
#include "kernel/cpu/smp.h"
#include "kernel/host.h"
#include "kernel/lib/printk.h"
#include "kernel/sched/lock.h"
#include "kernel/sched/sched.h"
#include "kernel/sched/timer.h"
#include "kernel/sched/wait.h"

#define BUCKETS         256u
#define BOOTSTRAP_BYTES 16384u

_Noreturn void vl_host_panic(const char *message)
{
    panic("%s", message);
}

void vl_host_log(enum vl_log_level level, const char *line)
{
    if (level != VL_LOG_DEBUG) {
        printk(level, "%s", line);
    }
}

size_t vl_host_memory_ranges(struct vl_range *out, size_t max)
{
    return boot_memory_ranges(out, max);
}

void *vl_host_bootstrap(size_t *out_bytes)
{
    static VLI_ALIGNED(4096) unsigned char buffer[BOOTSTRAP_BYTES];

    *out_bytes = sizeof(buffer);
    return buffer;
}

unsigned vl_host_cpu_count(void)
{
    return smp_known_count();
}

unsigned vl_host_cpu_node(unsigned cpu)
{
    return acpi_cpu_node(cpu_of(cpu)->apic_id);
}

/* As boot_memory_ranges() numbers them. */
unsigned vl_host_zone_node(unsigned zone)
{
    return zone % acpi_info()->node_count;
}

unsigned vl_host_node_distance(unsigned from, unsigned to)
{
    unsigned said =
        from < ACPI_NODES_MAX && to < ACPI_NODES_MAX ? acpi_info()->distances[from][to] : 0;

    return said != 0 ? said : from == to ? 10 : 20;
}

void *vl_host_percpu_area(unsigned cpu)
{
    return cpu_of(cpu)->core_area;
}

uint64_t vl_host_clock_ns(void)
{
    return clock_ns();
}

bool vl_host_may_sleep(void)
{
    return cpu_preempt_depth() == 0 && cpu_irqs_on() && !cpu_in_irq() && !sched_is_idle();
}

/* ------------------------------------------------------------------------------- wait and wake */

struct bucket {
    struct vli_spinlock lock;
    struct vli_list sleepers;
};
static struct bucket buckets[BUCKETS];

struct sleeper {
    struct vli_list link;
    const _Atomic uint32_t *word;
    struct thread *thread;
};

static struct bucket *bucket_of(const _Atomic uint32_t *word)
{
    return &buckets[((uintptr_t)word >> 2 ^ (uintptr_t)word >> 12) % BUCKETS];
}

enum vl_status vl_host_wait(const _Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ns)
{
    struct bucket *bucket = bucket_of(word);
    struct sleeper sleeper = {.word = word, .thread = current()};
    uint64_t now = timeout_ns == UINT64_MAX ? 0 : clock_ns();
    uint64_t deadline = timeout_ns > WAIT_FOREVER - now ? WAIT_FOREVER : now + timeout_ns;
    enum vl_status status = VL_OK;
    unsigned long flags;

    flags = vli_spin_lock_irq(&bucket->lock, KRANK_WAIT);
    vli_list_insert_before(&bucket->sleepers, &sleeper.link);
    atomic_store_explicit(&sleeper.thread->state, THREAD_UNINTERRUPTIBLE, memory_order_seq_cst);
    vli_spin_unlock_irq(&bucket->lock, KRANK_WAIT, flags);
    /* Sequentially consistent: pairs with the waker's change of the word before its fence. */
    if (atomic_load_explicit(word, memory_order_seq_cst) == expected) {
        status = wait_sleep(deadline);
    }
    atomic_store_explicit(&sleeper.thread->state, THREAD_RUNNING, memory_order_relaxed);
    flags = vli_spin_lock_irq(&bucket->lock, KRANK_WAIT);
    vli_list_remove(&sleeper.link);
    vli_spin_unlock_irq(&bucket->lock, KRANK_WAIT, flags);
    return status;
}

void vl_host_wake(const _Atomic uint32_t *word, unsigned count)
{
    struct bucket *bucket = bucket_of(word);
    struct vli_list *at;
    unsigned long flags;

    atomic_thread_fence(memory_order_seq_cst);
    if (*(struct vli_list *volatile *)&bucket->sleepers.next == &bucket->sleepers) {
        return;
    }
    flags = vli_spin_lock_irq(&bucket->lock, KRANK_WAIT);
    vli_list_each (at, &bucket->sleepers) {
        struct sleeper *sleeper = vli_list_entry(at, struct sleeper, link);

        if (count == 0) {
            break;
        }
        if (sleeper->word == word && sched_wake(sleeper->thread, 1u << THREAD_UNINTERRUPTIBLE)) {
            count--;
        }
    }
    vli_spin_unlock_irq(&bucket->lock, KRANK_WAIT, flags);
}

/* ------------------------------------------------------------------------------- deferred work */

static _Atomic(struct vl_work *) deferred; /* last in, first out */
static struct wait_queue deferred_queue = WAIT_QUEUE_INIT(deferred_queue);

void vl_host_defer(struct vl_work *work)
{
    work->next = atomic_load_explicit(&deferred, memory_order_relaxed);
    /* Release: pairs with the acquire in run_deferred(). */
    while (!atomic_compare_exchange_weak_explicit(&deferred, &work->next, work,
                                                  memory_order_release, memory_order_relaxed)) {
    }
    wake_all(&deferred_queue);
}

static bool has_deferred(void *arg)
{
    (void)arg;
    return atomic_load_explicit(&deferred, memory_order_relaxed) != NULL;
}

static void run_deferred(void *arg)
{
    for (;;) {
        struct vl_work *list = atomic_exchange_explicit(&deferred, NULL, memory_order_acquire);

        while (list != NULL) {
            struct vl_work *work = list;

            list = work->next;
            work->run(work);
        }
        (void)(wait_for(&deferred_queue, has_deferred, arg, WAIT_UNINTERRUPTIBLE, WAIT_FOREVER) ==
               VL_OK);
    }
}

/* ------------------------------------------------------------------------------- page tables */

struct flush_request {
    const struct vl_flush_range *ranges;
    size_t count;
    uint64_t root;
    _Atomic uint32_t left;
};
static struct {
    VLI_ALIGNED(64) struct flush_request request; /* its own */
    _Atomic uint64_t wanted_by;                   /* CPUs that wait for it, one bit each */
} flushers[VL_CPUS_MAX];
_Static_assert(VL_CPUS_MAX <= 64, "wanted_by is one word");

void vl_host_table_switch(struct vl_pa root)
{
    struct cpu *cpu = cpu_this();

    /* Whoever asked for a space says so afterwards (thread.c, sched.c); the core itself leaves a
     * space that ends. */
    cpu->space = NULL;
    cpu->active_root = root.a;
    cr3_write(root.a);
}

static void flush_for(struct cpu *cpu, struct flush_request *request)
{
    if (cpu->active_root == request->root) {
        if (cpu->current->space == NULL) {
            vl_space_switch(NULL);
        } else {
            vl_tlb_flush_local(request->ranges, request->count);
        }
    }
    /* Release: the flush is done before the flusher goes on. */
    atomic_fetch_sub_explicit(&request->left, 1, memory_order_release);
}

static void flush_interrupt(void *arg)
{
    struct cpu *cpu = cpu_this();
    uint64_t wanted =
        atomic_exchange_explicit(&flushers[cpu->id].wanted_by, 0, memory_order_acquire);

    (void)arg;
    for (; wanted != 0; wanted &= wanted - 1) {
        flush_for(cpu, &flushers[vli_bit_lowest(wanted)].request);
    }
}

static uint32_t count_bits(uint64_t word)
{
    uint32_t count = 0;

    for (; word != 0; word &= word - 1) {
        count++;
    }
    return count;
}

void vl_host_flush_remote(const struct vl_cpumask *mask, struct vl_pa root,
                          const struct vl_flush_range *ranges, size_t count)
{
    unsigned self = vl_host_cpu_id();
    struct flush_request *request = &flushers[self].request;
    uint64_t targets = mask->word[0] & ~(1ull << self);

    VL_ASSERT_SLOW(cpu_irqs_on() && cpu_preempt_depth() != 0);
    if (targets == 0) {
        return;
    }
    request->ranges = ranges;
    request->count = count;
    request->root = root.a;
    atomic_store_explicit(&request->left, count_bits(targets), memory_order_relaxed);
    for (; targets != 0; targets &= targets - 1) {
        unsigned cpu = vli_bit_lowest(targets);

        /* Release: the request is written before the bit is seen. */
        if (atomic_fetch_or_explicit(&flushers[cpu].wanted_by, 1ull << self,
                                     memory_order_acq_rel) == 0) {
            apic_send(cpu_of(cpu)->apic_id, VECTOR_FLUSH);
        }
    }
    /* Acquire: pairs with the release in flush_for(). */
    while (atomic_load_explicit(&request->left, memory_order_acquire) != 0) {
        vl_host_cpu_relax();
    }
}

/* ------------------------------------------------------------------------------------- start */

void host_init_early(void)
{
    for (unsigned i = 0; i < BUCKETS; i++) {
        vli_spin_init(&buckets[i].lock);
        vli_list_init(&buckets[i].sleepers);
    }
    irq_set_vector(VECTOR_FLUSH, flush_interrupt, NULL);
}

void host_start_threads(void)
{
    struct thread *thread;

    if (thread_create(&thread, run_deferred, NULL, "deferred") != VL_OK) {
        panic("host: no memory for the thread of deferred work");
    }
    thread_start(thread);
    thread_put(thread);
}
