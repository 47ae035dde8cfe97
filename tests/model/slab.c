/*
 * Goal: any sequence of calls on object caches and allocation by size does what a plain model says,
 * with every strategy of SLAB: objects keep their contents and alignment, sizes are what they must
 * be, caches end when they may, a failed call changes nothing, and all memory comes back.
 * Method: random calls from a seed, on one CPU after the other, each object filled with a pattern
 * of its own and checked whenever it is met again; validation at intervals; then short sequences
 * again and again, with the first allocation failing, the second, and so on, once and from there
 * on.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <vellum/shrink.h>
#include "core/base/log.h"
#include "core/slab/slab.h"
#include "machine/sim/sim.h"

#if VL_SMP
#define CPUS 3u
#else
#define CPUS 1u
#endif
#define HANDLES   24u /* creations of caches */
#define HELD_MAX  1500u
#define BULK_MAX  80u
#define LARGE_MAX 300000u
#define BATCH     50u /* calls on one CPU before the next */
#define MAGIC     0x6d6f64656cull

/* A creation as the model sees it. */
struct handle {
    struct vl_cache *cache; /* NULL: none */
    struct vl_cache_spec spec;
    unsigned out; /* objects */
};

/* An object as the model sees it. */
struct held {
    unsigned char *object;
    struct handle *of; /* NULL: allocated by size */
    size_t size;
    size_t align;
    uint64_t number; /* of its pattern */
    bool is_zeroed;  /* by all calls for it */
};

static uint64_t seed;
static uint64_t random_state;
static struct handle handles[HANDLES];
static struct held held[HELD_MAX];
static unsigned held_count;
static uint64_t numbers;
static bool may_fail; /* failures are being injected */
static uint64_t calls[20];

static uint64_t rnd(uint64_t below)
{
    return sim_random(&random_state) % below;
}

/* ---- contents ---- */

static size_t head_of(const struct held *h)
{
    return h->of != NULL && h->of->spec.constructor != NULL ? 8 : 0;
}

static unsigned char byte_of(const struct held *h, size_t i)
{
    return (unsigned char)(h->number * 37 + i * 11 + (i >> 8));
}

/* All bytes near the ends, some of those between. */
static size_t next(size_t i, size_t size)
{
    return i < 32 || i + 64 >= size ? i + 1 : i + 29;
}

static void fill(struct held *h, size_t from)
{
    h->number = ++numbers;
    for (size_t i = from; i < h->size; i = next(i, h->size)) {
        h->object[i] = byte_of(h, i);
    }
}

static void check_part(const struct held *h, size_t size)
{
    for (size_t i = head_of(h); i < size && i < h->size; i = next(i, h->size)) {
        assert_int_equal(h->object[i], byte_of(h, i));
    }
    assert_true(head_of(h) == 0 || *(uint64_t *)(void *)h->object == MAGIC);
}

static void check_zero(const unsigned char *object, size_t from, size_t to)
{
    for (size_t i = from; i < to; i = next(i, to)) {
        assert_int_equal(object[i], 0);
    }
}

static void construct(void *object)
{
    *(uint64_t *)object = MAGIC;
}

/* ---- what the model holds ---- */

static bool is_full(size_t more)
{
    return held_count + more > HELD_MAX;
}

/* A call returned @object: it must be there if nothing was made to fail. */
static void add(void *object, struct handle *of, size_t size, size_t align, bool is_zeroed)
{
    struct held *h = &held[held_count];

    if (object == NULL) {
        assert_true(may_fail);
        return;
    }
    *h = (struct held){
        .object = object, .of = of, .size = size, .align = align, .is_zeroed = is_zeroed};
    assert_int_equal((uintptr_t)object % align, 0);
    if (is_zeroed) {
        check_zero(object, 0, size);
    }
    assert_true(head_of(h) == 0 || *(uint64_t *)object == MAGIC);
    fill(h, head_of(h));
    held_count++;
    if (of != NULL) {
        of->out++;
    }
}

/* Takes an entry out, whose contents were checked. */
static struct held remove_at(unsigned i)
{
    struct held h = held[i];

    check_part(&h, h.size);
    held[i] = held[--held_count];
    if (h.of != NULL) {
        h.of->out--;
    }
    return h;
}

static void free_held(struct held h)
{
    if (h.of != NULL) {
        vl_cache_free(h.of->cache, h.object);
    } else {
        vl_kfree(h.object);
    }
}

static struct handle *any_handle(bool is_live)
{
    unsigned start = (unsigned)rnd(HANDLES);

    for (unsigned i = 0; i < HANDLES; i++) {
        struct handle *handle = &handles[(start + i) % HANDLES];

        if ((handle->cache != NULL) == is_live) {
            return handle;
        }
    }
    return NULL;
}

static size_t any_size(size_t max)
{
    uint64_t size = rnd((uint64_t)1 << (1 + rnd(19)));

    return (size_t)(size % (max + 1));
}

static vl_how_t any_how(bool *out_is_zeroed)
{
    *out_is_zeroed = rnd(4) == 0;
    return (rnd(3) == 0 ? VL_WAIT : VL_ATOMIC) | (*out_is_zeroed ? VL_ZEROED : 0);
}

/* ---- calls ---- */

static void call_create(void)
{
    struct handle *handle = any_handle(false);

    if (handle == NULL) {
        return;
    }
    memset(handle, 0, sizeof(*handle));
    handle->spec.name = "model";
    handle->spec.size = 8 + any_size(VL_KMALLOC_CACHED_MAX - 8);
    if (rnd(3) == 0) { /* few sizes, so that some are alike */
        handle->spec.size = 1000 + 8 * rnd(3);
    }
    handle->spec.align = rnd(2) == 0 ? 0 : (size_t)1 << rnd(13);
    handle->spec.constructor = rnd(4) == 0 ? construct : NULL;
    handle->spec.flags = rnd(3) == 0 ? VL_CACHE_NO_MERGE : 0;
    if (vl_cache_create(&handle->spec, &handle->cache) != VL_OK) {
        handle->cache = NULL;
        assert_true(may_fail);
    }
}

static void call_destroy(void)
{
    struct handle *handle = any_handle(true);
    unsigned count;

    if (handle == NULL) {
        return;
    }
    count = handle->cache->users; /* the core's own, too, where one is alike */
    if (handle->out != 0 && count > 1) {
        return; /* they could not be freed any more */
    }
    if (handle->out != 0) {
        assert_int_equal(vl_cache_destroy(handle->cache), VL_EBUSY);
        return;
    }
    assert_int_equal(vl_cache_destroy(handle->cache), VL_OK);
    handle->cache = NULL;
}

static size_t align_of(const struct handle *handle)
{
    return handle->spec.align > 8 ? handle->spec.align : 8;
}

static void call_cache_alloc(void)
{
    struct handle *handle = any_handle(true);
    bool is_zeroed;
    vl_how_t how = any_how(&is_zeroed);

    if (handle == NULL || is_full(1)) {
        return;
    }
    if (handle->spec.constructor != NULL) {
        how &= ~(vl_how_t)VL_ZEROED;
        is_zeroed = false;
    }
    add(vl_cache_alloc(handle->cache, how), handle, handle->spec.size, align_of(handle), is_zeroed);
}

static void call_bulk_alloc(void)
{
    struct handle *handle = any_handle(true);
    size_t count = rnd(BULK_MAX);
    void *objects[BULK_MAX];
    bool is_zeroed;
    vl_how_t how = any_how(&is_zeroed);

    if (handle == NULL || is_full(count) || handle->spec.size * count > 2 * LARGE_MAX) {
        return;
    }
    if (handle->spec.constructor != NULL) {
        how &= ~(vl_how_t)VL_ZEROED;
        is_zeroed = false;
    }
    if (vl_cache_alloc_bulk(handle->cache, how, count, objects) != VL_OK) {
        assert_true(may_fail);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        add(objects[i], handle, handle->spec.size, align_of(handle), is_zeroed);
    }
}

/* Objects of one cache, however they were allocated, through any creation that shares it. */
static void call_bulk_free(void)
{
    struct handle *handle = any_handle(true);
    size_t count = 0;
    size_t wanted = rnd(BULK_MAX);
    void *objects[BULK_MAX];

    if (handle == NULL) {
        return;
    }
    for (unsigned i = held_count; i-- > 0 && count < wanted;) {
        if (held[i].of != NULL && held[i].of->cache == handle->cache) {
            objects[count++] = remove_at(i).object;
        }
    }
    vl_cache_free_bulk(handle->cache, count, objects);
}

static void call_kmalloc(void)
{
    size_t size = any_size(LARGE_MAX);
    bool is_zeroed;
    vl_how_t how = any_how(&is_zeroed);

    if (!is_full(1)) {
        add(vl_kmalloc(size, how), NULL, size, 8, is_zeroed);
    }
}

static void call_kcalloc(void)
{
    size_t size = any_size(500);
    size_t count = rnd(30);

    if (!is_full(1)) {
        add(vl_kcalloc(count, size, VL_ATOMIC), NULL, count * size, 8, true);
    }
}

static void call_aligned(void)
{
    size_t size = any_size(LARGE_MAX / 4);
    size_t align = (size_t)1 << rnd(16);
    bool is_zeroed;
    vl_how_t how = any_how(&is_zeroed);

    if (!is_full(1)) {
        add(vl_kmalloc_aligned(size, align, how), NULL, size, align, is_zeroed);
    }
}

static void call_krealloc(void)
{
    struct held *h;
    size_t size = any_size(LARGE_MAX);
    size_t old;
    unsigned char *fresh;

    if (held_count == 0) {
        return;
    }
    h = &held[rnd(held_count)];
    if (h->of != NULL) {
        return;
    }
    check_part(h, h->size);
    assert_true(vl_ksize(h->object) >= h->size);
    old = h->size;
    fresh = vl_krealloc(h->object, size, VL_ATOMIC | (h->is_zeroed ? VL_ZEROED : 0));
    if (fresh == NULL) {
        assert_true(may_fail && size > h->size);
        check_part(h, h->size);
        return;
    }
    h->object = fresh;
    check_part(h, size);
    h->size = size;
    assert_true(vl_ksize(fresh) >= size);
    if (h->is_zeroed && size > old) {
        check_zero(fresh, old, size);
    }
    fill(h, 0);
}

static void call_free(void)
{
    if (held_count > 0) {
        free_held(remove_at((unsigned)rnd(held_count)));
    }
}

/* In cohorts, as programs do: the latest, or the oldest. */
static void call_free_many(void)
{
    unsigned count = (unsigned)rnd(100);
    bool from_start = rnd(2) == 0;

    while (count-- > 0 && held_count > 0) {
        free_held(remove_at(from_start ? 0 : held_count - 1));
    }
}

static void call_shrink(void)
{
    struct handle *handle = any_handle(true);

    if (handle != NULL) {
        (void)vl_cache_shrink(handle->cache);
    }
}

/* When nothing is kept aside, the units in use are those that the model holds. */
static void call_drain(void)
{
    struct vli_slab_info info;
    unsigned out;

    if (rnd(2) == 0) {
        (void)vl_shrink(rnd(100));
        return;
    }
    vl_drain_all();
    for (unsigned i = 0; i < HANDLES; i++) {
        if (handles[i].cache == NULL || (handles[i].spec.flags & VL_CACHE_NO_MERGE) == 0) {
            continue; /* the core's own may share it */
        }
        out = handles[i].out;
        assert_true(vli_slab_info(handles[i].cache->index, &info));
        assert_int_equal(info.units_active, out);
        assert_true(info.object_bytes >= handles[i].spec.size);
    }
}

static void call_validate(void)
{
    for (unsigned i = 0; i < held_count; i++) {
        check_part(&held[i], held[i].size);
    }
    vli_slab_validate();
}

static void call_nothing_that_is_wrong(void)
{
    assert_null(vl_kmalloc(VL_KMALLOC_MAX + 1 + rnd(SIZE_MAX / 2), VL_ATOMIC));
    assert_null(vl_kmalloc_array(SIZE_MAX / 2, 3 + rnd(100), VL_ATOMIC));
    assert_null(vl_kmalloc_aligned(1, 3 + 4 * rnd(100), VL_ATOMIC));
    vl_kfree(NULL);
}

static const struct {
    void (*call)(void);
    unsigned weight;
} kinds[] = {
    {call_cache_alloc, 200}, {call_free, 350},    {call_kmalloc, 200},
    {call_krealloc, 80},     {call_aligned, 40},  {call_kcalloc, 40},
    {call_bulk_alloc, 8},    {call_bulk_free, 8}, {call_free_many, 4},
    {call_create, 6},        {call_destroy, 5},   {call_shrink, 4},
    {call_drain, 2},         {call_validate, 2},  {call_nothing_that_is_wrong, 4},
};

static void call_one(void)
{
    unsigned sum = 0;
    uint64_t r;

    for (unsigned i = 0; i < VLI_COUNT_OF(kinds); i++) {
        sum += kinds[i].weight;
    }
    r = rnd(sum);
    for (unsigned i = 0; i < VLI_COUNT_OF(kinds); i++) {
        if (r < kinds[i].weight) {
            calls[i]++;
            kinds[i].call();
            return;
        }
        r -= kinds[i].weight;
    }
}

/* ---- sequences ---- */

static uint64_t free_before;

static uint64_t free_frames(void)
{
    struct vl_frame_counts counts;

    vl_drain_all();
    vl_frame_counts(&counts);
    return counts.free_zones + counts.free_stock;
}

static void start(unsigned cpus)
{
    struct sim_config config = {.ram_bytes = 256u << 20, .cpus = cpus, .seed = seed, .quiet = true};

    sim_start(&config);
    free_before = free_frames();
    memset(handles, 0, sizeof(handles));
    held_count = 0;
    may_fail = false;
}

/* Everything is freed, everything is back. */
static void end_all(void)
{
    while (held_count > 0) {
        free_held(remove_at(held_count - 1));
    }
    for (unsigned i = 0; i < HANDLES; i++) {
        if (handles[i].cache != NULL) {
            assert_int_equal(vl_cache_destroy(handles[i].cache), VL_OK);
            handles[i].cache = NULL;
        }
    }
    vli_slab_validate();
    assert_int_equal(free_frames(), free_before);
    vli_slab_validate();
}

static unsigned turn; /* the CPU that calls */

static void batch(void *arg, unsigned cpu)
{
    (void)arg;
    for (unsigned i = 0; cpu == turn && i < BATCH; i++) {
        call_one();
    }
}

static void random_calls(void **state)
{
    uint64_t ops = sim_ops(100000);

    (void)state;
    start(CPUS);
    random_state = seed;
    for (uint64_t i = 0; i < ops; i += BATCH) {
        turn = (unsigned)rnd(CPUS);
        if (turn == 0) {
            batch(NULL, 0); /* this thread */
        } else {
            sim_run_on_cpus(turn + 1, batch, NULL);
        }
    }
    end_all();
    for (unsigned i = 0; i < VLI_COUNT_OF(kinds) && ops >= 10000; i++) {
        assert_true(calls[i] > 0);
    }
    sim_stop();
}

static void random_calls_that_fail(void **state)
{
    uint64_t ops = sim_ops(100000) / 4;

    (void)state;
    start(1);
    random_state = seed + 1;
    may_fail = true;
    sim_fail_often(3000);
    for (uint64_t i = 0; i < ops; i++) {
        call_one();
    }
    sim_fail_often(0);
    assert_true(ops < 1000 || sim_fail_count() > ops / 1000);
    end_all();
    sim_stop();
}

/* One short sequence, the same each time up to the failure. */
static void short_sequence(void)
{
    random_state = seed + 2;
    for (unsigned i = 0; i < 4; i++) {
        call_create();
    }
    for (unsigned i = 0; i < 120; i++) {
        call_one();
    }
}

static void each_failure(void (*set_fail)(uint64_t count))
{
    uint64_t before;
    uint64_t step = 0;

    start(1);
    may_fail = true;
    do {
        before = sim_fail_count();
        set_fail(step++);
        short_sequence();
        set_fail(UINT64_MAX);
        end_all();
    } while (sim_fail_count() != before);
    assert_true(step > 50);
    may_fail = false;
    short_sequence();
    end_all();
    sim_stop();
}

static void each_allocation_fails_once(void **state)
{
    (void)state;
    each_failure(sim_fail_after);
}

static void all_fail_from_each_on(void **state)
{
    (void)state;
    each_failure(sim_fail_from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_calls),
        cmocka_unit_test(random_calls_that_fail),
        cmocka_unit_test(each_allocation_fails_once),
        cmocka_unit_test(all_fail_from_each_on),
    };

    seed = sim_seed(20261130);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
