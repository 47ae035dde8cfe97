/*
 * arch/memory.h (x86-64) - whole pages zeroed and copied.
 *
 * `rep stosq` and `rep movsq`: fast strings need no registers to be saved, and an emulator that
 * counts every iteration counts 512 for them where byte strings would cost 4,096.
 */
#ifndef VLI_ARCH_MEMORY_H
#define VLI_ARCH_MEMORY_H

#include <vellum/types.h>

/** vli_arch_zero_pages() - @count pages from @page on. */
static inline void vli_arch_zero_pages(void *page, size_t count)
{
    size_t words = count * (VL_PAGE_SIZE / 8);

    __asm__ volatile("rep stosq" : "+D"(page), "+c"(words) : "a"(0ull) : "memory");
}

/** vli_arch_copy_page() - one page; they do not overlap. */
static inline void vli_arch_copy_page(void *to, const void *from)
{
    size_t words = VL_PAGE_SIZE / 8;

    __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(words) : : "memory");
}

#endif
