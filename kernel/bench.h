/*
 * bench.h - measuring the core's allocators from inside the kernel.
 */
#ifndef KERNEL_BENCH_H
#define KERNEL_BENCH_H

/**
 * bench_run() - with vellum.bench=frames on the command line: one line a measurement, then power
 * off; otherwise nothing. Context: the first thread, before there are programs.
 */
void bench_run(void);

#endif
