/*
 * describe.c - what the sequences that programs inline (<vellum/malloc.h>) need to know.
 *
 * They are compiled for sheaves. Where the library keeps lists instead, they are shown an area
 * whose every sheaf is none: it is empty for who takes and full for who gives, so that they always
 * call the library.
 */
#include "malloc/face.h"
#include <vellum/malloc.h>

#if defined(VLI_TSAN)
void vli_area_describe(struct vl_malloc_cache *out)
{
    out->areas = NULL; /* such programs do not inline */
}
#elif defined(VLI_SHEAF_BYTES)
_Static_assert(VL_MALLOC_SHEAF_BYTES == VLI_SHEAF_BYTES, "what programs have compiled in");

void vli_area_describe(struct vl_malloc_cache *out)
{
    out->areas = (void **)(void *)&vli_areas[2];
    out->rseq = vli_rseq_offset;
}
#else
#define SHEAF_WORDS (VL_MALLOC_SHEAF_BYTES / sizeof(uintptr_t))

/* A struct rseq that Linux does not know, for area number 0. */
static _Thread_local struct vli_rseq nobody;
/* Its middle is no sheaf: aligned, so full; and empty, since there is a 0 below it. */
static const VLI_ALIGNED(VL_MALLOC_SHEAF_BYTES) uintptr_t none[2 * SHEAF_WORDS];
static const uintptr_t *sheaves[VLI_CACHES_MAX];
static void *area = sheaves;

void vli_area_describe(struct vl_malloc_cache *out)
{
    sheaves[out->index] = &none[SHEAF_WORDS];
    out->areas = &area;
    out->rseq = (int64_t)((uintptr_t)&nobody - (uintptr_t)vli_rseq_at(0));
}
#endif
