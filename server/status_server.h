/* SPDX-License-Identifier: MIT
 *
 * Status, metrics and ping, answered by the manager itself, so that they come
 * however busy the workers are: over FastCGI, SCGI or HTTP/1.x, whichever the
 * client begins with. The last part of the path says which:
 *
 *     /status        the table        /metrics   for Prometheus
 *     /status?json   as JSON          /ping      "pong"
 *
 * Manager only, on its loop.
 */
#ifndef FOREBAY_SERVER_STATUS_SERVER_H
#define FOREBAY_SERVER_STATUS_SERVER_H

#include <stddef.h>
#include <uv.h>

#include "protocol/buf.h"
#include "server/listener.h"
#include "server/status.h"

struct status_source {
    void *ctx;
    /* 0, or -1: it cannot be had (no memory). */
    int (*write)(void *ctx, enum status_format format, struct buf *out);
};

struct clients;

/* Serve on these sockets (taken over, also on failure); source is borrowed.
 * NULL: out of memory. clients_close() ends it. */
struct clients *status_server_open(uv_loop_t *loop, struct listener *l,
                                   unsigned count,
                                   const struct status_source *source);

#endif
