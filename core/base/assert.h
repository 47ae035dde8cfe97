/*
 * assert.h - VL_ASSERT is O(1) and stays on in every build; VL_ASSERT_SLOW only in debug builds.
 * Both are for our own broken invariants: an embedder's or a user's mistake returns an error.
 */
#ifndef VLI_ASSERT_H
#define VLI_ASSERT_H

#include "core/base/compiler.h"

/** vli_assert_failed() - panics with the place and the text. Context: any. */
_Noreturn VLI_COLD void vli_assert_failed(const char *file, int line, const char *text);

#define VL_ASSERT(c) (VLI_LIKELY(c) ? (void)0 : vli_assert_failed(__FILE__, __LINE__, #c))

#ifdef VL_DEBUG
#define VL_ASSERT_SLOW(c) VL_ASSERT(c)
#else
#define VL_ASSERT_SLOW(c) ((void)sizeof(c))
#endif

#endif
