/*
 * poll_loop.h - the loop that poll, select and epoll share.
 */
#ifndef KERNEL_FS_POLL_LOOP_H
#define KERNEL_FS_POLL_LOOP_H

#include "kernel/fs/poll.h"
#include "kernel/fs/vfs.h"

#define WAITERS_FIRST 12u
#define WAITERS_CHUNK 64u

struct waiter_chunk;

struct poll_waiter {
    struct waiter waiter;
    struct file *file; /* counted */
};

struct poll_wait {
    unsigned count;   /* waiters in use */
    bool is_queueing; /* the first round, and nothing was ready yet */
    bool is_short;    /* there was no memory for a waiter */
    struct waiter_chunk *chunks;
    struct file *file; /* being asked now */
    struct poll_waiter first[WAITERS_FIRST];
};

void poll_wait_begin(struct poll_wait *wait);
/** poll_wait_end() - leave all queues. */
void poll_wait_end(struct poll_wait *wait);

/* Look at all files. Returns: how many are ready; a negated errno ends the loop. */
typedef long poll_look_fn(void *arg, struct poll_wait *wait);

/**
 * poll_loop() - look until something is ready.
 * @deadline_ns: on clock_ns(); 0: look once; WAIT_FOREVER.
 * Returns: what @look returned last, 0 when the time was over; -EINTR.
 */
long poll_loop(poll_look_fn *look, void *arg, uint64_t deadline_ns);

#endif
