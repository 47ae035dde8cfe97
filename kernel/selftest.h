/*
 * selftest.h - the kernel's test of itself.
 */
#ifndef KERNEL_SELFTEST_H
#define KERNEL_SELFTEST_H

/** selftest_run() - when vellum.selftest= is on the command line; panics at a failure.
 * Context: thread, once, before the first program. */
void selftest_run(void);

#endif
