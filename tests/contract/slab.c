/*
 * Goal: object caches and kmalloc keep their promises with every strategy of SLAB: objects do not
 * overlap, keep what is written, are aligned, come back from any CPU and any interrupt, and all
 * frames are free again at the end; a failed allocation leaves everything as it was.
 * Method: random operations against a model that fills each object with a pattern of its own;
 * the same on several CPUs, with objects handed from CPU to CPU, with interrupts that allocate and
 * free, and with every allocation failed in turn; vli_slab_validate() at each quiescent point.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include "core/frame/frame.h"
#include "core/slab/slab.h"
#include "machine/sim/sim.h"

#if VL_SMP
#define CPUS 4u
#else
#define CPUS 1u
#endif
#define MIB (1ull << 20)

static uint64_t seed;
static uint64_t free_before;

static uint64_t free_frames(void)
{
    struct vl_frame_counts counts;

    vl_drain_all();
    vl_frame_counts(&counts);
    return counts.free_zones + counts.free_stock;
}

static void machine_on(unsigned cpus, uint64_t bytes)
{
    struct sim_config config = {.ram_bytes = bytes, .cpus = cpus, .seed = seed, .quiet = true};

    sim_start(&config);
    free_before = free_frames();
}

static void machine_off(void)
{
    vli_slab_validate();
    assert_int_equal(free_frames(), free_before);
    vli_slab_validate();
    vli_frame_validate();
    sim_stop();
}

/* ---- patterns: byte i of object number n ---- */

static unsigned char pattern(uint64_t number, size_t i)
{
    return (unsigned char)(number * 31 + i * 7 + 1);
}

/* Every byte near both ends, where neighbours would meet; a sample of those between. */
static size_t next_byte(size_t i, size_t size)
{
    return i < 64 || i + 128 >= size ? i + 1 : i + 61;
}

static void fill(void *object, size_t size, uint64_t number)
{
    unsigned char *bytes = object;

    for (size_t i = 0; i < size; i = next_byte(i, size)) {
        bytes[i] = pattern(number, i);
    }
}

static bool holds(const void *object, size_t size, uint64_t number)
{
    const unsigned char *bytes = object;

    for (size_t i = 0; i < size; i = next_byte(i, size)) {
        if (bytes[i] != pattern(number, i)) {
            return false;
        }
    }
    return true;
}

/* ---- kmalloc against a model ---- */

struct held {
    void *object;
    size_t size;
    uint64_t number;
};

/* Sizes as they come in practice: mostly small, some up to the largest. */
static size_t any_size(uint64_t r)
{
    size_t top = (size_t)1 << (r % 16);

    if (r % 1024 == 0) {
        return (size_t)(r >> 20) % (256u << 10);
    }
    return (size_t)(r >> 20) % top;
}

static void *get(size_t size, uint64_t r)
{
    vl_how_t how = r % 4 == 0 ? VL_WAIT : VL_ATOMIC;
    void *object = vl_kmalloc(size, r % 8 < 2 ? how | VL_ZEROED : how);

    if (object != NULL && r % 8 < 2) {
        for (size_t i = 0; i < size; i++) {
            assert_int_equal(((unsigned char *)object)[i], 0);
        }
    }
    if (object != NULL) {
        assert_int_equal((uintptr_t)object % 8, 0);
        if (size > 0 && (size & (size - 1)) == 0 && size <= VL_PAGE_SIZE) {
            assert_int_equal((uintptr_t)object % size, 0);
        }
    }
    return object;
}

static void change(struct held *held, uint64_t r)
{
    if (held->object == NULL) {
        held->size = any_size(r);
        held->number = r;
        held->object = get(held->size, r >> 8);
        if (held->object != NULL) {
            fill(held->object, held->size, held->number);
        }
        return;
    }
    assert_true(holds(held->object, held->size, held->number));
    vl_kfree(held->object);
    held->object = NULL;
}

static void release(struct held *held, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (held[i].object != NULL) {
            assert_true(holds(held[i].object, held[i].size, held[i].number));
            vl_kfree(held[i].object);
        }
    }
}

#define SLOTS 512u

static void random_operations(void **state)
{
    static struct held held[SLOTS];
    uint64_t random = seed;
    uint64_t ops = sim_ops(300000);

    (void)state;
    memset(held, 0, sizeof(held));
    machine_on(1, 32 * MIB);
    for (uint64_t i = 0; i < ops; i++) {
        uint64_t r = sim_random(&random);

        change(&held[(r >> 40) % SLOTS], r);
        if (i % 16384 == 0) {
            vli_slab_validate();
        }
        if (i % 50000 == 0) {
            vl_drain_all();
        }
    }
    release(held, SLOTS);
    machine_off();
}

/* ---- sizes and alignments one by one ---- */

static void every_size(void **state)
{
    (void)state;
    machine_on(1, 64 * MIB);
    for (size_t size = 0; size <= VL_KMALLOC_CACHED_MAX + 5000; size += size < 300 ? 1 : 37) {
        struct held held[3];

        for (unsigned i = 0; i < 3; i++) {
            held[i] = (struct held){get(size, 1), size, size + i};
            assert_non_null(held[i].object);
            fill(held[i].object, size, size + i);
        }
        release(held, 3);
    }
    vl_kfree(NULL);
    machine_off();
}

static void constant_sizes_agree(void **state)
{
    (void)state;
    for (size_t size = 1; size <= VL_KMALLOC_CACHED_MAX; size++) {
        struct vli_slab_info info;
        size_t class = VL_KMALLOC_CLASS(size);

        if (size == 1) {
            machine_on(1, 16 * MIB);
        }
        assert_true(class < VL_KMALLOC_CLASSES);
        assert_true(vli_slab_info((unsigned)class, &info));
        assert_true(info.object_bytes >= size);
        assert_true(class > 0 && vli_caches[class - 1].object_bytes < size);
    }
    assert_ptr_equal(vli_slab_cache(vli_virt_frame((uintptr_t)vl_kmalloc(100, VL_ATOMIC))),
                     &vli_caches[VL_KMALLOC_CLASS(100)]);
    sim_stop();
}

static void large_ones(void **state)
{
    (void)state;
    machine_on(1, 64 * MIB);
    for (size_t size = 16385; size <= VL_KMALLOC_MAX; size += size / 3) {
        struct held held = {vl_kmalloc(size, VL_WAIT | VL_ZEROED), size, size};

        assert_non_null(held.object);
        for (size_t i = 0; i < size; i += 509) {
            assert_int_equal(((unsigned char *)held.object)[i], 0);
        }
        fill(held.object, size, size);
        release(&held, 1);
    }
    assert_null(vl_kmalloc(VL_KMALLOC_MAX + 1, VL_ATOMIC));
    assert_null(vl_kmalloc(SIZE_MAX, VL_ATOMIC));
    assert_null(vl_kmalloc(SIZE_MAX - 4095, VL_WAIT));
    machine_off();
}

/* Large ones take the frames that they fill and no more, also when they were taken for an alignment
 * or have shrunk; all of them come back. */
static void whole_frames_to_the_page(void **state)
{
    uint64_t before;

    (void)state;
    machine_on(1, 64 * MIB);
    before = free_frames();
    for (size_t frames = 5; frames <= VL_KMALLOC_MAX / VL_PAGE_SIZE; frames += 1 + frames / 9) {
        size_t size = frames * VL_PAGE_SIZE;
        char *plain = vl_kmalloc(size - 1, VL_WAIT);
        char *aligned = vl_kmalloc_aligned(size - 4095, 64 * 1024, VL_WAIT);

        assert_int_equal(before - free_frames(), 2 * frames);
        assert_int_equal((vl_ksize(aligned) + VL_PAGE_MASK) / VL_PAGE_SIZE, frames);
        memset(plain, 1, size - 1);
        memset(aligned, 2, size - 4095);
        for (size_t part = frames; part > 5; part -= 1 + part / 3) {
            plain = vl_krealloc(plain, part * VL_PAGE_SIZE - 4000, VL_WAIT);
            assert_int_equal(before - free_frames(), frames + part);
        }
        assert_true(plain[0] == 1 && plain[5 * VL_PAGE_SIZE - 4001] == 1 && aligned[0] == 2);
        vl_kfree(plain);
        assert_int_equal(before - free_frames(), frames);
        vl_kfree(aligned);
        assert_int_equal(before, free_frames());
    }
    machine_off();
}

/* ---- caches ---- */

static unsigned made; /* constructor calls */

static void construct(void *object)
{
    *(uint64_t *)object = 0x1234567890abcdef;
    made++;
}

static void a_cache_of(size_t size, size_t align, void (*constructor)(void *))
{
    struct vl_cache_spec spec = {
        .name = "test", .size = size, .align = align, .constructor = constructor};
    struct vl_cache *cache;
    struct held held[100];

    assert_int_equal(vl_cache_create(&spec, &cache), VL_OK);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 100; i++) {
            held[i] = (struct held){vl_cache_alloc(cache, VL_WAIT), size, i};
            assert_non_null(held[i].object);
            assert_int_equal((uintptr_t)held[i].object % (align == 0 ? 8 : align), 0);
            if (constructor != NULL) {
                assert_true(*(uint64_t *)held[i].object == 0x1234567890abcdef);
            } else {
                fill(held[i].object, size, i);
            }
        }
        for (unsigned i = 0; i < 100; i++) {
            assert_true(constructor != NULL || holds(held[i].object, size, i));
            vl_cache_free(cache, held[i].object);
        }
        vli_slab_validate();
    }
    assert_int_equal(vl_cache_destroy(cache), VL_OK);
}

static void caches_of_all_kinds(void **state)
{
    (void)state;
    machine_on(1, 64 * MIB);
    for (size_t size = 1; size <= VL_KMALLOC_CACHED_MAX; size += size < 100 ? 7 : 1021) {
        a_cache_of(size, 0, NULL);
        a_cache_of(size, 64, NULL);
        a_cache_of(size, 4096, NULL);
        a_cache_of(size < 8 ? 8 : size, 0, construct);
        a_cache_of(size < 8 ? 8 : size, 256, construct);
    }
    machine_off();
}

static void constructor_runs_once_a_slab(void **state)
{
    struct vl_cache_spec spec = {.name = "made", .size = 200, .constructor = construct};
    struct vl_cache *cache;
    struct vli_slab_info info;
    void *first;

    (void)state;
    machine_on(1, 16 * MIB);
    assert_int_equal(vl_cache_create(&spec, &cache), VL_OK);
    made = 0;
    first = vl_cache_alloc(cache, VL_ATOMIC);
    assert_true(vli_slab_info(cache->index, &info));
    assert_int_equal(made, info.units);
    for (unsigned i = 0; i < 1000; i++) {
        vl_cache_free(cache, first);
        first = vl_cache_alloc(cache, VL_ATOMIC);
    }
    assert_int_equal(made, info.units);
    vl_cache_free(cache, first);
    assert_int_equal(vl_cache_destroy(cache), VL_OK);
    machine_off();
}

static void wrong_specs_are_refused(void **state)
{
    struct vl_cache *cache;

    (void)state;
    machine_on(1, 16 * MIB);
    assert_int_equal(vl_cache_create(&(struct vl_cache_spec){"a", 0, 0, NULL, 0}, &cache),
                     VL_EINVAL);
    assert_int_equal(vl_cache_create(&(struct vl_cache_spec){"a", 16385, 0, NULL, 0}, &cache),
                     VL_EINVAL);
    assert_int_equal(vl_cache_create(&(struct vl_cache_spec){"a", 8, 24, NULL, 0}, &cache),
                     VL_EINVAL);
    assert_int_equal(vl_cache_create(&(struct vl_cache_spec){"a", 8, 8192, NULL, 0}, &cache),
                     VL_EINVAL);
    assert_int_equal(vl_cache_create(&(struct vl_cache_spec){NULL, 8, 0, NULL, 0}, &cache),
                     VL_EINVAL);
    machine_off();
}

static void busy_caches_stay(void **state)
{
    struct vl_cache_spec spec = {.name = "busy", .size = 72, .flags = VL_CACHE_NO_MERGE};
    struct vl_cache *cache;
    void *objects[200];

    (void)state;
    machine_on(1, 16 * MIB);
    assert_int_equal(vl_cache_create(&spec, &cache), VL_OK);
    for (unsigned i = 0; i < 200; i++) {
        objects[i] = vl_cache_alloc(cache, VL_ATOMIC);
        assert_non_null(objects[i]);
    }
    for (unsigned i = 1; i < 200; i++) {
        vl_cache_free(cache, objects[i]);
    }
    assert_int_equal(vl_cache_destroy(cache), VL_EBUSY);
    objects[1] = vl_cache_alloc(cache, VL_ATOMIC); /* it goes on serving */
    assert_non_null(objects[1]);
    vl_cache_free(cache, objects[1]);
    vl_cache_free(cache, objects[0]);
    assert_int_equal(vl_cache_destroy(cache), VL_OK);
    machine_off();
}

static void as_many_as_there_is_room_for(void **state)
{
    struct vl_cache_spec spec = {.name = "one of many", .size = 40, .flags = VL_CACHE_NO_MERGE};
    struct vl_cache *caches[VLI_CACHES_MAX];
    unsigned count = 0;

    (void)state;
    machine_on(1, 16 * MIB);
    while (count < VLI_CACHES_MAX && vl_cache_create(&spec, &caches[count]) == VL_OK) {
        void *object = vl_cache_alloc(caches[count], VL_ATOMIC);

        assert_non_null(object);
        vl_cache_free(caches[count], object);
        count++;
    }
    assert_true(count > VLI_CACHES_MAX / 2 && count < VLI_CACHES_MAX);
    while (count > 0) {
        assert_int_equal(vl_cache_destroy(caches[--count]), VL_OK);
    }
    machine_off();
}

static void shrinking_gives_back(void **state)
{
    struct vl_cache_spec spec = {.name = "shrunk", .size = 1000};
    struct vl_cache *cache;
    void *objects[300];
    struct vli_slab_info info;

    (void)state;
    machine_on(1, 16 * MIB);
    assert_int_equal(vl_cache_create(&spec, &cache), VL_OK);
    for (unsigned i = 0; i < 300; i++) {
        objects[i] = vl_cache_alloc(cache, VL_ATOMIC);
    }
    assert_true(vli_slab_info(cache->index, &info));
    assert_true(info.units >= 300 && info.frames >= 300 * 1000 / 4096);
    assert_int_equal(info.units_active, 300); /* none of those that the CPU keeps */
    assert_int_equal(vl_cache_shrink(cache), 0);
    for (unsigned i = 0; i < 300; i++) {
        vl_cache_free(cache, objects[i]);
        assert_true(i % 50 != 7 || vli_slab_info(cache->index, &info));
        assert_true(i % 50 != 7 || info.units_active == 299 - i);
    }
    assert_true(vl_cache_shrink(cache) > 0);
    assert_true(vli_slab_info(cache->index, &info));
    assert_int_equal(info.frames, 0);
    assert_int_equal(info.units_active, 0);
    assert_int_equal(vl_cache_destroy(cache), VL_OK);
    machine_off();
}

/* ---- several CPUs ---- */

#define SHARED 256u

/* Objects on their way from one CPU to another. */
static _Atomic(void *) shared[SHARED];

static size_t shared_size(uint64_t r)
{
    static const size_t sizes[] = {8, 24, 64, 200, 512, 1024, 3000, 9000};

    return r % 64 == 0 ? 20000 : sizes[r / 64 % 8]; /* whole frames take the zone's lock */
}

/* Each object carries its size and number at its start. */
struct parcel {
    uint32_t size;
    uint32_t number;
};

static void swap_shared(uint64_t r)
{
    size_t size = shared_size(r);
    struct parcel *parcel = vl_kmalloc(size, VL_ATOMIC);

    if (parcel != NULL) {
        *parcel = (struct parcel){(uint32_t)size, (uint32_t)(r >> 8)};
        fill(parcel + 1, size - sizeof(*parcel), parcel->number);
    }
    parcel = atomic_exchange(&shared[(r >> 40) % SHARED], parcel);
    if (parcel != NULL) {
        assert_true(holds(parcel + 1, parcel->size - sizeof(*parcel), parcel->number));
        vl_kfree(parcel);
    }
}

static void swap_many(void *arg, unsigned cpu)
{
    uint64_t random = seed + cpu;
    uint64_t ops = sim_ops(400000) / CPUS / 4;

    (void)arg;
    for (uint64_t i = 0; i < ops; i++) {
        swap_shared(sim_random(&random));
        if (cpu == 0 && i % 4000 == 3999) {
            vl_drain_all(); /* while the others go on */
        }
    }
}

static void empty_shared(void)
{
    for (unsigned i = 0; i < SHARED; i++) {
        vl_kfree(atomic_exchange(&shared[i], NULL));
    }
}

static void objects_move_between_cpus(void **state)
{
    (void)state;
    machine_on(CPUS, 64 * MIB);
    sim_run_on_cpus(CPUS, swap_many, NULL);
    vli_slab_validate();
    empty_shared();
    machine_off();
}

/* One CPU allocates, the others free: every free is of another CPU's slab. */
static void produce_consume(void *arg, unsigned cpu)
{
    struct vl_cache *cache = arg;
    uint64_t ops = sim_ops(200000) / 8;

    for (uint64_t i = 0; i < ops; i++) {
        _Atomic(void *) *place = &shared[i % SHARED];

        if (cpu == 0) {
            void *object = vl_cache_alloc(cache, VL_ATOMIC);

            if (object != NULL) {
                fill(object, 56, 5);
            }
            object = atomic_exchange(place, object);
            if (object != NULL) {
                vl_cache_free(cache, object);
            }
        } else {
            void *object = atomic_exchange(place, NULL);

            if (object != NULL) {
                assert_true(holds(object, 56, 5));
                vl_cache_free(cache, object);
            }
        }
    }
}

static void frees_are_remote(void **state)
{
    struct vl_cache_spec spec = {.name = "remote", .size = 56};
    struct vl_cache *cache;

    (void)state;
    machine_on(CPUS, 32 * MIB);
    assert_int_equal(vl_cache_create(&spec, &cache), VL_OK);
    sim_run_on_cpus(CPUS, produce_consume, cache);
    vli_slab_validate();
    for (unsigned i = 0; i < SHARED; i++) {
        void *object = atomic_exchange(&shared[i], NULL);

        if (object != NULL) {
            vl_cache_free(cache, object);
        }
    }
    assert_int_equal(vl_cache_destroy(cache), VL_OK);
    machine_off();
}

/* ---- interrupts ---- */

static uint64_t irq_random[VL_CPUS_MAX];

static void allocate_in_irq(unsigned cpu)
{
    for (unsigned i = 0; i < 4; i++) {
        swap_shared(sim_random(&irq_random[cpu]));
    }
}

static void interrupts_allocate_and_free(void **state)
{
    (void)state;
    machine_on(CPUS, 64 * MIB);
    for (unsigned cpu = 0; cpu < CPUS; cpu++) {
        irq_random[cpu] = seed ^ cpu * 77;
    }
    sim_irq_set(allocate_in_irq);
    sim_irq_storm(10);
    do { /* a few operations may end before the first one comes */
        sim_run_on_cpus(CPUS, swap_many, NULL);
    } while (sim_irq_count() == 0);
    sim_irq_storm_end();
    sim_irq_set(NULL);
    empty_shared();
    machine_off();
}

/* ---- failed allocations ---- */

/* A course of allocations of all kinds; true when none failed. */
static bool course(void)
{
    struct vl_cache_spec spec = {.name = "course", .size = 500};
    struct vl_cache *cache;
    struct held held[64];
    void *objects[40];
    bool whole = true;

    assert_int_equal(vl_cache_create(&spec, &cache), VL_OK);
    for (unsigned i = 0; i < 64; i++) {
        size_t size = (size_t)i * i * 9 + 1;

        held[i] = (struct held){get(size, i), size, i};
        whole = whole && held[i].object != NULL;
        if (held[i].object != NULL) {
            fill(held[i].object, size, i);
        }
    }
    for (unsigned i = 0; i < 40; i++) {
        objects[i] = vl_cache_alloc(cache, VL_ATOMIC);
        whole = whole && objects[i] != NULL;
    }
    vli_slab_validate();
    release(held, 64);
    for (unsigned i = 0; i < 40; i++) {
        if (objects[i] != NULL) {
            vl_cache_free(cache, objects[i]);
        }
    }
    assert_int_equal(vl_cache_destroy(cache), VL_OK);
    return whole;
}

static void each_failure_is_clean(void **state)
{
    uint64_t step = 0;
    uint64_t failed;

    (void)state;
    machine_on(1, 32 * MIB);
    do {
        uint64_t before = sim_fail_count();

        sim_fail_after(step++);
        (void)course();
        sim_fail_after(UINT64_MAX);
        failed = sim_fail_count() - before;
        vl_drain_all();
    } while (failed != 0);
    assert_true(step > 100);
    assert_true(course());
    machine_off();
}

static void swap_with_failures(void *arg, unsigned cpu)
{
    uint64_t random = seed + cpu;

    (void)arg;
    for (unsigned i = 0; i < 20000; i++) {
        swap_shared(sim_random(&random));
    }
}

static void random_failures(void **state)
{
    (void)state;
    machine_on(CPUS, 32 * MIB);
    sim_fail_often(6000);
    sim_run_on_cpus(CPUS, swap_with_failures, NULL);
    sim_fail_often(0);
    assert_true(sim_fail_count() > 0);
    empty_shared();
    machine_off();
}

static void memory_runs_out(void **state)
{
    static void *objects[16384];
    unsigned count = 0;

    (void)state;
    machine_on(1, 16 * MIB);
    while (count < 16384 && (objects[count] = vl_kmalloc(2048, VL_ATOMIC)) != NULL) {
        count++;
    }
    assert_true(count > 2048 && count < 16384);
    assert_null(vl_kmalloc(2048, VL_WAIT));
    while (count > 0) {
        vl_kfree(objects[--count]);
    }
    objects[0] = vl_kmalloc(2048, VL_ATOMIC);
    assert_non_null(objects[0]);
    vl_kfree(objects[0]);
    machine_off();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size),
        cmocka_unit_test(constant_sizes_agree),
        cmocka_unit_test(large_ones),
        cmocka_unit_test(whole_frames_to_the_page),
        cmocka_unit_test(caches_of_all_kinds),
        cmocka_unit_test(constructor_runs_once_a_slab),
        cmocka_unit_test(wrong_specs_are_refused),
        cmocka_unit_test(busy_caches_stay),
        cmocka_unit_test(as_many_as_there_is_room_for),
        cmocka_unit_test(shrinking_gives_back),
        cmocka_unit_test(random_operations),
        cmocka_unit_test(objects_move_between_cpus),
        cmocka_unit_test(frees_are_remote),
        cmocka_unit_test(interrupts_allocate_and_free),
        cmocka_unit_test(each_failure_is_clean),
        cmocka_unit_test(random_failures),
        cmocka_unit_test(memory_runs_out),
    };

    seed = sim_seed(20070821);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
