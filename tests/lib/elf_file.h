/*
 * elf_file.h - the kernel's program loader on the simulated machine: a program is bytes in memory.
 *
 * kernel/proc/elf.c asks four functions of the file system; elf_file.c answers them from one image,
 * which is also every interpreter that a program names.
 */
#ifndef ELF_FILE_H
#define ELF_FILE_H

#include "kernel/proc/exec.h"

/** elf_file_load() - load the @size bytes at @image into a fresh space, as execve would.
 * @out: what the loader found; exec->space is to be given up by elf_file_end(). NULL: no memory.
 * Returns: 0 or a negated errno. */
long elf_file_load(const void *image, size_t size, struct exec *out);
/** elf_file_end() - the space and the file go. */
void elf_file_end(struct exec *exec);
/** elf_file_read() - read @len bytes of the new space at @va; false: not mapped there. */
bool elf_file_read(struct exec *exec, vl_va va, void *out, size_t len);

#endif
