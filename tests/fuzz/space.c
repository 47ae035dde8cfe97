/*
 * space.c - fuzz target: spaces driven by bytes.
 *
 * Goal: no order of calls, with any arguments, breaks an invariant or loses a frame. Method: each
 * four bytes of the input are a call on one of three spaces (map, unmap, protect, remap, advise,
 * brk, touch, fork, truncate, a failed allocation); every structure is validated now and then and
 * at the end, when all frames must be free again. The simulated MMU watches the TLBs throughout.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vellum/vellum.h>
#include "machine/sim/mmu.h"
#include "machine/sim/sim.h"

#define SPACES 3u
#define BASE   ((vl_va)0x7fff0000)
#define PAGES  64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct run {
    struct vl_space *space[SPACES];
    struct vl_object *object;
    unsigned active;
};

/* One call, taken from four bytes. */
struct call {
    unsigned what, space, page, count, detail;
};

static vl_va address_of(const struct call *call)
{
    /* Some addresses lie where nobody may map, or are not aligned. */
    switch (call->detail >> 5) {
    case 6:
        return VL_USER_END - (vl_va)call->page * VL_PAGE_SIZE;
    case 7:
        return BASE + call->page * 37;
    default:
        return BASE + (vl_va)(call->page % PAGES) * VL_PAGE_SIZE;
    }
}

static size_t length_of(const struct call *call)
{
    return call->count == 255   ? SIZE_MAX - call->detail * VL_PAGE_SIZE
           : call->count == 254 ? (size_t)call->detail << 40
                                : (size_t)(call->count % 24) * VL_PAGE_SIZE;
}

static void map(struct run *run, const struct call *call)
{
    struct vl_map_request request = {
        .hint = address_of(call),
        .len = length_of(call),
        .prot = call->detail & 7,
        .kind = call->detail & 8 ? VL_MAP_SHARED : VL_MAP_PRIVATE,
        .place = (enum vl_map_place)(call->page % 3),
        .populate = call->count % 5 == 0,
        .grows_down = call->count % 11 == 10,
    };
    vl_va at;

    if (call->detail & 16) {
        request.object = run->object;
        request.offset = (uint64_t)(call->page % 8) * VL_PAGE_SIZE;
        request.grows_down = false;
    }
    if (vl_space_map(run->space[call->space], &request, &at) == VL_OK && at % VL_PAGE_SIZE != 0) {
        abort();
    }
}

static void touch(struct run *run, const struct call *call)
{
    vl_va at = address_of(call) & ~(vl_va)7;
    uint64_t word;

    sim_space_switch(run->space[call->space]);
    run->active = call->space;
    for (unsigned i = 0; i <= call->count % 8; i++, at += VL_PAGE_SIZE) {
        if (call->detail & 1) {
            (void)!(sim_store(at, at) == VL_OK);
        } else {
            (void)!(sim_load(at, &word) == VL_OK);
        }
    }
}

/* Another of the spaces is replaced by a copy of this one. */
static void fork_over(struct run *run, const struct call *call)
{
    unsigned to = (call->space + 1 + call->detail % (SPACES - 1)) % SPACES;
    struct vl_space *child;

    if (vl_space_fork(run->space[call->space], &child) != VL_OK) {
        return;
    }
    if (run->active == to) {
        sim_space_switch(run->space[call->space]);
        run->active = call->space;
    }
    vl_space_put(run->space[to]);
    run->space[to] = child;
}

static void other(struct run *run, const struct call *call)
{
    struct vl_space *space = run->space[call->space];
    vl_va at = address_of(call);
    vl_va moved;
    uint8_t states[32];

    switch (call->what % 8) {
    case 0:
        (void)!(vl_space_remap(space, at, length_of(call), (call->detail % 16) * VL_PAGE_SIZE,
                               call->page % 8, BASE + call->detail * VL_PAGE_SIZE,
                               &moved) == VL_OK);
        break;
    case 1:
        (void)!(vl_space_advise(space, at, length_of(call), (enum vl_advice)(call->detail % 6)) ==
                VL_OK);
        break;
    case 2:
        if (run->space[call->space] != NULL) {
            vl_space_set_brk(space, BASE + (vl_va)256 * VL_PAGE_SIZE);
            vl_space_brk(space, BASE + (vl_va)(256 + call->page) * VL_PAGE_SIZE + call->detail);
        }
        break;
    case 3:
        (void)!(vl_object_truncate(run->object, (uint64_t)call->page * 512) == VL_OK);
        break;
    case 4:
        sim_fail_after(call->page % 32);
        break;
    case 5:
        (void)!(vl_space_resident(space, at, (call->count % 32) * VL_PAGE_SIZE, states) == VL_OK);
        break;
    case 6:
        vl_drain_all();
        break;
    default:
        vl_space_validate(space);
        break;
    }
}

static void one_call(struct run *run, const struct call *call)
{
    switch (call->what % 8) {
    case 0:
    case 1:
        map(run, call);
        break;
    case 2:
        (void)!(vl_space_unmap(run->space[call->space], address_of(call), length_of(call)) ==
                VL_OK);
        break;
    case 3:
        (void)!(vl_space_protect(run->space[call->space], address_of(call), length_of(call),
                                 call->detail & 7) == VL_OK);
        break;
    case 4:
    case 5:
        touch(run, call);
        break;
    case 6:
        fork_over(run, call);
        break;
    default:
        other(run,
              &(struct call){call->what >> 3, call->space, call->page, call->count, call->detail});
        break;
    }
}

static uint64_t free_now(void)
{
    struct vl_frame_counts counts;

    vl_drain_all();
    vl_frame_counts(&counts);
    return counts.free_zones + counts.free_stock;
}

static void start(struct run *run)
{
    for (unsigned i = 0; i < SPACES; i++) {
        if (vl_space_create(&run->space[i]) != VL_OK) {
            abort();
        }
    }
    if (vl_object_create(NULL, NULL, &run->object) != VL_OK ||
        vl_object_extend(run->object, 6 * VL_PAGE_SIZE + 100) != VL_OK) {
        abort();
    }
    sim_space_switch(run->space[0]);
    run->active = 0;
}

static void finish(struct run *run)
{
    sim_fail_after(UINT64_MAX);
    sim_space_switch(NULL);
    for (unsigned i = 0; i < SPACES; i++) {
        vl_space_validate(run->space[i]);
    }
    for (unsigned i = 0; i < SPACES; i++) {
        vl_space_put(run->space[i]);
    }
    vl_object_put(run->object);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool on;
    struct sim_config config = {.ram_bytes = (uint64_t)16 << 20, .cpus = 1, .quiet = true};
    struct run run;

    if (!on) {
        sim_start(&config);
        /* What the first space leaves behind for ever is not lost. */
        start(&run);
        finish(&run);
        on = true;
    }
    uint64_t before = free_now();

    start(&run);
    for (size_t i = 0; i + 4 <= size && i < 4096; i += 4) {
        struct call call = {data[i], (data[i] ^ data[i + 1]) % SPACES, data[i + 1], data[i + 2],
                            data[i + 3]};

        one_call(&run, &call);
    }
    finish(&run);
    if (free_now() != before) {
        fprintf(stderr, "frames lost: %lu free, %lu before\n", free_now(), before);
        abort();
    }
    return 0;
}
