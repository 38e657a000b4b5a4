/* SPDX-License-Identifier: MIT
 *
 * The way of access log lines through the manager: all workers of a generation
 * write them into one pipe, whole (access_log.h), and they go on to a sink as
 * they are, many at a time. Does not look into them.
 *
 * Manager only, on its loop.
 */
#ifndef FOREBAY_SERVER_ACCESS_RELAY_H
#define FOREBAY_SERVER_ACCESS_RELAY_H

#include <uv.h>

#include "server/log_sink.h"

/* Make the pipe and read it into sink (held) until the last writer has gone.
 * The end for the workers is *ret_fd, close-on-exec and non-blocking, owned by
 * the caller. 0 or -errno. */
int access_relay_open(uv_loop_t *loop, struct log_sink *sink, int *ret_fd);

/* At the end of the manager: take what is still in the pipes, and close. */
void access_relay_drain(void);

#endif
