/*
 * selftest_stacks.h - the kernel's test of restartable ranges.
 */
#ifndef KERNEL_SELFTEST_STACKS_H
#define KERNEL_SELFTEST_STACKS_H

#include <vellum/types.h>

/** selftest_stacks_begin() - fill each CPU's stack and start its timer. Context: thread. */
void selftest_stacks_begin(void);
/** selftest_stacks_traffic() - what each of the threads does. Context: thread. */
void selftest_stacks_traffic(unsigned number);
/** selftest_stacks_end() - stop the timers, count the tokens, give the memory back. */
void selftest_stacks_end(void);

#endif
