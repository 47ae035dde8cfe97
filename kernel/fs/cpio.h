/*
 * cpio.h - reader of "newc" cpio archives, as boot loaders hand them over.
 *
 * It depends on nothing of the kernel, so that a fuzzer drives it on a Linux machine.
 */
#ifndef KERNEL_FS_CPIO_H
#define KERNEL_FS_CPIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CPIO_NAME_MAX 4096u /* with the ending 0, as on Linux */

/* Where the reader stands. @bytes stays the caller's. */
struct cpio_reader {
    const unsigned char *bytes;
    size_t len;
    size_t pos;
    const char *error; /* after CPIO_BAD: what is wrong, for the log */
};

struct cpio_entry {
    const char *name; /* ended by 0 within the archive */
    uint32_t inode;
    uint32_t mode;
    uint32_t uid;
    uint32_t gid;
    uint32_t links;
    uint32_t modified_s;
    uint32_t device_major, device_minor;
    uint32_t node_major, node_minor; /* of a device node */
    size_t data_start;               /* offset in the archive */
    size_t data_len;
};

enum cpio_result {
    CPIO_ENTRY, /* *out is set */
    CPIO_END,   /* nothing is left */
    CPIO_BAD    /* the archive is corrupt from here on: reader->error */
};

/** cpio_begin() - read @len bytes at @bytes. */
void cpio_begin(struct cpio_reader *reader, const void *bytes, size_t len);

/**
 * cpio_next() - the next entry. All of its name and data lie within the archive.
 * Zeroes between archives and several archives behind each other are passed over, as Linux does;
 * so is the trailer, after which inode numbers of hard links start afresh: *@out_is_new_archive.
 */
enum cpio_result cpio_next(struct cpio_reader *reader, struct cpio_entry *out,
                           bool *out_is_new_archive);

#endif
