/*
 * Goal: no sequence of calls and accesses that anybody can think of breaks a space: crashes it,
 * makes it differ from the model, or loses a frame.
 * Method: libFuzzer's input makes every choice of the model test's driver (tests/lib/drive.h); when
 * it is used up, everything is compared, all spaces end and the free frames are counted. The first
 * byte says whether allocations fail now and then.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "machine/sim/mmu.h"
#include "machine/sim/sim.h"
#include "tests/lib/drive.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct drive drive;

/* As few bytes of the input as a number below @n needs. */
static uint64_t from_input(struct drive *state, uint64_t n)
{
    uint64_t value = 0;

    for (uint64_t reach = 1; reach < n && state->size != 0; reach <<= 8) {
        value = value << 8 | *state->data++;
        state->size--;
    }
    return value % n;
}

static uint64_t free_frames(void)
{
    struct vl_frame_counts counts;

    vl_drain_all();
    vl_frame_counts(&counts);
    return counts.free_zones + counts.free_stock;
}

/* Long inputs from the start: twenty bytes are ten operations, which break nothing. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static char option[] = "-len_control=0";
    char **more = calloc((size_t)*argc + 2, sizeof(*more));

    if (more == NULL) {
        return 1;
    }
    memcpy(more, *argv, (size_t)*argc * sizeof(*more));
    more[(*argc)++] = option;
    *argv = more;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct sim_config config = {.ram_bytes = 16u << 20, .seed = 1, .quiet = true};
    static bool is_on;
    uint64_t before;

    if (!is_on) {
        sim_start(&config);
        is_on = true;
    }
    if (size == 0) {
        return 0;
    }
    before = free_frames();
    memset(&drive, 0, sizeof(drive));
    drive.choose = from_input;
    drive.is_failing = (data[0] & 1) != 0;
    drive.data = data + 1;
    drive.size = size - 1;
    drive_start(&drive);
    while (drive.size != 0) {
        drive_step(&drive);
    }
    drive_check(&drive);
    drive_end(&drive);
    if (free_frames() != before) {
        fprintf(stderr, "frames lost: %llu free, before %llu\n", (unsigned long long)free_frames(),
                (unsigned long long)before);
        abort();
    }
    return 0;
}
