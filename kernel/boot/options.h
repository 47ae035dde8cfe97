/*
 * options.h - parsing the command line; readers use boot.h.
 */
#ifndef KERNEL_BOOT_OPTIONS_H
#define KERNEL_BOOT_OPTIONS_H

#include "kernel/boot/boot.h"

/** boot_options_parse() - copy the loader's text and take it apart. Context: once, first thing. */
void boot_options_parse(const char *text);

#endif
