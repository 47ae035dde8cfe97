/*
 * process.c - experiment 3 in the sim: what the core does when a small process forks and its child
 * ends, natively, without traps.
 *
 * usage: process ROUNDS
 *
 * The space has a small static program's areas: text, data, bss and heap, a stack. `near` has them
 * within 512 GiB as a 32-bit task has; `far` spread as a 64-bit task's are, the stack at the top of
 * the user's half. Each round forks it, writes four pages of the child and three of the parent, and
 * ends the child. Five figures each, in hundredths of a microsecond.
 */
#include "bench/sim/measure.h"

#define REPEATS 5

struct layout {
    const char *name;
    vl_va text, heap, library, stack;
};

static const struct layout layouts[] = {
    {"near", 0x08048000, 0x08100000, 0xf7000000, 0xfffdd000},
    {"far", 0x400000, 0x1000000, 0x7f0000000000, 0x7ffffffde000},
};

static void map_and_touch(struct vl_space *space, vl_va at, unsigned pages, uint32_t prot)
{
    struct vl_map_request request = {
        .hint = at, .len = pages * VL_PAGE_SIZE, .prot = prot, .place = VL_MAP_FIXED};
    vl_va got;

    must(vl_space_map(space, &request, &got), "map");
    for (unsigned i = 0; i < pages; i++) {
        must(vl_space_fault(space, at + i * VL_PAGE_SIZE, prot & VL_WRITE ? VL_WRITE : VL_READ),
             "fault");
    }
}

static void write_page(struct vl_space *space, vl_va at)
{
    must(vl_space_fault(space, at, VL_WRITE), "write");
}

static void one_process(struct vl_space *parent, const struct layout *l)
{
    struct vl_space *child;

    must(vl_space_fork(parent, &child), "fork");
    sim_space_switch(child);
    write_page(child, l->stack);
    write_page(child, l->heap);
    write_page(child, l->heap + VL_PAGE_SIZE);
    write_page(child, l->library + 8 * VL_PAGE_SIZE);
    sim_space_switch(parent);
    vl_space_put(child);
    write_page(parent, l->stack);
    write_page(parent, l->heap);
    write_page(parent, l->library + 8 * VL_PAGE_SIZE);
}

static void measure(const struct layout *l, uint64_t rounds, uint64_t *out)
{
    struct vl_space *space;

    must(vl_space_create(&space), "space");
    sim_space_switch(space);
    map_and_touch(space, l->text, 6, VL_READ | VL_EXEC);
    map_and_touch(space, l->heap, 4, VL_READ | VL_WRITE);
    map_and_touch(space, l->library, 8, VL_READ);
    map_and_touch(space, l->library + 8 * VL_PAGE_SIZE, 2, VL_READ | VL_WRITE);
    map_and_touch(space, l->stack, 3, VL_READ | VL_WRITE);
    for (uint64_t i = 0; i < rounds / 10 + 1; i++) {
        one_process(space, l);
    }
    for (unsigned repeat = 0; repeat < REPEATS; repeat++) {
        uint64_t start = now_ns();

        for (uint64_t i = 0; i < rounds; i++) {
            one_process(space, l);
        }
        out[repeat] = (now_ns() - start) / 10 / rounds;
    }
    sim_space_switch(NULL);
    vl_space_put(space);
}

int main(int count, char **words)
{
    uint64_t rounds = argument(count, words, 1, 1000);
    struct sim_config config = {.ram_bytes = (uint64_t)256 << 20, .cpus = 1, .quiet = true};
    uint64_t figures[2][REPEATS];

    sim_start(&config);
    for (unsigned i = 0; i < 2; i++) {
        measure(&layouts[i], rounds, figures[i]);
    }
    for (unsigned i = 0; i < REPEATS; i++) {
        printf("@sim rounds=%lu near=%lu far=%lu\n", rounds, figures[0][i], figures[1][i]);
    }
    sim_stop();
    return 0;
}
