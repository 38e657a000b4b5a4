/* SPDX-License-Identifier: MIT
 *
 * The response on its way out: head, body, Content-Length, the end. Internal to
 * python/. GIL held unless the name says otherwise; given up while bytes are
 * sent.
 *
 * Failed writes are no exceptions here: they are kept in c->out.error, and
 * every later call fails in the same way. write() makes an OSError of them.
 */
#ifndef FOREBAY_PYTHON_OUTPUT_H
#define FOREBAY_PYTHON_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "python/pyref.h"

struct call;
struct output;

/* Send a piece of the body behind the head, which goes first if it has not been
 * sent. Bytes beyond Content-Length are dropped and logged; the write that
 * reaches it is the last one. For HEAD, 204 and 304 only the head is sent.
 * Inside the gate; data is kept alive by the caller. 0 or -errno. */
int output_send(struct call *c, const char *data, size_t len);

/* As output_send() for the executor, which is not inside the gate. */
int output_chunk(struct call *c, PyObject *bytes);

/* The whole body: the items of an exact list or tuple. Small ones are left
 * pending. 0, or -1 with an exception set: an item is no bytes,
 * start_response() was not called, nothing was produced of a declared body. */
int output_items(struct call *c, PyObject *sequence) PY_RAISES_NEG;

/* The whole body is len bytes of a regular file. 0 or -1 as output_items(). */
int output_file(struct call *c, int fd, off_t offset,
                uint64_t len) PY_RAISES_NEG;

/* The body is over: send what is missing of the response. 0 or -1 as
 * output_items(). */
int output_end(struct call *c) PY_RAISES_NEG;

/* 0, or -1 with an exception set when there is no status to send. */
int output_need_head(struct call *c) PY_RAISES_NEG;

/* A response of the server's own instead of one that has not begun; left
 * pending. */
void output_simple(struct call *c, int status);

/* Send what is pending. */
void output_pending(struct call *c);
void output_pending_nogil(struct call *c);

/* The head was sent, but fewer bytes than its Content-Length. */
bool output_is_short(const struct output *o);

#endif
