/*
 * elf.c - fuzzes the loader of programs.
 *
 * Goal: no file makes it crash, map outside of user space, or lose a frame. Method: the input is
 * the file, which is its own interpreter when it names one; it is loaded into a space of the
 * simulated machine. An input that does not begin like a program gets a good header put over its
 * first bytes, so that the segments are reached.
 */
#include <stdlib.h>
#include "machine/sim/sim.h"
#include "tests/lib/elf_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const unsigned char good_start[20] = {0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0,  0,
                                             0,    0,   0,   0,   0, 0, 2, 0, 62, 0};

static void must(bool good)
{
    if (!good) {
        abort();
    }
}

static uint64_t free_frames(void)
{
    struct vl_frame_counts counts;

    vl_drain_all();
    vl_frame_counts(&counts);
    return counts.free_zones + counts.free_stock;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct sim_config config = {.ram_bytes = 16u << 20, .seed = 1, .quiet = true};
    static struct exec exec;
    static bool is_on;
    unsigned char *file;
    uint64_t before;
    long result;

    if (!is_on) {
        sim_start(&config);
        is_on = true;
    }
    if (size < 64 || size > 65536) {
        return 0;
    }
    file = malloc(size);
    must(file != NULL);
    memcpy(file, data, size);
    if (file[0] != 0x7f) {
        unsigned char type = (unsigned char)(2 + (file[0] & 1));

        memcpy(file, good_start, sizeof(good_start));
        file[16] = type;
        file[54] = 56;
        file[55] = 0;
    }
    before = free_frames();
    result = elf_file_load(file, size, &exec);
    must(result <= 0 && result > -4096);
    must(result != 0 || (exec.entry < VL_USER_END && exec.brk <= VL_USER_END));
    elf_file_end(&exec);
    must(free_frames() == before);
    free(file);
    return 0;
}
