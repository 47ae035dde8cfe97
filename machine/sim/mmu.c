/*
 * mmu.c - the MMU of the simulated machine: walks, TLBs, programs' accesses, flushes.
 *
 * Each CPU has a set-associative TLB (64 sets of 4, replaced at random from the seed) and a small
 * cache of walks down to the leaf table page. Loading a root drops both, as x86 does without PCIDs;
 * global entries are not modelled. A walk sets the accessed and dirty bits by compare-and-exchange,
 * as hardware does, and only in entries that are present at that moment. Sometimes it also loads a
 * neighbour that nobody asked for: a CPU may translate ahead whatever its root shows.
 *
 * An instruction is one step with interrupts off; between two, interrupts and flushes come in. A
 * page fault drops the page's translation, as x86 does, so that a fault on a stale translation
 * with too few rights is not taken twice.
 *
 * Remote flushes go through the machine's interrupts: vl_host_flush_remote() returns when each
 * CPU has run its flush itself. Until then the CPU goes on using what its TLB holds.
 */
#include <string.h>
#include "core/base/bits.h"
#include "machine/sim/mmu_state.h"

/* arch/x86_64/arch/pte.h belongs to the core; the machine has its own reading of the manual (Intel
 * SDM vol. 3, 4.5), so that one mistake is not made twice. */
#define P_BIT     0x001ull
#define W_BIT     0x002ull
#define U_BIT     0x004ull
#define A_BIT     0x020ull
#define D_BIT     0x040ull
#define LARGE_BIT 0x080ull
#define NX_BIT    (1ull << 63)
#define ADDRESS   0x000ffffffffff000ull
#define PAGE      4096ull
#define LEVELS    4u
#define USER_END  (1ull << 47)
#define TRIES_MAX 100000u
/* One walk in so many also loads a neighbour. */
#define AHEAD_ONE_IN 4u

struct sim_mmu sim_mmu[VL_CPUS_MAX];

static enum vl_status (*fault_handler)(vl_va va, uint32_t access);
static _Atomic uint64_t counts[5];

#pragma weak vl_space_fault
#pragma weak vl_space_switch

enum { WALKS, FAULTS, FLUSHES_PAGE, FLUSHES_ALL, FLUSHES_REMOTE };

static void count(unsigned which)
{
    atomic_fetch_add_explicit(&counts[which], 1, memory_order_relaxed);
}

static void cached_add(uint64_t address)
{
    atomic_fetch_add_explicit(&sim_frame_of(address / PAGE)->cached, 1, memory_order_relaxed);
}

static void cached_sub(uint64_t address)
{
    atomic_fetch_sub_explicit(&sim_frame_of(address / PAGE)->cached, 1, memory_order_relaxed);
}

/* -------------------------------------------------------------------------------- TLB entries */

static void drop(struct sim_tlb_entry *entry)
{
    if (atomic_load_explicit(&entry->key, memory_order_relaxed) == 0) {
        return;
    }
    atomic_store_explicit(&entry->key, 0, memory_order_release);
    cached_sub(atomic_load_explicit(&entry->pte, memory_order_relaxed) & ADDRESS);
}

static void drop_pde(struct sim_pde *pde)
{
    if (atomic_load_explicit(&pde->key, memory_order_relaxed) == 0) {
        return;
    }
    atomic_store_explicit(&pde->key, 0, memory_order_release);
    cached_sub(atomic_load_explicit(&pde->link, memory_order_relaxed) & ADDRESS);
}

static void drop_pdes(struct sim_mmu *mmu)
{
    for (unsigned i = 0; i < SIM_PDES; i++) {
        drop_pde(&mmu->pde[i]);
    }
}

static void drop_all(struct sim_mmu *mmu)
{
    if (!mmu->is_used) {
        return;
    }
    mmu->is_used = false;
    for (unsigned set = 0; set < SIM_TLB_SETS; set++) {
        for (unsigned way = 0; way < SIM_TLB_WAYS; way++) {
            drop(&mmu->tlb[set][way]);
        }
    }
    drop_pdes(mmu);
}

static struct sim_tlb_entry *find(struct sim_mmu *mmu, vl_va va)
{
    struct sim_tlb_entry *set = mmu->tlb[va / PAGE % SIM_TLB_SETS];

    for (unsigned way = 0; way < SIM_TLB_WAYS; way++) {
        if (atomic_load_explicit(&set[way].key, memory_order_relaxed) == ((va & ~(PAGE - 1)) | 1)) {
            return &set[way];
        }
    }
    return NULL;
}

/* @time was taken before the entry was read: what is removed later is then known to be newer. */
static void insert(struct sim_mmu *mmu, vl_va va, uint64_t pte, _Atomic uint64_t *from,
                   uint64_t time)
{
    struct sim_tlb_entry *set = mmu->tlb[va / PAGE % SIM_TLB_SETS];
    struct sim_tlb_entry *entry = find(mmu, va);

    for (unsigned way = 0; entry == NULL && way < SIM_TLB_WAYS; way++) {
        if (atomic_load_explicit(&set[way].key, memory_order_relaxed) == 0) {
            entry = &set[way];
        }
    }
    if (entry == NULL) {
        entry = &set[sim_random(&mmu->random) % SIM_TLB_WAYS];
    }
    drop(entry);
    mmu->is_used = true;
    cached_add(pte & ADDRESS);
    atomic_store_explicit(&entry->pte, pte, memory_order_relaxed);
    atomic_store_explicit(&entry->from, (uintptr_t)from, memory_order_relaxed);
    atomic_store_explicit(&entry->time, time, memory_order_relaxed);
    /* Release: pairs with the acquires of the checks. */
    atomic_store_explicit(&entry->key, (va & ~(PAGE - 1)) | 1, memory_order_release);
}

/* ------------------------------------------------------------------------------------ walking */

static _Atomic uint64_t *entries(uint64_t link)
{
    return (_Atomic uint64_t *)(void *)(sim_ram_base + (link & ADDRESS));
}

static unsigned index_of(vl_va va, unsigned level)
{
    return (unsigned)(va >> (12 + 9 * level)) & 511u;
}

/* @pte with no more rights than @above has. */
static uint64_t narrowed(uint64_t pte, uint64_t above)
{
    return (pte & ~(W_BIT | U_BIT)) | (pte & above & (W_BIT | U_BIT)) | (above & NX_BIT);
}

/* The leaf table page of @va with the rights of the levels above it, or 0. */
static uint64_t walk_down(struct sim_mmu *mmu, vl_va va)
{
    struct sim_pde *pde = &mmu->pde[(va >> 21) % SIM_PDES];
    uint64_t link = atomic_load_explicit(&mmu->root, memory_order_relaxed);
    uint64_t rights = W_BIT | U_BIT;

    if (atomic_load_explicit(&pde->key, memory_order_relaxed) == (va >> 21 << 1 | 1)) {
        return atomic_load_explicit(&pde->link, memory_order_relaxed);
    }
    if (link == 0) {
        return 0;
    }
    for (unsigned level = LEVELS - 1; level > 0; level--) {
        link = atomic_load_explicit(&entries(link)[index_of(va, level)], memory_order_acquire);
        if ((link & P_BIT) == 0) {
            return 0;
        }
        if ((link & LARGE_BIT) != 0 || (link & A_BIT) == 0) {
            sim_broken("mmu: entry %llx of level %u for address %llx", (unsigned long long)link,
                       level, (unsigned long long)va);
        }
        (void)sim_frame_of((link & ADDRESS) / PAGE);
        rights = narrowed(link, rights);
    }
    drop_pde(pde);
    mmu->is_used = true;
    cached_add(rights & ADDRESS);
    atomic_store_explicit(&pde->link, rights, memory_order_relaxed);
    atomic_store_explicit(&pde->key, va >> 21 << 1 | 1, memory_order_release);
    return rights;
}

static bool permits(uint64_t pte, uint32_t access, bool user)
{
    if (user != ((pte & U_BIT) != 0)) {
        return false;
    }
    return (access != VL_WRITE || (pte & W_BIT) != 0) && (access != VL_EXEC || (pte & NX_BIT) == 0);
}

/* Reads the leaf entry of @va anew, sets its accessed (and for a write its dirty) bit, and keeps
 * the translation. Returns it, or NULL when the access is refused. */
static struct sim_tlb_entry *walk(struct sim_mmu *mmu, vl_va va, uint32_t access, bool user)
{
    uint64_t time = sim_time();
    uint64_t link = walk_down(mmu, va);
    _Atomic uint64_t *from;
    uint64_t pte, fresh;

    count(WALKS);
    if (link == 0) {
        return NULL;
    }
    from = &entries(link)[index_of(va, 0)];
    pte = atomic_load_explicit(from, memory_order_acquire);
    do {
        if ((pte & P_BIT) == 0 || !permits(narrowed(pte, link), access, user)) {
            return NULL;
        }
        fresh = pte | A_BIT | (access == VL_WRITE ? D_BIT : 0);
    } while (pte != fresh && !atomic_compare_exchange_weak_explicit(
                                 from, &pte, fresh, memory_order_acq_rel, memory_order_acquire));
    insert(mmu, va, narrowed(fresh, link), from, time);
    return find(mmu, va);
}

/* Now and then, a translation that nobody asked for. */
static void walk_ahead(struct sim_mmu *mmu, vl_va va)
{
    uint64_t number = sim_random(&mmu->random);
    vl_va near = va + PAGE * (number >> 32 & 15) - 8 * PAGE;

    if (number % AHEAD_ONE_IN == 0 && near < USER_END && find(mmu, near) == NULL) {
        (void)walk(mmu, near, VL_READ, true);
    }
}

/* Where the byte at @va is, or NULL: page fault. Interrupts off. */
static unsigned char *translate(struct sim_mmu *mmu, vl_va va, uint32_t access, bool user)
{
    struct sim_tlb_entry *entry = find(mmu, va);
    uint64_t pte = entry == NULL ? 0 : atomic_load_explicit(&entry->pte, memory_order_relaxed);

    if (entry != NULL && !permits(pte, access, user)) {
        drop(entry);
        return NULL;
    }
    if (entry == NULL || (access == VL_WRITE && (pte & D_BIT) == 0)) {
        entry = walk(mmu, va, access, user);
        if (entry == NULL) {
            entry = find(mmu, va);
            if (entry != NULL) {
                drop(entry);
            }
            return NULL;
        }
        walk_ahead(mmu, va);
        entry = find(mmu, va);
        if (entry == NULL) {
            entry = walk(mmu, va, access, user);
        }
        if (entry == NULL) {
            return NULL;
        }
        pte = atomic_load_explicit(&entry->pte, memory_order_relaxed);
    }
    return sim_ram_base + (pte & ADDRESS) + (va & (PAGE - 1));
}

/* ------------------------------------------------------------------------------- instructions */

enum operation { LOAD, STORE, FETCH, ADD };

static const uint32_t access_of[] = {VL_READ, VL_WRITE, VL_EXEC, VL_WRITE};

static enum vl_status page_fault(struct sim_mmu *mmu, vl_va va, uint32_t access)
{
    count(FAULTS);
    if (fault_handler != NULL) {
        return fault_handler(va, access);
    }
    if (mmu->space == NULL || vl_space_fault == NULL) {
        return VL_EFAULT;
    }
    return vl_space_fault(mmu->space, va & ~(vl_va)(PAGE - 1), access);
}

/* One try with interrupts off; false: page fault. */
static bool step(struct sim_mmu *mmu, vl_va va, enum operation operation, uint64_t *value)
{
    unsigned long flags = vl_host_irq_save();
    _Atomic uint64_t *word = (void *)translate(mmu, va, access_of[operation], true);

    if (word != NULL) {
        switch (operation) {
        case STORE:
            atomic_store_explicit(word, *value, memory_order_relaxed);
            break;
        case ADD:
            atomic_fetch_add_explicit(word, *value, memory_order_relaxed);
            break;
        case LOAD:
        case FETCH:
            *value = atomic_load_explicit(word, memory_order_relaxed);
            break;
        }
    }
    vl_host_irq_restore(flags);
    return word != NULL;
}

static enum vl_status run(vl_va va, enum operation operation, uint64_t *value)
{
    struct sim_mmu *mmu = &sim_mmu[sim_self.cpu];

    if (va % 8 != 0) {
        sim_broken("mmu: a test's access to %llx is not aligned", (unsigned long long)va);
    }
    for (unsigned tries = 0; tries < TRIES_MAX; tries++) {
        enum vl_status status;

        if (va < USER_END && step(mmu, va, operation, value)) {
            return VL_OK;
        }
        status = page_fault(mmu, va, access_of[operation]);
        if (status != VL_OK) {
            return status;
        }
    }
    sim_broken("mmu: %u faults in a row at %llx, access %u: no progress", TRIES_MAX,
               (unsigned long long)va, access_of[operation]);
}

enum vl_status sim_load(vl_va va, uint64_t *out)
{
    return run(va, LOAD, out);
}

enum vl_status sim_store(vl_va va, uint64_t value)
{
    return run(va, STORE, &value);
}

enum vl_status sim_fetch(vl_va va)
{
    uint64_t ignored;

    return run(va, FETCH, &ignored);
}

enum vl_status sim_add(vl_va va, uint64_t value)
{
    return run(va, ADD, &value);
}

bool sim_probe(vl_va va, uint32_t access, bool user)
{
    unsigned long flags = vl_host_irq_save();
    bool may = translate(&sim_mmu[sim_self.cpu], va, access, user) != NULL;

    vl_host_irq_restore(flags);
    return may;
}

bool sim_peek(vl_va va, uint64_t *out)
{
    return va < USER_END && step(&sim_mmu[sim_self.cpu], va, LOAD, out);
}

bool sim_tlb_holds(unsigned cpu, vl_va va)
{
    return find(&sim_mmu[cpu], va) != NULL;
}

void sim_space_switch(struct vl_space *space)
{
    vl_host_preempt_off();
    vl_space_switch(space);
    sim_mmu[sim_self.cpu].space = space;
    vl_host_preempt_on();
}

void sim_fault_set(enum vl_status (*fault)(vl_va va, uint32_t access))
{
    fault_handler = fault;
}

void sim_mmu_counts(struct sim_mmu_counts *out)
{
    out->walks = atomic_load(&counts[WALKS]);
    out->faults = atomic_load(&counts[FAULTS]);
    out->flushes_page = atomic_load(&counts[FLUSHES_PAGE]);
    out->flushes_all = atomic_load(&counts[FLUSHES_ALL]);
    out->flushes_remote = atomic_load(&counts[FLUSHES_REMOTE]);
}

/* -------------------------------------------------------------------- what the core asks for */

void vl_host_table_switch(struct vl_pa root)
{
    unsigned long flags = vl_host_irq_save();
    struct sim_mmu *mmu = &sim_mmu[sim_self.cpu];
    uint64_t old = atomic_load_explicit(&mmu->root, memory_order_relaxed);

    drop_all(mmu);
    atomic_store_explicit(&mmu->root, root.a, memory_order_relaxed);
    if (root.a != 0) {
        cached_add(root.a);
    }
    if (old != 0) {
        cached_sub(old);
    }
    vl_host_irq_restore(flags);
}

/* arch/x86_64/arch/pte.h declares these two for a simulated machine. */
void vli_tlb_flush_page(vl_va va);
void vli_tlb_flush_all(void);

void vli_tlb_flush_page(vl_va va)
{
    unsigned long flags = vl_host_irq_save();
    struct sim_mmu *mmu = &sim_mmu[sim_self.cpu];
    struct sim_tlb_entry *entry = find(mmu, va);

    count(FLUSHES_PAGE);
    if (entry != NULL) {
        drop(entry);
    }
    drop_pdes(mmu);
    vl_host_irq_restore(flags);
}

void vli_tlb_flush_all(void)
{
    unsigned long flags = vl_host_irq_save();

    count(FLUSHES_ALL);
    drop_all(&sim_mmu[sim_self.cpu]);
    vl_host_irq_restore(flags);
}

struct flush_request {
    struct vl_pa root;
    const struct vl_flush_range *ranges;
    size_t count;
};

/* On @cpu, or in the stead of @cpu while it is off; interrupts are off. */
static void flush_there(void *arg, unsigned cpu)
{
    const struct flush_request *request = arg;
    uint32_t self = sim_self.cpu;

    sim_self.cpu = cpu;
    if (atomic_load_explicit(&sim_mmu[cpu].root, memory_order_relaxed) == request->root.a) {
        vl_tlb_flush_local(request->ranges, request->count);
    }
    sim_self.cpu = self;
}

void vl_host_flush_remote(const struct vl_cpumask *mask, struct vl_pa root,
                          const struct vl_flush_range *ranges, size_t range_count)
{
    struct flush_request request = {root, ranges, range_count};

    count(FLUSHES_REMOTE);
    if (sim_self.irq_off != 0 || sim_self.in_irq != 0 || sim_self.preempt_off != 1) {
        sim_broken("mmu: remote flush with interrupts off, or with %u preemption-offs open",
                   (unsigned)sim_self.preempt_off);
    }
    if ((mask->word[sim_self.cpu / 64] >> (sim_self.cpu % 64) & 1) != 0) {
        sim_broken("mmu: remote flush of the own CPU");
    }
    vl_host_cpu_call(mask, flush_there, &request);
}

void sim_mmu_start(void)
{
    memset(sim_mmu, 0, sizeof(sim_mmu));
    for (unsigned cpu = 0; cpu < VL_CPUS_MAX; cpu++) {
        sim_mmu[cpu].random = sim_machine.config.seed ^ (0x9ddfea08eb382d69u * (cpu + 1));
    }
    for (unsigned i = 0; i < VLI_COUNT_OF(counts); i++) {
        atomic_store(&counts[i], 0);
    }
    fault_handler = NULL;
    sim_check_start();
}

void sim_mmu_stop(void)
{
    sim_check_stop();
}
