/*
 * elf.c - the loader of programs, with files made here.
 *
 * Goal: what a good program maps is where and what it says; every malformed one is refused with
 * Linux's error and leaves nothing behind. Method: small images built in memory, loaded into spaces
 * of the simulated machine; the good one also cut at every length, and with each of its bytes set
 * to three values.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tests/lib/elf_file.h"
#include "tests/lib/space_util.h"

#define IMAGE_BYTES 0x1800u
#define BASE        0x400000u

struct header {
    unsigned char ident[16];
    uint16_t type, machine;
    uint32_t version;
    uint64_t entry, segments, sections;
    uint32_t flags;
    uint16_t size, segment_size, segment_count, section_size, section_count, names;
};

struct segment {
    uint32_t type, flags;
    uint64_t offset, address, physical, file_bytes, memory_bytes, align;
};

static unsigned char image[IMAGE_BYTES];
static struct exec exec;

static struct header *head(void)
{
    return (struct header *)(void *)image;
}

static struct segment *segment(unsigned i)
{
    return (struct segment *)(void *)(image + sizeof(struct header)) + i;
}

/* Text of one page and a bit, data that ends in the middle of a page and goes on in memory. */
static void make(uint16_t type, uint64_t base)
{
    unsigned i;

    for (i = 0; i < IMAGE_BYTES; i++) {
        image[i] = (unsigned char)(i * 7 + 1);
    }
    *head() = (struct header){.ident = {0x7f, 'E', 'L', 'F', 2, 1, 1},
                              .type = type,
                              .machine = 62,
                              .version = 1,
                              .entry = base + 0x100,
                              .segments = sizeof(struct header),
                              .size = sizeof(struct header),
                              .segment_size = sizeof(struct segment),
                              .segment_count = 3};
    *segment(0) = (struct segment){.type = 1,
                                   .flags = 5,
                                   .offset = 0,
                                   .address = base,
                                   .file_bytes = 0x1200,
                                   .memory_bytes = 0x1200,
                                   .align = 4096};
    *segment(1) = (struct segment){.type = 1,
                                   .flags = 6,
                                   .offset = 0x1200,
                                   .address = base + 0x2200,
                                   .file_bytes = 0x400,
                                   .memory_bytes = 0x3000,
                                   .align = 4096};
    *segment(2) = (struct segment){.type = 0x6474e551, .flags = 6};
}

static long load(size_t size)
{
    return elf_file_load(image, size, &exec);
}

/* Loads and gives up again: the result. */
static long refused(size_t size)
{
    long result = load(size);

    elf_file_end(&exec);
    return result;
}

static unsigned char byte_at(vl_va va)
{
    unsigned char byte = 0;

    assert_true(elf_file_read(&exec, va, &byte, 1));
    return byte;
}

static void good_program(void **state)
{
    unsigned char byte;

    (void)state;
    machine_on(16, 1);
    make(2, BASE);
    assert_int_equal(load(IMAGE_BYTES), 0);
    assert_int_equal(exec.entry, BASE + 0x100);
    assert_int_equal(exec.program_headers, BASE + sizeof(struct header));
    assert_int_equal(exec.program_header_count, 3);
    assert_int_equal(exec.brk, BASE + 0x6000);
    assert_int_equal(exec.stack_prot, VL_READ | VL_WRITE);
    assert_int_equal(byte_at(BASE + 0x1100), image[0x1100]);
    assert_int_equal(byte_at(BASE + 0x2200), image[0x1200]);
    assert_int_equal(byte_at(BASE + 0x25ff), image[0x15ff]);
    assert_int_equal(byte_at(BASE + 0x2600), 0);
    assert_int_equal(byte_at(BASE + 0x2fff), 0);
    assert_int_equal(byte_at(BASE + 0x51ff), 0);
    assert_false(elf_file_read(&exec, BASE + 0x6000, &byte, 1));
    assert_false(elf_file_read(&exec, BASE - 1, &byte, 1));
    area_is(exec.space, BASE, BASE, BASE + 0x2000, VL_READ | VL_EXEC);
    elf_file_end(&exec);
    machine_off();
}

static void position_independent(void **state)
{
    (void)state;
    machine_on(16, 1);
    make(3, 0);
    segment(2)->flags = 7;
    assert_int_equal(load(IMAGE_BYTES), 0);
    assert_int_equal(exec.entry, EXEC_PIE_BASE + 0x100);
    assert_int_equal(exec.stack_prot, VL_READ | VL_WRITE | VL_EXEC);
    assert_int_equal(byte_at(EXEC_PIE_BASE + 0x2200), image[0x1200]);
    elf_file_end(&exec);
    segment(0)->align = 0x200000;
    assert_int_equal(load(IMAGE_BYTES), 0);
    assert_int_equal((exec.entry - 0x100) % 0x200000, 0);
    elf_file_end(&exec);
    machine_off();
}

static void with_interpreter(void **state)
{
    (void)state;
    machine_on(16, 1);
    make(3, 0);
    memcpy(image + 0x300, "/lib/ld.so", 11);
    *segment(2) = (struct segment){.type = 3, .offset = 0x300, .file_bytes = 11};
    assert_int_equal(load(IMAGE_BYTES), 0);
    assert_int_equal(exec.program_entry, EXEC_PIE_BASE + 0x100);
    assert_int_equal(exec.entry, exec.interpreter_base + 0x100);
    assert_true(exec.interpreter_base != 0 && exec.interpreter_base != EXEC_PIE_BASE);
    elf_file_end(&exec);
    image[0x30a] = 'x'; /* the name does not end */
    assert_int_equal(refused(IMAGE_BYTES), -ENOEXEC);
    segment(2)->file_bytes = 1;
    assert_int_equal(refused(IMAGE_BYTES), -ENOEXEC);
    segment(2)->file_bytes = 5000;
    assert_int_equal(refused(IMAGE_BYTES), -ENOEXEC);
    machine_off();
}

static void malformed(void **state)
{
    (void)state;
    machine_on(16, 1);
    make(2, BASE);
    head()->ident[1] = 'e';
    assert_int_equal(refused(IMAGE_BYTES), -ENOEXEC);
    make(1, BASE);
    assert_int_equal(refused(IMAGE_BYTES), -ENOEXEC);
    make(2, BASE);
    head()->machine = 3;
    assert_int_equal(refused(IMAGE_BYTES), -ENOEXEC);
    make(2, BASE);
    head()->segment_size = 32;
    assert_int_equal(refused(IMAGE_BYTES), -ENOEXEC);
    make(2, BASE);
    head()->segment_count = 0;
    assert_int_equal(refused(IMAGE_BYTES), -ENOEXEC);
    head()->segment_count = 2000;
    assert_int_equal(refused(IMAGE_BYTES), -ENOEXEC);
    make(2, BASE);
    head()->segments = UINT64_MAX - 64;
    assert_int_equal(refused(IMAGE_BYTES), -ENOEXEC);
    make(2, BASE);
    head()->entry = 0xffff800000000000u;
    assert_int_equal(refused(IMAGE_BYTES), -EINVAL);
    machine_off();
}

static void malformed_segments(void **state)
{
    static const uint64_t addresses[] = {VL_USER_END - 0x1000 + 0x200, VL_USER_END + 0x200,
                                         0xffff800000000200u, UINT64_MAX - 0xdff};
    unsigned i;

    (void)state;
    machine_on(16, 1);
    for (i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
        make(2, BASE);
        segment(1)->address = addresses[i];
        assert_int_equal(refused(IMAGE_BYTES), -EINVAL);
    }
    make(2, BASE);
    segment(1)->file_bytes = segment(1)->memory_bytes + 1;
    assert_int_equal(refused(IMAGE_BYTES), -EINVAL);
    make(2, BASE);
    segment(1)->memory_bytes = UINT64_MAX;
    assert_int_equal(refused(IMAGE_BYTES), -EINVAL);
    make(2, BASE);
    segment(1)->offset = 0x1201;
    assert_int_equal(refused(IMAGE_BYTES), -EINVAL);
    make(2, BASE);
    segment(1)->offset = UINT64_MAX - 0xdff;
    assert_int_equal(refused(IMAGE_BYTES), -EINVAL);
    make(2, 0);
    assert_int_equal(refused(IMAGE_BYTES), -EPERM);
    make(3, 0);
    segment(0)->type = 0;
    segment(1)->type = 0;
    assert_int_equal(refused(IMAGE_BYTES), -EINVAL);
    machine_off();
}

static void cut_and_changed(void **state)
{
    static const unsigned char values[] = {0, 0x7f, 0xff};
    size_t at;
    unsigned i;

    (void)state;
    machine_on(16, 1);
    make(2, BASE);
    for (at = 0; at < 0x300; at++) {
        (void)refused(at);
    }
    for (at = 0; at < sizeof(struct header) + 3 * sizeof(struct segment); at++) {
        for (i = 0; i < sizeof(values); i++) {
            make(at % 2 == 0 ? 2 : 3, at % 2 == 0 ? BASE : 0);
            image[at] = values[i];
            (void)refused(IMAGE_BYTES);
        }
    }
    machine_off();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_program),       cmocka_unit_test(position_independent),
        cmocka_unit_test(with_interpreter),   cmocka_unit_test(malformed),
        cmocka_unit_test(malformed_segments), cmocka_unit_test(cut_and_changed),
    };

    return cmocka_run_group_tests_name("elf", tests, NULL, NULL);
}
