/*
 * first-page - the least that an embedder supplies: five hooks, four memory functions, some RAM.
 *
 * A program without a C library: its "machine" is an array in its own memory, its console the
 * standard output. It asks for a page and an object, uses them, gives them back, and ends with
 * status 0 if the count of free frames is what it was.
 */
#include <vellum/vellum.h>

#define RAM_BYTES ((size_t)8 << 20)
#define RAM_START 0x100000u /* where this machine's RAM lies, physically */

static _Alignas(4096) unsigned char ram[RAM_BYTES];
static _Alignas(4096) unsigned char bootstrap[65536];

/* ---- the machine: two calls to the system below ---- */

static long system_call(long number, long a, long b, long c)
{
    long result;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return result;
}

static _Noreturn void stop(int status)
{
    for (;;) {
        system_call(231, status, 0, 0); /* exit_group */
    }
}

static void say(const char *text)
{
    size_t length = 0;

    while (text[length] != '\0') {
        length++;
    }
    system_call(1, 1, (long)text, (long)length); /* write */
}

/* ---- the five hooks ---- */

void vl_host_panic(const char *message)
{
    say("panic: ");
    say(message);
    say("\n");
    stop(2);
}

void vl_host_log(enum vl_log_level level, const char *line)
{
    (void)level;
    say(line);
    say("\n");
}

void *vl_host_phys_to_virt(struct vl_pa pa)
{
    return ram + (pa.a - RAM_START);
}

size_t vl_host_memory_ranges(struct vl_range *out, size_t max)
{
    if (max > 0) {
        out[0] = (struct vl_range){.start = {RAM_START}, .end = {RAM_START + RAM_BYTES}};
    }
    return 1;
}

void *vl_host_bootstrap(size_t *out_bytes)
{
    *out_bytes = sizeof(bootstrap);
    return bootstrap;
}

/* ---- the four functions that compilers call by themselves ---- */

void *memset(void *to, int byte, size_t size)
{
    unsigned char *at = to;

    for (size_t i = 0; i < size; i++) {
        at[i] = (unsigned char)byte;
    }
    return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
    unsigned char *at = to;

    for (size_t i = 0; i < size; i++) {
        at[i] = ((const unsigned char *)from)[i];
    }
    return to;
}

void *memmove(void *to, const void *from, size_t size)
{
    unsigned char *at = to;

    if ((uintptr_t)to <= (uintptr_t)from) {
        return memcpy(to, from, size);
    }
    for (size_t i = size; i > 0; i--) {
        at[i - 1] = ((const unsigned char *)from)[i - 1];
    }
    return to;
}

int memcmp(const void *a, const void *b, size_t size)
{
    const unsigned char *left = a;
    const unsigned char *right = b;

    for (size_t i = 0; i < size; i++) {
        if (left[i] != right[i]) {
            return left[i] < right[i] ? -1 : 1;
        }
    }
    return 0;
}

/* ---- the program ---- */

static uint64_t free_frames(void)
{
    struct vl_frame_counts counts;

    vl_frame_counts(&counts);
    return counts.free_zones + counts.free_stock;
}

static int use_memory(void)
{
    uint64_t before = free_frames();
    struct vl_pfn page;
    char *text;

    if (vl_frame_alloc(0, VL_ATOMIC | VL_ZEROED, &page) != VL_OK) {
        say("no page\n");
        return 1;
    }
    text = vl_frame_to_virt(page);
    memcpy(text, "a first page\n", 13);
    say(text);
    vl_frame_free(page, 0);

    text = vl_kmalloc(100, VL_ATOMIC);
    if (text == NULL) {
        say("no object\n");
        return 1;
    }
    memcpy(text, "a first object\n", 16);
    say(text);
    vl_kfree(text);

    vl_drain_all();
    if (free_frames() != before) {
        say("frames are missing\n");
        return 1;
    }
    return 0;
}

_Noreturn void first_page(void);
_Noreturn void first_page(void)
{
    const char *wrong;

    if (vl_selftest(&wrong) != VL_OK) {
        say("wrong hook: ");
        say(wrong);
        say("\n");
        stop(1);
    }
    if (vl_init() != VL_OK) {
        stop(1);
    }
    stop(use_memory());
}

/* The entry: the stack is aligned as a call expects it, nothing else is set up. */
__asm__(".globl _start\n"
        "_start:\n"
        "    xorl %ebp, %ebp\n"
        "    andq $-16, %rsp\n"
        "    call first_page\n");
