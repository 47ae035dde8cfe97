/*
 * space.c - what one page and one fork cost in the core, without traps and without an MMU.
 *
 *     space touch ROUNDS    map 16 MiB, fault in every page for writing, unmap
 *     space fork ROUNDS     fork a space like a busybox shell's, write two pages in the child, end
 * it
 *
 * Prints nanoseconds a page or a fork. For instruction counts, repeatable to the instruction:
 *     valgrind --tool=callgrind --collect-atstart=no --toggle-collect=round_touch space touch 1
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "core/base/compiler.h"
#include "machine/sim/sim.h"

#define PAGE        VL_PAGE_SIZE
#define TOUCH_BYTES ((size_t)16 << 20)

static void must(enum vl_status status, const char *what)
{
    if (status != VL_OK) {
        fprintf(stderr, "space: %s: %d\n", what, (int)status);
        exit(1);
    }
}

static vl_va map(struct vl_space *space, struct vl_object *object, vl_va at, size_t pages,
                 uint32_t prot)
{
    struct vl_map_request request = {.object = object, .len = pages * PAGE, .prot = prot};
    vl_va va;

    request.hint = at;
    request.place = at != 0 ? VL_MAP_FIXED : VL_MAP_ANYWHERE;
    must(vl_space_map(space, &request, &va), "map");
    return va;
}

static void touch(struct vl_space *space, vl_va va, size_t pages, uint32_t access)
{
    for (size_t i = 0; i < pages; i++) {
        must(vl_space_fault(space, va + i * PAGE, access), "fault");
    }
}

static inline void touch_body(struct vl_space *space)
{
    vl_va va = map(space, NULL, 0, TOUCH_BYTES / PAGE, VL_READ | VL_WRITE);

    touch(space, va, TOUCH_BYTES / PAGE, VL_WRITE);
    must(vl_space_unmap(space, va, TOUCH_BYTES), "unmap");
}

static inline void fork_body(struct vl_space *space)
{
    struct vl_space *child;

    must(vl_space_fork(space, &child), "fork");
    must(vl_space_fault(child, 0x7fffffff0000, VL_WRITE), "child's stack");
    must(vl_space_fault(child, 0x4e0000, VL_WRITE), "child's data");
    vl_space_put(child);
}

static VLI_NOINLINE void round_touch(struct vl_space *space)
{
    touch_body(space);
}

static VLI_NOINLINE void round_fork(struct vl_space *space)
{
    fork_body(space);
}

/* Debian's busybox-static: text, read-only data, data, bss, heap, stack; a page table's worth of
 * pages in use. */
static void busybox(struct vl_space *space, struct vl_object *file)
{
    map(space, file, 0x400000, 1, VL_READ);
    map(space, file, 0x401000, 0x60, VL_READ | VL_EXEC);
    map(space, file, 0x480000, 0x40, VL_READ);
    map(space, file, 0x4e0000, 8, VL_READ | VL_WRITE);
    map(space, NULL, 0x4e8000, 8, VL_READ | VL_WRITE);
    map(space, NULL, 0x10a0000, 34, VL_READ | VL_WRITE);
    map(space, NULL, 0x7fffffef0000, 0x108, VL_READ | VL_WRITE);
    touch(space, 0x401000, 0x60, VL_EXEC);
    touch(space, 0x480000, 0x20, VL_READ);
    touch(space, 0x4e0000, 8, VL_WRITE);
    touch(space, 0x4e8000, 6, VL_WRITE);
    touch(space, 0x10a0000, 16, VL_WRITE);
    touch(space, 0x7fffffff0000, 3, VL_WRITE);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int main(int argc, char **argv)
{
    struct sim_config config = {.ram_bytes = 128u << 20, .cpus = 1, .quiet = true};
    uint64_t rounds = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
    bool is_touch = argc == 3 && strcmp(argv[1], "touch") == 0;
    struct vl_object *file;
    struct vl_space *space;
    struct vl_pfn pfn;
    uint64_t start;

    if (rounds == 0 || (!is_touch && strcmp(argv[1], "fork") != 0)) {
        fprintf(stderr, "usage: space touch|fork ROUNDS\n");
        return 2;
    }
    sim_start(&config);
    must(vl_object_create(NULL, NULL, &file), "object");
    must(vl_object_extend(file, 0x100 * PAGE), "extend");
    for (uint64_t i = 0; i < 0x100; i++) {
        must(vl_object_page_get(file, i, VL_PAGE_CREATE, &pfn), "page");
        vl_object_page_put(pfn);
    }
    must(vl_space_create(&space), "space");
    busybox(space, file);
    is_touch ? touch_body(space) : fork_body(space); /* warm: caches and stocks are filled */
    start = now_ns();
    for (uint64_t i = 0; i < rounds; i++) {
        is_touch ? round_touch(space) : round_fork(space);
    }
    printf("%s: %.1f ns a %s\n", argv[1],
           (double)(now_ns() - start) / (double)rounds /
               (is_touch ? (double)(TOUCH_BYTES / PAGE) : 1),
           is_touch ? "page" : "fork");
    vl_space_put(space);
    vl_object_put(file);
    sim_stop();
    return 0;
}
