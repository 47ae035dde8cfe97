/*
 * mmap_errors.c - the memory calls at their edges: every kind of overflow, misalignment and hole.
 *
 * Goal: the errno of each wrong call, and what a right one leaves behind, as on Linux. Method: the
 * calls are made by number, so that no libc checks stand between; their results are printed.
 */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define PAGE ((size_t)4096)
#define RW   (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define TOP  0x7ffffffff000ul

/* The call itself, without what a libc checks first. */
static long raw_map(unsigned long at, unsigned long len, int prot, int flags, int fd,
                    unsigned long offset)
{
    return syscall(SYS_mmap, at, len, prot, flags, fd, offset);
}

static void lengths(void)
{
    record_good("mmap length 0", raw_map(0, 0, RW, ANON, -1, 0));
    record_good("mmap length 1", raw_map(0, 1, RW, ANON, -1, 0));
    record_good("mmap length -1", raw_map(0, ~0ul, RW, ANON, -1, 0));
    record_good("mmap length -4096", raw_map(0, ~0ul - 4095, RW, ANON, -1, 0));
    record_good("mmap length -4097", raw_map(0, ~0ul - 4096, RW, ANON, -1, 0));
    record_good("mmap length 2^63", raw_map(0, 1ul << 63, RW, ANON, -1, 0));
    record_good("mmap length 2^47", raw_map(0, 1ul << 47, RW, ANON, -1, 0));
    record_good("mmap length of the whole space", raw_map(0, TOP, RW, ANON, -1, 0));
    record_good("mmap length 2^46 not reserved",
                raw_map(0, 1ul << 46, PROT_NONE, ANON | MAP_NORESERVE, -1, 0));
}

static void places(void)
{
    record_good("fixed, not aligned", raw_map(0x100001, PAGE, RW, ANON | MAP_FIXED, -1, 0));
    record_good("hint, not aligned", raw_map(0x12345678, PAGE, RW, ANON, -1, 0));
    record_good("fixed, at the top", raw_map(TOP - PAGE, PAGE, RW, ANON | MAP_FIXED, -1, 0));
    record("unmap at the top", munmap((void *)(TOP - PAGE), PAGE));
    record_good("fixed, across the top",
                raw_map(TOP - PAGE, 2 * PAGE, RW, ANON | MAP_FIXED, -1, 0));
    record_good("fixed, above the top", raw_map(TOP, PAGE, RW, ANON | MAP_FIXED, -1, 0));
    record_good("fixed, not canonical", raw_map(1ul << 47, PAGE, RW, ANON | MAP_FIXED, -1, 0));
    record_good("fixed, in the kernel",
                raw_map(0xffffffff80000000ul, PAGE, RW, ANON | MAP_FIXED, -1, 0));
    record_good("fixed, last page", raw_map(~0ul - 4095, PAGE, RW, ANON | MAP_FIXED, -1, 0));
    record_good("fixed, address and length overflow",
                raw_map(~0ul - 4095, 2 * PAGE, RW, ANON | MAP_FIXED, -1, 0));
    record_good("hint in the kernel", raw_map(0xffffffff80000000ul, PAGE, RW, ANON, -1, 0));
    long at = raw_map(0, 4 * PAGE, RW, ANON, -1, 0);
    check(at != -1, "four pages");
    record_good("no replace, free",
                raw_map(0x10000000, PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0));
    record_good("no replace, taken",
                raw_map((unsigned long)at + PAGE, PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0));
    check(raw_map((unsigned long)at + PAGE, PAGE, RW, ANON | MAP_FIXED, -1, 0) == at + 4096,
          "fixed replaces");
}

static void kinds(void)
{
    record_good("neither private nor shared", raw_map(0, PAGE, RW, MAP_ANONYMOUS, -1, 0));
    record_good("shared anonymous", raw_map(0, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    record_good("bad descriptor", raw_map(0, PAGE, RW, MAP_PRIVATE, -1, 0));
    record_good("descriptor not open", raw_map(0, PAGE, RW, MAP_PRIVATE, 99, 0));
    record_good("anonymous with a descriptor", raw_map(0, PAGE, RW, ANON, 99, 0));
    int fd = open("/tmp/mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
    check(fd >= 0 && ftruncate(fd, 8192) == 0, "a file");
    record_good("offset not aligned", raw_map(0, PAGE, RW, MAP_PRIVATE, fd, 1));
    record_good("offset and length overflow",
                raw_map(0, 2 * PAGE, RW, MAP_PRIVATE, fd, ~0ul - 4095));
    record_good("offset beyond the file", raw_map(0, PAGE, RW, MAP_PRIVATE, fd, 1ul << 30));
    int ro = open("/tmp/mapped", O_RDONLY);
    record_good("shared writable of a read-only descriptor",
                raw_map(0, PAGE, RW, MAP_SHARED, ro, 0));
    record_good("private writable of a read-only descriptor",
                raw_map(0, PAGE, RW, MAP_PRIVATE, ro, 0));
    long at = raw_map(0, PAGE, PROT_READ, MAP_SHARED, ro, 0);
    check(at != -1, "shared readable of a read-only descriptor");
    record("made writable later", mprotect((void *)at, PAGE, RW));
    int wo = open("/tmp/mapped", O_WRONLY);
    record_good("of a write-only descriptor", raw_map(0, PAGE, RW, MAP_SHARED, wo, 0));
    int directory = open("/tmp", O_RDONLY);
    record_good("of a directory", raw_map(0, PAGE, PROT_READ, MAP_PRIVATE, directory, 0));
    int ends[2];
    check(pipe(ends) == 0, "a pipe");
    record_good("of a pipe", raw_map(0, PAGE, PROT_READ, MAP_PRIVATE, ends[0], 0));
    int zero = open("/dev/zero", O_RDWR);
    record_good("of /dev/zero", raw_map(0, PAGE, RW, MAP_PRIVATE, zero, 0));
    record("unlink", unlink("/tmp/mapped"));
}

static void unmapping(void)
{
    char *at = (char *)raw_map(0, 8 * PAGE, RW, ANON, -1, 0);
    record("munmap not aligned", munmap(at + 1, PAGE));
    record("munmap length 0", munmap(at, 0));
    record("munmap length 1", munmap(at + 7 * PAGE, 1));
    record("munmap -1", munmap(at, (size_t)-1));
    record("munmap of the kernel", munmap((void *)0xffffffff80000000ul, PAGE));
    record("munmap across the top", munmap((void *)(TOP - PAGE), 2 * PAGE));
    record("munmap address and length overflow", munmap((void *)(~0ul - 4095), 2 * PAGE));
    record("munmap of nothing", munmap((void *)0x20000000ul, PAGE));
    record("munmap in the middle", munmap(at + 2 * PAGE, 2 * PAGE));
    record("munmap over the hole", munmap(at + PAGE, 5 * PAGE));
    at[0] = 1;
    at[6 * PAGE] = 1;
    record("munmap of all", munmap(at, 8 * PAGE));
}

static void protecting(void)
{
    char *at = (char *)raw_map(0, 8 * PAGE, RW, ANON, -1, 0);
    record("mprotect not aligned", syscall(SYS_mprotect, at + 1, PAGE, PROT_READ));
    record("mprotect length 0", syscall(SYS_mprotect, at, 0, PROT_READ));
    record("mprotect length 0 of nothing", syscall(SYS_mprotect, 0x20000000ul, 0, PROT_READ));
    record("mprotect overflow", syscall(SYS_mprotect, at, ~0ul - 4095, PROT_READ));
    record("mprotect of the kernel", syscall(SYS_mprotect, 0xffffffff80000000ul, PAGE, PROT_READ));
    record("mprotect unknown bits", syscall(SYS_mprotect, at, PAGE, 0x40));
    record("mprotect of nothing", syscall(SYS_mprotect, 0x20000000ul, PAGE, PROT_READ));
    munmap(at + 4 * PAGE, PAGE);
    record("mprotect over a hole", mprotect(at, 8 * PAGE, PROT_READ));
    at[7 * PAGE] = 1;
    record("mprotect after the hole", mprotect(at + 5 * PAGE, 3 * PAGE, PROT_NONE));
    record("mprotect back", mprotect(at, 4 * PAGE, RW));
    at[0] = 1;
    record("grows up and down", syscall(SYS_mprotect, at, PAGE, 0x03000000));
    record("grows down, no stack", syscall(SYS_mprotect, at, PAGE, PROT_READ | 0x01000000));
}

static void advising(void)
{
    char *at = (char *)raw_map(0, 4 * PAGE, RW, ANON, -1, 0);
    unsigned char states[4] = {9, 9, 9, 9};
    memset(at, 7, 4 * PAGE);
    record("madvise not aligned", madvise(at + 1, PAGE, MADV_DONTNEED));
    record("madvise unknown", madvise(at, PAGE, 12345));
    record("madvise length 0", madvise(at, 0, MADV_DONTNEED));
    record("madvise overflow", madvise(at, (size_t)-1, MADV_DONTNEED));
    record("madvise of nothing", madvise((void *)0x20000000ul, PAGE, MADV_DONTNEED));
    record("madvise DONTNEED", madvise(at + PAGE, PAGE, MADV_DONTNEED));
    check(at[PAGE] == 0 && at[0] == 7 && at[2 * PAGE] == 7, "it reads zero afterwards");
    record("madvise DONTNEED 2", madvise(at + 2 * PAGE, PAGE, MADV_DONTNEED));
    record("mincore", mincore(at, 4 * PAGE, states));
    printf("resident: %d %d %d\n", states[0] & 1, states[2] & 1, states[3] & 1);
    record("mincore not aligned", mincore(at + 1, PAGE, states));
    record("mincore of nothing", mincore((void *)0x20000000ul, PAGE, states));
    record("mincore bad vector", syscall(SYS_mincore, at, PAGE, 8));
    record("msync not aligned", msync(at + 1, PAGE, MS_SYNC));
    record("msync both", msync(at, PAGE, MS_SYNC | MS_ASYNC));
    record("msync unknown", msync(at, PAGE, 64));
    record("msync of nothing", msync((void *)0x20000000ul, PAGE, MS_SYNC));
    record("msync", msync(at, PAGE, MS_SYNC));
}

static void remapping(void)
{
    char *at = (char *)raw_map(0, 4 * PAGE, RW, ANON, -1, 0);
    memset(at, 5, 4 * PAGE);
    record_good("mremap not aligned", syscall(SYS_mremap, at + 1, PAGE, PAGE, 0));
    record_good("mremap new length 0", syscall(SYS_mremap, at, PAGE, 0, 0));
    record_good("mremap unknown flags", syscall(SYS_mremap, at, PAGE, PAGE, 64));
    record_good("mremap fixed alone",
                syscall(SYS_mremap, at, PAGE, PAGE, MREMAP_FIXED, 0x30000000));
    record_good("mremap of nothing", syscall(SYS_mremap, 0x20000000ul, PAGE, 2 * PAGE, 1));
    record_good("mremap overflow", syscall(SYS_mremap, at, PAGE, ~0ul - 8191, 1));
    record_good("mremap old overflow", syscall(SYS_mremap, at, ~0ul - 8191, PAGE, 1));
    char *grown = (char *)syscall(SYS_mremap, at, 4 * PAGE, 64 * PAGE, MREMAP_MAYMOVE);
    check(grown != (char *)-1 && grown[0] == 5 && grown[4 * PAGE - 1] == 5 && grown[4 * PAGE] == 0,
          "mremap grows and keeps");
    check(mremap(grown, 64 * PAGE, 2 * PAGE, 0) == grown, "mremap shrinks in place");
    record_good("mremap to itself",
                syscall(SYS_mremap, grown, 2 * PAGE, 2 * PAGE, 3, grown + PAGE));
    char *moved = mremap(grown, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, 0x30000000);
    check(moved == (char *)0x30000000 && moved[PAGE] == 5, "mremap to a fixed place");
    record("what it left", munmap(grown, PAGE));
    record_good("mremap across areas", syscall(SYS_mremap, moved, 4 * PAGE, 8 * PAGE, 1));
}

static void breaks(void)
{
    unsigned long start = (unsigned long)syscall(SYS_brk, 0);
    check(start != 0, "brk tells");
    check((unsigned long)syscall(SYS_brk, start + 3 * PAGE) == start + 3 * PAGE, "brk grows");
    memset((void *)start, 1, 3 * PAGE);
    check((unsigned long)syscall(SYS_brk, start + 100) == start + 100, "brk shrinks");
    check((unsigned long)syscall(SYS_brk, start + 3 * PAGE) == start + 3 * PAGE, "and grows");
    check(*(char *)(start + 2 * PAGE) == 0, "what grew again is zero");
    check((unsigned long)syscall(SYS_brk, ~0ul) == start + 3 * PAGE, "brk beyond all");
    check((unsigned long)syscall(SYS_brk, 1) == start + 3 * PAGE, "brk below the start");
    check((unsigned long)syscall(SYS_brk, start) == start, "brk to the start");
}

int main(void)
{
    breaks();
    lengths();
    places();
    kinds();
    unmapping();
    protecting();
    advising();
    remapping();
    return check_done();
}
