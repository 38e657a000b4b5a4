/* SPDX-License-Identifier: MIT
 *
 * The children of a template: forks them when the manager says so, passes on
 * what they say, reaps them, stops them. What a child becomes is the caller's:
 * a Python worker (template.c) or an external program (program.c). One thread,
 * one poll loop; no signals between processes. When the manager's channel
 * closes the children finish what they have, under graceful_timeout, and the
 * template ends.
 */
#ifndef FOREBAY_SERVER_NURSERY_H
#define FOREBAY_SERVER_NURSERY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct nursery_ops {
    /* As fork(). */
    pid_t (*fork)(void *ctx);
    /* In the child, which has only its own end of channel and its log pipe of
     * what the nursery holds. Never returns. */
    void (*become)(void *ctx, int slot, int channel, int log_fd);
    /* All children are being stopped, for good: let go of what they listened
     * on. May be NULL. */
    void (*stopping)(void *ctx);
    /* Signal that asks a child to end, or 0: CHANNEL_STOP on its channel. */
    int stop_signal;
    /* A child is ready when it still runs some moments after its end of the
     * channel closed (at exec): it cannot say so itself. */
    bool ready_at_close;
};

struct nursery_child {
    pid_t pid; /* 0: free */
    int pidfd;
    int channel;          /* -1 once the child closed it */
    bool failed;          /* it said so */
    bool told;            /* to end */
    uint64_t ready_at_ns; /* it counts as ready from then on; 0: no such time */
};

struct nursery {
    const struct nursery_ops *ops;
    void *ctx;
    int channel;    /* to the manager; -1: it is gone */
    unsigned slots; /* children at most */
    uint64_t graceful_ms;
    bool kill_group; /* kill what a child has started as well */

    struct nursery_child *child;
    unsigned children;
    bool stopping;
    int siblings;          /* value of the last CHANNEL_STOP */
    uint64_t remind_at_ns; /* of the stop_signal; 0: nobody has been told */
    uint64_t kill_at_ns;   /* after the manager is gone; 0: no such time */
};

/* Fill in the rest of *n. 0, or -1: out of memory. */
int nursery_init(struct nursery *n);

/* Obey until told to stop (or the manager is gone) and no child is left. */
void nursery_run(struct nursery *n);

#endif
