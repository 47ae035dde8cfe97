/*
 * arch/rseq_entry.h (x86-64) - malloc() and free(), each in one cache line of code: the class by a
 * table, then rseq.h's pop or push.
 *
 * That they lie in 64 bytes is the point: a fast path in two lines of code costs a core cycle more
 * than one in a single line, however many instructions either has (docs/malloc.md). So what they
 * need stands near one address, the descriptor's, which is in a register anyhow, and free()
 * compares nothing that a table can say instead:
 *
 *      which page is ours     the map has a byte for each page of the address space, 0 where it is
 *                             none of a slab's; class 0 has no sheaf, so it is full
 *      is there a map         the low six bits of the map's address are the shift that makes an
 *                             index of an address: 12; or 60 of the map of nothing that stands
 *                             there otherwise, of 16 bytes, all 0
 *      is the heap there      the offset of a struct rseq, of our own at first, stands before the
 *                             map, and is right from the beginning
 *
 * Offsets are those of rseq_cs, so that storing to it needs no displacement. Its lower half is
 * enough to see whether Linux cleared it: no descriptor's is 0.
 *
 * The offset of our own is known when the library is loaded, and neither to the assembler nor to
 * the linker: it is what a resolver of the dynamic loader's indirect functions returns, which is
 * called as the last of this library's relocations, or of a static program's.
 *
 *      fast_limit | fast_offset | malloc's descriptor | class_fine ...
 *      ... map of nothing | page_map | free's descriptor | areas ...
 */
#ifndef VLI_ARCH_RSEQ_ENTRY_H
#define VLI_ARCH_RSEQ_ENTRY_H

#include "arch/rseq_area.h"

/* The map has a byte for each page; user space has 47 bits. What has more is no address, and
 * nobody's to free. */
#define VLI_MAP_SHIFT 12u
#define VLI_MAP_BYTES ((uint64_t)1 << (47u - VLI_MAP_SHIFT))
/* From a multiple of 64 to the map, and from the map back to the offset. */
#define VLI_MAP_PLACE  VLI_MAP_SHIFT
#define VLI_MAP_OFFSET 20u

/* VLI_MAP_PLACE beyond a multiple of 64. Who stores it has written the offset before. */
extern uint8_t *_Atomic vli_page_map VLI_HIDDEN;
/* malloc()'s offset. Who sets vli_fast_limit has set it before. */
extern int64_t vli_fast_offset VLI_HIDDEN;

/** vli_entry_offset() - what both want to know: the offset of rseq_cs in the struct rseq in use. */
static inline int64_t vli_entry_offset(void)
{
    return vli_rseq_offset + (int64_t)offsetof(struct vli_rseq, rseq_cs);
}

_Static_assert(VLI_AREAS_MAX == 8192, "behind the two that are none");
_Static_assert(offsetof(struct vli_rseq, rseq_cs) == 8 && offsetof(struct vli_rseq, cpu_id) == 4,
               "as below");

/* An abort handler, 7; 5 is where to go when it gives up. */
#define VLI_ENTRY_ABORT(anew)                                                                      \
    ".pushsection .text.vli_rseq_abort, \"ax\", @progbits\n\t"                                     \
    ".byte 0x0f, 0xb9, 0x3d\n\t"                                                                   \
    ".long 0x53053053\n"                                                                           \
    "7:\n\t"                                                                                       \
    "incl vli_rseq_aborts(%rip)\n\t"                                                               \
    "testb $7, vli_rseq_aborts(%rip)\n\t"                                                          \
    "jz 5b\n\t"                                                                                    \
    "jmp " anew "\n\t"                                                                             \
    ".popsection\n\t"

/* 2: anew; 3: the sequence; 4: behind it; 5: nothing there, or no room; 6: descriptor; 7: abort
 * handler; 8: the map of nothing; 9: too large. A function that is longer than a line is an error.
 *
 * malloc(), which leaves all that is not simple to vli_malloc_empty_or_away() and
 * vli_malloc_otherwise(); vli_class_fine and vli_fast_limit. */
#define VLI_MALLOC_DEFINE                                                                          \
    __asm__(".text\n\t"                                                                            \
            ".balign 64\n\t"                                                                       \
            ".globl malloc\n\t"                                                                    \
            ".type malloc, @function\n"                                                            \
            "malloc:\n\t"                                                                          \
            ".cfi_startproc\n\t"                                                                   \
            "leaq 6f(%rip), %rdx\n\t"                                                              \
            "movq -8(%rdx), %rsi\n\t"                                                              \
            "cmpq -16(%rdx), %rdi\n\t"                                                             \
            "jae 9f\n\t"                                                                           \
            "movzbl 32(%rdx,%rdi), %ecx\n\t"                                                       \
            "cmpl $0, %fs:(%rsi)\n\t"                                                              \
            "je 5f\n\t"                                                                            \
            "movq %rdx, %fs:(%rsi)\n"                                                              \
            "3:\n\t"                                                                               \
            "movslq %fs:-4(%rsi), %rax\n\t"                                                        \
            "movq vli_areas+16-6f(%rdx,%rax,8), %rdx\n\t"                                          \
            "movq (%rdx,%rcx,8), %rsi\n\t"                                                         \
            "movq -8(%rsi), %rax\n\t"                                                              \
            "testq %rax, %rax\n\t"                                                                 \
            "jz 5f\n\t"                                                                            \
            "subq $8, (%rdx,%rcx,8)\n"                                                             \
            "4:\n\t"                                                                               \
            "ret\n\t"                                                                              \
            ".org malloc + 64, 0xcc\n"                                                             \
            "5:\n\t"                                                                               \
            "jmp vli_malloc_empty_or_away\n"                                                       \
            "9:\n\t"                                                                               \
            "jmp vli_malloc_otherwise\n\t"                                                         \
            ".cfi_endproc\n\t"                                                                     \
            ".size malloc, . - malloc\n\t" VLI_ENTRY_ABORT(                                        \
                "malloc") ".pushsection .data.vli_areas, \"aw\", @progbits\n\t"                    \
                          ".globl vli_fast_limit, vli_fast_offset, vli_class_fine\n\t"             \
                          ".hidden vli_fast_limit, vli_fast_offset, vli_class_fine\n\t"            \
                          ".balign 32\n\t"                                                         \
                          ".skip 16\n"                                                             \
                          "vli_fast_limit:\n\t"                                                    \
                          ".quad 0\n"                                                              \
                          "vli_fast_offset:\n\t"                                                   \
                          ".quad 0\n"                                                              \
                          "6:\n\t"                                                                 \
                          ".long 0, 0\n\t"                                                         \
                          ".quad 3b, 4b - 3b, 7b\n"                                                \
                          "vli_class_fine:\n\t"                                                    \
                          ".skip 1025\n\t"                                                         \
                          ".popsection\n\t")

/* free(), which leaves other blocks than a slab's, and full sheaves, to vli_free_otherwise();
 * vli_areas, whose first entry is of number -2. */
#define VLI_FREE_DEFINE                                                                            \
    __asm__(".balign 64\n\t"                                                                       \
            ".globl free\n\t"                                                                      \
            ".type free, @function\n"                                                              \
            "free:\n\t"                                                                            \
            ".cfi_startproc\n\t"                                                                   \
            "movq vli_page_map(%rip), %rax\n\t"                                                    \
            "movq %rdi, %rdx\n\t"                                                                  \
            "movl %eax, %ecx\n\t"                                                                  \
            "shrq %cl, %rdx\n\t"                                                                   \
            "movzbl (%rax,%rdx), %ecx\n\t"                                                         \
            "movq -20(%rax), %rsi\n"                                                               \
            "2:\n\t"                                                                               \
            "leaq 6f(%rip), %rdx\n\t"                                                              \
            "movq %rdx, %fs:(%rsi)\n"                                                              \
            "3:\n\t"                                                                               \
            "movslq %fs:-4(%rsi), %rax\n\t"                                                        \
            "movq 48(%rdx,%rax,8), %rdx\n\t"                                                       \
            "movq (%rdx,%rcx,8), %rax\n\t"                                                         \
            "testl $2047, %eax\n\t"                                                                \
            "jz 5f\n\t"                                                                            \
            "movq %rdi, (%rax)\n\t"                                                                \
            "addq $8, (%rdx,%rcx,8)\n"                                                             \
            "4:\n\t"                                                                               \
            "ret\n\t"                                                                              \
            ".org free + 64, 0xcc\n"                                                               \
            "5:\n\t"                                                                               \
            "jmp vli_free_otherwise\n\t"                                                           \
            ".cfi_endproc\n\t"                                                                     \
            ".size free, . - free\n\t" VLI_ENTRY_ABORT(                                            \
                "2b") ".pushsection .data.vli_areas, \"aw\", @progbits\n\t"                        \
                      ".globl vli_page_map, vli_areas\n\t"                                         \
                      ".hidden vli_page_map, vli_areas\n\t"                                        \
                      ".balign 64\n\t"                                                             \
                      ".skip 40\n\t"                                                               \
                      ".quad vli_own_offset\n\t"                                                   \
                      ".skip 12\n"                                                                 \
                      "8:\n\t"                                                                     \
                      ".skip 16\n\t"                                                               \
                      ".balign 8\n"                                                                \
                      "vli_page_map:\n\t"                                                          \
                      ".quad 8b\n\t"                                                               \
                      ".balign 32\n"                                                               \
                      "6:\n\t"                                                                     \
                      ".long 0, 0\n\t"                                                             \
                      ".quad 3b, 4b - 3b, 7b\n"                                                    \
                      "vli_areas:\n\t"                                                             \
                      ".quad vli_area_stopped, vli_area_stopped\n\t"                               \
                      ".skip 8 * 8192\n\t"                                                         \
                      ".popsection\n\t"                                                            \
                      ".type vli_own_offset, @gnu_indirect_function\n"                             \
                      "vli_own_offset:\n\t"                                                        \
                      "movq vli_rseq_own@gottpoff(%rip), %rax\n\t"                                 \
                      "addq $8, %rax\n\t"                                                          \
                      "ret\n\t"                                                                    \
                      ".size vli_own_offset, . - vli_own_offset\n\t")

#endif
