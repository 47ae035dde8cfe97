/*
 * host.h - the contract: what the embedder supplies, function by function.
 *
 * Tier 0 is five functions (and memcpy, memmove, memset, memcmp, which compilers call anyway).
 * Everything beyond has a weak default in the library that works on one CPU without interrupts,
 * sleeping or an MMU; supply the real one when the machine has it. docs/porting.md walks through
 * them. vl_selftest() tells which one is wrong.
 *
 * Each hot function may be inline: name a header by -DVL_HOST_INLINE='"my_host.h"', define there
 *     static inline unsigned vl_host_cpu_id(void) { ... }
 *     #define vl_host_cpu_id vl_host_cpu_id
 * and the declaration below steps aside.
 *
 * "Any context": thread, interrupt handler, with or without core locks held. The core calls no
 * host function while it holds a core lock unless its comment says "under core locks".
 */
#ifndef VELLUM_HOST_H
#define VELLUM_HOST_H

#include <vellum/types.h>

/* ------------------------------------------------------------------ tier 0: a first page */

enum vl_log_level { VL_LOG_ERROR, VL_LOG_WARNING, VL_LOG_INFO, VL_LOG_DEBUG };

/* Zones are numbered from the most restricted (0) upwards; a request names the highest zone that
 * it accepts and falls back to lower ones. Zones of different nodes have different numbers, too
 * (vl_host_zone_node()): the more restricted ones of all nodes come before the others. */
#define VL_ZONES_MAX 16u

/* What a range of addresses is to the core. */
enum vl_range_kind {
    /* Usable RAM. */
    VL_RANGE_FREE,
    /* RAM that is not handed out until vl_frame_release_reserved(): an initrd, boot code. */
    VL_RANGE_RESERVED,
    /* Room for RAM: addresses that may become memory later, by vl_frame_online(), in blocks of the
     * highest order, to which the range is aligned. */
    VL_RANGE_ABSENT,
    /* The descriptors and all other side data go here and nowhere else; it is never handed out.
     * One at most, of vl_frame_side_bytes() at least. It reads as zero when vl_init() is called,
     * and the core touches no more of it than belongs to the memory that is there: a reserve of any
     * size costs what is online. */
    VL_RANGE_SIDE
};

/* A range of addresses, page-aligned; end is exclusive. */
struct vl_range {
    struct vl_pa start;
    struct vl_pa end;
    uint32_t zone; /* 0 … VL_ZONES_MAX - 1 */
    uint32_t kind; /* enum vl_range_kind */
};

/* Core's state of one thread of the host: embed it in the thread, zeroed, and return it from
 * vl_host_thread(). Only the core writes it, except that the host may set VL_THREAD_KILLED. */
struct vl_thread {
    _Atomic uint32_t flags; /* VL_THREAD_* */
    uint16_t depth;         /* sleeping locks held (debug builds) */
    uint16_t pad;
    uint8_t ranks[16]; /* their ranks, outermost first (debug builds) */
};
#define VL_THREAD_RECLAIM 1u /* inside the reclaim function: no recursion, may go below min */
#define VL_THREAD_KILLED  2u /* being killed: may use the reserve to exit */
#define VL_THREAD_SHRINK  4u /* inside a shrinker: none is called */

#if defined(VL_HOST_INLINE)
#include VL_HOST_INLINE
#endif

/**
 * vl_host_panic() - the core found its own invariant broken; stop the machine.
 * Context: any, under core locks. Does not return.
 */
_Noreturn void vl_host_panic(const char *message);

/**
 * vl_host_log() - one line for the log, without its newline.
 * Context: any, under core locks; must not allocate from the core.
 */
void vl_host_log(enum vl_log_level level, const char *line);

/**
 * vl_host_phys_to_virt() - where the kernel sees a physical address.
 * Must be valid for all memory of vl_host_memory_ranges(), and linear within each range. A header
 * named by VL_HOST_INLINE may define VL_HOST_PHYS_LINEAR where all ranges have the same offset,
 * which saves vl_kfree() a test.
 * Context: any, under core locks; may not sleep.
 */
#ifndef vl_host_phys_to_virt
void *vl_host_phys_to_virt(struct vl_pa pa);
#endif

/**
 * vl_host_memory_ranges() - the RAM to manage, and room for more: ascending, not overlapping.
 * @out: room for @max ranges.
 * Returns: how many there are; more than @max and the rest is passed over with a log line.
 * Context: vl_init() only.
 */
size_t vl_host_memory_ranges(struct vl_range *out, size_t max);

/**
 * vl_host_bootstrap() - a buffer for what must exist before the first frame does, 4 KiB at least,
 * page-aligned, zeroed, kept for ever, outside of the ranges or in a reserved one. Descriptors do
 * not come from it: they are carved from the ranges, or lie in the range of kind SIDE.
 * Context: vl_init() only.
 */
void *vl_host_bootstrap(size_t *out_bytes);

/* ------------------------------------------------------------------------- tier 1: SMP */

/** vl_host_cpu_id() - this CPU, 0 … count - 1. Context: any, under core locks. Default: 0. */
#ifndef vl_host_cpu_id
unsigned vl_host_cpu_id(void);
#endif

/** vl_host_cpu_count() - CPUs that may ever call; ≤ VL_CPUS_MAX. Context: vl_init(). Default: 1. */
unsigned vl_host_cpu_count(void);

/**
 * vl_host_percpu_area() - memory of one CPU for the core: VL_PERCPU_BYTES, aligned to 64, zeroed
 * before vl_init(). With VL_HOST_PERCPU_GS (x86-64: the constant offset from the %gs base to this
 * area) the core addresses its per-CPU data by one instruction.
 * Context: any, under core locks. Default: one static area for CPU 0.
 */
#ifndef vl_host_percpu_area
void *vl_host_percpu_area(unsigned cpu);
#endif
#define VL_PERCPU_BYTES 16384u

/**
 * vl_host_cpu_call() - run @fn(@arg, cpu) once for each CPU of @mask and return when all have run.
 * Each runs on its own CPU, in an interrupt or with interrupts off; for a CPU that is switched off
 * another may run it in its stead, if the CPU cannot come on meanwhile. @fn may take spin locks and
 * does not sleep. For vl_drain_all() and the like: what a CPU keeps, only that CPU can give back.
 * Context: thread, interrupts on, no core lock held; one call may wait for another.
 * Default: runs @fn for this CPU alone, so that what other CPUs keep stays there.
 */
void vl_host_cpu_call(const struct vl_cpumask *mask, void (*fn)(void *arg, unsigned cpu),
                      void *arg);

/*
 * Memory nodes. On a machine where memory is nearer to some CPUs than to others, the CPUs and the
 * memory near to them make a node. A zone is of one node: the ranges of two nodes are in zones of
 * their own, also where they are alike. So a host that knows nothing of nodes need not say
 * anything.
 */
#define VL_NODES_MAX 16u

/** vl_host_cpu_node() - the node of a CPU, 0 … VL_NODES_MAX - 1; one without memory is a node, too.
 * Context: vl_init() and vl_selftest(); no core lock held. Default: 0. */
unsigned vl_host_cpu_node(unsigned cpu);

/** vl_host_zone_node() - the node of all memory of a zone, 0 … VL_NODES_MAX - 1.
 * Context: vl_init() and vl_selftest(); no core lock held. Default: 0. */
unsigned vl_host_zone_node(unsigned zone);

/**
 * vl_host_node_distance() - how far memory of node @to is from CPUs of node @from, in any unit.
 * A CPU's requests go to other nodes in this order when its own has nothing to spare; where two are
 * as far, the next higher number comes first, and 0 after the highest: so each node overflows into
 * another one. Its own node is always the first.
 * Context: vl_init() and vl_selftest(); no core lock held. Default: 10 to itself, 20 to any other.
 */
unsigned vl_host_node_distance(unsigned from, unsigned to);

/*
 * VL_HOST_RESTART - define it in the header named by VL_HOST_INLINE when each interrupt that comes
 * from kernel mode passes the interrupted address through vl_restart(), before anything that may
 * use the core or switch threads: <vellum/restart.h>. The fast paths of objects then change this
 * CPU's words by plain loads and stores. Without it they turn interrupts off instead, which costs
 * about ten instructions more.
 */

/** vl_host_irq_save() - disable interrupts; returns what restore needs. Default: nothing. */
#ifndef vl_host_irq_save
unsigned long vl_host_irq_save(void);
#endif
/** vl_host_irq_restore() - back to what the matching save found. */
#ifndef vl_host_irq_restore
void vl_host_irq_restore(unsigned long flags);
#endif
/** vl_host_preempt_off() - the thread stays on this CPU until the matching on; nests. */
#ifndef vl_host_preempt_off
void vl_host_preempt_off(void);
#endif
/** vl_host_preempt_on() - ends the matching off; may switch threads when it was the last. */
#ifndef vl_host_preempt_on
void vl_host_preempt_on(void);
#endif
/** vl_host_cpu_relax() - a pause inside a spin loop. Context: any, under core locks. */
#ifndef vl_host_cpu_relax
void vl_host_cpu_relax(void);
#endif
/** vl_host_clock_ns() - monotonic nanoseconds since any start. Context: any. Default: 0 always. */
#ifndef vl_host_clock_ns
uint64_t vl_host_clock_ns(void);
#endif

/* --------------------------------------------------------------------- tier 2: sleeping */

/**
 * vl_host_wait() - sleep while *@word equals @expected, as a futex does.
 * @timeout_ns: longest sleep; UINT64_MAX for none.
 * May return early for no reason. The check and the going to sleep are one step as seen by
 * vl_host_wake(). Not interruptible by signals.
 * Context: thread; no spin lock held; outer sleeping locks may be held.
 * Returns: VL_OK or VL_ETIMEDOUT. Default: returns VL_OK at once (a spin).
 */
enum vl_status vl_host_wait(const _Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ns);

/** vl_host_wake() - wake up to @count sleepers on @word. Context: any but under spin locks. */
void vl_host_wake(const _Atomic uint32_t *word, unsigned count);

/** vl_host_thread() - the current thread's struct vl_thread. Context: thread or interrupt. */
#ifndef vl_host_thread
struct vl_thread *vl_host_thread(void);
#endif

/** vl_host_may_sleep() - is this a context in which vl_host_wait() is allowed? Default: true. */
bool vl_host_may_sleep(void);

/* Work to run once, later, in a thread; embed it, the core owns it until it ran. */
struct vl_work {
    struct vl_work *next;
    void (*run)(struct vl_work *work);
};

/** vl_host_defer() - run @work in a thread soon. Context: any, under core locks. Default: at once.
 */
void vl_host_defer(struct vl_work *work);

/* -------------------------------------------------------------------------- tier 3: MMU */

/* A batch of address ranges to drop from TLBs; end is exclusive. */
struct vl_flush_range {
    vl_va start;
    vl_va end;
};

/**
 * vl_host_table_switch() - make @root the active page table of this CPU (x86-64: CR3).
 * Context: preemption off. Default: nothing.
 */
#ifndef vl_host_table_switch
void vl_host_table_switch(struct vl_pa root);
#endif

/**
 * vl_host_flush_remote() - drop translations from the TLBs of the CPUs of @mask but this one, and
 * return when all have done so. Each runs vl_tlb_flush_local() with the same ranges, where it
 * finds @root active; one that does not have @root active need do nothing, if switching to @root
 * drops everything of it that its TLB still holds.
 * @count: 0 means everything of @root.
 * Context: thread, interrupts on, preemption off, no spin lock held. Default: nothing (one CPU).
 */
void vl_host_flush_remote(const struct vl_cpumask *mask, struct vl_pa root,
                          const struct vl_flush_range *ranges, size_t count);

/* ----------------------------------------------------------------------- tier 6: policy */

/**
 * vl_host_out_of_memory() - a request of @frames frames that may wait found nothing, after
 * reclaim. Choose a victim and start killing it, or do nothing.
 * Context: thread, no locks held; may sleep.
 * Returns: true when memory may come back and the request is worth another try.
 * Default: false.
 */
bool vl_host_out_of_memory(uint64_t frames);

/* ----------------------------------------------------------- events, in builds with VL_EVENTS */

enum vl_event {
    VL_EVENT_FRAME_ALLOC, /* a: frame number, b: order */
    VL_EVENT_FRAME_FREE,  /* a: frame number, b: order; before anybody can get it again */
    VL_EVENT_PTE_SET,     /* a: where the entry itself is (a kernel address), b: new value */
    VL_EVENT_PTE_CLEAR,   /* a: where the entry itself is, b: old value; a change is both */
    VL_EVENT_FLUSH,       /* a: root of the table, b: start of the range; all CPUs have done it */
    VL_EVENT_TABLE_FREE   /* a: frame number of a table page; before it can be used again */
};

/** vl_host_event() - VL_EVENTS builds tell a simulator what happens. Context: any, under locks. */
void vl_host_event(enum vl_event event, uint64_t a, uint64_t b);

/** vl_host_alloc_fails() - VL_EVENTS builds ask before each allocation whether it shall fail, so
 * that a simulator reaches every error path. Context: any, under locks. */
bool vl_host_alloc_fails(void);

#endif
