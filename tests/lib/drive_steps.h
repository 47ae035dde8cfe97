/*
 * drive_steps.h - what the files of the driver share: choices, comparisons, the steps.
 */
#ifndef TESTS_DRIVE_STEPS_H
#define TESTS_DRIVE_STEPS_H

#include "tests/lib/drive.h"

#define PAGE        VL_PAGE_SIZE
#define WINDOW      72u
#define RUN_MAX     40u
#define LAST_WORD   (PAGE - 8)
#define FIRST_PAGE  (VL_USER_MIN / PAGE)
#define END_PAGE    (VL_USER_END / PAGE)
#define DRIVE_PROTS 9u

extern const uint32_t drive_prots[DRIVE_PROTS];

/** drive_choose() - a number below @n. */
uint64_t drive_choose(struct drive *drive, uint64_t n);
/** drive_chance() - true once in @one_in times. */
bool drive_chance(struct drive *drive, unsigned one_in);
/** drive_differ() - the core and the model disagree. */
_Noreturn void drive_differ(const char *format, ...) VL_PRINTF(1, 2);
/** drive_expect() - they agree on a status, or the test ends. */
void drive_expect(enum vl_status got, enum vl_status want, const char *what, uint64_t va);
/** drive_had_memory() - false: the operation failed for want of memory, as it was made to. */
bool drive_had_memory(struct drive *drive, enum vl_status status);
/** drive_any_space() - one that is alive. */
unsigned drive_any_space(struct drive *drive);
/** drive_any_page() - a mapped page, or once in @one_outside_in times any page of a window. */
uint64_t drive_any_page(struct drive *drive, struct model_space *model, unsigned one_outside_in);
/** drive_run_length() - how many pages from @number on, below the user's end. */
uint64_t drive_run_length(struct drive *drive, uint64_t number);
/** drive_any_file() - one of the files that the test holds: number + 1. */
uint8_t drive_any_file(struct drive *drive);
/** drive_object_slot() - an object that nobody uses, emptied: number + 1; 0: none. */
uint8_t drive_object_slot(struct drive *drive);
/** drive_is_near_stack() - is the next mapping above a stack, which may grow down to here? */
bool drive_is_near_stack(struct model_space *model, uint64_t number);
/** drive_alike() - how many pages from @number on, up to @most, are mapped alike. */
uint64_t drive_alike(struct model_space *model, uint64_t number, uint64_t most);
/** drive_covers() - does one area of the core hold all of these pages? */
bool drive_covers(struct drive *drive, unsigned s, uint64_t number, uint64_t count);

/* The steps: true when the operation was done and changed or told something. */
/** drive_step_map() - one such operation. */
bool drive_step_map(struct drive *drive);
/** drive_step_unmap() - one such operation. */
bool drive_step_unmap(struct drive *drive);
/** drive_step_protect() - one such operation. */
bool drive_step_protect(struct drive *drive);
/** drive_step_brk() - one such operation. */
bool drive_step_brk(struct drive *drive);
/** drive_step_remap() - one such operation. */
bool drive_step_remap(struct drive *drive);
/** drive_step_advise() - one such operation. */
bool drive_step_advise(struct drive *drive);
/** drive_step_truncate() - one such operation. */
bool drive_step_truncate(struct drive *drive);
/** drive_step_extend() - one such operation. */
bool drive_step_extend(struct drive *drive);
/** drive_step_punch() - one such operation. */
bool drive_step_punch(struct drive *drive);
/** drive_step_object_write() - one such operation. */
bool drive_step_object_write(struct drive *drive);
/** drive_step_object_new() - one such operation. */
bool drive_step_object_new(struct drive *drive);

#endif
