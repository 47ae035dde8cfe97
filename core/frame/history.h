/*
 * history.h - what happened to each frame, in debug builds and on the simulated machine; elsewhere
 * all of it compiles to nothing.
 *
 * A side array, so that the descriptor stays at 32 bytes: for each frame whether it is handed out,
 * of which order, and its last three events with the place in the code, the CPU and the time. A
 * free of what is not handed out, of what is still in use or of another order panics, and prints
 * them.
 *
 * An entry belongs to whoever holds the frame: the stocks and the zones' locks order its uses.
 */
#ifndef VLI_FRAME_HISTORY_H
#define VLI_FRAME_HISTORY_H

#include "core/frame/frame.h"

#if defined(VL_DEBUG) || defined(VL_EVENTS)
/** vli_history_bytes() - memory for @frames frames. */
size_t vli_history_bytes(size_t frames);
/** vli_history_init() - @memory of vli_history_bytes(), aligned to 8; the first one's number.
 * @is_zero: it reads as zero and shall not be touched before it is needed. */
void vli_history_init(void *memory, uint32_t first, size_t frames, bool is_zero);
/** vli_history_alloc() - a block was taken at @place in the code. */
void vli_history_alloc(struct vl_pfn pfn, unsigned order, uintptr_t place);
/** vli_history_free() - a block is given back at @place; panics when that is wrong. */
void vli_history_free(struct vl_pfn pfn, unsigned order, uintptr_t place);
/** vli_history_split() - a block that was taken counts as two halves from now on. */
void vli_history_split(struct vl_pfn pfn, unsigned order);
/** vli_history_check_free() - panics when the frame is handed out. */
void vli_history_check_free(struct vl_pfn pfn);
#else
static inline size_t vli_history_bytes(size_t frames)
{
    (void)frames;
    return 0;
}
static inline void vli_history_init(void *memory, uint32_t first, size_t frames, bool is_zero)
{
    (void)is_zero;
    (void)memory;
    (void)first;
    (void)frames;
}
static inline void vli_history_alloc(struct vl_pfn pfn, unsigned order, uintptr_t place)
{
    (void)pfn;
    (void)order;
    (void)place;
}
static inline void vli_history_free(struct vl_pfn pfn, unsigned order, uintptr_t place)
{
    (void)pfn;
    (void)order;
    (void)place;
}
static inline void vli_history_split(struct vl_pfn pfn, unsigned order)
{
    (void)pfn;
    (void)order;
}
static inline void vli_history_check_free(struct vl_pfn pfn)
{
    (void)pfn;
}
#endif

#endif
