/*
 * io.h - port I/O, model-specific registers, control registers: one instruction each.
 */
#ifndef KERNEL_CPU_IO_H
#define KERNEL_CPU_IO_H

#include <vellum/types.h>

static inline void io_out8(uint16_t port, uint8_t value)
{
    __asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port));
}
static inline void io_out16(uint16_t port, uint16_t value)
{
    __asm__ volatile("outw %0, %1" : : "a"(value), "Nd"(port));
}
static inline void io_out32(uint16_t port, uint32_t value)
{
    __asm__ volatile("outl %0, %1" : : "a"(value), "Nd"(port));
}
static inline uint8_t io_in8(uint16_t port)
{
    uint8_t value;

    __asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
    return value;
}
static inline uint16_t io_in16(uint16_t port)
{
    uint16_t value;

    __asm__ volatile("inw %1, %0" : "=a"(value) : "Nd"(port));
    return value;
}
static inline uint32_t io_in32(uint16_t port)
{
    uint32_t value;

    __asm__ volatile("inl %1, %0" : "=a"(value) : "Nd"(port));
    return value;
}

static inline uint64_t msr_read(uint32_t msr)
{
    uint32_t low, high;

    __asm__ volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(msr));
    return low | (uint64_t)high << 32;
}
static inline void msr_write(uint32_t msr, uint64_t value)
{
    __asm__ volatile("wrmsr"
                     :
                     : "c"(msr), "a"((uint32_t)value), "d"((uint32_t)(value >> 32))
                     : "memory");
}

#define MSR_APIC_BASE      0x0000001bu
#define MSR_TSC_DEADLINE   0x000006e0u
#define MSR_X2APIC         0x00000800u
#define MSR_EFER           0xc0000080u
#define MSR_STAR           0xc0000081u
#define MSR_LSTAR          0xc0000082u
#define MSR_CSTAR          0xc0000083u
#define MSR_SYSCALL_MASK   0xc0000084u
#define MSR_FS_BASE        0xc0000100u
#define MSR_GS_BASE        0xc0000101u
#define MSR_KERNEL_GS_BASE 0xc0000102u

static inline uint64_t cr0_read(void)
{
    uint64_t value;

    __asm__ volatile("movq %%cr0, %0" : "=r"(value));
    return value;
}
static inline void cr0_write(uint64_t value)
{
    __asm__ volatile("movq %0, %%cr0" : : "r"(value) : "memory");
}
static inline uint64_t cr2_read(void)
{
    uint64_t value;

    __asm__ volatile("movq %%cr2, %0" : "=r"(value));
    return value;
}
static inline uint64_t cr3_read(void)
{
    uint64_t value;

    __asm__ volatile("movq %%cr3, %0" : "=r"(value));
    return value;
}
static inline void cr3_write(uint64_t value)
{
    __asm__ volatile("movq %0, %%cr3" : : "r"(value) : "memory");
}
static inline uint64_t cr4_read(void)
{
    uint64_t value;

    __asm__ volatile("movq %%cr4, %0" : "=r"(value));
    return value;
}
static inline void cr4_write(uint64_t value)
{
    __asm__ volatile("movq %0, %%cr4" : : "r"(value) : "memory");
}

struct cpuid_regs {
    uint32_t eax, ebx, ecx, edx;
};
static inline struct cpuid_regs cpuid(uint32_t leaf, uint32_t subleaf)
{
    struct cpuid_regs r;

    __asm__ volatile("cpuid"
                     : "=a"(r.eax), "=b"(r.ebx), "=c"(r.ecx), "=d"(r.edx)
                     : "a"(leaf), "c"(subleaf));
    return r;
}

/** tsc_read() - the time-stamp counter. */
static inline uint64_t tsc_read(void)
{
    uint32_t low, high;

    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return low | (uint64_t)high << 32;
}

#endif
