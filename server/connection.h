/* SPDX-License-Identifier: MIT
 *
 * One accepted socket from its first byte to its close: read, decode, run what
 * is complete, finish or park. No thread waits here for a peer that has nothing
 * to say; only a running request waits (responder.h), with a deadline.
 *
 * Worker process, by the thread that owns the connection; GIL not held.
 */
#ifndef FOREBAY_SERVER_CONNECTION_H
#define FOREBAY_SERVER_CONNECTION_H

#include "server/executor.h"

/* Serve an owned connection as far as it goes without waiting; parks or closes
 * it: the caller does not own it any more. */
void connection_serve(struct executor *x, struct connection *c);

/* Its deadline has passed, or the worker is stopping: answer what is half
 * there (408), close what is idle, park the rest again. Owned on entry, not on
 * return. */
void connection_expire(struct executor *x, struct connection *c,
                       uint64_t now_ns);

/* A request of a shared connection (mux.h) that a thread has taken. */
void connection_run_stream(struct executor *x, struct stream *s);

/* Owner of a shared connection: decode what is there, park or close it. ready:
 * streams that are ready already and have nobody. */
void connection_look_after(struct executor *x, struct connection *c,
                           unsigned ready);

/* Owner: have its events from now on. False: that cannot be. */
bool connection_register(struct worker *w, struct connection *c);

/* Owner: it stands between two requests. */
bool connection_is_idle(const struct connection *c);

/* Pass an owned connection that stands between two requests to a sibling. 0:
 * it is gone; -EAGAIN or another -errno: it is still owned by the caller. Any
 * thread. */
int connection_give_away(struct worker *w, struct connection *c);

#endif
