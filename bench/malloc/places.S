/*
 * places.S - the loops of tests 1 and 2, each at 16 places of a cache line.
 *
 * Where a loop stands costs or saves up to two core cycles a call on current CPUs, as much as the
 * things that are compared: a call that ends with its line returns to the beginning of the next
 * one. A compiler's accident would decide for all allocators, and differently for each. So every
 * loop is here once for each multiple of 4 in a line of 64 bytes.
 *
 * bool  fill(void **objects, size_t size, size_t count)    false: no memory
 * bool  pairs(size_t size, size_t count)                   the same
 * void  empty(void **objects, size_t count)
 *
 * bench_places is the table of the three for each place (bench.h).
 */
        .macro  begin
        push    %rbx
        push    %rbp
        push    %r12
        .endm

        .macro  end
        pop     %r12
        pop     %rbp
        pop     %rbx
        ret
        .endm

        /* To @at bytes behind the beginning of a line. */
        .macro  place at
        .balign 64
        .if     \at
        .skip   \at, 0x90
        .endif
        .endm

        .macro  loops at
        .text
        .balign 64
.Lfill\at:
        begin
        mov     %rdi, %rbx
        mov     %rsi, %rbp
        lea     (%rdi,%rdx,8), %r12
        place   \at
1:      mov     %rbp, %rdi
        call    malloc@PLT
        test    %rax, %rax
        jz      2f
        mov     %rax, (%rbx)
        add     $8, %rbx
        cmp     %r12, %rbx
        jne     1b
2:      test    %rax, %rax
        setne   %al
        end

        .balign 64
.Lpairs\at:
        begin
        mov     %rdi, %rbp
        mov     %rsi, %rbx
        place   \at
1:      mov     %rbp, %rdi
        call    malloc@PLT
        test    %rax, %rax
        jz      2f
        mov     %rax, %rdi
        call    free@PLT
        sub     $1, %rbx
        jnz     1b
        mov     $1, %eax
        end
2:      xor     %eax, %eax
        end

        .balign 64
.Lempty\at:
        begin
        mov     %rdi, %rbx
        lea     (%rdi,%rsi,8), %r12
        place   \at
1:      mov     (%rbx), %rdi
        add     $8, %rbx
        call    free@PLT
        cmp     %r12, %rbx
        jne     1b
        end

        .section .data.rel.ro, "aw"
        .quad   .Lfill\at, .Lpairs\at, .Lempty\at
        .endm

        .section .data.rel.ro, "aw"
        .balign 8
        .globl  bench_places
        .type   bench_places, @object
        .size   bench_places, 16 * 24
bench_places:
        .irp    at, 0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60
        loops   \at
        .endr

        .section .note.GNU-stack, "", @progbits
