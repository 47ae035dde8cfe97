/*
 * uaccess.h - copies between the kernel and user memory.
 *
 * Each checks that the range lies in the user half, opens SMAP's gate around the copy, and lets
 * the page-fault handler resolve faults by vl_space_fault() on the running thread's space; a fault
 * that it cannot resolve ends the copy through the exception table. They may therefore sleep: no
 * lock of the core and no spin lock may be held, and preemption must be on (asserted in debug
 * builds). Sleeping mutexes of the kernel may be held.
 *
 * A kernel pointer, a non-canonical one or one that wraps gives VL_EFAULT.
 */
#ifndef KERNEL_CPU_UACCESS_H
#define KERNEL_CPU_UACCESS_H

#include <vellum/types.h>

/* First address above user space: one page below the canonical end, as on Linux. */
#define USER_END 0x00007ffffffff000ull

/** user_range_ok() - does [@address, @address + @len) lie in user space? */
static inline bool user_range_ok(uint64_t address, uint64_t len)
{
    return len <= USER_END && address <= USER_END - len;
}

/** copy_to_user() - Returns: VL_OK, or VL_EFAULT with any part written. */
VL_MUST_CHECK enum vl_status copy_to_user(uint64_t user_dst, const void *src, size_t len);

/** copy_from_user() - Returns: VL_OK, or VL_EFAULT with any part of @dst written. */
VL_MUST_CHECK enum vl_status copy_from_user(void *dst, uint64_t user_src, size_t len);

/** copy_to_user_partial() - Returns: bytes NOT copied (0 is success), counted from the end. */
VL_MUST_CHECK size_t copy_to_user_partial(uint64_t user_dst, const void *src, size_t len);

/** copy_from_user_partial() - Returns: bytes NOT copied (0 is success). */
VL_MUST_CHECK size_t copy_from_user_partial(void *dst, uint64_t user_src, size_t len);

/** clear_user() - write zeroes. Returns: VL_OK or VL_EFAULT. */
VL_MUST_CHECK enum vl_status clear_user(uint64_t user_dst, size_t len);

/**
 * strncpy_from_user() - copy a string with its ending 0.
 * @size: room at @dst.
 * Returns: its length without the 0; @size when no 0 was within @size bytes (@dst is then full and
 *          not ended); VL_EFAULT (negative).
 */
VL_MUST_CHECK long strncpy_from_user(char *dst, uint64_t user_src, size_t size);

/** strnlen_user() - length without the 0, at most @max; VL_EFAULT (negative). */
VL_MUST_CHECK long strnlen_user(uint64_t user_src, size_t max);

/* Single values: a handful of instructions. */
VL_MUST_CHECK enum vl_status get_user32(uint32_t *out, uint64_t user_src);
VL_MUST_CHECK enum vl_status get_user64(uint64_t *out, uint64_t user_src);
VL_MUST_CHECK enum vl_status put_user32(uint64_t user_dst, uint32_t value);
VL_MUST_CHECK enum vl_status put_user64(uint64_t user_dst, uint64_t value);

/**
 * user_cmpxchg32() - compare-and-exchange on a user word (futexes, robust lists).
 * @expected: in: value expected; out: value found.
 * Returns: VL_OK (look at *@expected for whether it was exchanged); VL_EFAULT.
 */
VL_MUST_CHECK enum vl_status user_cmpxchg32(uint64_t user_word, uint32_t *expected,
                                            uint32_t desired);

/**
 * get_user32_nofault() - read a user word without resolving faults: for a futex's check under its
 * bucket's spin lock. Allowed under spin locks. Returns: VL_OK; VL_EFAULT when not resident (fault
 * it in by get_user32() without locks, and try again).
 */
VL_MUST_CHECK enum vl_status get_user32_nofault(uint32_t *out, uint64_t user_src);

#endif
