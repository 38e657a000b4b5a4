/* SPDX-License-Identifier: MIT
 *
 * The bytes of a request as nginx sends them for a browser. Pure.
 */
#ifndef FOREBAY_BENCH_LOAD_REQUEST_H
#define FOREBAY_BENCH_LOAD_REQUEST_H

#include "bench/load.h"
#include "protocol/buf.h"

/* Made once and sent again and again. */
struct load_request {
    struct buf bytes; /* owned: head and body */
    size_t port_at;   /* where the 5 digits of REMOTE_PORT are; 0: nowhere */
    const char *body; /* the body without framing, owned; NULL without one */
    size_t body_bytes;
};

/* Make the request for uri. 0, or -1: out of memory. */
int load_request_init(struct load_request *q, const struct load_options *o,
                      const char *uri);
void load_request_release(struct load_request *q);

/* Every client has another port: no server gains by remembering the value. The
 * port is written into the bytes in place; a request that is being sent at this
 * moment has either port, both are right. */
void load_request_next_port(struct load_request *q);

#endif
