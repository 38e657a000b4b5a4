/* SPDX-License-Identifier: MIT
 *
 * What the pools are doing, read from the scoreboards when somebody asks: as
 * JSON, as a table for people, as Prometheus text. Every number is counted from
 * the slots of that one look, never from counters that could drift apart: idle
 * + busy + starting + stopping is what is listed.
 *
 * Manager only, on its loop.
 */
#ifndef FOREBAY_SERVER_STATUS_H
#define FOREBAY_SERVER_STATUS_H

#include <jansson.h>

#include "protocol/buf.h"
#include "server/backlog.h"
#include "server/pool.h"

/* A worker is busy while any of its threads is; stopping outweighs that. */
enum status_state {
    STATUS_STARTING,
    STATUS_IDLE,
    STATUS_BUSY,
    STATUS_STOPPING,
    STATUS_STATES,
};

enum { STATUS_THREAD_STATES = SCORE_DRAINING + 1, STATUS_ALARMS = 8 };

struct status_thread {
    enum scoreboard_state state;
    uint64_t state_ms;         /* for how long */
    bool running;              /* has a request: */
    uint64_t running_ms;       /* since when */
    char line[SCORE_LINE_MAX]; /* and which, as the peer sent it; "" when it
                                  could not be read whole */
    uint64_t requests;
    uint64_t failures;
};

struct status_worker {
    unsigned slot;
    int pid; /* 0: not forked yet */
    unsigned long generation;
    enum status_state state;
    uint64_t age_ms;
    uint64_t requests;
    uint64_t failures;
    struct memory_use memory;
    const struct status_thread *thread; /* threads of them; none while it
                                           starts */
    unsigned threads;
};

/* Of one pool, or of all. */
struct status_counts {
    unsigned workers[STATUS_STATES];
    unsigned threads[STATUS_THREAD_STATES]; /* by enum scoreboard_state; of
                                               workers that have started */
    struct score_totals answered;           /* by the dead ones as well */
    uint64_t crashed, ended;                /* as in worker_history */
    struct memory_use memory;               /* workers and templates */
    uint64_t held; /* requests that wait while only reserved slots are free */
};

struct status_alarm {
    uint64_t age_ms; /* of what it is about; 0: it is so now */
    char text[900];
};

struct status_pool {
    const struct pool *pool; /* borrowed */
    const char *state;
    const struct status_worker *worker;
    unsigned workers;
    struct backlog queue[EXECUTOR_MAX_LISTENERS]; /* as pool->listeners */
    struct status_counts counts;
    struct status_alarm alarm[STATUS_ALARMS];
    unsigned alarms;
};

/* What the manager knows of itself. */
struct status_manager {
    uint64_t started_ms; /* CLOCK_MONOTONIC, as uv_now() */
    int64_t started_at;  /* in seconds since 1970 */
    bool stopping;
    const char *reload_failure; /* of the file as a whole; NULL: none */
    uint64_t reload_failed_ms;
};

struct status {
    struct status_manager manager;
    uint64_t now_ms;
    struct status_alarm alarm[1]; /* of the manager itself */
    unsigned alarms;
    struct status_pool *pool;
    unsigned pools;
    struct status_worker *worker; /* of all pools */
    struct status_thread *thread; /* of all workers */
    struct status_counts counts;  /* of all pools */
};

/* Look. It borrows from the pools: use it before the loop goes on. NULL: out of
 * memory. */
struct status *status_take(struct pool *pools, const struct status_manager *m);
void status_free(struct status *s);

/* How many workers a pool has when nothing scales it. */
unsigned status_wanted(const struct pool *p);

const char *status_state_name(enum status_state state);
const char *status_thread_state_name(enum scoreboard_state state);

/* A new reference. Bytes that peers sent are one character each, U+0001 to
 * U+00FF, whatever they are. NULL: out of memory. */
json_t *status_json(const struct status *s);

/* Append to out. 0, or -1: out of memory, or over the limit of out. */
int status_json_text(const struct status *s, struct buf *out);
int status_table(const struct status *s, struct buf *out);
int status_metrics(const struct status *s, struct buf *out);

enum status_format { STATUS_TABLE, STATUS_JSON, STATUS_METRICS };

/* Any of these three of the pools as they are now, and its media type. 0 or
 * -1. */
int status_write(struct pool *pools, const struct status_manager *m,
                 enum status_format format, struct buf *out);
const char *status_media_type(enum status_format format);

#endif
