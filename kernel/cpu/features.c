/*
 * features.c - CPUID and the control registers.
 *
 * stac and clac are invalid on CPUs without SMAP, so the code has 3-byte no-ops at those places,
 * listed in two sections; cpu_patch_smap() overwrites them at start.
 */
#include "kernel/cpu/features.h"
#include "kernel/cpu/cpu.h"
#include "kernel/cpu/io.h"
#include "kernel/lib/mem.h"

#define CR0_MP         0x00000002ull
#define CR0_EM         0x00000004ull
#define CR0_TS         0x00000008ull
#define CR0_NE         0x00000020ull
#define CR0_WP         0x00010000ull
#define CR0_AM         0x00040000ull
#define CR4_DE         0x00000008ull
#define CR4_PGE        0x00000080ull
#define CR4_OSFXSR     0x00000200ull
#define CR4_OSXMMEXCPT 0x00000400ull
#define CR4_UMIP       0x00000800ull
#define CR4_OSXSAVE    0x00040000ull
#define CR4_SMEP       0x00100000ull
#define CR4_SMAP       0x00200000ull
#define EFER_SCE       0x001ull
#define EFER_NXE       0x800ull

/* x87, SSE, AVX, AVX-512 (three). Others (MPX, PKRU, AMX) are left off: programs see them absent
 * in XGETBV. */
#define XCR0_WANTED 0xe7ull
#define XCR0_BASE   0x3ull

static struct cpu_features features;

extern const int32_t stac_sites_start[], stac_sites_end[];
extern const int32_t clac_sites_start[], clac_sites_end[];

const struct cpu_features *cpu_features(void)
{
    return &features;
}

uint32_t cpu_hwcap(void)
{
    return features.hwcap;
}

static void detect_xsave(void)
{
    struct cpuid_regs main_leaf = cpuid(0xd, 0);
    struct cpuid_regs sub = cpuid(0xd, 1);

    features.xcr0 = (main_leaf.eax | (uint64_t)main_leaf.edx << 32) & XCR0_WANTED;
    if ((features.xcr0 & 0xe0) != 0xe0 || (features.xcr0 & 4) == 0) {
        features.xcr0 &= 7; /* AVX-512 only as a whole and on top of AVX */
    }
    features.xsaveopt = (sub.eax & 1) != 0;
}

void cpu_features_detect(void)
{
    uint32_t max = cpuid(0, 0).eax;
    uint32_t max_ext = cpuid(0x80000000u, 0).eax;
    struct cpuid_regs one = cpuid(1, 0);

    features.hwcap = one.edx;
    features.pge = (one.edx >> 13 & 1) != 0;
    features.x2apic = (one.ecx >> 21 & 1) != 0;
    features.tsc_deadline = (one.ecx >> 24 & 1) != 0;
    features.xsave = (one.ecx >> 26 & 1) != 0 && max >= 0xd;
    features.rdrand = (one.ecx >> 30 & 1) != 0;
    if (max >= 7) {
        struct cpuid_regs seven = cpuid(7, 0);

        features.smep = (seven.ebx >> 7 & 1) != 0;
        features.erms = (seven.ebx >> 9 & 1) != 0;
        features.smap = (seven.ebx >> 20 & 1) != 0;
        features.umip = (seven.ecx >> 2 & 1) != 0;
        features.fsrm = (seven.edx >> 4 & 1) != 0;
    }
    if (max_ext >= 0x80000001u) {
        features.pages_1g = (cpuid(0x80000001u, 0).edx >> 26 & 1) != 0;
    }
    if (features.xsave) {
        detect_xsave();
    }
}

static void xcr0_write(uint64_t value)
{
    __asm__ volatile("xsetbv" : : "c"(0), "a"((uint32_t)value), "d"((uint32_t)(value >> 32)));
}

void cpu_features_enable(void)
{
    uint64_t cr4 = cr4_read() | CR4_DE | CR4_OSFXSR | CR4_OSXMMEXCPT;

    cr4 |= features.pge ? CR4_PGE : 0;
    cr4 |= features.umip ? CR4_UMIP : 0;
    cr4 |= features.smep ? CR4_SMEP : 0;
    cr4 |= features.smap ? CR4_SMAP : 0;
    cr4 |= features.xsave ? CR4_OSXSAVE : 0;
    cr4_write(cr4);
    cr0_write((cr0_read() & ~(CR0_EM | CR0_TS)) | CR0_MP | CR0_NE | CR0_WP | CR0_AM);
    msr_write(MSR_EFER, msr_read(MSR_EFER) | EFER_SCE | EFER_NXE);
    if (features.xsave) {
        xcr0_write(features.xcr0);
        /* EBX: bytes for what XCR0 enables now. */
        features.xsave_bytes = cpuid(0xd, 0).ebx;
    }
}

static void patch(const int32_t *sites, const int32_t *end, const char *code)
{
    for (const int32_t *site = sites; site < end; site++) {
        memcpy((void *)((uintptr_t)site + (uintptr_t)(intptr_t)*site), code, 3);
    }
}

void cpu_patch_smap(void)
{
    if (features.smap) {
        patch(stac_sites_start, stac_sites_end, "\x0f\x01\xcb");
        patch(clac_sites_start, clac_sites_end, "\x0f\x01\xca");
    }
}
