/*
 * restart.h - the table of restartable ranges (include/vellum/restart.h says what they are).
 */
#ifndef VLI_RESTART_H
#define VLI_RESTART_H

#include <vellum/restart.h>

/** vli_restart_init() - find the bounds. Context: vl_init(), before anything enters a range. */
void vli_restart_init(void);

#endif
