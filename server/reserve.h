/* SPDX-License-Identifier: MIT
 *
 * Slots kept for short requests (reserved_slots, short_paths, long_paths): a
 * pool whose threads are all taken by streams and exports still answers its
 * health check. Short is what the administrator says is short, by the path.
 *
 * A slot is a thread of any worker of the generation. A request that is not
 * short begins only while more slots than the reserved ones are left, which
 * the scoreboard tells: a mark in the slot of each thread that runs such a
 * request. (No counter: a worker that is killed would leave it wrong.) Else its
 * connection is held back, with nothing read from it yet, so that any worker
 * can take it: this one when a thread of it is idle and there is room again, or
 * through the hand-over queue (lookout.h). Only a request whose head came in
 * pieces, or whose body came late, has been read when it turns out that there
 * is no room: it waits for this worker. Requests that share a connection with
 * others (mux.h) are counted and do not wait.
 *
 * Worker process; GIL not needed. Without the setting there is nothing of all
 * this: worker.reserve is NULL.
 */
#ifndef FOREBAY_SERVER_RESERVE_H
#define FOREBAY_SERVER_RESERVE_H

#include <stdbool.h>

#include "server/executor.h"

struct reserve;

/* Sets w->reserve, NULL when the pool reserves nothing. 0 or -errno. */
int reserve_open(struct worker *w);

/* The descriptor (a timer) that an executor is to wait for, and what it does
 * when that is readable: looks after what is held back. */
int reserve_timer(const struct reserve *r);
void reserve_tick(struct executor *x);

/* Is it short, or is there room for it at the moment? */
bool reserve_has_room(const struct worker *w, const struct request *request);

/* The same, and then this thread is marked until reserve_leave(). */
bool reserve_enter(struct executor *x, const struct request *request);
void reserve_leave(struct executor *x);

/* Has the connection been held back for longer than queue_timeout? */
bool reserve_is_late(const struct worker *w, const struct connection *c);

/* Hold back an owned connection: its request waits unread in the socket, or
 * (c->saved) has been read, and then it cannot go to a sibling. It belongs to
 * w->reserve from now on. */
void reserve_hold(struct executor *x, struct connection *c);

/* Every executor is busy: as many of the connections as there is room for go to
 * the siblings. The control thread. */
void reserve_pass_on(struct worker *w);

#endif
