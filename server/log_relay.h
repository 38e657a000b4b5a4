/* SPDX-License-Identifier: MIT
 *
 * The log of all processes, written by one: the manager reads the pipes behind
 * the descriptors 1 and 2 of templates and workers, puts lines together, those
 * of each thread by themselves (log_pipe.h: LOG_MARK), and gives them to a sink
 * (log_sink.h) with time, level, pool and pid in front.
 *
 * Manager only, on its loop.
 */
#ifndef FOREBAY_SERVER_LOG_RELAY_H
#define FOREBAY_SERVER_LOG_RELAY_H

#include <uv.h>

#include "server/log_sink.h"

enum {
    LOG_RELAY_LINE_MAX = 1024 * 1024, /* longer lines are broken */
    LOG_RELAY_PATIENCE_MS = 2000,     /* for the rest of a line */
};

/* One pipe, which this closes. pool is copied; lines wait a little for the pid,
 * which the caller learns later. They go to log, reports about slow requests to
 * slow (both are held; NULL: log, and where the manager's own go). */
struct log_source;
struct log_source *log_source_open(uv_loop_t *loop, int fd, const char *pool,
                                   struct log_sink *log, struct log_sink *slow);
/* s may have closed itself meanwhile. */
void log_source_pid(struct log_source *s, int pid);

/* Sources close themselves when the last holder of the pipe's other end has
 * gone. At the end of the manager: take what is still in them, and close. */
void log_relay_drain(void);

#endif
