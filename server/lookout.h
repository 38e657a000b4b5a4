/* SPDX-License-Identifier: MIT
 *
 * The control thread of a worker: while every executor is busy with a request
 * for longer than a moment, it watches the parked connections in their place
 * and passes those that become readable to a sibling (handover.h). So one slow
 * request delays no other while any worker is idle. Started when the worker
 * first parks a connection; never runs Python; asleep while nothing happens.
 *
 * Worker process.
 */
#ifndef FOREBAY_SERVER_LOOKOUT_H
#define FOREBAY_SERVER_LOOKOUT_H

#include "server/executor.h"

/* An executor parks a connection: from the first time on there is a thread.
 * Any executor thread. */
void lookout_parked(struct worker *w);

/* An executor begins a request: wakes the thread if it sleeps (at most once in
 * LOOKOUT_REST_MS). Any executor thread. */
void lookout_begin(struct worker *w);

/* An executor has ended a request, or waits again: takes the listeners back
 * from a thread that has stood in. Any executor thread. */
void lookout_end(struct worker *w);

#endif
