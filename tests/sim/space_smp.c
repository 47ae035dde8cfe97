/*
 * Goal: one space used by many CPUs at once stays right: touches, maps, unmaps, protections, moves,
 * forks, exits and truncations run against each other, interrupts come in between, and each CPU
 * still sees exactly what it may.
 * Method: threads of one process, one a CPU. The pages of a range belong to the CPUs in turn, eight
 * by eight: each does what it likes with its own and knows what must be there, while its neighbours
 * split and merge the same areas and fill the same table pages. A second range belongs to all: they
 * add to its words in single steps, one or another makes it read-only for a moment or forks, and no
 * step may be lost nor seen by a child that was forked before it. A file is truncated under those
 * who read it. In the second half each CPU runs a process of its own, forked from the first, and
 * its children take its place. In most rounds CPUs are held up at odd places, so that the others
 * overtake them. Between rounds nobody runs and everything is validated.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "machine/sim/mmu.h"
#include "machine/sim/sim.h"

#define PAGE            VL_PAGE_SIZE
#define CPUS_MAX        4u
#define BLOCK           8u  /* pages that one CPU has in a row */
#define BLOCKS          12u /* of each CPU */
#define OWN             (BLOCK * BLOCKS)
#define COMMON          16u
#define FILE_PAGES      24u
#define ROUNDS          12u
#define FAILS_PER_65536 600u
#define OPS             40000u
/* The range of own pages lies across a boundary of table pages of every level. */
#define OWN_START  ((512ull << 30) - CPUS_MAX * OWN / 2 * PAGE)
#define PRIVATE_VA ((vl_va)0x40000000)
#define SHARED_VA  ((vl_va)0x50000000)
#define FILE_VA    ((vl_va)0x60000000)
#define LATE_VA    ((vl_va)0x70000000)
#define FRESH_VA   ((vl_va)0x78000000)
#define CUTS       8u
#define RACE_PAGES 48u

/* One page of a CPU: what it expects there. */
struct own_page {
    bool is_mapped;
    uint32_t prot;
    uint64_t word;
};

static struct {
    unsigned cpus;
    uint64_t ops;
    uint64_t seed;
    struct vl_space *space;
    bool is_failing;               /* allocations fail now and then */
    bool is_split;                 /* each CPU has a process of its own, forked from that one */
    struct vl_space *of[CPUS_MAX]; /* its space, then */
    uint64_t base_private[COMMON], base_shared[COMMON]; /* what was added before they split */
    struct vl_object *file;
    struct vl_object *late; /* only CPU 0 changes its size */
    struct own_page own[CPUS_MAX][OWN];
    uint64_t added_private[CPUS_MAX][COMMON];
    uint64_t added_shared[CPUS_MAX][COMMON];
    uint64_t forks[CPUS_MAX];
    uint64_t refused[CPUS_MAX];
    unsigned round;
    uint64_t late_generation;
    _Atomic uint32_t arrived;
} smp;

static vl_va own_va(unsigned cpu, unsigned page)
{
    unsigned block = page / BLOCK * smp.cpus + cpu;

    return OWN_START + ((uint64_t)block * BLOCK + page % BLOCK) * PAGE;
}

/* The space that a CPU's program runs in. */
static struct vl_space *mine(unsigned cpu)
{
    return smp.is_split ? smp.of[cpu] : smp.space;
}

static _Noreturn void wrong(const char *what, unsigned cpu, vl_va va, uint64_t got, uint64_t want)
{
    fprintf(stderr, "# CPU %u: %s at %llx: %lld, not %lld\n", cpu, what, (unsigned long long)va,
            (long long)got, (long long)want);
    sim_event_dump();
    abort();
}

static void expect(enum vl_status got, enum vl_status want, const char *what, unsigned cpu,
                   vl_va va)
{
    if (got != want) {
        wrong(what, cpu, va, (uint64_t)(int64_t)got, (uint64_t)(int64_t)want);
    }
}

/* ------------------------------------------------- calls, again when memory was made to fail */

/* An operation without memory has changed nothing; it is tried again. */
static bool again(enum vl_status got)
{
    return got == VL_ENOMEM && smp.is_failing;
}

static enum vl_status load(vl_va va, uint64_t *out)
{
    enum vl_status got;

    do {
        got = sim_load(va, out);
    } while (again(got));
    return got;
}

static enum vl_status store(vl_va va, uint64_t value)
{
    enum vl_status got;

    do {
        got = sim_store(va, value);
    } while (again(got));
    return got;
}

static enum vl_status add(vl_va va, uint64_t value)
{
    enum vl_status got;

    do {
        got = sim_add(va, value);
    } while (again(got));
    return got;
}

static enum vl_status fork_space(struct vl_space *space, struct vl_space **out)
{
    enum vl_status got;

    do {
        got = vl_space_fork(space, out);
    } while (again(got));
    return got;
}

static enum vl_status map_space(struct vl_space *space, const struct vl_map_request *request,
                                vl_va *out)
{
    enum vl_status got;

    do {
        got = vl_space_map(space, request, out);
    } while (again(got));
    return got;
}

static enum vl_status unmap_space(struct vl_space *space, vl_va start, size_t len)
{
    enum vl_status got;

    do {
        got = vl_space_unmap(space, start, len);
    } while (again(got));
    return got;
}

static enum vl_status protect_space(struct vl_space *space, vl_va start, size_t len, uint32_t prot,
                                    enum vl_status want)
{
    enum vl_status got;

    do {
        got = vl_space_protect(space, start, len, prot);
    } while (got != want && again(got));
    return got;
}

static enum vl_status remap_space(struct vl_space *space, vl_va old_va, size_t old_len,
                                  size_t new_len, uint32_t flags, vl_va new_va, vl_va *out)
{
    enum vl_status got;

    do {
        got = vl_space_remap(space, old_va, old_len, new_len, flags, new_va, out);
    } while (again(got));
    return got;
}

static enum vl_status page_get(struct vl_object *object, uint64_t index, enum vl_page_mode mode,
                               struct vl_pfn *out)
{
    enum vl_status got;

    do {
        got = vl_object_page_get(object, index, mode, out);
    } while (again(got));
    return got;
}

static void map(struct vl_space *space, vl_va va, uint64_t pages, uint32_t prot,
                enum vl_map_kind kind, struct vl_object *object)
{
    const struct vl_map_request request = {.object = object,
                                           .hint = va,
                                           .len = pages * PAGE,
                                           .prot = prot,
                                           .kind = kind,
                                           .place = VL_MAP_FIXED};
    vl_va out = 0;

    expect(map_space(space, &request, &out), VL_OK, "map", vl_host_cpu_id(), va);
}

/* ------------------------------------------------------------------------------- own pages */

/* A run of own pages within one block. */
static unsigned own_run(uint64_t *random, unsigned *out_count)
{
    unsigned first = (unsigned)(sim_random(random) % OWN);
    unsigned most = BLOCK - first % BLOCK;

    *out_count = 1 + (unsigned)(sim_random(random) % most);
    return first;
}

static void own_map(unsigned cpu, uint64_t *random)
{
    unsigned count, first = own_run(random, &count);
    uint32_t prot = sim_random(random) % 4 == 0 ? VL_READ : VL_READ | VL_WRITE;

    map(mine(cpu), own_va(cpu, first), count, prot, VL_MAP_PRIVATE, NULL);
    for (unsigned i = first; i < first + count; i++) {
        smp.own[cpu][i] = (struct own_page){true, prot, 0};
    }
}

static void own_unmap(unsigned cpu, uint64_t *random)
{
    unsigned count, first = own_run(random, &count);
    vl_va va = own_va(cpu, first);

    expect(unmap_space(mine(cpu), va, count * PAGE), VL_OK, "unmap", cpu, va);
    memset(&smp.own[cpu][first], 0, count * sizeof(smp.own[cpu][0]));
}

static void own_protect(unsigned cpu, uint64_t *random)
{
    static const uint32_t prots[] = {0, VL_READ, VL_READ | VL_WRITE};
    unsigned count, first = own_run(random, &count), done = 0;
    uint32_t prot = prots[sim_random(random) % 3];
    vl_va va = own_va(cpu, first);
    enum vl_status want;

    while (done < count && smp.own[cpu][first + done].is_mapped) {
        done++;
    }
    want = done == count ? VL_OK : VL_ENOMEM;
    if (smp.is_failing && want == VL_ENOMEM) {
        return; /* the answer would not tell which of the two it is */
    }
    for (unsigned i = 0; i < done; i++) {
        smp.own[cpu][first + i].prot = prot;
    }
    expect(protect_space(mine(cpu), va, count * PAGE, prot, want), want, "protect", cpu, va);
}

static void own_drop(unsigned cpu, uint64_t *random)
{
    unsigned count, first = own_run(random, &count);
    enum vl_status want = VL_OK;
    vl_va va = own_va(cpu, first);

    for (unsigned i = first; i < first + count; i++) {
        smp.own[cpu][i].word = 0;
        want = smp.own[cpu][i].is_mapped ? want : VL_ENOMEM;
    }
    expect(vl_space_advise(mine(cpu), va, count * PAGE, VL_ADVISE_DONTNEED), want, "advise", cpu,
           va);
}

/* One page moves to another place of this CPU. */
static void own_move(unsigned cpu, uint64_t *random)
{
    unsigned from = (unsigned)(sim_random(random) % OWN), to = (unsigned)(sim_random(random) % OWN);
    vl_va out = 0;

    if (from == to || !smp.own[cpu][from].is_mapped) {
        return;
    }
    expect(remap_space(mine(cpu), own_va(cpu, from), PAGE, PAGE, 3, own_va(cpu, to), &out), VL_OK,
           "remap", cpu, own_va(cpu, from));
    smp.own[cpu][to] = smp.own[cpu][from];
    smp.own[cpu][from].is_mapped = false;
    smp.own[cpu][from].word = 0;
}

static void own_load(unsigned cpu, unsigned page)
{
    const struct own_page *own = &smp.own[cpu][page];
    vl_va va = own_va(cpu, page);
    uint64_t value = 0;

    expect(load(va, &value),
           !own->is_mapped  ? VL_EFAULT
           : own->prot == 0 ? VL_EACCES
                            : VL_OK,
           "load", cpu, va);
    if (own->is_mapped && own->prot != 0 && value != own->word) {
        wrong("word", cpu, va, value, own->word);
    }
}

static void own_store(unsigned cpu, uint64_t *random)
{
    unsigned page = (unsigned)(sim_random(random) % OWN);
    struct own_page *own = &smp.own[cpu][page];
    uint64_t value = sim_random(random);
    vl_va va = own_va(cpu, page);

    expect(store(va, value),
           !own->is_mapped               ? VL_EFAULT
           : (own->prot & VL_WRITE) == 0 ? VL_EACCES
                                         : VL_OK,
           "store", cpu, va);
    if (own->is_mapped && (own->prot & VL_WRITE) != 0) {
        own->word = value;
    }
}

/* ----------------------------------------------------------------------------- common pages */

static void common_add(unsigned cpu, uint64_t *random)
{
    unsigned page = (unsigned)(sim_random(random) % COMMON);
    bool is_shared = sim_random(random) % 2 == 0;
    vl_va va = (is_shared ? SHARED_VA : PRIVATE_VA) + page * PAGE;
    enum vl_status got = add(va, 1);

    if (got == VL_EACCES) {
        smp.refused[cpu]++;
        return;
    }
    expect(got, VL_OK, "add", cpu, va);
    (is_shared ? smp.added_shared : smp.added_private)[cpu][page]++;
}

static void common_protect(unsigned cpu, uint64_t *random)
{
    vl_va va = (sim_random(random) % 2 == 0 ? SHARED_VA : PRIVATE_VA) +
               sim_random(random) % (COMMON / 2) * PAGE;

    expect(protect_space(mine(cpu), va, COMMON / 2 * PAGE, VL_READ, VL_OK), VL_OK, "protect", cpu,
           va);
    expect(protect_space(mine(cpu), va, COMMON / 2 * PAGE, VL_READ | VL_WRITE, VL_OK), VL_OK,
           "protect", cpu, va);
}

/* The words of the common pages in a child: first seen, and later what must still be there. */
static void child_look(unsigned cpu, uint64_t *seen)
{
    for (unsigned page = 0; page < COMMON; page++) {
        vl_va va = PRIVATE_VA + page * PAGE;

        expect(load(va, &seen[page]), VL_OK, "load in the child", cpu, va);
        if (seen[page] < smp.added_private[cpu][page]) {
            wrong("lost before the fork", cpu, va, seen[page], smp.added_private[cpu][page]);
        }
    }
}

/* A child sees what this CPU did before the fork, and nobody sees what the child does. */
static void common_fork(unsigned cpu, uint64_t *random)
{
    uint64_t seen[COMMON], again[COMMON];
    struct vl_space *parent = mine(cpu), *child = NULL;
    bool takes_over = smp.is_split && sim_random(random) % 2 == 0;

    expect(fork_space(parent, &child), VL_OK, "fork", cpu, 0);
    smp.forks[cpu]++;
    sim_space_switch(child);
    child_look(cpu, seen);
    for (unsigned page = 0; page < COMMON; page++) {
        if (!takes_over && sim_random(random) % 2 == 0 &&
            add(PRIVATE_VA + page * PAGE, 1000000) == VL_OK) {
            seen[page] += 1000000;
        }
    }
    for (unsigned i = 0; i < OWN; i += 1 + (unsigned)(sim_random(random) % 16)) {
        own_load(cpu, i);
    }
    child_look(cpu, again);
    for (unsigned page = 0; page < COMMON; page++) {
        if (again[page] != seen[page]) {
            wrong("a child's word changed", cpu, PRIVATE_VA + page * PAGE, again[page], seen[page]);
        }
    }
    if (takes_over) {
        smp.of[cpu] = child;
        vl_space_put(parent);
    } else if (sim_random(random) % 2 == 0) {
        vl_space_put(child);
        sim_space_switch(parent);
    } else {
        sim_space_switch(parent);
        vl_space_put(child);
    }
}

/* Another CPU's page: whatever is there, nothing breaks. */
static void look_elsewhere(unsigned cpu, uint64_t *random)
{
    unsigned other = smp.is_split ? cpu : (unsigned)(sim_random(random) % smp.cpus);
    vl_va va = own_va(other, (unsigned)(sim_random(random) % OWN));
    struct vl_pfn pfn;
    enum vl_status got = vl_space_frame_get(mine(cpu), va, VL_READ, &pfn);

    if (got == VL_OK) {
        vl_frame_ref_put(pfn);
    } else if (got != VL_EFAULT && got != VL_EACCES && !again(got)) {
        wrong("frame_get", cpu, va, (uint64_t)(int64_t)got, 0);
    }
}

static void file_use(unsigned cpu, uint64_t *random)
{
    uint64_t page = sim_random(random) % FILE_PAGES;
    vl_va va = FILE_VA + page * PAGE;
    uint64_t seen = page;
    enum vl_status got;

    if (sim_random(random) % 16 == 0) {
        if (sim_random(random) % 2 == 0) {
            expect(vl_object_truncate(smp.file, page * PAGE), VL_OK, "truncate", cpu, va);
        }
        expect(vl_object_extend(smp.file, FILE_PAGES * PAGE), VL_OK, "extend", cpu, va);
        return;
    }
    got = sim_random(random) % 2 == 0 ? store(va, page) : load(va, &seen);
    if ((got != VL_OK && got != VL_EBUSERROR) || (seen != page && seen != 0)) {
        wrong("file", cpu, va, got == VL_OK ? seen : (uint64_t)(int64_t)got, page);
    }
}

/* The second words of the late file, seen through its private mapping: nobody but CPU 0 writes any,
 * into the file; so none is older than the last cut. */
static void late_look(unsigned cpu)
{
    for (unsigned page = 0; page < FILE_PAGES; page++) {
        vl_va va = LATE_VA + page * PAGE + 8;
        uint64_t seen = 0;

        expect(load(va, &seen), VL_OK, "load of the late file", cpu, va);
        if (seen != 0 && seen != smp.late_generation) {
            wrong("a page from before the cut", cpu, va, seen, smp.late_generation);
        }
    }
}

/* Cut it to nothing, see that it is gone, and fill it anew. */
static void late_cut(unsigned cpu)
{
    uint64_t seen = 0;
    struct vl_pfn pfn;

    late_look(cpu);
    expect(vl_object_truncate(smp.late, 0), VL_OK, "truncate", cpu, LATE_VA);
    for (unsigned page = 0; page < FILE_PAGES; page++) {
        expect(load(LATE_VA + page * PAGE, &seen), VL_EBUSERROR, "load beyond the end", cpu,
               LATE_VA + page * PAGE);
    }
    smp.late_generation++;
    expect(vl_object_extend(smp.late, RACE_PAGES * PAGE), VL_OK, "extend", cpu, LATE_VA);
    for (unsigned page = 0; page < FILE_PAGES; page++) {
        expect(page_get(smp.late, page, VL_PAGE_CREATE, &pfn), VL_OK, "page_get", cpu, page);
        atomic_store((_Atomic uint64_t *)vl_frame_to_virt(pfn) + 1, smp.late_generation);
        vl_object_page_put(pfn);
    }
}

/* A file whose private copies must go when it is cut, whoever is about to make one. */
static void late_use(unsigned cpu, uint64_t *random)
{
    enum vl_status got;

    if (cpu == 0 && sim_random(random) % 16 == 0) {
        late_cut(cpu);
        return;
    }
    got = store(LATE_VA + sim_random(random) % FILE_PAGES * PAGE, 1);
    if (got != VL_OK && got != VL_EBUSERROR) {
        wrong("late", cpu, LATE_VA, (uint64_t)(int64_t)got, 0);
    }
}

/* All CPUs go on from here at once. */
static void meet(unsigned times)
{
    atomic_fetch_add(&smp.arrived, 1);
    while (atomic_load(&smp.arrived) < times * smp.cpus) {
        vl_host_cpu_relax();
    }
}

/* Every CPU writes to the same page for the first time, page after page. */
static void race(unsigned cpu)
{
    for (unsigned page = 0; page < RACE_PAGES; page++) {
        vl_va va = FRESH_VA + page * PAGE;

        meet(page + 1);
        expect(add(va + 16 + 8 * (page % 2), 1), VL_OK, "race", cpu, va);
    }
}

/* One race on pages that nobody has touched, and one on pages that a child shares. */
static void races(void *arg, unsigned cpu)
{
    (void)arg;
    sim_space_switch(smp.space);
    race(cpu);
    sim_space_switch(NULL);
}

/* CPU 0 cuts the late file again and again while the others make their copies of it. */
static void cuts(void *arg, unsigned cpu)
{
    uint64_t random = smp.seed + smp.round + cpu;

    (void)arg;
    sim_space_switch(smp.space);
    for (unsigned i = 0; cpu == 0 && i < CUTS; i++) {
        late_cut(cpu);
        /* The others find empty entries for a while. */
        for (unsigned pause = 0; smp.cpus > 1 && pause < 200; pause++) {
            vl_host_cpu_relax();
        }
    }
    while (cpu != 0 && atomic_load(&smp.arrived) == 0) {
        late_use(cpu, &random);
    }
    atomic_store(&smp.arrived, 1);
    sim_space_switch(NULL);
}

static void check_race(struct vl_space *space, uint64_t want)
{
    sim_space_switch(space);
    for (unsigned page = 0; page < RACE_PAGES; page++) {
        uint64_t seen = 0;

        assert_int_equal(load(FRESH_VA + page * PAGE + 16 + 8 * (page % 2), &seen), VL_OK);
        assert_int_equal(seen, want);
    }
    sim_space_switch(NULL);
}

static void run_races(void)
{
    struct vl_space *child = NULL;

    map(smp.space, FRESH_VA, RACE_PAGES, VL_READ | VL_WRITE, VL_MAP_PRIVATE,
        smp.round % 2 == 0 ? NULL : smp.late);
    atomic_store(&smp.arrived, 0);
    sim_run_on_cpus(smp.cpus, races, NULL);
    check_race(smp.space, smp.cpus);
    assert_int_equal(fork_space(smp.space, &child), VL_OK);
    atomic_store(&smp.arrived, 0);
    sim_run_on_cpus(smp.cpus, races, NULL);
    check_race(smp.space, 2 * smp.cpus);
    check_race(child, smp.cpus);
    atomic_store(&smp.arrived, 0);
    sim_run_on_cpus(smp.cpus, cuts, NULL);
    vl_space_validate(child);
    vl_space_put(child);
}

/* --------------------------------------------------------------------------------- the CPUs */

static void one_step(unsigned cpu, uint64_t *random)
{
    unsigned which = (unsigned)(sim_random(random) % 1000);

    if (which < 300) {
        own_store(cpu, random);
    } else if (which < 500) {
        own_load(cpu, (unsigned)(sim_random(random) % OWN));
    } else if (which < 700) {
        common_add(cpu, random);
    } else if (which < 760) {
        own_map(cpu, random);
    } else if (which < 800) {
        own_unmap(cpu, random);
    } else if (which < 850) {
        own_protect(cpu, random);
    } else if (which < 870) {
        own_drop(cpu, random);
    } else if (which < 890) {
        own_move(cpu, random);
    } else if (which < 920) {
        look_elsewhere(cpu, random);
    } else if (which < 960) {
        file_use(cpu, random);
    } else if (which < 990) {
        late_use(cpu, random);
    } else if (which < 995) {
        common_protect(cpu, random);
    } else {
        common_fork(cpu, random);
    }
}

static void one_cpu(void *arg, unsigned cpu)
{
    uint64_t random = smp.seed + 1000 * smp.round + cpu;

    (void)arg;
    sim_space_switch(mine(cpu));
    for (uint64_t i = 0; i < smp.ops / ROUNDS / smp.cpus; i++) {
        one_step(cpu, &random);
    }
    sim_space_switch(NULL);
}

/* Interrupts take and give back frames in the middle of everything. */
static void on_interrupt(unsigned cpu)
{
    struct vl_pfn pfn[3];
    size_t count = vl_frame_alloc_bulk(3, VL_ATOMIC, pfn);

    (void)cpu;
    vl_frame_free_bulk(pfn, count);
}

/* @cpu's space, or the one of all when they are not split. */
static void check_sums(unsigned cpu)
{
    sim_space_switch(mine(cpu));
    for (unsigned page = 0; page < COMMON; page++) {
        uint64_t want_private = smp.base_private[page], want_shared = smp.base_shared[page];
        uint64_t seen = 0;

        for (unsigned i = 0; i < smp.cpus; i++) {
            want_private += smp.is_split && i != cpu ? 0 : smp.added_private[i][page];
            want_shared += smp.added_shared[i][page];
        }
        assert_int_equal(load(PRIVATE_VA + page * PAGE, &seen), VL_OK);
        assert_int_equal(seen, want_private);
        assert_int_equal(load(SHARED_VA + page * PAGE, &seen), VL_OK);
        assert_int_equal(seen, want_shared);
    }
    for (unsigned i = 0; i < smp.cpus; i++) {
        for (unsigned page = 0; page < OWN && (!smp.is_split || i == cpu); page++) {
            own_load(i, page);
        }
    }
    sim_space_switch(NULL);
}

/* Nobody runs: everything is as it must be. */
static void check_all(void)
{
    for (unsigned cpu = 0; cpu < (smp.is_split ? smp.cpus : 1); cpu++) {
        vl_space_validate(mine(cpu));
        check_sums(cpu);
    }
    sim_mmu_validate();
}

/* Each CPU goes on in a fork of the common space. */
static void split(void)
{
    for (unsigned page = 0; page < COMMON; page++) {
        for (unsigned cpu = 0; cpu < smp.cpus; cpu++) {
            smp.base_private[page] += smp.added_private[cpu][page];
            smp.base_shared[page] += smp.added_shared[cpu][page];
        }
    }
    memset(smp.added_private, 0, sizeof(smp.added_private));
    memset(smp.added_shared, 0, sizeof(smp.added_shared));
    for (unsigned cpu = 0; cpu < smp.cpus; cpu++) {
        assert_int_equal(fork_space(smp.space, &smp.of[cpu]), VL_OK);
    }
    smp.is_split = true;
}

static uint64_t free_frames(void)
{
    struct vl_frame_counts counts;

    vl_drain_all();
    vl_frame_counts(&counts);
    return counts.free_zones + counts.free_stock;
}

static void report(void)
{
    uint64_t forks = 0, refused = 0;
    struct sim_mmu_counts counts;

    for (unsigned cpu = 0; cpu < smp.cpus; cpu++) {
        forks += smp.forks[cpu];
        refused += smp.refused[cpu];
    }
    sim_mmu_counts(&counts);
    fprintf(stderr,
            "# %u CPUs: %llu forks, %llu stores refused, %llu remote flushes, %llu interrupts\n",
            smp.cpus, (unsigned long long)forks, (unsigned long long)refused,
            (unsigned long long)counts.flushes_remote, (unsigned long long)sim_irq_count());
    assert_true(forks != 0);
}

static void run(unsigned cpus, uint64_t seed, bool is_failing)
{
    struct sim_config config = {
        .ram_bytes = 64u << 20, .cpus = cpus, .seed = sim_seed(seed), .quiet = true};
    uint64_t before;

    sim_start(&config);
    before = free_frames();
    memset(&smp, 0, sizeof(smp));
    smp.cpus = cpus;
    smp.is_failing = is_failing;
    smp.ops = sim_ops(OPS);
    smp.ops = smp.ops < OPS ? smp.ops : OPS;
    smp.ops /= getenv("VL_TEST_QUICK") != NULL ? 4 : 1;
    smp.seed = config.seed;
    assert_int_equal(vl_space_create(&smp.space), VL_OK);
    assert_int_equal(vl_object_create(NULL, NULL, &smp.file), VL_OK);
    assert_int_equal(vl_object_extend(smp.file, FILE_PAGES * PAGE), VL_OK);
    map(smp.space, PRIVATE_VA, COMMON, VL_READ | VL_WRITE, VL_MAP_PRIVATE, NULL);
    map(smp.space, SHARED_VA, COMMON, VL_READ | VL_WRITE, VL_MAP_SHARED, NULL);
    assert_int_equal(vl_object_create(NULL, NULL, &smp.late), VL_OK);
    assert_int_equal(vl_object_extend(smp.late, RACE_PAGES * PAGE), VL_OK);
    map(smp.space, LATE_VA, FILE_PAGES, VL_READ | VL_WRITE, VL_MAP_PRIVATE, smp.late);
    map(smp.space, FILE_VA, FILE_PAGES, VL_READ | VL_WRITE, VL_MAP_SHARED, smp.file);
    sim_irq_set(on_interrupt);
    for (smp.round = 0; smp.round < ROUNDS; smp.round++) {
        sim_irq_storm(200);
        sim_hold_up(smp.round % 4 == 0 ? 0 : 16);
        if (smp.round == ROUNDS / 2) {
            split();
        }
        if (!smp.is_split) {
            run_races();
        }
        sim_fail_often(is_failing ? FAILS_PER_65536 : 0);
        sim_run_on_cpus(cpus, one_cpu, NULL);
        sim_fail_often(0);
        sim_irq_storm_end();
        sim_hold_up(0);
        check_all();
    }
    report();
    for (unsigned cpu = 0; cpu < cpus; cpu++) {
        vl_space_put(smp.of[cpu]);
    }
    vl_space_put(smp.space);
    vl_object_put(smp.file);
    vl_object_put(smp.late);
    assert_int_equal(free_frames(), before);
    sim_stop();
}

static void two_cpus(void **state)
{
    (void)state;
    run(VL_SMP ? 2 : 1, 31, false);
}

static void four_cpus(void **state)
{
    (void)state;
    run(VL_SMP ? CPUS_MAX : 1, 32, false);
}

static void two_cpus_while_memory_fails(void **state)
{
    (void)state;
    run(VL_SMP ? 2 : 1, 33, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_cpus),
        cmocka_unit_test(four_cpus),
        cmocka_unit_test(two_cpus_while_memory_fails),
    };

    return cmocka_run_group_tests_name("space_smp", tests, NULL, NULL);
}
