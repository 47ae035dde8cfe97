/*
 * poll.h - waiting for several files at once.
 *
 * A file's poll function names each wait queue that may change its answer by poll_wait_on(), and
 * then answers. The first round over all files queues the caller; once one of them is ready, or in
 * later rounds, poll_wait_on() does nothing.
 */
#ifndef KERNEL_FS_POLL_H
#define KERNEL_FS_POLL_H

#include "kernel/sched/wait.h"

#define POLLIN     0x0001u
#define POLLPRI    0x0002u
#define POLLOUT    0x0004u
#define POLLERR    0x0008u
#define POLLHUP    0x0010u
#define POLLNVAL   0x0020u
#define POLLRDNORM 0x0040u
#define POLLRDBAND 0x0080u
#define POLLWRNORM 0x0100u
#define POLLWRBAND 0x0200u
#define POLLRDHUP  0x2000u

struct file;
struct poll_wait;

/** poll_wait_on() - be woken by @queue; @wait may be NULL: only the answer is wanted. */
void poll_wait_on(struct poll_wait *wait, struct wait_queue *queue);

/** file_poll() - what @file is ready for: POLL* bits. */
unsigned file_poll(struct file *file, struct poll_wait *wait);

#endif
