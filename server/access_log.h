/* SPDX-License-Identifier: MIT
 *
 * The access log as a worker writes it: one line, one write() for a request,
 * into the pipe that the manager reads (access_relay.h). Never waits: when the
 * pipe is full the line is dropped and counted.
 *
 * Worker process, any thread.
 */
#ifndef FOREBAY_SERVER_ACCESS_LOG_H
#define FOREBAY_SERVER_ACCESS_LOG_H

#include <stdatomic.h>

#include "conf/settings.h"
#include "server/access_format.h"

struct access_log {
    struct access_format *format;
    int fd;
    const char *pool;
    int worker;
    long pid;
    _Atomic unsigned long dropped; /* and not yet told */
    _Atomic uint64_t told_ns;      /* when they were told last */
};

/* fd: the pipe. NULL with a sentence in why. */
struct access_log *access_log_open(const struct pool_settings *s, int worker,
                                   int fd, char *why, size_t size);

/* Write about a request that began and ended then (clock_now_ns()). The rest of
 * e is filled in here. */
void access_log_write(struct access_log *a, struct access_entry *e,
                      uint64_t begun_ns, uint64_t ended_ns);

/* At the end of the worker: say what was not said about dropped lines. */
void access_log_end(struct access_log *a);

#endif
