/*
 * space_util.h - what tests of spaces and objects share: a machine with one space, and shorthands
 * that must succeed.
 */
#ifndef SPACE_UTIL_H
#define SPACE_UTIL_H

#include <vellum/vellum.h>

/** free_frames() - free frames after everything cached was given back. */
uint64_t free_frames(void);
/** machine_on() - a machine of @mib MiB and @cpus CPUs; its free frames are remembered. */
void machine_on(unsigned mib, unsigned cpus);
/** machine_off() - fails the test unless as many frames are free as after machine_on(). */
void machine_off(void);
/** space_on() - machine_on(64, 1) and a space that this CPU runs. */
struct vl_space *space_on(void);
/** space_off() - validates and ends it, then machine_off(). */
void space_off(struct vl_space *space);
/** map_anon() - private anonymous memory; @at 0: anywhere, else fixed. */
vl_va map_anon(struct vl_space *space, vl_va at, size_t len, uint32_t prot);
/** map_object() - @len bytes of an object from @offset on. */
vl_va map_object(struct vl_space *space, struct vl_object *object, uint64_t offset, size_t len,
                 uint32_t prot, enum vl_map_kind kind);
/** object_new() - a file object of @pages pages, page i filled with words i + 1. */
struct vl_object *object_new(uint64_t pages);
/** object_word() - the word at byte @offset of the object; 0 for a hole. */
uint64_t object_word(struct vl_object *object, uint64_t offset);
/** object_write() - sets it. */
void object_write(struct vl_object *object, uint64_t offset, uint64_t value);
/** usage() - of the space now. */
struct vl_space_usage usage(struct vl_space *space);
/** area_is() - fails the test unless the area at @va is exactly [@start, @end) with @prot. */
void area_is(struct vl_space *space, vl_va va, vl_va start, vl_va end, uint32_t prot);

#endif
