/* SPDX-License-Identifier: MIT
 *
 * The control thread of a worker, with two duties.
 *
 * While every executor is busy with a request for longer than a moment, it
 * watches the parked connections in their place and passes those that become
 * readable to a sibling (handover.h): one slow request delays no other while
 * any worker is idle. From the first parked connection on.
 *
 * It measures the running requests against slow_request and request_timeout
 * (overtime.h). From the start, when the pool has these.
 *
 * Never runs Python; asleep while nothing happens.
 *
 * Worker process.
 */
#ifndef FOREBAY_SERVER_LOOKOUT_H
#define FOREBAY_SERVER_LOOKOUT_H

#include "server/executor.h"

/* An executor parks a connection: from the first time on there is a thread.
 * Any executor thread. */
void lookout_parked(struct worker *w);

/* A connection is going to be lent (conntable.h) whose body has not ended: what
 * comes is most likely for the thread that has lent it. When that has not read
 * for a moment, somebody else is to look. Any executor thread. */
void lookout_watch(struct worker *w, const struct connection *c);

/* An event of a connection that is lent was not followed: make it again. By the
 * thread that has lent it. */
void lookout_rearm(struct worker *w, const struct connection *c);

/* The worker starts: a thread is there at once if the pool has deadlines. */
void lookout_start(struct worker *w);

/* An executor begins a request: wakes the thread if it sleeps (at most once in
 * LOOKOUT_REST_MS). Any executor thread. */
void lookout_begin(struct worker *w);

/* An executor has ended a request, or waits again: takes the listeners back
 * from a thread that has stood in. Any executor thread. */
void lookout_end(struct worker *w);

#endif
