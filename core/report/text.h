/*
 * text.h - building the texts of report/ in a buffer that may be too small.
 */
#ifndef VLI_REPORT_TEXT_H
#define VLI_REPORT_TEXT_H

#include "core/base/log.h"

/* What was written so far; len counts on beyond size. */
struct vli_text {
    char *out;
    size_t size;
    size_t len;
};

/** vli_text_add() - append, as far as there is room. */
void vli_text_add(struct vli_text *text, const char *format, ...) VL_PRINTF(2, 3);

/** vli_text_pad() - append blanks up to @column of the line that began at @start; one at least. */
void vli_text_pad(struct vli_text *text, size_t start, size_t column);

/* Frames by what they are, counted when asked. */
struct vli_frame_kinds {
    uint64_t anon;        /* anonymous pages */
    uint64_t file_mapped; /* pages of objects that some entry maps */
    uint64_t table;       /* page-table pages */
};

/** vli_frame_kinds() - look at every descriptor: 2 a cache line, a few ns each. Context: thread. */
void vli_frame_kinds(struct vli_frame_kinds *out);

#endif
