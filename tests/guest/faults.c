/*
 * faults.c - what a program gets that touches what it must not: the signal, its code, the address.
 *
 * Goal: SEGV, BUS, FPE, ILL and TRAP as on Linux, whatever a hostile program does, and the kernel
 * lives on. Method: one child an offence, with a handler that prints siginfo; and again without
 * one, for the status.
 */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define PAGE ((size_t)4096)

static char *page;
static char *volatile expected_address;

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    const char *where = "elsewhere";
    if (info->si_addr == expected_address) {
        where = "as expected";
    } else if (info->si_addr == NULL) {
        where = "none";
    }
    printf("  signal %d code %d address %s\n", number, info->si_code, where);
    fflush(stdout);
    _exit(0);
}

static void catch_all(void)
{
    static char stack[16384];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof(stack)};
    sigaltstack(&other, NULL);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        sigaction(numbers[i], &action, NULL);
    }
}

static volatile char sink;

static void read_null(void)
{
    expected_address = (char *)8;
    sink = *(volatile char *)expected_address;
}

static void write_read_only(void)
{
    mprotect(page, PAGE, PROT_READ);
    expected_address = page + 5;
    *(volatile char *)(page + 5) = 1;
}

static void read_none(void)
{
    mprotect(page, PAGE, PROT_NONE);
    expected_address = page;
    sink = *(volatile char *)page;
}

static void read_unmapped(void)
{
    munmap(page, PAGE);
    expected_address = page;
    sink = *(volatile char *)page;
}

static void write_text(void)
{
    expected_address = (char *)(uintptr_t)&write_text;
    *(volatile char *)expected_address = 0;
}

static void run_data(void)
{
    page[0] = (char)0xc3;
    expected_address = page;
    ((void (*)(void))(uintptr_t)page)();
}

static void read_kernel(void)
{
    expected_address = (char *)0xffffffff80000000ul;
    sink = *(volatile char *)expected_address;
}

static void write_kernel(void)
{
    expected_address = (char *)0xffff888000000000ul;
    *(volatile char *)expected_address = 1;
}

static void jump_kernel(void)
{
    expected_address = (char *)0xffffffff80000000ul;
    ((void (*)(void))(uintptr_t)expected_address)();
}

static void jump_direct_map(void)
{
    expected_address = (char *)0xffff888000100000ul;
    ((void (*)(void))(uintptr_t)expected_address)();
}

static void jump_null(void)
{
    expected_address = (char *)1;
    __asm__ volatile("xorl %%eax, %%eax\n jmp *%%rax" ::: "rax");
}

static void read_not_canonical(void)
{
    sink = *(volatile char *)0x8000000000000000ul;
}

static void jump_not_canonical(void)
{
    expected_address = (char *)1;
    __asm__ volatile("movabsq $0x8000000000000000, %%rax\n jmp *%%rax" ::: "rax");
}

static void stack_not_canonical(void)
{
    __asm__ volatile("movabsq $0x8000000000000000, %%rsp\n pushq %%rax" ::: "memory");
}

static void divide(void)
{
    volatile int zero = 0;
    volatile int one = 1;
    expected_address = (char *)1;
    one = one / zero;
}

static void divide_overflow(void)
{
    volatile int least = INT32_MIN;
    volatile int minus = -1;
    least = least / minus;
}

static void undefined(void)
{
    __asm__ volatile("ud2");
}

static void breakpoint(void)
{
    __asm__ volatile("int3");
}

static void single_step(void)
{
    __asm__ volatile("pushfq\n orl $0x100, (%%rsp)\n popfq\n nop\n nop" ::: "memory", "cc");
}

static void halt(void)
{
    __asm__ volatile("hlt");
}

static void disable_interrupts(void)
{
    __asm__ volatile("cli");
}

static void port(void)
{
    __asm__ volatile("outb %%al, $0x80" ::: "memory");
}

static void read_control(void)
{
    unsigned long value;
    __asm__ volatile("movq %%cr3, %0" : "=r"(value));
    sink = (char)value;
}

static void model_register(void)
{
    __asm__ volatile("rdmsr" ::"c"(0xc0000080) : "eax", "edx");
}

static void software_interrupt(void)
{
    __asm__ volatile("int $14");
}

static void general_interrupt(void)
{
    __asm__ volatile("int $0x55");
}

static void beyond_file(void)
{
    int fd = open("/tmp/short", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (ftruncate(fd, 100) != 0) {
        _exit(1);
    }
    unlink("/tmp/short");
    char *at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    sink = at[4095];
    expected_address = at + PAGE;
    sink = *(volatile char *)(at + PAGE);
}

static void truncated_file(void)
{
    int fd = open("/tmp/cut", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (ftruncate(fd, 2 * 4096) != 0) {
        _exit(1);
    }
    unlink("/tmp/cut");
    char *at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    at[PAGE] = 1;
    if (ftruncate(fd, 4096) != 0) {
        _exit(1);
    }
    expected_address = at + PAGE;
    *(volatile char *)(at + PAGE) = 2;
}

/* Its bound is the stack: that is the test. `deep` is a variable so that compilers accept it. */
static volatile int deep = INT32_MAX;

static int recurse(int depth)
{
    volatile char frame[2000];
    frame[0] = (char)depth;
    return depth == deep ? 0 : recurse(depth + 1) + frame[0];
}

/* Where it ends depends on the stack's place: any address will do. */
static void overflow_stack(void)
{
    sink = (char)recurse(0);
}

static const struct {
    const char *name;
    void (*body)(void);
} offences[] = {
    {"read at null", read_null},
    {"write to read-only", write_read_only},
    {"read of no access", read_none},
    {"read of unmapped", read_unmapped},
    {"write to text", write_text},
    {"run of data", run_data},
    {"read of kernel", read_kernel},
    {"write to kernel", write_kernel},
    {"jump to kernel", jump_kernel},
    {"jump to the direct map", jump_direct_map},
    {"jump to null", jump_null},
    {"read, not canonical", read_not_canonical},
    {"jump, not canonical", jump_not_canonical},
    {"stack, not canonical", stack_not_canonical},
    {"divide by zero", divide},
    {"divide overflow", divide_overflow},
    {"undefined instruction", undefined},
    {"breakpoint", breakpoint},
    {"single step", single_step},
    {"halt", halt},
    {"disable interrupts", disable_interrupts},
    {"port", port},
    {"control register", read_control},
    {"model-specific register", model_register},
    {"int 14", software_interrupt},
    {"int 0x55", general_interrupt},
    {"beyond the file", beyond_file},
    {"truncated file", truncated_file},
    {"stack overflow", overflow_stack},
};

int main(void)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < sizeof(offences) / sizeof(offences[0]); i++) {
        in_child(offences[i].name, offences[i].body);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            catch_all();
            offences[i].body();
            printf("  no signal\n");
            fflush(stdout);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    return check_done();
}
