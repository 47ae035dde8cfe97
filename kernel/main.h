/*
 * main.h - the first C function.
 */
#ifndef KERNEL_MAIN_H
#define KERNEL_MAIN_H

#include <vellum/types.h>

/** boot_main() - called by start.S with the loader's start info. */
_Noreturn void boot_main(uint64_t start_info_pa);

#endif
