/* SPDX-License-Identifier: MIT
 *
 * Where lines end up: descriptor 2, a file, a FIFO, syslog, journald. One
 * struct log_sink per target, whoever shares it: a bounded queue in memory and
 * one write at a time, so that lines stay whole and in order.
 *
 * Nothing here waits. Files and the journal are written on libuv's thread pool,
 * since a disk may take its time; what can be asked whether it has room
 * (terminals, pipes, syslog's socket) is written from the loop. When the queue
 * is full, lines are dropped, counted, and the number is told when there is
 * room again. A target that fails (full disk) is tried again each second, and
 * keeps what fits into the queue.
 *
 * Manager only, on its loop.
 */
#ifndef FOREBAY_SERVER_LOG_SINK_H
#define FOREBAY_SERVER_LOG_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "server/log.h"

enum { LOG_SINK_QUEUE_MAX = 8 * 1024 * 1024 };

/* Begins with its struct log_output. */
struct log_sink;

/* The sink of a target: "stderr", "syslog", "journald", or the path of a file,
 * which is made if it is not there. The same target gives the same sink, once
 * more held. NULL with a sentence in why. */
struct log_sink *log_sink_open(uv_loop_t *loop, const char *target, char *why,
                               size_t size);

/* One holder more, or less; NULL is fine. The last one that lets go closes it
 * when what is queued has been written. */
struct log_sink *log_sink_hold(struct log_sink *s);
void log_sink_release(struct log_sink *s);

struct log_output *log_sink_output(struct log_sink *s);

/* Add whole lines that need no prefix. */
void log_sink_add(struct log_sink *s, const char *lines, size_t len);

/* Open every file anew (USR1, log-reopen), after a rename by logrotate and the
 * like: lines that are added from here on are in the new file and in no other.
 * What cannot be opened goes on in the old file. done (or NULL) is called once,
 * when all are changed: why is NULL, or a sentence about the last one that
 * could not be opened. */
void log_sink_reopen(void (*done)(const char *why, void *ctx), void *ctx);

/* At the end: write what is queued, for at most timeout_ms, and close all sinks
 * (the loop runs once more for that). Lines that are lost are told on
 * descriptor
 * 2. False: a thread still writes, and exit() would wait for it. */
bool log_sink_finish(uv_loop_t *loop, unsigned timeout_ms);

#endif
