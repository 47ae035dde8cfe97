/*
 * uaccess.c - user copies.
 *
 * Each block of assembly opens SMAP's gate, accesses, and closes it; the instructions that may
 * fault have entries in the exception table that lead to code which computes what is left and goes
 * on behind the access. String instructions do the copying: words, then the rest by bytes.
 */
#include "kernel/cpu/uaccess.h"
#include "core/base/assert.h"
#include "core/base/rank.h"
#include "kernel/cpu/cpu.h"
#include "kernel/cpu/smap.h"
#include "kernel/cpu/trap.h"

/* User memory may make the caller sleep. */
static inline void check_context(void)
{
    vli_rank_assert_none();
    VL_ASSERT_SLOW(cpu_preempt_depth() == 0);
}

/* Returns bytes not copied. */
static inline size_t copy(void *dst, const void *src, size_t len)
{
    size_t words = len >> 3;
    size_t tail = len & 7;

    __asm__ volatile(STAC "1: rep movsq\n\t"
                          "movl %k3, %%ecx\n\t"
                          "2: rep movsb\n"
                          "3:\n\t" CLAC ".pushsection .text.fixup, \"ax\"\n"
                          "4: leaq (%3, %%rcx, 8), %%rcx\n\t"
                          "jmp 3b\n\t"
                          ".popsection\n\t" EXTABLE("1b", "4b") EXTABLE("2b", "3b")
                     : "+D"(dst), "+S"(src), "+c"(words)
                     : "r"(tail)
                     : "memory");
    return words;
}

size_t copy_to_user_partial(uint64_t user_dst, const void *src, size_t len)
{
    check_context();
    return user_range_ok(user_dst, len) ? copy((void *)user_dst, src, len) : len;
}

size_t copy_from_user_partial(void *dst, uint64_t user_src, size_t len)
{
    check_context();
    return user_range_ok(user_src, len) ? copy(dst, (const void *)user_src, len) : len;
}

enum vl_status copy_to_user(uint64_t user_dst, const void *src, size_t len)
{
    return copy_to_user_partial(user_dst, src, len) == 0 ? VL_OK : VL_EFAULT;
}

enum vl_status copy_from_user(void *dst, uint64_t user_src, size_t len)
{
    return copy_from_user_partial(dst, user_src, len) == 0 ? VL_OK : VL_EFAULT;
}

enum vl_status clear_user(uint64_t user_dst, size_t len)
{
    size_t words = len >> 3;
    size_t tail = len & 7;

    check_context();
    if (!user_range_ok(user_dst, len)) {
        return VL_EFAULT;
    }
    __asm__ volatile(STAC "1: rep stosq\n\t"
                          "movl %k2, %%ecx\n\t"
                          "2: rep stosb\n"
                          "3:\n\t" CLAC ".pushsection .text.fixup, \"ax\"\n"
                          "4: leaq (%2, %%rcx, 8), %%rcx\n\t"
                          "jmp 3b\n\t"
                          ".popsection\n\t" EXTABLE("1b", "4b") EXTABLE("2b", "3b")
                     : "+D"(user_dst), "+c"(words)
                     : "r"(tail), "a"(0)
                     : "memory");
    return words == 0 ? VL_OK : VL_EFAULT;
}

/* One load: the value in *@out, or false. */
#define DEFINE_LOAD(name, type, mov, reg)                                                          \
    static inline bool name(type *out, uint64_t user_src)                                          \
    {                                                                                              \
        type value = 0;                                                                            \
        int bad = 0;                                                                               \
                                                                                                   \
        __asm__ volatile(STAC "1: " mov " (%2), %" reg "0\n"                                       \
                              "2:\n\t" CLAC ".pushsection .text.fixup, \"ax\"\n"                   \
                              "3: movl $1, %1\n\t"                                                 \
                              "jmp 2b\n\t"                                                         \
                              ".popsection\n\t" EXTABLE("1b", "3b")                                \
                         : "+r"(value), "+r"(bad)                                                  \
                         : "r"(user_src)                                                           \
                         : "memory");                                                              \
        *out = value;                                                                              \
        return bad == 0;                                                                           \
    }

#define DEFINE_STORE(name, type, mov, reg)                                                         \
    static inline bool name(uint64_t user_dst, type value)                                         \
    {                                                                                              \
        int bad = 0;                                                                               \
                                                                                                   \
        __asm__ volatile(STAC "1: " mov " %" reg "1, (%2)\n"                                       \
                              "2:\n\t" CLAC ".pushsection .text.fixup, \"ax\"\n"                   \
                              "3: movl $1, %0\n\t"                                                 \
                              "jmp 2b\n\t"                                                         \
                              ".popsection\n\t" EXTABLE("1b", "3b")                                \
                         : "+r"(bad)                                                               \
                         : "r"(value), "r"(user_dst)                                               \
                         : "memory");                                                              \
        return bad == 0;                                                                           \
    }

DEFINE_LOAD(load8, uint32_t, "movzbl", "k")
DEFINE_LOAD(load32, uint32_t, "movl", "k")
DEFINE_LOAD(load64, uint64_t, "movq", "q")
DEFINE_STORE(store32, uint32_t, "movl", "k")
DEFINE_STORE(store64, uint64_t, "movq", "q")

enum vl_status get_user32(uint32_t *out, uint64_t user_src)
{
    check_context();
    return user_range_ok(user_src, 4) && load32(out, user_src) ? VL_OK : VL_EFAULT;
}

enum vl_status get_user64(uint64_t *out, uint64_t user_src)
{
    check_context();
    return user_range_ok(user_src, 8) && load64(out, user_src) ? VL_OK : VL_EFAULT;
}

enum vl_status put_user32(uint64_t user_dst, uint32_t value)
{
    check_context();
    return user_range_ok(user_dst, 4) && store32(user_dst, value) ? VL_OK : VL_EFAULT;
}

enum vl_status put_user64(uint64_t user_dst, uint64_t value)
{
    check_context();
    return user_range_ok(user_dst, 8) && store64(user_dst, value) ? VL_OK : VL_EFAULT;
}

enum vl_status get_user32_nofault(uint32_t *out, uint64_t user_src)
{
    bool ok;

    if (!user_range_ok(user_src, 4)) {
        return VL_EFAULT;
    }
    /* With preemption off the page-fault handler does not resolve. */
    vl_host_preempt_off();
    ok = load32(out, user_src);
    vl_host_preempt_on();
    return ok ? VL_OK : VL_EFAULT;
}

enum vl_status user_cmpxchg32(uint64_t user_word, uint32_t *expected, uint32_t desired)
{
    uint32_t found = *expected;
    int bad = 0;

    check_context();
    if (!user_range_ok(user_word, 4)) {
        return VL_EFAULT;
    }
    __asm__ volatile(STAC "1: lock cmpxchgl %3, (%2)\n"
                          "2:\n\t" CLAC ".pushsection .text.fixup, \"ax\"\n"
                          "3: movl $1, %1\n\t"
                          "jmp 2b\n\t"
                          ".popsection\n\t" EXTABLE("1b", "3b")
                     : "+a"(found), "+r"(bad)
                     : "r"(user_word), "r"(desired)
                     : "memory", "cc");
    *expected = found;
    return bad == 0 ? VL_OK : VL_EFAULT;
}

/* Strings are read a word at a time while they stay within a page; a word that faults, or the last
 * ones before the end of user space, go byte by byte. */
long strncpy_from_user(char *dst, uint64_t user_src, size_t size)
{
    check_context();
    for (size_t i = 0; i < size;) {
        uint64_t word = 0;
        uint32_t byte;

        if (size - i >= 8 && ((user_src + i) & VL_PAGE_MASK) <= VL_PAGE_SIZE - 8 &&
            user_range_ok(user_src + i, 8) && load64(&word, user_src + i)) {
            for (unsigned k = 0; k < 8; k++, i++) {
                dst[i] = (char)(word >> (8 * k));
                if (dst[i] == 0) {
                    return (long)i;
                }
            }
            continue;
        }
        if (!user_range_ok(user_src + i, 1) || !load8(&byte, user_src + i)) {
            return VL_EFAULT;
        }
        dst[i] = (char)byte;
        if (byte == 0) {
            return (long)i;
        }
        i++;
    }
    return (long)size;
}

long strnlen_user(uint64_t user_src, size_t max)
{
    check_context();
    for (size_t i = 0; i < max; i++) {
        uint32_t byte;

        if (!user_range_ok(user_src + i, 1) || !load8(&byte, user_src + i)) {
            return VL_EFAULT;
        }
        if (byte == 0) {
            return (long)i;
        }
    }
    return (long)max;
}
