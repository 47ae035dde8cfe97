/*
 * slab_percpu_state.h (sheaf) - what one CPU keeps of each object cache: two sheaves.
 *
 * A sheaf is a block of VLI_SHEAF_BYTES, aligned to its size, that holds addresses of free units.
 * A word here points just beyond the last address that the sheaf holds, so it is both the sheaf's
 * name and its fill, and one store changes it:
 *
 *      block                  lowest                top                    block + bytes
 *      | (unused) |     0     | unit | unit | unit  |                      |
 *
 * The word below the lowest place is 0: who finds it there knows that the sheaf is empty. A sheaf
 * whose top is a multiple of VLI_SHEAF_BYTES is full. So neither taking nor giving loads a bound.
 * No sheaf at all is VLI_SHEAF_NONE, which is empty for who takes and full for who gives.
 */
#ifndef VLI_SLAB_PERCPU_STATE_H
#define VLI_SLAB_PERCPU_STATE_H

#include <stdatomic.h>
#include <vellum/types.h>

/* Caches that can exist at once, kmalloc's among them. */
#define VLI_CACHES_MAX 128u

/* A process has many objects of few sizes, and comes here by a call each time: larger sheaves are
 * exchanged more seldom. Part of <vellum/malloc.h>'s binary interface. */
#if defined(VL_HOST_RSEQ)
#define VLI_SHEAF_BYTES 2048u
#else
#define VLI_SHEAF_BYTES 512u
#endif
#define VLI_SHEAF_WORDS (VLI_SHEAF_BYTES / 8u)

/* No top: what a swap returns where the CPU must keep no sheaf now. */
#define VLI_SHEAF_STOPPED ((uintptr_t)1)

/* Which of the two. */
enum vli_sheaf_which { VLI_SHEAF_TOP, VLI_SHEAF_SPARE, VLI_SHEAF_WHICH };

struct vli_slab_percpu {
    /* [VLI_SHEAF_TOP]: in use. [VLI_SHEAF_SPARE]: to change with when that is full or empty. */
    _Atomic uintptr_t sheaf[VLI_SHEAF_WHICH][VLI_CACHES_MAX];
};

#endif
