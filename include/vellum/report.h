/*
 * report.h - the texts that an administrator reads, in Linux's formats.
 *
 * Each writes at most @size bytes, ends with a 0 byte when @size > 0, and returns the length that
 * the whole text has, so that a caller can ask first. Context: thread; may take core locks.
 */
#ifndef VELLUM_REPORT_H
#define VELLUM_REPORT_H

#include <vellum/types.h>
#include <vellum/space.h>

/** vl_report_meminfo() - /proc/meminfo. */
size_t vl_report_meminfo(char *out, size_t size);
/** vl_report_buddyinfo() - /proc/buddyinfo. */
size_t vl_report_buddyinfo(char *out, size_t size);
/** vl_report_slabinfo() - /proc/slabinfo. */
size_t vl_report_slabinfo(char *out, size_t size);
/** vl_report_vmstat() - /proc/vmstat. */
size_t vl_report_vmstat(char *out, size_t size);
/** vl_report_zoneinfo() - /proc/zoneinfo. */
size_t vl_report_zoneinfo(char *out, size_t size);
/** vl_report_maps() - one line an area of @space. */
size_t vl_report_maps(struct vl_space *space, char *out, size_t size);
/** vl_report_smaps() - the same with what is resident in each. */
size_t vl_report_smaps(struct vl_space *space, char *out, size_t size);

#endif
