/*
 * types.h - the words that every other header speaks: status codes, sizes, and three kinds of
 * address that the compiler keeps apart.
 *
 * A frame number, a physical address and a virtual address are three types: two are one-member
 * structs, so that none converts to another without a named function. A frame number has 32 bits:
 * with 4 KiB pages that is 16 TiB of physical memory.
 */
#ifndef VELLUM_TYPES_H
#define VELLUM_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define VL_MUST_CHECK     __attribute__((warn_unused_result))
#define VL_PRINTF(fmt, a) __attribute__((format(printf, fmt, a)))
#else
#define VL_MUST_CHECK
#define VL_PRINTF(fmt, a)
#endif

#define VL_VERSION_MAJOR 0
#define VL_VERSION_MINOR 1
#define VL_VERSION_PATCH 0
#define VL_VERSION       "0.1.0"

#define VL_PAGE_SHIFT 12u
#define VL_PAGE_SIZE  ((size_t)1 << VL_PAGE_SHIFT)
#define VL_PAGE_MASK  (VL_PAGE_SIZE - 1)
/* Orders run from 0 (4 KiB) to 10 (4 MiB). */
#define VL_ORDER_MAX   10u
#define VL_ORDER_COUNT (VL_ORDER_MAX + 1u)
/* Most CPUs that one build can use; a CPU mask is one word for each 64. */
#define VL_CPUS_MAX 64u

/* Every fallible function returns one of these; values are the negated Linux errno numbers. */
enum vl_status {
    VL_OK = 0,
    VL_EPERM = -1,
    VL_ENOENT = -2,
    VL_EINTR = -4,
    VL_EIO = -5,
    VL_E2BIG = -7,
    VL_EAGAIN = -11,
    VL_ENOMEM = -12,
    VL_EACCES = -13,
    VL_EFAULT = -14,
    VL_EBUSY = -16,
    VL_EEXIST = -17,
    VL_EINVAL = -22,
    VL_EFBIG = -27,
    VL_ENOSPC = -28,
    VL_ENOSYS = -38,
    VL_EOVERFLOW = -75,
    VL_ETIMEDOUT = -110,
    /* A fault beyond the end of what backs the page: SIGBUS in POSIX terms. */
    VL_EBUSERROR = -4096
};

/* Number of a physical page frame: physical address >> VL_PAGE_SHIFT. */
struct vl_pfn {
    uint32_t n;
};

/* Physical address in bytes. */
struct vl_pa {
    uint64_t a;
};

/* Virtual address in bytes, of a user space or of the kernel. */
typedef uintptr_t vl_va;

/* No frame has this number: memory ends one frame below 16 TiB. */
#define VL_PFN_NONE ((struct vl_pfn){UINT32_MAX})

/** vl_pfn_to_pa() - address of a frame's first byte. */
static inline struct vl_pa vl_pfn_to_pa(struct vl_pfn pfn)
{
    return (struct vl_pa){(uint64_t)pfn.n << VL_PAGE_SHIFT};
}

/** vl_pa_to_pfn() - frame that holds a physical address below 16 TiB. */
static inline struct vl_pfn vl_pa_to_pfn(struct vl_pa pa)
{
    return (struct vl_pfn){(uint32_t)(pa.a >> VL_PAGE_SHIFT)};
}

/** vl_pfn_is_none() - is this the number that no frame has? */
static inline bool vl_pfn_is_none(struct vl_pfn pfn)
{
    return pfn.n == UINT32_MAX;
}

/* A set of CPUs, one bit each; CPU n is bit n % 64 of word n / 64. */
struct vl_cpumask {
    uint64_t word[(VL_CPUS_MAX + 63) / 64];
};

#endif
