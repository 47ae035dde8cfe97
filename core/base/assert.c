/*
 * assert.c - where a broken invariant ends.
 */
#include "core/base/assert.h"
#include "core/base/log.h"

void vli_assert_failed(const char *file, int line, const char *text)
{
    vli_panic("%s:%d: broken: %s", file, line, text);
}
