/*
 * child.h - running a case of a test program in a process of its own, with options of its own:
 * options are read once, when the heap starts.
 *
 * A program that uses it begins its main() with child_main(), which runs the case that the parent
 * asked for and does not return then.
 */
#ifndef TESTS_MALLOC_CHILD_H
#define TESTS_MALLOC_CHILD_H

#include <stdbool.h>
#include <stddef.h>

/* A case by its name. */
struct child_case {
    const char *name;
    int (*run)(void); /* its exit status */
};

/** child_main() - first in main(): become the case that argv names. */
void child_main(int argc, char **argv, const struct child_case *cases, size_t count);

/* What became of one. */
struct child_result {
    int status;        /* exit status, or -1 */
    int signal;        /* that ended it, or 0 */
    char output[4096]; /* standard error */
};

/** child_run() - run a case with VELLUM_MALLOC=@options added to what the parent has (NULL: as the
 * parent). @seconds: it and all that it began are killed then, its result SIGALRM. What it began
 * never outlives it. */
void child_run(const char *name, const char *options, unsigned seconds, struct child_result *out);

/** is_sanitized() - whether the program runs under a sanitizer, which has its own allocator, whose
 * locks no handler keeps whole over fork(). */
bool is_sanitized(void);

/** resident_bytes() - of this process, without pages of files; 0 with a sanitizer, whose memory is
 * most of it. */
size_t resident_bytes(void);

/** random_next() - xorshift; @state not 0. */
unsigned long random_next(unsigned long *state);

#endif
