/*
 * event.h - what the core tells a simulated machine; nothing in other builds.
 */
#ifndef VLI_EVENT_H
#define VLI_EVENT_H

#include <vellum/host.h>

#ifdef VL_EVENTS
#define VLI_EVENT(kind, a, b) vl_host_event((kind), (uint64_t)(a), (uint64_t)(b))
/* Shall this allocation be made to fail? */
#define VLI_ALLOC_FAILS() vl_host_alloc_fails()
#else
#define VLI_EVENT(kind, a, b) ((void)(a), (void)(b))
#define VLI_ALLOC_FAILS()     false
#endif

#endif
