/* SPDX-License-Identifier: MIT
 *
 * What the files of the responder share. For responder*.c only; the GIL is not
 * needed.
 */
#ifndef FOREBAY_SERVER_RESPONDER_PARTS_H
#define FOREBAY_SERVER_RESPONDER_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "server/responder.h"

/* -- responder.c ------------------------------------------------------------
 */

struct responder *responder_of(struct wsgi_io *io);

/* From now on every call gets this -errno, or the one that was first. Returns
 * it. */
int responder_fail(struct responder *r, int error);

/* Each function of the io table owns the connection between these two. */
void responder_enter(struct responder *r);
void responder_leave(struct responder *r);

/* Bytes of another request were found while the connection is ours: share it,
 * within a record of ours and without. event: what the decoder has just
 * returned. */
void responder_share(struct responder *r, bool event, enum decode_event which);

/* Wait for events until timeout_ms have passed. The events that came, or
 * -ETIMEDOUT, or -EINTR with the main thread's signal handlers to be run. */
int responder_wait_for(struct responder *r, short events, uint64_t timeout_ms);

/* -- responder_input.c ------------------------------------------------------
 */

/* Of struct wsgi_io. */
size_t responder_body_ready(struct wsgi_io *io, const char **ret);
void responder_body_take(struct wsgi_io *io, size_t n);
ssize_t responder_body_read_nogil(struct wsgi_io *io, char *out, size_t len);
ssize_t responder_data_read_nogil(struct wsgi_io *io, char *out, size_t len);

/* Read from the socket: body bytes into out where that is worth it, else
 * whatever comes into x->read, which is empty. > 0: body bytes in out; 0: look
 * at x->read; < 0: -EAGAIN, -EINTR, or the connection is over. */
ssize_t responder_read_more(struct responder *r, char *out, size_t len);

/* Empty x->read: its body bytes are kept or dropped. False when they cannot be
 * kept because the limit is reached. */
bool responder_stash(struct responder *r);

/* Once the application is done with the body: it is dropped as it comes. */
void responder_discard_body(struct responder *r);

#endif
