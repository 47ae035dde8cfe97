/*
 * touch_pages.c - experiment 1: map 16 MiB, write one byte in every page, unmap; many times.
 *
 * usage: touch_pages ROUNDS [REPEATS]
 *
 * One warm-up round, then REPEATS (default 1) measurements of ROUNDS rounds each. A line each:
 * rounds, pages, and per page the total, system and user time in hundredths of a nanosecond.
 */
#include "measure.h"
#include <sys/mman.h>

#define BYTES ((size_t)16 << 20)
#define PAGE  ((size_t)4096)

static void round_of_touch(void)
{
    volatile char *at =
        mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    for (size_t i = 0; i < BYTES; i += PAGE) {
        at[i] = 1;
    }
    if (munmap((void *)at, BYTES) != 0) {
        perror("munmap");
        exit(1);
    }
}

int main(int count, char **words)
{
    uint64_t rounds = count > 1 ? strtoull(words[1], NULL, 10) : 10;
    uint64_t repeats = count > 2 ? strtoull(words[2], NULL, 10) : 1;
    uint64_t pages = rounds * (BYTES / PAGE);
    if (rounds == 0) {
        return 2;
    }
    round_of_touch();
    for (uint64_t repeat = 0; repeat < repeats; repeat++) {
        uint64_t user = 0, system = 0, user_end = 0, system_end = 0;
        cpu_ns(&user, &system);
        uint64_t start = now_ns();
        for (uint64_t i = 0; i < rounds; i++) {
            round_of_touch();
        }
        uint64_t total = now_ns() - start;
        cpu_ns(&user_end, &system_end);
        printf("@touch rounds=%llu pages=%llu total=%llu system=%llu user=%llu zero=%llu\n",
               (unsigned long long)rounds, (unsigned long long)pages,
               (unsigned long long)(total * 100 / pages),
               (unsigned long long)((system_end - system) * 100 / pages),
               (unsigned long long)((user_end - user) * 100 / pages),
               (unsigned long long)zero_page_limit());
        fflush(stdout);
    }
    return 0;
}
