/*
 * bases.c - the FS base goes with its thread from CPU to CPU.
 *
 * Goal: a base that was changed on one CPU is the one in use on another where the thread has been
 * before, and a new process has its own wherever it starts. Method: a thread that pins itself to
 * the CPUs by turns sets its base to one of two blocks and reads a word of it through the segment;
 * no library call is made meanwhile, since the library's own data hang on the base. Then children
 * of two programs' worth of bases are made and ended on changing CPUs.
 */
#include "check.h"
#include <sched.h>
#include <sys/syscall.h>

#define ARCH_SET_FS 0x1002
#define ARCH_GET_FS 0x1003
#define WORD        0x400

static long raw(long number, long a, long b, long c)
{
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return result;
}

static unsigned long through_fs(void)
{
    unsigned long word;
    __asm__ volatile("movq %%fs:%c1, %0" : "=r"(word) : "i"(WORD));
    return word;
}

static void pin(unsigned cpu)
{
    unsigned long mask = 1ul << cpu;
    raw(SYS_sched_setaffinity, 0, sizeof(mask), (long)&mask);
}

static unsigned long blocks[2][512];

/* Wrong reads of 200, with a change of CPU before each and one of the base on odd ones. */
static unsigned bounce(void)
{
    unsigned long own = 0;
    unsigned wrong = 0;
    raw(SYS_arch_prctl, ARCH_GET_FS, (long)&own, 0);
    for (unsigned i = 0; i < 200; i++) {
        pin(i & 1);
        if (i % 3 != 2) {
            raw(SYS_arch_prctl, ARCH_SET_FS, (long)blocks[i / 3 & 1], 0);
        }
        pin(~i & 1);
        wrong += through_fs() != (i / 3 & 1) + 1;
    }
    raw(SYS_arch_prctl, ARCH_SET_FS, (long)own, 0);
    return wrong;
}

/* A child with a base of its own that visits both CPUs and ends on one of them. */
static void visitor(unsigned number)
{
    unsigned wrong = 0;
    raw(SYS_arch_prctl, ARCH_SET_FS, (long)blocks[number & 1], 0);
    for (unsigned i = 0; i < 2 + number % 2; i++) {
        pin((number + i) & 1);
        wrong += through_fs() != (number & 1) + 1;
    }
    raw(SYS_exit_group, wrong != 0, 0, 0);
}

int main(void)
{
    for (unsigned i = 0; i < 512; i++) {
        blocks[0][i] = 1;
        blocks[1][i] = 2;
    }
    check(bounce() == 0, "a changed base goes along");
    unsigned bad = 0;
    for (unsigned i = 0; i < 200; i++) {
        pid_t child = fork();
        int status = 0;
        if (child == 0) {
            visitor(i);
        }
        bad += waitpid(child, &status, 0) != child || status != 0;
    }
    check(bad == 0, "new processes have their own");
    return check_done();
}
