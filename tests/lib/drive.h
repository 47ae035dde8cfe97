/*
 * drive.h - random operations on spaces of the core and on the model beside them, compared step by
 * step. The model test feeds it from a seed, the fuzz target from its input.
 */
#ifndef TESTS_DRIVE_H
#define TESTS_DRIVE_H

#include "tests/lib/model.h"

#define DRIVE_SPACES 4u
#define DRIVE_FILES  4u
#define DRIVE_LAST   16u

struct drive {
    /* Where choices come from: a number below @n. */
    uint64_t (*choose)(struct drive *drive, uint64_t n);
    uint64_t random;           /* state of a seeded stream */
    const unsigned char *data; /* or the input that is left */
    size_t size;
    bool is_failing; /* allocations are made to fail now and then */
    bool is_short;   /* the machine has too little memory for what is asked */

    struct vl_space *space[DRIVE_SPACES]; /* NULL: none */
    struct model_space *model[DRIVE_SPACES];
    struct model_object object[MODEL_OBJECTS_MAX];
    uint64_t next_value;
    uint64_t done[32]; /* operations by kind that succeeded, to see that each is reached */
    uint64_t tries[32];
    uint64_t lacked; /* operations that had no memory */
    uint64_t steps;
    uint8_t last[DRIVE_LAST]; /* kinds of the last steps, a ring */
};

/** drive_start() - one empty space on a machine that runs. */
void drive_start(struct drive *drive);
/** drive_step() - one operation; what disagrees aborts with a message. */
void drive_step(struct drive *drive);
/** drive_check() - compare everything, and let the core and the machine validate themselves. */
void drive_check(struct drive *drive);
/** drive_peek() - compare what is resident, and touch nothing. */
void drive_peek(struct drive *drive);
/** drive_end() - all spaces and objects go. */
void drive_end(struct drive *drive);
/** drive_name() - of a kind of operation; NULL beyond the last. */
const char *drive_name(unsigned kind);
/** drive_seeded() - a choice from drive->random. */
uint64_t drive_seeded(struct drive *drive, uint64_t n);

#endif
