/*
 * fpu.c - the state of the floating-point unit across switches, signals, fork and exec.
 * guest: smp=2 seconds=90
 *
 * Goal: nobody's registers leak to another or are lost: x87, SSE and, where the CPU has it, AVX.
 * Method: more processes than CPUs, each with values of its own in all vector registers, spinning
 * with the timer's preemption; a timer signal whose handler spoils all of them; a fork's child sees
 * the parent's; an exec'd program starts clean.
 */
#include "check.h"
#include <cpuid.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static bool has_avx;

static bool detect_avx(void)
{
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_AVX)) {
        return false;
    }
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & 6) == 6;
}

/* The registers as one array: 16 of 32 bytes. */
struct vectors {
    uint64_t word[16][4];
} __attribute__((aligned(32)));

static void load_sse(const struct vectors *v)
{
    __asm__ volatile("movups (%0), %%xmm0\n movups 32(%0), %%xmm1\n movups 64(%0), %%xmm2\n"
                     "movups 96(%0), %%xmm3\n movups 128(%0), %%xmm4\n movups 160(%0), %%xmm5\n"
                     "movups 192(%0), %%xmm6\n movups 224(%0), %%xmm7\n movups 256(%0), %%xmm8\n"
                     "movups 288(%0), %%xmm9\n movups 320(%0), %%xmm10\n movups 352(%0), %%xmm11\n"
                     "movups 384(%0), %%xmm12\n movups 416(%0), %%xmm13\n movups 448(%0), %%xmm14\n"
                     "movups 480(%0), %%xmm15" ::"r"(v)
                     : "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                       "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

__attribute__((target("avx"))) static void load_avx(const struct vectors *v)
{
    __asm__ volatile("vmovups (%0), %%ymm0\n vmovups 32(%0), %%ymm1\n vmovups 64(%0), %%ymm2\n"
                     "vmovups 96(%0), %%ymm3\n vmovups 128(%0), %%ymm4\n vmovups 160(%0), %%ymm5\n"
                     "vmovups 192(%0), %%ymm6\n vmovups 224(%0), %%ymm7\n vmovups 256(%0), %%ymm8\n"
                     "vmovups 288(%0), %%ymm9\n vmovups 320(%0), %%ymm10\n"
                     "vmovups 352(%0), %%ymm11\n vmovups 384(%0), %%ymm12\n"
                     "vmovups 416(%0), %%ymm13\n vmovups 448(%0), %%ymm14\n"
                     "vmovups 480(%0), %%ymm15" ::"r"(v)
                     : "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                       "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

/* Loads, spins `turns` times without touching them, stores: one piece, so that no compiler's own
 * use of the registers comes between. The x87 stack holds a value meanwhile as well. */
static void spin_sse(const struct vectors *in, struct vectors *out, unsigned long turns)
{
    __asm__ volatile("movups (%1), %%xmm0\n movups 32(%1), %%xmm1\n movups 64(%1), %%xmm2\n"
                     "movups 480(%1), %%xmm15\n fninit\n fldpi\n"
                     "1: decq %0\n jnz 1b\n"
                     "movups %%xmm0, (%2)\n movups %%xmm1, 32(%2)\n movups %%xmm2, 64(%2)\n"
                     "movups %%xmm15, 480(%2)\n fstpl 496(%2)"
                     : "+r"(turns)
                     : "r"(in), "r"(out)
                     : "memory", "xmm0", "xmm1", "xmm2", "xmm15", "cc");
}

__attribute__((target("avx"))) static void spin_avx(const struct vectors *in, struct vectors *out,
                                                    unsigned long turns)
{
    __asm__ volatile("vmovups (%1), %%ymm0\n vmovups 32(%1), %%ymm1\n vmovups 224(%1), %%ymm7\n"
                     "vmovups 480(%1), %%ymm15\n"
                     "1: decq %0\n jnz 1b\n"
                     "vmovups %%ymm0, (%2)\n vmovups %%ymm1, 32(%2)\n vmovups %%ymm7, 224(%2)\n"
                     "vmovups %%ymm15, 480(%2)"
                     : "+r"(turns)
                     : "r"(in), "r"(out)
                     : "memory", "xmm0", "xmm1", "xmm7", "xmm15", "cc");
}

static void fill(struct vectors *v, uint64_t seed)
{
    for (size_t i = 0; i < 64; i++) {
        v->word[i / 4][i % 4] = seed * 0x9e3779b97f4a7c15u + i;
    }
}

static bool spin_once(uint64_t seed, unsigned long turns)
{
    struct vectors in, out;
    fill(&in, seed);
    memset(&out, 0, sizeof(out));
    spin_sse(&in, &out, turns);
    double pi;
    memcpy(&pi, &out.word[15][2], 8);
    bool good = pi > 3.14159265 && pi < 3.14159266;
    static const int used[] = {0, 1, 2, 15};
    for (size_t i = 0; i < 4; i++) {
        good = memcmp(in.word[used[i]], out.word[used[i]], 16) == 0 && good;
    }
    if (has_avx) {
        spin_avx(&in, &out, turns);
        static const int wide[] = {0, 1, 7, 15};
        for (size_t i = 0; i < 4; i++) {
            good = memcmp(in.word[wide[i]], out.word[wide[i]], 32) == 0 && good;
        }
    }
    return good;
}

/* Spins for a while of wall time. */
static bool spin_for(uint64_t seed, unsigned milliseconds)
{
    struct timespec start, now;
    bool good = true;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        good = spin_once(seed, 200000) && good;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 <
             (long)milliseconds);
    return good;
}

static void processes(void)
{
    bool good = true;
    for (unsigned i = 0; i < 6; i++) {
        if (fork() == 0) {
            _exit(spin_for(i + 100, 1500) ? 0 : 1);
        }
    }
    for (int status; wait(&status) > 0;) {
        good = status == 0 && good;
    }
    check(good, "six processes keep their registers");
}

static volatile sig_atomic_t signals;

static void spoil(int number)
{
    struct vectors other;
    (void)number;
    signals++;
    fill(&other, 999 + (uint64_t)signals);
    if (has_avx) {
        load_avx(&other);
    } else {
        load_sse(&other);
    }
    unsigned control = 0x1f80 | 0x6000;
    unsigned short x87 = 0x0f7f;
    __asm__ volatile("ldmxcsr %0\n fninit\n fldcw %1\n fldz" ::"m"(control), "m"(x87));
}

static void across_signals(void)
{
    struct itimerval time = {{0, 3000}, {0, 3000}}, none = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = spoil, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &time, NULL);
    bool good = spin_for(5, 1000);
    unsigned control = 0;
    __asm__ volatile("stmxcsr %0" : "=m"(control));
    setitimer(ITIMER_REAL, &none, NULL);
    check(good && signals > 10, "a handler that spoils all of them does no harm");
    check((control & 0xffc0) == 0x1f80, "nor to the control word");
}

static void across_fork(void)
{
    struct vectors in;
    uint64_t out[2] = {0, 0};
    long child = 0;
    int status = 1;
    fill(&in, 31337);
    fflush(stdout);
    /* fork by number, so that nothing runs between the load and the store. */
    __asm__ volatile("movups 96(%2), %%xmm3\n movl $57, %%eax\n syscall\n movups %%xmm3, %1"
                     : "=&a"(child), "=m"(out)
                     : "r"(&in)
                     : "memory", "rcx", "r11", "xmm3");
    bool good = memcmp(out, in.word[3], 16) == 0;
    if (child == 0) {
        _exit(good ? 0 : 1);
    }
    waitpid((pid_t)child, &status, 0);
    check(good && status == 0, "both sides of a fork have them");
}

/* Run again with an argument: what exec leaves must be clean. */
static int after_exec(void)
{
    unsigned control = 0;
    unsigned short x87 = 0;
    __asm__ volatile("stmxcsr %0\n fnstcw %1" : "=m"(control), "=m"(x87));
    return control == 0x1f80 && x87 == 0x37f ? 0 : 1;
}

static void across_exec(const char *self)
{
    int status = 1;
    pid_t child = fork();
    if (child == 0) {
        unsigned control = 0x1f80 | 0x6000;
        unsigned short x87 = 0x0f7f;
        char *arguments[] = {"fpu", "again", NULL};
        __asm__ volatile("ldmxcsr %0\n fldcw %1" ::"m"(control), "m"(x87));
        execv(self, arguments);
        _exit(9);
    }
    waitpid(child, &status, 0);
    check(status == 0, "exec starts with the default control words");
}

int main(int count, char **words)
{
    if (count > 1) {
        return after_exec();
    }
    has_avx = detect_avx();
    printf("AVX: %s\n", has_avx ? "yes" : "no");
    check(spin_for(1, 200), "alone");
    processes();
    across_signals();
    across_fork();
    across_exec(words[0]);
    return check_done();
}
