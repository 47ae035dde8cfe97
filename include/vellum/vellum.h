/*
 * vellum.h - everything an embedder calls, and how the core is started.
 *
 *     vl_init();                       once, on the first CPU, interrupts may be off
 *     vl_cpu_online(cpu);              once on each further CPU, before it calls anything else
 */
#ifndef VELLUM_H
#define VELLUM_H

#include <vellum/types.h>
#include <vellum/host.h>
#include <vellum/frame.h>
#include <vellum/shrink.h>
#include <vellum/slab.h>
#include <vellum/object.h>
#include <vellum/space.h>
#include <vellum/report.h>
#include <vellum/restart.h>

/**
 * vl_init() - start the core: reads the host's ranges, builds descriptors, zones and caches.
 * Context: once, on one CPU, before any other call; interrupts may be off; does not sleep.
 * Returns: VL_OK; VL_EINVAL when the host's ranges cannot be used (a log line says why);
 * VL_ENOMEM when they are too small for the descriptors.
 */
VL_MUST_CHECK enum vl_status vl_init(void);

/** vl_cpu_online() - this CPU, @cpu, may use the core from now on. Context: that CPU, any. */
void vl_cpu_online(unsigned cpu);

/**
 * vl_drain_all() - give back everything that is kept for speed: per-CPU stocks, empty slabs,
 * cached tables. Afterwards every frame that nobody uses is counted free in its zone.
 * Context: thread; may sleep; no core lock held.
 */
void vl_drain_all(void);

/**
 * vl_selftest() - try the host functions that can be tried from inside: ranges unaligned, out of
 * order or overlapping; bootstrap buffer too small or unaligned; CPU id out of range; per-CPU
 * areas unaligned or overlapping; a clock that goes back; phys_to_virt not linear.
 * @out_hook: set to the name of the wrong function, or NULL.
 * Context: before or after vl_init(); thread.
 * Returns: VL_OK or VL_EINVAL (a log line says what was expected and what was seen).
 */
VL_MUST_CHECK enum vl_status vl_selftest(const char **out_hook);

#endif
