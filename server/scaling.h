/* SPDX-License-Identifier: MIT
 *
 * How many workers a pool should have now, and which of them have done enough:
 * the policy behind scaling, min_workers ... and max_requests ... Pure: no
 * clock, no process. Manager.
 */
#ifndef FOREBAY_SERVER_SCALING_H
#define FOREBAY_SERVER_SCALING_H

#include <stdbool.h>
#include <stdint.h>

#include "conf/settings.h"

/* What the pool looks like at one moment. */
struct scaling_view {
    unsigned live;     /* workers that are starting or ready */
    unsigned starting; /* of these, not ready yet */
    unsigned idle;     /* ready, and none of their threads has a request */
    bool waiting;      /* a connection waits in a backlog */
    uint64_t longest_idle_ms; /* of the idle workers */
};

/* How many workers to start (> 0) or to let go (< 0, one at a time). target is
 * what `ctl scale` or TTIN and TTOU asked for; 0: the settings'. */
int scaling_step(const struct pool_settings *s, unsigned target,
                 const struct scaling_view *v);

/* The most workers that there can be. */
unsigned scaling_most(const struct pool_settings *s);

/* Slots that a generation needs: the most workers there can be, and those that
 * replace others meanwhile. */
unsigned scaling_slots(const struct pool_settings *s);

/* How many are started at first. */
unsigned scaling_initial(const struct pool_settings *s);

/* One worker, as the manager sees it. */
struct scaling_worker {
    uint64_t requests;
    uint64_t limit; /* max_requests with its jitter; 0: none */
    uint64_t age_ms;
    uint64_t memory_bytes; /* 0: not looked at */
};

/* Why a worker should be replaced, as a phrase for the log, or NULL. */
const char *scaling_used_up(const struct pool_settings *s,
                            const struct scaling_worker *w);

/* max_requests of one worker: jitter is added so that not all reach it at once;
 * dice is any number. 0 stays 0: never. */
uint64_t scaling_request_limit(const struct pool_settings *s, uint32_t dice);

#endif
