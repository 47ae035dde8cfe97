/*
 * smap.h - place-holders for stac and clac within inline assembly (features.c fills them in
 * when the CPU has SMAP). entry.S has its own.
 */
#ifndef KERNEL_CPU_SMAP_H
#define KERNEL_CPU_SMAP_H

#define SMAP_SITE(section)                                                                         \
    "771: .byte 0x0f, 0x1f, 0x00\n\t"                                                              \
    ".pushsection " section ", \"a\"\n\t"                                                          \
    ".long 771b - .\n\t"                                                                           \
    ".popsection\n\t"
#define STAC SMAP_SITE(".stac_sites")
#define CLAC SMAP_SITE(".clac_sites")

#endif
