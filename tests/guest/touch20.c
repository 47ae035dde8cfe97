/*
 * touch20.c - touch, 20 rounds of 16 MiB, in a guest of 64 MiB: no frame may be lost.
 * guest: mem=64M linux=192M seconds=90
 *
 * Goal: the count of free frames after is the count before, to the frame, and measuring twice gives
 * the same. Method: caches are drained by writing to drop_caches, then MemFree is read; nothing is
 * subtracted. Linux promises no such thing: there only the touching is checked.
 */
#include "check.h"
#include <sys/mman.h>

#define PAGE  ((size_t)4096)
#define BYTES ((size_t)16 << 20)

static bool touch(void)
{
    bool good = true;
    for (int round = 0; round < 20; round++) {
        volatile char *at =
            mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) {
            return false;
        }
        for (size_t i = 0; i < BYTES; i += PAGE) {
            good = at[i] == 0 && good;
            at[i] = (char)round + 1;
        }
        munmap((void *)at, BYTES);
    }
    return good;
}

static void in_a_child(void)
{
    _exit(touch() ? 0 : 1);
}

int main(void)
{
    in_child("warm-up", in_a_child);
    long first = free_kib_drained();
    in_child("20 rounds in a child", in_a_child);
    long second = free_kib_drained();
    check(touch(), "20 rounds here");
    free_kib_drained();
    long third = free_kib_drained();
    check(touch(), "20 rounds again");
    long fourth = free_kib_drained();
    check_free(first, second, "a child leaves as many free frames as before");
    check_free(third, fourth, "the second measurement is the first, to the frame");
    return check_done();
}
