/*
 * rename.h - other names for the functions of malloc, in builds with sanitizers, which have a
 * malloc of their own: the compiler includes this before everything else, in the library and in its
 * tests. So the tests call the library, and all else in the process calls the sanitizer's.
 */
#ifndef MALLOC_RENAME_H
#define MALLOC_RENAME_H

#define malloc                              vlr_malloc
#define calloc                              vlr_calloc
#define realloc                             vlr_realloc
#define reallocarray                        vlr_reallocarray
#define free                                vlr_free
#define posix_memalign                      vlr_posix_memalign
#define aligned_alloc                       vlr_aligned_alloc
#define memalign                            vlr_memalign
#define valloc                              vlr_valloc
#define pvalloc                             vlr_pvalloc
#define malloc_usable_size                  vlr_malloc_usable_size
#define mallinfo                            vlr_mallinfo
#define mallinfo2                           vlr_mallinfo2
#define malloc_trim                         vlr_malloc_trim
#define malloc_info                         vlr_malloc_info
#define malloc_stats                        vlr_malloc_stats
#define mallopt                             vlr_mallopt
#define _Znwm                               vlr_Znwm
#define _Znam                               vlr_Znam
#define _ZnwmSt11align_val_t                vlr_ZnwmA
#define _ZnamSt11align_val_t                vlr_ZnamA
#define _ZnwmRKSt9nothrow_t                 vlr_ZnwmN
#define _ZnamRKSt9nothrow_t                 vlr_ZnamN
#define _ZnwmSt11align_val_tRKSt9nothrow_t  vlr_ZnwmAN
#define _ZnamSt11align_val_tRKSt9nothrow_t  vlr_ZnamAN
#define _ZdlPv                              vlr_ZdlPv
#define _ZdaPv                              vlr_ZdaPv
#define _ZdlPvm                             vlr_ZdlPvm
#define _ZdaPvm                             vlr_ZdaPvm
#define _ZdlPvSt11align_val_t               vlr_ZdlPvA
#define _ZdaPvSt11align_val_t               vlr_ZdaPvA
#define _ZdlPvmSt11align_val_t              vlr_ZdlPvmA
#define _ZdaPvmSt11align_val_t              vlr_ZdaPvmA
#define _ZdlPvRKSt9nothrow_t                vlr_ZdlPvN
#define _ZdaPvRKSt9nothrow_t                vlr_ZdaPvN
#define _ZdlPvSt11align_val_tRKSt9nothrow_t vlr_ZdlPvAN
#define _ZdaPvSt11align_val_tRKSt9nothrow_t vlr_ZdaPvAN

#endif
