/* SPDX-License-Identifier: MIT
 *
 * slow_request and request_timeout inside the worker: the first writes the
 * request, its age and the Python stack of its thread to the log, the second
 * raises forebay.RequestTimeout in it. Where neither helps the manager kills
 * the worker (supervise.h). Time for the head and the body of a request counts
 * by clocks of its own (connection.c, responder.c), and so does work after the
 * response (after_timeout).
 *
 * Worker process, on the control thread.
 */
#ifndef FOREBAY_SERVER_OVERTIME_H
#define FOREBAY_SERVER_OVERTIME_H

#include "server/executor.h"

/* Has the pool such limits? */
bool overtime_is_on(const struct worker *w);

/* Prepare; by the main thread with the GIL held. 0 or -1 (logged). */
int overtime_setup(struct worker *w);

/* Look at every executor. */
void overtime_check(struct worker *w);

#endif
