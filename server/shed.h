/* SPDX-License-Identifier: MIT
 *
 * A fast 503 for connections that nobody else will answer soon: while a pool
 * has no worker (its last ones died and the next start must wait), or, with
 * queue_timeout, while every worker has been busy for that long. The manager
 * takes what waits in the backlog, reads the head of the request and refuses.
 *
 * Manager only, on its loop.
 */
#ifndef FOREBAY_SERVER_SHED_H
#define FOREBAY_SERVER_SHED_H

#include <stdbool.h>
#include <uv.h>

struct shed;

/* Prepare for these listening sockets (duplicated); nothing is taken yet. NULL:
 * out of memory. */
struct shed *shed_open(uv_loop_t *loop, const int *listen_fd, unsigned count);

/* Begin or cease to take connections; what was taken is answered in any case.
 * Returns how many were refused since it was last asked. */
unsigned long shed_switch(struct shed *s, bool on);

/* Close everything. NULL is fine. */
void shed_close(struct shed *s);

#endif
