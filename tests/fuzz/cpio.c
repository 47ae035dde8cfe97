/*
 * cpio.c - fuzzes the reader of boot archives.
 *
 * Goal: no archive makes it read beyond the archive, loop for ever or hand out a name or data that
 * do not lie in it. Method: the input is the archive, in a block of exactly its size, so that
 * AddressSanitizer sees any byte beyond; every name and every byte of data is touched.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "kernel/fs/cpio.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Aborts, so that the fuzzer keeps the input. */
static void must(bool good)
{
    if (!good) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char *archive = malloc(size != 0 ? size : 1);
    struct cpio_reader reader;
    struct cpio_entry entry;
    enum cpio_result result;
    bool is_new_archive;
    unsigned sum = 0;

    must(archive != NULL);
    memcpy(archive, data, size);
    cpio_begin(&reader, archive, size);
    for (size_t last = 0; (result = cpio_next(&reader, &entry, &is_new_archive)) == CPIO_ENTRY;
         last = reader.pos) {
        must(reader.pos > last && reader.pos <= size);
        must(strlen(entry.name) < CPIO_NAME_MAX);
        must(entry.data_start <= size && entry.data_len <= size - entry.data_start);
        for (size_t i = 0; i < entry.data_len; i++) {
            sum += archive[entry.data_start + i];
        }
    }
    must(result == CPIO_END ? reader.pos == size : reader.error != NULL);
    free(archive);
    return sum == UINT32_MAX ? 1 : 0;
}
