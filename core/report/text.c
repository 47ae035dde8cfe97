/*
 * text.c - a text that grows in a buffer, and the counting of frames by kind.
 *
 * Anonymous, mapped and table pages are counted by looking at the descriptors when somebody asks,
 * instead of at each fault: the one who reads meminfo pays (64 MiB: 16,384 descriptors), not
 * everybody always.
 */
#include "core/report/text.h"
#include "core/frame/frame.h"

void vli_text_add(struct vli_text *text, const char *format, ...)
{
    size_t room = text->len < text->size ? text->size - text->len : 0;
    va_list args;

    va_start(args, format);
    text->len += vli_format(room > 0 ? text->out + text->len : NULL, room, format, args);
    va_end(args);
}

void vli_text_pad(struct vli_text *text, size_t start, size_t column)
{
    do {
        vli_text_add(text, " ");
    } while (text->len - start < column);
}

void vli_frame_kinds(struct vli_frame_kinds *out)
{
    *out = (struct vli_frame_kinds){0, 0, 0};
    for (uint32_t n = vli_frames_first; n < vli_frames_end; n++) {
        const struct vl_frame *frame = vli_frame_of((struct vl_pfn){n});

        switch (vli_frame_type(frame)) {
        case VLI_FRAME_ANON:
            out->anon++;
            break;
        case VLI_FRAME_FILE:
            out->file_mapped +=
                atomic_load_explicit(&frame->mappings, memory_order_relaxed) != 0 ? 1u : 0u;
            break;
        case VLI_FRAME_TABLE:
            out->table++;
            break;
        default:
            break;
        }
    }
}
