/*
 * features.h - what the CPU can do, and switching its protections on.
 */
#ifndef KERNEL_CPU_FEATURES_H
#define KERNEL_CPU_FEATURES_H

#include <vellum/types.h>

struct cpu_features {
    bool pages_1g, smep, smap, umip, pge, x2apic, xsave, xsaveopt, rdrand, tsc_deadline;
    bool fsrm, erms;
    uint32_t hwcap;       /* CPUID 1 EDX */
    uint64_t xcr0;        /* state components in use; 0 without XSAVE */
    uint32_t xsave_bytes; /* size of their standard-format area */
};

/** cpu_features() - of the first CPU; the others must have the same. Context: any. */
const struct cpu_features *cpu_features(void);

/** cpu_features_detect() - ask CPUID. Context: once, first CPU. */
void cpu_features_detect(void);

/** cpu_features_enable() - control registers of this CPU: protections, FPU, system calls' bits. */
void cpu_features_enable(void);

/** cpu_patch_smap() - put stac and clac where the code has place-holders, when the CPU has SMAP.
 * Context: once, while code is still writable. */
void cpu_patch_smap(void);

#endif
