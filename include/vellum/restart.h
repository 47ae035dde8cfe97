/*
 * restart.h - restartable ranges: a few instructions that an interrupt sends back to their start.
 *
 * A range of core code reads words of this CPU, and its last instruction is the one store that
 * makes the change. Interrupted anywhere before that store, it must not go on with what it has
 * read: the interrupt may have changed those words, or the thread may run on another CPU
 * afterwards. So whoever handles the interrupt changes the interrupted address, and the range
 * begins anew. A stack's push and pop cost a plain load and store this way: no
 * compare-and-exchange, interrupts on.
 *
 * A host that promises this defines VL_HOST_RESTART (host.h says where), and at each interrupt that
 * came from kernel mode, before anything that may use the core or switch threads, does
 *
 *     frame->ip = vl_restart(frame->ip);
 *
 * The core notes its ranges in the section `vl_restart`, which a linker script must keep whole; if
 * it gives the section's contents another output section, it defines __start_vl_restart and
 * __stop_vl_restart around them.
 */
#ifndef VELLUM_RESTART_H
#define VELLUM_RESTART_H

#include <vellum/types.h>

/* From the first range's start to the last one's end. Set by vl_init(). */
struct vl_restart_bounds {
    uintptr_t start;
    uintptr_t bytes;
};
extern struct vl_restart_bounds vl_restart_bounds;

/** vl_restart_find() - vl_restart() where @ip lies within the bounds. Context: any. */
uintptr_t vl_restart_find(uintptr_t ip);

/**
 * vl_restart() - where code that was interrupted at @ip, the address of its next instruction, goes
 * on: at the start of the range that @ip is inside of, otherwise at @ip.
 *
 * Never needed for an exception that the interrupted instruction raised itself, since no
 * instruction of a range raises any. A debugger that steps through a range does not restart it
 * either, or it would never leave it.
 *
 * Context: any. Cost: a load, a subtraction and a comparison outside of the bounds; within them, a
 * walk through the ranges.
 */
static inline uintptr_t vl_restart(uintptr_t ip)
{
    return ip - vl_restart_bounds.start < vl_restart_bounds.bytes ? vl_restart_find(ip) : ip;
}

#endif
