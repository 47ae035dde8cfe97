/*
 * cpio.c - reader of "newc" cpio archives.
 *
 * An entry is a header of 110 bytes (a magic and thirteen numbers of eight hex digits), the name
 * with its 0, padding to 4 bytes, the data, padding to 4 bytes; "TRAILER!!!" ends an archive.
 * Nothing that a header says reaches arithmetic before it was compared with what is left of the
 * archive: positions never exceed len, so sums cannot wrap. Each call moves forward by at least a
 * header, so a hostile archive ends too.
 */
#include "kernel/fs/cpio.h"

#define HEADER_BYTES 110u
#define FIELD_COUNT  13u

enum field {
    FIELD_INODE,
    FIELD_MODE,
    FIELD_UID,
    FIELD_GID,
    FIELD_LINKS,
    FIELD_MODIFIED,
    FIELD_SIZE,
    FIELD_MAJOR,
    FIELD_MINOR,
    FIELD_NODE_MAJOR,
    FIELD_NODE_MINOR,
    FIELD_NAME_SIZE,
    FIELD_CHECK
};

static bool is_equal(const unsigned char *bytes, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != (unsigned char)text[i]) {
            return false;
        }
    }
    return true;
}

/* Eight hex digits. Returns: false when they are not. */
static bool read_hex(const unsigned char *digits, uint32_t *out)
{
    uint32_t value = 0;

    for (unsigned i = 0; i < 8; i++) {
        unsigned char c = digits[i];
        uint32_t digit;

        if (c >= '0' && c <= '9') {
            digit = c - (uint32_t)'0';
        } else if (c >= 'a' && c <= 'f') {
            digit = c - (uint32_t)'a' + 10;
        } else if (c >= 'A' && c <= 'F') {
            digit = c - (uint32_t)'A' + 10;
        } else {
            return false;
        }
        value = value << 4 | digit;
    }
    *out = value;
    return true;
}

static enum cpio_result bad(struct cpio_reader *reader, const char *error)
{
    reader->error = error;
    return CPIO_BAD;
}

void cpio_begin(struct cpio_reader *reader, const void *bytes, size_t len)
{
    reader->bytes = bytes;
    reader->len = len;
    reader->pos = 0;
    reader->error = NULL;
}

/* The least multiple of 4 ≥ @pos, but not beyond the archive. */
static size_t padded(const struct cpio_reader *reader, size_t pos)
{
    size_t up = (4 - (pos & 3u)) & 3u;

    return up < reader->len - pos ? pos + up : reader->len;
}

/* Read the header at the reader's position. */
static enum cpio_result read_header(struct cpio_reader *reader, uint32_t *fields)
{
    const unsigned char *header = reader->bytes + reader->pos;

    if (reader->len - reader->pos < HEADER_BYTES) {
        return bad(reader, "cut off within a header");
    }
    if (is_equal(header, "070707", 6)) {
        return bad(reader, "in the old octal format; newc is wanted (cpio -H newc)");
    }
    if (!is_equal(header, "070701", 6) && !is_equal(header, "070702", 6)) {
        return bad(reader, "not a newc cpio archive, or compressed");
    }
    for (unsigned i = 0; i < FIELD_COUNT; i++) {
        if (!read_hex(header + 6 + 8 * i, &fields[i])) {
            return bad(reader, "a number in a header is not hexadecimal");
        }
    }
    reader->pos += HEADER_BYTES;
    return CPIO_ENTRY;
}

/* Read the name behind the header; the reader then stands at the data. */
static enum cpio_result read_name(struct cpio_reader *reader, size_t size, const char **out)
{
    if (size == 0 || size > CPIO_NAME_MAX) {
        return bad(reader, "a name is empty or too long");
    }
    if (size > reader->len - reader->pos) {
        return bad(reader, "cut off within a name");
    }
    if (reader->bytes[reader->pos + size - 1] != 0) {
        return bad(reader, "a name has no end");
    }
    *out = (const char *)reader->bytes + reader->pos;
    reader->pos = padded(reader, reader->pos + size);
    return CPIO_ENTRY;
}

/* Pass over zeroes. Returns: false at the end of the archive. */
static bool skip_zeroes(struct cpio_reader *reader)
{
    while (reader->pos < reader->len && reader->bytes[reader->pos] == 0) {
        reader->pos++;
    }
    return reader->pos < reader->len;
}

enum cpio_result cpio_next(struct cpio_reader *reader, struct cpio_entry *out,
                           bool *out_is_new_archive)
{
    uint32_t fields[FIELD_COUNT];
    enum cpio_result result;

    *out_is_new_archive = false;
    while (skip_zeroes(reader)) {
        result = read_header(reader, fields);
        if (result == CPIO_ENTRY) {
            result = read_name(reader, fields[FIELD_NAME_SIZE], &out->name);
        }
        if (result != CPIO_ENTRY) {
            return result;
        }
        if (fields[FIELD_SIZE] > reader->len - reader->pos) {
            return bad(reader, "cut off within a file");
        }
        out->data_start = reader->pos;
        out->data_len = fields[FIELD_SIZE];
        reader->pos = padded(reader, reader->pos + out->data_len);
        if (fields[FIELD_NAME_SIZE] == 11 &&
            is_equal((const unsigned char *)out->name, "TRAILER!!!", 11)) {
            *out_is_new_archive = true;
            continue;
        }
        out->inode = fields[FIELD_INODE];
        out->mode = fields[FIELD_MODE];
        out->uid = fields[FIELD_UID];
        out->gid = fields[FIELD_GID];
        out->links = fields[FIELD_LINKS];
        out->modified_s = fields[FIELD_MODIFIED];
        out->device_major = fields[FIELD_MAJOR];
        out->device_minor = fields[FIELD_MINOR];
        out->node_major = fields[FIELD_NODE_MAJOR];
        out->node_minor = fields[FIELD_NODE_MINOR];
        return CPIO_ENTRY;
    }
    return CPIO_END;
}
