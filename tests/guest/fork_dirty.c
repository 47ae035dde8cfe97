/*
 * fork_dirty.c - a fork of a fork of a process with 64 MiB dirty; each of the three writes.
 * guest: mem=260M linux=260M seconds=90
 *
 * Goal: contents are right in each after all have written, and not one frame is lost. Method: each
 * page holds a word that says who wrote it last; the processes take turns by pipes. The count of
 * free frames is compared only on the kernel that promises it, in a boot of its own: what other
 * programs leave in slabs that are half used would come and go in it.
 */
#include "check.h"
#include <sys/mman.h>

#define PAGE  ((size_t)4096)
#define COUNT ((size_t)64 << 8)

static uint64_t *memory;

static uint64_t value_of(unsigned who, size_t page)
{
    return (uint64_t)who << 32 | (uint64_t)page * 2654435761u % 1000003;
}

static void fill(unsigned who, size_t step)
{
    for (size_t i = 0; i < COUNT; i += step) {
        memory[i * PAGE / 8] = value_of(who, i);
        memory[i * PAGE / 8 + 511] = ~value_of(who, i);
    }
}

/* Is page i, written by `who` where i is a multiple of `step`, else by `before`, as it should be?
 */
static bool right(unsigned who, size_t step, unsigned before, size_t before_step, unsigned first)
{
    for (size_t i = 0; i < COUNT; i++) {
        unsigned owner = i % step == 0 ? who : i % before_step == 0 ? before : first;
        if (memory[i * PAGE / 8] != value_of(owner, i) ||
            memory[i * PAGE / 8 + 511] != ~value_of(owner, i)) {
            printf("page %zu is wrong\n", i);
            return false;
        }
    }
    return true;
}

static void grandchild(int go, int done)
{
    char byte;
    fill(3, 5);
    bool good = right(3, 5, 2, 3, 1);
    good = write(done, "g", 1) == 1 && read(go, &byte, 1) == 1 && good;
    good = good && right(3, 5, 2, 3, 1);
    _exit(good ? 0 : 1);
}

static void child(int go, int done)
{
    int inner_go[2], inner_done[2], status = 1;
    char byte;
    fill(2, 3);
    if (pipe(inner_go) != 0 || pipe(inner_done) != 0) {
        _exit(2);
    }
    pid_t inner = fork();
    if (inner == 0) {
        grandchild(inner_go[0], inner_done[1]);
    }
    fill(4, 7);
    bool good = read(inner_done[0], &byte, 1) == 1 && right(4, 7, 2, 3, 1);
    good = write(done, "c", 1) == 1 && read(go, &byte, 1) == 1 && good;
    good = good && right(4, 7, 2, 3, 1) && write(inner_go[1], "x", 1) == 1;
    good = waitpid(inner, &status, 0) == inner && status == 0 && good;
    _exit(good ? 0 : 1);
}

static bool one_round(void)
{
    int go[2], done[2], status = 1;
    char byte;
    memory = mmap(NULL, COUNT * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || pipe(go) != 0 || pipe(done) != 0) {
        return false;
    }
    fill(1, 1);
    pid_t first = fork();
    if (first == 0) {
        child(go[0], done[1]);
    }
    bool good = read(done[0], &byte, 1) == 1;
    fill(5, 2);
    good = right(5, 2, 1, 1, 1) && good;
    good = write(go[1], "x", 1) == 1 && good;
    good = waitpid(first, &status, 0) == first && status == 0 && good;
    good = right(5, 2, 1, 1, 1) && good;
    munmap(memory, COUNT * PAGE);
    close(go[0]);
    close(go[1]);
    close(done[0]);
    close(done[1]);
    return good;
}

static void round_in_child(void)
{
    check(one_round(), "contents in all three");
    _exit(check_failures);
}

int main(void)
{
    in_child("first round", round_in_child);
    long before = free_kib_drained();
    in_child("second round", round_in_child);
    long after = free_kib_drained();
    check_free(before, after, "free frames as before");
    return check_done();
}
