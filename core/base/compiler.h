/*
 * compiler.h - every language extension that the core uses, by a name of its own.
 */
#ifndef VLI_COMPILER_H
#define VLI_COMPILER_H

#include <vellum/types.h>

#define VLI_CACHELINE     64u
#define VLI_ALIGNED(n)    __attribute__((aligned(n)))
#define VLI_LIKELY(x)     __builtin_expect(!!(x), 1)
#define VLI_UNLIKELY(x)   __builtin_expect(!!(x), 0)
#define VLI_NOINLINE      __attribute__((noinline))
#define VLI_ALWAYS_INLINE inline __attribute__((always_inline))
#define VLI_COLD          __attribute__((cold))
/* Reads what others may be writing, and stands whatever it finds: ThreadSanitizer looks away. */
#define VLI_RACY           __attribute__((noinline, no_sanitize("thread")))
#define VLI_WEAK           __attribute__((weak))
#define VLI_HIDDEN         __attribute__((visibility("hidden")))
#define VLI_UNUSED         __attribute__((unused))
#define VLI_ZEROS_BELOW(n) ((unsigned)__builtin_ctzll(n)) /* of a nonzero 64-bit word */
#define VLI_ZEROS_ABOVE(n) ((unsigned)__builtin_clzll(n))
/* The compiler may take @c for true. */
#define VLI_ASSUME(c)      ((c) ? (void)0 : __builtin_unreachable())
#define VLI_PREFETCH(p)    __builtin_prefetch(p)
#define VLI_PREFETCHW(p)   __builtin_prefetch((p), 1)
#define VLI_RETURN_ADDRESS ((uintptr_t)__builtin_return_address(0))

/* Two words in one vector register, at any address; operators work on each. Not where vector
 * registers are not the program's to use. */
#if defined(__SSE2__)
#define VLI_VECTORS 1
typedef uintptr_t vli_words2 __attribute__((vector_size(16), aligned(8), may_alias));
#endif

/* The struct of type @type whose @member stands at @ptr. */
#define vli_container_of(ptr, type, member)                                                        \
    ((type *)(void *)((char *)(uintptr_t)(ptr)-offsetof(type, member)))

#define VLI_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Clang's lock checks; nothing elsewhere. */
#if defined(__clang__)
#define VL_CAPABILITY(x)           __attribute__((capability(x)))
#define VL_REQUIRES(...)           __attribute__((requires_capability(__VA_ARGS__)))
#define VL_REQUIRES_SHARED(...)    __attribute__((requires_shared_capability(__VA_ARGS__)))
#define VL_ACQUIRE(...)            __attribute__((acquire_capability(__VA_ARGS__)))
#define VL_ACQUIRE_SHARED(...)     __attribute__((acquire_shared_capability(__VA_ARGS__)))
#define VL_RELEASE(...)            __attribute__((release_capability(__VA_ARGS__)))
#define VL_RELEASE_SHARED(...)     __attribute__((release_shared_capability(__VA_ARGS__)))
#define VL_TRY_ACQUIRE(...)        __attribute__((try_acquire_capability(__VA_ARGS__)))
#define VL_TRY_ACQUIRE_SHARED(...) __attribute__((try_acquire_shared_capability(__VA_ARGS__)))
#define VL_NO_LOCK_CHECK           __attribute__((no_thread_safety_analysis))
#else
#define VL_CAPABILITY(x)
#define VL_REQUIRES(...)
#define VL_REQUIRES_SHARED(...)
#define VL_ACQUIRE(...)
#define VL_ACQUIRE_SHARED(...)
#define VL_RELEASE(...)
#define VL_RELEASE_SHARED(...)
#define VL_TRY_ACQUIRE(...)
#define VL_TRY_ACQUIRE_SHARED(...)
#define VL_NO_LOCK_CHECK
#endif

#endif
