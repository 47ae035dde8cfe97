/*
 * restart.c - which range an interrupted address lies in.
 *
 * arch/restart.h writes an entry for each range into the section `vl_restart`, beside the code. An
 * entry is relative to itself, so that the table needs no relocation and may be read-only wherever
 * the image is loaded; code and table are within 2 GiB of each other in every code model that the
 * core is built for. The linker supplies the bounds of the table; they are weak, since an image
 * without ranges has no such section.
 *
 * An address strictly between a range's start and its end is inside: at the start nothing has been
 * done, at the end all of it. The ranges are few (each inlined copy of a primitive is one) and the
 * bounds close about them, so a plain walk does.
 */
#include "core/base/restart.h"
#include "core/base/assert.h"
#include "core/base/compiler.h"

struct entry {
    int32_t start; /* of the range, counted from this field */
    uint32_t bytes;
};

extern const struct entry __start_vl_restart[] VLI_WEAK VLI_HIDDEN;
extern const struct entry __stop_vl_restart[] VLI_WEAK VLI_HIDDEN;

struct vl_restart_bounds vl_restart_bounds;

static uintptr_t start_of(const struct entry *entry)
{
    return (uintptr_t)entry + (uintptr_t)(intptr_t)entry->start;
}

uintptr_t vl_restart_find(uintptr_t ip)
{
    for (const struct entry *entry = __start_vl_restart; entry != __stop_vl_restart; entry++) {
        uintptr_t start = start_of(entry);

        if (ip > start && ip - start < entry->bytes) {
            return start;
        }
    }
    return ip;
}

void vli_restart_init(void)
{
    uintptr_t start = UINTPTR_MAX;
    uintptr_t end = 0;

    for (const struct entry *entry = __start_vl_restart; entry != __stop_vl_restart; entry++) {
        uintptr_t first = start_of(entry);

        VL_ASSERT(entry->bytes > 0);
        start = first < start ? first : start;
        end = first + entry->bytes > end ? first + entry->bytes : end;
    }
    vl_restart_bounds.start = start;
    vl_restart_bounds.bytes = end > start ? end - start : 0;
}
