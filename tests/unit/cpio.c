/*
 * cpio.c - the reader of boot archives.
 *
 * Goal: what is in an archive comes out, and no corrupt one is read beyond its end or passes as
 * whole. Method: archives are built here; then cut at every byte, and changed at every byte of
 * their headers. Each is read in a block of exactly its size, for AddressSanitizer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "kernel/fs/cpio.h"

#define ARCHIVE_MAX 8192u

static unsigned char archive[ARCHIVE_MAX];
static size_t archive_len;

static void pad(void)
{
    while (archive_len % 4 != 0) {
        archive[archive_len++] = 0;
    }
}

/* Append an entry whose inode number is @inode. */
static void put(const char *name, unsigned mode, unsigned inode, unsigned links, const char *data)
{
    archive_len +=
        (size_t)sprintf((char *)archive + archive_len,
                        "070701%08X%08X%08X%08X%08X%08X%08zX%08X%08X%08X%08X%08zX%08X", inode, mode,
                        10u, 20u, links, 77u, strlen(data), 3u, 4u, 5u, 6u, strlen(name) + 1, 0u);
    memcpy(archive + archive_len, name, strlen(name) + 1);
    archive_len += strlen(name) + 1;
    pad();
    memcpy(archive + archive_len, data, strlen(data));
    archive_len += strlen(data);
    pad();
}

static void build(void)
{
    archive_len = 0;
    put("dir", 040755, 1, 2, "");
    put("dir/file", 0100644, 2, 1, "seventeen bytes..");
    put("link", 0120777, 3, 1, "dir/file");
    put("TRAILER!!!", 0, 0, 1, "");
}

/* Read the first @len bytes of the archive as a whole. Returns: entries; *@out the end. */
static unsigned read_all(size_t len, enum cpio_result *out)
{
    unsigned char *copy = malloc(len != 0 ? len : 1);
    struct cpio_reader reader;
    struct cpio_entry entry;
    bool is_new_archive;
    unsigned count = 0;

    assert_non_null(copy);
    memcpy(copy, archive, len);
    cpio_begin(&reader, copy, len);
    while ((*out = cpio_next(&reader, &entry, &is_new_archive)) == CPIO_ENTRY) {
        assert_in_range(strlen(entry.name), 0, CPIO_NAME_MAX - 1);
        assert_true(entry.data_start + entry.data_len <= len);
        count++;
        assert_in_range(count, 1, 100);
    }
    if (*out == CPIO_BAD) {
        assert_non_null(reader.error);
    }
    free(copy);
    return count;
}

static void test_entries(void **state)
{
    struct cpio_reader reader;
    struct cpio_entry entry;
    bool is_new_archive;

    (void)state;
    build();
    cpio_begin(&reader, archive, archive_len);
    assert_int_equal(cpio_next(&reader, &entry, &is_new_archive), CPIO_ENTRY);
    assert_string_equal(entry.name, "dir");
    assert_int_equal(entry.mode, 040755);
    assert_int_equal(entry.links, 2);
    assert_int_equal(cpio_next(&reader, &entry, &is_new_archive), CPIO_ENTRY);
    assert_string_equal(entry.name, "dir/file");
    assert_int_equal(entry.inode, 2);
    assert_int_equal(entry.uid, 10);
    assert_int_equal(entry.gid, 20);
    assert_int_equal(entry.modified_s, 77);
    assert_int_equal(entry.device_major, 3);
    assert_int_equal(entry.device_minor, 4);
    assert_int_equal(entry.node_major, 5);
    assert_int_equal(entry.node_minor, 6);
    assert_int_equal(entry.data_len, 17);
    assert_memory_equal(archive + entry.data_start, "seventeen bytes..", 17);
    assert_int_equal(cpio_next(&reader, &entry, &is_new_archive), CPIO_ENTRY);
    assert_string_equal(entry.name, "link");
    assert_false(is_new_archive);
    assert_int_equal(cpio_next(&reader, &entry, &is_new_archive), CPIO_END);
}

/* Archives behind each other, with zeroes between and behind. */
static void test_several(void **state)
{
    struct cpio_reader reader;
    struct cpio_entry entry;
    bool is_new_archive;

    (void)state;
    build();
    memset(archive + archive_len, 0, 516);
    archive_len += 516;
    put("second", 0100644, 2, 1, "x");
    put("TRAILER!!!", 0, 0, 1, "");
    memset(archive + archive_len, 0, 100);
    archive_len += 100;
    cpio_begin(&reader, archive, archive_len);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(cpio_next(&reader, &entry, &is_new_archive), CPIO_ENTRY);
    }
    assert_int_equal(cpio_next(&reader, &entry, &is_new_archive), CPIO_ENTRY);
    assert_string_equal(entry.name, "second");
    assert_true(is_new_archive);
    assert_int_equal(cpio_next(&reader, &entry, &is_new_archive), CPIO_END);
}

static void test_empty(void **state)
{
    enum cpio_result result;

    (void)state;
    assert_int_equal(read_all(0, &result), 0);
    assert_int_equal(result, CPIO_END);
}

/* Cut anywhere but between two entries, it is corrupt. */
static void test_cut(void **state)
{
    enum cpio_result result;
    unsigned whole;

    (void)state;
    build();
    whole = read_all(archive_len, &result);
    assert_int_equal(whole, 3);
    assert_int_equal(result, CPIO_END);
    for (size_t len = 1; len < archive_len; len++) {
        unsigned count = read_all(len, &result);

        assert_true(count <= whole);
        if (len < 110) {
            assert_int_equal(result, CPIO_BAD);
        }
    }
}

/* No single changed byte of the headers makes it read what is not there. */
static void test_changed(void **state)
{
    static const unsigned char values[] = {0, '0', '7', 'F', 'f', 'g', 'G', '/', ':', '@', 0xff};
    enum cpio_result result;

    (void)state;
    build();
    for (size_t at = 0; at < archive_len; at++) {
        unsigned char old = archive[at];

        for (unsigned i = 0; i < sizeof(values); i++) {
            archive[at] = values[i];
            (void)read_all(archive_len, &result);
        }
        archive[at] = old;
    }
}

static void expect_bad(const char *magic, size_t at, const char *digits)
{
    enum cpio_result result;

    build();
    memcpy(archive, magic, 6);
    if (digits != NULL) {
        memcpy(archive + at, digits, 8);
    }
    assert_int_equal(read_all(archive_len, &result), 0);
    assert_int_equal(result, CPIO_BAD);
}

static void test_hostile(void **state)
{
    (void)state;
    expect_bad("070707", 0, NULL);               /* the old format */
    expect_bad("\x1f\x8b\x08    ", 0, NULL);     /* compressed */
    expect_bad("070701", 6 + 8 * 6, "FFFFFFFF"); /* size */
    expect_bad("070701", 6 + 8 * 6, "7FFFFFFF");
    expect_bad("070701", 6 + 8 * 11, "FFFFFFFF"); /* length of the name */
    expect_bad("070701", 6 + 8 * 11, "00000000");
    expect_bad("070701", 6 + 8 * 11, "00001001"); /* one more than there may be */
    expect_bad("070701", 6 + 8 * 11, "00000002"); /* ends within the name */
    expect_bad("070701", 6, "0000000g");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entries), cmocka_unit_test(test_several),
        cmocka_unit_test(test_empty),   cmocka_unit_test(test_cut),
        cmocka_unit_test(test_changed), cmocka_unit_test(test_hostile)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
