/* SPDX-License-Identifier: MIT
 *
 * The log of all processes, written by one: the manager reads the pipes behind
 * the descriptors 1 and 2 of templates and workers, puts lines together, and
 * writes them with time, level, pool and pid in front. A log that nobody reads
 * never blocks anybody: what does not fit is dropped and counted.
 *
 * Manager only, on its loop.
 */
#ifndef FOREBAY_SERVER_LOG_RELAY_H
#define FOREBAY_SERVER_LOG_RELAY_H

#include <stdbool.h>
#include <uv.h>

enum {
    LOG_RELAY_LINE_MAX = 1024 * 1024,      /* longer lines are broken */
    LOG_RELAY_QUEUE_MAX = 8 * 1024 * 1024, /* waiting to be written */
};

/* From now on the manager's own lines and all relayed ones go through one
 * bounded queue to descriptor 2. */
void log_relay_start(uv_loop_t *loop);

/* Write what is queued, for at most timeout_ms, and end. */
void log_relay_finish(unsigned timeout_ms);

/* One pipe. pool is copied; pid is set later where it is not known yet. */
struct log_source;
struct log_source *log_source_open(uv_loop_t *loop, int fd, const char *pool);
void log_source_pid(struct log_source *s, int pid);

/* Sources close themselves when the last holder of the pipe's other end has
 * gone. At the end of the manager: take what is still in them, and close. */
void log_relay_drain(void);

#endif
