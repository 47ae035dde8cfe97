/*
 * space.h - what the floors above see of spaces, besides the public face.
 */
#ifndef VLI_SPACE_H
#define VLI_SPACE_H

#include <vellum/space.h>

/** vli_space_init() - caches and the zero page. vl_init() only. */
VL_MUST_CHECK enum vl_status vli_space_init(void);

#endif
